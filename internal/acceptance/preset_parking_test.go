package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// parkingPreset is a preset with parking in a vhost: as it is given, and what it stands for.
func parkingPreset(t *testing.T, v *vhost, preset delay.Preset) (attributes, topology.Topology) {
	t.Helper()
	return attributes{"vhost": v.name, "preset": string(preset), "park_unroutable": true},
		expand(t, delay.Config{Vhost: v.name, Preset: preset, CreateDeliveryExchange: true, ParkUnroutable: true})
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
	v := newVhost(t)
	given, want := parkingPreset(t, v, preset)
	p := newProtocol(t, v.broker, nil)
	p.mustApply(given)
	p.mustBeSettled(given)
	if left := plan.Repair(want, v.exported()).Steps(); len(left) > 0 {
		t.Errorf("what is exported is not the preset with parking: %v", left)
	}
	declareAgain(t, v, expand(t, delay.Config{Vhost: v.name, Preset: preset, CreateDeliveryExchange: true}))
	p.mustBeSettled(given)

	v.publish(want.Entry, "no digits", "malformed")
	v.publish(want.Entry, routingKey(t, time.Second, 28, time.Second, "gone"), "no receiver")
	v.eventually("both messages are parked", func() bool { return v.depth(parking) == 2 })

	imported := newProtocol(t, v.broker, nil)
	noErrors(t, imported.importState(t.Context(), v.name+"/"+want.Entry))
	imported.mustBeSettled(given)

	for change, says := range map[string]struct {
		do   func()
		text string
	}{
		"deleted": {func() { v.do(plan.DeletePolicy{Name: parking}) },
			fmt.Sprintf("The policy %s is gone. Messages that no binding takes", parking)},
		"another priority": {func() {
			changed := want.Policies[parking]
			changed.Priority = 3
			v.do(plan.SetPolicy{Policy: changed})
		}, fmt.Sprintf("The policy %s has priority 3, not 10. Another policy", parking)},
		"another exchange": {func() {
			changed := want.Policies[parking]
			changed.Definition = topology.Arguments{"alternate-exchange": "elsewhere"}
			v.do(plan.SetPolicy{Policy: changed})
		}, fmt.Sprintf("The policy %s has alternate-exchange elsewhere, not %s. Messages that no binding takes",
			parking, parking)},
	} {
		says.do()
		diagnostics := p.refresh(t.Context())
		if text := warningText(diagnostics); !strings.Contains(text, says.text) {
			t.Errorf("%s: a refresh does not say %q but: %s", change, says.text, text)
		}
		todo := p.plan(t.Context(), given)
		if todo.isEmpty(p.state) || todo.replace {
			t.Errorf("%s: there is nothing to repair, or too much", change)
		}
		noErrors(t, p.apply(t.Context(), todo))
		p.mustBeSettled(given)
	}
	importAltered(t, v, given, want)

	noErrors(t, p.refresh(t.Context()))
	refused := errorText(p.apply(t.Context(), p.plan(t.Context(), nil)))
	if !strings.Contains(refused, fmt.Sprintf("queue %q: 2", parking)) {
		t.Errorf("a destroy with parked messages ends with: %s", refused)
	}
	if left := plan.Repair(want, v.exported()).Steps(); len(left) > 0 {
		t.Errorf("after it was refused, there is left to do: %v", left)
	}
	v.purge(parking)
	p.mustApply(nil)
	if there := v.exported().Part(want); !there.IsEmpty() {
		t.Errorf("after the destroy there are %v", there)
	}
}

