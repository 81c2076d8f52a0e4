package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publish waits until the broker has taken a message.
func publish(ctx context.Context, channel *amqp.Channel, exchange, key string, message amqp.Publishing) error {
	const noWait, mandatory, immediate = false, true, false
	if err := channel.Confirm(noWait); err != nil {
		return err
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate,
		message)
	if err != nil {
		return err
	}
	acked, err := confirmation.WaitContext(ctx)
	if err == nil && !acked {
		err = ctx.Err() // by which the connection was closed
	}
	if err != nil {
		return err
	}
	// Either comes before the confirmation, and both Go channels are closed with the channel.
	select {
	case refused := <-closed:
		if refused != nil {
			return refused
		}
	default:
	}
	select {
	case returned, open := <-returns:
		if open {
			return &Error{Refused, "", fmt.Sprintf("it was returned: %s", returned.ReplyText), "no binding takes the " +
				"key: terraform plan shows the missing objects"}
		}
	default:
	}
	if !acked {
		return &Error{Refused, "", "the broker refused it", "a queue may be full: look at its max_length"}
	}
	return nil
}

// OnChannel does something over an AMQP connection of its own. Op is the action and its object, and needs are the
// permissions that it takes. An error is an *Error.
func (v *Vhost) OnChannel(ctx context.Context, op, needs string, do func(*amqp.Channel) error) error {
	c := v.client
	ctx = c.http.Logging(ctx)
	conn, err := c.dialAMQP(ctx, v.name)
	if err != nil {
		return c.notConnected(ctx, op, err)
	}
	defer conn.Close()
	// The library knows no contexts: whoever waits is freed by the end of the connection.
	defer context.AfterFunc(ctx, conn.Close)()
	err = onChannel(ctx, conn.connection, do)
	var closed *amqp.Error
	var known *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		known.Op, known.Reason = cmp.Or(known.Op, op), c.http.Clean(known.Reason)
		return known
	case errors.Is(ctx.Err(), context.Canceled):
		return c.failed(op, ctx.Err())
	case ctx.Err() != nil:
		return &Error{Timeout, op, "the broker has not confirmed it in time", "a queue may lack its majority of " +
			"nodes, or the broker have an alarm. The message may still arrive"}
	case errors.As(err, &closed) && isLimit(err):
		return &Error{LimitReached, op, c.http.Clean(closed.Reason), limitHint}
	case errors.As(err, &closed) && closed.Code == amqp.AccessRefused:
		return &Error{Forbidden, op, c.http.Clean(closed.Reason), needs}
	case errors.As(err, &closed) && closed.Code == amqp.NotFound:
		return &Error{NotFound, op, c.http.Clean(closed.Reason), ""}
	}
	return &Error{Unavailable, op, c.http.Clean(err.Error()), "try again"}
}

// onChannel does something on a channel of its own. An error is the broker's reason for closing it, if there is one.
func onChannel(ctx context.Context, connection *amqp.Connection, do func(*amqp.Channel) error) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	if err = do(channel); errors.Is(err, amqp.ErrClosed) {
		// The library tells either this error or the reason, by chance (amqp091-go 1.16, Channel.call).
		select {
		case reason := <-closed:
			if reason != nil {
				return reason
			}
		case <-ctx.Done():
		}
	}
	return err
}
