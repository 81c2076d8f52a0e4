package plan_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// From one set of rungs to another: unwanted rungs go, then missing ones come, and nothing else is touched. Nothing
// leads into a rung when it goes, by force or not.
func TestRetireAndAdd(t *testing.T) {
	all := []string{"1s", "5s", "30s", "1m", "1h"}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID)
		before, desired := plantest.ExpandLadder(t, some.Draw(t, "before")...),
			plantest.ExpandLadder(t, some.Draw(t, "after")...)
		b := plantest.Deployed(t, before)
		inAnyOrder(t, b)
		closesBeforeDeleting(b)
		retired := before.Extras(desired)
		if err := b.Run(b.Teardown(retired, plan.Guard{Force: rapid.Bool().Draw(t, "force")})); err != nil {
			t.Fatal(err)
		}
		if err := b.Run(plan.Repair(desired, b.Actual(desired))); err != nil {
			t.Fatal(err)
		}
		plantest.Same(t, b.Snapshot(), plantest.Deployed(t, desired).Snapshot(), "in the end")
	})
}

// A message that waits in a rung, or comes in at any moment, keeps it, with all bindings; so does a failure.
func TestRetireLosesNoMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		retired := plantest.ExpandLadder(t, "1s", "5s", "1h").Extras(plantest.ExpandLadder(t, "1s"))
		if got := slices.Sorted(maps.Keys(retired.Queues)); !slices.Equal(got, []string{"t.delay-1h", "t.delay-5s"}) {
			t.Fatalf("retired are %q", got)
		}
		b := plantest.Deployed(t, plantest.ExpandLadder(t, "1s", "5s", "1h"))
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
				return plantest.ErrInjected
			}
			if _, arrived = b.Queues["t.delay-1h"]; arrived {
				b.Messages["t.delay-1h"]++
			}
			return nil
		}
		err := b.Run(todo)
		switch {
		case fails && !errors.Is(err, plantest.ErrInjected):
			t.Fatalf("got %v", err)
		case arrived && (err == nil || b.Messages["t.delay-1h"] != 1):
			t.Fatalf("message in the rung at step %d: got %v", at, err)
		case fails || arrived:
			plantest.Same(t, b.Snapshot(), before, "after the refusal")
		}
	})
}

// reaching is a cascade of units that reaches so far, and its scale.
func reaching(t plantest.Fataler, c delay.Config, reach time.Duration) (delay.Scale, topology.Topology) {
	c.MaxDelay = reach
	resolved, err := c.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Scale(), plantest.Expand(t, c)
}

// change is that of a range.
type change struct {
	had, gets delay.Scale
	entry     string
	looked    bool // whether what waits was waited for
}

