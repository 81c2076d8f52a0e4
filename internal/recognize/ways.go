package recognize

import (
	"context"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// LeadsTo tells whether what an exchange leads into delay queues ends in another exchange.
func LeadsTo(ctx context.Context, look Lookup, exchange, end string) (bool, error) {
	o := newObjects(ctx, look, "")
	leads := o.leadsTo(exchange, end)
	return leads, o.failure
}

// Delays tells whether an exchange leads into delay queues: that of a level, or the entry of a ladder. Its name says
// nothing.
func Delays(ctx context.Context, look Lookup, exchange string) (bool, error) {
	o := newObjects(ctx, look, "")
	delays, _ := o.next(exchange)
	return delays, o.failure
}

// LeadsOn tells whether a binding has a key like those of a level's exchange or of a ladder's entry.
func LeadsOn(b topology.Binding) bool {
	_, isHop := delay.ParseHop(b.RoutingKey)
	_, isRung := delay.ParseRungKey(b.RoutingKey)
	return b.Arguments == "" && (isHop || isRung)
}

// LevelsOf is the number of levels that the binding of a level's exchange to the delivery exchange shows. Not ok is any
// other binding.
func LevelsOf(b topology.Binding) (levels int, ok bool) {
	h, isHop := delay.ParseHop(b.RoutingKey)
	return h.Above + h.Words(), isHop && b.DestinationType == topology.ToExchange && b.Arguments == ""
}

// LowestOf is LevelsOf for the binding of the lowest level alone. Each cascade that ends in the delivery exchange has
// one of these.
func LowestOf(b topology.Binding) (levels int, ok bool) {
	h, _ := delay.ParseHop(b.RoutingKey)
	levels, ok = LevelsOf(b)
	return levels, ok && h.Words() == 1
}

func (o *objects) leadsTo(exchange, end string) bool {
	seen := map[string]bool{exchange: true}
	for todo := []string{exchange}; len(todo) > 0; todo = todo[1:] {
		delays, exchanges := o.next(todo[0])
		for _, name := range exchanges {
			if delays && name == end {
				return true
			}
			if delays && !seen[name] {
				seen[name] = true
				todo = append(todo, name)
			}
		}
	}
	return false
}

// next tells whether an exchange leads into delay queues, and to which exchanges messages get from it and from them. A
// level of units may have no queue, and leads to a level below that has some.
func (o *objects) next(exchange string) (delays bool, exchanges []string) {
	delays, exchanges = o.direct(exchange)
	below := exchanges
	for level := 0; level < delay.MaxLevels && !delays && len(below) > 0; level++ {
		delays, below = o.direct(below[0])
	}
	return delays, exchanges
}

// direct is next for what the exchange's own bindings say.
func (o *objects) direct(exchange string) (delays bool, exchanges []string) {
	for _, b := range o.bindings(exchange) {
		switch {
		case !LeadsOn(b):
		case b.DestinationType == topology.ToExchange:
			exchanges = append(exchanges, b.Destination)
		default:
			if q := o.queue(b.Destination); q.Delays() {
				delays = true
				exchanges = append(exchanges, q.DeadLetterExchange())
			}
		}
	}
	return delays, exchanges
}

// Upstream are the delay queues in which a message may wait that one of the bindings will take, in the direction in
// which messages move. Of bindings that are not there they are none.
func (i *Inventory) Upstream(ctx context.Context, bindings []topology.Binding) []topology.Queue {
	all, o := i.All(ctx), newObjects(ctx, i, i.vhost)
	upstream := map[string]topology.Queue{}
	for _, b := range bindings {
		for name, q := range i.There.Queues {
			if i.There.Bindings.Has(b) && o.isUpstream(q, b, all) {
				upstream[name] = q
			}
		}
	}
	return topology.Topology{Queues: upstream}.Downstream(upstream)
}

// isUpstream tells whether a message in the queue may end at the binding. A key for another number of levels matches no
// message of a cascade.
func (o *objects) isUpstream(q topology.Queue, b topology.Binding, all []Found) bool {
	key, _ := delay.ParseDestinationKey(b.RoutingKey)
	known := false
	for _, found := range all {
		want, has := found.Queues[q.Name]
		known = known || has
		if want.Delays() && found.Delivery == b.Source &&
			(found.Kind == KindLadder || key.Match != delay.Exact || key.Levels == found.Levels) {
			return true
		}
	}
	// What nobody recognizes may be all that is left of a cascade.
	return !known && q.Delays() && o.handsOn(q.DeadLetterExchange(), b.Source)
}

// handsOn tells whether a delay queue that dead-letters into the exchange can be one of a cascade or ladder that ends
// in another one. The queues of applications may dead-letter into an entry, those of a cascade do not.
func (o *objects) handsOn(exchange, end string) bool {
	isLower := slices.ContainsFunc(o.bindings(exchange), func(b topology.Binding) bool {
		h, isHop := delay.ParseHop(b.RoutingKey)
		return isHop && h.Above > 0 && b.Arguments == ""
	})
	return exchange == end || isLower && o.leadsTo(exchange, end)
}
