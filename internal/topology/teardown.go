package topology

import (
	"maps"
	"slices"
	"time"
)

// Guard says what a teardown does about messages that wait.
type Guard struct {
	// Force deletes the queues with their messages.
	Force bool
	// Drain is how long the queues may take to run empty once nothing new gets in. Zero refuses
	// at once if anything waits.
	Drain time.Duration
}

// Teardown is the plan that removes the topology, of which actual is what exists, without losing a
// message. It refuses while messages wait, before anything is touched. Then it closes the entry
// and looks again, because a message may have come in meanwhile. Whatever leads into the queues goes before them: the exchanges, so
// that a publisher who knows them gets an error rather than a lost message, and the bindings of exchanges that stay.
// Whatever fails on the way, what has been removed until then is restored.
//
// The delivery exchange stays: others may use it (see LetGo).
//
// Actual holds, besides what Diff wants, the bindings of others that lead to the exchanges and
// queues (see NeedsInbound): they are restored with them. What desired does not name is never removed.
//
// Where desired is only a part of a topology, without its entry (see Without), the bindings that lead into its queues
// are removed in the place of the entry.
func Teardown(desired, actual Topology, guard Guard) Plan {
	t := newTeardown(desired, actual)
	if guard.Force {
		return t.removal(guard)
	}
	return append(t.look(guard), t.undoable(t.removal(guard))...)
}

// look makes sure, before anything is touched, of what must not wait.
func (t teardown) look(guard Guard) Plan {
	switch {
	case guard.Force:
		return nil
	case guard.Drain > 0:
		return Plan{}.then(verify(0, t.parking)...) // the others run empty by waiting
	}
	return Plan{}.then(verify(0, t.queues())...)
}

// removal takes everything away, beginning with the entry.
func (t teardown) removal(guard Guard) Plan {
	if guard.Force {
		return Plan{}.
			then(t.close...).
			then(deleteExchanges(t.levels)...).
			then(t.deleteQueues(false)...).
			then(deleteExchanges(t.alternate)...)
	}
	removal := Plan{}.
		then(t.close...).
		then(verify(guard.Drain, t.queues())...).
		then(t.cutOff...).
		then(deleteExchanges(t.levels)...)
	if len(t.delays) > 0 {
		// Publishers that enter below the entry may have come in since.
		removal = removal.then(verify(0, t.queues())...)
	}
	// What is parked is so for as long as possible.
	return removal.
		then(deleteExchanges(t.alternate)...).
		then(t.deleteQueues(true)...)
}

// LetGo is the plan that deletes an exchange that others may use. Unless it is forced, the broker refuses that while
// anything is bound
// to the exchange as its source.
func LetGo(exchange string, force bool) Plan {
	return Plan{}.then(DeleteExchange{Name: exchange, IfUnused: !force})
}

// NeedsInbound tells whether Teardown has to know what others have bound to the objects: to restore it with them, or, where
// desired is only a part, to close it. With Force nothing is restored.
func NeedsInbound(desired Topology, guard Guard) bool { return !guard.Force || !desired.isWhole() }

// isWhole tells a topology from a part of one, see Without.
func (t Topology) isWhole() bool {
	return t.has(t.Entry)
}

