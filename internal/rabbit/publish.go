package rabbit

import (
	"context"
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
