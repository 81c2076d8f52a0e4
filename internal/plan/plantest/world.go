package plantest

import (
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// Around is a broker before the cascade: with the strangers, and a delivery exchange if the cascade
// does not bring one.
func Around(desired topology.Topology) *Broker {
	world := topology.New()
	world.Exchanges[Feed] = topology.Exchange{Name: Feed, Type: "topic", Durable: true}
	world.Queues[Application] = topology.Queue{Name: Application, Durable: true}
	world.Queues[Audit] = topology.Queue{Name: Audit, Durable: true}
	world.Bindings.Add(topologytest.ToQueue(Feed, "audit.#", Audit))
	if _, own := desired.Exchanges[desired.Delivery]; !own {
		world.Exchanges[desired.Delivery] = topology.Exchange{Name: desired.Delivery, Type: "topic", Durable: true}
		world.Bindings.Add(topologytest.ToQueue(desired.Delivery, "#", Application))
	}
	return NewBroker(world)
}

// Deployed is a broker with the cascade, an application behind it, and a Feed into two of its
// exchanges and one of its queues.
func Deployed(t Fataler, desired topology.Topology) *Broker {
	t.Helper()
	b := Around(desired)
	if err := b.Run(plan.Repair(desired, b.Actual(desired))); err != nil {
		t.Fatal(err)
	}
	b.Bindings.Add(topologytest.ToQueue(desired.Delivery, "#", Application))
	b.Bindings.Add(topologytest.ToExchange(Feed, "entry.#", desired.Entry))
	b.Bindings.Add(topologytest.ToExchange(Feed, "lowest.#", "t.delay-00"))
	b.Bindings.Add(topologytest.ToQueue(Feed, "queue.#", "t.delay-00"))
	return b
}

// The strangers that share the broker with a cascade.
const (
	Application = "application" // a queue bound to the delivery exchange
	Audit       = "audit"       // a queue with nothing to do with the cascade
	Feed        = "feed"        // an exchange that leads into the cascade
)

// Expand is a cascade that the test needs, with an owner's mark.
func Expand(t Fataler, c delay.Config) topology.Topology {
	t.Helper()
	resolved, err := c.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Expand().WithOwner("its owner")
}

// Fataler is the common part of testing.T and rapid.T that a test needs.
type Fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// ExpandLadder is a ladder with these rungs, with an owner's mark.
func ExpandLadder(t Fataler, delays ...string) topology.Topology {
	t.Helper()
	resolved, err := delay.LadderConfig{Name: "t", Delays: delays, CreateDeliveryExchange: true,
		ParkUnroutable: true}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Expand().WithOwner("its owner")
}
