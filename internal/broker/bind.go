package broker

import (
	"context"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const (
	// manyBindings are bound over AMQP, fewer over HTTP, which has no connection to open: by default so many go out
	// at the same time, and take one round trip.
	manyBindings = DefaultMaxParallelRequests
	// bindingChannels is how many bindings the broker makes at the same time. For the 406 of a cascade of 28 levels
	// it takes 400 ms on one channel, 160 ms on four, and 90 ms on 16, where HTTP takes 235 ms (4.3.6).
	bindingChannels = 16
)

// plain is the binding that a step makes, if it makes one without arguments. One with arguments goes through the
// management API, in whose words they are.
func plain(step topology.Step) (topology.Binding, bool) {
	bind, ok := step.(topology.Bind)
	return bind.Binding, ok && bind.Binding.Arguments == ""
}

// bindsMany tells whether all steps are plain bindings, and so many that they are worth an AMQP connection.
func bindsMany(steps []topology.Step) bool {
	return len(steps) > manyBindings && !slices.ContainsFunc(steps, func(step topology.Step) bool { _, ok := plain(step); return !ok })
}

// openFor is the connection for steps that are worth it, if it is open by now: nobody waits for it.
func (r *Runner) openFor(steps []topology.Step) *amqpSession {
	if session := r.open(); session != nil && bindsMany(steps) {
		return session
	}
	return nil
}

// overAMQP makes the bindings of one phase, and tells whether all of them are there. If they are not, whatever the
// reason, AMQP is over for the run, and the management API does it again: what is bound already does not matter to it,
// it tries again what broke off, and it says what is wrong. Effects are all that may have been sent.
//
// That is as safe as the requests that it replaces: the steps of a phase are in no order, the next phase begins when
// the broker has made the last binding, and whoever runs the plan reads afterwards what there is. Each channel takes
// the place of a request, because the broker makes its bindings one after the other.
func (r *Runner) overAMQP(ctx context.Context, session *amqpSession, steps []topology.Step, effects []bool) bool {
	group, together := errgroup.WithContext(ctx)
	share := (len(steps) + bindingChannels - 1) / bindingChannels
	for first := 0; first < len(steps); first += share {
		end := min(first+share, len(steps))
		group.Go(func() error {
			select {
			case r.http.slots <- struct{}{}:
				defer func() { <-r.http.slots }()
			case <-together.Done():
				return together.Err()
			}
			attempt, cancel := context.WithTimeout(together, r.http.timeout)
			defer cancel()
			// The library knows no contexts: whoever waits is freed by the end of the connection.
			defer context.AfterFunc(attempt, session.close)()
			return session.bind(steps[first:end], effects[first:end])
		})
	}
	if err := group.Wait(); err != nil {
		r.abandon(ctx, session, err)
		return false
	}
	return true
}

// bind makes bindings on one channel, which the broker takes one after the other. So it waits only for the answer to
// the last: if one before had failed, the channel would be closed by then.
func (s *amqpSession) bind(steps []topology.Step, effects []bool) error {
	channel, err := s.channel()
	if err != nil {
		return err
	}
	for i, step := range steps {
		binding, ok := plain(step)
		if !ok {
			return fmt.Errorf("%s is nothing for AMQP", step)
		}
		effects[i] = true
		if err := bindOn(channel, binding, i < len(steps)-1); err != nil {
			return err
		}
	}
	s.keep(channel)
	return nil
}

func bindOn(channel *amqp.Channel, b topology.Binding, noWait bool) error {
	if b.DestinationType == topology.ToQueue {
		return channel.QueueBind(b.Destination, b.RoutingKey, b.Source, noWait, nil)
	}
	return channel.ExchangeBind(b.Destination, b.RoutingKey, b.Source, noWait, nil)
}
