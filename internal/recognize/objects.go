package recognize

import (
	"context"
	"fmt"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Lookup reads single objects off a broker. The bool tells whether the object exists.
type Lookup interface {
	Exchange(ctx context.Context, name string) (topology.Exchange, bool, error)
	Queue(ctx context.Context, name string) (topology.Queue, bool, error)
	// BindingsFrom lists the bindings whose source is the exchange.
	BindingsFrom(ctx context.Context, exchange string) ([]topology.Binding, error)
	// Policies are those of users in the vhost, nil if they cannot be read.
	Policies(ctx context.Context) (policy.Policies, error)
}

// objects are those of a vhost, each asked for once. What does not exist has no name. After a failure nothing more is
// found: whoever has a result looks at the failure first.
type objects struct {
	vhost    string
	exchange func(name string) topology.Exchange
	queue    func(name string) topology.Queue
	bindings func(exchange string) []topology.Binding
	policies func() policy.Policies
	failure  error
	// cascades are those that were looked for, by their entries.
	cascades map[string]func() (delay.Cascade, error)
}

func newObjects(ctx context.Context, look Lookup, vhost string) *objects {
	o := &objects{vhost: vhost, cascades: map[string]func() (delay.Cascade, error){}}
	o.exchange = once(o, func(name string) (topology.Exchange, error) {
		if name == "" { // the default exchange has no properties of its own
			return topology.Exchange{}, nil
		}
		e, _, err := look.Exchange(ctx, name)
		return e, err
	})
	o.queue = once(o, func(name string) (topology.Queue, error) {
		q, _, err := look.Queue(ctx, name)
		return q, err
	})
	o.bindings = once(o, func(exchange string) ([]topology.Binding, error) {
		if exchange == "" {
			return nil, nil
		}
		return look.BindingsFrom(ctx, exchange)
	})
	policies := once(o, func(string) (policy.Policies, error) { return look.Policies(ctx) })
	o.policies = func() policy.Policies { return policies("") }
	return o
}

// once asks for each name once, and for none after a failure.
func once[T any](o *objects, ask func(name string) (T, error)) func(name string) T {
	known := map[string]T{}
	return func(name string) T {
		answer, asked := known[name]
		if !asked && o.failure == nil {
			answer, o.failure = ask(name)
			known[name] = answer
		}
		return answer
	}
}

// notThis says why an exchange is not the entry that was asked for.
type notThis string

func (e notThis) Error() string { return string(e) }

func notThisf(format string, args ...any) notThis { return notThis(fmt.Sprintf(format, args...)) }

const errNoEntry notThis = "there is no such exchange"

// checkEntry makes sure that an exchange can be the entry of a cascade or ladder.
func (o *objects) checkEntry(name string) error {
	switch e := o.exchange(name); {
	case e.Name == "":
		return errNoEntry
	case e.Type != "topic":
		return notThisf("it is a %s exchange, and the entry of a cascade or a ladder is a topic exchange", e.Type)
	}
	return nil
}

// hop is one way on from the exchange of a level.
type hop struct {
	delay.Hop
	to string
}

// hops are the ways on from an exchange, and how many words they skip. That is what most of them say, since others may
// have bound something beside; in doubt it is no entry.
func (o *objects) hops(exchange string) (hops []hop, above int) {
	count := map[int]int{}
	for _, b := range o.bindings(exchange) {
		key, ok := delay.ParseHop(b.RoutingKey)
		if !ok || b.Arguments != "" || (key.Number > 0) != (b.DestinationType == topology.ToQueue) {
			continue
		}
		hops = append(hops, hop{key, b.Destination})
		count[key.Above]++
	}
	for n := range count {
		if count[n] > count[above] || count[n] == count[above] && n > above {
			above = n
		}
	}
	return slices.DeleteFunc(hops, func(h hop) bool { return h.Above != above }), above
}

// keyToDelay is the first key by which an exchange leads to a queue that holds messages for a time and hands them on.
// It is empty if there is none.
func (o *objects) keyToDelay(exchange string, isLike func(key string) bool) string {
	for _, b := range o.bindings(exchange) {
		if b.DestinationType != topology.ToQueue || !isLike(b.RoutingKey) {
			continue
		}
		if q := o.queue(b.Destination); q.Delays() && endOf(q) != "" {
			return b.RoutingKey
		}
	}
	return ""
}
