package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// The message arrives as it was configured, after its delay and not before.
func TestPublish(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]cascade.Config{
		"quorum, all defaults": {Name: "t", Levels: 5, StrictKeys: true, InternalLevels: true, ParkUnroutable: true},
		"classic, a chain":     {Name: "t", Levels: 5, QueueType: cascade.Classic, Lookahead: 1},
		"base 10":              {Name: "t", Base: 10, Levels: 2, StrictKeys: true, InternalLevels: true},
		"that of a framework":  {Preset: cascade.Celery},
	} {
		t.Run(name, func(t *testing.T) {
			publishByAction(t, config)
		})
	}
}

// publishByAction runs the action and looks for the message.
func publishByAction(t *testing.T, config cascade.Config) {
	t.Parallel()
	v := newVhost(t)
	config.Vhost, config.CreateDeliveryExchange = v.name, true
	expanded := expand(t, config)
	v.do(plan.Repair(expanded, topology.New()).Steps()...)
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t, v.broker, v.name)
	u.grant([3]string{"^$", "^" + expanded.Entry + "$", "^$"})
	p := newProtocol(t, u.broker(), nil)
	arrivals := v.collect(expanded.Delivery, destination(resolved.Levels, "billing.eu"))
	given := attributes{
		"vhost": v.name, "entry_exchange": expanded.Entry, "delay": "1500ms", "address": "billing.eu",
		"body": `{"order":7}`, "content_type": "application/json",
		"headers": stringMap(map[string]string{"tenant": "a"}),
	}
	began := time.Now()
	reports, diagnostics := p.invoke(t.Context(), given)
	if text := errorText(diagnostics) + warningText(diagnostics); text != "" {
		t.Fatal(text)
	}
	arrival := v.arrived(arrivals, 1)[0]
	if after := arrival.At.Sub(began); after < 2*time.Second {
		t.Errorf("it arrived after %s", after)
	}
	if string(arrival.Body) != `{"order":7}` || arrival.ContentType != "application/json" ||
		arrival.Headers["tenant"] != "a" || arrival.DeliveryMode != 2 {
		t.Errorf("it arrived as %+v", arrival.Delivery)
	}
	key := keyOf(t, resolved.Scale(), 2*time.Second, "billing.eu")
	for i, parts := range [][]string{{arrival.MessageId, expanded.Entry, key},
		{"confirmed", `address "billing.eu" after 2 s`, "Z."}} {
		for _, part := range parts {
			if len(reports) != 2 || part == "" || !strings.Contains(reports[i], part) {
				t.Errorf("the reports are %q, without %q", reports, part)
			}
		}
	}

	// As little as possible, and what the cascade has beside it.
	for _, further := range []attributes{nil, {"levels": resolved.Levels, "resolution": "1s", "base": resolved.Base}} {
		_, diagnostics = p.invoke(t.Context(),
			attributes{"vhost": v.name, "entry_exchange": expanded.Entry, "delay": "0s",
				"address": "billing.eu"}.with(further))
		noErrors(t, diagnostics)
	}
	if again := v.arrived(arrivals, 3)[1]; len(again.Body) != 0 || again.MessageId == arrival.MessageId {
		t.Errorf("the second one arrived as %+v", again.Delivery)
	}
}

