package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Create builds the desired topology if nothing of it exists, or takes over existing objects and adds the rest. If that
// fails it takes back what it made; the error says what of that is left.
func (d *Deployment) Create(ctx context.Context, adopt bool) (*rabbit.State, error) {
	claim, err := d.claim(ctx, d.Desired)
	if err != nil {
		return nil, err
	}
	defer claim.End()
	if err := all(held(claim, d.own(d.Desired))); err != nil {
		return nil, err
	}
	found, err := d.on().Read(ctx, d.Desired)
	if err != nil {
		return nil, err
	}
	if err := all(d.checkDelivery(found), d.checkExisting(found, adopt),
		d.checkPolicies(ctx, found, topology.New())); err != nil {
		claim.FailFor(d.present(found.Topology))
		return nil, err
	}
	steps := plan.Create(d.Desired, found.Topology, rand.Text())
	if adopt {
		steps = plan.Repair(d.Desired, found.Topology)
	}
	state, done, err := d.run(ctx, steps, found)
	if err != nil {
		return nil, d.notCreated(ctx, claim, done, err)
	}
	claim.Take(d.own(d.Desired))
	return state, nil
}

// notCreated takes back what a create has made that failed. What others have declared meanwhile was asked for in vain.
func (d *Deployment) notCreated(
	ctx context.Context, claim *claims.Operation, done []plan.Step, err error,
) *NotCreatedError {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	result := &NotCreatedError{failure: failure{err}}
	result.Left, result.Undo = d.undo(ctx, done)
	if rabbit.IsKind(err, rabbit.Exists) {
		found, err := d.on().Read(ctx, d.Desired)
		result.OthersErr = err
		if err == nil {
			claim.FailFor(d.present(found.Topology))
			equal, different := d.sortPresent(found)
			result.Others = slices.Concat(equal, different)
		}
	}
	if result.Left != nil {
		claim.Take(d.own(*result.Left))
	}
	return result
}

// undo takes back the objects that a create made. It returns those that are left, nil for none.
func (d *Deployment) undo(ctx context.Context, done []plan.Step) (*topology.Topology, error) {
	if len(done) == 0 {
		return nil, nil
	}
	_, err := Run(ctx, d.on(), plan.Undo(d.Desired, done))
	if rabbit.IsKind(err, rabbit.InUse) {
		err = nil // another create has declared it at the same moment, and goes on
	}
	if err == nil && d.declaresDelivery(done) {
		_, err = d.letGo(ctx, false)
	}
	if err == nil || rabbit.IsKind(err, rabbit.VhostNotFound) {
		return nil, nil
	}
	state, readErr := d.Read(ctx)
	if readErr != nil {
		// Nobody can say what exists: the state names all that may.
		return &d.Desired, errors.Join(err, readErr)
	}
	if state.IsEmpty() {
		return nil, nil
	}
	return &state.Topology, err
}

// declaresDelivery tells whether the delivery exchange is, or may be, one of the things that have been declared.
func (d *Deployment) declaresDelivery(done []plan.Step) bool {
	return slices.ContainsFunc(done, func(step plan.Step) bool {
		declared, ok := step.(plan.DeclareExchange)
		return ok && declared.Exchange.Name == d.Desired.Delivery
	})
}
