package transport

import (
	"context"
	"net/http"
	"sync"
	"time"
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

func backoff(n int) time.Duration {
	return min(firstBackoff<<(2*min(n, 10)), longestBackoff)
}
