package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// bindingChange is a change of a destination that is being made. A destination is a binding from an exchange of others
// to a queue or exchange of others. It says where messages go that come out of a cascade or ladder. No other binding is
// touched.
type bindingChange struct {
	change Change
	vhost  Vhost
	// before are the bindings of the state, and to is the wanted one. A destroy wants none.
	before []topology.Binding
	to     topology.Binding
	// there is what the exchanges of all these had bound before anything was written.
	there topology.Bindings
}

func (c Change) bindingChange(vhost Vhost) *bindingChange {
	r := &bindingChange{change: c, vhost: vhost, before: c.Before.Bindings.Sorted()}
	for b := range c.After.Bindings {
		r.to = b
	}
	return r
}

// apply changes the destination. After a create that fails, an *UnfinishedError says whether the binding may be there.
func (r *bindingChange) apply(ctx context.Context) (result Result, err error) {
	switch {
	case len(r.change.After.Bindings) == 0:
		return r.destroy(ctx)
	case len(r.change.Before.Bindings) == 0:
		return r.create(ctx)
	}
	return r.update(ctx)
}

func ofBindings(bindings ...topology.Binding) *topology.Topology {
	return &topology.Topology{Bindings: topology.NewBindings(bindings...)}
}

func (r *bindingChange) create(ctx context.Context) (result Result, err error) {
	if result.Problems, err = r.prepare(ctx); err != nil {
		return result, err
	}
	state, done, err := r.bind(ctx, nil)
	if err == nil {
		result.There, result.StartsFromAfter, result.State = ofBindings(r.to), true, state
		return result, nil
	}
	undo := r.undo(ctx, done)
	if undo != nil {
		result.There, result.StartsFromAfter = ofBindings(r.to), true
	}
	return result, &UnfinishedError{failure{err}, undo}
}

// update makes the wanted binding and then removes those before. The result has the bindings that exist, or may, also
// after an error: an *UnfinishedError if anything was written.
func (r *bindingChange) update(ctx context.Context) (result Result, err error) {
	if result.Problems, err = r.prepare(ctx); err != nil {
		return result, err
	}
	if err = r.readThere(ctx); err != nil {
		return result, err
	}
	gone := allBut(r.before, r.to)
	if err = r.vacate(ctx, gone); err != nil {
		return result, err
	}
	state, done, err := r.bind(ctx, gone)
	if state == nil {
		return r.undoUpdate(ctx, result, done, err)
	}
	result.There, result.StartsFromAfter = ofBindings(r.to), true
	if err != nil { // All is done. To take the new binding back after an old answer of a node would leave none.
		return result, &UnfinishedError{failure{err}, nil}
	}
	result.State = state
	if !r.wasThere() {
		result.Problems = append(result.Problems,
			Problem{Unplanned, &GoneError{r.change.Options.Named.Plain(), r.there}})
	}
	return result, nil
}

// wasThere tells whether one of the destination's own bindings was there before anything was written. A plan knows none
// that was not, as the refresh takes such a destination out of the state. It may expect that with triggers.
func (r *bindingChange) wasThere() bool {
	mark := r.to.DestinationMark()
	return len(r.before)+len(r.there.Where(func(b topology.Binding) bool { return b.DestinationMark() == mark })) > 0
}

// undoUpdate takes a failed update back, unless it has removed the binding that the state names. It returns the
// bindings then.
func (r *bindingChange) undoUpdate(
	ctx context.Context, result Result, done []plan.Step, cause error,
) (Result, error) {
	ctx, cancel := withTimeToUndo(ctx)
	defer cancel()
	named, all := r.change.Options.Named, append(allBut(r.before, r.to), r.to)
	there, err := boundThere(ctx, r.vhost, all)
	left := existing(all, there)
	made, kept := slices.Contains(left, r.to), slices.Contains(left, named)
	if err == nil && r.to != named && !r.there.Has(r.to) && (kept || !made) {
		if err = r.undo(ctx, done); err == nil {
			left = allBut(left, r.to)
		}
	}
	if err != nil {
		left = all
	}
	result.There, result.StartsFromAfter = ofBindings(left...), err == nil && made && !kept
	return result, &UnfinishedError{failure{cause}, err}
}

// destroy removes the bindings. The state of its result is what their exchanges still have bound.
func (r *bindingChange) destroy(ctx context.Context) (result Result, err error) {
	if err = r.readThere(ctx); err == nil {
		err = r.vacate(ctx, r.before)
	}
	if err == nil {
		_, err = r.vhost.Run(ctx, plan.Rebind(topology.Bindings{}, topology.NewBindings(r.before...)))
	}
	if rabbit.IsKind(err, rabbit.VhostNotFound) {
		return result, nil
	}
	if err == nil {
		result.State = &rabbit.State{Topology: *ofBindings(r.staying(r.before)...)}
	}
	return result, err
}

// prepare looks whether the binding can be made, before anything is written.
func (r *bindingChange) prepare(ctx context.Context) (problems []Problem, err error) {
	if problems, err = r.checkEnds(ctx); err != nil {
		return problems, err
	}
	more, err := r.check(ctx, true)
	return append(problems, more...), err
}

// readThere reads all bindings of the exchanges, and leaves those before out that are not there.
func (r *bindingChange) readThere(ctx context.Context) (err error) {
	r.there, err = boundThere(ctx, r.vhost, append(r.before, r.change.After.Bindings.Sorted()...))
	r.before = existing(r.before, r.there)
	return err
}

