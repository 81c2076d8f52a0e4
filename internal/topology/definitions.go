package topology

import (
	"encoding/json"
	"maps"
	"slices"
)

// Definitions are objects in the shape of a RabbitMQ definitions file, as the management API and
// `rabbitmqctl import_definitions` take it. Its JSON has no other keys than theirs.
type Definitions struct {
	Exchanges []exchangeDefinition `json:"exchanges"`
	Queues    []queueDefinition    `json:"queues"`
	Bindings  []bindingDefinition  `json:"bindings"`
	Policies  []policyDefinition   `json:"policies,omitempty"`
}

type exchangeDefinition struct {
	Name       string    `json:"name"`
	Vhost      string    `json:"vhost"`
	Type       string    `json:"type"`
	Durable    bool      `json:"durable"`
	AutoDelete bool      `json:"auto_delete"`
	Internal   bool      `json:"internal"`
	Arguments  Arguments `json:"arguments"`
}

type queueDefinition struct {
	Name       string    `json:"name"`
	Vhost      string    `json:"vhost"`
	Durable    bool      `json:"durable"`
	AutoDelete bool      `json:"auto_delete"`
	Arguments  Arguments `json:"arguments"`
}

type bindingDefinition struct {
	Source          string          `json:"source"`
	Vhost           string          `json:"vhost"`
	Destination     string          `json:"destination"`
	DestinationType DestinationType `json:"destination_type"`
	RoutingKey      string          `json:"routing_key"`
	Arguments       json.RawMessage `json:"arguments"`
}

type policyDefinition struct {
	Vhost      string    `json:"vhost"`
	Name       string    `json:"name"`
	Pattern    string    `json:"pattern"`
	ApplyTo    string    `json:"apply-to"`
	Definition Arguments `json:"definition"`
	Priority   float64   `json:"priority"`
}

// Definitions are the objects of the topology in a vhost, in an order that does not change between
// runs. Exclusive queues are no part of any definitions.
func (t Topology) Definitions(vhost string) Definitions {
	var d Definitions
	for _, name := range slices.Sorted(maps.Keys(t.Exchanges)) {
		e := t.Exchanges[name]
		d.Exchanges = append(d.Exchanges, exchangeDefinition{
			Name: e.Name, Vhost: vhost, Type: e.Type, Durable: e.Durable, AutoDelete: e.AutoDelete,
			Internal:  e.Internal,
			Arguments: e.Arguments.orEmpty(),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(t.Queues)) {
		q := t.Queues[name]
		if !q.Exclusive {
			d.Queues = append(d.Queues, queueDefinition{
				Name: q.Name, Vhost: vhost, Durable: q.Durable, AutoDelete: q.AutoDelete,
				Arguments: q.Arguments.orEmpty(),
			})
		}
	}
	for _, b := range t.Bindings.Sorted() {
		arguments := b.Arguments
		if arguments == "" {
			arguments = "{}"
		}
		d.Bindings = append(d.Bindings, bindingDefinition{
			Source: b.Source, Vhost: vhost, Destination: b.Destination, DestinationType: b.DestinationType,
			RoutingKey: b.RoutingKey, Arguments: json.RawMessage(arguments),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(t.Policies)) {
		p := t.Policies[name]
		d.Policies = append(d.Policies, policyDefinition{
			Vhost: vhost, Name: p.Name, Pattern: p.Pattern, ApplyTo: p.ApplyTo, Definition: p.Definition.orEmpty(),
			Priority: p.Priority,
		})
	}
	return d
}

// orEmpty makes that JSON has an object where there are no arguments.
func (a Arguments) orEmpty() Arguments {
	if a == nil {
		return Arguments{}
	}
	return a
}
