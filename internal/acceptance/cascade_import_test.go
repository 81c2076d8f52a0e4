package acceptance

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// declared are cascades that somebody else declares, each with the configuration that describes it.
var declared = map[string]struct {
	entry         string
	configuration attributes
}{
	"article_level3": {"EXCHANGE.TOPIC.SENDTASK.N3", attributes{
		"levels": 4, "exchange_name": "EXCHANGE.TOPIC.SENDTASK.N%d", "queue_name": "QUEUE.DELAY.SENDTASK.N%d",
		"delivery_exchange": "EXCHANGE.DELAY.DIRECT.SENDTASK", "queue_type": "classic", "lookahead": 1,
		"strict_keys": false, "park_unroutable": false,
		"internal_levels": false,
	}},
	"nservicebus_v2": {"nsb.v2.delay-level-27", attributes{
		"levels": 28, "exchange_name": "nsb.v2.delay-level-%02d", "queue_name": "nsb.v2.delay-level-%02d",
		"delivery_exchange": "nsb.v2.delay-delivery", "lookahead": 1, "strict_keys": false, "park_unroutable": false,
		"internal_levels": false,
	}},
	"quorum_5_levels_lookahead_2_100ms": {"t.delay-04", attributes{
		"name": "t", "max_delay": "3.1s", "resolution": "100ms", "lookahead": 2, "strict_keys": false,
		"park_unroutable": false,
		"internal_levels": false,
	}},
	"quorum_5_levels_lookahead_5": {"t.delay-04", attributes{
		"name": "t", "levels": 5, "strict_keys": false, "park_unroutable": false, "internal_levels": false,
	}},
	"quorum_5_levels_lookahead_5_strict": {"t.delay-04", attributes{
		"name": "t", "levels": 5, "park_unroutable": false, "internal_levels": false,
	}},
	"quorum_base_10_3_levels": {"t.delay-02", attributes{
		"name": "t", "base": 10, "max_delay": "999s", "park_unroutable": false, "internal_levels": false,
	}},
	"classic_base_4_5_levels_lax": {"t.delay-04", attributes{
		"name": "t", "base": 4, "levels": 5, "queue_type": "classic", "strict_keys": false, "park_unroutable": false,
		"internal_levels": false,
	}},
}

// One import, and the plan is empty.
func TestAccImportOfWhatOthersDeclared(t *testing.T) {
	t.Parallel()
	for name, is := range declared {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			v.declare(name)
			configuration := is.configuration.with(attributes{"vhost": v.name})
			for how, bring := range map[string]func(*protocol) []*tfprotov6.Diagnostic{
				"ID": func(p *protocol) []*tfprotov6.Diagnostic {
					return p.importState(t.Context(), importID(v.name, is.entry))
				},
				"identity": func(p *protocol) []*tfprotov6.Diagnostic {
					return p.importIdentity(t.Context(), v.name, is.entry)
				},
			} {
				p := newProtocol(t, v.broker, nil)
				if text := errorText(bring(p)) + warningText(p.refresh(t.Context())); text != "" {
					t.Fatalf("by %s: %s", how, text)
				}
				if todo := p.plan(t.Context(), configuration); hasErrors(todo.diagnostics) || !todo.isEmpty(p.state) {
					differences, _ := p.state.Diff(todo.state)
					t.Errorf("by %s: the plan is not empty: replace %t, differences %v %s", how, todo.replace,
						differences, errorText(todo.diagnostics))
				}
			}
		})
	}
}

