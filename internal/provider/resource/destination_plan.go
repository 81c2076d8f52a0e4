package resource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// lookAtDestination checks the names of a plan, and says whose messages a change leaves without a way.
func lookAtDestination(ctx context.Context, r *managed[delay.Destination], p planning[delay.Destination]) {
	diags := &p.resp.Diagnostics
	if p.state != nil && !samePlace(p.state, p.plan) {
		p.resp.RequiresReplace = append(p.resp.RequiresReplace, path.Root("vhost"))
		diags.Append(lookAtRemoval(ctx, r, p)...)
	}
	diags.Append(checkNames(ctx, r, p)...)
	diags.Append(handOver(r, p)...)
	if p.state == nil || diags.HasError() || p.plan[routingKey].IsUnknown() || p.plan["delivery_exchange"].IsUnknown() {
		return
	}
	diags.Append(leftBy(r.kind, p.state, p.plan)...)
}

// lookAtDestinationDestroy says whether another destination takes over, and how many messages are on their way.
func lookAtDestinationDestroy(
	ctx context.Context, r *managed[delay.Destination], p planning[delay.Destination],
) {
	p.resp.Diagnostics.Append(handOver(r, p)...)
	p.resp.Diagnostics.Append(lookAtRemoval(ctx, r, p)...)
}

// lookAtRemoval says how many messages are on their way to what a destroy or a replacement takes away.
func lookAtRemoval(
	ctx context.Context, r *managed[delay.Destination], p planning[delay.Destination],
) diag.Diagnostics {
	if !r.Connection.IsKnown() {
		return nil
	}
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	defer cancel()
	c := &change[delay.Destination]{state: p.state, private: p.req.Private}
	if wrong := r.resolve(ctx, c); wrong.HasError() {
		return nil
	}
	return lookAhead(ctx, r, c)
}

// lookAhead says what a change would meet.
func lookAhead(
	ctx context.Context, r *managed[delay.Destination], c *change[delay.Destination],
) diag.Diagnostics {
	d := diagnose.Destination{Vhost: c.engine.Vhost, Binding: bindingOf(c.is.Desired), Options: c.engine.Options}
	return d.Ahead(r.Connection.Engine.Preview(ctx, c.engine))
}

// handOver warns of a binding that passes from one destination to another.
func handOver(r *managed[delay.Destination], p planning[delay.Destination]) (diags diag.Diagnostics) {
	if r.Connection == nil || p.plan != nil && p.after == nil {
		return nil
	}
	of := func(x *attribute.Resolved[delay.Destination]) (d diagnose.Destination) {
		if x != nil {
			d.Vhost, d.Binding = x.Config.Vhost, bindingOf(x.Desired)
		}
		return d
	}
	before, after := of(p.before), of(p.after)
	if before.Vhost == after.Vhost && before.Binding == after.Binding {
		return nil
	}
	if p.before != nil && r.Connection.Ledger.NoteUnbind(before.Vhost, before.Binding) {
		diags.Append(before.PassesOn())
	}
	if p.after != nil && r.Connection.Ledger.NoteBind(after.Vhost, after.Binding) {
		diags.Append(after.PassesOn())
	}
	return diags
}

// leftBy warns of the messages that nobody takes once the plan is carried out.
func leftBy(k *kind[delay.Destination], state, plan attribute.Values) diag.Diagnostics {
	sameExchange := state["delivery_exchange"].Equal(plan["delivery_exchange"])
	if sameExchange && k.Config(plan).TakesAll(k.Config(state)) {
		return nil
	}
	before := diagnose.Destination{Vhost: state.Text("vhost"), Binding: place(state)}
	return diag.Diagnostics{before.Moves(place(plan), state.Text("address"))}
}

// place is where a binding is among those of a vhost, and where it leads.
func place(v attribute.Values) topology.Binding {
	b := delay.Destination{DeliveryExchange: v.Text("delivery_exchange"), Queue: v.Text("queue"),
		Exchange: v.Text("exchange")}.Place()
	b.RoutingKey = v.Text(routingKey)
	return b
}

