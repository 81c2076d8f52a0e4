package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// glance is how long a plan waits for a broker, which may not be there yet.
const glance = 3 * time.Second

// checkNames checks the names of a plan: by what else is planned, and by the broker if it answers. Names that have not
// changed are not asked for. A quorum queue behind classic delay queues is, in every plan: they may have changed.
func (r *destinationResource) checkNames(ctx context.Context, plan *destinationModel, changed bool) diag.Diagnostics {
	if r.connection == nil || plan.Vhost.IsUnknown() {
		return nil
	}
	planned := r.connection.planned.in(plan.Vhost.ValueString())
	diags, ends := misnamedInPlan(plan.config(), planned)
	behindClassic := isBehindClassic(plan.config(), planned)
	if diags.HasError() || r.connection.client == nil || plan.hasUnknownName() {
		return diags
	}
	o, more := r.newOperation(plan)
	if more.HasError() {
		return diags
	}
	ctx, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	o.options.DeliveryPlanned, o.options.BehindClassic = ends, behindClassic
	var before []topology.Binding
	if !changed {
		before = append(before, o.binding)
	}
	problems := o.engine.Preview(ctx, o.change("planned", before, o.binding))
	return append(diags, o.explainAll("plan", problems, nil)...)
}

// misnamedInPlan checks the names by what the plan has, and tells whether that includes what ends in the delivery
// exchange. Names that are not known yet are empty.
func misnamedInPlan(d delay.Destination, all []planned) (diags diag.Diagnostics, ends bool) {
	there := map[int]bool{}
	to := topology.Binding{Source: d.DeliveryExchange, DestinationType: topology.ToQueue, Destination: d.Queue}
	if d.Exchange != "" {
		to.DestinationType, to.Destination = topology.ToExchange, d.Exchange
	}
	for _, one := range all {
		names := misnaming{d.Vhost, fmt.Sprintf("the %s with entry exchange %q", one.kind, one.Entry)}
		leadsOn := func(exchange string) bool { return one.Owns(exchange) && one.Exchanges[exchange].Type == "topic" }
		if leadsOn(d.DeliveryExchange) {
			diags.Append(names.explain(&engine.MisnamedError{Misnaming: engine.DelaysBehind, Binding: to}))
		}
		if one.Queues[d.Queue].Delays() {
			diags.Append(names.explain(&engine.MisnamedError{Misnaming: engine.IsDelayQueue, Binding: to}))
		}
		if one.Delivery == d.DeliveryExchange {
			there[one.scale.Levels] = true
			if leadsOn(d.Exchange) {
				diags.Append(names.explain(&engine.MisnamedError{Misnaming: engine.GoesInCircles, Binding: to}))
			}
		}
	}
	return append(diags, otherLevels(d, there)...), len(there) > 0
}

// isBehindClassic tells whether the destination takes messages of a planned cascade or ladder of classic delay queues.
func isBehindClassic(d delay.Destination, all []planned) bool {
	return slices.ContainsFunc(all, func(one planned) bool {
		takes := one.Delivery == d.DeliveryExchange && (d.Match != delay.Exact || d.Levels == one.scale.Levels)
		return takes && slices.ContainsFunc(slices.Collect(maps.Values(one.Queues)),
			func(q topology.Queue) bool { return q.Delays() && q.Type() == "classic" })
	})
}

// hasUnknownName tells whether the binding is not known yet.
func (m *destinationModel) hasUnknownName() bool {
	return m.Vhost.IsUnknown() || m.DeliveryExchange.IsUnknown() || m.Queue.IsUnknown() || m.Exchange.IsUnknown() ||
		m.RoutingKey.IsUnknown()
}
