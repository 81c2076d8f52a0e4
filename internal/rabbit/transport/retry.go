package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

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

// IsHasty tells whether nothing is to be repeated.
func IsHasty(ctx context.Context) bool { return ctx.Value(hasty{}) != nil }

// worthRetrying is true for a failure that a further attempt may mend, while there is time for it. All our requests do
// the same when they are repeated.
func (t *Transport) worthRetrying(ctx context.Context, response *http.Response, err error) (bool, error) {
	call := callOf(ctx)
	call.refusal = nil
	if err == nil && response.StatusCode >= 300 {
		call.refusal = t.refusal(response.Request, response)
	}
	passes := mayPass(response, err)
	if call.isSent.Load() && (passes || err != nil || response.StatusCode >= 500) {
		call.isUnsure = true
	}
	if err == nil && !passes {
		t.outage.end()
	}
	if ctx.Err() != nil && (err != nil || call.refusal != nil) {
		return false, ctx.Err()
	}
	worth, outcome := time.Duration(0), error(nil)
	switch {
	case passes:
		worth = t.config.RetryTimeout
	case call.refusal != nil && call.Judge != nil:
		worth, outcome = call.Judge(call.refusal)
		worth = min(worth, t.config.RetryTimeout)
	}
	if worth == 0 || IsHasty(ctx) {
		return false, outcome
	}
	if call.failure = err; err == nil {
		call.failure = fmt.Errorf("it answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	now := time.Now()
	switch {
	case !call.failing.IsZero():
	case passes:
		call.failing = t.outage.begin(now)
	default:
		call.failing = now
	}
	if !now.Add(backoff(int(call.attempts.Load()) - 1)).Before(call.failing.Add(worth)) {
		return false, outcome
	}
	if passes && t.outage.isNews() {
		tflog.SubsystemWarn(ctx, subsystem,
			fmt.Sprintf("RabbitMQ does not answer as it should; what fails is tried again for up to %s",
				plaintext.Duration(worth)),
			map[string]any{"endpoint": t.config.Endpoint.String(), "error": call.failure.Error()})
	}
	return true, nil
}

// mayPass tells whether an answer, or none, may be another one the next time.
func mayPass(response *http.Response, err error) bool {
	if err == nil {
		return response.StatusCode == http.StatusTooManyRequests ||
			response.StatusCode >= 500 && response.StatusCode != http.StatusNotImplemented
	}
	return !IsTLS(err) && !IsUnknownHost(err) && !IsAMQP(err) && !isRefusedByProxy(err) && !Wraps[*NotManagement](err)
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
func (c *Call) waitedInVain(err error) error {
	if c.failure == nil || !errors.Is(err, c.ctx.Err()) {
		return err
	}
	// not because of what became of another request, see errgroup
	if errors.Is(context.Cause(c.ctx), context.Canceled) {
		c.transport.outage.giveUp()
	}
	return &WaitedInVain{err, c.failure}
}

func backoff(attempt int) time.Duration {
	return min(firstBackoff<<(2*min(attempt, 10)), longestBackoff)
}
