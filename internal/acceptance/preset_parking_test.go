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
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// parkingPreset is a preset with parking in a vhost: as it is given, and what it stands for.
func parkingPreset(t *testing.T, v *harness.Vhost, preset delay.Preset) (harness.Attributes, topology.Topology) {
	t.Helper()
	return harness.Attributes{"vhost": v.Name, "preset": string(preset), "park_unroutable": true},
		harness.Expand(t, delay.Config{Vhost: v.Name, Preset: preset, CreateDeliveryExchange: true,
			ParkUnroutable: true})
}

// TestPresetParking lives the life of each preset with parking. It takes the framework's own declarations, and parks
// unroutable messages. An import finds the policy, a refresh sees its changes, and a destroy takes it.
func TestPresetParking(t *testing.T) {
	t.Parallel()
	for preset, name := range map[delay.Preset]string{
		delay.NServiceBus: "nsb.v2.unroutable", delay.NServiceBusV1: "nsb.unroutable",
		delay.Celery: "celery.unroutable", delay.CeleryClassic: "celery.unroutable",
	} {
		t.Run(string(preset), func(t *testing.T) {
			parkInPreset(t, preset, name)
		})
	}
}

func parkInPreset(t *testing.T, preset delay.Preset, parking string) {
	t.Parallel()
	v := harness.NewVhost(t)
	given, want := parkingPreset(t, v, preset)
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(given)
	p.MustBeSettled(given)
	if left := plan.Repair(want, v.Exported()).Steps(); len(left) > 0 {
		t.Errorf("what is exported is not the preset with parking: %v", left)
	}
	declareAgain(t, v, harness.Expand(t, delay.Config{Vhost: v.Name, Preset: preset, CreateDeliveryExchange: true}))
	p.MustBeSettled(given)

	v.Publish(want.Entry, "no digits", "malformed")
	v.Publish(want.Entry, harness.RoutingKey(t, time.Second, 28, time.Second, "gone"), "no receiver")
	v.Eventually("both messages are parked", func() bool { return v.Depth(parking) == 2 })

	imported := harness.NewProtocol(t, v.Broker, nil)
	harness.NoErrors(t, imported.ImportState(t.Context(), v.Name+"/"+want.Entry))
	imported.MustBeSettled(given)

	for change, says := range map[string]struct {
		do   func()
		text string
	}{
		"deleted": {func() { v.Do(plan.DeletePolicy{Name: parking}) },
			fmt.Sprintf("The policy %s is gone. Messages that no binding takes", parking)},
		"another priority": {func() {
			changed := want.Policies[parking]
			changed.Priority = 3
			v.Do(plan.SetPolicy{Policy: changed})
		}, fmt.Sprintf("The policy %s has priority 3, not 10. Another policy", parking)},
		"another exchange": {func() {
			changed := want.Policies[parking]
			changed.Definition = topology.Arguments{"alternate-exchange": "elsewhere"}
			v.Do(plan.SetPolicy{Policy: changed})
		}, fmt.Sprintf("The policy %s has alternate-exchange elsewhere, not %s. Messages that no binding takes",
			parking, parking)},
	} {
		says.do()
		diagnostics := p.Refresh(t.Context())
		if text := harness.WarningText(diagnostics); !strings.Contains(text, says.text) {
			t.Errorf("%s: a refresh does not say %q but: %s", change, says.text, text)
		}
		todo := p.Plan(t.Context(), given)
		if todo.IsEmpty(p.State) || todo.Replace {
			t.Errorf("%s: there is nothing to repair, or too much", change)
		}
		harness.NoErrors(t, p.Apply(t.Context(), todo))
		p.MustBeSettled(given)
	}
	importAltered(t, v, given, want)

	harness.NoErrors(t, p.Refresh(t.Context()))
	refused := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil)))
	if !strings.Contains(refused, fmt.Sprintf("queue %q: 2", parking)) {
		t.Errorf("a destroy with parked messages ends with: %s", refused)
	}
	if left := plan.Repair(want, v.Exported()).Steps(); len(left) > 0 {
		t.Errorf("after it was refused, there is left to do: %v", left)
	}
	v.Purge(parking)
	p.MustApply(nil)
	if there := v.Exported().Part(want); !there.IsEmpty() {
		t.Errorf("after the destroy there are %v", there)
	}
}

