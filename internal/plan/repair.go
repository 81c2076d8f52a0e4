package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Repair is the plan that turns the actual topology into the desired one. It adds before it removes: missing queues
// come first, then missing exchanges, then their bindings, and the entry last. So a message meets either the old way or
// the new one, and both end in the same queue. Then it recreates unalterable objects one by one, each with its
// bindings, and foreign bindings go last. An object stays as it is if it cannot be recreated without a loss. The rest
// is done all the same, but for the old way of messages that have no new one without that object (see staysForNow).
//
// Nothing is bound to a missing quorum queue before it survives a kill of its node. A recreated one is bound at once:
// messages flow meanwhile, and each would be parked or returned.
//
// A missing way stays missing for publishers until it is complete. The exception is an exchange that is declared anew,
// because nothing can be bound to it before. For the moment until its bindings follow, messages that arrive there are
// unroutable. They are parked where the exchange has an alternate exchange.
//
// Actual holds the existing objects that desired names, and the bindings of the exchanges that desired owns. It also
// holds the bindings of others that lead to objects to be recreated, which exist with other properties than desired. It
// has to know them, or they would be lost.
//
// The entry gets the desired owner's mark before its own bindings, so that a destroy beside it sees that before a
// message comes. Marks of others stay.
func Repair(desired, actual topology.Topology) Plan { return newRepair(desired, actual).plan() }

func (d repair) plan() Plan {
	plan := d.add()
	for _, name := range d.autoDeleteFirst() {
		plan = append(plan, d.recreateExchange(name)...)
	}
	for _, name := range d.WrongQueues {
		plan = append(plan, d.recreateQueue(name)...)
	}
	return append(plan, d.unbindForeign()...)
}

// TakeOver is the Repair of a topology that others own as well, or alone. The desired mark is there before others go.
func TakeOver(desired, actual topology.Topology) Plan {
	return Repair(desired, actual).
		then(unbind(actual.Owners.Where(func(b topology.Binding) bool { return !desired.Owners.Has(b) }))...)
}

// autoDeleteFirst are the wrong exchanges in the order in which they are recreated. One that goes with its last binding
// comes before the exchanges that it leads to: their recreation takes that binding away.
func (d repair) autoDeleteFirst() []string {
	var first []string // what an exchange leads to stands before it, until this is reversed
	visited := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if visited[name] {
			return
		}
		visited[name] = true
		for _, b := range d.desired.Bindings.Sorted() {
			if b.Source == name && b.DestinationType == topology.ToExchange {
				visit(b.Destination)
			}
		}
		if d.actual.Exchanges[name].AutoDelete && slices.Contains(d.WrongExchanges, name) {
			first = append(first, name)
		}
	}
	for _, name := range d.WrongExchanges {
		visit(name)
	}
	slices.Reverse(first)
	return slices.Concat(first, slices.DeleteFunc(slices.Clone(d.WrongExchanges),
		func(name string) bool { return slices.Contains(first, name) }))
}

// repair is a Repair in the making.
type repair struct {
	topology.Differences
	desired, actual topology.Topology
	// isNew says that all declared objects have to be new, but for the delivery exchange.
	isNew bool
	// deferred are the objects with other properties that bring a desired binding with them that is missing.
	deferred []string
}

func newRepair(desired, actual topology.Topology) repair {
	actual.Entry, actual.Delivery = desired.Entry, desired.Delivery
	d := repair{Differences: topology.Diff(desired, actual), desired: desired, actual: actual}
	d.deferred = d.findDeferred()
	return d
}

func (d repair) findDeferred() []string {
	var objects []string
	for _, b := range d.MissingBindings {
		if d.leadsToWrongQueue(b) {
			objects = append(objects, topology.QueueObject(b.Destination))
			continue
		}
		for _, name := range d.WrongExchanges {
			if touches(b, name) {
				objects = append(objects, topology.ExchangeObject(name))
			}
		}
	}
	slices.Sort(objects)
	return slices.Compact(objects)
}

