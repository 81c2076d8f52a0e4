package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Findings are the things that no change repairs, of a topology in a vhost.
func Findings(vhost string, wanted topology.Topology, state *rabbit.State) []health.Finding {
	d := &deployment{wanted: wanted}
	found := health.Findings(vhost, state.Queues, state.Status)
	found = append(found, health.Weaknesses(wanted.Queues, state.Queues)...)
	found = append(found, d.displaced(state)...)
	if wanted.Parking() != "" && !d.ownsDelivery() && state.DeliveryExists && state.DeliveryAlternate == "" {
		unless := ""
		if state.DeliveryPolicy != "" && !state.AllPolicies.AreRead() {
			unless = fmt.Sprintf("unless policy %q names one, which cannot be read, ", state.DeliveryPolicy)
		}
		found = append(found, health.Finding{
			Severity: health.Warning, Object: topology.ExchangeObject(wanted.Delivery),
			Cause: "no alternate exchange",
			Effect: unless + "a message for a destination that is not bound there is not parked. " +
				"A quorum queue keeps it and tries again every three minutes. A classic queue loses it",
		})
	}
	return found
}

// displaced are the exchanges to which a policy of the topology does not apply, or may not, because of another one.
func (d *deployment) displaced(state *rabbit.State) []health.Finding {
	var found []health.Finding
	for _, name := range slices.Sorted(maps.Keys(d.wanted.Policies)) {
		for _, rival := range d.rivals(state, d.wanted.Policies[name]) {
			for _, exchange := range rival.Exchanges {
				found = append(found, health.Finding{
					Severity: health.Warning, Object: topology.ExchangeObject(exchange),
					Cause: fmt.Sprintf("policy %q", rival.Policy.Name),
					Effect: fmt.Sprintf("its priority is %v, and that of policy %q is %v. Then RabbitMQ may not "+
						"apply that, and parks nothing here. A message that no binding takes stays in the quorum "+
						"queue before it, which tries again every three minutes. A classic queue and the entry lose "+
						"it", rival.Policy.Priority, name, d.wanted.Policies[name].Priority),
				})
			}
		}
	}
	return found
}
