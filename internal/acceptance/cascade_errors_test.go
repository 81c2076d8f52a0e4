package acceptance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// soon is when an error is there, also on a busy machine: a broken connection is tried again for three seconds. By
// default that would be a minute.
const soon = 30 * time.Second

// Whatever stands between the provider and the broker is one error, within seconds, that names the
// object and says what to do. It is the same for a create, a refresh and a destroy.
func TestAccOneErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		broker  func(v *harness.Vhost) brokertest.Broker
		vhost   string
		says    []string
		notRead bool // a refresh does without
	}{
		"wrong password": {
			broker: func(v *harness.Vhost) brokertest.Broker {
				b := *v.Broker
				b.Password = "not-the-password"
				return b
			},
			says: []string{`refused user "guest"`, "Check username and password, or RABBITMQ_USERNAME and " +
				"RABBITMQ_PASSWORD"},
		},
		"closed port": {
			broker: func(v *harness.Vhost) brokertest.Broker {
				b := *v.Broker
				b.Endpoint = "http://" + closedPort
				return b
			},
			says: []string{"connection refused", "Check that the broker runs, that its management plugin is " +
				"enabled, and the port in endpoint; the default is 15672"},
		},
		"no management API": {
			broker: func(v *harness.Vhost) brokertest.Broker {
				b := *v.Broker
				b.Endpoint = serve(v.T, func(w http.ResponseWriter, _ *http.Request) {
					fmt.Fprint(w, "<html>It works!</html>")
				})
				return b
			},
			says: []string{"is not what RabbitMQ sends", "it has to be the base URL of the management API, without " +
				"/api, by default on port 15672"},
		},
		"wrong path": {
			broker: func(v *harness.Vhost) brokertest.Broker { b := *v.Broker; b.Endpoint += "/elsewhere"; return b },
			says:   []string{"/elsewhere; it has to be the base URL of the management API, without /api"},
		},
		"another server's 404": {
			broker: func(v *harness.Vhost) brokertest.Broker {
				b := *v.Broker
				b.Endpoint = serve(v.T, http.NotFound)
				return b
			},
			says: []string{"404 Not Found", "it has to be the base URL of the management API"},
		},
		"the AMQP port": {
			broker: func(v *harness.Vhost) brokertest.Broker {
				b := *v.Broker
				b.Endpoint = "http://" + hostAndPort(b.AMQPURI)
				return b
			},
			says: []string{"is a port for AMQP", "it has to be the base URL of the management API, without /api, by " +
				"default on port 15672"},
		},
		"no such vhost": {
			broker:  func(v *harness.Vhost) brokertest.Broker { return *v.Broker },
			vhost:   "nowhere/at all",
			says:    []string{`find vhost "nowhere/at all"`, "Create it before, or check the attribute vhost"},
			notRead: true,
		},
		"no permissions in the vhost": {
			broker: func(v *harness.Vhost) brokertest.Broker { return v.User("management", nil) },
			says:   []string{"may not ", "The user needs permissions in this vhost: rabbitmqctl set_permissions"},
		},
		"no management tag": {
			broker: func(v *harness.Vhost) brokertest.Broker { return v.User("", &everything) },
			says:   []string{"may not ", "The user needs the tag management: rabbitmqctl set_user_tags"},
		},
		"no permission to configure": {
			broker: func(v *harness.Vhost) brokertest.Broker {
				return v.User("management", &rabbithole.Permissions{Configure: "^other", Write: ".*", Read: ".*"})
			},
			says:    []string{`declare exchange "t.`, "may not ", "This takes configure "},
			notRead: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			b := is.broker(v)
			configuration := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 3}
			named := []string{`cascade with entry exchange "t.delay-02" in vhost "` + v.Name + `"`}
			if is.vhost != "" {
				configuration["vhost"] = is.vhost
				named = []string{`cascade with entry exchange "t.delay-02" in vhost "` + is.vhost + `"`}
			}

			p := harness.NewProtocol(t, &b, harness.Attributes{"retry_timeout": "3s"})
			mustFail(t, "create", append(named, is.says...),
				func() []*tfprotov6.Diagnostic { return p.Apply(t.Context(), p.Plan(t.Context(), configuration)) })
			if !p.State.IsNull() {
				t.Errorf("the failed create leaves in the state: %s", p.State)
			}
			v.MustHold(topology.New())
			if !is.notRead {
				good := harness.NewProtocol(t, v.Broker, nil)
				good.MustApply(configuration)
				before := v.Objects()
				p.State, p.Private = good.State, good.Private
				mustFail(t, "refresh", append(named, is.says...),
					func() []*tfprotov6.Diagnostic { return p.Refresh(t.Context()) })
				mustFail(t, "destroy", append(named, is.says...),
					func() []*tfprotov6.Diagnostic { return p.Apply(t.Context(), p.Plan(t.Context(), nil)) })
				v.MustHold(before)
				good.MustApply(nil)
			}

			resource.Test(t, resource.TestCase{
				ProtoV6ProviderFactories: harness.Providers,
				Steps: []resource.TestStep{{
					Config: strings.Replace(harness.WithProvider(&b,
						"resource \"rabbitmqdelay_cascade\" \"t\" {\n%s}\n", arguments(t, configuration)), "{\n",
						"{\n  retry_timeout = \"3s\"\n", 1),
					ExpectError: harness.Saying(is.says[len(is.says)-1]),
				}},
			})
		})
	}
}