// add creates missing objects, except for bindings of objects that are recreated later: these bring their bindings with
// them. An exchange that others lead to is bound onwards before that.
func (d repair) add() Plan {
	var queues, durable, exchanges, fromNew, fromExisting, entry, marks, fromEntry, intoEntry []Step
	var intoNew []topology.Binding
	for _, name := range d.MissingQueues {
		q := d.desired.Queues[name]
		queues = append(queues, DeclareQueue{Queue: q, New: d.isNew})
		if q.Type() == "quorum" {
			durable = []Step{AwaitDurable{}}
		}
	}
	for _, name := range d.MissingExchanges {
		step := DeclareExchange{d.desired.Exchanges[name], d.isNew && name != d.desired.Delivery}
		if name == d.desired.Entry {
			entry = append(entry, step)
		} else {
			exchanges = append(exchanges, step)
		}
	}
	for _, b := range d.MissingBindings {
		switch {
		case d.isRecreated(b):
		case b.Source == d.desired.Entry:
			fromEntry = append(fromEntry, Bind{b})
		case b.LeadsTo(topology.ToExchange, d.desired.Entry):
			intoEntry = append(intoEntry, Bind{b})
		case slices.Contains(d.MissingExchanges, b.Source):
			fromNew = append(fromNew, Bind{b})
		case b.DestinationType == topology.ToQueue && slices.Contains(d.MissingQueues, b.Destination):
			intoNew = append(intoNew, b)
		default:
			fromExisting = append(fromExisting, Bind{b})
		}
	}
	for _, mark := range d.desired.Owners.Where(func(b topology.Binding) bool { return !d.actual.Owners.Has(b) }) {
		if !d.isRecreated(mark) {
			marks = append(marks, Bind{mark})
		}
	}
	var policies []Step
	for _, name := range slices.Concat(d.MissingPolicies, d.WrongPolicies) {
		policies = append(policies, SetPolicy{d.desired.Policies[name]})
	}
	// A queue gets no message before it is bound. An exchange does, so it comes after the wait.
	plan := Plan{}.then(queues...).then(durable...).then(exchanges...).then(fromNew...).then(fromExisting...)
	for _, group := range upwards(d.desired, intoNew) {
		plan = plan.then(bind(group)...)
	}
	return plan.then(policies...).then(entry...).then(marks...).then(fromEntry...).goingOn(intoEntry...)
}

// upwards groups bindings by their exchanges, the lowest first. Made in this order, and removed in the reverse one,
// they leave whatever waits in a queue a way on.
func upwards(t topology.Topology, bindings []topology.Binding) (groups [][]topology.Binding) {
	longest := map[string]int64{} // TTL of a queue behind an exchange: that of a higher level is longer
	for b := range t.Bindings {
		if b.DestinationType == topology.ToQueue {
			longest[b.Source] = max(longest[b.Source], t.Queues[b.Destination].TTLMillis())
		}
	}
	from := map[int64][]topology.Binding{}
	for _, b := range bindings {
		from[longest[b.Source]] = append(from[longest[b.Source]], b)
	}
	for _, ttl := range slices.Sorted(maps.Keys(from)) {
		groups = append(groups, from[ttl])
	}
	return groups
}

// isRecreated tells whether the binding goes away with an object that is recreated.
func (d repair) isRecreated(b topology.Binding) bool {
	return d.leadsToWrongQueue(b) || slices.Contains(d.WrongExchanges, b.Source) ||
		b.DestinationType == topology.ToExchange && slices.Contains(d.WrongExchanges, b.Destination)
}

func (d repair) leadsToWrongQueue(b topology.Binding) bool {
	return b.DestinationType == topology.ToQueue && slices.Contains(d.WrongQueues, b.Destination)
}

// recreateExchange deletes an exchange and declares it anew. For the moment in between, its publishers get an error,
// and queues with at-least-once dead-lettering keep their messages. A queue without would lose the messages that expire
// just then, so it has to be empty. That does not hold where the exchange has the wrong type: it does not route what
// arrives, and waiting would lose more.
func (d repair) recreateExchange(name string) Plan {
	want, have := d.desired.Exchanges[name], d.actual.Exchanges[name]
	var plan Plan
	if have.Type == want.Type {
		if sources := d.atMostOnceInto(name); len(sources) > 0 {
			plan = plan.then(VerifyEmpty{Queues: sources, Why: "recreating exchange \"" + name +
				"\", into which they dead-letter at most once"})
		}
	}
	// The applications' bindings of a delivery exchange are not ours to remove.
	remove := []Step{DeleteExchange{Name: name, IfUnused: name == d.desired.Delivery}}
	undo := d.bringBack(remove)
	plan = append(plan,
		Phase{Steps: remove, Undo: undo},
		Phase{Steps: []Step{DeclareExchange{Exchange: want}}, Undo: undo})
	return plan.goingOn(d.bindAgain(func(b topology.Binding) bool {
		if d.leadsToWrongQueue(b) && !d.actual.Bindings.Has(b) {
			return false // nothing new goes into a queue that has to be empty soon
		}
		return touches(b, name)
	})...).recreating(topology.ExchangeObject(name))
}

