package topology_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A create declares what a Diff does, all of it as new but the delivery exchange, and one object before all others.
func TestCreateDeclaresWhatIsNew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := expand(t, anyCascade().Draw(t, "cascade"))
		b := around(desired)
		plan := topology.Create(desired, b.Actual(desired))
		if first := plan[0].Steps; len(first) != 1 || !topology.MustBeNew(first[0]) {
			t.Fatalf("the first phase is %s", first)
		}
		for _, step := range plan.Steps() {
			declares := true
			switch s := step.(type) {
			case topology.DeclareExchange:
				declares = s.Exchange.Name != desired.Delivery
			case topology.DeclareQueue:
			default:
				declares = false
			}
			if topology.MustBeNew(step) != declares {
				t.Errorf("%s has to be new: %t", step, !declares)
			}
		}
		if want, have := len(topology.Diff(desired, b.Actual(desired)).Steps()), len(plan.Steps()); want != have {
			t.Errorf("%d steps, and %d without", have, want)
		}
		if err := b.Run(plan); err != nil {
			t.Fatal(err)
		}
	})
}
