package engine

import (
	"fmt"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// DamagedError is for what a change has found damaged, and its plan did not know. Nothing is refused for it.
type DamagedError struct {
	Damages []health.Damage
	// Gone is set if all was gone.
	Gone bool
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%d damages came after the plan", len(e.Damages))
}

// GoneError is for the binding of a destination that a change has found gone, and its plan did not know. Nothing is
// refused for it.
type GoneError struct {
	Binding topology.Binding
	// There is what the exchange had bound.
	There topology.Bindings
}

func (e *GoneError) Error() string { return e.Binding.Describe() + ": it is gone" }

// noteDamages notes the damages of the topology before that the plan did not know. It looks at those objects alone that
// were read.
func (o *topologyChange) noteDamages(read topology.Topology, found *rabbit.State) {
	before := o.before.wanted.Part(read)
	before.Bindings.DeleteInto(o.before.wanted.Minus(read).Queues)
	damages := health.Damages(before, found.Topology, found.Status)
	damages = slices.DeleteFunc(damages, func(d health.Damage) bool {
		isNew := d.Object == topology.ExchangeObject(read.Delivery) && o.before.wanted.Delivery != read.Delivery
		return isNew || slices.Contains(o.change.Options.Known, d.Key())
	})
	o.note(damages, found.Part(before).IsEmpty())
}

// noteDamaged notes the damages of what an adoption takes over, if there is an entry.
func (o *topologyChange) noteDamaged(found *rabbit.State) {
	if wanted := o.after.wanted; found.Has(wanted.Entry) {
		o.note(health.Damages(wanted, found.Topology, found.Status), false)
	}
}

func (o *topologyChange) note(damages []health.Damage, gone bool) {
	if len(damages) > 0 {
		o.problems = append(o.problems, Problem{Unplanned, &DamagedError{damages, gone}})
	}
}