// The same through Terraform, by each of its ways to import.
func TestAccImport(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"article_level3", "nservicebus_v2", "quorum_base_10_3_levels"} {
		for how, by := range map[string]struct {
			checks []tfversion.TerraformVersionCheck
			steps  func(configuration, vhost, entry string) []resource.TestStep
		}{
			"command": {nil, func(configuration, vhost, entry string) []resource.TestStep {
				return []resource.TestStep{
					{Config: configuration, ResourceName: "rabbitmqdelay_cascade.t", ImportState: true,
						ImportStatePersist: true, ImportStateId: importID(vhost, entry)},
					{Config: configuration,
						ConfigPlanChecks: expectEmptyPlan},
				}
			}},
			"block": {[]tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_5_0)},
				func(configuration, vhost, entry string) []resource.TestStep {
					return []resource.TestStep{{
						Config: configuration + fmt.Sprintf("import {\n  to = rabbitmqdelay_cascade.t\n  id "+
							"= %q\n}\n", importID(vhost, entry)),
						ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{imports(
							"rabbitmqdelay_cascade.t")}},
					}}
				}},
			"identity": {[]tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_12_0)},
				func(configuration, vhost, entry string) []resource.TestStep {
					return []resource.TestStep{{
						Config: configuration + fmt.Sprintf("import {\n  to = rabbitmqdelay_cascade.t\n  "+
							"identity = {\n  "+
							"  vhost = %q\n    entry_exchange = %q\n  }\n}\n",
							vhost, entry),
						ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{imports(
							"rabbitmqdelay_cascade.t")}},
					}}
				}},
		} {
			t.Run(name+" by "+how, func(t *testing.T) {
				t.Parallel()
				v := newVhost(t)
				v.declare(name)
				before := v.objects()
				configuration := requiring + on(v.broker, "resource \"rabbitmqdelay_cascade\" \"t\" {\n  vhost = "+
					"%q\n%s}\n", v.name, arguments(declared[name].configuration))
				steps := by.steps(configuration, v.name, declared[name].entry)
				steps[len(steps)-1].Check = func(*terraform.State) error { v.mustHold(before); return nil }
				resource.Test(t, resource.TestCase{
					TerraformVersionChecks:   by.checks,
					ProtoV6ProviderFactories: factories,
					CheckDestroy:             func(*terraform.State) error { v.mustHold(topology.New()); return nil },
					Steps:                    steps,
				})
			})
		}
	}
}

// requiring is what terraform-plugin-testing leaves out of the configuration of an import.
const requiring = `
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}
`

// imports checks that a plan imports the resource and changes nothing.
func imports(address string) plancheck.PlanCheck {
	return checkFunc(func(req plancheck.CheckPlanRequest) error {
		for _, change := range req.Plan.ResourceChanges {
			switch {
			case change.Address != address:
			case change.Change.Importing == nil:
				return fmt.Errorf("%s is not imported", address)
			case !change.Change.Actions.NoOp():
				return fmt.Errorf("the import of %s plans to %v", address, change.Change.Actions)
			default:
				return nil
			}
		}
		return fmt.Errorf("%s is not in the plan", address)
	})
}

// The error of an ID that leads nowhere says why, and how an ID looks.
func TestAccImportOfNothing(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	v.declareQueue("plain", nil)
	v.declareExchange("plain", "topic")
	v.bind("plain", "1.#", "queue", "plain")
	looksLike := `it has to be <vhost>/<entry exchange>, each part percent-encoded, such as %2F/tasks.delay-16`
	for id, want := range map[string][]string{
		"tasks.delay-16":        {`"tasks.delay-16"`, looksLike},
		"/tasks.delay-16":       {`"/tasks.delay-16"`, looksLike},
		"//tasks.delay-16":      {`"//tasks.delay-16"`, looksLike},
		"%2F/":                  {`"%2F/"`, looksLike},
		"%2F/a/b":               {`"%2F/a/b"`, looksLike},
		"%/tasks.delay-16":      {`"%/tasks.delay-16"`, looksLike},
		"nowhere/tasks":         {`vhost "nowhere"`, "no such vhost"},
		v.name + "/nothing":     {`exchange "nothing" in vhost "` + v.name + `"`, "there is no such exchange"},
		v.name + "/plain":       {`exchange "plain"`, "its name has no number of a level"},
		v.name + "/amq.topic":   {`exchange "amq.topic"`, "no binding like that of a cascade's top level"},
		v.name + "/amq.fanout":  {`exchange "amq.fanout"`, "it is a fanout exchange"},
		v.name + "/amq%2Etopic": {`exchange "amq.topic"`},
	} {
		p := newProtocol(t, v.broker, nil)
		diagnostics := p.importState(t.Context(), id)
		text := errorText(diagnostics)
		if len(diagnostics) != 1 || text == "" {
			t.Errorf("%s: %d diagnostics, want one error: %s", id, len(diagnostics), text)
		}
		mustSay(t, id+": the error", text, want...)
	}
}