// importAltered imports a preset whose parking policy was altered, in each way in which it can be. The plan has the
// difference, and one apply repairs it.
func importAltered(t *testing.T, v *harness.Vhost, given harness.Attributes, want topology.Topology) {
	t.Helper()
	own := want.Policies[want.Parking()]
	for what, alter := range map[string]func(*topology.Policy){
		"pattern":  func(p *topology.Policy) { p.Pattern = "^" + want.Entry + "$" },
		"kind":     func(p *topology.Policy) { p.ApplyTo = "all" },
		"priority": func(p *topology.Policy) { p.Priority = 3 },
		"definition": func(p *topology.Policy) {
			p.Definition = topology.Arguments{"alternate-exchange": "amq.fanout"}
		},
	} {
		altered := own
		alter(&altered)
		v.Do(plan.SetPolicy{Policy: altered})
		p := harness.NewProtocol(t, v.Broker, nil)
		harness.NoErrors(t, p.ImportState(t.Context(), harness.ImportID(v.Name, want.Entry)))
		if parks := harness.Fields(t, p.State)["park_unroutable"]; !parks.Equal(tftypes.NewValue(tftypes.Bool, true)) {
			t.Errorf("with another %s, the import has park_unroutable %v", what, parks)
		}
		todo := p.Plan(t.Context(), given)
		had, gets := harness.Fields(t, p.State)["policies"], harness.Fields(t, todo.State)["policies"]
		if harness.HasErrors(todo.Diagnostics) || todo.Replace || had.IsNull() || had.Equal(gets) {
			t.Errorf("with another %s, the plan replaces: %t, and shows of the policy %v and not %v: %s", what,
				todo.Replace, gets, had, harness.ErrorText(todo.Diagnostics))
		}
		harness.NoErrors(t, p.Apply(t.Context(), todo))
		p.MustBeSettled(given)
		if left := plan.Repair(want, v.Objects()).Steps(); len(left) > 0 {
			t.Errorf("with another %s, the apply leaves to do: %v", what, left)
		}
	}
}

// TestPresetParkingComesAndGoes turns parking on and off in place, under messages that wait. The framework's objects
// stay as they are. Parking does not go while it holds messages.
func TestPresetParkingComesAndGoes(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	with, want := parkingPreset(t, v, delay.CeleryClassic)
	without := harness.Attributes{"vhost": v.Name, "preset": "celery_classic"}
	const parking = "celery.unroutable"
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(without)
	arrivals := v.Collect(want.Delivery, "#.here")
	v.Publish(want.Entry, harness.RoutingKey(t, time.Minute, 28, time.Second, "here"), "waits")

	p.MustApply(with)
	p.MustBeSettled(with)
	v.Publish(want.Entry, "no digits", "malformed")
	v.Eventually("the message is parked", func() bool { return v.Depth(parking) == 1 })

	harness.NoErrors(t, p.Refresh(t.Context()))
	refused := p.Apply(t.Context(), p.Plan(t.Context(), without))
	if text := harness.ErrorText(refused); !strings.Contains(text, fmt.Sprintf("queue %q: 1", parking)) ||
		strings.Contains(text, "celery_delayed") && strings.Contains(text, `queue "celery_delayed`) {
		t.Errorf("taking parking away with a parked message ends with: %s", text)
	}
	p.MustBeSettled(with)

	named := with.With(harness.Attributes{"name": "billing"})
	if text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), named))); !strings.Contains(text, parking) {
		t.Errorf("another name for a queue with a parked message ends with: %s", text)
	}
	v.Purge(parking)
	p.MustApply(named)
	p.MustBeSettled(named)
	v.Publish(want.Entry, "no digits", "malformed")
	v.Eventually("the message is parked", func() bool { return v.Depth("billing.unroutable") == 1 })
	v.Purge("billing.unroutable")

	p.MustApply(without)
	p.MustBeSettled(without)
	if policies := v.Policies(); len(policies) > 0 {
		t.Errorf("without parking there are policies: %v", policies)
	}
	v.Arrived(arrivals, 1) // it has waited through it all
	p.MustApply(nil)
}

