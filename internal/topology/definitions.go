package topology

import (
	"cmp"
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
	Exchange
	Vhost string `json:"vhost"`
}

type queueDefinition struct {
	Queue
	Vhost string `json:"vhost"`
}

type bindingDefinition struct {
	Binding
	Vhost     string          `json:"vhost"`
	Arguments json.RawMessage `json:"arguments"`
}

type policyDefinition struct {
	Policy
	Vhost string `json:"vhost"`
}

// Definitions are the objects of the topology in a vhost, in an order that does not change between
// runs. Exclusive queues are no part of any definitions.
func (t Topology) Definitions(vhost string) Definitions {
	var d Definitions
	for _, name := range slices.Sorted(maps.Keys(t.Exchanges)) {
		d.Exchanges = append(d.Exchanges, exchangeDefinition{t.Exchanges[name], vhost})
	}
	for _, name := range slices.Sorted(maps.Keys(t.Queues)) {
		if q := t.Queues[name]; !q.Exclusive {
			d.Queues = append(d.Queues, queueDefinition{q, vhost})
		}
	}
	for _, b := range t.Bindings.Sorted() {
		d.Bindings = append(d.Bindings, bindingDefinition{b, vhost, json.RawMessage(cmp.Or(b.Arguments, "{}"))})
	}
	for _, name := range slices.Sorted(maps.Keys(t.Policies)) {
		d.Policies = append(d.Policies, policyDefinition{t.Policies[name], vhost})
	}
	return d
}
