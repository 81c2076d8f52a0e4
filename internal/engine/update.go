package engine

import (
	"context"
	"maps"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// update brings the broker from any state to the wanted topology. Exchanges and queues have the arguments and names
// that they had before (see rebuild), and queues may come and go. An object that differs on the broker is recreated.
func (o *topologyChange) update(ctx context.Context) (result Result, err error) {
	found, err := o.after.readForRepair(ctx)
	if err == nil {
		err = o.check(ctx, found)
	}
	if err != nil {
		return result, err
	}
	added, retired := o.after.wanted.Extras(o.change.Before), o.before.wanted.Extras(o.after.wanted)
	result.StartsFromAfter = len(added.Queues)+len(retired.Queues) > 0 // the state has to name all that there may be
	if len(retired.Queues) > 0 {
		if o.after.wanted.IsOfOthers(found.Topology) {
			retired.Owners = nil
		}
		if err = o.remove(ctx, o.before.of(retired)); err != nil {
			return Result{}, err
		}
		found.Bindings.DeleteInto(retired.Queues)
	}
	o.noteDamages(o.after.wanted, found)
	repair := plan.Repair
	if o.change.Options.Adopt {
		repair = plan.TakeOver
	}
	state, done, err := o.after.run(ctx, repair(o.after.wanted, found.Topology), found)
	if state == nil {
		result.There = o.after.thereAfterFailure(ctx, found, done)
		return result, err
	}
	return Result{There: &state.Topology, StartsFromAfter: true, State: state}, err
}

// readForRepair adds what others have bound to objects that have to be recreated.
func (d *deployment) readForRepair(ctx context.Context) (*rabbit.State, error) {
	state, err := d.read(ctx)
	if err != nil {
		return nil, err
	}
	differences := topology.Diff(d.wanted, state.Topology)
	inbound, err := d.vhost.Inbound(ctx, differences.WrongExchanges, differences.WrongQueues)
	if err != nil {
		return nil, err
	}
	maps.Copy(state.Bindings, inbound)
	return state, nil
}

// thereAfterFailure is the topology that exists after a failure: the next plan shows the rest of the work.
func (d *deployment) thereAfterFailure(ctx context.Context, found *rabbit.State, done []plan.Step) *topology.Topology {
	ctx, cancel := withTimeToUndo(ctx)
	defer cancel()
	if state, err := d.read(ctx); err == nil {
		return &state.Topology
	}
	there := plan.After(found.Topology, done)
	return &there
}
