package engine

import (
	"context"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Update makes the wanted binding and then removes the one before, and those that earlier updates have left. The result
// has the bindings that exist, or may, also after an error: an *UnfinishedError if anything was written.
func (d *Destination) Update(ctx context.Context, bound Bound, options Options) (found Found, _ Bound, err error) {
	own := bound.all()
	r, err := d.begin(ctx, append(own, d.Binding)...)
	if err != nil {
		return found, bound, err
	}
	defer r.claim.End()
	spared := r.among(Without(own, r.Binding), r.claim.Taken)
	if bound.Shared && bound.Before != r.Binding {
		spared = append(spared, bound.Before)
	}
	own = Without(own, spared...)
	bound.Shared, bound.Leftovers = slices.Contains(spared, bound.Before), Without(own, bound.Before)
	if found, err = r.prepare(ctx, options.Adopt, own); err != nil {
		r.keep(own...)
		return found, bound, err
	}
	asked := r.among(Without(own, r.Binding), r.claim.AskedInVain)
	gone := Without(own, append(asked, r.Binding)...)
	if err = r.vacate(ctx, r.uncovered(gone), options.Guard); err != nil {
		r.keep(own...)
		return found, bound, err
	}
	there, done, err := r.bind(ctx, gone)
	if err != nil {
		bound, err = r.brokenOff(ctx, bound, own, done, err)
		return found, bound, err
	}
	r.take(gone...)
	err = wanted(r.claim, bindingObjects(r.Vhost, asked))
	r.keep(asked...)
	found.There = Without(there, asked...)
	return found, Bound{Before: bound.Before, Leftovers: asked, IsNew: true}, err
}

// brokenOff takes a failed update back as far as it can, and returns the bindings then. Own are the bindings before it.
func (r *rebinding) brokenOff(
	ctx context.Context, bound Bound, own []topology.Binding, done []plan.Step, cause error,
) (Bound, error) {
	ctx = context.WithoutCancel(ctx)
	if !r.isIn(own) {
		own = append(own, r.Binding)
	}
	left, err := r.present(ctx, own)
	made, kept := r.isIn(left), slices.Contains(left, bound.Before)
	if err == nil && r.Binding != bound.Before && !r.isThere && (kept || !made) {
		if err = r.undo(ctx, done); err == nil {
			left = Without(left, r.Binding)
		}
	}
	switch {
	case err != nil:
		r.keep(own...)
		bound.Leftovers = Without(own, bound.Before)
	case made && !kept:
		r.keep(left...)
		bound.Leftovers = Without(left, r.Binding)
		bound.Shared, bound.IsNew = false, true
	default:
		r.keep(left...)
		bound.Leftovers = Without(left, bound.Before)
	}
	return bound, &UnfinishedError{failure{cause}, err}
}