// With one cascade of five levels, no import takes another exchange for its entry, and neither do the data
// sources. Each error names the entry, and the import that it recommends works.
func TestImportBelievesKeys(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	given := attributes{"vhost": v.name, "name": "m", "levels": 5}
	newProtocol(t, v.broker, nil).mustApply(given)
	rungs := attributes{"vhost": v.name, "name": "retry.0", "delays": textSet("5s", "1m")}
	newProtocolOf(t, ladderType, v.broker, nil).mustApply(rungs)
	before := v.objects()
	const none = ""
	for _, test := range []struct{ resource, asked, reason, found, entry string }{
		{cascadeType, "m.delay-06", "there is no such exchange", cascadeType, "m.delay-04"},
		{cascadeType, "m.delay-05", "there is no such exchange", cascadeType, "m.delay-04"},
		{cascadeType, "m.delay-02", "a level in the middle of a cascade", cascadeType, "m.delay-04"},
		{cascadeType, "m.delay-00", "a level in the middle of a cascade", cascadeType, "m.delay-04"},
		{cascadeType, "m.delivery", "no binding like that of a cascade's top level", none, ""},
		{cascadeType, "retry.0.entry", "no binding like that of a cascade's top level", ladderType, "retry.0.entry"},
		{ladderType, "m.delay-04", "no binding like that of a ladder's rung", cascadeType, "m.delay-04"},
		{ladderType, "m.delay-02", "no binding like that of a ladder's rung", cascadeType, "m.delay-04"},
		{ladderType, "m.delay-05", "there is no such exchange", cascadeType, "m.delay-04"},
		{ladderType, "retry.0.delivery", "no binding like that of a ladder's rung", none, ""},
	} {
		by := newProtocolOf(t, test.resource, v.broker, nil)
		text := errorText(by.importState(t.Context(), importID(v.name, test.asked)))
		command := importCommand.FindStringSubmatch(text)
		if !strings.Contains(text, test.reason) || (command != nil) != (test.found != none) {
			t.Errorf("the import of %s as a %s says %s", test.asked, test.resource, text)
		}
		if command == nil {
			continue
		}
		if command[1] != importID(v.name, test.entry) || !strings.Contains(command[0], "import "+test.found+".") {
			t.Errorf("the import of %s recommends %s, not %s %s", test.asked, command[0], test.found, test.entry)
		}
		noErrors(t, newProtocolOf(t, test.found, v.broker, nil).importState(t.Context(), command[1]))
	}
	p := newProtocol(t, v.broker, nil)
	at := attributes{"vhost": v.name, "entry_exchange": "m.delay-03", "delay": "1s"}
	for what, diagnostics := range map[string][]*tfprotov6.Diagnostic{
		"the data source": p.read(t.Context(), cascadeType,
			attributes{"vhost": v.name, "entry_exchange": "m.delay-03"}),
		"the probe": p.read(t.Context(), "rabbitmqdelay_probe", at),
	} {
		if text := errorText(diagnostics); !strings.Contains(text, `the entry of the cascade there is exchange `+
			`"m.delay-04"`) {
			t.Errorf("%s says %s", what, text)
		}
	}
	v.mustHold(before)
}

