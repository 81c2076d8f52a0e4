package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// threeCreates are a cascade, a ladder and a destination, none of which is there.
func threeCreates(vhost string) map[string]harness.Attributes {
	return map[string]harness.Attributes{
		harness.CascadeType: {"vhost": vhost, "name": "t", "levels": 3, "queue_type": "classic"},
		harness.LadderType:  {"vhost": vhost, "name": "l", "delays": harness.TextList("5s")},
		harness.DestinationType: {"vhost": vhost, "delivery_exchange": "d", "levels": 3, "address": "orders",
			"queue": "orders"},
	}
}

// planAll plans creates in one run, and returns all their warnings.
func planAll(t *testing.T, p *harness.Protocol, creates map[string]harness.Attributes) string {
	t.Helper()
	harness.NoErrors(t, p.NewRun())
	var all strings.Builder
	for typeName, given := range creates {
		plan := p.Of(typeName).PlanWithin(t.Context(), given)
		harness.NoErrors(t, plan.Diagnostics)
		all.WriteString(harness.WarningText(plan.Diagnostics))
	}
	return all.String()
}

// What keeps a create from anything is a warning of its plan, with what the apply says. What all creates of a run meet
// is one warning.
func TestPlanOfCreateMeetsTheBroker(t *testing.T) {
	t.Parallel()
	as := func(change func(*brokertest.Broker)) func(*harness.Vhost) brokertest.Broker {
		return func(v *harness.Vhost) brokertest.Broker {
			b := *v.Broker
			change(&b)
			return b
		}
	}
	for name, is := range map[string]struct {
		broker        func(*harness.Vhost) brokertest.Broker
		summary, says string
		// times is how often one run says it.
		times int
	}{
		"a wrong password": {as(func(b *brokertest.Broker) { b.Password = "wrong" }),
			"RabbitMQ: authentication failed\n", "Check username and password", 1},
		"no tag": {func(v *harness.Vhost) brokertest.Broker { return v.User("", &everything) },
			"RabbitMQ: permission denied\n", "The user needs the tag management", 1},
		"a login page": {as(func(b *brokertest.Broker) {
			b.Endpoint = serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Log in</html>") })
		}), "RabbitMQ: not a RabbitMQ management API\n", "is not what RabbitMQ sends", 1},
		"a redirect to a login page": {as(func(b *brokertest.Broker) {
			b.Endpoint = serve(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/login", http.StatusFound)
			})
		}), "RabbitMQ: not a RabbitMQ management API\n", "redirects to", 1},
		"https on an http port": {as(func(b *brokertest.Broker) {
			b.Endpoint = strings.Replace(b.Endpoint, "http://", "https://", 1)
		}), "RabbitMQ: no secure connection\n", "http:// is spoken there", 1},
		"the AMQP port": {as(func(b *brokertest.Broker) { b.Endpoint = "http://" + hostAndPort(b.AMQPURI) }),
			"RabbitMQ: not a RabbitMQ management API\n", "is a port for AMQP", 1},
		"no permissions in the vhost": {func(v *harness.Vhost) brokertest.Broker { return v.User("management", nil) },
			`User may not use vhost "%s" now` + "\n", "The user needs permissions in this vhost", 3},
		"an administrator without permissions": {func(v *harness.Vhost) brokertest.Broker {
			return v.User("administrator", nil)
		}, `User may not use vhost "%s" now` + "\n", "The user needs permissions in this vhost", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			v.DeclareExchange("d", "topic")
			v.DeclareQueue("orders", nil)
			b := is.broker(v)
			summary := strings.ReplaceAll(is.summary, "%s", v.Name)
			p := harness.NewProtocol(t, &b, harness.Attributes{"retry_timeout": "0s"})
			creates := threeCreates(v.Name)
			for typeName, given := range creates {
				p := p.Of(typeName)
				plan := p.Plan(t.Context(), given)
				text := harness.WarningText(plan.Diagnostics)
				harness.MustSay(t, "the plan of "+typeName, text, summary, is.says,
					"The apply will fail, as things are.")
				errors := harness.ErrorText(p.Apply(t.Context(), plan))
				if !strings.HasPrefix(name, "an administrator") { // whom RabbitMQ refuses in other words
					harness.MustSay(t, "the apply of "+typeName, errors, is.says)
				} else if !strings.Contains(errors, "permission denied") {
					t.Errorf("the apply of %s says: %s", typeName, errors)
				}
			}
			text := planAll(t, p, creates)
			if n := strings.Count(text, summary); n != is.times {
				t.Errorf("one run says it %d times, want %d: %s", n, is.times, text)
			}
			if strings.Contains(text, "not there") { // of objects nothing is known
				t.Errorf("it says more: %s", text)
			}
			unknown := creates[harness.CascadeType].With(
				harness.Attributes{"adopt": tftypes.NewValue(tftypes.Bool, tftypes.UnknownValue)})
			harness.MustSay(t, "the plan with an unknown adopt",
				harness.WarningText(p.Plan(t.Context(), unknown).Diagnostics), is.says)
		})
	}
}

