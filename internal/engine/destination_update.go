package engine

import (
	"context"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// update makes the wanted binding and then removes the one before, and those that earlier updates have left. The result
// has the bindings that exist, or may, also after an error: an *UnfinishedError if anything was written.
func (r *rebinding) update(ctx context.Context, own []topology.Binding) (result Result, err error) {
	bound, before := r.bound, r.bound.Binding
	spared := r.among(Without(own, r.to.Binding), r.claim.Taken)
	if bound.Shared && before != r.to.Binding {
		spared = append(spared, before)
	}
	own = Without(own, spared...)
	bound.Shared, bound.Leftovers = slices.Contains(spared, before), Without(own, before)
	result.Bound = bound
	if result.Found, err = r.prepare(ctx, own); err != nil {
		r.keep(own...)
		return result, err
	}
	asked := r.among(Without(own, r.to.Binding), r.claim.AskedInVain)
	gone := Without(own, append(asked, r.to.Binding)...)
	if err = r.vacate(ctx, r.to.uncovered(gone)); err != nil {
		r.keep(own...)
		return result, err
	}
	there, done, err := r.bind(ctx, gone)
	if err != nil {
		return r.undoUpdate(ctx, result, own, done, err)
	}
	r.take(gone...)
	err = wanted(r.claim, r.objects(asked...))
	r.keep(asked...)
	result.Found.There = Without(there, asked...)
	result.Bound, result.IsNew = Bound{Binding: r.to.Binding, Leftovers: asked}, true
	return result, err
}

// undoUpdate takes a failed update back as far as it can, and returns the bindings then. Own are the bindings before
// it.
func (r *rebinding) undoUpdate(
	ctx context.Context, result Result, own []topology.Binding, done []plan.Step, cause error,
) (Result, error) {
	ctx = context.WithoutCancel(ctx)
	to, before := r.to.Binding, r.bound.Binding
	if !r.to.isIn(own) {
		own = append(own, to)
	}
	left, err := r.to.present(ctx, own)
	made, kept := r.to.isIn(left), slices.Contains(left, before)
	if err == nil && to != before && !r.isThere && (kept || !made) {
		if err = r.undo(ctx, done); err == nil {
			left = Without(left, to)
		}
	}
	switch {
	case err != nil:
		r.keep(own...)
		result.Bound.Leftovers = Without(own, before)
	case made && !kept:
		r.keep(left...)
		result.Bound, result.IsNew = Bound{Binding: to, Leftovers: Without(left, to)}, true
	default:
		r.keep(left...)
		result.Bound.Leftovers = Without(left, before)
	}
	return result, &UnfinishedError{failure{cause}, err}
}
