package rabbit

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Users are those who need an exchange, in words. They are the destinations of its bindings and the exchanges that lead
// into it. They are also the exchanges that have it as their alternate exchange, and queues that dead-letter into it.
// RabbitMQ's if-unused sees the first of them alone. RabbitMQ 4.3.6 answers 500 for them if the name is not in Latin-1.
// To find the queues takes a list of all queues of the vhost, without statistics.
func (v *Vhost) Users(ctx context.Context, exchange string) ([]string, error) {
	var users []string
	var inbound topology.Bindings
	var exchanges []exchangeInfo
	var queues []queueInfo
	group, together := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		inbound, err = v.Inbound(together, []string{exchange}, nil)
		return err
	})
	group.Go(func() (err error) {
		exchanges, err = v.exchanges(together)
		return err
	})
	group.Go(func() (err error) {
		users, err = v.Bound(together, exchange)
		return err
	})
	group.Go(func() error { return v.list(together, &queues, "queues", "name,arguments") })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, b := range inbound.Sorted() {
		users = append(users, fmt.Sprintf("exchange %q, bound to it with key %q", b.Source, b.RoutingKey))
	}
	for _, e := range exchanges {
		if e.exchange().AlternateExchange() == exchange {
			users = append(users, fmt.Sprintf("exchange %q, whose alternate exchange it is", e.Name))
		}
	}
	for _, q := range queues {
		if q.queue().DeadLetterExchange() == exchange {
			users = append(users, fmt.Sprintf("queue %q, which dead-letters into it", q.Name))
		}
	}
	slices.Sort(users)
	return users, nil
}

// Bound are the bindings of an exchange, in words.
func (v *Vhost) Bound(ctx context.Context, exchange string) ([]string, error) {
	bindings, err := v.BindingsFrom(ctx, exchange)
	lines := plaintext.Texts(topology.Plain(bindings), func(b topology.Binding) string {
		return fmt.Sprintf("%s, bound with key %q", b.DestinationObject(), b.RoutingKey)
	})
	slices.Sort(lines)
	return lines, err
}
