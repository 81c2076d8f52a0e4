package engine

import (
	"context"
	"maps"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Update brings the broker from any state to the desired topology. The configuration gives exchanges and queues the
// arguments and names that it gave before (see Rebuild), and queues may come and go. An object that differs on the
// broker is recreated.
func (d *Deployment) Update(ctx context.Context, before topology.Topology, options Options) (_ Outcome, err error) {
	claim, err := d.claim(ctx, before, d.Desired)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { d.endUpdate(claim, before, err) }()
	added, retired := d.Desired.Without(before), before.Without(d.Desired)
	if err = all(held(claim, d.own(d.Desired)), wanted(claim, d.own(retired))); err != nil {
		return Outcome{}, err
	}
	found, err := d.readForRepair(ctx)
	if err != nil {
		return Outcome{}, err
	}
	var takeover error
	if ownsDelivery(d.Desired) && !ownsDelivery(before) {
		takeover = d.checkTakeover(found)
	}
	part := d.of(added)
	if err = all(d.checkDelivery(found), takeover, part.checkExisting(found, options.Adopt),
		d.checkPolicies(ctx, found, before)); err != nil {
		claim.FailFor(part.present(found.Topology))
		return Outcome{}, err
	}
	retired = d.spare(retired, claim.Taken(d.own(retired)))
	isNew := len(added.Queues)+len(retired.Queues) > 0 // the state has to name all that there may be
	if len(retired.Queues) > 0 {
		if err = d.of(retired).remove(ctx, options.Guard); err != nil {
			return Outcome{}, err
		}
		found.Bindings.DeleteInto(retired.Queues)
	}
	state, done, err := d.run(ctx, plan.Repair(d.Desired, found.Topology), found)
	if state == nil {
		return Outcome{There: d.left(ctx, found, done), IsNew: isNew}, err
	}
	return Outcome{There: &state.Topology, IsNew: true, State: state}, err
}

// readForRepair adds what others have bound to objects that have to be recreated.
func (d *Deployment) readForRepair(ctx context.Context) (*rabbit.State, error) {
	state, err := d.Read(ctx)
	if err != nil {
		return nil, err
	}
	exchanges, queues := plan.Recreated(d.Desired, state.Topology)
	inbound, err := d.on().Inbound(ctx, exchanges, queues)
	if err != nil {
		return nil, err
	}
	maps.Copy(state.Bindings, inbound)
	return state, nil
}

// left is the topology that exists after a failure: the next plan shows the rest of the work.
func (d *Deployment) left(ctx context.Context, found *rabbit.State, done []plan.Step) *topology.Topology {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if state, err := d.Read(ctx); err == nil {
		return &state.Topology
	}
	there := plan.After(found.Topology, done)
	return &there
}
