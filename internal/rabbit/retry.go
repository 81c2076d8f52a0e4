package rabbit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A write, or a read of many requests, is done again if a start or a stop of the broker has come in between: again. An
// answer 404 says nothing then. An object is missing only if it is so once more after the vhost was seen to be there:
// orOnceMore, confirmMissing.

// errStarting is for a broker that answered 404 to everything, and then no longer did. It does so for some moments when
// it starts and stops (TestRestart).
var errStarting = &Error{Unavailable, "read from the management API", "RabbitMQ is starting or stopping", "try again"}

// again repeats work that a start or stop of the broker, or the deletion of the vhost, has interrupted. Meanwhile
// RabbitMQ answers for the vhost as for one that the user may not use (3.10 to 4.3, TestVhostIsDeletedMeanwhile).
func again[T any](ctx context.Context, c *Client, do func() (T, error)) (T, error) {
	began := time.Now()
	return repeat(ctx, c, do, func(err error) bool {
		return errors.Is(err, errStarting) || IsBarred(err) && time.Since(began) < transport.StartingTime
	})
}

// IsBarred tells whether the user may not use the vhost at all.
func IsBarred(err error) bool {
	e, is := errors.AsType[*Error](err)
	return is && e.Kind == Forbidden && e.Hint == vhostHint
}

// repeat does something until it is no longer worth repeating, or the time for retries is over. Beside that, it makes
// sure that the broker is RabbitMQ.
func repeat[T any](ctx context.Context, c *Client, do func() (T, error), isWorthIt func(error) bool) (T, error) {
	other := make(chan error, 1)
	go func() { other <- c.identify(ctx) }()
	result, err := untilDone(ctx, c, do, isWorthIt)
	if refused := <-other; refused != nil {
		err = refused
	}
	return result, err
}

func untilDone[T any](ctx context.Context, c *Client, do func() (T, error), isWorthIt func(error) bool) (T, error) {
	deadline := time.Now().Add(c.retryTimeout)
	for n := 0; ; n++ {
		result, err := do()
		if err == nil || !isWorthIt(err) || transport.IsHasty(ctx) || !time.Now().Add(transport.Backoff(n)).Before(deadline) {
			return result, err
		}
		select {
		case <-time.After(transport.Backoff(n)):
		case <-ctx.Done():
			return result, c.failed("wait for RabbitMQ to start", ctx.Err())
		}
	}
}

// orOnceMore asks once more for a missing object, if the vhost is there: the broker may have started meanwhile.
func (v *Vhost) orOnceMore(ctx context.Context, ask func() error) error {
	err := ask()
	if transport.IsNotFound(err) {
		if err = v.confirm(ctx); err == nil {
			err = ask()
		}
	}
	return err
}

// confirmMissing makes sure that the queues are missing which were not found. They are asked for once more, because the
// broker may have started just before it was asked for the vhost.
func (v *Vhost) confirmMissing(ctx context.Context, want topology.Topology, state *State) error {
	if err := v.confirm(ctx); err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Sorted(maps.Keys(want.Queues)), func(name string) bool {
		_, found := state.Queues[name]
		return found
	})
	_, err := askAll(ctx, missing, func(ctx context.Context, name string) (bool, error) {
		_, exists, err := v.queue(ctx, name)
		if err == nil && exists {
			err = errStarting
		}
		return exists, err
	})
	return err
}

// WithoutRetries is for requests whose answer is welcome but not needed: what fails is not tried again.
func WithoutRetries(ctx context.Context) context.Context { return transport.WithoutRetries(ctx) }
