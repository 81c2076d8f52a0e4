package plan

import (
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Create is the Repair of a topology that nobody else may have a part in: what it declares has to be new. The delivery
// exchange is shared by nature and may be there.
//
// Of several creates at once, one goes on at the most. RabbitMQ tells two of them that an object is new, if they
// declare it within the same millisecond (3.10.8, 4.3.6). So each declares one exchange before all else and binds a
// lock of its own to it. If it then sees anything else bound there, it stops. The lock goes in the phase that declares
// the entry, when all other objects are declared. Whoever comes later meets these. A ladder or a single level without
// parking has no exchange that could be declared before its entry, and goes without a lock.
func Create(desired, actual topology.Topology, lock string) Plan {
	d := newRepair(desired, actual)
	d.isNew = true
	plan := d.plan()
	entryPhase := slices.IndexFunc(plan, func(phase Phase) bool {
		return slices.ContainsFunc(phase.Steps, func(step Step) bool { return declaresEntry(desired, step) })
	})
	isNew := func(step Step) bool { d, is := step.(DeclareExchange); return is && d.New }
	at := slices.IndexFunc(plan[:max(entryPhase, 0)], func(phase Phase) bool {
		return slices.ContainsFunc(phase.Steps, isNew)
	})
	if at < 0 {
		return plan
	}
	steps := plan[at].Steps
	first := slices.IndexFunc(steps, isNew)
	declare, _ := steps[first].(DeclareExchange)
	locking := desired.LockOn(declare.Exchange.Name, lock)
	plan[entryPhase].Steps = append(plan[entryPhase].Steps, Unbind{locking})
	rest := slices.Delete(slices.Clone(steps), first, first+1)
	return slices.Concat(Plan{}.then(declare).then(Bind{locking}).then(VerifyAlone{locking}), plan[:at],
		Plan{}.then(rest...), plan[at+1:])
}

// UndoCreate is the plan that takes back what a create has done: only what it made, and only while that
// is empty. Like Teardown, it leaves the delivery exchange. Done are the steps that may have had an effect.
func UndoCreate(desired topology.Topology, done []Step) Plan {
	made := After(topology.New(), done)
	// Another create may have declared the first new object, too: if it has bound anything to it, the object stays.
	first := firstNew(done)
	delete(made.Exchanges, first)
	staying := made.Bindings.Where(func(b topology.Binding) bool {
		return b.Source == first || !made.Has(b.Source) && !made.Takes(b)
	})
	staying = append(staying, made.Owners.Where(func(b topology.Binding) bool { return !made.Has(b.Source) })...)
	t := newTeardown(desired, made)
	plan := append(Plan{}.then(t.verify(t.queues(), VerifyEmpty{FirstLook: true})...), t.removal(Guard{})...).then(
		unbind(staying)...)
	if first == "" {
		return plan
	}
	return plan.then(DeleteExchange{Name: first, IfUnused: true})
}

// firstNew is the exchange that a create has declared before all else, if it has, see Create.
func firstNew(done []Step) string {
	if len(done) == 0 {
		return ""
	}
	if declare, is := done[0].(DeclareExchange); is && declare.New {
		return declare.Exchange.Name
	}
	return ""
}
