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
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// lookAtTopologyDestroy says what the destroy of a cascade or ladder takes along.
func lookAtTopologyDestroy[C any](ctx context.Context, r *managed[C], p planning[C]) {
	p.resp.Diagnostics.Append(warnInFlight(ctx, r, p)...)
	p.resp.Diagnostics.Append(r.entrySubject(p.state).TakesAlong(r.lost(ctx, p))...)
	p.resp.Diagnostics.Append(r.note(ctx, p)...)
}

// lookAtTopology says when a change of a cascade or ladder replaces or rebuilds what there is, or removes queues. It
// asks the broker for warnings and refusals only, see plan_look.go.
func lookAtTopology[C any](ctx context.Context, r *managed[C], p planning[C]) {
	diags := &p.resp.Diagnostics
	diags.Append(r.checkArguments(p)...)
	diags.Append(r.note(ctx, p)...)
	if p.state == nil {
		switch {
		case p.isSecondHalf(ctx):
			diags.Append(r.lookForReplacement(ctx, p)...)
		case diags.HasError():
			diags.Append(r.lookForDisplaced(ctx, p)...)
		default:
			diags.Append(r.lookForCreate(ctx, p)...)
		}
		return
	}
	altered := p.withoutUnitsThatFollow(r.kind.alteredBy(p.state, p.plan, p.before, p.after))
	var others plan.Others
	if len(altered) > 0 && !samePlace(p.state, p.plan) {
		p.resp.RequiresReplace = append(p.resp.RequiresReplace, altered...)
		others.Lost = r.lost(ctx, p)
	} else {
		var more diag.Diagnostics
		others, more = r.lookForUpdate(ctx, p, len(altered) > 0)
		diags.Append(more...)
		diags.Append(r.warnKeys(p)...)
	}
	if len(altered) > 0 {
		diags.Append(warnOverhaul(ctx, r, p, altered, others)...)
	} else if p.after != nil {
		diags.Append(r.warnRemoved(ctx, p, others.Lost)...)
	}
}

// withoutUnitsThatFollow leaves units out of what alters the objects where the configuration gives none, and something
// else alters them.
func (p planning[C]) withoutUnitsThatFollow(altered path.Paths) path.Paths {
	if given := p.config["units"]; given == nil || !given.IsNull() || len(altered) == 1 {
		return altered
	}
	return slices.DeleteFunc(altered, path.Root("units").Equal)
}

// planDeliveryType plans the type of a delivery exchange of which any will do: what it was, if it is the same one.
func planDeliveryType(plan, state attribute.Values) {
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
func warnInFlight[C any](ctx context.Context, r *managed[C], p planning[C]) diag.Diagnostics {
	waits, diags := p.waiting(ctx)
	if waits == nil || waits.IsNone() {
		return diags
	}
	if held, _ := r.held(ctx, p); held != nil && r.isOfOthers(ctx, *held) {
		return diags
	}
	s := r.entrySubject(p.state)
	s.Options = optionsOf(p.state)
	return append(diags, s.InFlight(waits))
}

// warnRemoved says what an update that removes queues has in its way, what publishers see of it, and which bindings of
// others go.
func (r *managed[C]) warnRemoved(ctx context.Context, p planning[C], lost []topology.Binding) diag.Diagnostics {
	removed := slices.Collect(maps.Values(p.before.Desired.Extras(p.after.Desired).Queues))
	if len(removed) == 0 {
		return nil
	}
	s := r.entrySubject(p.state)
	s.Options = optionsOf(p.plan)
	waits, diags := p.waiting(ctx)
	if waits != nil && !waits.In(removed).IsNone() {
		diags.Append(s.InRemoved(waits.In(removed)))
	}
	parks := p.plan.IsTrue("park_unroutable")
	removed = slices.DeleteFunc(removed, func(q topology.Queue) bool { return !q.Delays() })
	switch longest := p.after.Scale.Longest; {
	case len(removed) == 0:
	case longest > 0:
		diags.Append(s.ReachesLess(removed, longest, parks))
	default: // a ladder has none
		diags.Append(s.DelaysRemoved(removed, parks))
	}
	return append(diags, s.TakesAlong(lost)...)
}

// checkArguments says what the arguments of queues do to messages, and refuses those that delete them. Queues that the
// state has are the business of a refresh.
func (r *managed[C]) checkArguments(p planning[C]) diag.Diagnostics {
	if p.after == nil {
		return nil
	}
	made := maps.Clone(p.after.Desired.Queues)
	if p.before != nil {
		maps.DeleteFunc(made,
			func(name string, q topology.Queue) bool { return q.Equal(p.before.Desired.Queues[name]) })
	}
	return r.entrySubject(p.plan).Arguments(made)
}

// warnKeys says which keys publishers can no longer use for delays that stay.
func (r *managed[C]) warnKeys(p planning[C]) diag.Diagnostics {
	if p.after == nil {
		return nil
	}
	return r.entrySubject(p.state).KeysRemoved(r.kind.lostKeys(p.before.Config, p.after.Config),
		p.plan.IsTrue("park_unroutable"))
}

// entrySubject has the words for a cascade or ladder of which the state or the plan has the entry.
func (r *managed[C]) entrySubject(v attribute.Values) diagnose.Subject {
	return diagnose.OfEntry(r.kind.name, v.Text("vhost"), v.Text("entry_exchange"))
}

// waiting is what the last refresh counted, nil if that is not known.
func (p planning[C]) waiting(ctx context.Context) (*diagnose.Waiting, diag.Diagnostics) {
	var waits diagnose.Waiting
	if found, diags := getPrivate(ctx, p.req.Private, inFlightKey, &waits); !found {
		return nil, diags
	}
	return &waits, nil
}

// warnOverhaul says what a replacement or a rebuild does.
func warnOverhaul[C any](
	ctx context.Context, r *managed[C], p planning[C], altered path.Paths, others plan.Others,
) diag.Diagnostics {
	waits, diags := p.waiting(ctx)
	o := diagnose.Overhaul{
		Kind: r.kind.name, Vhost: p.state.Text("vhost"), Entry: p.state.Text("entry_exchange"), Waits: waits,
		Because:  diagnose.Reasons(plaintext.Texts(altered, path.Path.String), p.config, p.state, p.plan),
		Delivery: p.state.Text("delivery_exchange"), NewDelivery: p.plan.Text("delivery_exchange"),
		Queue: p.state.Text("deliver_to_queue"), NewQueue: p.plan.Text("deliver_to_queue"),
		Others: others,
	}
	var after topology.Topology
	if p.after != nil {
		after, o.Before, o.After = p.after.Desired, &p.before.Scale, &p.after.Scale
	}
	if samePlace(p.state, p.plan) {
		o.Guard = optionsOf(p.plan).Guard // an update goes by the plan, and a destroy by the state
		o.KeepsParked = plan.KeepsParked(p.before.Desired, after)
	} else {
		o.Guard = optionsOf(p.state).Guard
		o.Moved = &diagnose.MovedEntry{Vhost: p.plan.Text("vhost"), Entry: p.plan.Text("entry_exchange")}
		middle, exists := after.Exchanges[o.Entry]
		o.Moved.StaysOpen = exists && !middle.Internal && o.Entry != o.Moved.Entry && o.Vhost == o.Moved.Vhost
	}
	return append(diags, o.Diagnostic())
}