// TestPresetParkingUnjams sends forty messages for an endpoint that is gone, and then one for another endpoint: with
// parking, that arrives on time. Without, at-least-once dead-lettering holds it up for three minutes.
func TestPresetParkingUnjams(t *testing.T) {
	t.Parallel()
	for parks, onTime := range map[bool]bool{true: true, false: false} {
		t.Run(fmt.Sprint(parks), func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			given, want := parkingPreset(t, v, delay.NServiceBus)
			given["park_unroutable"] = parks
			p := harness.NewProtocol(t, v.Broker, nil)
			p.MustApply(given)
			arrivals := v.Collect(want.Delivery, "#.here")
			for range 40 {
				v.Publish(want.Entry, harness.RoutingKey(t, time.Second, 28, time.Second, "gone"), "no receiver")
			}
			v.Publish(want.Entry, harness.RoutingKey(t, 2*time.Second, 28, time.Second, "here"), "before it")
			v.Publish(want.Entry, harness.RoutingKey(t, 3*time.Second, 28, time.Second, "here"), "behind them")
			if !onTime {
				time.Sleep(20 * time.Second) // nothing shows that a message does not arrive
				if got := len(arrivals.Arrivals()); got != 1 {
					t.Errorf("without parking, %d messages arrived and not only the one before", got)
				}
				return
			}
			sent := time.Now()
			if after := v.Arrived(arrivals, 2)[1].At.Sub(sent); after > 8*time.Second {
				t.Errorf("the message behind the forty arrived after %s", after)
			}
			v.Eventually("the forty are parked", func() bool { return v.Depth("nsb.v2.unroutable") == 40 })
		})
	}
}

// TestPresetParkingHasRivals has another policy for the same exchanges: before, it is an error, and later, a finding.
func TestPresetParkingHasRivals(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given, want := parkingPreset(t, v, delay.Celery)
	const parking = "celery.unroutable"
	set := func(name, pattern, applyTo string, priority int) {
		t.Helper()
		v.Try(v.API.PutPolicy(v.Name, name, rabbithole.Policy{Pattern: pattern, ApplyTo: applyTo,
			Priority: priority, Definition: rabbithole.PolicyDefinition{"alternate-exchange": "elsewhere"}}))
	}
	set("queues alone", ".*", "queues", 50)
	set("lower", ".*", "exchanges", 9)
	set("others", "^other", "all", 50)
	p := harness.NewProtocol(t, v.Broker, nil)
	for _, priority := range []int{10, 11} {
		set("rival", "celery_delayed_2", "all", priority)
		todo := p.Plan(t.Context(), given)
		if text := harness.WarningText(todo.Diagnostics); !strings.Contains(text, `policy "rival"`) {
			t.Errorf("the plan does not warn of the policy: %s", text)
		}
		text := harness.ErrorText(p.Apply(t.Context(), todo))
		harness.MustSay(t, fmt.Sprintf("with priority %d, the create", priority), text, "Nothing was written",
			fmt.Sprintf("policy %q with priority 10", parking),
			fmt.Sprintf(`policy "rival" with priority %d`, priority), "on 9 of the exchanges")
		if n := strings.Count(text, `policy "`); n != 2 {
			t.Errorf("it names %d policies: %s", n, text)
		}
		if there := v.Objects().Part(want); !there.IsEmpty() {
			t.Fatalf("the create that is refused has written %v", there)
		}
	}
	v.Try(v.API.DeletePolicy(v.Name, "rival"))
	p.MustApply(given)
	if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
		t.Errorf("a refresh warns: %s", text)
	}
	set("rival", "^celery_delayed_27$", "exchanges", 11)
	diagnostics := p.Refresh(t.Context())
	if text := harness.WarningText(diagnostics); !strings.Contains(text,
		`policy "rival" on exchange "celery_delayed_27": its `+
			`priority is 11, and that of policy "celery.unroutable" is 10`) {
		t.Errorf("a refresh says of the other policy: %s", text)
	}
	p.MustBeSettled(given)
	var entry struct{ Policy string }
	v.Get(&entry, "exchanges", v.Name, want.Entry)
	if entry.Policy != "rival" {
		t.Errorf("RabbitMQ applies %q", entry.Policy)
	}
	v.Try(v.API.DeletePolicy(v.Name, "rival"))
	p.MustApply(nil)
}

