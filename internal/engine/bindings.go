package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// isOfBindings tells whether the change is that of a destination: of bindings alone.
func (c Change) isOfBindings() bool {
	return c.Before.IsEmpty() && c.After.IsEmpty() && len(c.Before.Bindings)+len(c.After.Bindings) > 0
}

// rebinding is a change of a destination that is being made, with a claim on all bindings.
type rebinding struct {
	change Change
	vhost  *rabbit.Vhost
	claim  *claims.Operation
	// own are the bindings before, and to is the wanted one. A destroy wants none.
	own []topology.Binding
	to  destination
	// isThere tells whether the wanted binding was there before anything was written.
	isThere bool
}

func (e *Engine) rebinding(c Change) *rebinding {
	r := &rebinding{change: c, vhost: e.client.Vhost(c.Vhost), own: c.Before.Bindings.Sorted()}
	r.to.vhost = r.vhost
	for b := range c.After.Bindings {
		r.to.binding = b
	}
	return r
}

// rebind changes a destination. After a create that fails, an *UnfinishedError says whether the binding may be there.
func (e *Engine) rebind(ctx context.Context, c Change) (result Result, err error) {
	r := e.rebinding(c)
	all := slices.Concat(r.own, c.After.Bindings.Sorted())
	if r.claim, err = e.claims.Begin(ctx, c.String(), r.objects(all...)); err != nil {
		return result, err
	}
	defer r.claim.End()
	switch {
	case len(c.After.Bindings) == 0:
		return result, r.destroy(ctx)
	case len(c.Before.Bindings) == 0:
		return r.create(ctx)
	}
	return r.update(ctx)
}

func ofBindings(bindings ...topology.Binding) *topology.Topology {
	return &topology.Topology{Bindings: topology.NewBindings(bindings...)}
}

// create binds, unless the binding exists already.
func (r *rebinding) create(ctx context.Context) (result Result, err error) {
	if result.Problems, err = r.prepare(ctx, nil); err != nil {
		return result, err
	}
	state, done, err := r.bind(ctx, nil)
	if err == nil {
		r.take()
		result.There, result.IsNew, result.State = ofBindings(r.to.binding), true, state
		return result, nil
	}
	undo := r.undo(ctx, done)
	if undo != nil {
		r.take()
		result.There, result.IsNew = ofBindings(r.to.binding), true
	}
	return result, &UnfinishedError{failure{err}, undo}
}

// update makes the wanted binding and then removes those before. The result has the bindings that exist, or may, also
// after an error: an *UnfinishedError if anything was written.
func (r *rebinding) update(ctx context.Context) (result Result, err error) {
	spared := r.among(without(r.own, r.to.binding), r.claim.Taken)
	own := without(r.own, spared...)
	result.There, result.TakenOver = ofBindings(own...), r.claim.Taken(r.objects(spared...))
	if result.Problems, err = r.prepare(ctx, own); err != nil {
		r.keep(own...)
		return result, err
	}
	asked := r.among(without(own, r.to.binding), r.claim.AskedInVain)
	gone := without(own, append(asked, r.to.binding)...)
	if err = r.vacate(ctx, r.to.uncovered(gone)); err != nil {
		r.keep(own...)
		return result, err
	}
	state, done, err := r.bind(ctx, gone)
	if err != nil {
		return r.undoUpdate(ctx, result, own, done, err)
	}
	r.take(gone...)
	err = wanted(r.claim, r.objects(asked...))
	r.keep(asked...)
	for _, b := range asked {
		delete(state.Bindings, b)
	}
	result.There, result.IsNew, result.State = ofBindings(append(asked, r.to.binding)...), true, state
	return result, err
}

// undoUpdate takes a failed update back, unless it has removed the binding that the state names. It returns the
// bindings then. Own are those before it.
func (r *rebinding) undoUpdate(
	ctx context.Context, result Result, own []topology.Binding, done []plan.Step, cause error,
) (Result, error) {
	ctx = context.WithoutCancel(ctx)
	if !r.to.isIn(own) {
		own = append(own, r.to.binding)
	}
	left, err := present(ctx, r.vhost, own)
	named := r.change.Options.Named
	made, kept := r.to.isIn(left), slices.Contains(left, named)
	if err == nil && r.to.binding != named && !r.isThere && (kept || !made) {
		if err = r.undo(ctx, done); err == nil {
			left = without(left, r.to.binding)
		}
	}
	if err != nil {
		left = own
	}
	r.keep(left...)
	result.There, result.IsNew = ofBindings(left...), err == nil && made && !kept
	return result, &UnfinishedError{failure{cause}, err}
}

// destroy removes the bindings, but for what others have taken over.
func (r *rebinding) destroy(ctx context.Context) error {
	gone := without(r.own, r.among(r.own, r.claim.Taken)...)
	err := wanted(r.claim, r.objects(gone...))
	if err == nil {
		err = r.vacate(ctx, gone)
	}
	if err == nil {
		err = r.unbind(ctx, gone)
	}
	if err != nil {
		r.keep(r.own...)
		return err
	}
	r.claim.Release(r.objects(gone...))
	return nil
}

// prepare looks whether the binding can be made, before anything is written. One of its own may be there.
func (r *rebinding) prepare(ctx context.Context, own []topology.Binding) (problems []Problem, err error) {
	object := r.objects(r.to.binding)
	if err := held(r.claim, object); err != nil {
		return nil, err
	}
	if problems, err = r.to.checkEnds(ctx); err != nil {
		return problems, err
	}
	more, err := r.to.check(ctx, r.change.Options, true)
	if problems = append(problems, more...); err != nil {
		return problems, err
	}
	there, err := r.to.read(ctx)
	if err != nil {
		return problems, err
	}
	r.isThere = r.to.isIn(there)
	if r.isThere && !r.change.Options.Adopt && !r.to.isIn(own) {
		r.claim.FailFor(object)
		return problems, &ExistsError{Equal: []string{r.to.String()}}
	}
	return problems, nil
}

