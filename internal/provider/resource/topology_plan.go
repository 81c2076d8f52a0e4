package resource

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/private"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// lookAtDestroy says what the destroy of a cascade or ladder takes along.
func lookAtDestroy[C any](ctx context.Context, r *managed[C], p planning) {
	p.resp.Diagnostics.Append(warnInFlight(ctx, r, p)...)
	p.resp.Diagnostics.Append(r.lookForInbound(ctx, p.state)...)
	p.resp.Diagnostics.Append(r.note(ctx, p)...)
}

// lookAtTopology says when a change of a cascade or ladder replaces or rebuilds what there is, or removes queues. It
// asks the broker for warnings and refusals only, see plan_look.go.
func lookAtTopology[C any](ctx context.Context, r *managed[C], p planning) {
	diags := &p.resp.Diagnostics
	diags.Append(r.note(ctx, p)...)
	if p.state == nil {
		switch {
		case p.isSecondHalf(ctx):
			diags.Append(r.lookForReplacement(ctx, p.plan)...)
		case diags.HasError():
			diags.Append(r.lookForDisplaced(ctx, p.plan)...)
		default:
			diags.Append(r.lookForCreate(ctx, p.plan)...)
		}
		return
	}
	altered, more := r.kind.alteredBy(p.state, p.plan)
	altered = p.withoutUnitsThatFollow(altered)
	diags.Append(diagnose.OfState(more)...) // the plan has been expanded before
	if len(altered) > 0 && !samePlace(p.state, p.plan) {
		p.resp.RequiresReplace = append(p.resp.RequiresReplace, altered...)
	} else {
		diags.Append(r.lookForUpdate(ctx, p.state, p.plan, p.resp.Plan.Raw.Equal(p.req.State.Raw))...)
	}
	if len(altered) > 0 {
		diags.Append(warnOverhaul(ctx, r, p, altered)...)
	} else if lost := r.kind.lostQueues(p.state, p.plan); len(lost) > 0 {
		diags.Append(warnInRemoved(ctx, r, p, lost)...)
		diags.Append(r.warnRemoved(p, lost)...)
	}
}

// withoutUnitsThatFollow leaves units out of what alters the objects where the configuration gives none, and something
// else alters them.
func (p planning) withoutUnitsThatFollow(altered path.Paths) path.Paths {
	if given := p.config["units"]; given == nil || !given.IsNull() || len(altered) == 1 {
		return altered
	}
	return slices.DeleteFunc(altered, path.Root("units").Equal)
}

// keepDeliveryType plans the type of a delivery exchange of which any will do: what it was, if it is the same one.
func keepDeliveryType(plan, state attribute.Values) {
	const name = "delivery_exchange_type"
	switch before := state[name]; {
	case !plan[name].IsNull() || plan["delivery_exchange"].IsNull():
	case before != nil && !before.IsNull() && plan["delivery_exchange"].Equal(state["delivery_exchange"]):
		plan[name] = before
	default:
		plan[name] = types.StringUnknown()
	}
}

// warnInFlight says what a destroy has in its way, by what the last refresh counted. What others own has nothing in its
// way: the destroy leaves it.
func warnInFlight[C any](ctx context.Context, r *managed[C], p planning) diag.Diagnostics {
	waits, diags := p.waiting(ctx)
	if waits == nil || waits.IsNone() {
		return diags
	}
	if held, _ := r.held(ctx, p); held != nil && r.isOfOthers(ctx, *held) {
		return diags
	}
	s := r.prior(p.state)
	s.Options = optionsOf(p.state)
	return append(diags, s.InFlight(waits))
}

// warnInRemoved says likewise what a change has in its way that removes queues.
func warnInRemoved[C any](
	ctx context.Context, r *managed[C], p planning, removed []topology.Queue,
) diag.Diagnostics {
	waits, diags := p.waiting(ctx)
	if waits == nil || waits.In(removed).IsNone() {
		return diags
	}
	s := r.prior(p.state)
	s.Options = optionsOf(p.plan)
	return append(diags, s.InRemoved(waits.In(removed)))
}

// warnRemoved says what publishers see of a change that removes queues.
func (r *managed[C]) warnRemoved(p planning, removed []topology.Queue) diag.Diagnostics {
	removed = slices.DeleteFunc(slices.Clone(removed), func(q topology.Queue) bool { return !q.Delays() })
	after, diags := r.kind.Of(p.plan)
	if diags.HasError() || len(removed) == 0 {
		return diags
	}
	s, parks := r.prior(p.state), p.plan.IsTrue("park_unroutable")
	if after.Scale.Longest > 0 { // a ladder has none
		return diag.Diagnostics{s.ReachesLess(removed, after.Scale.Longest, parks)}
	}
	return diag.Diagnostics{s.DelaysRemoved(removed, parks)}
}

// prior has the words for a cascade or ladder that the state has.
func (r *managed[C]) prior(state attribute.Values) diagnose.Subject {
	return diagnose.OfEntry(r.kind.name, state.Text("vhost"), state.Text("entry_exchange"))
}

// waiting is what the last refresh counted, nil if that is not known.
func (p planning) waiting(ctx context.Context) (*diagnose.Waiting, diag.Diagnostics) {
	var waits diagnose.Waiting
	if found, diags := private.Get(ctx, p.req.Private, inFlightKey, &waits); !found {
		return nil, diags
	}
	return &waits, nil
}

// warnOverhaul says what a replacement or a rebuild does.
func warnOverhaul[C any](ctx context.Context, r *managed[C], p planning, altered path.Paths) diag.Diagnostics {
	waits, diags := p.waiting(ctx)
	names := make([]string, len(altered))
	for i, each := range altered {
		names[i] = each.String()
	}
	o := diagnose.Overhaul{
		Kind: r.kind.name, Vhost: p.state.Text("vhost"), Entry: p.state.Text("entry_exchange"), Waits: waits,
		Because: diagnose.Reasons(names, attributesOf(p.req.Config.Raw), attributesOf(p.req.State.Raw),
			attributesOf(p.resp.Plan.Raw)),
		Delivery: p.state.Text("delivery_exchange"), NewDelivery: p.plan.Text("delivery_exchange"),
	}
	before, more := r.kind.Of(p.state)
	diags.Append(diagnose.OfState(more)...)
	after := attribute.Resolved[C]{}
	if r.kind.IsKnown(p.plan) {
		after, more = r.kind.Of(p.plan)
		diags.Append(more...)
		o.Before, o.After = &before.Scale, &after.Scale
	}
	if samePlace(p.state, p.plan) {
		o.Guard = optionsOf(p.plan).Guard // an update goes by the plan, and a destroy by the state
		o.KeepsParked = plan.KeepsParked(before.Desired, after.Desired)
	} else {
		o.Guard = optionsOf(p.state).Guard
		o.Moved = &diagnose.MovedEntry{Vhost: p.plan.Text("vhost"), Entry: p.plan.Text("entry_exchange")}
		middle, exists := after.Desired.Exchanges[o.Entry]
		o.Moved.StaysOpen = exists && !middle.Internal && o.Entry != o.Moved.Entry && o.Vhost == o.Moved.Vhost
		o.Inbound = r.inbound(ctx, p.state)
	}
	return append(diags, o.Diagnostic())
}

// attributesOf are the attributes of a resource by their names.
func attributesOf(resource tftypes.Value) map[string]tftypes.Value {
	attributes := map[string]tftypes.Value{}
	_ = resource.As(&attributes) // what Terraform sends is an object
	return attributes
}
