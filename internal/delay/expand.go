package delay

import (
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Expand is the full set of objects that the cascade stands for.
func (c Cascade) Expand() topology.Topology {
	t := topology.New()
	t.Entry = c.Exchange(c.Levels - 1)
	c.around().addAround(&t)
	var own []string     // exchanges of the levels, and the delivery exchange if it belongs to the cascade
	var queues [][]Queue // by level
	for level := range c.Levels {
		queues = append(queues, c.DelayQueues(level))
		e := c.around().topicExchange(c.Exchange(level))
		e.Internal = c.InternalLevels && e.Name != t.Entry
		t.Exchanges[e.Name] = e
		own = append(own, e.Name)
		for _, q := range queues[level] {
			t.Queues[q.Name] = topology.Queue{Name: q.Name, Durable: true, Arguments: c.arguments(q)}
		}
		c.addBindings(t, level, queues)
	}
	if c.CreateDeliveryExchange {
		own = append(own, c.DeliveryExchange)
	}
	if a := c.around(); a.parks && a.byPolicy {
		parking := a.policy(own)
		t.Policies[parking.Name] = parking
	}
	return t
}

// Exchange is the exchange of the level; below level 0 it is the delivery exchange.
func (c Cascade) Exchange(level int) string {
	if level < 0 {
		return c.DeliveryExchange
	}
	if c.IsUniform() {
		return c.ExchangeName.Name(level)
	}
	return c.ExchangeName.Labelled(UnitsLabel(c.Units[c.Levels-1-level:]))
}

// DelayQueues are those of a level: one for each number but 0.
func (c Cascade) DelayQueues(level int) []Queue {
	var queues []Queue
	scale := c.Scale()
	most := scale.LargestNumber(level)
	for number := 1; number <= most; number++ {
		queues = append(queues, Queue{c.DelayQueueName(level, number), level, number, scale.TTL(level, number)})
	}
	return queues
}

// DelayQueueName is the name of the level's queue for a number.
func (c Cascade) DelayQueueName(level, number int) string {
	if c.IsUniform() {
		return c.QueueName.Queue(c.Base, level, number)
	}
	return c.QueueName.Labelled(DurationText(time.Duration(number) * c.Units[c.Levels-1-level]))
}

func (c Cascade) arguments(q Queue) topology.Arguments {
	arguments := c.around().delayArguments(q.TTL, c.Exchange(q.Level-1))
	if presets[c.Preset].untyped {
		delete(arguments, "x-queue-type")
	}
	return arguments
}

// addBindings binds the exchange of the level to the queues of each next word that is not 0 within the lookahead. It
// also binds it to the exchange behind as many zeros. The keys exclude each other, so every message takes exactly one
// way.
func (c Cascade) addBindings(t topology.Topology, level int, queues [][]Queue) {
	source := c.Exchange(level)
	reach := min(c.Lookahead, level+1)
	for zeros := range reach {
		for _, q := range queues[level-zeros] {
			t.Bindings.Add(topology.Binding{
				Source: source, RoutingKey: c.hop(level, zeros, q.Number).Key(),
				DestinationType: topology.ToQueue, Destination: q.Name,
			})
		}
	}
	t.Bindings.Add(topology.Binding{
		Source: source, RoutingKey: c.hop(level, reach, 0).Key(),
		DestinationType: topology.ToExchange, Destination: c.Exchange(level - reach),
	})
}

// hop is the way on from a level that so many zeros take, and then the number, or none if it is 0.
func (c Cascade) hop(level, zeros, number int) Hop {
	h := Hop{Above: c.Levels - 1 - level, Zeros: zeros, Number: number}
	if c.StrictKeys && level == c.Levels-1 {
		const firstWordOfAddress = 1
		h.Below = c.Levels - h.Words() + firstWordOfAddress
	}
	return h
}