// What cannot work is an error on the attribute that it concerns, in a plan where that is possible, and nothing is
// sent.
func TestPublishErrors(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	own := expand(t, cascade.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true,
		StrictKeys: true, InternalLevels: true, ParkUnroutable: true,
		QuorumOptions: cascade.QuorumOptions{MaxLength: 1}})
	v.do(plan.Repair(own, topology.New()).Steps()...)
	bare := expand(t, cascade.Config{Name: "bare", Levels: 4, CreateDeliveryExchange: true})
	v.do(plan.Repair(bare, topology.New()).Steps()...)
	v.declareQueue("billing", nil)
	v.bind("t.delivery", destination(4, "billing"), "queue", "billing")
	u := newUser(t, v.broker, v.name)
	u.grant([3]string{".*", "^$", ".*"})
	configured := newProtocol(t, v.broker, nil)
	unable := newProtocol(t, u.broker(), nil)
	good := attributes{"vhost": v.name, "entry_exchange": "t.delay-03", "delay": "8s", "address": "billing"}
	unknown := tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	long := strings.Repeat("a", 248)

	for _, test := range []struct {
		what   string
		by     *protocol
		given  attributes
		inPlan bool
		says   []string
	}{
		{"a negative delay", configured, attributes{"delay": "-1s"}, true, []string{`AttributeName("delay")`,
			"cannot be delivered before it is sent"}},
		{"a negative delay, and unknown values", configured, attributes{"delay": "-1s", "address": unknown,
			"entry_exchange": unknown}, true, []string{`AttributeName("delay")`}},
		{"no duration", configured, attributes{"delay": "soon"}, true, []string{`AttributeName("delay")`}},
		{"a delay out of range", configured, attributes{"delay": "16s", "levels": 4, "resolution": "1s"}, true,
			[]string{`AttributeName("delay")`, "longer than 15s"}},
		{"a delay out of the range of the cascade", configured, attributes{"delay": "16s"}, true,
			[]string{`AttributeName("delay")`, "longer than 15s"}},
		{"a delay that only a coarser cascade has", configured, attributes{"delay": "16s", "levels": 4}, true,
			[]string{`AttributeName("delay")`, "longer than 15s"}},
		{"too many levels", configured, attributes{"levels": 40}, true, []string{`AttributeName("levels")`}},
		{"other levels", configured, attributes{"levels": 5}, true, []string{`AttributeName("levels")`, "levels is 5",
			"is 4", "Nothing was sent"}},
		{"a wrong resolution", configured, attributes{"resolution": "1us"}, true,
			[]string{`AttributeName("resolution")`}},
		{"another resolution", configured, attributes{"resolution": "2s"}, true, []string{`AttributeName("resolution")`,
			"resolution is 2s", "is 1s"}},
		{"an empty address", configured, attributes{"address": ""}, true,
			[]string{`AttributeName("address")`, "is empty"}},
		{"an address that is too long", configured, attributes{"address": long, "levels": 4}, true,
			[]string{`AttributeName("address")`, "of 248 bytes"}},
		{"an address that is too long for the cascade", configured, attributes{"address": long}, true,
			[]string{`AttributeName("address")`, "of 248 bytes"}},
		{"an address that nobody has bound", configured, attributes{"address": "biling"}, false,
			[]string{`AttributeName("address")`, `"1.0.0.0.biling"`, `be parked behind the alternate exchange ` +
				`"t.unroutable"`, "Nothing was sent", `"*.*.*.*.biling"`}},
		{"nobody at the end, and no parking", configured, attributes{"entry_exchange": "bare.delay-03"}, false,
			[]string{`AttributeName("address")`, "not get to anybody"}},
		{"an empty entry", configured, attributes{"entry_exchange": ""}, true,
			[]string{`AttributeName("entry_exchange")`}},
		{"an empty vhost", configured, attributes{"vhost": ""}, true, []string{`AttributeName("vhost")`}},
		{"an empty content type", configured, attributes{"content_type": ""}, true,
			[]string{`AttributeName("content_type")`}},
		{"a header without a name", configured, attributes{"headers": stringMap(map[string]string{"": "x"})}, true,
			[]string{`AttributeName("headers")`}},
		{"no cascade", configured, attributes{"entry_exchange": "amq.topic"}, false,
			[]string{"no binding like that of a cascade's top level"}},
		{"no exchange", configured, attributes{"entry_exchange": "nothing"}, false,
			[]string{"there is no such exchange"}},
		{"no vhost", configured, attributes{"vhost": "nowhere"}, false, []string{`vhost "nowhere"`}},
		{"no permission", unable, nil, false, []string{"permission denied", `permission to write exchange ` +
			`"t.delay-03"`}},
		{"no AMQP", newProtocol(t, v.broker, attributes{"amqp_uri": "amqp://127.0.0.1:1"}), nil, false,
			[]string{"takes AMQP", "amqp_uri"}},
		{"no broker yet", newProtocol(t, v.broker, attributes{"endpoint": unknown}), nil, false,
			[]string{"Provider not configured"}},
	} {
		planned := errorText(test.by.planAction(t.Context(), good.with(test.given)))
		if (planned != "") != test.inPlan {
			t.Errorf("%s: the plan says %q", test.what, planned)
		}
		_, diagnostics := test.by.invoke(t.Context(), good.with(test.given))
		for _, part := range test.says {
			if len(diagnostics) != 1 || !strings.Contains(errorText(diagnostics), part) {
				t.Errorf("%s: %d diagnostics, without %q: %s", test.what, len(diagnostics), part,
					errorText(diagnostics))
			}
		}
	}

	// A quorum queue takes a few more than its limit before it refuses.
	v.eventually("a full queue refuses a message", func() bool {
		_, diagnostics := configured.invoke(t.Context(), good)
		text := errorText(diagnostics)
		if text != "" && (!strings.Contains(text, "request refused") || !strings.Contains(text, "queue may be full")) {
			t.Fatal(text)
		}
		return text != ""
	})

	v.do(plan.Unbind{Binding: topology.Binding{Source: "t.delay-03", RoutingKey: "0.1.*.*.*.#",
		DestinationType: topology.ToQueue, Destination: "t.delay-02"}})
	_, diagnostics := configured.invoke(t.Context(), good.with(attributes{"delay": "4s"}))
	if text := errorText(diagnostics); !strings.Contains(text, "The cascade is damaged") ||
		!strings.Contains(text, `"0.1.0.0.billing"`) {
		t.Errorf("into a damaged cascade: %q", text)
	}
	for _, queue := range []string{"t.delay-00", "t.delay-01", "t.delay-02", "t.unroutable", "bare.delay-03"} {
		if n := v.depth(queue); n > 0 {
			t.Errorf("%d messages are in %q", n, queue)
		}
	}
	v.do(plan.DeleteExchange{Name: "t.delivery"})
	_, diagnostics = configured.invoke(t.Context(), good)
	if text := errorText(diagnostics); !strings.Contains(text, `there is no delivery exchange "t.delivery"`) {
		t.Errorf("without a delivery exchange: %q", text)
	}
}

