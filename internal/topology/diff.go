package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Diff is the plan that turns the actual topology into the desired one. It adds before it
// removes: missing objects come first, from the delivery exchange up and the entry last, so that
// a message meets either the old way or the new one, and both end in the same queue. Objects that
// cannot be altered are then recreated one by one, each with its bindings, and foreign bindings
// go last. What cannot be recreated without a loss stays as it is, and the rest is done all the same,
// but for the old way of messages that have no new one without it (see staysForNow).
//
// What is missing stays missing for publishers until the way behind it is complete. The exception
// is an exchange that is declared anew, because nothing can be bound to it before: for the moment
// until its bindings follow, what arrives there is unroutable, so it is parked where the exchange
// has an alternate exchange.
//
// Actual holds what exists of the objects that desired names, the bindings of the exchanges that
// desired owns, and the bindings of others that lead to objects to be recreated (see Recreated).
func Diff(desired, actual Topology) Plan {
	d := newDiffer(desired, actual)
	plan := d.add()
	for _, name := range d.wrongExchanges {
		plan = append(plan, d.recreateExchange(name)...)
	}
	for _, name := range d.wrongQueues {
		plan = append(plan, d.recreateQueue(name)...)
	}
	return append(plan, d.unbindForeign()...)
}

// Recreated lists the exchanges and queues that exist with other properties than desired: what
// others have bound to them has to be known to Diff, or it would be lost.
func Recreated(desired, actual Topology) (exchanges, queues []string) {
	d := newDiffer(desired, actual)
	return d.wrongExchanges, d.wrongQueues
}

type differ struct {
	desired, actual Topology
	// wrongExchanges and wrongQueues exist with other properties than desired.
	wrongExchanges, wrongQueues []string
	// deferred are those of them that bring a desired binding with them that is missing.
	deferred []string
}

func newDiffer(desired, actual Topology) differ {
	actual.Entry, actual.Delivery = desired.Entry, desired.Delivery
	d := differ{desired: desired, actual: actual}
	for name, want := range desired.Exchanges {
		if have, exists := actual.Exchanges[name]; exists && !have.Equal(want) {
			d.wrongExchanges = append(d.wrongExchanges, name)
		}
	}
	for name, want := range desired.Queues {
		if have, exists := actual.Queues[name]; exists && !have.Equal(want) {
			d.wrongQueues = append(d.wrongQueues, name)
		}
	}
	slices.Sort(d.wrongExchanges)
	slices.Sort(d.wrongQueues)
	d.deferred = d.findDeferred()
	return d
}

func (d differ) findDeferred() []string {
	var objects []string
	for b := range d.desired.Bindings {
		switch {
		case d.actual.Bindings.Has(b):
		case d.leadsToWrongQueue(b):
			objects = append(objects, QueueObject(b.Destination))
		default:
			for _, name := range d.wrongExchanges {
				if b.Source == name || b.DestinationType == ToExchange && b.Destination == name {
					objects = append(objects, ExchangeObject(name))
				}
			}
		}
	}
	slices.Sort(objects)
	return slices.Compact(objects)
}

// ExchangeObject is an exchange in words.
func ExchangeObject(name string) string { return fmt.Sprintf("exchange %q", name) }

// QueueObject is a queue in words.
func QueueObject(name string) string { return fmt.Sprintf("queue %q", name) }

