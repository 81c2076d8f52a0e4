package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Teardown is the plan that removes the topology, of which actual exists, without losing a message. It refuses while
// messages wait, or without the permission to delete something, before anything is touched. Then it closes the entry
// and looks again, because a message may have come in meanwhile. The objects that lead into the queues go before them.
// The exchanges go, so that a publisher who knows them gets an error rather than a lost message, and the bindings of
// exchanges that stay. Whatever fails on the way, the objects removed until then are restored.
//
// Others may take over the topology meanwhile. So it looks for their mark before it goes on, and again between the
// queues that it deletes. It also looks before it restores anything: what they have is theirs.
//
// The delivery exchange stays: others may use it (see DeleteShared).
//
// Actual holds, besides what Repair wants, the bindings of others that lead to the exchanges and
// queues (see NeedsInbound): they are restored with them. What desired does not name is never removed.
//
// Desired may be only a part of a topology, without its entry (see Extras). Then the bindings that lead into its queues
// are removed in the place of the entry. The highest exchange is the first. So what waits in a queue keeps its way on.
func Teardown(desired, actual topology.Topology, guard Guard) Plan {
	t := newTeardown(desired, actual)
	removal := t.removal(guard)
	return append(t.checkFirst(guard, removal.Steps()), removal...)
}

// Guard says what a teardown does about messages that wait.
type Guard struct {
	// Force deletes the queues with their messages.
	Force bool
	// Drain is how long the queues may take to run empty once nothing new gets in. Zero refuses
	// at once if anything waits.
	Drain time.Duration
}

// checkFirst makes sure, before anything is touched, that no messages are in the way, and that the user may delete
// everything.
func (t teardown) checkFirst(guard Guard, removal []Step) Plan {
	var checks []Step
	switch {
	case guard.Force:
	case guard.Drain > 0:
		checks = t.verify(t.parking, VerifyEmpty{FirstLook: true}) // the others run empty by waiting
	default:
		checks = t.verify(t.queues(), VerifyEmpty{FirstLook: true})
	}
	return Plan{}.then(append(checks, t.allowed(removal)...)...)
}

// allowed makes sure that the user may take the steps, and bring back the objects that they remove.
func (t teardown) allowed(removal []Step) []Step {
	var steps []Step
	for _, step := range removal {
		if inverse := step.Effect().Inverse; inverse != nil {
			steps = append(steps, VerifyAllowed{inverse(t.actual)})
		}
	}
	return steps
}

// removal takes everything away, beginning with the entry. Unless it is forced, it brings back what it took away if
// it fails.
func (t teardown) removal(guard Guard) Plan {
	if guard.Force {
		return Plan{}.
			then(t.close...).
			then(t.levels...).
			then(t.deleteQueues(false)...).
			then(t.alternate...).
			then(t.policies...)
	}
	var removal Plan
	for _, s := range t.stages() {
		removal = removal.then(s.close...).then(t.verify(s.closed, VerifyEmpty{Wait: guard.Drain})...).
			then(slices.Concat(t.verifyOwner(), t.afterWait)...)
	}
	removal = removal.
		then(t.cutOff...).
		then(t.levels...).
		then(t.alternate...).
		then(t.policies...)
	if len(t.cutOff)+len(t.levels)+len(t.alternate) > 0 {
		// Publishers that enter below the entry may have come in since.
		removal = removal.then(t.verify(t.queues(), VerifyEmpty{NothingMoves: true})...)
	}
	for queues := range slices.Chunk(t.deleteQueues(true), queuesAtOnce) {
		removal = removal.then(t.verifyOwner()...).then(queues...)
	}
	return t.undoable(removal)
}

// queuesAtOnce is how many queues are deleted between two looks for an owner.
const queuesAtOnce = 8

// DeleteShared is the plan that deletes an exchange that others may use. Unless it is forced, the broker refuses that
// while anything is bound to the exchange as its source.
func DeleteShared(exchange string, force bool) Plan {
	return Plan{}.then(DeleteExchange{Name: exchange, IfUnused: !force})
}

// NeedsInbound tells whether Teardown has to know the bindings of others to the objects. It needs them to restore them,
// or, where desired is only a part, to close it. With Force nothing is restored.
func NeedsInbound(desired topology.Topology, guard Guard) bool {
	return !guard.Force || !desired.IsWhole()
}

// teardown is what exists of a topology, by the part that it plays.
type teardown struct {
	desired, actual topology.Topology
	// close keeps new messages out, and cutOff those that come in beside the entry and the levels.
	close, cutOff []Step
	// into are the bindings to close in the place of the entry of a part.
	into []topology.Binding
	// afterWait looks for what has changed while the queues ran empty.
	afterWait []Step
	// levels, alternate and policies delete the exchanges below the entry, the alternate ones, and the policies.
	levels, alternate, policies []Step
	// delays are in the direction in which messages move.
	delays, parking []topology.Queue
}

