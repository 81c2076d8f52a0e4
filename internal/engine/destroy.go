package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// destroy removes the objects, unless messages wait in them. It leaves what others own.
func (o *topologyChange) destroy(ctx context.Context) (result Result, err error) {
	err = o.remove(ctx, o.before)
	if others, is := errors.AsType[*OwnerError](err); is {
		o.problems = append(o.problems, Problem{Other, others})
		return result, nil
	}
	if err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		return result, err
	}
	result.Users, err = o.before.deleteDelivery(ctx, o.change.Options.Guard.Force)
	if err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		return result, &DeliveryLeftError{failure{err}, o.before.wanted.Delivery}
	}
	return result, nil
}

// remove deletes everything but the delivery exchange, unless messages wait in the queues, or others own it. An error
// is a *NotRemovedError.
func (o *topologyChange) remove(ctx context.Context, d *deployment) error {
	done, err := o.tearDown(ctx, d)
	if err != nil {
		return &NotRemovedError{failure{err}, d.wanted, len(done) > 0}
	}
	return nil
}

func (o *topologyChange) tearDown(ctx context.Context, d *deployment) (done []plan.Step, err error) {
	guard := o.change.Options.Guard
	state, err := d.read(ctx)
	if err == nil {
		err = o.checkOwner(d.wanted, state)
	}
	if err != nil {
		return nil, err
	}
	if plan.NeedsInbound(d.wanted, guard) {
		inbound, err := d.vhost.Inbound(ctx, d.wanted.Owned(state.Topology.Exchanges),
			slices.Collect(maps.Keys(state.Queues)))
		if err != nil {
			return nil, err
		}
		maps.Copy(state.Bindings, inbound)
	}
	if done, err = d.vhost.Run(ctx, plan.Teardown(d.wanted, state.Topology, guard)); err != nil {
		return done, err
	}
	return done, d.verifyGone(ctx)
}
