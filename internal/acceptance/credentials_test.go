package acceptance

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// An address for AMQP that is given and does not work is a warning of each plan that changes something. It is an error
// of each apply that has to prove queues empty, and nothing is changed. A plan without changes says nothing.
func TestAMQPURIDoesNotWork(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		uri  func(*brokertest.Broker) string
		says []string
	}{
		"the password": {
			func(b *brokertest.Broker) string { return "amqp://guest:not-the-password@" + hostAndPort(b.AMQPURI) },
			[]string{`as user "guest"`, "ACCESS_REFUSED - Login was refused", "Correct them there"},
		},
		"a + for a space": {
			func(b *brokertest.Broker) string {
				return fmt.Sprintf("amqp://%s:of+the+user@%s", url.PathEscape(b.Username), hostAndPort(b.AMQPURI))
			},
			[]string{`as user "user of `, "ACCESS_REFUSED - Login was refused", "a space is %20, and not +"},
		},
		"the port": {
			func(*brokertest.Broker) string { return "amqp://127.0.0.1:1" },
			[]string{"connection refused", "check amqp_uri or RABBITMQ_AMQP_URI"},
		},
		"the port of the management API": {
			func(b *brokertest.Broker) string { return "amqp://" + strings.TrimPrefix(b.Endpoint, "http://") },
			[]string{"open an AMQP connection to ", "check amqp_uri or RABBITMQ_AMQP_URI"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			u := harness.NewUser(t, v.Broker, v.Name)
			u.Grant([3]string{".*", ".*", ".*"})
			given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2}
			wrong := *u.Broker()
			wrong.AMQPURI = is.uri(&wrong)
			p := harness.NewProtocol(t, &wrong, harness.Attributes{"retry_timeout": "0s"})
			const summary = "amqp_uri does not work"

			create := p.Plan(t.Context(), given)
			harness.MustSay(t, "the plan of a create", harness.OneLine(harness.WarningText(create.Diagnostics)),
				append(is.says, summary)...)
			harness.NoErrors(t, p.Apply(t.Context(), create)) // which proves nothing
			p.MustBeSettled(given)
			before := v.Objects()
			for what, change := range map[string]harness.Attributes{"destroy": nil,
				"replacement": given.With(harness.Attributes{"levels": 3}),
				"rebuild":     given.With(harness.Attributes{"queue_name": "q%d"})} {
				plan := p.Plan(t.Context(), change)
				warning := harness.WarningText(plan.Diagnostics)
				harness.MustSay(t, "the plan of a "+what, harness.OneLine(warning), append(is.says, summary)...)
				if n := strings.Count(warning, summary); n != 1 {
					t.Errorf("the plan says it %d times: %s", n, warning)
				}
				harness.MustSay(t, "the "+what, harness.OneLine(harness.ErrorText(p.Apply(t.Context(), plan))),
					append(is.says, "The address is given, by amqp_uri or RABBITMQ_AMQP_URI")...)
				v.MustHold(before)
			}
			if text := harness.WarningText(p.Plan(t.Context(), given).Diagnostics); strings.Contains(text, summary) {
				t.Errorf("a plan without changes says: %s", text)
			}
			p = p.With(u.Broker(), nil)
			plan := p.Plan(t.Context(), nil)
			if text := harness.WarningText(plan.Diagnostics); strings.Contains(text, summary) {
				t.Errorf("with the right address, the plan says: %s", text)
			}
			harness.NoErrors(t, p.Apply(t.Context(), plan))
		})
	}
}

// A create that fails takes back what it made, also where the given address for AMQP does not work.
func TestAMQPURIDoesNotWorkInUndo(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	before := v.Objects()
	through := *v.Broker
	through.AMQPURI = "amqp://127.0.0.1:1"
	through.Endpoint = harness.NewGateway(t, v.Broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
		refuses := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/e/t.delay-01/q/t.delay-01")
		if refuses {
			w.WriteHeader(http.StatusForbidden)
		}
		return refuses
	}).URL
	p := harness.NewProtocol(t, &through, harness.Attributes{"retry_timeout": "0s"})
	plan := p.Plan(t.Context(), harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2})
	harness.MustSay(t, "the create", harness.ErrorText(p.Apply(t.Context(), plan)), "403")
	v.MustHold(before)
}

