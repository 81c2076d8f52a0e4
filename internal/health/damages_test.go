package health_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// Whatever is missing is one finding, which names it: an exchange or a queue takes its bindings with it.
func TestOneCauseIsOneFinding(t *testing.T) {
	for what, desired := range map[string]topology.Topology{
		"cascade": plantest.Expand(t, delay.Config{Name: "t", Levels: 13, StrictKeys: true, ParkUnroutable: true,
			CreateDeliveryExchange: true}),
		"chain": plantest.Expand(t, delay.Config{Name: "t", Levels: 4, Lookahead: 1, DeliveryExchange: "others"}),
		"base 10": plantest.Expand(t, delay.Config{Name: "t", Levels: 3, Base: 10, StrictKeys: true,
			ParkUnroutable:         true,
			CreateDeliveryExchange: true}),
		"ladder": plantest.ExpandLadder(t, "1s", "5s", "1h"),
		"preset": plantest.Expand(t, delay.Config{Preset: delay.Celery, ParkUnroutable: true,
			CreateDeliveryExchange: true}),
	} {
		damages := map[string]plan.Step{fmt.Sprintf("exchange %q",
			desired.Delivery): plan.DeleteExchange{Name: desired.Delivery}}
		for name := range desired.Exchanges {
			damages[fmt.Sprintf("exchange %q", name)] = plan.DeleteExchange{Name: name}
		}
		for name, queue := range desired.Queues {
			damages[fmt.Sprintf("queue %q", name)] = plan.DeleteQueue{Queue: queue}
		}
		for b := range desired.Bindings {
			object := fmt.Sprintf("binding of exchange %q to %s %q with key %q", b.Source, b.DestinationType,
				b.Destination, b.RoutingKey)
			damages[object] = plan.Unbind{Binding: b}
		}
		for name := range desired.Policies {
			damages[fmt.Sprintf("policy %q", name)] = plan.DeletePolicy{Name: name}
		}
		for _, object := range slices.Sorted(maps.Keys(damages)) {
			b := deployedAlone(t, desired)
			if err := b.Step(damages[object]); err != nil {
				t.Fatal(err)
			}
			found := health.Damages(desired, b.Actual(desired), nil)
			if len(found) != 1 || found[0].Object != object || found[0].Cause != "missing" {
				t.Errorf("%s: without %s, the findings are %+v", what, object, found)
			}
		}
		b := deployedAlone(t, desired)
		if found := health.Damages(desired, b.Actual(desired), nil); len(found) > 0 {
			t.Errorf("%s: when all is there, the findings are %+v", what, found)
		}
	}
}

// Several causes are as many findings, also where they meet in one binding.
func TestSeveralCausesAreSeveralFindings(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 4, StrictKeys: true, ParkUnroutable: true,
		CreateDeliveryExchange: true})
	b := deployedAlone(t, desired)
	for _, step := range []plan.Step{
		plan.DeleteExchange{Name: "t.delay-03"},
		plan.DeleteQueue{Queue: desired.Queues["t.delay-02"]},
		plan.Unbind{Binding: topologytest.ToQueue("t.delay-01", "*.*.1.#", "t.delay-01")},
	} {
		if err := b.Step(step); err != nil {
			t.Fatal(err)
		}
	}
	var objects []string
	for _, f := range health.Damages(desired, b.Actual(desired), nil) {
		objects = append(objects, f.Object)
	}
	want := []string{`exchange "t.delay-03"`, `queue "t.delay-02"`, `binding of exchange "t.delay-01" to queue ` +
		`"t.delay-01" with key "*.*.1.#"`}
	if !slices.Equal(objects, want) {
		t.Errorf("the findings are on %q", objects)
	}
}

// deployedAlone is a broker with the topology, and nothing of others but the delivery exchange that it may need.
func deployedAlone(t plantest.Fataler, desired topology.Topology) *plantest.Broker {
	t.Helper()
	b := plantest.Around(desired)
	if err := b.Run(plan.Repair(desired, b.Actual(desired))); err != nil {
		t.Fatal(err)
	}
	return b
}
