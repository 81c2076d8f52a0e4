package drain

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// OverdueMessages are the overdue messages of a queue: those that it keeps after their time.
type OverdueMessages struct {
	Messages int64
	// Since is a time by which there were some, without an end since then. It is zero if nobody knows one.
	Since time.Time
}

// overdueOf is how many messages of a queue that may keep some after their time are overdue, by one count of it. The
// others are ready, delayed by the queue, or held by a consumer.
func overdueOf(messages, ready, delayed, consumers int64) int64 {
	if consumers > 0 {
		return 0
	}
	return max(0, messages-ready-delayed)
}

// Overdue are the overdue messages of the queues of a state. It makes requests only where some may be. It makes one for
// each queue, and those for their surroundings: exchanges, policies, bindings and receivers.
func Overdue(ctx context.Context, vhost *rabbit.Vhost, state *rabbit.State) (map[string]OverdueMessages, error) {
	found, overdue := map[string]int64{}, map[string]OverdueMessages{}
	var queues []topology.Queue
	for _, name := range slices.Sorted(maps.Keys(state.Queues)) {
		s := state.Status[name]
		if s.Messages == nil || s.Ready == nil || s.Consumers == nil {
			continue
		}
		if n := overdueOf(*s.Messages, *s.Ready, s.Delayed, *s.Consumers); n > 0 {
			found[name] = n
			queues = append(queues, state.Queues[name])
		}
	}
	if len(queues) == 0 {
		return nil, nil
	}
	_, mayKeep, err := readSurroundings(ctx, vhost, queues)
	if err != nil {
		return nil, err
	}
	queues = slices.DeleteFunc(queues, func(q topology.Queue) bool { return !mayKeep[q.Name] })
	past, err := rabbit.AskAll(ctx, queues, func(ctx context.Context, q topology.Queue) ([]rabbit.Sample, error) {
		return vhost.NotReady(ctx, q.Name)
	})
	for i, q := range queues {
		if since, lasts := lasting(past[i], state.Status[q.Name].Delayed); lasts {
			overdue[q.Name] = OverdueMessages{found[q.Name], since}
		}
	}
	return overdue, err
}

const (
	// passing is how long messages may be neither ready nor gone while they leave a queue. It is six ticks: so many
	// counts of messages that come and go do not just stay or rise.
	passing = 30 * time.Second
	// leaving is the same where the count falls meanwhile, as it does under load. It is longer than RabbitMQ waits for
	// a queue to take a message (dead_letter_worker_publisher_confirm_timeout, 3.10 to 4.3).
	leaving = 4 * time.Minute
)

// lasting tells since when a queue has had more messages that are not ready than it delays. Lasts is false if they may
// just be leaving it. Without samples, nobody knows.
func lasting(samples []rabbit.Sample, delayed int64) (since time.Time, lasts bool) {
	if len(samples) == 0 {
		return since, true
	}
	falls := false
	for i, sample := range samples {
		if sample.Messages <= delayed {
			break
		}
		falls = falls || i > 0 && sample.Messages > samples[i-1].Messages
		since = sample.At
		age := samples[0].At.Sub(since)
		lasts = lasts || age >= leaving || !falls && age >= passing
	}
	return since, lasts
}
