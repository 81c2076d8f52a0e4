package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// rebuild is an update in which exchanges or queues get other arguments or names, while the entry stays.
func (o *topologyChange) rebuild(ctx context.Context) (Result, error) {
	before, guard := o.before.wanted, o.change.Options.Guard
	union := plan.Union(before, o.after.wanted)
	found, err := o.after.vhost.ReadExisting(ctx, union)
	if err == nil {
		err = o.check(ctx, found)
	}
	if err == nil {
		err = o.readBound(ctx, found)
	}
	if err == nil {
		err = plan.CheckMeaning(before, o.after.wanted, found.Bindings)
	}
	if err != nil {
		return Result{}, err
	}
	o.noteDamages(union, found)
	done, err := o.after.vhost.Run(ctx, plan.Rebuild(before, o.after.wanted, found.Topology, guard))
	if err != nil {
		return o.brokenOff(ctx, found, done, &NotRemovedError{failure{err}, before, len(done) > 0})
	}
	state, err := o.after.read(ctx)
	if err == nil {
		err = o.after.verify(state)
	}
	if err == nil {
		err = o.before.of(before.Minus(o.after.wanted)).verifyGone(ctx)
	}
	if err != nil {
		return o.brokenOff(ctx, found, done, err)
	}
	users, err := o.deleteDeliveryBefore(ctx)
	return Result{There: &state.Topology, StartsFromAfter: true, State: state, Users: users}, err
}

// readBound adds the bindings of others to objects that are to be torn down.
func (o *topologyChange) readBound(ctx context.Context, found *rabbit.State) error {
	delivery := plan.RebuildsDelivery(o.before.wanted, o.after.wanted, found.Topology)
	bound, err := readBound(ctx, o.after.vhost, found.Part(o.before.wanted), delivery)
	maps.Copy(found.Bindings, bound)
	return err
}

// readBound are the bindings into a topology's objects, and with delivery those to and from its delivery exchange.
func readBound(ctx context.Context, vhost Reader, of topology.Topology, delivery bool) (topology.Bindings, error) {
	exchanges, from := of.Owned(of.Exchanges), []topology.Binding{}
	if delivery {
		exchanges, from = append(exchanges, of.Delivery), []topology.Binding{{Source: of.Delivery}}
	}
	bound, err := boundThere(ctx, vhost, from)
	if err != nil {
		return nil, err
	}
	inbound, err := vhost.Inbound(ctx, exchanges, slices.Collect(maps.Keys(of.Queues)))
	maps.Copy(bound, inbound)
	return bound, err
}

// brokenOff is what a rebuild has come to that failed. Done are the steps that may have had an effect.
func (o *topologyChange) brokenOff(
	ctx context.Context, found *rabbit.State, done []plan.Step, cause error,
) (Result, error) {
	if len(done) == 0 {
		return Result{}, cause
	}
	ctx, cancel := withTimeToUndo(ctx)
	defer cancel()
	result := o.resultAfterFailure(ctx, found, done, cause)
	if !result.StartsFromAfter {
		return result, cause
	}
	// The next operation does not know of the delivery exchange before.
	users, err := o.deleteDeliveryBefore(ctx)
	result.Users = users
	return result, allErrors(cause, err)
}

// resultAfterFailure is the result with what there is then.
func (o *topologyChange) resultAfterFailure(
	ctx context.Context, found *rabbit.State, done []plan.Step, cause error,
) Result {
	old, err := o.before.read(ctx)
	if err != nil {
		// Nobody can say what exists: the state names all that may. Nothing is declared before all is torn down. What
		// was there before may be there again if its undo was broken off.
		there := plan.After(found.Topology, done)
		var undo *UndoError
		isBack := errors.As(cause, &undo) && slices.ContainsFunc(undo.Done, declares)
		return Result{There: &there, StartsFromAfter: slices.ContainsFunc(done, declares) && !isBack}
	}
	there, startsFromAfter := old.Topology, o.change.leftNothingOfBefore(old.Topology)
	state, err := o.after.read(ctx)
	switch {
	case err != nil:
		there = plan.After(found.Topology, done)
	case startsFromAfter:
		there = state.Topology
	default:
		there = there.Union(state.Topology)
	}
	return Result{There: &there, StartsFromAfter: startsFromAfter}
}

// leftNothingOfBefore tells whether nothing is there of the topology before that is not as it is to be. The objects
// that a rebuild leaves do not count: they may be damaged, and all else new.
func (c Change) leftNothingOfBefore(there topology.Topology) bool {
	there = there.Part(plan.Away(c.Before, c.After, true))
	delete(there.Exchanges, c.Before.Delivery)
	return there.SameObjects(c.After.Part(there))
}

// deleteDeliveryBefore deletes the delivery exchange before, if the topology has got another one and nobody uses it.
func (o *topologyChange) deleteDeliveryBefore(ctx context.Context) (users []string, err error) {
	if o.before.wanted.Delivery == o.after.wanted.Delivery {
		return nil, nil
	}
	users, err = o.before.deleteDelivery(ctx, o.change.Options.Guard.Force)
	if err != nil {
		err = &DeliveryLeftError{failure{err}, o.before.wanted.Delivery}
	}
	return users, err
}
