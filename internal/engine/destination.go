package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Destination is a binding from an exchange of others to a queue or exchange of others. It says where messages go that
// come out of a cascade or ladder.
type Destination struct {
	Vhost   *rabbit.Vhost
	Binding topology.Binding
}

// String names the destination in messages.
func (d *Destination) String() string {
	return fmt.Sprintf("%s in vhost %q", bindingText(d.Binding), d.Vhost.Name())
}

// BindingObject is a binding as the table of claims has it.
func BindingObject(vhost string, b topology.Binding) claims.Object {
	return claims.Object{Vhost: vhost, Name: bindingText(b)}
}

func bindingText(b topology.Binding) string {
	return fmt.Sprintf("binding of exchange %q to %s %q with key %q", b.Source, b.DestinationType, b.Destination,
		b.RoutingKey)
}

// Bound is what a destination has by the state.
type Bound struct {
	// Binding is what it is bound with, and Leftovers are those besides, of updates which broke off.
	Binding   topology.Binding
	Leftovers []topology.Binding
	// Shared tells that another resource has taken over the binding, which an update could not leave behind.
	Shared bool
}

func (b Bound) bindings() []topology.Binding {
	return append(Without(b.Leftovers, b.Binding), b.Binding)
}

// Rebinding is a change of a destination.
type Rebinding struct {
	// Who names the destination in the errors of others.
	Who string
	// Before is nil for a create, and After is nil for a destroy.
	Before *Bound
	After  *topology.Binding
}

// Found is what a look at the broker has shown of a destination.
type Found struct {
	// Limit makes the queue that is the destination refuse messages. It is empty if there is none.
	Limit string
	// Levels are those of what ends in the delivery exchange, if none of them is that of the binding.
	Levels map[int]bool
	// LosesOverdue is set for a quorum queue behind classic delay queues. Some of the messages that fall due while a
	// node is down are lost when it starts. Of 60, 3 to 10 were (3.10.8, 4.0.5, 4.3.6; down for 15 s after a clean
	// stop).
	LosesOverdue bool
	// There are all bindings of the delivery exchange after a change that has succeeded.
	There []topology.Binding
}

// rebind changes a destination. After a create that fails, an *UnfinishedError says whether the binding may be there.
func (e *Engine) rebind(ctx context.Context, c Change) (result Result, err error) {
	r := &rebinding{vhost: e.client.Vhost(c.Vhost), options: c.Options}
	change := c.Destination
	var own []topology.Binding
	if change.Before != nil {
		r.bound = *change.Before
		own, r.to = r.bound.bindings(), &Destination{r.vhost, r.bound.Binding}
	}
	claimed := slices.Clone(own)
	if change.After != nil {
		r.to = &Destination{r.vhost, *change.After}
		claimed = append(claimed, *change.After)
	}
	if r.claim, err = e.claims.Begin(ctx, change.Who, r.objects(claimed...)); err != nil {
		result.Bound = r.bound
		return result, err
	}
	defer r.claim.End()
	switch {
	case change.Before == nil:
		return r.create(ctx)
	case change.After == nil:
		return result, r.destroy(ctx, own)
	}
	return r.update(ctx, own)
}

// rebinding is a change of a destination that is being made, with a claim on all bindings.
type rebinding struct {
	vhost   *rabbit.Vhost
	options Options
	claim   *claims.Operation
	bound   Bound
	// to is the wanted binding, of a destroy the one before.
	to *Destination
	// isThere tells whether the wanted binding was there before anything was written.
	isThere bool
}

// create binds, unless the binding exists already.
func (r *rebinding) create(ctx context.Context) (result Result, err error) {
	if result.Found, err = r.prepare(ctx, nil); err != nil {
		return result, err
	}
	there, done, err := r.bind(ctx, nil)
	if err == nil {
		r.take()
		result.Found.There = there
		return result, nil
	}
	undo := r.undo(ctx, done)
	if undo != nil {
		r.take()
	}
	return result, &UnfinishedError{failure{err}, undo}
}

// destroy removes the binding and what updates have left besides, but for what others have taken over.
func (r *rebinding) destroy(ctx context.Context, own []topology.Binding) error {
	gone := Without(own, r.among(own, r.claim.Taken)...)
	if r.bound.Shared {
		gone = Without(gone, r.bound.Binding)
	}
	err := wanted(r.claim, r.objects(gone...))
	if err == nil {
		err = r.vacate(ctx, gone)
	}
	if err == nil {
		err = r.unbind(ctx, gone)
	}
	if err != nil {
		r.keep(own...)
		return err
	}
	r.claim.Release(r.objects(gone...))
	return nil
}

// prepare looks whether the binding can be made, before anything is written. One of its own may be there.
func (r *rebinding) prepare(ctx context.Context, own []topology.Binding) (found Found, err error) {
	object := r.objects(r.to.Binding)
	if err := held(r.claim, object); err != nil {
		return found, err
	}
	if found.Limit, err = r.to.checkEnds(ctx); err != nil {
		return found, err
	}
	if err := r.to.CheckNames(ctx); err != nil {
		return found, err
	}
	if found.Levels, err = r.to.OtherLevels(ctx); err != nil {
		return found, err
	}
	if found.LosesOverdue, err = r.to.LosesOverdue(ctx); err != nil {
		return found, err
	}
	there, err := r.to.Read(ctx)
	if err != nil {
		return found, err
	}
	r.isThere = r.to.isIn(there)
	if r.isThere && !r.options.Adopt && !r.to.isIn(own) {
		r.claim.FailFor(object)
		return found, &ExistsError{Equal: []string{r.to.String()}}
	}
	return found, nil
}

// bind makes the wanted binding, unless it is there, then removes those that are to go, and reads what there is then.
// Done are the steps that may have had an effect.
func (r *rebinding) bind(
	ctx context.Context, gone []topology.Binding,
) (there []topology.Binding, done []plan.Step, err error) {
	actual := topology.NewBindings(gone...)
	if r.isThere {
		actual.Add(r.to.Binding)
	}
	done, err = Run(ctx, r.vhost, plan.Rebind(topology.NewBindings(r.to.Binding), actual))
	if err == nil {
		there, err = r.to.Read(ctx)
	}
	if err == nil && !r.to.isIn(there) {
		err = errors.New("somebody else removed it meanwhile")
	}
	return there, done, err
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
	r.claim.Take(r.objects(r.to.Binding))
}

// keep notes what the destination still has, but for what others have taken over.
func (r *rebinding) keep(bindings ...topology.Binding) {
	r.claim.Keep(r.objects(bindings...))
}

// Without is the rest of bindings without others, as a copy.
func Without(bindings []topology.Binding, others ...topology.Binding) []topology.Binding {
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

// vacate makes sure that no message is on its way to the destinations to be unbound. Nothing is closed while it waits.
func (r *rebinding) vacate(ctx context.Context, gone []topology.Binding) error {
	if r.options.Guard.Force || len(gone) == 0 {
		return nil
	}
	if err := r.verifyVacant(ctx, gone, r.options.Guard.Drain); err != nil {
		return &NotVacantError{failure{err}, gone}
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
