package rabbit

import (
	"context"
	"net/http"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// The package transport repeats a request that fails in a way that may pass. What an answer 401, 403 or 404 of a vhost
// means is decided here, by the Judge of a call. RabbitMQ answers 404 to everything for some moments when it starts and
// stops (TestRestart). While a vhost is deleted, it answers as for one that the user may not use (3.10 to 4.3,
// TestVhostIsDeletedMeanwhile).

// startingTime is how long a broker may start or stop. After that, an address that answers 404 is a wrong one.
const startingTime = 6 * time.Second

// errStarting is for a broker that answered 404 to something that is there.
var errStarting = &Error{Unavailable, "read from the management API", "RabbitMQ is starting or stopping", "try again"}

// WithoutRetries is for requests whose answer is welcome but not needed: what fails is not tried again.
func WithoutRetries(ctx context.Context) context.Context { return transport.WithoutRetries(ctx) }

// patient is the judge of what every RabbitMQ answers.
func patient(r *transport.Refusal) (worth time.Duration, err error) {
	if r.Status == http.StatusNotFound {
		return startingTime, nil
	}
	return 0, nil
}

// ask asks about objects of the vhost. One is missing only if the answer is 404 once more after the vhost was seen to
// be there. Meanwhile it makes sure that the broker is RabbitMQ.
func (v *Vhost) ask(ctx context.Context, question func(*transport.Call) error) error {
	other := make(chan error, 1)
	go func() { other <- v.client.identify(ctx) }()
	err := v.askThere(ctx, question)
	if transport.IsNotFound(err) {
		if _, err = v.confirm(ctx); err == nil {
			err = v.askThere(ctx, question)
		}
	}
	if refused := <-other; refused != nil {
		return refused
	}
	return err
}

// askThere asks where the vhost has just been there: an object that is not found is missing.
func (v *Vhost) askThere(ctx context.Context, question func(*transport.Call) error) error {
	call := v.client.http.Call(ctx)
	call.Judge = v.whileBarred
	return question(call)
}

// whileBarred is the judge of objects that are there, and of those that are missing for certain.
func (v *Vhost) whileBarred(r *transport.Refusal) (worth time.Duration, err error) {
	if v.bars(r) {
		return startingTime, nil
	}
	return 0, nil
}

// bars tells whether the answer is that the user may not use the vhost at all, which may be because it is being
// deleted.
func (v *Vhost) bars(r *transport.Refusal) bool {
	isForbidden := r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden
	return isForbidden && permissionHint(r.Reason) == vhostHint && !v.isListed
}

// judge is the judge of a write. An answer 404 is that of a starting broker where nothing is missing.
func (w write) judge(ctx context.Context, v *Vhost, r *transport.Refusal) (worth time.Duration, err error) {
	switch {
	case v.bars(r):
		return startingTime, nil
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		// The permissions of a vhost that is being deleted may go before it.
		if _, gone := v.confirm(ctx); IsBarred(gone) || IsKind(gone, VhostNotFound) {
			return 0, gone
		}
		return 0, nil
	case r.Status != http.StatusNotFound:
		return 0, nil
	}
	starts, err := v.confirm(ctx)
	if err == nil && !starts {
		starts, err = w.hasAll(ctx, v)
	}
	if err == nil && starts {
		return v.client.retryTimeout, errStarting
	}
	return 0, err
}

// hasAll tells whether all is there that the write needs.
func (w write) hasAll(ctx context.Context, v *Vhost) (has bool, err error) {
	if w.binding == nil {
		return w.declares, nil
	}
	if _, has, err = v.Exchange(ctx, w.binding.Source); err != nil || !has {
		return has, err
	}
	if w.binding.DestinationType == topology.ToQueue {
		_, has, err = v.Queue(ctx, w.binding.Destination)
	} else {
		_, has, err = v.Exchange(ctx, w.binding.Destination)
	}
	return has, err
}