// A vhost that the same apply makes is an ordinary thing. The plan says that it is not there now, and the apply makes
// the cascade.
func TestPlanOfCreateInAVhostToCome(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	name := v.Name + "-to-come"
	summary := fmt.Sprintf("Vhost %q is not there now\n", name)
	p := harness.NewProtocol(t, v.Broker, nil)
	if text := planAll(t, p, threeCreates(name)); strings.Count(text, summary) != 3 ||
		strings.Contains(text, "as things are") {
		t.Errorf("the plan says: %s", text)
	}
	given := threeCreates(name)[harness.CascadeType]
	plan := p.Plan(t.Context(), given)
	harness.MustSay(t, "the plan", harness.WarningText(plan.Diagnostics), summary,
		"If the same configuration makes it, refer to the resource that does", "Otherwise the apply will fail",
		fmt.Sprintf("Could not find vhost %q", name), "Create it before, or check the attribute vhost")
	harness.MustSay(t, "the apply", harness.ErrorText(p.Apply(t.Context(), plan)), "RabbitMQ: vhost not found",
		fmt.Sprintf("Could not find vhost %q", name))
	v.Try(v.API.PutVhost(name, rabbithole.VhostSettings{}))
	t.Cleanup(func() { v.Try(v.API.DeleteVhost(name)) })
	harness.NoErrors(t, p.Apply(t.Context(), plan))
	unknown := given.With(harness.Attributes{"vhost": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)})
	if text := planAll(t, p, map[string]harness.Attributes{harness.CascadeType: unknown}); text != "" {
		t.Errorf("the plan of an unknown vhost says: %s", text)
	}
}

// Where nobody answers, or not as RabbitMQ does when it is well, the plan says nothing. It does not take long for it.
func TestPlanOfCreateWithoutAnswer(t *testing.T) {
	t.Parallel()
	for name, endpoint := range map[string]string{
		"a closed port": "http://" + closedPort,
		"no such host":  "http://rabbitmq.invalid:15672",
		"silence":       silent(t),
		"an overload":   serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &brokertest.Broker{Endpoint: endpoint, Username: "u", Password: "p"}
			p := harness.NewProtocol(t, b, harness.Attributes{"request_timeout": "1s"})
			began := time.Now()
			if text := planAll(t, p, threeCreates("/")); text != "" {
				t.Errorf("the plan says: %s", text)
			}
			if took := time.Since(began); took > 10*time.Second { // each request has one, and is not repeated
				t.Errorf("the plan took %s", took)
			}
		})
	}
}

// An end of a destination that is missing is not there now, and one that is wrong keeps the apply from it. All that is
// there, or that the plan has, it leaves out.
func TestPlanOfDestinationLooksAtItsEnds(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("d", "topic")
	v.DeclareExchange("direct", "direct")
	v.DeclareQueue("there", map[string]any{"x-queue-type": "classic"})
	v.DeclareQueue("limited", map[string]any{"x-max-length": 5, "x-overflow": "reject-publish"})
	given := threeCreates(v.Name)[harness.DestinationType].With(harness.Attributes{"queue": "there"})
	for name, is := range map[string]struct {
		change        harness.Attributes
		plan, applies string // none if all is well
	}{
		"no queue": {harness.Attributes{"queue": "q"}, `Queue "q" in vhost %q is not there now`,
			"Queue does not exist"},
		"no exchange": {harness.Attributes{"queue": nil, "exchange": "e"}, `Exchange "e" in vhost %q is not there now`,
			"Exchange does not exist"},
		"no delivery exchange": {harness.Attributes{"delivery_exchange": "e"},
			`Exchange "e" in vhost %q is not there now`, "Delivery exchange does not exist"},
		"a direct one": {harness.Attributes{"delivery_exchange": "direct"},
			`Delivery exchange has the wrong type: address "orders" from exchange "direct" to queue "there" in ` +
				`vhost %q`,
			"Delivery exchange has the wrong type"},
		"a limit": {harness.Attributes{"queue": "limited"}, `Destination refuses messages when it is full: address ` +
			`"orders" from exchange "d" to queue "limited" in vhost %q`, ""},
		"all is there": {nil, "", ""},
	} {
		p := v.Destination()
		plan := p.Plan(t.Context(), given.With(is.change))
		harness.NoErrors(t, plan.Diagnostics)
		text, want := harness.WarningText(plan.Diagnostics), is.plan
		if want != "" {
			want = fmt.Sprintf(want, v.Name) + "\n"
		}
		if !strings.Contains(text, want) || is.plan == "" && text != "" {
			t.Errorf("%s: the plan says %q", name, text)
		}
		if strings.Contains(text, "not there now") && (!strings.Contains(text, "Otherwise the apply will fail.") ||
			strings.Contains(text, "as things are")) {
			t.Errorf("%s: the plan alarms: %q", name, text)
		}
		if text := harness.ErrorText(p.Apply(t.Context(), plan)); !strings.Contains(text, is.applies) ||
			is.applies == "" && text != "" {
			t.Errorf("%s: the apply says %q", name, text)
		}
	}
}

