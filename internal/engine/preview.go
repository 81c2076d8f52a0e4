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
	case e.isAway(ctx, err), rabbit.IsKind(err, rabbit.Unavailable, rabbit.Canceled),
		rabbit.IsOfConnection(err) && !e.silent.CompareAndSwap(false, true):
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

// readAhead reads for a preview what the obstacles of the change go by. If none of its exchanges exists, a create is
// content with that. An update or a rebuild asks for its entry, and for what it adds.
func (o *topologyChange) readAhead(ctx context.Context) (*rabbit.State, error) {
	vhost, part := o.after.vhost, o.after.wanted
	switch {
	case o.change.Options.Replaces:
	case o.isCreate():
		part.Queues, part.Bindings = nil, nil
		if state, err := vhost.Read(ctx, part); err != nil || len(state.Exchanges) == 0 {
			return state, err
		}
		part = o.after.wanted
	default:
		added := o.added()
		part.Queues = added.Queues
		part.Exchanges = map[string]topology.Exchange{part.Entry: part.Exchanges[part.Entry]}
		maps.Copy(part.Exchanges, added.Exchanges)
	}
	return vhost.Read(ctx, part)
}

// ahead is what a preview finds, and what the change would be refused for then.
func (o *topologyChange) ahead(ctx context.Context) (found *rabbit.State, refusal, err error) {
	if found, err = o.readAhead(ctx); err == nil {
		refusal, err = o.obstacles(ctx, found)
	}
	if err == nil && o.isCreate() {
		var more error
		if more, err = o.previewCreate(ctx, found); more != nil {
			refusal = allErrors(refusal, more)
		}
	}
	return found, refusal, err
}

// previewCreate says further things of a create: what it takes over, and if none of its exchanges exists, which
// permissions the user has not.
func (o *topologyChange) previewCreate(ctx context.Context, found *rabbit.State) (refusal, err error) {
	if o.change.Options.Adopt {
		if o.after.wanted.IsOfOthers(found.Topology) {
			o.problems = append(o.problems, Problem{TakesOver, &OwnerError{}})
		} else if own, _ := o.after.sortPresent(found); len(own) > 0 && !found.Has(o.after.wanted.Entry) {
			o.problems = append(o.problems, Problem{TakesOver, &ClosedError{}})
		}
	}
	if len(found.Exchanges) > 0 {
		return nil, nil
	}
	return previewPermissions(ctx, o.after.vhost, o.after.wanted)
}

// previewOthers lists the bindings of others that go with the objects of the topology before.
func (o *topologyChange) previewOthers(ctx context.Context) (problems []Problem) {
	away := plan.Away(o.change.Before, o.change.After, o.change.Options.Rebuild)
	found, err := o.before.vhost.Inbound(ctx, o.before.wanted.Owned(away.Exchanges),
		slices.Collect(maps.Keys(away.Queues)))
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
		problems = append(problems, Problem{Other, others})
	}
	return problems
}

// previewPolicies lists what the policies that are to be set take from exchanges: RabbitMQ applies one policy to an
// exchange. Those that the state has do not count.
func (o *topologyChange) previewPolicies(found *rabbit.State) (problems []Problem) {
	for _, name := range policiesToSet(o.after.wanted, found.Topology) {
		own := o.after.wanted.Policies[name]
		rivals := onExchangesOf(o.after.wanted, own, func(exchange string) policy.Policies {
			return found.AllPolicies.Users.Displaced(own, exchange)
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
func previewPermissions(ctx context.Context, vhost Vhost, t topology.Topology) (refusal, err error) {
	has, err := vhost.Permissions(ctx)
	if err != nil || has == nil {
		return nil, err
	}
	if lacks := has.Lacking(t); len(lacks) > 0 {
		return &PermissionsError{has.User, lacks}, nil
	}
	return nil, nil
}
