package rabbit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
)

// NotUsable is for a given address for AMQP where no connection can be opened, although queues have to be counted. If
// the vhost is gone, it says that.
func (v *Vhost) NotUsable(ctx context.Context, err error) error {
	if _, missing := v.Confirm(ctx); missing != nil {
		return missing
	}
	return v.notUsable(ctx, err)
}

func (v *Vhost) notUsable(ctx context.Context, err error) error {
	failure := v.client.notConnected(ctx, v.countingOverAMQP(), err)
	if _, known := errors.AsType[*Error](err); !known && ctx.Err() == nil {
		failure.Hint += ". The address is given, by amqp_uri or RABBITMQ_AMQP_URI, and so it has to work. Without " +
			"it, the provider looks for AMQP by itself, and counts through the management API where it finds none"
	}
	return failure
}

func (v *Vhost) countingOverAMQP() string {
	return fmt.Sprintf("count messages in vhost %q over AMQP", v.name)
}

// Disconnected is for an AMQP connection that has ended while it counted messages, and cannot be opened again.
func (v *Vhost) Disconnected(err error) error {
	return &Error{Unavailable, v.countingOverAMQP(),
		v.client.http.Clean(err.Error()), "nothing is deleted while it is not certain that queues are empty. Try again"}
}

// RefusesAMQP tells whether the broker does not let this user ask over AMQP, or answers too late. That is more than the
// end of a connection.
func RefusesAMQP(err error) bool {
	closed, is := errors.AsType[*amqp.Error](err)
	return errors.Is(err, ErrLate) || is && (slices.Contains([]int{amqp.AccessRefused, amqp.ResourceLocked,
		amqp.PreconditionFailed, amqp.NotAllowed}, closed.Code) || isLimit(err))
}

// MayPass tells whether an AMQP connection that could not be opened may be had later, as while a broker restarts.
func MayPass(err error) bool {
	if closed, is := errors.AsType[*amqp.Error](err); is {
		return slices.Contains([]int{amqp.ConnectionForced, amqp.InternalError, amqp.FrameError,
			amqp.ErrClosed.Code}, closed.Code)
	}
	return transport.Wraps[*net.OpError](err) && !transport.IsTLS(err) && !transport.IsUnknownHost(err)
}
