package broker

import (
	"context"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const (
	// manyBindings are worth an AMQP connection. Fewer go over HTTP, unless there is one already: by default so many go
	// out at the same time, and take one round trip.
	manyBindings = DefaultMaxParallelRequests
	// bindingChannels is how many bindings the broker makes at the same time. For the 406 of a cascade of 28 levels it
	// takes 400 ms on one channel, 160 ms on four, and 90 ms on 16. HTTP takes 235 ms (4.3.6). On a busy machine, a
	// create over HTTP alone takes twice as long.
	bindingChannels = 16
)

// bindsMany tells whether the steps are bindings, and so many that they are worth an AMQP connection.
func bindsMany(steps []plans.Step) bool { return len(steps) > manyBindings && binds(steps) }

// binds tells whether all steps are bindings, and there are several. One with arguments goes through the management
// API, in whose words they are.
func binds(steps []plans.Step) bool {
	return len(steps) > 1 && !slices.ContainsFunc(steps, func(step plans.Step) bool {
		bind, ok := step.(plans.Bind)
		return !ok || bind.Binding.Arguments != ""
	})
}

// deletesExchanges tells whether all steps do that, and there are several.
func deletesExchanges(steps []plans.Step) bool {
	return len(steps) > 1 && !slices.ContainsFunc(steps, func(step plans.Step) bool {
		exchange, ok := step.(plans.DeleteExchange)
		return !ok || exchange.IfUnused
	})
}

// usesAMQP tells whether a phase has steps for which an open connection is of use.
func usesAMQP(phase plans.Phase) bool {
	return binds(phase.Steps) || deletesExchanges(phase.Steps) || slices.ContainsFunc(phase.Steps,
		func(step plans.Step) bool {
			switch step.(type) {
			case plans.VerifyEmpty, plans.DeleteQueue:
				return true
			}
			return false
		})
}

// openFor is the connection for steps that are worth it, if it is open by now: nobody waits for it. It says how many of
// the steps the broker may take at the same time, each on a channel. Exchanges that it has to delete one after the
// other cost one round trip together instead of one each.
func (r *Runner) openFor(steps []plans.Step) (conn *amqpConn, channels int) {
	conn = r.openConn()
	switch {
	case conn == nil:
	case binds(steps):
		return conn, bindingChannels
	case deletesExchanges(steps) && !deletesTogether(conn.version()):
		return conn, 1
	}
	return nil, 0
}

// overAMQP runs the steps of one phase, and tells whether all of them are done. If they are not, whatever the reason,
// AMQP is over for the run, and the management API does all steps again. It repeats done steps without harm, tries
// again the broken-off ones, and names the cause of a failure. Effects are all steps that may have been sent.
//
// That is as safe as the requests that it replaces. The steps of a phase are in no order, and the next phase begins
// when the broker has done the last one. Whoever builds something reads its objects afterwards. Each channel takes the
// place of a request, because the broker does the work of a channel in its order.
func (r *Runner) overAMQP(
	ctx context.Context, conn *amqpConn, channels int, steps []plans.Step, effects []bool,
) bool {
	group, together := errgroup.WithContext(ctx)
	share := (len(steps) + channels - 1) / channels
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
			defer context.AfterFunc(attempt, conn.close)()
			return conn.sendAll(steps[first:end], effects[first:end])
		})
	}
	if err := group.Wait(); err != nil {
		r.abandon(ctx, conn, err)
		return false
	}
	return true
}

// sendAll sends steps on one channel, which the broker does one after the other. So it waits only for the answer to the
// last: if one before had failed, the channel would be closed by then.
func (c *amqpConn) sendAll(steps []plans.Step, effects []bool) error {
	channel, err := c.channel()
	if err != nil {
		return err
	}
	for i, step := range steps {
		effects[i] = true
		if err := sendOn(channel, step, i < len(steps)-1); err != nil {
			return err
		}
	}
	c.keep(channel)
	return nil
}

func sendOn(channel *amqp.Channel, step plans.Step, noWait bool) error {
	switch s := step.(type) {
	case plans.Bind:
		b := s.Binding
		if b.DestinationType == topology.ToQueue {
			return channel.QueueBind(b.Destination, b.RoutingKey, b.Source, noWait, nil)
		}
		return channel.ExchangeBind(b.Destination, b.RoutingKey, b.Source, noWait, nil)
	case plans.DeleteExchange:
		return channel.ExchangeDelete(s.Name, s.IfUnused, noWait)
	default:
		return fmt.Errorf("%s is nothing for AMQP", step)
	}
}