// bind makes the wanted binding, unless it is there, then removes those that are to go, and reads what its exchange has
// then. Done are the steps that may have had an effect. There is a state if all of them are done, also with an error.
func (r *bindingChange) bind(
	ctx context.Context, gone []topology.Binding,
) (state *rabbit.State, done []plan.Step, err error) {
	actual := topology.NewBindings(gone...)
	if r.there.Has(r.to) {
		actual.Add(r.to)
	}
	if done, err = r.vhost.Run(ctx, plan.Rebind(r.change.After.Bindings, actual)); err != nil {
		return nil, done, err
	}
	there, err := r.vhost.BindingsFrom(ctx, r.to.Source)
	if err == nil && !slices.Contains(there, r.to) {
		err = errors.New("RabbitMQ does not list it afterwards: another application removed it, or the answer of a " +
			"node is old")
	}
	return &rabbit.State{Topology: *ofBindings(there...)}, done, err
}

// undo takes back the binding that was made.
func (r *bindingChange) undo(ctx context.Context, done []plan.Step) error {
	ctx, cancel := withTimeToUndo(ctx)
	defer cancel()
	err := r.vhost.Undo(ctx, plan.UndoCreate(topology.New(), done))
	if rabbit.IsKind(err, rabbit.VhostNotFound) {
		return nil
	}
	return err
}

// vacate makes sure that no message is on its way to the bindings that go. Nothing is closed while it waits. Messages
// that have another way then do not count.
func (r *bindingChange) vacate(ctx context.Context, gone []topology.Binding) error {
	gone = r.needed(gone)
	if guard := r.change.Options.Guard; !guard.Force && len(gone) > 0 {
		if err := r.verifyVacant(ctx, gone, guard.Drain); err != nil {
			return &NotVacantError{failure{err}, gone}
		}
	}
	return nil
}

// needed are those of the bindings that go whose messages have no other way then.
func (r *bindingChange) needed(gone []topology.Binding) []topology.Binding {
	stay := r.staying(gone)
	return slices.DeleteFunc(slices.Clone(gone), func(b topology.Binding) bool {
		return delay.TakesAll(r.to, b) ||
			slices.ContainsFunc(stay, func(other topology.Binding) bool { return delay.Replaces(other, b) })
	})
}

// staying are those of the bindings that were there which do not go.
func (r *bindingChange) staying(gone []topology.Binding) []topology.Binding {
	return r.there.Where(func(b topology.Binding) bool { return !slices.Contains(gone, b) })
}

func (r *bindingChange) verifyVacant(ctx context.Context, gone []topology.Binding, wait time.Duration) error {
	inventory, err := Inventory(ctx, r.vhost, func(e topology.Exchange) bool {
		return slices.ContainsFunc(gone, func(b topology.Binding) bool { return b.Source == e.Name })
	})
	if err != nil {
		return err
	}
	queues := inventory.Upstream(ctx, gone)
	if len(queues) == 0 {
		return nil
	}
	verify := plan.VerifyEmpty{Queues: queues, Wait: wait, Why: "unbinding what takes their messages"}
	_, err = r.vhost.Run(ctx, plan.Plan{{Steps: []plan.Step{verify}}})
	return err
}

// allBut is the rest of bindings without others, as a copy.
func allBut(bindings []topology.Binding, others ...topology.Binding) []topology.Binding {
	return slices.DeleteFunc(slices.Clone(bindings),
		func(b topology.Binding) bool { return slices.Contains(others, b) })
}

// existing are those of the bindings that are there, in the same order.
func existing(bindings []topology.Binding, there topology.Bindings) []topology.Binding {
	return slices.DeleteFunc(slices.Clone(bindings), func(b topology.Binding) bool { return !there.Has(b) })
}

// FindBindings lists what the exchanges of a destination have bound, and which of its own bindings are there. The first
// of these is the one that the state names. If that is gone, the last takes its place: an update got further than it
// could see. Otherwise all bindings with its mark are its own: an update may have been killed. If nothing of the state
// is there, none is its own: another state may have the mark, too.
func FindBindings(ctx context.Context, vhost Reader, own []topology.Binding, mark string) (
	there topology.Bindings, found []topology.Binding, err error,
) {
	if there, err = boundThere(ctx, vhost, own); err != nil {
		return nil, nil, err
	}
	found = existing(own, there)
	switch last := len(found) - 1; {
	case last < 0:
	case found[0] != own[0]:
		found = slices.Insert(found[:last], 0, found[last])
	default:
		found = append(found, there.Where(func(b topology.Binding) bool {
			return b.DestinationMark() == mark && !slices.Contains(found, b)
		})...)
	}
	return there, found, nil
}

// boundThere are all bindings of the exchanges that these bindings start from.
func boundThere(ctx context.Context, vhost Reader, bindings []topology.Binding) (topology.Bindings, error) {
	there := topology.Bindings{}
	read := map[string]bool{}
	for _, b := range bindings {
		if read[b.Source] {
			continue
		}
		found, err := vhost.BindingsFrom(ctx, b.Source)
		if err != nil {
			return nil, err
		}
		read[b.Source] = true
		maps.Copy(there, topology.NewBindings(found...))
	}
	return there, nil
}
