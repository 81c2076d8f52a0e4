package rabbit

import (
	"context"
	"net/http"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
)

// The package transport repeats a request that fails in a way that may pass. The Judge of a call decides what an
// answer 401, 403 or 404 of a vhost means. Judges are here, in vhost.go (Confirm) and in write.go (judge). RabbitMQ
// answers 404 to everything for some moments when it starts and stops (TestRestart). While a vhost is deleted, it
// answers as for one that the user may not use (3.10 to 4.3, TestVhostIsDeletedMeanwhile).

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
