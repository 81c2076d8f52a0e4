package resource

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/private"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// lookAtTopologyDestroy says what the destroy of a cascade or ladder takes along.
func lookAtTopologyDestroy[C any](ctx context.Context, r *managed[C], p planning) {
	p.resp.Diagnostics.Append(warnInFlight(ctx, r, p)...)
	p.resp.Diagnostics.Append(r.prior(p.state).TakesAlong(r.lost(ctx, p.state))...)
	p.resp.Diagnostics.Append(r.note(ctx, p)...)
}

// lookAtTopology says when a change of a cascade or ladder replaces or rebuilds what there is, or removes queues. It
// asks the broker for warnings and refusals only, see plan_look.go.
func lookAtTopology[C any](ctx context.Context, r *managed[C], p planning) {
	diags := &p.resp.Diagnostics
	diags.Append(r.checkArguments(p)...)
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
	var others plan.Others
	if len(altered) > 0 && !samePlace(p.state, p.plan) {
		p.resp.RequiresReplace = append(p.resp.RequiresReplace, altered...)
		others.Lost = r.lost(ctx, p.state)
	} else {
		others, more = r.lookForUpdate(ctx, p, len(altered) > 0)
		diags.Append(more...)
		diags.Append(r.warnKeys(p)...)
	}
	if len(altered) > 0 {
		diags.Append(warnOverhaul(ctx, r, p, altered, others)...)
	} else if lost := r.kind.lostQueues(p.state, p.plan); len(lost) > 0 {
		diags.Append(warnInRemoved(ctx, r, p, lost)...)
		diags.Append(r.warnRemoved(p, lost)...)
		diags.Append(r.prior(p.state).TakesAlong(others.Lost)...)
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

// checkArguments says what the arguments of queues do to messages, and refuses those that delete them. Queues that the
// state has are the business of a refresh.
func (r *managed[C]) checkArguments(p planning) diag.Diagnostics {
	if !r.kind.IsKnown(p.plan) {
		return nil
	}
	after, diags := r.kind.Of(p.plan)
	if diags.HasError() {
		return diags
	}
	made := maps.Clone(after.Desired.Queues)
	if p.state != nil {
		before, _ := r.kind.Of(p.state) // of a wrong state the refresh has said so
		maps.DeleteFunc(made, func(name string, q topology.Queue) bool { return q.Equal(before.Desired.Queues[name]) })
	}
	return r.prior(p.plan).Arguments(made)
}

// warnKeys says which keys publishers can no longer use for delays that stay.
func (r *managed[C]) warnKeys(p planning) diag.Diagnostics {
	if !r.kind.IsKnown(p.plan) {
		return nil
	}
	before, diags := r.kind.Of(p.state)
	after, more := r.kind.Of(p.plan)
	if diags.HasError() || more.HasError() { // which the look has said
		return nil
	}
	return r.prior(p.state).KeysRemoved(r.kind.lostKeys(before.Config, after.Config), p.plan.IsTrue("park_unroutable"))
}

// prior has the words for a cascade or ladder of which the state or the plan has the entry.
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
func warnOverhaul[C any](
	ctx context.Context, r *managed[C], p planning, altered path.Paths, others plan.Others,
) diag.Diagnostics {
	waits, diags := p.waiting(ctx)
	o := diagnose.Overhaul{
		Kind: r.kind.name, Vhost: p.state.Text("vhost"), Entry: p.state.Text("entry_exchange"), Waits: waits,
		Because:  diagnose.Reasons(plaintext.Texts(altered, path.Path.String), p.config, p.state, p.plan),
		Delivery: p.state.Text("delivery_exchange"), NewDelivery: p.plan.Text("delivery_exchange"),
		Queue: p.state.Text("deliver_to_queue"), NewQueue: p.plan.Text("deliver_to_queue"),
		Others: others,
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
	}
	return append(diags, o.Diagnostic())
}
