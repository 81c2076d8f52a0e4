package resource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// glance is how long a plan waits for a broker, which may not be there yet.
const glance = 3 * time.Second

// checkNames checks the names of a plan: by what else is planned, and by the broker if it answers. Names that have not
// changed are not asked for. A quorum queue behind classic delay queues is, in every plan: they may have changed.
func (r *destinationResource) checkNames(ctx context.Context, plan *destinationModel, changed bool) diag.Diagnostics {
	if r.Connection == nil || plan.Vhost.IsUnknown() {
		return nil
	}
	planned := r.Connection.Planned.In(plan.Vhost.ValueString())
	diags, ends := misnamedInPlan(plan.config(), planned)
	behindClassic := isBehindClassic(plan.config(), planned)
	if diags.HasError() || r.Connection.Client == nil || plan.hasUnknownName() {
		return diags
	}
	o, more := r.newOperation(plan)
	if more.HasError() {
		return diags
	}
	ctx, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	o.subject.Options.DeliveryPlanned, o.subject.Options.BehindClassic = ends, behindClassic
	var before []topology.Binding
	if !changed {
		before = append(before, o.subject.Binding)
	}
	problems := o.engine.Preview(ctx, o.change("planned", before, o.subject.Binding))
	return append(diags, o.subject.ExplainAll("plan", problems, nil)...)
}

// misnamedInPlan checks the names by what the plan has, and tells whether that includes what ends in the delivery
// exchange. Names that are not known yet are empty.
func misnamedInPlan(d delay.Destination, all []connection.Planned) (diags diag.Diagnostics, ends bool) {
	there := map[int]bool{}
	to := topology.Binding{Source: d.DeliveryExchange, DestinationType: topology.ToQueue, Destination: d.Queue}
	if d.Exchange != "" {
		to.DestinationType, to.Destination = topology.ToExchange, d.Exchange
	}
	for _, one := range all {
		names := diagnose.Misnaming{Vhost: d.Vhost,
			Of: fmt.Sprintf("the %s with entry exchange %q", one.Kind, one.Entry)}
		leadsOn := func(exchange string) bool { return one.Owns(exchange) && one.Exchanges[exchange].Type == "topic" }
		if leadsOn(d.DeliveryExchange) {
			diags.Append(names.Explain(&engine.MisnamedError{Misnaming: engine.DelaysBehind, Binding: to}))
		}
		if one.Queues[d.Queue].Delays() {
			diags.Append(names.Explain(&engine.MisnamedError{Misnaming: engine.IsDelayQueue, Binding: to}))
		}
		if one.Delivery == d.DeliveryExchange {
			there[one.Scale.Levels] = true
			if leadsOn(d.Exchange) {
				diags.Append(names.Explain(&engine.MisnamedError{Misnaming: engine.GoesInCircles, Binding: to}))
			}
		}
	}
	return append(diags, diagnose.OtherLevels(d, there)...), len(there) > 0
}

// isBehindClassic tells whether the destination takes messages of a planned cascade or ladder of classic delay queues.
func isBehindClassic(d delay.Destination, all []connection.Planned) bool {
	return slices.ContainsFunc(all, func(one connection.Planned) bool {
		takes := one.Delivery == d.DeliveryExchange && (d.Match != delay.Exact || d.Levels == one.Scale.Levels)
		return takes && slices.ContainsFunc(slices.Collect(maps.Values(one.Queues)),
			func(q topology.Queue) bool { return q.Delays() && q.Type() == "classic" })
	})
}

// hasUnknownName tells whether the binding is not known yet.
func (m *destinationModel) hasUnknownName() bool {
	return m.Vhost.IsUnknown() || m.DeliveryExchange.IsUnknown() || m.Queue.IsUnknown() || m.Exchange.IsUnknown() ||
		m.RoutingKey.IsUnknown()
}

// checkPlannedOnce refuses a second new destination with the binding of another one in the same plan. It notes the
// binding among those that are planned.
func (m *destinationModel) checkPlannedOnce(planned *sync.Map) diag.Diagnostics {
	b, diags := m.binding()
	if diags.HasError() {
		return diags
	}
	object := engine.BindingObject(m.Vhost.ValueString(), b)
	if _, twice := planned.LoadOrStore(object, true); twice {
		diags.AddError("Binding is planned twice", fmt.Sprintf(
			"The %s in vhost %q is planned twice: another resource of this configuration is to make it, too. "+
				"Two destinations cannot have one binding: change or remove one of them.", object.Name, object.Vhost))
	}
	return diags
}