// recreateQueue deletes an empty queue and declares it anew. Its bindings go first, so that nothing arrives between
// the last look into the queue and its end: quorum queues know no delete if empty.
func (d repair) recreateQueue(name string) Plan {
	leadsHere := func(b topology.Binding) bool { return b.LeadsTo(topology.ToQueue, name) }
	detach := unbind(d.actual.Bindings.Where(leadsHere))
	remove := []Step{DeleteQueue{Queue: d.actual.Queues[name], IfEmpty: true}}
	undo := d.bringBack(slices.Concat(detach, remove))
	plan := Plan{}.then(d.verifyRecreatable(name))
	for _, steps := range [][]Step{detach, remove, {DeclareQueue{Queue: d.desired.Queues[name]}}} {
		if len(steps) > 0 {
			plan = append(plan, Phase{Steps: steps, Undo: undo})
		}
	}
	return plan.goingOn(d.bindAgain(leadsHere)...).recreating(topology.QueueObject(name))
}

// verifyRecreatable checks that the queue is empty, and with it the queues whose messages could get
// lost while its bindings are gone.
func (d repair) verifyRecreatable(name string) Step {
	check := map[string]topology.Queue{name: d.actual.Queues[name]}
	for b := range d.desired.Bindings {
		if b.LeadsTo(topology.ToQueue, name) && d.desired.AlternateOf(b.Source) == "" {
			for _, source := range d.atMostOnceInto(b.Source) {
				check[source.Name] = source
			}
		}
	}
	return VerifyEmpty{Queues: d.desired.Downstream(check), Why: fmt.Sprintf("recreating queue %q, whose arguments "+
		"cannot be changed,", name)}
}

// bringBack is the undo of a recreation, as far as it was done. Messages flow, so it waits no more than that.
func (d repair) bringBack(removal []Step) func([]Step) Plan {
	return func(done []Step) Plan {
		return restore(d.actual, afterRemoval(d.actual, among(done, removal))).atOnce()
	}
}

// bindAgain are the bindings that went with a recreated object: the desired ones, and those of others that lead to it.
// It has also the foreign ones that have to stay until everything is recreated.
func (d repair) bindAgain(affected func(topology.Binding) bool) []Step {
	others := d.actual.Bindings.Where(func(b topology.Binding) bool {
		return affected(b) && (!d.desired.OwnsBinding(b) || d.staysForNow(b))
	})
	marks := topology.NewBindings(slices.Concat(d.desired.Owners.Sorted(), d.actual.Owners.Sorted())...)
	return bind(slices.Concat(d.desired.Bindings.Where(affected), marks.Where(affected), others))
}

// unbindForeign removes the bindings of others to exchanges that belong to the topology alone, unless they have gone
// with a recreated object.
func (d repair) unbindForeign() Plan {
	var inside, outside []Step
	for _, b := range d.ForeignBindings {
		switch {
		case d.staysForNow(b):
			inside = append(inside, Unbind{b})
		case !d.isRecreated(b):
			outside = append(outside, Unbind{b})
		}
	}
	plan := Plan{}.then(outside...)
	if len(inside) > 0 {
		plan = append(plan, Phase{Steps: inside, Needs: d.deferred})
	}
	return plan
}

// staysForNow tells whether a foreign binding may be the only way that some messages have, until every desired binding
// is there. The binding before a change of lookahead is an example. Recreated objects bring it back with them, because
// the next object may be refused.
func (d repair) staysForNow(b topology.Binding) bool {
	isForeign := d.desired.OwnsBinding(b) && !d.desired.Bindings.Has(b)
	leadsInside := d.desired.Takes(b) || b.LeadsTo(topology.ToExchange, d.desired.Delivery)
	return len(d.deferred) > 0 && isForeign && leadsInside
}

// atMostOnceInto are the existing queues that dead-letter into the exchange without waiting for a
// confirmation.
func (d repair) atMostOnceInto(exchange string) []topology.Queue {
	sources := map[string]topology.Queue{}
	for name, q := range d.actual.Queues {
		if q.DeadLetterExchange() == exchange && !q.AtLeastOnce() {
			sources[name] = q
		}
	}
	return d.desired.Downstream(sources)
}