// bind makes the wanted binding, unless it is there, then removes those that are to go, and reads what its exchange has
// then. Done are the steps that may have had an effect.
func (r *rebinding) bind(
	ctx context.Context, gone []topology.Binding,
) (state *rabbit.State, done []plan.Step, err error) {
	actual := topology.NewBindings(gone...)
	if r.isThere {
		actual.Add(r.to.binding)
	}
	if done, err = Run(ctx, r.vhost, plan.Rebind(r.change.After.Bindings, actual)); err != nil {
		return nil, done, err
	}
	there, err := r.to.read(ctx)
	if err == nil && !r.to.isIn(there) {
		err = errors.New("somebody else removed it meanwhile")
	}
	return &rabbit.State{Topology: *ofBindings(there...)}, done, err
}

// undo takes back the binding that was made.
func (r *rebinding) undo(ctx context.Context, done []plan.Step) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	_, err := Run(ctx, r.vhost, plan.Undo(topology.New(), done))
	if rabbit.IsKind(err, rabbit.VhostNotFound) {
		return nil
	}
	return err
}

func (r *rebinding) unbind(ctx context.Context, gone []topology.Binding) error {
	_, err := Run(ctx, r.vhost, plan.Rebind(topology.Bindings{}, topology.NewBindings(gone...)))
	if rabbit.IsKind(err, rabbit.VhostNotFound) {
		return nil
	}
	return err
}

// vacate makes sure that no message is on its way to the bindings that go. Nothing is closed while it waits.
func (r *rebinding) vacate(ctx context.Context, gone []topology.Binding) error {
	if guard := r.change.Options.Guard; !guard.Force && len(gone) > 0 {
		if err := r.verifyVacant(ctx, gone, guard.Drain); err != nil {
			return &NotVacantError{failure{err}, gone}
		}
	}
	return nil
}

func (r *rebinding) verifyVacant(ctx context.Context, gone []topology.Binding, wait time.Duration) error {
	inventory, err := Inventory(ctx, r.vhost, func(e topology.Exchange) bool {
		return slices.ContainsFunc(gone, func(b topology.Binding) bool { return b.Source == e.Name })
	})
	if rabbit.IsKind(err, rabbit.VhostNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	queues := inventory.Upstream(ctx, gone)
	if len(queues) == 0 {
		return nil
	}
	verify := plan.VerifyEmpty{Queues: queues, Wait: wait, Why: "unbinding what takes their messages"}
	_, err = Run(ctx, r.vhost, plan.Plan{{Steps: []plan.Step{verify}}})
	return err
}

// among are those of the bindings which others have such a claim on.
func (r *rebinding) among(
	bindings []topology.Binding, claimed func([]claims.Object) map[claims.Object]string,
) []topology.Binding {
	found := claimed(r.objects(bindings...))
	return slices.DeleteFunc(slices.Clone(bindings), func(b topology.Binding) bool {
		_, is := found[BindingObject(r.vhost.Name(), b)]
		return !is
	})
}

// take notes what the destination has, and no longer has.
func (r *rebinding) take(gone ...topology.Binding) {
	r.claim.Release(r.objects(gone...))
	r.claim.Take(r.objects(r.to.binding))
}

// keep notes what the destination still has, but for what others have taken over.
func (r *rebinding) keep(bindings ...topology.Binding) {
	r.claim.Keep(r.objects(bindings...))
}

// without is the rest of bindings without others, as a copy.
func without(bindings []topology.Binding, others ...topology.Binding) []topology.Binding {
	return slices.DeleteFunc(slices.Clone(bindings),
		func(b topology.Binding) bool { return slices.Contains(others, b) })
}

// objects are the bindings as the table of claims has them.
func (r *rebinding) objects(bindings ...topology.Binding) []claims.Object {
	objects := make([]claims.Object, len(bindings))
	for i, b := range bindings {
		objects[i] = BindingObject(r.vhost.Name(), b)
	}
	return objects
}

// BindingObject is a binding as the table of claims has it.
func BindingObject(vhost string, b topology.Binding) claims.Object {
	return claims.Object{Vhost: vhost, Name: fmt.Sprintf("binding of exchange %q to %s %q with key %q", b.Source,
		b.DestinationType, b.Destination, b.RoutingKey)}
}

// FindBinding lists what the exchange of a destination has bound, and which of the bindings that updates have left are
// there. If the destination's own is not, the last of these takes its place: an update got further than it could see.
func FindBinding(ctx context.Context, vhost *rabbit.Vhost, b topology.Binding, leftovers []topology.Binding) (
	there []topology.Binding, found topology.Binding, left []topology.Binding, err error,
) {
	if there, err = vhost.BindingsFrom(ctx, b.Source); err == nil {
		left, err = present(ctx, vhost, leftovers)
	}
	if err != nil {
		return nil, b, nil, err
	}
	if last := len(left) - 1; last >= 0 && !slices.Contains(there, b) {
		b, left = left[last], left[:last]
		there, err = vhost.BindingsFrom(ctx, b.Source)
	}
	return there, b, left, err
}

// present are those of the bindings that are there, in the same order.
func present(ctx context.Context, vhost *rabbit.Vhost, bindings []topology.Binding) ([]topology.Binding, error) {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
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
	return slices.DeleteFunc(slices.Clone(bindings), func(b topology.Binding) bool { return !there.Has(b) }), nil
}