// importAltered imports a preset whose parking policy was altered, in each way in which it can be. The plan has the
// difference, and one apply repairs it.
func importAltered(t *testing.T, v *vhost, given attributes, want topology.Topology) {
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
		v.do(plan.SetPolicy{Policy: altered})
		p := newProtocol(t, v.broker, nil)
		noErrors(t, p.importState(t.Context(), importID(v.name, want.Entry)))
		if parks := fields(t, p.state)["park_unroutable"]; !parks.Equal(tftypes.NewValue(tftypes.Bool, true)) {
			t.Errorf("with another %s, the import has park_unroutable %v", what, parks)
		}
		todo := p.plan(t.Context(), given)
		had, gets := fields(t, p.state)["policies"], fields(t, todo.state)["policies"]
		if hasErrors(todo.diagnostics) || todo.replace || had.IsNull() || had.Equal(gets) {
			t.Errorf("with another %s, the plan replaces: %t, and shows of the policy %v and not %v: %s", what,
				todo.replace, gets, had, errorText(todo.diagnostics))
		}
		noErrors(t, p.apply(t.Context(), todo))
		p.mustBeSettled(given)
		if left := plan.Repair(want, v.objects()).Steps(); len(left) > 0 {
			t.Errorf("with another %s, the apply leaves to do: %v", what, left)
		}
	}
}

// TestPresetParkingComesAndGoes turns parking on and off in place, under messages that wait. The framework's objects
// stay as they are. Parking does not go while it holds messages.
func TestPresetParkingComesAndGoes(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	with, want := parkingPreset(t, v, delay.CeleryClassic)
	without := attributes{"vhost": v.name, "preset": "celery_classic"}
	const parking = "celery.unroutable"
	p := newProtocol(t, v.broker, nil)
	p.mustApply(without)
	arrivals := v.collect(want.Delivery, "#.here")
	v.publish(want.Entry, routingKey(t, time.Minute, 28, time.Second, "here"), "waits")

	p.mustApply(with)
	p.mustBeSettled(with)
	v.publish(want.Entry, "no digits", "malformed")
	v.eventually("the message is parked", func() bool { return v.depth(parking) == 1 })

	noErrors(t, p.refresh(t.Context()))
	refused := p.apply(t.Context(), p.plan(t.Context(), without))
	if text := errorText(refused); !strings.Contains(text, fmt.Sprintf("queue %q: 1", parking)) ||
		strings.Contains(text, "celery_delayed") && strings.Contains(text, `queue "celery_delayed`) {
		t.Errorf("taking parking away with a parked message ends with: %s", text)
	}
	p.mustBeSettled(with)

	named := with.with(attributes{"name": "billing"})
	if text := errorText(p.apply(t.Context(), p.plan(t.Context(), named))); !strings.Contains(text, parking) {
		t.Errorf("another name for a queue with a parked message ends with: %s", text)
	}
	v.purge(parking)
	p.mustApply(named)
	p.mustBeSettled(named)
	v.publish(want.Entry, "no digits", "malformed")
	v.eventually("the message is parked", func() bool { return v.depth("billing.unroutable") == 1 })
	v.purge("billing.unroutable")

	p.mustApply(without)
	p.mustBeSettled(without)
	if policies := v.policies(); len(policies) > 0 {
		t.Errorf("without parking there are policies: %v", policies)
	}
	v.arrived(arrivals, 1) // it has waited through it all
	p.mustApply(nil)
}

// TestPresetParkingUnjams sends forty messages for an endpoint that is gone, and then one for another endpoint: with
// parking, that arrives on time. Without, at-least-once dead-lettering holds it up for three minutes.
func TestPresetParkingUnjams(t *testing.T) {
	t.Parallel()
	for parks, onTime := range map[bool]bool{true: true, false: false} {
		t.Run(fmt.Sprint(parks), func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			given, want := parkingPreset(t, v, delay.NServiceBus)
			given["park_unroutable"] = parks
			p := newProtocol(t, v.broker, nil)
			p.mustApply(given)
			arrivals := v.collect(want.Delivery, "#.here")
			for range 40 {
				v.publish(want.Entry, routingKey(t, time.Second, 28, time.Second, "gone"), "no receiver")
			}
			v.publish(want.Entry, routingKey(t, 2*time.Second, 28, time.Second, "here"), "before it")
			v.publish(want.Entry, routingKey(t, 3*time.Second, 28, time.Second, "here"), "behind them")
			if !onTime {
				time.Sleep(20 * time.Second) // nothing shows that a message does not arrive
				if got := len(arrivals.Arrivals()); got != 1 {
					t.Errorf("without parking, %d messages arrived and not only the one before", got)
				}
				return
			}
			sent := time.Now()
			if after := v.arrived(arrivals, 2)[1].At.Sub(sent); after > 8*time.Second {
				t.Errorf("the message behind the forty arrived after %s", after)
			}
			v.eventually("the forty are parked", func() bool { return v.depth("nsb.v2.unroutable") == 40 })
		})
	}
}

