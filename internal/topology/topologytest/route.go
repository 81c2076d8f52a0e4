// Package topologytest routes messages through a topology, as RabbitMQ does. A topology, an exchange and a key come in,
// and the queues go out that get the message: call Route. Router.Follow follows a message to the end of its way.
package topologytest

import (
	"maps"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Route lists the queues that a message with the key reaches from the exchange, each once.
func Route(t topology.Topology, exchange, key string) []string {
	return NewRouter(t).Route(exchange, key)
}

// Router routes messages through one topology, which must not change meanwhile.
type Router struct {
	topology topology.Topology
	bound    map[string][]target
}

type target struct {
	key     string
	pattern topology.TopicKey
	topology.Binding
}

// NewRouter prepares the bindings of a topology for many messages.
func NewRouter(t topology.Topology) *Router {
	r := &Router{topology: t, bound: map[string][]target{}}
	for b := range t.Bindings {
		r.bound[b.Source] = append(r.bound[b.Source], target{b.RoutingKey, topology.ParseTopicKey(b.RoutingKey), b})
	}
	return r
}

// Route lists the queues that a message with the key reaches from the exchange, each once and
// sorted. Exchanges bound to exchanges are part of one routing step, in which each is visited
// once. An alternate exchange stands in exactly if no binding of the exchange itself matches, to
// whatever that leads (rabbit_exchange:route/3, 3.10 to 4.3).
func (r *Router) Route(exchange, key string) []string {
	if exchange == "" {
		if _, exists := r.topology.Queues[key]; exists {
			return []string{key}
		}
		return nil
	}
	var (
		reached  = map[string]struct{}{}
		seen     = map[string]bool{exchange: true}
		worklist = []string{exchange}
		message  = topology.ParseTopicKey(key)
	)
	visit := func(name string) {
		if !seen[name] {
			seen[name] = true
			worklist = append(worklist, name)
		}
	}
	for len(worklist) > 0 {
		e, exists := r.topology.Exchanges[worklist[0]]
		worklist = worklist[1:]
		if !exists {
			continue
		}
		taken := false
		for _, to := range r.bound[e.Name] {
			if !to.takes(e.Type, key, message) {
				continue
			}
			taken = true
			if to.DestinationType == topology.ToExchange {
				visit(to.Destination)
			} else {
				reached[to.Destination] = struct{}{}
			}
		}
		if alternate := r.topology.AlternateOf(e.Name); !taken && alternate != "" {
			visit(alternate)
		}
	}
	return slices.Sorted(maps.Keys(reached))
}

// Arrival is the end of one message's way.
type Arrival struct {
	// Queue holds the message for good. It is empty if the message is lost. Then nothing takes it, or it comes into a
	// queue that it has already expired in, which RabbitMQ drops as a cycle.
	Queue string
	// Path are the queues in which the message expired on its way.
	Path []string
	// Delay is the sum of their TTLs.
	Delay time.Duration
}

// Follow publishes a message to the exchange and follows every copy of it to its end.
func (r *Router) Follow(exchange, key string) []Arrival {
	return r.follow(exchange, key, Arrival{})
}

func (r *Router) follow(exchange, key string, sofar Arrival) []Arrival {
	queues := r.Route(exchange, key)
	if len(queues) == 0 {
		return []Arrival{sofar}
	}
	var arrivals []Arrival
	for _, name := range queues {
		arguments := r.topology.Queues[name].Arguments
		ttl, expires := arguments["x-message-ttl"].(int64)
		next, deadLetters := arguments["x-dead-letter-exchange"].(string)
		switch {
		case !expires || !deadLetters:
			arrivals = append(arrivals, Arrival{Queue: name, Path: sofar.Path, Delay: sofar.Delay})
		case slices.Contains(sofar.Path, name):
			arrivals = append(arrivals, sofar)
		default:
			nextKey := key
			if changed, ok := arguments["x-dead-letter-routing-key"].(string); ok {
				nextKey = changed
			}
			arrivals = append(arrivals, r.follow(next, nextKey, Arrival{
				Path:  append(slices.Clone(sofar.Path), name),
				Delay: sofar.Delay + time.Duration(ttl)*time.Millisecond,
			})...)
		}
	}
	return arrivals
}

func (t target) takes(exchangeType, key string, message topology.TopicKey) bool {
	switch exchangeType {
	case "fanout":
		return true
	case "direct":
		return t.key == key
	case "topic":
		return t.pattern.Matches(message)
	default:
		panic("the model knows no exchanges of type " + exchangeType)
	}
}
