package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// declared are cascades that somebody else declares, each with the configuration that describes it.
var declared = map[string]struct {
	entry         string
	configuration harness.Attributes
}{
	"article_level3": {"EXCHANGE.TOPIC.SENDTASK.N3", harness.Attributes{
		"levels": 4, "exchange_name": "EXCHANGE.TOPIC.SENDTASK.N%d", "queue_name": "QUEUE.DELAY.SENDTASK.N%d",
		"delivery_exchange": "EXCHANGE.DELAY.DIRECT.SENDTASK", "queue_type": "classic", "lookahead": 1,
		"strict_keys": false, "park_unroutable": false,
		"internal_levels": false,
	}},
	"nservicebus_v2": {"nsb.v2.delay-level-27", harness.Attributes{
		"levels": 28, "exchange_name": "nsb.v2.delay-level-%02d", "queue_name": "nsb.v2.delay-level-%02d",
		"delivery_exchange": "nsb.v2.delay-delivery", "lookahead": 1, "strict_keys": false, "park_unroutable": false,
		"internal_levels": false,
	}},
	"quorum_5_levels_lookahead_2_100ms": {"t.delay-04", harness.Attributes{
		"name": "t", "base": 2, "max_delay": "3.1s", "resolution": "100ms", "lookahead": 2, "strict_keys": false,
		"park_unroutable": false,
		"internal_levels": false,
	}},
	"quorum_5_levels_lookahead_5": {"t.delay-04", harness.Attributes{
		"name": "t", "levels": 5, "strict_keys": false, "park_unroutable": false, "internal_levels": false,
	}},
	"quorum_5_levels_lookahead_5_strict": {"t.delay-04", harness.Attributes{
		"name": "t", "levels": 5, "park_unroutable": false, "internal_levels": false,
	}},
	"quorum_base_10_3_levels": {"t.delay-02", harness.Attributes{
		"name": "t", "base": 10, "max_delay": "999s", "park_unroutable": false, "internal_levels": false,
	}},
	"classic_base_4_5_levels_lax": {"t.delay-04", harness.Attributes{
		"name": "t", "base": 4, "levels": 5, "queue_type": "classic", "strict_keys": false, "park_unroutable": false,
		"internal_levels": false,
	}},
	"quorum_units_d_h_m_s_30d": {"t.d.h.m.s", harness.Attributes{"name": "t", "park_unroutable": false}},
	"quorum_units_m_10s_s_15m_lookahead_2": {"t.m.10s.s", harness.Attributes{
		"name": "t", "units": harness.TextList("1m", "10s", "1s"), "max_delay": "15m", "lookahead": 2,
		"park_unroutable": false,
	}},
	"classic_units_s_100ms_5s_lax": {"t.s.100ms", harness.Attributes{
		"name": "t", "units": harness.TextList("1s", "100ms"), "max_delay": "5s", "queue_type": "classic",
		"strict_keys": false, "park_unroutable": false,
	}},
}

// One import, and the plan is empty.
func TestAccImportOfWhatOthersDeclared(t *testing.T) {
	t.Parallel()
	for name, is := range declared {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newVhost := harness.NewVhost
			if name == "quorum_units_d_h_m_s_30d" {
				newVhost = harness.NewLargeVhost
			}
			v := newVhost(t)
			declare(v, name)
			configuration := is.configuration.With(harness.Attributes{"vhost": v.Name})
			for how, bring := range map[string]func(*harness.Protocol) []*tfprotov6.Diagnostic{
				"ID": func(p *harness.Protocol) []*tfprotov6.Diagnostic {
					return p.ImportState(t.Context(), harness.ImportID(v.Name, is.entry))
				},
				"identity": func(p *harness.Protocol) []*tfprotov6.Diagnostic {
					return p.ImportIdentity(t.Context(), v.Name, is.entry)
				},
			} {
				p := harness.NewProtocol(t, v.Broker, nil)
				if text := harness.ErrorText(bring(p)) + harness.WarningText(p.Refresh(t.Context())); text != "" {
					t.Fatalf("by %s: %s", how, text)
				}
				if todo := p.Plan(t.Context(), configuration); harness.HasErrors(todo.Diagnostics) ||
					!todo.IsEmpty(p.State) {
					differences, _ := p.State.Diff(todo.State)
					t.Errorf("by %s: the plan is not empty: replace %t, differences %v %s", how, todo.Replace,
						differences, harness.ErrorText(todo.Diagnostics))
				}
			}
		})
	}
}

