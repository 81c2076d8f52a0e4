package rabbit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A request is tried again while it fails in a way that may pass: worthRetrying. A write, or a read of many requests,
// is done again if a start or a stop of the broker has come in between: again. An answer 404 says nothing then. An
// object is missing only if it is so once more after the vhost was seen to be there: orOnceMore, confirmMissing.

// Backoff: 0.1, 0.4, 1.6 s, and then 3 s again and again.
const (
	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 3 * time.Second
)

// hasty marks the context of requests that are not repeated.
type hasty struct{}

// WithoutRetries is for requests whose answer is welcome but not needed: what fails is not tried again.
func WithoutRetries(ctx context.Context) context.Context {
	return context.WithValue(ctx, hasty{}, true)
}

// isHasty tells whether nothing is to be repeated.
func isHasty(ctx context.Context) bool { return ctx.Value(hasty{}) != nil }

// worthRetrying is true for a failure that a further attempt may mend, while there is time for it. All our requests do
// the same when they are repeated.
func (t *transport) worthRetrying(ctx context.Context, response *http.Response, err error) (bool, error) {
	call := callOf(ctx)
	starting := err == nil && call.patient && response.StatusCode == http.StatusNotFound
	passes := starting || mayPass(response, err)
	if err == nil && !passes {
		t.outage.end()
	}
	if ctx.Err() != nil && (err != nil || response.StatusCode >= 300) {
		return false, ctx.Err()
	}
	if !passes || isHasty(ctx) {
		return false, nil
	}
	if call.failure = err; err == nil {
		call.failure = fmt.Errorf("it answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	now, limit := time.Now(), t.retryTimeout
	switch {
	case starting:
		limit = min(limit, startingTime)
		if call.failing.IsZero() {
			call.failing = now
		}
	case call.failing.IsZero():
		call.failing = t.outage.begin(now)
	}
	if !now.Add(backoff(int(call.attempts.Load()) - 1)).Before(call.failing.Add(limit)) {
		return false, nil
	}
	if !starting && t.outage.isNews() {
		tflog.SubsystemWarn(ctx, subsystem,
			fmt.Sprintf("RabbitMQ does not answer as it should; what fails is tried again for up to %s", limit),
			map[string]any{"endpoint": t.endpoint, "error": call.failure.Error()})
	}
	return true, nil
}

// startingTime is how long an address that answers 404 may be that of a broker that starts or stops (TestRestart).
// After that it is a wrong one.
const startingTime = 6 * time.Second

// mayPass tells whether an answer, or none, may be another one the next time.
func mayPass(response *http.Response, err error) bool {
	if err == nil {
		return response.StatusCode == http.StatusTooManyRequests ||
			response.StatusCode >= 500 && response.StatusCode != http.StatusNotImplemented
	}
	return !isTLS(err) && !isUnknownHost(err) && !isAMQP(err) && !isRefusedByProxy(err) && !wraps[*notManagement](err)
}

// outage is the time in which no request succeeds. All wait for its end together, so that it is waited for once,
// however many requests meet it.
type outage struct {
	mutex sync.Mutex
	since time.Time // zero while the broker answers
	told  bool
}

// begin is when the outage began, which is now if it was not known before.
func (o *outage) begin(now time.Time) time.Time {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.since.IsZero() {
		o.since, o.told = now, false
	}
	return o.since
}

func (o *outage) end() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.since = time.Time{}
}

// isNews is true once for each outage.
func (o *outage) isNews() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	isNews := !o.told && !o.since.IsZero()
	o.told = o.told || isNews
	return isNews
}

// giveUp leaves no time for further attempts until the broker answers.
func (o *outage) giveUp() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if !o.since.IsZero() {
		o.since = time.Unix(0, 0)
	}
}

// waitedInVain adds to the end of an operation what it was waiting for. Whoever interrupts it does not want the undo
// to wait for that either.
func (c *call) waitedInVain(err error) error {
	if c.failure == nil || !errors.Is(err, c.ctx.Err()) {
		return err
	}
	// not because of what became of another request, see errgroup
	if errors.Is(context.Cause(c.ctx), context.Canceled) {
		c.transport.outage.giveUp()
	}
	return &waitInVain{err, c.failure}
}

// waitInVain is the end of an operation's context while a request waited for its next attempt.
type waitInVain struct{ ended, failure error }

func (e *waitInVain) Error() string {
	return fmt.Sprintf("%s, while it waited for RabbitMQ: %s", e.ended, e.failure)
}

// Unwrap gives the context's error alone.
func (e *waitInVain) Unwrap() error { return e.ended }

func backoff(attempt int) time.Duration {
	return min(firstBackoff<<(2*min(attempt, 10)), longestBackoff)
}

// errStarting is for a broker that answered 404 to everything, and then no longer did. It does so for some moments when
// it starts and stops (TestRestart).
var errStarting = &Error{Unavailable, "read from the management API", "RabbitMQ is starting or stopping", "try again"}

// again repeats work that a start or stop of the broker, or the deletion of the vhost, has interrupted. Meanwhile
// RabbitMQ answers for the vhost as for one that the user may not use (3.10 to 4.3, TestVhostIsDeletedMeanwhile).
func again[T any](ctx context.Context, c *Client, do func() (T, error)) (T, error) {
	began := time.Now()
	return repeat(ctx, c, do, func(err error) bool {
		return errors.Is(err, errStarting) || IsBarred(err) && time.Since(began) < startingTime
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
	deadline := time.Now().Add(c.http.retryTimeout)
	for n := 0; ; n++ {
		result, err := do()
		if err == nil || !isWorthIt(err) || isHasty(ctx) || !time.Now().Add(backoff(n)).Before(deadline) {
			return result, err
		}
		select {
		case <-time.After(backoff(n)):
		case <-ctx.Done():
			return result, c.failed("wait for RabbitMQ to start", ctx.Err())
		}
	}
}

// orOnceMore asks once more for a missing object, if the vhost is there: the broker may have started meanwhile.
func (v *Vhost) orOnceMore(ctx context.Context, ask func() error) error {
	err := ask()
	if isNotFound(err) {
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