// A plan fails for a delay that does not fit into the cascade that the same plan changes or makes. Without such a
// cascade, the one that the broker has decides. Whatever cannot be known yet is left to the apply.
func TestPublishDelayInPlan(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	p := newProtocol(t, v.broker, nil)
	declared := attributes{"vhost": v.name, "name": "t", "levels": 4}
	message := attributes{"vhost": v.name, "entry_exchange": "t.delay-03", "address": "billing"}
	todo := func(what string, given attributes, delay, says string) {
		t.Helper()
		text := errorText(p.planAction(t.Context(), message.with(given).with(attributes{"delay": delay})))
		if says == "" && text != "" || !strings.Contains(text, says) {
			t.Errorf("%s: the plan does not say %q: %q", what, says, text)
		}
	}
	unknown := tftypes.NewValue(tftypes.Number, tftypes.UnknownValue)
	todo("nothing is there", attributes{"levels": 4}, "16s", "")
	create := p.plan(t.Context(), declared)
	todo("a cascade that is to be created", nil, "16s", "longer than 15s")
	todo("a cascade that is to be created", attributes{"levels": 4}, "16s", "longer than 15s")
	todo("a cascade that is to be created", attributes{"levels": unknown}, "16s", "longer than 15s")
	todo("a cascade that is to be created", attributes{"levels": 5}, "15s", "levels is 5")
	todo("a cascade that is to be created", attributes{"levels": 4}, "15s", "")
	noErrors(t, p.apply(t.Context(), create))

	p.newRun()
	todo("a cascade that is there", nil, "16s", "longer than 15s")
	todo("a cascade that is there", attributes{"levels": 4}, "16s", "longer than 15s")
	todo("a cascade that is there", attributes{"resolution": "2s"}, "16s", "resolution is 2s")
	todo("a cascade that is there", nil, "15s", "")
	noErrors(t, p.plan(t.Context(), declared.with(attributes{"resolution": "2s"})).diagnostics)
	todo("a cascade that is to be rebuilt", attributes{"levels": 4}, "30s", "")
	todo("a cascade that is to be rebuilt", attributes{"levels": 4}, "31s", "longer than 30s")
	p.newRun()
	declared["base"] = 10
	noErrors(t, p.plan(t.Context(), declared).diagnostics)
	todo("a cascade that gets base 10", attributes{"levels": 4}, "9999s", "")
	todo("a cascade that gets base 10", attributes{"base": 2}, "1s", "base is 2")
	todo("a cascade that gets base 10", nil, "10000s", "longer than 2h46m39s, the longest that 4 levels "+
		"of 1s in base 10")
	p.mustApply(declared)
	p.newRun()
	todo("a cascade of base 10", attributes{"levels": 4, "resolution": "1s"}, "9999s", "")
	todo("a cascade of base 10", attributes{"levels": 4, "resolution": "1s", "base": 10}, "9999s", "")
	todo("a cascade of base 10", attributes{"base": 2}, "1s", "base is 2")
	todo("a cascade of base 10", attributes{"base": 17}, "1s", "base is 17; it can be 2 to 16")

	p = newProtocol(t, v.broker, attributes{"endpoint": "http://127.0.0.1:1"})
	todo("no broker", nil, "16s", "")
	todo("no broker", attributes{"levels": 4, "resolution": "1s"}, "16s", "")
	todo("no broker", attributes{"levels": 4, "resolution": "1s", "base": 2}, "16s", "longer than 15s")
}