// mustFail checks that there is one error, soon, and what it says.
func mustFail(t testing.TB, operation string, says []string, do func() []*tfprotov6.Diagnostic) {
	t.Helper()
	started := time.Now()
	diagnostics := do()
	if took := time.Since(started); took > soon {
		t.Errorf("the error of the %s took %s", operation, took)
	}
	text := harness.ErrorText(diagnostics)
	if len(diagnostics) != 1 || text == "" {
		t.Errorf("the %s gives %d diagnostics, want one error: %s", operation, len(diagnostics), text)
	}
	harness.MustSay(t, "the error of the "+operation, text, says...)
	if strings.Contains(text, "not-the-password") {
		t.Errorf("the error of the %s tells the password: %s", operation, text)
	}
	t.Logf("%s: %s", operation, text)
}

// An object in the way is named with all its differences, and nothing is written.
func TestAccObjectsInTheWay(t *testing.T) {
	v := harness.NewVhost(t)
	v.DeclareExchange("t.delay-01", "direct")
	v.DeclareQueue("t.delay-00", map[string]any{"x-queue-type": "classic"})
	v.DeclareQueue("t.unroutable", map[string]any{"x-queue-type": "quorum", "x-delivery-limit": 2147483647})
	before := v.Objects()
	configuration := func(adopt bool) string {
		return harness.WithProvider(v.Broker,
			"resource \"rabbitmqdelay_cascade\" \"t\" {\n  vhost = %q\n  name = \"t\"\n  levels = 3\n"+
				"  adopt = %t\n}\n", v.Name, adopt)
	}
	held := func() { v.MustHold(before) }
	var steps []resource.TestStep
	for _, adopt := range []bool{false, true} {
		for _, says := range []string{
			`exchange "t.delay-01": type is direct, not topic`,
			`queue "t.delay-00": type is classic, not quorum; x-dead-letter-exchange is absent, not t.delivery`,
			`Exactly as the cascade would declare them: queue "t.unroutable" Use other names`,
			`Use other names or remove these objects.`, // no key shows what it was, so no import is offered
		} {
			steps = append(steps, resource.TestStep{PreConfig: held, Config: configuration(adopt),
				ExpectError: harness.Saying(says)})
		}
	}
	resource.ParallelTest(t, resource.TestCase{ProtoV6ProviderFactories: harness.Providers, Steps: steps})
	held()
}

var everything = rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}

// closedPort is one that no other test gets, as one that was free a moment ago may be.
const closedPort = "127.0.0.1:1"

// serve is a web server for the time of a test.
func serve(t testing.TB, handler http.HandlerFunc) (endpoint string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func hostAndPort(uri string) string { return uri[strings.LastIndex(uri, "@")+1:] }