// mustGo names a wrong way of a key. One that the smaller range has leads to its end all the time. A
// longer one does so, or is unroutable at once. What waits already gets to its end.
func (c change) mustGo(there topology.Topology) error {
	routed := topologytest.NewRouter(there)
	for wait := time.Duration(0); wait <= max(c.had.Longest, c.gets.Longest); wait += time.Second {
		scale := c.had
		if wait > scale.Longest {
			scale = c.gets
		}
		key, err := scale.RoutingKey(wait, "a")
		if err != nil {
			return err
		}
		arrivals := routed.Follow(c.entry, key)
		had, gets := wait <= c.had.Longest, wait <= c.gets.Longest
		isGone := (!had || !gets) && isUnroutable(arrivals) && (!had || len(arrivals[0].Path) == 0)
		if !isDelivered(arrivals, wait) && !isGone {
			return fmt.Errorf("key %q goes %v", key, arrivals)
		}
		if had && !c.looked {
			err = c.goesOn(routed, key, wait)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// goesOn names a wrong way of a message that waits in a queue already.
func (c change) goesOn(routed *topologytest.Router, key string, wait time.Duration) error {
	for level, waited := range map[string]bool{"t.3s.s": wait >= 12*time.Second,
		"t.s": wait%(12*time.Second) >= 3*time.Second} {
		arrivals := routed.Follow(level, key)
		if waited && (len(arrivals) != 1 || arrivals[0].Queue != plantest.Application) {
			return fmt.Errorf("key %q goes %v from %q", key, arrivals, level)
		}
	}
	return nil
}

// Units grow from the end: what leads into a new queue comes when all behind it is there. They shrink from the top:
// what waits in a queue has its way on until nothing more gets in, and nothing waits. Bindings to old queues come at
// once.
func TestReachGrowsUpwards(t *testing.T) {
	c := delay.Config{Name: "t", Units: []time.Duration{12 * time.Second, 3 * time.Second, time.Second}, Lookahead: 1,
		CreateDeliveryExchange: true}
	_, before := reaching(t, c, time.Second)
	_, desired := reaching(t, c, 40*time.Second)
	unbound, part := desired.Clone(), desired.Extras(before)
	unbound.Bindings.DeleteInto(desired.Queues)
	shrinks := plan.Teardown(part, part, plan.Guard{Drain: time.Minute})
	upwards := []string{"bind t.s", "bind t.3s.s", "bind t.12s.3s.s"}
	for name, test := range map[string]struct {
		plan plan.Plan
		want []string
	}{
		"growth": {plan.Repair(desired, before), upwards},
		"shrinking": {shrinks, []string{
			"unbind t.12s.3s.s", `verify that nothing waits in "t.36s", "t.24s", "t.12s"`,
			"unbind t.3s.s", `verify that nothing waits in "t.9s", "t.6s", "t.3s"`,
			"unbind t.s", `verify that nothing waits in "t.2s"`}},
		"its undo":     {failing(shrinks), upwards},
		"only unbound": {plan.Repair(desired, unbound), []string{"bind t.3s.s, bind t.s", "bind t.12s.3s.s"}},
	} {
		var got []string
		for _, phase := range test.plan {
			var texts []string
			for _, step := range phase.Steps {
				switch s := step.(type) {
				case plan.Bind:
					texts = append(texts, "bind "+s.Binding.Source)
				case plan.Unbind:
					texts = append(texts, "unbind "+s.Binding.Source)
				case plan.VerifyEmpty:
					texts = append(texts, s.String())
				}
			}
			if slices.Sort(texts); len(texts) > 0 {
				got = append(got, strings.Join(slices.Compact(texts), ", "))
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: the order is %q", name, got)
		}
	}
}

// Units grow and shrink in place, at any moment and whatever fails.
func TestReachInPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := delay.Config{Name: "t", Units: []time.Duration{12 * time.Second, 3 * time.Second, time.Second},
			CreateDeliveryExchange: true, ParkUnroutable: true,
			Lookahead: rapid.IntRange(1, 3).Draw(t, "lookahead"), StrictKeys: rapid.Bool().Draw(t, "strict keys")}
		reach := rapid.Map(rapid.IntRange(1, 40), func(n int) time.Duration { return time.Duration(n) * time.Second })
		had, before := reaching(t, c, reach.Draw(t, "before"))
		gets, desired := reaching(t, c, reach.Draw(t, "after"))
		b := plantest.Around(before)
		if err := b.Run(plan.Repair(before, b.Actual(before))); err != nil {
			t.Fatal(err)
		}
		b.Bindings.Add(topologytest.ToQueue(before.Delivery, "#", plantest.Application))
		inAnyOrder(t, b)
		changes := change{had: had, gets: gets, entry: before.Entry}
		left := rapid.IntRange(0, 150).Draw(t, "steps before a failure")
		var wrong error
		b.Before = func(step plan.Step) error {
			look, is := step.(plan.VerifyEmpty)
			changes.looked = changes.looked || is && !look.FirstLook
			if err := changes.mustGo(b.Snapshot()); err != nil {
				wrong = fmt.Errorf("before %q, %w", step, err)
			}
			if left--; left == 0 {
				return plantest.ErrInjected
			}
			return wrong
		}
		err := b.Run(b.Teardown(before.Extras(desired), plan.Guard{Drain: time.Minute}))
		if err == nil {
			err = b.Run(plan.Repair(desired, b.Actual(desired)))
		}
		b.Before = nil
		if wrong != nil || err != nil && !errors.Is(err, plantest.ErrInjected) {
			t.Fatal(wrong, err)
		}
		if err == nil {
			plantest.Same(t, b.Actual(desired), desired, "in the end")
		}
	})
}
