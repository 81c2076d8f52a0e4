package resource

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// lookTimeout is how long a plan looks at the broker. The look only says earlier what the apply would say, so that a
// broker that does not answer is no error. A busy one has ten seconds.
const lookTimeout = 10 * time.Second

// lookForCreate warns of what exists already, and of policies of others that lose exchanges.
func (r *managed[C]) lookForCreate(ctx context.Context, plan attribute.Values) diag.Diagnostics {
	if plan["adopt"].IsUnknown() {
		return r.lookForDisplaced(ctx, plan)
	}
	return r.look(ctx, topology.Topology{}, plan, engine.Options{}, func(
		ctx context.Context, s diagnose.Subject, err error,
	) diag.Diagnostics {
		return s.WouldNotBeCreated(ctx, err)
	})
}

// lookForReplacement refuses a replacement that would destroy the existing objects and then could not make the planned
// ones. The state's objects go first, and are not in the way.
func (r *managed[C]) lookForReplacement(ctx context.Context, plan attribute.Values) diag.Diagnostics {
	if plan["adopt"].IsUnknown() || plan["create_delivery_exchange"].IsUnknown() {
		return r.lookForDisplaced(ctx, plan)
	}
	return r.look(ctx, topology.Topology{}, plan, engine.Options{Replaces: true}, func(
		ctx context.Context, s diagnose.Subject, err error,
	) diag.Diagnostics {
		return s.WouldNotBeReplaced(ctx, err)
	})
}

// lookForDisplaced warns of policies of others that no longer apply to exchanges when those of a create are set.
func (r *managed[C]) lookForDisplaced(ctx context.Context, plan attribute.Values) diag.Diagnostics {
	return r.look(ctx, topology.Topology{}, plan, engine.Options{}, func(
		context.Context, diagnose.Subject, error,
	) diag.Diagnostics {
		return nil
	})
}

// lookForUpdate warns likewise of an update, and refuses what the apply would refuse. Others are the bindings that go.
// A plan that is settled changes nothing.
func (r *managed[C]) lookForUpdate(
	ctx context.Context, p planning, rebuilds bool,
) (others plan.Others, diags diag.Diagnostics) {
	before, diags := r.kind.Of(p.state)
	if p.resp.Plan.Raw.Equal(p.req.State.Raw) || diags.HasError() { // which the refresh has said
		return others, nil
	}
	diags = r.look(ctx, before.Desired, p.plan, engine.Options{Rebuild: rebuilds}, func(
		ctx context.Context, s diagnose.Subject, err error,
	) diag.Diagnostics {
		if errors.As(err, &others) {
			return nil
		}
		return s.Explain(ctx, "update", err)
	})
	return others, diags
}

// look says what a change would meet that has the options beside those of the plan. Refused has the words for what
// would be refused, and for what goes.
func (r *managed[C]) look(
	ctx context.Context, before topology.Topology, plan attribute.Values, options engine.Options,
	refused func(context.Context, diagnose.Subject, error) diag.Diagnostics,
) (diags diag.Diagnostics) {
	if !r.Connection.IsKnown() || !r.kind.IsKnown(plan) {
		return nil
	}
	x, wrong := r.kind.Of(plan)
	if wrong.HasError() {
		return nil
	}
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	defer cancel()
	s := topologySubject(r, x, plan)
	s.Options.Own, s.Options.Replaces, s.Options.Rebuild = r.heldIn(s.Vhost), options.Replaces, options.Rebuild
	s.Options.DeliveryPlanned = slices.ContainsFunc(r.Connection.Planned.In(s.Vhost),
		func(one connection.Planned) bool { return one.Has(s.Desired.Delivery) })
	for _, problem := range r.Connection.Engine.Preview(ctx, engine.Change{Kind: s.Kind, Vhost: s.Vhost,
		Before: before, After: s.Desired, Options: s.Options}) {
		switch problem.Code {
		case engine.Displaces:
			diags.Append(s.Explain(ctx, "update", problem.Cause)...)
		case engine.TakesOver:
			diags.Append(s.TakesOver(problem.Cause))
		case engine.Unusable:
			diags.Append(s.Unusable(problem.Cause))
		default:
			diags.Append(refused(ctx, s, problem.Cause)...)
		}
	}
	return diags
}

// heldIn is all that the state has in the vhost.
func (r *managed[C]) heldIn(vhost string) topology.Topology {
	own := topology.New()
	for _, prior := range r.Connection.Planned.HeldIn(vhost) {
		own = own.Union(prior.Topology)
	}
	return own
}

// lost are the bindings of others that go with a destroy.
func (r *managed[C]) lost(ctx context.Context, state attribute.Values) []topology.Binding {
	x, diags := r.kind.Of(state)
	if diags.HasError() || !r.Connection.IsKnown() {
		return nil
	}
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	defer cancel()
	var others plan.Others
	for _, problem := range r.Connection.Engine.Preview(ctx, engine.Change{Kind: r.kind.name,
		Vhost: state.Text("vhost"), Before: x.Desired, Options: optionsOf(state)}) {
		errors.As(problem.Cause, &others)
	}
	return others.Lost
}