func newTeardown(desired, actual topology.Topology) teardown {
	actual.Entry, actual.Delivery = desired.Entry, desired.Delivery
	t := teardown{desired: desired, actual: actual}
	alternates := map[string]bool{}
	for _, e := range desired.Exchanges {
		alternates[e.AlternateExchange()] = true
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Policies)) {
		alternates[desired.Policies[name].AlternateExchange()] = true
		if _, exists := actual.Policies[name]; exists {
			t.policies = append(t.policies, DeletePolicy{Name: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		if !actual.Has(name) {
			continue
		}
		switch {
		case name == desired.Entry:
			t.close = []Step{DeleteExchange{Name: name}}
		case name == desired.Delivery:
		case alternates[name]:
			t.alternate = append(t.alternate, DeleteExchange{Name: name})
		default:
			t.levels = append(t.levels, DeleteExchange{Name: name})
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
		// the default exchange cannot be unbound
		case b.Source == "" || !b.LeadsInto(actual.Queues) || !b.LeadsInto(desired.Queues):
		case !desired.IsWhole():
			t.into = append(t.into, b)
		case !actual.Has(b.Source) || !desired.Owns(b.Source):
			t.cutOff = append(t.cutOff, Unbind{b})
		}
	}
	t.close = append(t.close, unbind(t.into)...)
	return t
}

// queues are all of them: once the exchanges above are gone, nothing goes from one to another.
func (t teardown) queues() []topology.Queue { return slices.Concat(t.delays, t.parking) }

// stage has the steps that remove something at once, and the queues into which nothing new gets then.
type stage struct {
	close  []Step
	closed []topology.Queue
}

// stages close everything: at once by the entry, or one exchange after the other in its place.
func (t teardown) stages() (stages []stage) {
	if t.desired.IsWhole() || len(t.into) == 0 {
		return []stage{{t.close, t.queues()}}
	}
	groups := upwards(t.actual, t.into)
	leadsOn := func(q topology.Queue, groups [][]topology.Binding) bool {
		return slices.ContainsFunc(slices.Concat(groups...),
			func(b topology.Binding) bool { return b.LeadsTo(topology.ToQueue, q.Name) })
	}
	open := t.queues()
	for i, group := range slices.Backward(groups) {
		s := stage{close: unbind(group)}
		for _, q := range open {
			if !leadsOn(q, groups[:i]) {
				s.closed = append(s.closed, q)
			}
		}
		open = slices.DeleteFunc(open, func(q topology.Queue) bool { return !leadsOn(q, groups[:i]) })
		stages = append(stages, s)
	}
	return stages
}

// verify makes sure, if there are queues, that they are empty, in the way of the step.
func (t teardown) verify(queues []topology.Queue, step VerifyEmpty) []Step {
	if len(queues) == 0 {
		return nil
	}
	step.Queues, step.Why = queues, "deleting them"
	return []Step{step}
}

// verifyOwner makes sure, once something is closed, that nobody else has taken over the topology meanwhile. A part
// without an owner belongs to a topology that is being taken over itself.
func (t teardown) verifyOwner() []Step {
	if len(t.close) == 0 || !t.desired.IsWhole() && len(t.desired.Owners) == 0 {
		return nil
	}
	return []Step{VerifyOwner{t.desired}}
}

// verifyBound makes sure, once the entry is closed, that the bindings of others are those that the plan knows.
func (t teardown) verifyBound(delivery bool) Step {
	of := afterRemoval(t.actual, t.close)
	maps.DeleteFunc(of.Exchanges, func(name string, _ topology.Exchange) bool { return !t.desired.Has(name) })
	maps.DeleteFunc(of.Queues, func(name string, _ topology.Queue) bool {
		_, has := t.desired.Queues[name]
		return !has
	})
	return VerifyBound{of, delivery}
}

// undoable gives each phase an undo that restores the removed objects.
func (t teardown) undoable(removal Plan) Plan {
	for i := range removal {
		removal[i].Undo = func(done []Step) Plan {
			back := restore(t.actual, afterRemoval(t.actual, done))
			if len(back) == 0 {
				return nil
			}
			return append(Plan{}.then(t.verifyOwner()...), back...)
		}
	}
	return removal
}

func (t teardown) deleteQueues(ifEmpty bool) []Step {
	sources := map[string][]string{}
	for _, b := range t.actual.Bindings.Sorted() {
		if b.LeadsInto(t.actual.Queues) {
			sources[b.Destination] = append(sources[b.Destination], b.Source)
		}
	}
	return stepsFor(t.queues(), func(q topology.Queue) Step {
		return DeleteQueue{Queue: q, IfEmpty: ifEmpty, Sources: sources[q.Name]}
	})
}