// A damaged cascade is imported by its entry, which may be gone, and by nothing else. The plan shows the missing
// objects, and one apply brings them back.
func TestImportOfADamagedCascade(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(v *vhost, desired topology.Topology){
		"objects are gone": func(v *vhost, desired topology.Topology) {
			v.do(plan.DeleteQueue{Queue: desired.Queues["m.delay-04"]},
				plan.DeleteQueue{Queue: desired.Queues["m.delay-01"]},
				plan.DeleteExchange{Name: "m.delay-02"}, plan.DeleteExchange{Name: "m.unroutable"})
		},
		"others have bound": func(v *vhost, _ topology.Topology) {
			v.declareQueue("audit", map[string]any{"x-message-ttl": 7000, "x-dead-letter-exchange": "m.delay-02"})
			for _, exchange := range []string{"m.delay-04", "m.delay-02"} {
				for _, key := range []string{"1.#", "*.1.#", "1.*.#"} {
					v.bind(exchange, key, "queue", "audit")
				}
			}
		},
		"a time is wrong": func(v *vhost, desired topology.Topology) {
			q := desired.Queues["m.delay-04"]
			v.do(plan.DeleteQueue{Queue: q})
			q.Arguments = maps.Clone(q.Arguments)
			q.Arguments["x-message-ttl"] = int64(8000)
			v.do(plan.DeclareQueue{Queue: q})
		},
		"the entry is gone": func(v *vhost, _ topology.Topology) { v.do(plan.DeleteExchange{Name: "m.delay-04"}) },
		"the entry is a new, empty one": func(v *vhost, desired topology.Topology) {
			v.do(plan.DeleteExchange{Name: "m.delay-04"},
				plan.DeclareExchange{Exchange: desired.Exchanges["m.delay-04"]})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			desired := expand(t, delay.Config{
				Name: "m", Vhost: v.name, Levels: 5, StrictKeys: true, InternalLevels: true,
				ParkUnroutable: true, CreateDeliveryExchange: true,
			})
			v.do(plan.Repair(desired, topology.New()).Steps()...)
			damage(v, desired)
			for _, wrong := range []string{"m.delay-06", "m.delay-05", "m.delay-03", "m.delay-02", "m.delay-00"} {
				p := newProtocol(t, v.broker, nil)
				text := errorText(p.importState(t.Context(), importID(v.name, wrong)))
				command := importCommand.FindStringSubmatch(text)
				if text == "" || command != nil && command[1] != importID(v.name, "m.delay-04") {
					t.Errorf("the import of %s says %q", wrong, text)
				}
			}
			p := newProtocol(t, v.broker, nil)
			given := attributes{"vhost": v.name, "name": "m", "levels": 5}
			noErrors(t, p.importState(t.Context(), importID(v.name, "m.delay-04")))
			todo := p.plan(t.Context(), given)
			if hasErrors(todo.diagnostics) || todo.replace || todo.isEmpty(p.state) {
				t.Errorf("replace %t, empty %t: %s", todo.replace, todo.isEmpty(p.state), errorText(todo.diagnostics))
			}
			p.mustApply(given)
			p.mustBeSettled(given)
			have := v.objects()
			delete(have.Queues, "audit")
			v.compare(desired, have)
		})
	}
}

// declare plays the one who declared the cascade of a vector.
func (v *vhost) declare(vector string) {
	v.Helper()
	text, err := os.ReadFile("../delay/delaytest/vectors/" + vector + ".json")
	if err != nil {
		v.Fatal(err)
	}
	v.request(http.MethodPost, text, "definitions", v.name)
}

// arguments are attributes as Terraform's language has them.
func arguments(configuration attributes) string {
	var text strings.Builder
	for name, value := range configuration {
		if s, ok := value.(string); ok {
			value = quote(s)
		}
		fmt.Fprintf(&text, "  %s = %v\n", name, value)
	}
	return text.String()
}