// TestPresetParkingHasRivals has another policy for the same exchanges: before, it is an error, and later, a finding.
func TestPresetParkingHasRivals(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	given, want := parkingPreset(t, v, delay.Celery)
	const parking = "celery.unroutable"
	set := func(name, pattern, applyTo string, priority int) {
		t.Helper()
		v.try(v.api.PutPolicy(v.name, name, rabbithole.Policy{Pattern: pattern, ApplyTo: applyTo,
			Priority: priority, Definition: rabbithole.PolicyDefinition{"alternate-exchange": "elsewhere"}}))
	}
	set("queues alone", ".*", "queues", 50)
	set("lower", ".*", "exchanges", 9)
	set("others", "^other", "all", 50)
	p := newProtocol(t, v.broker, nil)
	for _, priority := range []int{10, 11} {
		set("rival", "celery_delayed_2", "all", priority)
		todo := p.plan(t.Context(), given)
		if text := warningText(todo.diagnostics); !strings.Contains(text, `policy "rival"`) {
			t.Errorf("the plan does not warn of the policy: %s", text)
		}
		text := errorText(p.apply(t.Context(), todo))
		mustSay(t, fmt.Sprintf("with priority %d, the create", priority), text, "Nothing was written",
			fmt.Sprintf("policy %q with priority 10", parking),
			fmt.Sprintf(`policy "rival" with priority %d`, priority), "on 9 of the exchanges")
		if n := strings.Count(text, `policy "`); n != 2 {
			t.Errorf("it names %d policies: %s", n, text)
		}
		if there := v.objects().Part(want); !there.IsEmpty() {
			t.Fatalf("the create that is refused has written %v", there)
		}
	}
	v.try(v.api.DeletePolicy(v.name, "rival"))
	p.mustApply(given)
	if text := warningText(p.refresh(t.Context())); text != "" {
		t.Errorf("a refresh warns: %s", text)
	}
	set("rival", "^celery_delayed_27$", "exchanges", 11)
	diagnostics := p.refresh(t.Context())
	if text := warningText(diagnostics); !strings.Contains(text, `policy "rival" on exchange "celery_delayed_27": its `+
		`priority is 11, and that of policy "celery.unroutable" is 10`) {
		t.Errorf("a refresh says of the other policy: %s", text)
	}
	p.mustBeSettled(given)
	var entry struct{ Policy string }
	v.get(&entry, "exchanges", v.name, want.Entry)
	if entry.Policy != "rival" {
		t.Errorf("RabbitMQ applies %q", entry.Policy)
	}
	v.try(v.api.DeletePolicy(v.name, "rival"))
	p.mustApply(nil)
}

