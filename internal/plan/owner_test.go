package plan_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
)

// Whatever step of a takeover fails, and whatever else there is to repair, somebody owns the topology. In the end, the
// new owner does, alone. An entry that is recreated has no owner for a moment.
func TestTakeOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		desired := old.WithOwner("another")
		b := deployed(t, old)
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
			same(t, b.Snapshot(), want, "after the takeover")
		}
	})
}
