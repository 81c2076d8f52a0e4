package engine

import (
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Findings are the things that no change repairs, of a topology in a vhost.
func Findings(vhost string, wanted topology.Topology, state *rabbit.State) []health.Finding {
	found := health.Findings(vhost, state.Queues, state.Status)
	found = append(found, health.Weaknesses(wanted.Queues, state.Queues)...)
	found = append(found, displaced(wanted, state)...)
	if wanted.Parking() != "" && !wanted.OwnsDelivery() && state.DeliveryExists && state.DeliveryAlternate == "" {
		unread := state.DeliveryPolicy
		if state.AllPolicies.AreRead() {
			unread = ""
		}
		found = append(found, health.NotParked(wanted.Delivery, unread))
	}
	return found
}

// displaced are the exchanges to which a policy of the topology does not apply, or may not, because of another one.
func displaced(wanted topology.Topology, state *rabbit.State) []health.Finding {
	var found []health.Finding
	for _, name := range slices.Sorted(maps.Keys(wanted.Policies)) {
		for _, rival := range rivalsOf(wanted, wanted.Policies[name], state) {
			for _, exchange := range rival.Exchanges {
				found = append(found, health.Outranked(exchange, wanted.Policies[name], rival.Policy))
			}
		}
	}
	return found
}
