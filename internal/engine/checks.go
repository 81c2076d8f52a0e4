package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// check refuses what cannot be, before anything is written.
func (o *topologyChange) check(ctx context.Context, found *rabbit.State) error {
	refusal, err := o.obstacles(ctx, found)
	return cmp.Or(err, refusal)
}

// obstacles are all reasons to refuse the change, in the state that was found. Preview and Apply both ask for them.
// The error is for a read that failed. A replacement meets nothing that the state has: it has removed that before.
func (o *topologyChange) obstacles(ctx context.Context, found *rabbit.State) (refusal, err error) {
	if refusal = o.checkNotTaken(found); refusal != nil {
		return refusal, nil
	}
	var reached, standing error
	if o.change.Options.Replaces {
		foreign := *found
		foreign.Topology = found.Minus(o.change.Options.Own)
		found, standing = &foreign, o.checkStanding(ctx)
	}
	if o.change.Options.Adopt {
		if reached, err = o.after.checkReached(ctx, found.Part(o.added())); err != nil {
			return nil, err
		}
	}
	return allErrors(o.checkDelivery(found),
		o.after.of(o.added()).checkExisting(found, o.change.Options.Adopt),
		reached, standing, o.after.checkPolicies(ctx, found, o.had())), nil
}

// checkNotTaken refuses to change what others have taken over.
func (o *topologyChange) checkNotTaken(found *rabbit.State) error {
	if o.change.Before.IsEmpty() || o.change.Options.Replaces {
		return nil
	}
	return o.checkOwner(o.after.wanted, found)
}

// isCreate tells a create from one that replaces something.
func (o *topologyChange) isCreate() bool {
	return o.change.Before.IsEmpty() && !o.change.Options.Replaces
}

func (o *topologyChange) isUpdate() bool {
	return !o.change.Before.IsEmpty() && !o.change.Options.Rebuild && !o.change.Options.Replaces
}

// had is what may be there, and stands in the way of nothing.
func (o *topologyChange) had() topology.Topology {
	if o.change.Options.Replaces {
		return o.change.Options.Own
	}
	return o.change.Before
}

// added is what must not be there yet, unless it is adopted. An update does not declare the delivery exchange anew. A
// rebuild finds nothing where there was another delivery exchange.
func (o *topologyChange) added() topology.Topology {
	had := o.had()
	if o.isUpdate() {
		return o.after.wanted.Extras(had)
	}
	if o.change.Options.Rebuild && had.Delivery != o.after.wanted.Delivery {
		had.Exchanges = maps.Clone(had.Exchanges)
		delete(had.Exchanges, had.Delivery)
	}
	added := o.after.wanted.Minus(had)
	if o.change.Options.DeliveryPlanned {
		delete(added.Exchanges, added.Delivery)
	}
	return added
}

// checkDelivery makes sure of a delivery exchange that the topology does not own, or that an update takes over. It
// leaves one alone that the plan changes before.
func (o *topologyChange) checkDelivery(found *rabbit.State) error {
	switch {
	case o.change.Options.DeliveryPlanned:
		return nil
	case o.isUpdate() && o.after.wanted.OwnsDelivery() && !o.before.wanted.OwnsDelivery():
		return o.after.checkTakeover(found)
	}
	return o.after.checkOthersDelivery(found)
}

// checkOthersDelivery makes sure of a delivery exchange that the topology does not own.
func (d *deployment) checkOthersDelivery(state *rabbit.State) error {
	anyType := d.wanted.DeliveryType == ""
	switch {
	case d.wanted.OwnsDelivery() || d.wanted.Delivery == "":
		return nil
	case !state.DeliveryExists:
		return &DeliveryError{Exchange: d.wanted.Delivery, Missing: true, AnyType: anyType}
	case state.DeliveryExchange.Type != d.wanted.DeliveryType && !anyType:
		return &DeliveryError{Exchange: d.wanted.Delivery, Type: state.DeliveryExchange.Type}
	}
	return nil
}

