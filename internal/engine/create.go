package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// create builds the topology if nothing of it exists, or takes over existing objects and adds the rest. If that fails
// it takes back what it made; the error says what of that is left.
func (o *topologyChange) create(ctx context.Context) (result Result, err error) {
	found, err := o.after.vhost.Read(ctx, o.after.wanted)
	if err == nil {
		err = o.check(ctx, found)
	}
	if err != nil {
		return result, err
	}
	steps := plan.Create(o.after.wanted, found.Topology, rand.Text())
	if o.change.Options.Adopt {
		steps = plan.TakeOver(o.after.wanted, found.Topology)
		o.noteDamaged(found)
	}
	state, done, err := o.after.run(ctx, steps, found)
	if err != nil {
		broken := o.notCreated(ctx, done, err)
		if !o.change.Options.Adopt { // some of the objects that are left may have been there before
			result.There = broken.Left
		}
		return result, broken
	}
	return Result{There: &state.Topology, StartsFromAfter: true, State: state}, nil
}

// notCreated takes back what a create has made that failed.
func (o *topologyChange) notCreated(ctx context.Context, done []plan.Step, err error) *NotCreatedError {
	ctx, cancel := withTimeToUndo(ctx)
	defer cancel()
	result := &NotCreatedError{failure: failure{err}}
	result.Left, result.Undo = o.after.undoCreate(ctx, done)
	if rabbit.IsKind(err, rabbit.Exists) {
		found, err := o.after.vhost.Read(ctx, o.after.wanted)
		result.OthersErr = err
		if err == nil {
			equal, different := o.after.sortPresent(found)
			result.Others = slices.Concat(equal, different)
		}
	}
	return result
}

// undoCreate takes back the objects that a create made. It returns those that are left, nil for none.
func (d *deployment) undoCreate(ctx context.Context, done []plan.Step) (*topology.Topology, error) {
	if len(done) == 0 {
		return nil, nil
	}
	err := d.vhost.Undo(ctx, plan.UndoCreate(d.wanted, done))
	if rabbit.IsKind(err, rabbit.InUse) {
		err = nil // another create has declared it at the same moment, and goes on
	}
	if err == nil && slices.ContainsFunc(done, d.declaresDelivery) {
		_, err = d.deleteDelivery(ctx, false)
	}
	if err == nil || rabbit.IsKind(err, rabbit.VhostNotFound) {
		return nil, nil
	}
	state, readErr := d.read(ctx)
	if readErr != nil {
		// Nobody can say what exists: the state names all that may.
		return &d.wanted, errors.Join(err, readErr)
	}
	if state.IsEmpty() {
		return nil, nil
	}
	return &state.Topology, err
}

func (d *deployment) declaresDelivery(step plan.Step) bool {
	return declares(step) && step.Effect().Object == topology.ExchangeObject(d.wanted.Delivery)
}