// What another resource of the plan makes is not missing.
func TestPlanOfDestinationKnowsThePlan(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := v.Destination()
	harness.NoErrors(t, p.NewRun())
	cascade := harness.Attributes{"vhost": v.Name, "levels": 3}
	for _, name := range []string{"t", "u"} {
		harness.NoErrors(t, p.Of(harness.CascadeType).PlanWithin(t.Context(),
			cascade.With(harness.Attributes{"name": name})).Diagnostics)
	}
	for exchange, says := range map[string]bool{"u.delay-02": false, "v.delay-02": true} {
		plan := p.PlanWithin(t.Context(), harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery",
			"levels": 3, "address": "orders", "exchange": exchange})
		text := harness.WarningText(plan.Diagnostics)
		if says != strings.Contains(text, "is not there now") || strings.Contains(text, "t.delivery\" is not") {
			t.Errorf("to exchange %q it says: %s", exchange, text)
		}
	}
}

// A delivery exchange that a cascade does not make is missing, or wrong.
func TestPlanOfCreateLooksAtTheDeliveryExchange(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "delivery_exchange": "d",
		"create_delivery_exchange": false}
	says := func(parts ...string) harness.PlannedChange {
		t.Helper()
		plan := p.Plan(t.Context(), given)
		harness.MustSay(t, "the plan", harness.WarningText(plan.Diagnostics), parts...)
		return plan
	}
	plan := says(fmt.Sprintf("Exchange \"d\" in vhost %q is not there now\n", v.Name), "Otherwise the apply will fail.",
		"With create_delivery_exchange = true, the cascade makes it.")
	harness.MustSay(t, "the apply", harness.ErrorText(p.Apply(t.Context(), plan)), "Delivery exchange does not exist")
	v.DeclareExchange("d", "fanout")
	plan = says(fmt.Sprintf("Delivery exchange has the wrong type: cascade \"t.delay-01\" in vhost %q\n", v.Name),
		"The apply will fail, as things are. The delivery exchange")
	harness.MustSay(t, "the apply", harness.ErrorText(p.Apply(t.Context(), plan)), "has the wrong type")
	v.Request("DELETE", nil, "exchanges", v.Name, "d")
	v.DeclareExchange("d", "topic")
	plan = p.Plan(t.Context(), given)
	if text := harness.WarningText(plan.Diagnostics); text != "" {
		t.Errorf("the plan says: %s", text)
	}
	harness.NoErrors(t, p.Apply(t.Context(), plan))
}

// RabbitMQ tells an administrator which permissions there are. So the plan names those that are missing. Nobody else
// learns it before the apply, and the plan says nothing that is not known.
func TestPlanOfCreateNamesMissingPermissions(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"administrator", "management"} {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			v.DeclareExchange("d", "topic")
			v.DeclareQueue("orders", nil)
			b := v.User(tag, &rabbithole.Permissions{Configure: `^t\.(delay|unr)`, Write: `^t\.`, Read: `^t\.`})
			p := harness.NewProtocol(t, &b, harness.Attributes{"retry_timeout": "0s"})
			creates := threeCreates(v.Name)
			lacks := map[string][]string{
				harness.CascadeType:     {`configure on exchange "t.delivery"`},
				harness.DestinationType: {`read on exchange "d"`, `write on queue "orders"`},
			}
			for typeName, lines := range lacks {
				p := p.Of(typeName)
				plan := p.Plan(t.Context(), creates[typeName])
				text := harness.WarningText(plan.Diagnostics)
				if tag == "management" {
					if text != "" {
						t.Errorf("the plan of %s says: %s", typeName, text)
					}
				} else {
					harness.MustSay(t, "the plan of "+typeName, text, "RabbitMQ: permission denied: ",
						"lacks these permissions in vhost", "\n\n  "+strings.Join(lines, "\n  ")+"\n\n")
				}
				harness.MustSay(t, "the apply", harness.ErrorText(p.Apply(t.Context(), plan)),
					"permission denied")
			}
		})
	}
}

// A plan of two resources tells of both, although Terraform shows one of several warnings with the same summary.
func TestAccWarningsAreNotFolded(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	tf := v.CommandLine()
	both := block(harness.LadderType, "one", `name = "one"`, `delays = ["1h", "2h"]`) + `
resource "rabbitmqdelay_ladder" "other" {
  vhost  = var.vhost
  name   = "other"
  delays = ["1h", "2h"]
}
`
	planText(tf, both)
	tf.MustRun("apply", "-no-color", "plan")
	for _, ladder := range []string{"one", "other"} {
		v.Publish(ladder+".entry", "1h.orders", "")
	}
	v.Eventually("the counts are up to date", func() bool {
		return v.Counted("one.delay-1h") == 1 && v.Counted("other.delay-1h") == 1
	})
	out := harness.OneLine(tf.Must("plan", "-destroy", "-no-color", "-input=false"))
	harness.MustSay(t, "the plan", out, fmt.Sprintf(`Messages in flight: ladder "one.entry" in vhost %q`, v.Name),
		fmt.Sprintf(`Messages in flight: ladder "other.entry" in vhost %q`, v.Name))
	if strings.Contains(out, "more similar warning") {
		t.Errorf("something is folded: %s", out)
	}
}