// add creates what is missing, except for bindings of objects that are recreated later: these
// bring their bindings with them. An exchange that others lead to is bound onwards before that.
func (d differ) add() Plan {
	var exchanges, queues, fromNew, fromExisting, entry, fromEntry, intoEntry []Step
	for _, name := range slices.Sorted(maps.Keys(d.desired.Exchanges)) {
		if d.exists(name) {
			continue
		}
		if step := (DeclareExchange{Exchange: d.desired.Exchanges[name]}); name == d.desired.Entry {
			entry = append(entry, step)
		} else {
			exchanges = append(exchanges, step)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.desired.Queues)) {
		if _, exists := d.actual.Queues[name]; !exists {
			queues = append(queues, DeclareQueue{Queue: d.desired.Queues[name]})
		}
	}
	for _, b := range d.desired.Bindings.Sorted() {
		if d.actual.Bindings.Has(b) || d.isRecreated(b) {
			continue
		}
		switch {
		case b.Source == d.desired.Entry:
			fromEntry = append(fromEntry, Bind{b})
		case b.DestinationType == ToExchange && b.Destination == d.desired.Entry:
			intoEntry = append(intoEntry, Bind{b})
		case d.exists(b.Source):
			fromExisting = append(fromExisting, Bind{b})
		default:
			fromNew = append(fromNew, Bind{b})
		}
	}
	// What is declared gets no message before it is bound.
	return Plan{}.then(slices.Concat(exchanges, queues)...).then(fromNew...).then(fromExisting...).
		then(entry...).then(fromEntry...).then(intoEntry...)
}

// exists tells whether the exchange is there; one that desired does not name is taken to be.
func (d differ) exists(exchange string) bool {
	return d.actual.has(exchange) || !d.desired.has(exchange)
}

// isRecreated tells whether the binding goes away with an object that is recreated.
func (d differ) isRecreated(b Binding) bool {
	return d.leadsToWrongQueue(b) || slices.Contains(d.wrongExchanges, b.Source) ||
		b.DestinationType == ToExchange && slices.Contains(d.wrongExchanges, b.Destination)
}

func (d differ) leadsToWrongQueue(b Binding) bool {
	return b.DestinationType == ToQueue && slices.Contains(d.wrongQueues, b.Destination)
}

// recreateExchange replaces an exchange. For the moment in between, its publishers get an error
// and queues with at-least-once dead-lettering keep what they hold; a queue without would lose
// what expires just then, so it has to be empty. That does not hold where the exchange has the
// wrong type: it does not route what arrives, and waiting would lose more.
func (d differ) recreateExchange(name string) Plan {
	want, have := d.desired.Exchanges[name], d.actual.Exchanges[name]
	var plan Plan
	if have.Type == want.Type {
		if sources := d.atMostOnceInto(name); len(sources) > 0 {
			plan = plan.then(VerifyEmpty{Queues: sources, Why: "recreating exchange \"" + name + "\", into which they dead-letter at most once"})
		}
	}
	undo := restore(d.actual, d.actual.without([]Step{DeleteExchange{Name: name}}))
	plan = append(plan,
		// The applications' bindings of a delivery exchange are not ours to remove.
		Phase{Steps: []Step{DeleteExchange{Name: name, IfUnused: name == d.desired.Delivery}}, Undo: undo},
		Phase{Steps: []Step{DeclareExchange{Exchange: want}}, Undo: undo})
	return plan.then(d.bindAgain(func(b Binding) bool {
		if d.leadsToWrongQueue(b) && !d.actual.Bindings.Has(b) {
			return false // nothing new goes into a queue that has to be empty soon
		}
		return b.Source == name || b.DestinationType == ToExchange && b.Destination == name
	})...).recreating(ExchangeObject(name))
}

// verifyRecreatable checks that the queue is empty, and with it the queues whose messages could get
// lost while its bindings are gone.
func (d differ) verifyRecreatable(name string) Step {
	check := map[string]Queue{name: d.actual.Queues[name]}
	for b := range d.desired.Bindings {
		if b.DestinationType == ToQueue && b.Destination == name && d.desired.Exchanges[b.Source].AlternateExchange() == "" {
			for _, source := range d.atMostOnceInto(b.Source) {
				check[source.Name] = source
			}
		}
	}
	return VerifyEmpty{Queues: d.desired.Downstream(check), Why: fmt.Sprintf("recreating queue %q, whose arguments cannot be changed,", name)}
}

