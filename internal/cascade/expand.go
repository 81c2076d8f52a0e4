package cascade

import (
	"math"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Expand is the full set of objects that the configuration stands for. An error is of type
// Errors: one entry for every attribute that is wrong.
func Expand(config Config) (topology.Topology, error) {
	c, err := config.Resolve()
	if err != nil {
		return topology.Topology{}, err
	}
	t := topology.New()
	t.Entry = c.exchange(c.Levels - 1)
	t.Delivery = c.DeliveryExchange
	if c.CreateDeliveryExchange {
		t.Exchanges[c.DeliveryExchange] = c.topicExchange(c.DeliveryExchange)
	}
	for level := range c.Levels {
		t.Exchanges[c.exchange(level)] = c.topicExchange(c.exchange(level))
		c.addQueue(t, level)
		c.addBindings(t, level)
	}
	if c.ParkUnroutable {
		c.addParking(t)
	}
	return t, nil
}

// exchange is the exchange of the level; what is below level 0 is the delivery exchange.
func (c Config) exchange(level int) string {
	if level < 0 {
		return c.DeliveryExchange
	}
	return c.ExchangeName.Name(level)
}

// topicExchange is what every exchange of the cascade is, but for the alternate exchange.
func (c Config) topicExchange(name string) topology.Exchange {
	e := topology.Exchange{Name: name, Type: "topic", Durable: true}
	if c.ParkUnroutable {
		e.Arguments = topology.Arguments{"alternate-exchange": c.parking()}
	}
	return e
}

func (c Config) addQueue(t topology.Topology, level int) {
	arguments := c.plainArguments(level)
	c.adjust(arguments)
	name := c.QueueName.Name(level)
	t.Queues[name] = topology.Queue{Name: name, Durable: true, Arguments: arguments}
}

// plainArguments are those of the queue of the level without a preset.
func (c Config) plainArguments(level int) topology.Arguments {
	arguments := topology.Arguments{
		"x-queue-type":           string(c.QueueType),
		"x-message-ttl":          c.TTL(level).Milliseconds(),
		"x-dead-letter-exchange": c.exchange(level - 1),
	}
	if c.QueueType == Quorum {
		// Together these make RabbitMQ keep a message until the next queue has confirmed it
		// (3.10); without either it falls back to at-most-once without a word.
		arguments["x-dead-letter-strategy"] = "at-least-once"
		arguments["x-overflow"] = "reject-publish"
	}
	if c.MaxLength > 0 {
		arguments["x-max-length"] = c.MaxLength
	}
	return arguments
}

// addBindings binds the exchange of the level to the queue of each next set bit within the
// lookahead, and on to the exchange behind as many clear bits. The keys exclude each other, so
// every message takes exactly one way.
func (c Config) addBindings(t topology.Topology, level int) {
	source := c.exchange(level)
	reach := min(c.Lookahead, level+1)
	for zeros := range reach {
		t.Bindings.Add(topology.Binding{
			Source: source, RoutingKey: c.waitKey(level, zeros),
			DestinationType: topology.ToQueue, Destination: c.QueueName.Name(level - zeros),
		})
	}
	t.Bindings.Add(topology.Binding{
		Source: source, RoutingKey: c.passKey(level, reach),
		DestinationType: topology.ToExchange, Destination: c.exchange(level - reach),
	})
}

// addParking adds the alternate exchange and its queue, where a message that no binding takes is
// kept until somebody looks at it.
func (c Config) addParking(t topology.Topology) {
	name := c.parking()
	t.Exchanges[name] = parkingExchange(name)
	arguments := topology.Arguments{"x-queue-type": string(c.QueueType)}
	if c.QueueType == Quorum {
		// RabbitMQ 4.0 drops a message of a quorum queue that is looked at (got and requeued) for
		// the 20th time. -1 means no limit there, but drops at the first look on 3.10.
		arguments["x-delivery-limit"] = int64(math.MaxInt32)
	}
	t.Queues[name] = topology.Queue{Name: name, Durable: true, Arguments: arguments}
	// A fanout exchange ignores the key; "#" says in a plan what that means.
	t.Bindings.Add(topology.Binding{Source: name, RoutingKey: "#", DestinationType: topology.ToQueue, Destination: name})
}

func parkingExchange(name string) topology.Exchange {
	return topology.Exchange{Name: name, Type: "fanout", Durable: true}
}
