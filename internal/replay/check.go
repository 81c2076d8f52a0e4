package replay

import (
	"context"
	"fmt"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// DropsError is for a queue that may drop a message that is got and put back.
type DropsError struct {
	Queue string
	// Limit is how often that can be done. Not Known is a limit that nobody tells.
	Limit int64
	Known bool
}

func (e *DropsError) Error() string {
	if !e.Known {
		return fmt.Sprintf("nobody tells the delivery limit of queue %q", e.Queue)
	}
	return fmt.Sprintf("queue %q has a delivery limit of %d", e.Queue, e.Limit)
}

// NotThereError is for a queue of unroutable messages that is missing.
type NotThereError struct{ Queue string }

func (e *NotThereError) Error() string { return fmt.Sprintf("queue %q is missing", e.Queue) }

// check refuses a queue from which a message that stays can get lost. It returns the queue.
func check(ctx context.Context, vhost *rabbit.Vhost, rule Rule) (topology.Queue, error) {
	want := topology.New()
	want.Queues[rule.Queue] = rule.Topology.Queues[rule.Queue]
	state, err := vhost.Read(ctx, want)
	if err != nil {
		return topology.Queue{}, err
	}
	q, exists := state.Queues[rule.Queue]
	if !exists {
		return q, &NotThereError{rule.Queue}
	}
	limit, known := deliveryLimit(q, state.Status[q.Name].Applied, vhost.Client().Version(ctx))
	if limit < leastLimit {
		return q, &DropsError{q.Name, limit, known}
	}
	return q, nil
}

const (
	// leastLimit is how often a queue has to let messages be put back. Each run does so a few times, and each look of
	// others once.
	leastLimit = 10_000
	noLimit    = int64(1) << 62
	// usualLimit is that of a quorum queue without a limit of its own, since 4.0.
	usualLimit = 20
)

// deliveryLimit is how often a message can be put back into the queue before RabbitMQ drops it. Up to 4.2, a quorum
// queue counts each time. Later ones count only when the client that had the message is gone (4.3.6). From 4.0 on, a
// negative limit is none. RabbitMQ 3 then drops a message at once.
func deliveryLimit(q topology.Queue, applied policy.Applied, broker string) (limit int64, known bool) {
	if q.Type() != "quorum" {
		return noLimit, true
	}
	if applied.Unknown {
		return 0, false
	}
	since4 := !version.Before(broker, 4, 0)
	limit = noLimit
	given := false
	take := func(arguments topology.Arguments, key string) {
		own, isGiven := arguments[key].(int64)
		given = given || isGiven
		if isGiven && (own >= 0 || !since4) {
			limit = min(limit, own)
		}
	}
	take(q.Arguments, "x-delivery-limit")
	take(applied.Definition, "delivery-limit")
	for _, other := range applied.Perhaps {
		take(other.Definition, "delivery-limit")
	}
	if !given && since4 {
		limit = usualLimit
	}
	return limit, true
}