// TestPresetParkingDisplaces has policies of a lower priority. Each plan that sets the parking policy names those that
// lose exchanges to it, with the keys. The way that it recommends gives the exchanges both.
func TestPresetParkingDisplaces(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	given, want := parkingPreset(t, v, delay.NServiceBusV1)
	const parking, mine = "nsb.unroutable", "mine"
	set := func(name, pattern, applyTo string, priority int, definition rabbithole.PolicyDefinition) {
		t.Helper()
		v.try(v.api.PutPolicy(v.name, name, rabbithole.Policy{Pattern: pattern, ApplyTo: applyTo,
			Priority: priority, Definition: definition}))
	}
	applied := func() string {
		t.Helper()
		var entry struct{ Policy string }
		v.get(&entry, "exchanges", v.name, want.Entry)
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
	mustWarn := func(what string, todo plannedChange) {
		t.Helper()
		text := warningText(todo.diagnostics)
		if hasErrors(todo.diagnostics) || !strings.Contains(text, says) || strings.Count(text, "on 29 of") != 1 {
			t.Errorf("the plan of %s says %s %s", what, text, errorText(todo.diagnostics))
		}
	}
	mustNotWarn := func(what string, todo plannedChange) {
		t.Helper()
		if text := warningText(todo.diagnostics); strings.Contains(text, "lose") {
			t.Errorf("the plan of %s says %s", what, text)
		}
	}
	p := newProtocol(t, v.broker, nil)
	without := attributes{"vhost": v.name, "preset": "nservicebus_v1"}
	mustNotWarn("a create without parking", p.plan(t.Context(), without))
	mustWarn("a create", p.plan(t.Context(), given))
	p.mustApply(without)
	if applied() != mine {
		t.Errorf("without parking, RabbitMQ applies %q", applied())
	}
	todo := p.plan(t.Context(), given)
	mustWarn("an update", todo)
	noErrors(t, p.apply(t.Context(), todo))
	if applied() != parking {
		t.Errorf("with parking, RabbitMQ applies %q", applied())
	}
	p.mustBeSettled(given)
	mustNotWarn("nothing", p.plan(t.Context(), given))
	mustNotWarn("no policy", p.plan(t.Context(), given.with(attributes{"force_destroy": true})))
	mustNotWarn("another name", p.plan(t.Context(), given.with(attributes{"name": "billing"})))
	v.do(plan.DeletePolicy{Name: parking})
	noErrors(t, p.refresh(t.Context()))
	if applied() != mine {
		t.Errorf("without the policy, RabbitMQ applies %q", applied())
	}
	mustWarn("a repair", p.plan(t.Context(), given))

	set("both", "^nsb\\.", "exchanges", 11, rabbithole.PolicyDefinition{"alternate-exchange": parking})
	noErrors(t, p.refresh(t.Context()))
	todo = p.plan(t.Context(), given)
	mustNotWarn("a repair below a policy that parks", todo)
	noErrors(t, p.apply(t.Context(), todo))
	p.mustBeSettled(given)
	if text := warningText(p.refresh(t.Context())); strings.Contains(text, "on exchange") || applied() != "both" {
		t.Errorf("RabbitMQ applies %q, and a refresh warns: %s", applied(), text)
	}
	v.publish(want.Entry, "no digits", "malformed")
	v.eventually("the message is parked", func() bool { return v.depth(parking) == 1 })
	v.purge(parking)
	p.mustApply(nil)
}

// TestOperatorPolicyOnExchanges shows that no operator policy stands in the way of parking. RabbitMQ refuses one that
// has an alternate exchange, and merges others with the policy.
func TestOperatorPolicyOnExchanges(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	given, want := parkingPreset(t, v, delay.NServiceBusV1)
	body := func(definition string) []byte {
		return []byte(`{"pattern": ".*", "apply-to": "all", "priority": 99, "definition": ` + definition + `}`)
	}
	if _, status := v.ask(http.MethodPut, body(`{"alternate-exchange": "elsewhere"}`), "operator-policies", v.name,
		"limit"); !strings.HasPrefix(status, "400") {
		t.Errorf("an operator policy with an alternate exchange: %s", status)
	}
	v.request(http.MethodPut, body(`{"max-length": 1000000}`), "operator-policies", v.name, "limit")
	p := newProtocol(t, v.broker, nil)
	p.mustApply(given)
	v.publish(want.Entry, "no digits", "malformed")
	v.eventually("the message is parked", func() bool { return v.depth("nsb.unroutable") == 1 })
}

// TestPresetParkingTakesATag is done by users without and with the tag that policies take.
func TestPresetParkingTakesATag(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	given, want := parkingPreset(t, v, delay.NServiceBus)
	u := newUser(t, v.broker, v.name)
	u.grant(permissionsOf(t, "parking"))
	p := newProtocol(t, u.broker(), nil)
	mustNeed := func(what string, configuration attributes) {
		t.Helper()
		noErrors(t, p.refresh(t.Context()))
		text := errorText(p.apply(t.Context(), p.plan(t.Context(), configuration)))
		if !strings.Contains(text, "permission denied") || !strings.Contains(text, "set_user_tags <user> management "+
			"policymaker") || !strings.Contains(text, `policy "nsb.v2.unroutable"`) {
			t.Errorf("without the tag, %s ends with: %s", what, text)
		}
	}
	for _, tag := range []string{"management", "monitoring"} {
		u.tag(tag)
		mustNeed("a create", given)
		if there := v.objects().Part(want); !there.IsEmpty() {
			t.Fatalf("the create that is refused has written %v", there)
		}
	}
	without := attributes{"vhost": v.name, "preset": "nservicebus"}
	p.mustApply(without)
	mustNeed("an update", given)
	p.mustBeSettled(without)
	u.tag("policymaker")
	p.mustApply(given)
	p.mustBeSettled(given)

	u.tag("management") // which is enough to read
	p.mustBeSettled(given)
	mustNeed("a destroy", nil)
	if left := plan.Repair(want, v.objects()).Steps(); len(left) > 0 {
		t.Errorf("the destroy that is refused has taken something: %v", left)
	}
	v.do(plan.DeletePolicy{Name: "nsb.v2.unroutable"})
	mustNeed("a repair", given)
	u.tag("policymaker")
	p.mustApply(given)
	p.mustApply(nil)
}

// TestPresetParkingMeetsWhatIsThere has a policy of the same name: it is not touched unless it is adopted, and only if
// it is the same.
func TestPresetParkingMeetsWhatIsThere(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	given, want := parkingPreset(t, v, delay.CeleryClassic)
	own := want.Policies["celery.unroutable"]
	v.do(plan.SetPolicy{Policy: own})
	p := newProtocol(t, v.broker, nil)
	create := func(configuration attributes) string {
		return errorText(p.apply(t.Context(), p.plan(t.Context(), configuration)))
	}
	text := create(given)
	if !strings.Contains(text, `policy "celery.unroutable"`) || !strings.Contains(text, "adopt") {
		t.Errorf("a policy that is there: %s", text)
	}
	other := own
	other.Priority = 5
	v.do(plan.SetPolicy{Policy: other})
	adopting := given.with(attributes{"adopt": true})
	if text = create(adopting); !strings.Contains(text, "priority is 5, not 10") {
		t.Errorf("a policy that differs: %s", text)
	}
	v.do(plan.SetPolicy{Policy: own})
	p.mustApply(adopting)
	p.mustBeSettled(adopting)
	p.mustApply(nil)
	if policies := v.policies(); len(policies) > 0 {
		t.Errorf("after the destroy there are policies: %v", policies)
	}
}

// TestPresetParkingIsUndone fails a create at its policy, and at the entry after that: nothing is left.
func TestPresetParkingIsUndone(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	_, want := parkingPreset(t, v, delay.CeleryClassic)
	u := newUser(t, v.broker, v.name)
	u.tag("policymaker")
	u.grant([3]string{"^(?!" + want.Entry + "$).*", ".*", ".*"}) // the entry comes after the policy
	given, _ := parkingPreset(t, v, delay.CeleryClassic)
	p := newProtocol(t, u.broker(), nil)
	text := errorText(p.apply(t.Context(), p.plan(t.Context(), given)))
	if !strings.Contains(text, fmt.Sprintf("configure on exchange %q", want.Entry)) &&
		!strings.Contains(text, want.Entry) {
		t.Errorf("the create ends with: %s", text)
	}
	if there := v.objects().Part(want); !there.IsEmpty() || !p.state.IsNull() {
		t.Errorf("the create leaves %v, and a state: %v", there, !p.state.IsNull())
	}
}
