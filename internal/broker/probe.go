package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Probe is one message that goes through a topology to a queue of its own.
type Probe struct {
	Vhost string
	// Exchange and RoutingKey are what it is published with.
	Exchange, RoutingKey string
	// Delivery is the exchange at the end, and BindingKey the key under which it gives the message away.
	Delivery, BindingKey string
	// Within is how long the message may take.
	Within time.Duration
}

// Probe sends the message, over AMQP, and returns how long it took to arrive. The queue that it arrives in is exclusive: it goes
// with the connection. An error is an *Error.
func (c *Client) Probe(ctx context.Context, p Probe) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(c.logging(ctx), p.Within+amqpDialTime)
	defer cancel()
	op := fmt.Sprintf("send a message through exchange %q in vhost %q", p.Exchange, p.Vhost)
	session, err := c.dialAMQP(ctx, p.Vhost)
	if err != nil {
		return 0, &Error{Unreachable, op, c.http.secrets.mask(err.Error()), "a probe takes AMQP: check amqp_uri or RABBITMQ_AMQP_URI, and the user's access to the vhost"}
	}
	defer session.close()
	// The library knows no contexts: whoever waits is freed by the end of the connection.
	defer context.AfterFunc(ctx, session.close)()
	took, err = p.send(ctx, session.connection)
	var closed *amqp.Error
	var known *Error
	switch {
	case err == nil:
		return took, nil
	case errors.As(err, &known):
		known.Op = op
		return 0, known
	case errors.As(err, &closed) && closed.Code == amqp.AccessRefused:
		return 0, &Error{Forbidden, op, closed.Reason, "a probe takes permissions to configure, write and read queues ^amq\\.gen-, to write exchange " +
			fmt.Sprintf("%q, and to read exchange %q", p.Exchange, p.Delivery)}
	case errors.As(err, &closed) && closed.Code == amqp.NotFound:
		return 0, &Error{NotFound, op, closed.Reason, ""}
	}
	return 0, &Error{Unavailable, op, c.http.secrets.mask(err.Error()), "try again"}
}

func (p Probe) send(ctx context.Context, connection *amqp.Connection) (time.Duration, error) {
	channel, err := connection.Channel()
	if err != nil {
		return 0, err
	}
	const durable, autoDelete, exclusive, noWait, autoAck, noLocal = false, false, true, false, true, false
	queue, err := channel.QueueDeclare("", durable, autoDelete, exclusive, noWait, nil)
	if err != nil {
		return 0, err
	}
	if err := channel.QueueBind(queue.Name, p.BindingKey, p.Delivery, noWait, nil); err != nil {
		return 0, err
	}
	arrivals, err := channel.Consume(queue.Name, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return 0, err
	}
	if err := channel.Confirm(noWait); err != nil {
		return 0, err
	}
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	began := time.Now()
	const mandatory, immediate = true, false
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, p.Exchange, p.RoutingKey, mandatory, immediate,
		amqp.Publishing{Type: "rabbitmqdelay.probe", DeliveryMode: amqp.Persistent})
	if err != nil {
		return 0, err
	}
	acked, err := confirmation.WaitContext(ctx)
	if err != nil {
		return 0, err
	}
	if !acked {
		return 0, &Error{Refused, "", "the broker refused it", "a queue may be full; look at its max_length"}
	}
	select {
	case returned, open := <-returns:
		if open {
			return 0, &Error{Refused, "", fmt.Sprintf("it was returned: %s", returned.ReplyText), "no binding of the entry exchange takes the key; terraform plan shows what is missing"}
		}
	default:
	}
	timeout := time.NewTimer(time.Until(began.Add(p.Within)))
	defer timeout.Stop()
	select {
	case _, open := <-arrivals:
		if !open {
			return 0, amqp.ErrClosed
		}
		return time.Since(began), nil
	case <-timeout.C:
		return 0, &Error{Timeout, "", fmt.Sprintf("it has not arrived after %s", p.Within),
			"terraform plan shows what is missing or damaged; the message itself is late, lost, or parked as unroutable, with the type rabbitmqdelay.probe"}
	}
}
