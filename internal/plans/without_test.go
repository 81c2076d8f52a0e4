package plans_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans/planstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// From one set of rungs to another: unwanted rungs go, then missing ones come, and nothing else is touched.
func TestRetireAndAdd(t *testing.T) {
	all := []string{"1s", "5s", "30s", "1m", "1h"}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID)
		before, desired := planstest.ExpandLadder(t, some.Draw(t, "before")...),
			planstest.ExpandLadder(t, some.Draw(t, "after")...)
		b := deployed(t, before)
		inAnyOrder(t, b)
		retired := before.Without(desired)
		if err := b.Run(b.Teardown(retired, plans.Guard{Force: rapid.Bool().Draw(t, "force")})); err != nil {
			t.Fatal(err)
		}
		if err := b.Run(plans.Repair(desired, b.Actual(desired))); err != nil {
			t.Fatal(err)
		}
		same(t, b.Snapshot(), deployed(t, desired).Snapshot(), "in the end")
	})
}

// A message that waits in a rung, or comes in at any moment, keeps it, with all bindings; so does a failure.
func TestRetireLosesNoMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		retired := planstest.ExpandLadder(t, "1s", "5s", "1h").Without(planstest.ExpandLadder(t, "1s"))
		if got := slices.Sorted(maps.Keys(retired.Queues)); !slices.Equal(got, []string{"t.delay-1h", "t.delay-5s"}) {
			t.Fatalf("retired are %q", got)
		}
		b := deployed(t, planstest.ExpandLadder(t, "1s", "5s", "1h"))
		b.Bindings.Add(topologytest.ToQueue(planstest.Feed, "x", "t.delay-1h"))
		before := b.Snapshot()
		guard := plans.Guard{Drain: rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "drain")}
		plan := b.Teardown(retired, guard)
		at, fails := rapid.IntRange(0, len(plan.Steps())-1).Draw(t, "moment"), rapid.Bool().Draw(t, "fails")
		inAnyOrder(t, b)
		step, arrived := 0, false
		b.Before = func(plans.Step) error {
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
		err := b.Run(plan)
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
