package topology_test

import (
	"encoding/json"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Every key that RabbitMQ wants is there, also where a topology leaves it out.
func TestDefinitions(t *testing.T) {
	objects := topology.New()
	objects.Exchanges["x"] = topology.Exchange{Name: "x", Type: "topic", Durable: true}
	objects.Exchanges["a"] = topology.Exchange{Name: "a", Type: "fanout", AutoDelete: true, Internal: true,
		Arguments: topology.Arguments{"alternate-exchange": "x"}}
	objects.Queues["q"] = topology.Queue{Name: "q", Durable: true,
		Arguments: topology.Arguments{"x-message-ttl": int64(134217728000)}}
	objects.Queues["mine"] = topology.Queue{Name: "mine", Exclusive: true}
	objects.Bindings.Add(topology.Binding{Source: "x", RoutingKey: "1.#", DestinationType: topology.ToQueue,
		Destination: "q"})
	objects.Bindings.Add(topology.Binding{Source: "x", RoutingKey: "0.#", DestinationType: topology.ToExchange,
		Destination: "a", Arguments: `{"n":1}`})
	const want = `{"exchanges":[` +
		`{"name":"a","type":"fanout","durable":false,"auto_delete":true,"internal":true,` +
		`"arguments":{"alternate-exchange":"x"},"vhost":"v"},` +
		`{"name":"x","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":{},"vhost":"v"}],` +
		`"queues":[{"name":"q","durable":true,"auto_delete":false,` +
		`"arguments":{"x-message-ttl":134217728000},"vhost":"v"}],` +
		`"bindings":[` +
		`{"source":"x","routing_key":"0.#","destination_type":"exchange","destination":"a","vhost":"v",` +
		`"arguments":{"n":1}},` +
		`{"source":"x","routing_key":"1.#","destination_type":"queue","destination":"q","vhost":"v","arguments":{}}]}`
	if got, err := json.Marshal(objects.Definitions("v")); err != nil || string(got) != want {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
}