// destinationLookTimeout is how long a plan waits for a broker, which may not be there yet.
const destinationLookTimeout = 3 * time.Second

// checkNames checks the names of a plan: by what else is planned, and by the broker if it answers. Names that have not
// changed are not asked for. A quorum queue behind classic delay queues is, in every plan: they may have changed.
// It says how many messages are on their way to what an update takes away.
func checkNames(
	ctx context.Context, r *managed[delay.Destination], p planning[delay.Destination],
) diag.Diagnostics {
	plan := p.plan
	if r.Connection == nil || plan["vhost"].IsUnknown() {
		return nil
	}
	config := r.kind.Config(plan)
	planned := r.Connection.Ledger.In(config.Vhost)
	diags, ends := misnamedInPlan(config, planned)
	leadsTo := func(one connection.Planned) bool {
		_, has := one.Queues[config.Queue]
		return has || one.Has(config.Exchange)
	}
	if diags.HasError() || r.Connection.Client == nil || p.after == nil {
		return diags
	}
	c := &change[delay.Destination]{plan: maps.Clone(plan), private: p.req.Private}
	timeout := destinationLookTimeout
	if p.state != nil && samePlace(p.state, plan) {
		c.state, timeout = p.state, lookTimeout
	}
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), timeout)
	defer cancel()
	if wrong := r.resolve(ctx, c); wrong.HasError() {
		return diags
	}
	options := &c.engine.Options
	options.DeliveryPlanned, options.BehindClassic = ends, isBehindClassic(config, planned)
	options.DestinationPlanned = slices.ContainsFunc(planned, leadsTo)
	return append(diags, lookAhead(ctx, r, c)...)
}

// misnamedInPlan checks the names by what the plan has, and tells whether that includes what ends in the delivery
// exchange. Names that are not known yet are empty.
func misnamedInPlan(d delay.Destination, all []connection.Planned) (diags diag.Diagnostics, ends bool) {
	there := map[int]bool{}
	to := d.Place()
	for _, one := range all {
		names := diagnose.Misnaming{Vhost: d.Vhost,
			Of: fmt.Sprintf("the %s with entry exchange %q", one.Kind, one.Entry)}
		leadsOn := func(exchange string) bool { return one.Owns(exchange) && one.Exchanges[exchange].Type != "fanout" }
		if leadsOn(d.DeliveryExchange) {
			diags.Append(names.Explain(&engine.MisnamedError{Misnaming: engine.DelaysBehind, Binding: to}))
		}
		if one.Queues[d.Queue].Delays() {
			diags.Append(names.Explain(&engine.MisnamedError{Misnaming: engine.IsDelayQueue, Binding: to}))
		}
		if one.Delivery == d.DeliveryExchange {
			there[one.Scale.Levels()] = true
			if leadsOn(d.Exchange) {
				diags.Append(names.Explain(&engine.MisnamedError{Misnaming: engine.GoesInCircles, Binding: to}))
			}
		}
	}
	ends = len(there) > 0
	// A ladder has one word, and a cascade more. Whether the other kind ends there, too, the plan may not know yet.
	if d.Levels == 1 || len(there) == 1 && there[1] {
		clear(there)
	}
	return append(diags, diagnose.OtherLevels(d, there)...), ends
}

// isBehindClassic tells whether the destination takes messages of a planned cascade or ladder of classic delay queues.
func isBehindClassic(d delay.Destination, all []connection.Planned) bool {
	return slices.ContainsFunc(all, func(one connection.Planned) bool {
		takes := one.Delivery == d.DeliveryExchange && (d.Match != delay.Exact || d.Levels == one.Scale.Levels())
		return takes && slices.ContainsFunc(slices.Collect(maps.Values(one.Queues)),
			func(q topology.Queue) bool { return q.Delays() && q.Type() == "classic" })
	})
}
