package plan_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// From one set of rungs to another: unwanted rungs go, then missing ones come, and nothing else is touched.
func TestRetireAndAdd(t *testing.T) {
	all := []string{"1s", "5s", "30s", "1m", "1h"}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID)
		before, desired := plantest.ExpandLadder(t, some.Draw(t, "before")...),
			plantest.ExpandLadder(t, some.Draw(t, "after")...)
		b := deployed(t, before)
		inAnyOrder(t, b)
		retired := before.Extras(desired)
		if err := b.Run(b.Teardown(retired, plan.Guard{Force: rapid.Bool().Draw(t, "force")})); err != nil {
			t.Fatal(err)
		}
		if err := b.Run(plan.Repair(desired, b.Actual(desired))); err != nil {
			t.Fatal(err)
		}
		same(t, b.Snapshot(), deployed(t, desired).Snapshot(), "in the end")
	})
}

// A message that waits in a rung, or comes in at any moment, keeps it, with all bindings; so does a failure.
func TestRetireLosesNoMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		retired := plantest.ExpandLadder(t, "1s", "5s", "1h").Extras(plantest.ExpandLadder(t, "1s"))
		if got := slices.Sorted(maps.Keys(retired.Queues)); !slices.Equal(got, []string{"t.delay-1h", "t.delay-5s"}) {
			t.Fatalf("retired are %q", got)
		}
		b := deployed(t, plantest.ExpandLadder(t, "1s", "5s", "1h"))
		b.Bindings.Add(topologytest.ToQueue(plantest.Feed, "x", "t.delay-1h"))
		before := b.Snapshot()
		guard := plan.Guard{Drain: rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "drain")}
		todo := b.Teardown(retired, guard)
		at, fails := rapid.IntRange(0, len(todo.Steps())-1).Draw(t, "moment"), rapid.Bool().Draw(t, "fails")
		inAnyOrder(t, b)
		step, arrived := 0, false
		b.Before = func(plan.Step) error {
			defer func() { step++ }()
			if step != at {
				return nil
			}
			if fails {
				return errInjected
			}
			if _, arrived = b.Queues["t.delay-1h"]; arrived {
				b.Messages["t.delay-1h"]++
			}
			return nil
		}
		err := b.Run(todo)
		switch {
		case fails && !errors.Is(err, errInjected):
			t.Fatalf("got %v", err)
		case arrived && (err == nil || b.Messages["t.delay-1h"] != 1):
			t.Fatalf("message in the rung at step %d: got %v", at, err)
		case fails || arrived:
			same(t, b.Snapshot(), before, "after the refusal")
		}
	})
}