// recreateQueue replaces an empty queue. Its bindings go first, so that nothing arrives between
// the last look into the queue and its end: quorum queues know no delete if empty.
func (d differ) recreateQueue(name string) Plan {
	leadsHere := func(b Binding) bool { return b.DestinationType == ToQueue && b.Destination == name }
	var unbind []Step
	for _, b := range d.actual.Bindings.Sorted() {
		if leadsHere(b) {
			unbind = append(unbind, Unbind{b})
		}
	}
	undo := restore(d.actual, d.actual.without([]Step{DeleteQueue{Queue: d.actual.Queues[name]}}))
	plan := Plan{}.then(d.verifyRecreatable(name))
	for _, steps := range [][]Step{unbind, {DeleteQueue{Queue: d.actual.Queues[name], IfEmpty: true}}, {DeclareQueue{Queue: d.desired.Queues[name]}}} {
		if len(steps) > 0 {
			plan = append(plan, Phase{Steps: steps, Undo: undo})
		}
	}
	return plan.then(d.bindAgain(leadsHere)...).recreating(QueueObject(name))
}

// bindAgain are the bindings that went with a recreated object: the desired ones, those of others
// that lead to it, and those foreign ones that have to stay until everything is recreated.
func (d differ) bindAgain(affected func(Binding) bool) []Step {
	var steps []Step
	for _, b := range d.desired.Bindings.Sorted() {
		if affected(b) {
			steps = append(steps, Bind{b})
		}
	}
	for _, b := range d.actual.Bindings.Sorted() {
		if affected(b) && (!d.desired.Owns(b.Source) || d.staysForNow(b)) {
			steps = append(steps, Bind{b})
		}
	}
	return steps
}

// unbindForeign removes what others bound to the exchanges that belong to the topology alone, as
// far as it has not gone with an object that was recreated.
func (d differ) unbindForeign() Plan {
	var inside, outside []Step
	for _, b := range d.actual.Bindings.Sorted() {
		switch {
		case !d.isForeign(b):
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

// staysForNow tells whether a foreign binding may be the only way that some messages have, the one before a change of lookahead for
// example, until every desired binding is there. Recreated objects bring it back with them, because the next object may be refused.
func (d differ) staysForNow(b Binding) bool {
	return len(d.deferred) > 0 && d.isForeign(b) && d.leadsInside(b)
}

// leadsInside tells whether what takes the binding stays in the topology or gets to its end.
func (d differ) leadsInside(b Binding) bool {
	if b.DestinationType == ToQueue {
		return b.leadsInto(d.desired.Queues)
	}
	return d.desired.has(b.Destination) || b.Destination == d.desired.Delivery
}

func (d differ) isForeign(b Binding) bool {
	return d.desired.Owns(b.Source) && !d.desired.Bindings.Has(b)
}

// atMostOnceInto are the existing queues that dead-letter into the exchange without waiting for a
// confirmation.
func (d differ) atMostOnceInto(exchange string) []Queue {
	sources := map[string]Queue{}
	for name, q := range d.actual.Queues {
		if q.DeadLetterExchange() == exchange && !q.AtLeastOnce() {
			sources[name] = q
		}
	}
	return d.desired.Downstream(sources)
}

// Downstream orders queues, as they are on a broker, in the direction in which messages move, which is that of the time-to-live
// falling in the topology. A queue without any, where messages end, comes last.
func (t Topology) Downstream(queues map[string]Queue) []Queue {
	return slices.SortedFunc(maps.Values(queues), func(x, y Queue) int {
		return cmp.Or(
			cmp.Compare(t.Queues[y.Name].ttlMillis(), t.Queues[x.Name].ttlMillis()),
			cmp.Compare(x.Name, y.Name))
	})
}

// Delays tells whether messages leave the queue after a time-to-live.
func (q Queue) Delays() bool { return q.ttlMillis() >= 0 }

// ttlMillis is the time-to-live in milliseconds, -1 if there is none.
func (q Queue) ttlMillis() int64 {
	if ttl, ok := q.Arguments["x-message-ttl"].(int64); ok {
		return ttl
	}
	return -1
}