// Nothing that is not known yet keeps an action from being planned.
func TestPublishOfUnknown(t *testing.T) {
	t.Parallel()
	p := newProtocol(t, brokertest.Shared(t), nil)
	given := attributes{
		"vhost": "/", "entry_exchange": "e", "base": 2, "levels": 4, "resolution": "1s", "delay": "15s",
		"address": "d", "body": "b", "content_type": "c",
		"headers": stringMap(map[string]string{"h": "v"}),
	}
	typ := objectTypeOf(t, p)
	everything := attributes{}
	for name := range given {
		everything[name] = tftypes.NewValue(typ.AttributeTypes[name], tftypes.UnknownValue)
		noErrors(t, p.planAction(t.Context(), given.with(attributes{name: everything[name]})))
	}
	noErrors(t, p.planAction(t.Context(), everything))
}

func objectTypeOf(t testing.TB, p *protocol) tftypes.Object {
	t.Helper()
	schemas, _ := p.schemas(t.Context())
	return objectType(t, schemas.ActionSchemas[actionType].Schema)
}

// The same by Terraform, after the cascade is created.
func TestAccPublish(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	v.declareExchange("due", "topic")
	arrivals := v.collect("due", destination(3, "billing"))
	resource.Test(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)},
		ProtoV6ProviderFactories: factories,
		Steps: []resource.TestStep{{
			Config: on(v.broker, `resource "rabbitmqdelay_cascade" "t" {
  vhost                    = %[1]q
  name                     = "t"
  levels                   = 3
  delivery_exchange        = "due"
  create_delivery_exchange = false

  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.rabbitmqdelay_publish.t]
    }
  }
}

action "rabbitmqdelay_publish" "t" {
  config {
    vhost          = %[1]q
    entry_exchange = "t.delay-02"
    levels         = 3
    resolution     = "1s"
    delay          = "1s"
    address        = "billing"
    body           = "hello"
  }
}
`, v.name),
			Check: func(*terraform.State) error {
				if body := string(v.arrived(arrivals, 1)[0].Body); body != "hello" {
					return fmt.Errorf("it arrived as %q", body)
				}
				return nil
			},
		}},
	})
}
