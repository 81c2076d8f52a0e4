package engine

import (
	"context"
	"fmt"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// deployment is a topology in a vhost: one that is wanted, one that was, or a part.
type deployment struct {
	kind   string
	vhost  Vhost
	wanted topology.Topology
}

// of is the deployment of another topology.
func (d *deployment) of(t topology.Topology) *deployment { return &deployment{d.kind, d.vhost, t} }

// read finds out which objects exist.
func (d *deployment) read(ctx context.Context) (*rabbit.State, error) {
	return d.vhost.ReadExisting(ctx, d.wanted)
}

// run carries out a plan that turns the state into the wanted topology. It reads the objects that exist then, nil if
// they are not known. Done are the steps that may have had an effect.
func (d *deployment) run(
	ctx context.Context, steps plan.Plan, state *rabbit.State,
) (result *rabbit.State, done []plan.Step, err error) {
	if len(steps) == 0 {
		return state, nil, nil
	}
	if done, err = d.vhost.Run(ctx, steps); err != nil {
		return nil, done, err
	}
	if result, err = d.read(ctx); err != nil {
		return nil, done, err
	}
	return result, done, d.verify(result)
}

// verify makes sure that the written objects are there: no step is to be done again.
func (d *deployment) verify(state *rabbit.State) error {
	remaining := plan.Repair(d.wanted, state.Topology).Steps()
	if len(remaining) == 0 {
		return nil
	}
	return fmt.Errorf("another application changed the %s meanwhile; still to be done: %s", d.kind,
		plaintext.Join(remaining, "; ", plan.Step.String))
}

// verifyGone makes sure that nothing is left of the deleted objects. An answer may have been wrong: that of a deletion
// or that of the read before. 3.10.8 kept exchanges after it had said that they are deleted (TestTeardownIsComplete).
// It needs no answer itself.
func (d *deployment) verifyGone(ctx context.Context) error {
	state, err := d.vhost.Read(rabbit.WithoutRetries(ctx), d.wanted)
	if err != nil {
		return nil //nolint:nilerr // all was said to be deleted
	}
	left := state.Topology
	delete(left.Exchanges, d.wanted.Delivery)
	if left.IsEmpty() {
		return nil
	}
	return &LeftError{left}
}

// deleteDelivery deletes the delivery exchange if it belongs to the topology, unless others use it: it tells who does.
func (d *deployment) deleteDelivery(ctx context.Context, force bool) (users []string, err error) {
	if !d.wanted.OwnsDelivery() {
		return nil, nil
	}
	name := d.wanted.Delivery
	if !force {
		if users, err = d.vhost.Users(ctx, name); err != nil || len(users) > 0 {
			return users, err
		}
	}
	if _, err = d.vhost.Run(ctx, plan.DeleteShared(name, force)); rabbit.IsKind(err, rabbit.InUse) {
		users, err = d.vhost.Bound(ctx, name)
	}
	return users, err
}