// TestPresetParkingDisplaces has policies of a lower priority. Each plan that sets the parking policy names those that
// lose exchanges to it, with the keys. The way that it recommends gives the exchanges both.
func TestPresetParkingDisplaces(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given, want := parkingPreset(t, v, delay.NServiceBusV1)
	const parking, mine = "nsb.unroutable", "mine"
	set := func(name, pattern, applyTo string, priority int, definition rabbithole.PolicyDefinition) {
		t.Helper()
		v.Try(v.API.PutPolicy(v.Name, name, rabbithole.Policy{Pattern: pattern, ApplyTo: applyTo,
			Priority: priority, Definition: definition}))
	}
	applied := func() string {
		t.Helper()
		var entry struct{ Policy string }
		v.Get(&entry, "exchanges", v.Name, want.Entry)
		return entry.Policy
	}
	elsewhere := rabbithole.PolicyDefinition{"alternate-exchange": "elsewhere"}
	set("hidden", "", "exchanges", 4, elsewhere)
	set(mine, "^nsb\\.", "all", 5, rabbithole.PolicyDefinition{"alternate-exchange": "elsewhere",
		"max-length": 1000000})
	set("queues", "", "queues", 6, rabbithole.PolicyDefinition{"max-length": 1000000})
	set("others", "^other", "exchanges", 7, elsewhere)
	says := fmt.Sprintf(`policy %q with priority 5 and pattern "^nsb\\.", on %d of the exchanges: `+
		`{"alternate-exchange":"elsewhere"}`, mine, len(want.Exchanges)-1)
	mustWarn := func(what string, todo harness.PlannedChange) {
		t.Helper()
		text := harness.WarningText(todo.Diagnostics)
		if harness.HasErrors(todo.Diagnostics) || !strings.Contains(text, says) ||
			strings.Count(text, "on 29 of") != 1 {
			t.Errorf("the plan of %s says %s %s", what, text, harness.ErrorText(todo.Diagnostics))
		}
	}
	mustNotWarn := func(what string, todo harness.PlannedChange) {
		t.Helper()
		if text := harness.WarningText(todo.Diagnostics); strings.Contains(text, "lose") {
			t.Errorf("the plan of %s says %s", what, text)
		}
	}
	p := harness.NewProtocol(t, v.Broker, nil)
	without := harness.Attributes{"vhost": v.Name, "preset": "nservicebus_v1"}
	mustNotWarn("a create without parking", p.Plan(t.Context(), without))
	mustWarn("a create", p.Plan(t.Context(), given))
	p.MustApply(without)
	if applied() != mine {
		t.Errorf("without parking, RabbitMQ applies %q", applied())
	}
	todo := p.Plan(t.Context(), given)
	mustWarn("an update", todo)
	harness.NoErrors(t, p.Apply(t.Context(), todo))
	if applied() != parking {
		t.Errorf("with parking, RabbitMQ applies %q", applied())
	}
	p.MustBeSettled(given)
	mustNotWarn("nothing", p.Plan(t.Context(), given))
	mustNotWarn("no policy", p.Plan(t.Context(), given.With(harness.Attributes{"force_destroy": true})))
	mustNotWarn("another name", p.Plan(t.Context(), given.With(harness.Attributes{"name": "billing"})))
	v.Do(plan.DeletePolicy{Name: parking})
	harness.NoErrors(t, p.Refresh(t.Context()))
	if applied() != mine {
		t.Errorf("without the policy, RabbitMQ applies %q", applied())
	}
	mustWarn("a repair", p.Plan(t.Context(), given))

	set("both", "^nsb\\.", "exchanges", 11, rabbithole.PolicyDefinition{"alternate-exchange": parking})
	harness.NoErrors(t, p.Refresh(t.Context()))
	todo = p.Plan(t.Context(), given)
	mustNotWarn("a repair below a policy that parks", todo)
	harness.NoErrors(t, p.Apply(t.Context(), todo))
	p.MustBeSettled(given)
	if text := harness.WarningText(p.Refresh(t.Context())); strings.Contains(text, "on exchange") ||
		applied() != "both" {
		t.Errorf("RabbitMQ applies %q, and a refresh warns: %s", applied(), text)
	}
	v.Publish(want.Entry, "no digits", "malformed")
	v.Eventually("the message is parked", func() bool { return v.Depth(parking) == 1 })
	v.Purge(parking)
	p.MustApply(nil)
}

// TestOperatorPolicyOnExchanges shows that no operator policy stands in the way of parking. RabbitMQ refuses one that
// has an alternate exchange, and merges others with the policy.
func TestOperatorPolicyOnExchanges(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given, want := parkingPreset(t, v, delay.NServiceBusV1)
	body := func(definition string) []byte {
		return []byte(`{"pattern": ".*", "apply-to": "all", "priority": 99, "definition": ` + definition + `}`)
	}
	if _, status := v.Ask(http.MethodPut, body(`{"alternate-exchange": "elsewhere"}`), "operator-policies", v.Name,
		"limit"); !strings.HasPrefix(status, "400") {
		t.Errorf("an operator policy with an alternate exchange: %s", status)
	}
	v.Request(http.MethodPut, body(`{"max-length": 1000000}`), "operator-policies", v.Name, "limit")
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(given)
	v.Publish(want.Entry, "no digits", "malformed")
	v.Eventually("the message is parked", func() bool { return v.Depth("nsb.unroutable") == 1 })
}

