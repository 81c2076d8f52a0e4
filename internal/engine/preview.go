package engine

import (
	"context"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// PreviewCreate says of a create what it would refuse, as things are. If none of the exchanges exists, it is content
// with that. A broker that does not answer is no error.
func (d *Deployment) PreviewCreate(ctx context.Context, adopt bool) error {
	exchanges := d.Desired
	exchanges.Queues, exchanges.Bindings = nil, nil
	state, err := d.on().Read(ctx, exchanges)
	if err == nil && len(state.Exchanges) > 0 {
		state, err = d.on().Read(ctx, d.Desired)
	}
	if err != nil {
		return nil //nolint:nilerr // the create asks again
	}
	var existing error
	if len(state.Exchanges) > 0 {
		existing = d.checkExisting(state, adopt)
	}
	return all(existing, d.checkPolicies(ctx, state, topology.New()))
}

// PreviewReplacement says why a create would be refused after own is removed. It leaves a delivery exchange alone that
// is planned: somebody is to declare it until then. A broker that does not answer is no error, a missing vhost is one.
func (d *Deployment) PreviewReplacement(
	ctx context.Context, own topology.Topology, deliveryPlanned, adopt bool,
) error {
	state, err := d.on().Read(ctx, d.Desired)
	switch {
	case rabbit.IsKind(err, rabbit.VhostNotFound):
		return err
	case err != nil:
		return nil //nolint:nilerr // the apply asks again
	}
	var delivery error
	if !deliveryPlanned {
		delivery = d.checkDelivery(state)
	}
	foreign := *state
	foreign.Topology = state.Except(own)
	return all(delivery, d.of(d.Desired.Except(own)).checkExisting(&foreign, adopt), d.checkStanding(ctx, own),
		d.checkPolicies(ctx, &foreign, own))
}

// checkStanding refuses a delivery exchange that would be left standing, because others use it, and is not as desired.
func (d *Deployment) checkStanding(ctx context.Context, own topology.Topology) error {
	have, had := own.Exchanges[d.Desired.Delivery]
	want, owned := d.Desired.Exchanges[d.Desired.Delivery]
	if !had || !owned || have.Equal(want) {
		return nil
	}
	if users, err := d.on().Bound(ctx, d.Desired.Delivery); err == nil && len(users) > 0 {
		return &StandingError{d.Desired.Delivery, users}
	}
	return nil
}

// PreviewRemoval lists what others have bound into the exchanges that a destroy removes.
func (d *Deployment) PreviewRemoval(ctx context.Context) ([]topology.Binding, error) {
	inbound, err := d.on().Inbound(ctx, d.ownedExchanges(d.Desired), nil)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(inbound.Sorted(), func(b topology.Binding) bool { return d.Desired.Owns(b.Source) }), nil
}

// Displacement is a policy that is to be set, and the policies of others that then no longer apply to its exchanges.
type Displacement struct {
	Policy topology.Policy
	Rivals []Rival
}

// PreviewDisplacements lists what the policies take from exchanges that are to be set: RabbitMQ applies one policy to
// an exchange. Policies of the topology before do not count. A broker that does not answer is no error.
func (d *Deployment) PreviewDisplacements(ctx context.Context, before topology.Topology) []Displacement {
	policies := topology.New()
	policies.Policies = d.Desired.Policies
	state, err := d.on().Read(ctx, policies)
	if err != nil {
		return nil
	}
	var displacements []Displacement
	for _, name := range policiesToSet(policies, state.Topology) {
		own := policies.Policies[name]
		rivals := d.onExchangesOf(own, func(exchange string) policy.Policies {
			return state.AllPolicies.Users.Displaced(own, exchange)
		})
		rivals = slices.DeleteFunc(withoutOwn(rivals, before),
			func(rival Rival) bool { return len(rival.Policy.OfExchanges()) == 0 })
		if len(rivals) > 0 {
			displacements = append(displacements, Displacement{own, rivals})
		}
	}
	return displacements
}