// A token as the password has to last as long as an operation that closes the entry and waits. Otherwise nothing is
// changed.
func TestTokenEndsTooEarly(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	u := harness.NewUser(t, v.Broker, v.Name)
	u.Grant([3]string{".*", ".*", ".*"})
	drained := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "drain_timeout": "30m"}
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(drained)
	before := v.Objects()

	const early = "credentials end too early"
	with := func(in time.Duration) *harness.Protocol {
		b := *u.Broker()
		b.Password = tokenUntil(time.Now().Add(in))
		b.AMQPURI = "amqp://" + hostAndPort(b.AMQPURI)
		u.Password(b.Password)
		return p.With(&b, nil)
	}
	short := with(35 * time.Minute) // the time of the operation is 40 minutes
	for what, change := range map[string]harness.Attributes{"destroy": nil,
		"replacement": drained.With(harness.Attributes{"levels": 3}),
		"rebuild":     drained.With(harness.Attributes{"queue_name": "q%d"})} {
		text := harness.ErrorText(short.Apply(t.Context(), short.Plan(t.Context(), change)))
		harness.MustSay(t, "the "+what, harness.OneLine(text), early, "the token in password ends at ",
			"and the operation may take until ", "a shorter drain_timeout")
		if strings.Contains(text, "eyJ") {
			t.Errorf("it tells the token: %s", text)
		}
		v.MustHold(before)
	}
	// An update that waits for nothing takes no time.
	rebuilt := drained.With(harness.Attributes{"queue_name": "q%d"})
	delete(rebuilt, "drain_timeout")
	short.MustApply(rebuilt)
	short.MustApply(drained.With(harness.Attributes{"queue_name": "q%d"}))

	p.State, p.Private = short.State, short.Private
	long := with(45 * time.Minute)
	harness.NoErrors(t, long.Apply(t.Context(), long.Plan(t.Context(), nil)))
}

// tokenUntil is a JWT as an OAuth 2.0 server issues it, whose signature is none.
func tokenUntil(ends time.Time) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode(fmt.Appendf(nil, `{"sub":"terraform","exp":%d}`,
		ends.Unix())) + "." + encode([]byte("signature"))
}

// Credentials that end while a destroy waits leave the entry closed. The error begins with what to do, and that helps.
func TestCredentialsEnd(t *testing.T) {
	t.Parallel()
	for name, goesOn := range map[string]bool{"the destroy goes on": true, "all is brought back": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			u := harness.NewUser(t, v.Broker, v.Name)
			u.Grant([3]string{".*", ".*", ".*"})
			given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "drain_timeout": "1m"}
			p := harness.NewProtocol(t, u.Broker(), nil)
			p.MustApply(given)
			v.DeclareQueue("q", nil)
			v.Bind("t.delivery", "*.*.somewhere", "queue", "q")
			v.Publish("t.delay-01", "1.1.somewhere", "")

			var closed atomic.Bool
			var end sync.Once
			through := *u.Broker()
			through.Endpoint = harness.NewGateway(t, v.Broker, nil, func(_ http.ResponseWriter, r *http.Request) bool {
				if closed.Load() {
					end.Do(func() { u.Password("another") })
				} else if r.Method == http.MethodDelete {
					closed.Store(true)
				}
				return false
			}).URL
			ending := p.With(&through, nil)
			text := harness.ErrorText(ending.Apply(t.Context(), ending.Plan(t.Context(), nil)))
			const begins = "Credentials are no longer valid\nGive the provider valid credentials, and apply again. " +
				`Until then, exchange "t.delay-01", the entry, is closed: publishers get an error.`
			if !strings.HasPrefix(text, begins) {
				t.Errorf("the error does not begin with what to do: %s", text)
			}
			harness.MustSay(t, "the error", harness.OneLine(text), "refused user", "Check username and password")

			valid := *u.Broker()
			valid.Password = "another"
			valid.AMQPURI = "amqp://" + hostAndPort(valid.AMQPURI)
			p = ending.With(&valid, nil)
			if goesOn {
				harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), nil)))
			} else {
				harness.NoErrors(t, p.Refresh(t.Context()))
				p.MustApply(given)
				p.MustBeSettled(given)
			}
			v.Eventually("the message has arrived", func() bool { return v.Depth("q") == 1 })
		})
	}
}

// A broker that cannot be reached may be gone for good. Errors of a resource in the state name the way out.
func TestBrokerIsGoneForGood(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareQueue("q", nil)
	away := *v.Broker
	away.Endpoint = "http://127.0.0.1:1"
	const wayOut = "If the broker is gone for good, take the resource out of the state. A removed block with " +
		"destroy = false does that, or terraform state rm."
	for resource, given := range map[string]harness.Attributes{
		harness.CascadeType: {"vhost": v.Name, "name": "t", "levels": 2},
		harness.LadderType:  {"vhost": v.Name, "name": "l", "delays": harness.TextList("1s")},
		harness.DestinationType: {"vhost": v.Name, "delivery_exchange": "amq.topic", "levels": 2, "address": "a",
			"queue": "q"},
	} {
		p := harness.NewProtocolOf(t, resource, v.Broker, nil)
		p.MustApply(given)
		p = p.With(&away, harness.Attributes{"retry_timeout": "0s"})
		harness.MustSay(t, "a refresh", harness.OneLine(harness.ErrorText(p.Refresh(t.Context()))), wayOut)
		plan := p.Plan(t.Context(), nil) // with -refresh=false
		harness.MustSay(t, "a destroy", harness.OneLine(harness.ErrorText(p.Apply(t.Context(), plan))), wayOut)
	}
	p := harness.NewProtocol(t, &away, harness.Attributes{"retry_timeout": "0s"})
	plan := p.Plan(t.Context(), harness.Attributes{"vhost": v.Name, "name": "u", "levels": 2})
	if text := harness.ErrorText(p.Apply(t.Context(), plan)); text == "" || strings.Contains(text, "gone for good") {
		t.Errorf("a create says: %s", text)
	}
}
