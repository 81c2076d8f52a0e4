package plan_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// anyCascade draws small cascades of all kinds.
func anyCascade() *rapid.Generator[delay.Config] {
	return rapid.Custom(func(t *rapid.T) delay.Config {
		levels := rapid.IntRange(1, 5).Draw(t, "levels")
		return delay.Config{
			Name: "t", Levels: levels,
			Lookahead:              rapid.IntRange(1, levels).Draw(t, "lookahead"),
			StrictKeys:             rapid.Bool().Draw(t, "strict keys"),
			InternalLevels:         rapid.Bool().Draw(t, "internal levels"),
			ParkUnroutable:         rapid.Bool().Draw(t, "park unroutable"),
			CreateDeliveryExchange: rapid.Bool().Draw(t, "create delivery exchange"),
			QueueType: rapid.SampledFrom([]delay.QueueType{delay.Quorum, delay.Classic}).Draw(t,
				"queue type"),
		}
	})
}

// inAnyOrder lets the steps of a phase run in an order that the test draws.
func inAnyOrder(t *rapid.T, b *plantest.Broker) {
	b.Arrange = func(steps []plan.Step) []plan.Step {
		if len(steps) < 2 {
			return steps
		}
		return rapid.Permutation(steps).Draw(t, "order")
	}
}

// failAt lets the step with the number fail, once.
func failAt(b *plantest.Broker, number int) {
	b.Before = func(plan.Step) error {
		number--
		if number == -1 {
			return plantest.ErrInjected
		}
		return nil
	}
}

// failed tells whether a plan ended as it has to whose step with the number failed once. One of a phase that goes on is
// tried again.
func failed(todo plan.Plan, number int, err error) bool {
	return phaseOf(todo, number).GoesOn && err == nil || errors.Is(err, plantest.ErrInjected)
}

// phaseOf is the phase of the step with the number.
func phaseOf(todo plan.Plan, number int) (phase plan.Phase) {
	for _, phase = range todo {
		if number < len(phase.Steps) {
			break
		}
		number -= len(phase.Steps)
	}
	return phase
}

// everyKey tells where the keys of all delays go.
func everyKey(
	t plantest.Fataler, c delay.Config, there topology.Topology, check func(key string, delay time.Duration,
		arrivals []topologytest.Arrival),
) {
	t.Helper()
	router := topologytest.NewRouter(there)
	for steps := range 1 << c.Levels {
		wait := time.Duration(steps) * time.Second
		scale := delay.Uniform{Base: 2, Levels: c.Levels, Resolution: time.Second}.Scale()
		key, err := scale.RoutingKey(wait, "destination")
		if err != nil {
			t.Fatal(err)
		}
		check(key, wait, router.Follow(there.Entry, key))
	}
}

func isDelivered(arrivals []topologytest.Arrival, delay time.Duration) bool {
	return len(arrivals) == 1 && arrivals[0].Queue == plantest.Application && arrivals[0].Delay == delay
}

// isUnroutable tells whether the message has only been parked or dropped.
func isUnroutable(arrivals []topologytest.Arrival) bool {
	return len(arrivals) == 1 && (arrivals[0].Queue == "" || arrivals[0].Queue == "t.unroutable")
}

func run(t *testing.T, b *plantest.Broker, todo plan.Plan) {
	t.Helper()
	if err := b.Run(todo); err != nil {
		t.Fatal(err)
	}
}
