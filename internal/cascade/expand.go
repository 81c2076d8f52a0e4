package cascade

import "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"

// Expand is the full set of objects that the configuration stands for. An error is of type
// Errors: one entry for every attribute that is wrong.
func Expand(config Config) (topology.Topology, error) {
	c, err := config.Resolve()
	if err != nil {
		return topology.Topology{}, err
	}
	t := topology.New()
	t.Entry = c.exchange(c.Levels - 1)
	p := c.parts()
	p.addAround(&t)
	for level := range c.Levels {
		e := p.topicExchange(c.exchange(level))
		e.Internal = c.InternalLevels && e.Name != t.Entry
		t.Exchanges[e.Name] = e
		c.addQueue(t, level)
		c.addBindings(t, level)
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

func (c Config) addQueue(t topology.Topology, level int) {
	arguments := c.plainArguments(level)
	c.adjust(arguments)
	name := c.QueueName.Name(level)
	t.Queues[name] = topology.Queue{Name: name, Durable: true, Arguments: arguments}
}

// plainArguments are those of the queue of the level without a preset.
func (c Config) plainArguments(level int) topology.Arguments {
	return c.parts().delayArguments(c.TTL(level), c.exchange(level-1))
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
