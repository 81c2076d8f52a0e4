package plan_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Whatever step of a takeover fails, and whatever else there is to repair, somebody owns the topology. In the end, the
// new owner does, alone. An entry that is recreated has no owner for a moment.
func TestTakeOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		desired := old.WithOwner("another")
		b := plantest.Deployed(t, old)
		inAnyOrder(t, b)
		wrong := rapid.SampledFrom([]string{"none", "t.delay-00", old.Entry}).Draw(t, "wrong exchange")
		if e, exists := b.Exchanges[wrong]; exists {
			e.Durable = false
			b.Exchanges[wrong] = e
		}
		todo := plan.TakeOver(desired, b.Actual(desired))
		failAt(b, rapid.IntRange(0, len(todo.Steps())).Draw(t, "failing step"))
		b.After = func(step plan.Step) {
			if wrong != old.Entry && len(b.Owners) == 0 {
				t.Fatalf("nobody owns it after: %s", step)
			}
		}
		if err := b.Run(todo); err == nil {
			want := b.Snapshot()
			want.Owners = desired.Owners
			plantest.Same(t, b.Snapshot(), want, "after the takeover")
		}
	})
}

// Others take over a topology while its removal waits for messages. Nothing is deleted from then on, and nothing is
// brought back, also if messages are left when the wait is over. All is as they have it, and theirs alone.
func TestTakenOverMeanwhile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		guard := plan.Guard{Drain: time.Minute}
		r := anyRebuild(t)
		before, b := r.before, plantest.Deployed(t, r.before)
		var removal plan.Plan
		switch rapid.SampledFrom([]string{"teardown", "rebuild", "part"}).Draw(t, "removal") {
		case "teardown":
			removal = b.Teardown(before, guard)
		case "rebuild":
			removal = b.Rebuild(before, r.after, guard)
		case "part":
			before = plantest.ExpandLadder(t, "1s", "5s", "1h")
			b = plantest.Deployed(t, before)
			removal = b.Teardown(before.Extras(plantest.ExpandLadder(t, "1s")), guard)
		}
		inAnyOrder(t, b)
		owned := before.WithOwner("another")
		looks := rapid.IntRange(0, 2).Draw(t, "looks before the takeover")
		leavesMessages := rapid.Bool().Draw(t, "messages are left")
		var there topology.Topology
		b.Before = func(step plan.Step) error {
			look, looksAtQueues := step.(plan.VerifyEmpty)
			if looks--; !looksAtQueues || look.FirstLook || looks >= 0 || there.Entry != "" {
				return nil
			}
			model := plantest.NewBroker(b.Topology)
			if err := model.Run(plan.TakeOver(owned, model.Actual(owned))); err != nil {
				t.Fatal(err)
			}
			b.Topology, there = model.Topology, model.Snapshot()
			there.Entry = owned.Entry
			if leavesMessages {
				b.Messages[look.Queues[0].Name], b.Drains = 1, false
			}
			return nil
		}
		err := b.Run(removal)
		if there.Entry == "" {
			t.Skip("nothing looks into queues so late")
		}
		if _, others := errors.AsType[*engine.OwnerError](err); !others {
			t.Fatalf("the removal ended with: %v", err)
		}
		plantest.Same(t, b.Snapshot(), there, "after the removal")
	})
}

// A removal looks for another owner. Only that of a part without an owner does not: another one owns the rest.
func TestRemovalLooksForOwners(t *testing.T) {
	whole := plantest.ExpandLadder(t, "1s", "5s")
	part := whole.Extras(plantest.ExpandLadder(t, "1s"))
	for _, test := range []struct {
		of   topology.Topology
		want bool
	}{{whole, true}, {whole.WithOwner(""), true}, {part, true}, {part.WithOwner(""), false}} {
		looks := slices.ContainsFunc(plan.Teardown(test.of, test.of, plan.Guard{}).Steps(),
			func(step plan.Step) bool { _, is := step.(plan.VerifyOwner); return is })
		if looks != test.want {
			t.Errorf("whole: %t, owners: %v, it looks: %t", test.of.IsWhole(), test.of.Owners.Sorted(), looks)
		}
	}
}