// TestPresetParkingTakesATag is done by users without and with the tag that policies take.
func TestPresetParkingTakesATag(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given, want := parkingPreset(t, v, delay.NServiceBus)
	u := harness.NewUser(t, v.Broker, v.Name)
	u.Grant(permissionsOf(t, "parking"))
	p := harness.NewProtocol(t, u.Broker(), nil)
	mustNeed := func(what string, configuration harness.Attributes) {
		t.Helper()
		harness.NoErrors(t, p.Refresh(t.Context()))
		text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), configuration)))
		if !strings.Contains(text, "permission denied") || !strings.Contains(text, "set_user_tags <user> management "+
			"policymaker") || !strings.Contains(text, `policy "nsb.v2.unroutable"`) {
			t.Errorf("without the tag, %s ends with: %s", what, text)
		}
	}
	for _, tag := range []string{"management", "monitoring"} {
		u.Tag(tag)
		mustNeed("a create", given)
		if there := v.Objects().Part(want); !there.IsEmpty() {
			t.Fatalf("the create that is refused has written %v", there)
		}
	}
	without := harness.Attributes{"vhost": v.Name, "preset": "nservicebus"}
	p.MustApply(without)
	mustNeed("an update", given)
	p.MustBeSettled(without)
	u.Tag("policymaker")
	p.MustApply(given)
	p.MustBeSettled(given)

	u.Tag("management") // which is enough to read
	p.MustBeSettled(given)
	mustNeed("a destroy", nil)
	if left := plan.Repair(want, v.Objects()).Steps(); len(left) > 0 {
		t.Errorf("the destroy that is refused has taken something: %v", left)
	}
	v.Do(plan.DeletePolicy{Name: "nsb.v2.unroutable"})
	mustNeed("a repair", given)
	u.Tag("policymaker")
	p.MustApply(given)
	p.MustApply(nil)
}

// TestPresetParkingMeetsWhatIsThere has a policy of the same name: it is not touched unless it is adopted, and only if
// it is the same.
func TestPresetParkingMeetsWhatIsThere(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given, want := parkingPreset(t, v, delay.CeleryClassic)
	own := want.Policies["celery.unroutable"]
	v.Do(plan.SetPolicy{Policy: own})
	p := harness.NewProtocol(t, v.Broker, nil)
	create := func(configuration harness.Attributes) string {
		return harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), configuration)))
	}
	text := create(given)
	if !strings.Contains(text, `policy "celery.unroutable"`) || !strings.Contains(text, "adopt") {
		t.Errorf("a policy that is there: %s", text)
	}
	other := own
	other.Priority = 5
	v.Do(plan.SetPolicy{Policy: other})
	adopting := given.With(harness.Attributes{"adopt": true})
	if text = create(adopting); !strings.Contains(text, "priority is 5, not 10") {
		t.Errorf("a policy that differs: %s", text)
	}
	v.Do(plan.SetPolicy{Policy: own})
	p.MustApply(adopting)
	p.MustBeSettled(adopting)
	p.MustApply(nil)
	if policies := v.Policies(); len(policies) > 0 {
		t.Errorf("after the destroy there are policies: %v", policies)
	}
}

// TestPresetParkingIsUndone fails a create at its policy, and at the entry after that: nothing is left.
func TestPresetParkingIsUndone(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	_, want := parkingPreset(t, v, delay.CeleryClassic)
	u := harness.NewUser(t, v.Broker, v.Name)
	u.Tag("policymaker")
	u.Grant([3]string{"^(?!" + want.Entry + "$).*", ".*", ".*"}) // the entry comes after the policy
	given, _ := parkingPreset(t, v, delay.CeleryClassic)
	p := harness.NewProtocol(t, u.Broker(), nil)
	text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), given)))
	if !strings.Contains(text, fmt.Sprintf("configure on exchange %q", want.Entry)) &&
		!strings.Contains(text, want.Entry) {
		t.Errorf("the create ends with: %s", text)
	}
	if there := v.Objects().Part(want); !there.IsEmpty() || !p.State.IsNull() {
		t.Errorf("the create leaves %v, and a state: %v", there, !p.State.IsNull())
	}
}
