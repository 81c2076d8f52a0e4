package resource

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// lookTimeout is how long a plan looks at the broker. The look only says earlier what the apply would say, so that a
// broker that does not answer is no error. A busy one has ten seconds.
const lookTimeout = 10 * time.Second

// lookForCreate warns of what exists already, and of policies of others that lose exchanges.
func (r *managed[C]) lookForCreate(ctx context.Context, p planning[C]) diag.Diagnostics {
	if p.plan["adopt"].IsUnknown() {
		return r.lookForDisplaced(ctx, p)
	}
	return r.look(ctx, p, overhaul{}, func(
		s diagnose.Subject, ctx context.Context, err error,
	) diag.Diagnostics {
		return s.WouldFail(ctx, "create", err)
	})
}

// lookForReplacement refuses a replacement that would destroy the existing objects and then could not make the planned
// ones. The state's objects go first, and are not in the way.
func (r *managed[C]) lookForReplacement(ctx context.Context, p planning[C]) diag.Diagnostics {
	if p.isUncertain() {
		return r.lookForDisplaced(ctx, p)
	}
	return r.look(ctx, p, overhaul{replaces: true}, diagnose.Subject.WouldNotBeReplaced)
}

// lookForDisplaced warns of policies of others that no longer apply to exchanges when those of a create are set.
func (r *managed[C]) lookForDisplaced(ctx context.Context, p planning[C]) diag.Diagnostics {
	return r.look(ctx, p, overhaul{},
		func(diagnose.Subject, context.Context, error) diag.Diagnostics { return nil })
}

// isUncertain tells whether it is not known yet what the change may take over.
func (p planning[C]) isUncertain() bool {
	return p.plan["adopt"].IsUnknown() || p.plan["create_delivery_exchange"].IsUnknown()
}

// lookForUpdate warns likewise of an update, also of what it would be refused for: that may be gone by then. Bindings
// that would take other messages are an error. Others are the bindings that go. A plan that is settled changes nothing.
func (r *managed[C]) lookForUpdate(
	ctx context.Context, p planning[C], rebuilds bool,
) (others plan.Others, diags diag.Diagnostics) {
	if p.resp.Plan.Raw.Equal(p.req.State.Raw) {
		return others, nil
	}
	isRefused := p.resp.Diagnostics.HasError()
	diags = r.look(ctx, p, overhaul{rebuilds: rebuilds}, func(
		s diagnose.Subject, ctx context.Context, err error,
	) diag.Diagnostics {
		_, misreads := errors.AsType[*plan.MisreadError](err)
		switch {
		case errors.As(err, &others):
			return nil
		case misreads:
			return s.Explain(ctx, "update", err)
		case isRefused || p.isUncertain():
			return nil
		}
		return s.WouldFail(ctx, "update", err)
	})
	return others, diags
}

// overhaul says how much a change makes anew. Neither is for a create, for a change in place, and where that is not
// known.
type overhaul struct{ replaces, rebuilds bool }

// look says what a change would meet. Refused has the words for what would be refused, and for what goes.
func (r *managed[C]) look(
	ctx context.Context, p planning[C], makesAnew overhaul,
	refused func(diagnose.Subject, context.Context, error) diag.Diagnostics,
) (diags diag.Diagnostics) {
	if !r.Connection.IsKnown() || p.after == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	defer cancel()
	s, before, owner := topologySubject(r, *p.after, p.plan), topology.Topology{}, ""
	if p.before != nil {
		before = p.before.Desired
		owner, _ = r.owner(ctx, p.req.Private, p.state) // the ledger has its errors
	}
	s.Options.Own, s.Options.Replaces, s.Options.Rebuild = r.heldIn(s.Vhost), makesAnew.replaces, makesAnew.rebuilds
	s.Options.DeliveryPlanned = r.isDeliveryPlanned(s)
	for _, problem := range r.Connection.Engine.Preview(ctx, engine.Change{Kind: s.Kind, Vhost: s.Vhost,
		Before: before.WithOwner(owner), After: s.Desired.WithOwner(owner), Options: s.Options}) {
		switch problem.Code {
		case engine.OwnsWithOthers: // the refresh says so
		case engine.Displaces:
			diags.Append(s.Explain(ctx, "update", problem.Cause)...)
		case engine.TakesOver:
			diags.Append(s.TakesOver(problem.Cause))
		case engine.Unusable:
			diags.Append(s.Unusable(problem.Cause))
		default:
			diags.Append(refused(s, ctx, problem.Cause)...)
		}
	}
	return diags
}

// isDeliveryPlanned tells whether the plan declares the delivery exchange, or takes it from another address.
func (r *managed[C]) isDeliveryPlanned(s diagnose.Subject) bool {
	delivery := s.Desired.Delivery
	if s.Desired.Has(delivery) {
		return r.Connection.Ledger.GivesUp(s.Vhost, delivery)
	}
	return slices.ContainsFunc(r.Connection.Ledger.In(s.Vhost),
		func(one connection.Planned) bool { return one.Has(delivery) })
}

// heldIn is all that the state has in the vhost.
func (r *managed[C]) heldIn(vhost string) topology.Topology {
	own := topology.New()
	for _, prior := range r.Connection.Ledger.HeldIn(vhost) {
		own = own.Union(prior.Topology)
	}
	return own
}

// lost are the bindings of others that go with a destroy.
func (r *managed[C]) lost(ctx context.Context, p planning[C]) []topology.Binding {
	if p.before == nil || !r.Connection.IsKnown() {
		return nil
	}
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	defer cancel()
	var others plan.Others
	for _, problem := range r.Connection.Engine.Preview(ctx, engine.Change{Kind: r.kind.name,
		Vhost: p.state.Text("vhost"), Before: p.before.Desired, Options: optionsOf(p.state)}) {
		errors.As(problem.Cause, &others)
	}
	return others.Lost
}
