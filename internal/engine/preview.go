package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// unusable are the problems of a look that got an error for an answer. What all looks of a run would get is said once.
func (e *Engine) unusable(ctx context.Context, err error) []Problem {
	switch {
	case rabbit.IsKind(err, rabbit.LavinMQ):
		return []Problem{{Refused, err}}
	case e.isAway(ctx, err):
		return nil
	case rabbit.IsKind(err, rabbit.Unavailable, rabbit.Canceled):
		return nil
	case rabbit.IsOfConnection(err) && !e.silent.CompareAndSwap(false, true):
		return nil
	}
	return []Problem{{Unusable, err}}
}

// isAway tells whether nobody answers. The other looks of the run do not ask then.
func (e *Engine) isAway(ctx context.Context, err error) bool {
	away := ctx.Err() != nil || rabbit.IsKind(err, rabbit.Unreachable, rabbit.Timeout)
	if away {
		e.silent.Store(true)
	}
	return away
}

// previewCreate says of a create what it would refuse. If none of the exchanges exists, it is content with that, and
// with the permissions.
func (o *operation) previewCreate(ctx context.Context) (refusal, err error) {
	exchanges := o.after.wanted
	exchanges.Queues, exchanges.Bindings = nil, nil
	state, err := o.after.vhost.Read(ctx, exchanges)
	if err == nil && len(state.Exchanges) > 0 {
		state, err = o.after.vhost.Read(ctx, o.after.wanted)
	}
	if err != nil {
		return nil, err
	}
	var delivery, existing, reached, permissions error
	if !o.change.Options.DeliveryPlanned {
		delivery = o.after.checkDelivery(state)
	}
	if len(state.Exchanges) > 0 {
		existing = o.after.checkExisting(state, o.change.Options.Adopt)
	} else if permissions, err = previewPermissions(ctx, o.after.vhost, o.after.wanted); err != nil {
		return nil, err
	}
	if o.change.Options.Adopt {
		if o.after.wanted.IsOfOthers(state.Topology) {
			o.problems = append(o.problems, Problem{TakesOver, &OwnerError{}})
		} else if own, _ := o.after.sortPresent(state); len(own) > 0 && !state.Has(o.after.wanted.Entry) {
			o.problems = append(o.problems, Problem{TakesOver, &ClosedError{}})
		}
		if reached, err = o.after.checkReached(ctx, state.Topology); err != nil {
			return nil, err
		}
	}
	return allErrors(delivery, existing, reached, o.after.checkPolicies(ctx, state, topology.New()), permissions), nil
}

// previewReplacement says why a create would be refused after all before it is removed. It leaves a delivery exchange
// alone that is planned. A missing vhost is an error.
func (o *operation) previewReplacement(ctx context.Context) error {
	state, err := o.after.vhost.Read(ctx, o.after.wanted)
	switch {
	case rabbit.IsKind(err, rabbit.VhostNotFound):
		return err
	case err != nil:
		return nil //nolint:nilerr // the apply asks again
	}
	var delivery error
	if !o.change.Options.DeliveryPlanned {
		delivery = o.after.checkDelivery(state)
	}
	own, foreign := o.change.Options.Own, *state
	foreign.Topology = state.Minus(own)
	var reached error
	if o.change.Options.Adopt {
		if reached, err = o.after.checkReached(ctx, foreign.Part(o.after.wanted)); err != nil {
			return nil //nolint:nilerr // the apply asks again
		}
	}
	return allErrors(delivery, o.after.of(o.after.wanted.Minus(own)).checkExisting(&foreign, o.change.Options.Adopt),
		reached, o.checkStanding(ctx), o.after.checkPolicies(ctx, &foreign, own))
}

// checkStanding refuses a delivery exchange that would be left standing, because others use it, and is not as wanted.
func (o *operation) checkStanding(ctx context.Context) error {
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

// previewOthers lists the bindings of others that go with the objects of the topology before.
func (o *operation) previewOthers(ctx context.Context) (problems []Problem) {
	away := plan.Away(o.change.Before, o.change.After, o.change.Options.Rebuild)
	found, err := o.before.vhost.Inbound(ctx, o.before.ownedExchanges(away), slices.Collect(maps.Keys(away.Queues)))
	var shared []topology.Binding
	if err == nil && away.Shared {
		shared, err = o.before.vhost.BindingsFrom(ctx, away.Entry)
	}
	if err != nil {
		return nil // the apply asks again
	}
	maps.Copy(found, topology.NewBindings(shared...))
	if err = plan.CheckMeaning(o.change.Before, o.change.After, found); err != nil {
		problems = append(problems, Problem{Refused, err})
	}
	if others := plan.OthersOf(o.change.Before, o.change.After, away, found); !others.IsNone() {
		problems = append(problems, Problem{TakesAlong, others})
	}
	return problems
}

// previewPolicies lists what the policies take from exchanges that are to be set: RabbitMQ applies one policy to an
// exchange. Those that the state has do not count.
func (o *operation) previewPolicies(ctx context.Context) []Problem {
	if len(o.after.wanted.Policies) == 0 {
		return nil
	}
	policies := topology.New()
	policies.Policies = o.after.wanted.Policies
	state, err := o.after.vhost.Read(ctx, policies)
	if err != nil {
		return nil
	}
	var problems []Problem
	for _, name := range policiesToSet(policies, state.Topology) {
		own := policies.Policies[name]
		rivals := o.after.onExchangesOf(own, func(exchange string) policy.Policies {
			return state.AllPolicies.Users.Displaced(own, exchange)
		})
		rivals = slices.DeleteFunc(withoutOwn(rivals, o.change.Options.Own),
			func(rival Rival) bool { return len(rival.Policy.OfExchanges()) == 0 })
		if len(rivals) > 0 {
			problems = append(problems, Problem{Displaces, &DisplacedError{own, rivals}})
		}
	}
	return problems
}

// previewPermissions says which permissions it takes to make all of a topology that the user has not. RabbitMQ tells
// administrators alone. Others learn it when they write.
func previewPermissions(ctx context.Context, vhost *rabbit.Vhost, t topology.Topology) (refusal, err error) {
	has, err := vhost.Permissions(ctx)
	if err != nil || has == nil {
		return nil, err
	}
	if lacks := has.Lacking(t); len(lacks) > 0 {
		return &PermissionsError{has.User, lacks}, nil
	}
	return nil, nil
}
