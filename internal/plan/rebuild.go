package plan

import (
	"maps"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Rebuild is the plan that turns one topology into another one with the same entry, where objects get other arguments
// or names. It loses no message: it refuses while any waits, unless the guard has it wait for them with the entry
// closed. Then it tears down the topology before and declares the one after. It binds again what others had bound, as
// far as that is still there, and opens the entry last.
//
// The delivery exchange and the way of unroutable messages stay as they are where both topologies have them so.
// A delivery exchange that gets other arguments takes all bindings along, those of the applications included. It stays,
// and the plan fails, if an application binds to it meanwhile.
// One that gets another name stays (see DeleteShared).
//
// Actual holds the existing objects of both topologies (see Union). Besides what Repair wants, it holds the bindings of
// others that lead to objects of the topology before. It also holds those of a delivery exchange that RebuildsDelivery.
// If the plan waits, it looks at these again then, and fails if they have changed: they would be lost, or made anew.
//
// If a step fails, the plan removes its new objects, while they are empty, and restores the topology before. Once the
// new entry is open nothing is undone. What can be bound of others' exchanges to the entry is bound then.
func Rebuild(before, after, actual topology.Topology, guard Guard) Plan {
	t := newTeardown(partToRebuild(before, after), actual)
	recreated := RebuildsDelivery(before, after, actual)
	if guard.Drain > 0 {
		t.afterWait = []Step{t.verifyBound(recreated)}
	}
	removal := t.removal(guard)
	left := afterRemoval(t.actual, removal.Steps())
	wanted := after
	wanted.Bindings = maps.Clone(after.Bindings)
	var build Plan
	if recreated {
		touching := left.Bindings.Where(func(b topology.Binding) bool { return touches(b, after.Delivery) })
		removal = append(removal, deleteUnbound(after.Delivery, left.Bindings)...)
		left.Exchanges[after.Delivery] = after.Exchanges[after.Delivery]
		build = build.then(DeclareExchange{Exchange: after.Exchanges[after.Delivery]}).
			then(bind(touching)...)
	}
	var again []Step
	for _, b := range t.actual.Bindings.Sorted() {
		if before.OwnsBinding(b) || after.OwnsBinding(b) {
			continue
		}
		if !left.Bindings.Has(b) && (after.Takes(b) || after.Owns(b.Source)) {
			wanted.Bindings.Add(b)
			again = append(again, Bind{b})
		} else if recreated && touches(b, after.Delivery) {
			again = append(again, Bind{b})
		}
	}
	build = append(build, Repair(wanted, left)...)

	// Who may not bind it again learns so before anything is closed.
	plan := append(t.checkFirst(guard, removal.Steps()).then(again...), t.undoable(removal)...)
	u := unbuild{before: t.actual, removal: removal.Steps(), after: after, recreated: recreated}
	for i, opened := 0, build.opens(after.Entry); i <= opened; i++ {
		build[i].Undo = u.plan
	}
	return append(plan, build...)
}

// deleteUnbound takes the bindings of an exchange away and deletes it then. RabbitMQ refuses that while anything else
// is bound to the exchange: an application may have bound its queue since the bindings were read.
func deleteUnbound(exchange string, bindings topology.Bindings) Plan {
	return Plan{}.then(unbind(bindings.Where(func(b topology.Binding) bool { return b.Source == exchange }))...).
		then(DeleteExchange{Name: exchange, IfUnused: true})
}

// Union is the topology to read for a Rebuild: the possible objects of both, but for a delivery exchange that only the
// first one has.
func Union(before, after topology.Topology) topology.Topology {
	union := before.Clone()
	delete(union.Exchanges, before.Delivery)
	union = union.Union(after)
	union.Entry, union.Delivery, union.DeliveryType = after.Entry, after.Delivery, after.DeliveryType
	return union
}

// RebuildsDelivery tells whether Rebuild has to recreate the delivery exchange: it then has to know all bindings
// of it.
func RebuildsDelivery(before, after, actual topology.Topology) bool {
	want, owned := after.Exchanges[after.Delivery]
	have, exists := actual.Exchanges[after.Delivery]
	return before.Delivery == after.Delivery && owned && exists && !have.Equal(want)
}

// partToRebuild is the topology without the way of unroutable messages, if the other one has the same. A policy that
// leads there is no part of that.
func partToRebuild(t, other topology.Topology) topology.Topology {
	way := t.WithQueues(t.Parking())
	if !way.SameObjects(other.Part(way)) {
		return t
	}
	return t.Minus(way)
}

// KeepsParked tells whether a Rebuild leaves the way of unroutable messages as it is, and the messages parked in its
// queue.
func KeepsParked(before, after topology.Topology) bool {
	return len(partToRebuild(before, after).Queues) < len(before.Queues)
}

// opens is the index of the phase after which the exchange is bound onwards.
func (p Plan) opens(exchange string) int {
	opened := -1
	for i, phase := range p {
		for _, step := range phase.Steps {
			if b, ok := step.(Bind); ok && b.Binding.Source == exchange {
				opened = i
			}
		}
	}
	return opened
}

// unbuild takes a Rebuild back that fails when all has been torn down.
type unbuild struct {
	before, after topology.Topology
	removal       []Step
	recreated     bool // the delivery exchange
}

// plan removes the objects made until then and brings back those from before. The entry goes first: messages inside may
// still be delivered, but nothing more comes.
func (u unbuild) plan(done []Step) Plan {
	var plan Plan
	declaresDelivery := false
	removed := among(done, u.removal)
	built := done
	for i, step := range done {
		if len(removed) > 0 && step.String() == removed[len(removed)-1].String() {
			built = done[i+1:]
		}
	}
	for _, step := range built {
		if declare, ok := step.(DeclareExchange); ok {
			switch declare.Exchange.Name {
			case u.after.Entry:
				plan = plan.then(DeleteExchange{Name: u.after.Entry})
			case u.after.Delivery:
				declaresDelivery = true
			}
		}
	}
	for _, phase := range UndoCreate(u.after, built) {
		phase.Undo = nil // removed objects do not come back
		plan = append(plan, phase)
	}
	if u.recreated {
		plan = append(plan, deleteUnbound(u.after.Delivery, After(topology.New(), built).Bindings)...)
	}
	plan = append(plan, restore(u.before, afterRemoval(u.before, removed))...)
	if declaresDelivery && !u.recreated {
		plan = plan.then(DeleteExchange{Name: u.after.Delivery, IfUnused: true})
	}
	return plan
}