// The same through Terraform, by each of its ways to import.
func TestAccImport(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"article_level3", "nservicebus_v2", "quorum_base_10_3_levels",
		"quorum_units_m_10s_s_15m_lookahead_2"} {
		for how, by := range map[string]struct {
			checks []tfversion.TerraformVersionCheck
			steps  func(configuration, vhost, entry string) []resource.TestStep
		}{
			"command": {nil, func(configuration, vhost, entry string) []resource.TestStep {
				return []resource.TestStep{
					{Config: configuration, ResourceName: "rabbitmqdelay_cascade.t", ImportState: true,
						ImportStatePersist: true, ImportStateId: harness.ImportID(vhost, entry)},
					{Config: configuration,
						ConfigPlanChecks: harness.ExpectEmptyPlan},
				}
			}},
			"block": {[]tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_5_0)},
				func(configuration, vhost, entry string) []resource.TestStep {
					return []resource.TestStep{{
						Config: configuration + fmt.Sprintf("import {\n  to = rabbitmqdelay_cascade.t\n  id "+
							"= %q\n}\n", harness.ImportID(vhost, entry)),
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
				v := harness.NewVhost(t)
				declare(v, name)
				before := v.Objects()
				configuration := harness.RequiredProviders + harness.WithProvider(v.Broker,
					"resource \"rabbitmqdelay_cascade\" \"t\" {\n  vhost = %q\n%s}\n", v.Name,
					arguments(t, declared[name].configuration))
				steps := by.steps(configuration, v.Name, declared[name].entry)
				steps[len(steps)-1].Check = func(*terraform.State) error { v.MustHold(before); return nil }
				resource.Test(t, resource.TestCase{
					TerraformVersionChecks:   by.checks,
					ProtoV6ProviderFactories: harness.Providers,
					CheckDestroy:             func(*terraform.State) error { v.MustHold(topology.New()); return nil },
					Steps:                    steps,
				})
			})
		}
	}
}

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
	v := harness.NewVhost(t)
	v.DeclareQueue("plain", nil)
	v.DeclareExchange("plain", "topic")
	v.Bind("plain", "1.#", "queue", "plain")
	looksLike := `it has to be <vhost>/<entry exchange>, each part percent-encoded, such as %2F/orders.d.h.m.s`
	for id, want := range map[string][]string{
		"tasks.delay-16":        {`"tasks.delay-16"`, looksLike},
		"/tasks.delay-16":       {`"/tasks.delay-16"`, looksLike},
		"//tasks.delay-16":      {`"//tasks.delay-16"`, looksLike},
		"%2F/":                  {`"%2F/"`, looksLike},
		"%2F/a/b":               {`"%2F/a/b"`, looksLike},
		"%/tasks.delay-16":      {`"%/tasks.delay-16"`, looksLike},
		"nowhere/tasks":         {`vhost "nowhere"`, "no such vhost"},
		v.Name + "/nothing":     {`exchange "nothing" in vhost "` + v.Name + `"`, "there is no such exchange"},
		v.Name + "/plain":       {`exchange "plain"`, "its name has neither the number of a level nor units"},
		v.Name + "/amq.topic":   {`exchange "amq.topic"`, "no binding like that of a cascade's top level"},
		v.Name + "/amq.fanout":  {`exchange "amq.fanout"`, "it is a fanout exchange"},
		v.Name + "/amq%2Etopic": {`exchange "amq.topic"`},
	} {
		p := harness.NewProtocol(t, v.Broker, nil)
		diagnostics := p.ImportState(t.Context(), id)
		text := harness.ErrorText(diagnostics)
		if len(diagnostics) != 1 || text == "" {
			t.Errorf("%s: %d diagnostics, want one error: %s", id, len(diagnostics), text)
		}
		harness.MustSay(t, id+": the error", text, want...)
	}
}

// With one cascade of five levels, no import takes another exchange for its entry, and neither do the data
// sources. Each error names the entry, and the import that it recommends works.
func TestImportBelievesKeys(t *testing.T) {
	t.Parallel()
	for form, is := range map[string]mistakable{
		"uniform": {harness.Attributes{"levels": 5}, "m.delay-04", [2]string{"m.delay-06", "m.delay-05"},
			[3]string{"m.delay-03", "m.delay-02", "m.delay-00"}},
		"units": {harness.Attributes{"max_delay": "10s"}, "m.d.h.m.s", [2]string{"m.14d.7d.d.h.m.s", "m.7d.d.h.m.s"},
			[3]string{"m.h.m.s", "m.m.s", "m.s"}},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			is.importsByKeys(t)
		})
	}
}