// checkExisting refuses to touch existing objects, unless they are to be adopted and are exactly right.
func (d *deployment) checkExisting(state *rabbit.State, adopt bool) error {
	equal, different := d.sortPresent(state)
	if len(different) > 0 || len(equal) > 0 && !adopt {
		return &ExistsError{equal, different, !state.Has(d.wanted.Entry)}
	}
	return nil
}

// checkPolicies makes sure, where a policy is to be set, that the user may do it, and that it then applies. Policies of
// the topology before are no rivals.
func (d *deployment) checkPolicies(ctx context.Context, state *rabbit.State, before topology.Topology) error {
	var errs []error
	for _, name := range policiesToSet(d.wanted, state.Topology) {
		own := d.wanted.Policies[name]
		errs = append(errs, d.vhost.MaySet(ctx, own))
		if rivals := withoutOwn(rivalsOf(d.wanted, own, state), before); len(rivals) > 0 {
			errs = append(errs, &RivalError{own, rivals})
		}
	}
	return allErrors(errs...)
}

// policiesToSet are the names of those that are missing or differ.
func policiesToSet(desired, actual topology.Topology) []string {
	differences := topology.Diff(desired, actual)
	return slices.Concat(differences.MissingPolicies, differences.WrongPolicies)
}

// withoutOwn leaves out the policies of the topology.
func withoutOwn(rivals []Rival, own topology.Topology) []Rival {
	return slices.DeleteFunc(rivals, func(rival Rival) bool {
		_, is := own.Policies[rival.Policy.Name]
		return is
	})
}

// rivalsOf are the policies because of which a policy of the topology may not apply.
func rivalsOf(wanted topology.Topology, own topology.Policy, state *rabbit.State) []Rival {
	return onExchangesOf(wanted, own, func(exchange string) policy.Policies {
		return state.AllPolicies.Users.Rivals(own, exchange)
	})
}

// onExchangesOf gathers other policies, exchange by exchange of those to which a policy of the topology is to apply.
func onExchangesOf(
	wanted topology.Topology, own topology.Policy, others func(exchange string) policy.Policies,
) []Rival {
	var rivals []Rival
	for _, exchange := range slices.Sorted(maps.Keys(wanted.Exchanges)) {
		if wanted.AlternateOf(exchange) != own.AlternateExchange() {
			continue
		}
		for _, other := range others(exchange) {
			i := slices.IndexFunc(rivals, func(rival Rival) bool { return rival.Policy.Name == other.Name })
			if i < 0 {
				i = len(rivals)
				rivals = append(rivals, Rival{Policy: other.Policy})
			}
			rivals[i].Exchanges = append(rivals[i].Exchanges, exchange)
		}
	}
	return rivals
}

// sortPresent lists the existing objects of the desired topology, exactly as desired or different. A delivery exchange
// as desired does not count: others may use it.
func (d *deployment) sortPresent(state *rabbit.State) (equal, different []string) {
	for _, object := range topology.Existing(d.wanted, state.Topology) {
		switch {
		case len(object.Differences) > 0:
			different = append(different, object.String())
		case object.Name != topology.ExchangeObject(d.wanted.Delivery):
			equal = append(equal, object.String())
		}
	}
	return equal, different
}

// checkTakeover refuses a delivery exchange that is to become part of the topology and is not as desired.
func (d *deployment) checkTakeover(state *rabbit.State) error {
	name := d.wanted.Delivery
	differences := d.wanted.Exchanges[name].Differences(state.DeliveryExchange)
	if !state.DeliveryExists || len(differences) == 0 {
		return nil
	}
	return &TakeoverError{topology.Object{Name: topology.ExchangeObject(name), Differences: differences}}
}

// checkStanding refuses a delivery exchange that would be left standing, because others use it, and is not as wanted.
func (o *topologyChange) checkStanding(ctx context.Context) error {
	name := o.after.wanted.Delivery
	have, had := o.change.Options.Own.Exchanges[name]
	want, owned := o.after.wanted.Exchanges[name]
	if !had || !owned || have.Equal(want) {
		return nil
	}
	if users, err := o.after.vhost.Bound(ctx, name); err == nil && len(users) > 0 {
		return &StandingError{name, users}
	}
	return nil
}
