package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// The strangers that share the broker with a cascade.
const (
	application = "application" // a queue bound to the delivery exchange
	audit       = "audit"       // a queue with nothing to do with the cascade
	feed        = "feed"        // an exchange that leads into the cascade
)

// anyCascade draws small cascades of all kinds.
func anyCascade() *rapid.Generator[cascade.Config] {
	return rapid.Custom(func(t *rapid.T) cascade.Config {
		levels := rapid.IntRange(1, 5).Draw(t, "levels")
		return cascade.Config{
			Name: "t", Levels: levels,
			Lookahead:              rapid.IntRange(1, levels).Draw(t, "lookahead"),
			StrictKeys:             rapid.Bool().Draw(t, "strict keys"),
			InternalLevels:         rapid.Bool().Draw(t, "internal levels"),
			ParkUnroutable:         rapid.Bool().Draw(t, "park unroutable"),
			CreateDeliveryExchange: rapid.Bool().Draw(t, "create delivery exchange"),
			QueueType:              rapid.SampledFrom([]cascade.QueueType{cascade.Quorum, cascade.Classic}).Draw(t, "queue type"),
		}
	})
}

func expand(t fataler, c cascade.Config) topology.Topology {
	t.Helper()
	desired, err := cascade.Expand(c)
	if err != nil {
		t.Fatal(err)
	}
	return desired
}

// fataler is what is needed of testing.T and of rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// around is a broker before the cascade: with the strangers, and a delivery exchange if the cascade
// does not bring one.
func around(desired topology.Topology) *topologytest.Broker {
	world := topology.New()
	world.Exchanges[feed] = topology.Exchange{Name: feed, Type: "topic", Durable: true}
	world.Queues[application] = topology.Queue{Name: application, Durable: true}
	world.Queues[audit] = topology.Queue{Name: audit, Durable: true}
	world.Bindings.Add(toQueue(feed, "audit.#", audit))
	if _, own := desired.Exchanges[desired.Delivery]; !own {
		world.Exchanges[desired.Delivery] = topology.Exchange{Name: desired.Delivery, Type: "topic", Durable: true}
		world.Bindings.Add(toQueue(desired.Delivery, "#", application))
	}
	return topologytest.NewBroker(world)
}

// deployed is a broker with the cascade, an application behind it, and a feed into two of its
// exchanges and one of its queues.
func deployed(t fataler, desired topology.Topology) *topologytest.Broker {
	t.Helper()
	b := around(desired)
	if err := b.Run(topology.Diff(desired, b.Actual(desired))); err != nil {
		t.Fatal(err)
	}
	b.Bindings.Add(toQueue(desired.Delivery, "#", application))
	b.Bindings.Add(toExchange(feed, "entry.#", desired.Entry))
	b.Bindings.Add(toExchange(feed, "lowest.#", "t.delay-00"))
	b.Bindings.Add(toQueue(feed, "queue.#", "t.delay-00"))
	return b
}

func toQueue(source, key, queue string) topology.Binding {
	return topology.Binding{Source: source, RoutingKey: key, DestinationType: topology.ToQueue, Destination: queue}
}

func toExchange(source, key, exchange string) topology.Binding {
	return topology.Binding{Source: source, RoutingKey: key, DestinationType: topology.ToExchange, Destination: exchange}
}

// inAnyOrder lets the steps of a phase run in an order that the test draws.
func inAnyOrder(t *rapid.T, b *topologytest.Broker) {
	b.Arrange = func(steps []topology.Step) []topology.Step {
		if len(steps) < 2 {
			return steps
		}
		return rapid.Permutation(steps).Draw(t, "order")
	}
}

var errInjected = errors.New("injected")

// failAt lets the step with the number fail, once.
func failAt(b *topologytest.Broker, number int) {
	b.Before = func(topology.Step) error {
		number--
		if number == -1 {
			return errInjected
		}
		return nil
	}
}

// same compares what two brokers have.
func same(t fataler, got, want topology.Topology, when string) {
	t.Helper()
	if differences := slices.Concat(
		unequal("exchange", got.Exchanges, want.Exchanges, topology.Exchange.Equal),
		unequal("queue", got.Queues, want.Queues, topology.Queue.Equal),
		unequal("binding", got.Bindings, want.Bindings, func(struct{}, struct{}) bool { return true }),
	); len(differences) > 0 {
		t.Fatalf("%s:\n%s", when, strings.Join(differences, "\n"))
	}
}

// everyKey tells where the keys of all delays go.
func everyKey(t fataler, c cascade.Config, there topology.Topology, check func(key string, delay time.Duration, arrivals []topologytest.Arrival)) {
	t.Helper()
	router := topologytest.NewRouter(there)
	for steps := range 1 << c.Levels {
		delay := time.Duration(steps) * time.Second
		key, err := cascade.RoutingKey(delay, c.Levels, time.Second, "destination")
		if err != nil {
			t.Fatal(err)
		}
		check(key, delay, router.Follow(there.Entry, key))
	}
}

func isDelivered(arrivals []topologytest.Arrival, delay time.Duration) bool {
	return len(arrivals) == 1 && arrivals[0].Queue == application && arrivals[0].Delay == delay
}

// isUnroutable tells whether the message has only been parked or dropped.
func isUnroutable(arrivals []topologytest.Arrival) bool {
	return len(arrivals) == 1 && (arrivals[0].Queue == "" || arrivals[0].Queue == "t.unroutable")
}

func run(t *testing.T, b *topologytest.Broker, plan topology.Plan) {
	t.Helper()
	if err := b.Run(plan); err != nil {
		t.Fatal(err)
	}
}

func unequal[K comparable, V any](kind string, got, want map[K]V, equal func(V, V) bool) []string {
	var differences []string
	for key, value := range want {
		if have, exists := got[key]; !exists {
			differences = append(differences, fmt.Sprintf("%s %v is missing", kind, key))
		} else if !equal(have, value) {
			differences = append(differences, fmt.Sprintf("%s %v is %v", kind, key, have))
		}
	}
	for key := range got {
		if _, exists := want[key]; !exists {
			differences = append(differences, fmt.Sprintf("%s %v is too much", kind, key))
		}
	}
	slices.Sort(differences)
	return differences
}