// mistakable is a cascade with names that could be those of its entry.
type mistakable struct {
	given harness.Attributes
	entry string
	above [2]string
	below [3]string
}

func (is mistakable) importsByKeys(t *testing.T) {
	v := harness.NewVhost(t)
	harness.NewProtocol(t, v.Broker, nil).MustApply(is.given.With(harness.Attributes{"vhost": v.Name, "name": "m"}))
	rungs := harness.Attributes{"vhost": v.Name, "name": "retry.0", "delays": harness.TextList("5s", "1m")}
	harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).MustApply(rungs)
	before, entry := v.Objects(), is.entry
	const none = ""
	for _, test := range []struct{ resource, asked, reason, found, entry string }{
		{harness.CascadeType, is.above[0], "there is no such exchange", harness.CascadeType, entry},
		{harness.CascadeType, is.above[1], "there is no such exchange", harness.CascadeType, entry},
		{harness.CascadeType, is.below[1], "a level in the middle of a cascade", harness.CascadeType, entry},
		{harness.CascadeType, is.below[2], "a level in the middle of a cascade", harness.CascadeType, entry},
		{harness.CascadeType, "m.delivery", "no binding like that of a cascade's top level", none, ""},
		{harness.CascadeType, "retry.0.entry", "no binding like that of a cascade's top level", harness.LadderType,
			"retry.0.entry"},
		{harness.LadderType, entry, "are like those of a cascade, and not of a ladder", harness.CascadeType, entry},
		{harness.LadderType, is.below[1], "are like those of a cascade, and not of a ladder",
			harness.CascadeType, entry},
		{harness.LadderType, is.above[1], "there is no such exchange", harness.CascadeType, entry},
		{harness.LadderType, "retry.0.delivery", "no binding like that of a ladder's rung", none, ""},
	} {
		by := harness.NewProtocolOf(t, test.resource, v.Broker, nil)
		text := harness.ErrorText(by.ImportState(t.Context(), harness.ImportID(v.Name, test.asked)))
		command := importCommand.FindStringSubmatch(text)
		if !strings.Contains(text, test.reason) || (command != nil) != (test.found != none) {
			t.Errorf("the import of %s as a %s says %s", test.asked, test.resource, text)
		}
		if command == nil {
			continue
		}
		if command[1] != harness.ImportID(v.Name, test.entry) || !strings.Contains(command[0],
			"import "+test.found+".") {
			t.Errorf("the import of %s recommends %s, not %s %s", test.asked, command[0], test.found, test.entry)
		}
		harness.NoErrors(t, harness.NewProtocolOf(t, test.found, v.Broker, nil).ImportState(t.Context(), command[1]))
	}
	p := harness.NewProtocol(t, v.Broker, nil)
	at := harness.Attributes{"vhost": v.Name, "entry_exchange": is.below[0]}
	for what, diagnostics := range map[string][]*tfprotov6.Diagnostic{
		"the data source": p.Read(t.Context(), harness.CascadeType, at),
		"the probe":       p.Read(t.Context(), "rabbitmqdelay_probe", at.With(harness.Attributes{"delay": "1s"})),
	} {
		harness.MustSay(t, what, harness.ErrorText(diagnostics),
			fmt.Sprintf("the entry of the cascade there is exchange %q", entry))
	}
	v.MustHold(before)
}

