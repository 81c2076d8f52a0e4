package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Destroyed is what a destroy has left.
type Destroyed struct {
	// TakenOver are objects that another resource of the same run has by now.
	TakenOver Claimed
	// Users are those who use the delivery exchange, so that it stays.
	Users []string
}

// Destroy removes the desired objects, unless messages wait in them, or others have taken them over.
func (d *Deployment) Destroy(ctx context.Context, guard plan.Guard) (result Destroyed, err error) {
	claim, err := d.claim(ctx, d.Desired)
	if err != nil {
		return result, err
	}
	defer claim.End()
	own := d.own(d.Desired)
	if err := wanted(claim, own); err != nil {
		claim.Keep(own)
		return result, err
	}
	result.TakenOver = claim.Taken(own)
	if len(result.TakenOver) == len(own) {
		return result, nil
	}
	rest := d.of(d.spare(d.Desired, result.TakenOver))
	own = d.own(rest.Desired)
	if err := rest.remove(ctx, guard); err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		claim.Keep(own)
		return result, err
	}
	result.Users, err = rest.letGo(ctx, guard.Force)
	if err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		claim.Keep(own)
		return result, &DeliveryLeftError{failure{err}, d.Desired.Delivery}
	}
	claim.LetGo(own)
	return result, nil
}

// remove deletes everything but the delivery exchange, unless messages wait in the queues. An error is a
// *NotRemovedError.
func (d *Deployment) remove(ctx context.Context, guard plan.Guard) error {
	if done, err := d.tearDown(ctx, guard); err != nil {
		return &NotRemovedError{failure{err}, d.Desired, len(done) > 0}
	}
	return nil
}

func (d *Deployment) tearDown(ctx context.Context, guard plan.Guard) (done []plan.Step, err error) {
	runner := NewRunner(d.on())
	defer runner.Close()
	state, err := d.Read(ctx)
	if err != nil {
		return nil, err
	}
	if plan.NeedsInbound(d.Desired, guard) {
		inbound, err := d.on().Inbound(ctx, d.ownedExchanges(state.Topology),
			slices.Collect(maps.Keys(state.Queues)))
		if err != nil {
			return nil, err
		}
		maps.Copy(state.Bindings, inbound)
	}
	if done, err = runner.Run(ctx, plan.Teardown(d.Desired, state.Topology, guard)); err != nil {
		return done, err
	}
	return done, d.verifyGone(ctx)
}

// ownedExchanges are those of the exchanges whose bindings belong to the topology.
func (d *Deployment) ownedExchanges(t topology.Topology) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t.Exchanges)),
		func(name string) bool { return !d.Desired.Owns(name) })
}

// verifyGone makes sure that nothing is left of the deleted objects. An answer may have been wrong: that of a deletion
// or that of the read before. 3.10.8 kept exchanges after it had said that they are deleted (TestTeardownIsComplete).
// It needs no answer itself.
func (d *Deployment) verifyGone(ctx context.Context) error {
	state, err := d.on().Read(rabbit.WithoutRetries(ctx), d.Desired)
	if err != nil {
		return nil //nolint:nilerr // all was said to be deleted
	}
	left := state.Topology
	maps.DeleteFunc(left.Exchanges, func(name string, _ topology.Exchange) bool { return !d.Desired.Owns(name) })
	if left.IsEmpty() {
		return nil
	}
	return &LeftError{left}
}

// letGo deletes the delivery exchange if it belongs to the topology, unless others use it: it tells who does.
func (d *Deployment) letGo(ctx context.Context, force bool) (users []string, err error) {
	if !ownsDelivery(d.Desired) {
		return nil, nil
	}
	name := d.Desired.Delivery
	if !force {
		if users, err = d.on().Users(ctx, name); err != nil || len(users) > 0 {
			return users, err
		}
	}
	if _, err = Run(ctx, d.on(), plan.DeleteShared(name, force)); rabbit.IsKind(err, rabbit.InUse) {
		users, err = d.on().Bound(ctx, name)
	}
	return users, err
}
