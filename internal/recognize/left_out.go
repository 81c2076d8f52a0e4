package recognize

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// LeftOut are the queues beside a ladder that its shared entry leads to, and that hold messages for a time or hand them
// on. An import leaves them to others. The text says of each why it is no delay queue of the ladder.
func LeftOut(ctx context.Context, look Lookup, ladder topology.Topology) (why []string, err error) {
	if !ladder.Shared {
		return nil, nil
	}
	o := newObjects(ctx, look, "")
	for _, b := range o.bindings(ladder.Entry) {
		if b.DestinationType != topology.ToQueue || b.LeadsInto(ladder.Queues) {
			continue
		}
		q := o.queue(b.Destination)
		reason := whyLeftOut[flawOf(q)]
		if flawOf(q) == noFlaw && b.Arguments != "" {
			reason = fmt.Sprintf("its binding has the arguments %s, and that of a ladder has none", b.Arguments)
		}
		if reason != "" {
			why = append(why, fmt.Sprintf("%s with key %q: %s", topology.QueueObject(q.Name), b.RoutingKey, reason))
		}
	}
	return why, o.failure
}

// Unbound are the queues, in words, to which no binding leads, and that hand messages on to the end of the ladder after
// a time. A delay whose binding is gone has left such a queue.
func (i *Inventory) Unbound(ladder topology.Topology) (queues []string) {
	ends := map[string]bool{}
	for _, q := range ladder.Queues {
		ends[endOf(q)] = flawOf(q) == noFlaw
	}
	for name, q := range i.There.Queues {
		if _, own := ladder.Queues[name]; !own && !i.bound[name] && flawOf(q) == noFlaw && ends[endOf(q)] {
			queues = append(queues, fmt.Sprintf("%s: its delay is %s", topology.QueueObject(name),
				delay.DurationText(time.Duration(q.TTLMillis())*time.Millisecond)))
		}
	}
	slices.Sort(queues)
	return queues
}

// AssumesTopic tells whether the delivery exchange of a ladder is taken for a topic exchange, and may be of another
// type. It is missing, and the keys of the ladder suit any type.
func (i *Inventory) AssumesTopic(l delay.Ladder) bool {
	_, exists := i.There.Exchanges[l.DeliveryExchange]
	return l.DeliveryExchange != "" && !exists && l.Levels() == 0
}

// whyLeftOut says of a queue with a part of a delay queue why it is none. There is nothing to say of the others.
var whyLeftOut = map[flaw]string{
	noTTL:   "it has no argument x-message-ttl",
	zeroTTL: "its x-message-ttl is 0, which is no delay",
	noKey:   "it hands on through the default exchange without an x-dead-letter-routing-key",
	noEnd:   "it has no argument x-dead-letter-exchange",
}