// A damaged cascade is imported by its entry, which may be gone, and by nothing else. The plan shows the missing
// objects, and one apply brings them back.
func TestImportOfADamagedCascade(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*harness.Vhost, eitherForm, topology.Topology){
		"objects are gone": func(v *harness.Vhost, c eitherForm, desired topology.Topology) {
			v.Do(plan.DeleteQueue{Queue: desired.Queues[c.queue(4)]},
				plan.DeleteQueue{Queue: desired.Queues[c.queue(1)]},
				plan.DeleteExchange{Name: c.exchange(2)}, plan.DeleteExchange{Name: "m.unroutable"})
		},
		"others have bound": func(v *harness.Vhost, c eitherForm, _ topology.Topology) {
			v.DeclareQueue("audit", map[string]any{"x-message-ttl": 7000, "x-dead-letter-exchange": c.exchange(2)})
			for _, exchange := range []string{c.entry(), c.exchange(2)} {
				for _, key := range []string{"1.#", "*.1.#", "1.*.#"} {
					v.Bind(exchange, key, "queue", "audit")
				}
			}
		},
		"a time is wrong": func(v *harness.Vhost, c eitherForm, desired topology.Topology) {
			level := 4
			if c.inUnits {
				level-- // without its binding, the longest shows max_delay by its time alone
			}
			halveTime(v, desired.Queues[c.queue(level)])
		},
		"the longest time is wrong": func(v *harness.Vhost, c eitherForm, desired topology.Topology) {
			halveTime(v, desired.Queues[c.queue(4)])
			for b := range desired.Bindings {
				if b.LeadsTo(topology.ToQueue, c.queue(4)) {
					v.Do(plan.Bind{Binding: b})
				}
			}
		},
		"the entry is gone": func(v *harness.Vhost, c eitherForm, _ topology.Topology) {
			v.Do(plan.DeleteExchange{Name: c.entry()})
		},
		"the entry is a new, empty one": func(v *harness.Vhost, c eitherForm, desired topology.Topology) {
			v.Do(plan.DeleteExchange{Name: c.entry()}, plan.DeclareExchange{Exchange: desired.Exchanges[c.entry()]})
		},
	} {
		for form, inUnits := range bothForms {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				cascade := eitherForm{"m", 5, time.Second, inUnits, severalQueues}
				v := harness.NewVhost(t)
				desired := harness.Expand(t, cascade.config())
				v.Do(plan.Repair(desired, topology.New()).Steps()...)
				damage(v, cascade, desired)
				importsDamaged(v, cascade, desired)
			})
		}
	}
}

// halveTime declares a delay queue anew with half its TTL.
func halveTime(v *harness.Vhost, q topology.Queue) {
	v.T.Helper()
	ttl, delays := q.Arguments["x-message-ttl"].(int64)
	if !delays {
		v.T.Fatalf("queue %q is no delay queue", q.Name)
	}
	v.Do(plan.DeleteQueue{Queue: q})
	q.Arguments = maps.Clone(q.Arguments)
	q.Arguments["x-message-ttl"] = ttl / 2
	v.Do(plan.DeclareQueue{Queue: q})
}

func importsDamaged(v *harness.Vhost, cascade eitherForm, desired topology.Topology) {
	t := v.T
	t.Helper()
	for _, level := range []int{6, 5, 3, 2, 0} {
		wrong := cascade.exchange(level)
		p := harness.NewProtocol(t, v.Broker, nil)
		text := harness.ErrorText(p.ImportState(t.Context(), harness.ImportID(v.Name, wrong)))
		command := importCommand.FindStringSubmatch(text)
		if text == "" || command != nil && command[1] != harness.ImportID(v.Name, cascade.entry()) {
			t.Errorf("the import of %s says %q", wrong, text)
		}
	}
	p := harness.NewProtocol(t, v.Broker, nil)
	given := cascade.given().With(harness.Attributes{"vhost": v.Name})
	harness.NoErrors(t, p.ImportState(t.Context(), harness.ImportID(v.Name, cascade.entry())))
	todo := p.Plan(t.Context(), given)
	if harness.HasErrors(todo.Diagnostics) || todo.Replace || todo.IsEmpty(p.State) {
		t.Errorf("replace %t, empty %t: %s", todo.Replace, todo.IsEmpty(p.State),
			harness.ErrorText(todo.Diagnostics))
	}
	p.MustApply(given)
	p.MustBeSettled(given)
	have := v.Objects()
	delete(have.Queues, "audit")
	v.Compare(desired, have)
}

// declare plays the one who declared the cascade of a vector.
func declare(v *harness.Vhost, vector string) {
	v.T.Helper()
	text, err := os.ReadFile("../delay/delaytest/vectors/" + vector + ".json")
	if err != nil {
		v.T.Fatal(err)
	}
	v.Request(http.MethodPost, text, "definitions", v.Name)
}

// arguments are attributes as Terraform's language has them.
func arguments(t testing.TB, configuration harness.Attributes) string {
	t.Helper()
	var text strings.Builder
	for name, value := range configuration {
		switch is := value.(type) {
		case string:
			value = harness.Quote(is)
		case tftypes.Value:
			list, err := json.Marshal(harness.Plain(t, is))
			if err != nil {
				t.Fatal(err)
			}
			value = string(list)
		}
		fmt.Fprintf(&text, "  %s = %v\n", name, value)
	}
	return text.String()
}
