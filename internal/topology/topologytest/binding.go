package topologytest

import "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"

// ToQueue is a binding to a queue.
func ToQueue(source, key, queue string) topology.Binding {
	return topology.Binding{Source: source, RoutingKey: key, DestinationType: topology.ToQueue, Destination: queue}
}

// ToExchange is a binding to an exchange.
func ToExchange(source, key, exchange string) topology.Binding {
	return topology.Binding{Source: source, RoutingKey: key, DestinationType: topology.ToExchange,
		Destination: exchange}
}