// Undo is the plan that takes back what a create has done: only what it made, and only while that
// is empty. Like Teardown, it leaves the delivery exchange. Done are the steps that may have had an effect.
func Undo(desired Topology, done []Step) Plan {
	made := New()
	for _, step := range done {
		switch s := step.(type) {
		case DeclareExchange:
			made.Exchanges[s.Exchange.Name] = s.Exchange
		case DeclareQueue:
			made.Queues[s.Queue.Name] = s.Queue
		case Bind:
			made.Bindings.Add(s.Binding)
		}
	}
	// What was declared first may be declared by another create, too: if that has bound anything to it, it stays.
	first := firstNew(done)
	delete(made.Exchanges, first)
	var unbind []Step
	for _, b := range made.Bindings.Sorted() {
		source, exchange := made.has(b.Source), made.has(b.Destination)
		_, queue := made.Queues[b.Destination]
		goesAlong := source || exchange && b.DestinationType == ToExchange || queue && b.DestinationType == ToQueue
		if b.Source == first || !goesAlong {
			unbind = append(unbind, Unbind{b})
		}
	}
	plan := append(Teardown(desired, made, Guard{}), Plan{}.then(unbind...)...)
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

// teardown is what exists of a topology, by the part that it plays.
type teardown struct {
	actual Topology
	// close keeps new messages out, and cutOff those that come in beside the entry and the levels.
	close, cutOff     []Step
	levels, alternate []string
	// delays are in the direction in which messages move.
	delays, parking []Queue
}

func newTeardown(desired, actual Topology) teardown {
	actual.Entry, actual.Delivery = desired.Entry, desired.Delivery
	t := teardown{actual: actual}
	alternates := map[string]bool{}
	for _, e := range desired.Exchanges {
		alternates[e.AlternateExchange()] = true
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		if !actual.has(name) {
			continue
		}
		switch {
		case name == desired.Entry:
			t.close = deleteExchanges([]string{name})
		case name == desired.Delivery:
		case alternates[name]:
			t.alternate = append(t.alternate, name)
		default:
			t.levels = append(t.levels, name)
		}
	}
	for _, q := range desired.Downstream(actual.Queues) {
		want, exists := desired.Queues[q.Name]
		switch {
		case !exists:
		case want.Delays():
			t.delays = append(t.delays, q)
		default:
			t.parking = append(t.parking, q)
		}
	}
	for _, b := range actual.Bindings.Sorted() {
		switch {
		case b.Source == "" || !b.leadsInto(actual.Queues) || !b.leadsInto(desired.Queues): // the default exchange cannot be unbound
		case !desired.isWhole():
			t.close = append(t.close, Unbind{b})
		case !actual.has(b.Source) || !desired.Owns(b.Source):
			t.cutOff = append(t.cutOff, Unbind{b})
		}
	}
	return t
}

// queues are all of them: once the exchanges above are gone, nothing goes from one to another.
func (t teardown) queues() []Queue { return slices.Concat(t.delays, t.parking) }

// Without is the part of the topology that another one does not have: queues, with the bindings that lead into them.
func (t Topology) Without(other Topology) Topology {
	part := New()
	part.Entry, part.Delivery = t.Entry, t.Delivery
	for name, q := range t.Queues {
		if _, common := other.Queues[name]; !common {
			part.Queues[name] = q
		}
	}
	for b := range t.Bindings {
		if b.leadsInto(part.Queues) {
			part.Bindings.Add(b)
		}
	}
	return part
}

// verify makes sure, if there are queues, that they are empty.
func verify(wait time.Duration, queues ...[]Queue) []Step {
	all := slices.Concat(queues...)
	if len(all) == 0 {
		return nil
	}
	return []Step{VerifyEmpty{Queues: all, Wait: wait, Why: "deleting them"}}
}

// undoable gives each phase an undo that restores what the phases up to it remove.
func (t teardown) undoable(removal Plan) Plan {
	for i := range removal {
		removal[i].Undo = restore(t.actual, t.actual.without(removal[:i+1].Steps()))
	}
	return removal
}

func deleteExchanges(names []string) []Step {
	steps := make([]Step, len(names))
	for i, name := range names {
		steps[i] = DeleteExchange{Name: name}
	}
	return steps
}

func (t teardown) deleteQueues(ifEmpty bool) []Step {
	sources := map[string][]string{}
	for _, b := range t.actual.Bindings.Sorted() {
		if b.leadsInto(t.actual.Queues) {
			sources[b.Destination] = append(sources[b.Destination], b.Source)
		}
	}
	var steps []Step
	for _, q := range t.queues() {
		steps = append(steps, DeleteQueue{Queue: q, IfEmpty: ifEmpty, Sources: sources[q.Name]})
	}
	return steps
}
