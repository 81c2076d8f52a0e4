package plan_test

import (
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// A binding is made, moved in every way, and removed. While it is moved, a message that both keys take is routed
// after every step, and what others have bound stays as it is.
func TestRebind(t *testing.T) {
	world := topology.New()
	for _, name := range []string{"delivery", "other", "next"} {
		world.Exchanges[name] = topology.Exchange{Name: name, Type: "topic", Durable: true}
	}
	for _, name := range []string{"orders", "archive", "foreign"} {
		world.Queues[name] = topology.Queue{Name: name, Durable: true}
	}
	bindings := func(all ...topology.Binding) topology.Bindings {
		set := topology.Bindings{}
		for _, b := range all {
			set.Add(b)
		}
		return set
	}
	foreign := topology.Binding{Source: "delivery", RoutingKey: "*.foreign", DestinationType: topology.ToQueue,
		Destination: "foreign"}
	behind := topology.Binding{Source: "next", RoutingKey: "#", DestinationType: topology.ToQueue,
		Destination: "orders"}
	world.Bindings = bindings(foreign, behind)
	binding := topology.Binding{Source: "delivery", RoutingKey: "*.orders", DestinationType: topology.ToQueue,
		Destination: "orders"}

	for name, change := range map[string]func(*topology.Binding){
		"nothing":       func(*topology.Binding) {},
		"key":           func(b *topology.Binding) { b.RoutingKey = "#.orders" },
		"queue":         func(b *topology.Binding) { b.Destination = "archive" },
		"to exchange":   func(b *topology.Binding) { b.DestinationType, b.Destination = topology.ToExchange, "next" },
		"from exchange": func(b *topology.Binding) { b.Source = "other" },
	} {
		b := plantest.NewBroker(world)
		steps := 0
		b.After = func(step plan.Step) {
			steps++
			if len(topologytest.Route(b.Topology, "delivery", "1.orders"))+
				len(topologytest.Route(b.Topology, "other", "1.orders")) == 0 {
				t.Errorf("%s: after %q nothing takes the message", name, step)
			}
		}
		run := func(desired, actual topology.Bindings, most int) {
			t.Helper()
			if err := b.Run(plan.Rebind(desired, actual)); err != nil {
				t.Fatal(err)
			}
			if steps != most {
				t.Errorf("%s: %d steps, want %d", name, steps, most)
			}
			steps = 0
		}
		run(bindings(binding), bindings(), 1)
		changed := binding
		change(&changed)
		if changed == binding {
			run(bindings(changed), bindings(binding), 0)
		} else {
			run(bindings(changed), bindings(binding), 2)
		}
		plantest.Same(t, b.Snapshot(), withBindings(world, foreign, behind, changed), name)
		b.After = nil
		run(bindings(), bindings(changed), 0)
		plantest.Same(t, b.Snapshot(), world, name)
	}
}

func withBindings(t topology.Topology, bindings ...topology.Binding) topology.Topology {
	t.Bindings = topology.Bindings{}
	for _, b := range bindings {
		t.Bindings.Add(b)
	}
	return t
}
