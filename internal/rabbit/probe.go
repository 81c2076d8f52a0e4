package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// Probe is one message that goes through a topology to a queue of its own.
type Probe struct {
	Vhost string
	// Exchange and RoutingKey are what it is published with.
	Exchange, RoutingKey string
	// Delivery is the exchange at the end, and BindingKey the key under which it gives the message away.
	Delivery, BindingKey string
	// Timeout is how long the message may take.
	Timeout time.Duration
}

// Probe sends the message, over AMQP, and returns how long it took to arrive. The queue that it arrives in is
// exclusive: it goes with the connection. An error is an *Error.
func (c *Client) Probe(ctx context.Context, p Probe) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout+amqpDialTime)
	defer cancel()
	needs := fmt.Sprintf("a probe takes permissions to configure, write and read queues ^amq\\.gen-, to write "+
		"exchange %q, and to read exchange %q", p.Exchange, p.Delivery)
	op := fmt.Sprintf("send a message through exchange %q in vhost %q", p.Exchange, p.Vhost)
	err = c.Vhost(p.Vhost).OnChannel(ctx, op, needs, func(channel *amqp.Channel) error {
		took, err = p.send(ctx, channel)
		return err
	})
	return took, err
}

func (p Probe) send(ctx context.Context, channel *amqp.Channel) (time.Duration, error) {
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
	began := time.Now()
	if err := publish(ctx, channel, p.Exchange, p.RoutingKey, amqp.Publishing{Type: "rabbitmqdelay.probe",
		DeliveryMode: amqp.Persistent}); err != nil {
		return 0, err
	}
	timeout := time.NewTimer(time.Until(began.Add(p.Timeout)))
	defer timeout.Stop()
	select {
	case _, open := <-arrivals:
		if open {
			return time.Since(began), nil
		}
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return 0, amqp.ErrClosed
		}
	case <-timeout.C:
		// A classic queue that goes away while a message comes into it holds up the cascade for three to six minutes
		// (4.0.5, 4.3.6).
		if err := channel.QueueUnbind(queue.Name, p.BindingKey, p.Delivery, nil); err != nil {
			return 0, err
		}
	}
	return 0, &Error{
		NotArrived, fmt.Sprintf("receive the message that was sent through exchange %q in vhost %q", p.Exchange,
			p.Vhost),
		fmt.Sprintf("the broker took it, and it has not arrived after %s", plaintext.Duration(p.Timeout)),
		"terraform plan shows missing and damaged objects. The message itself is late, lost, or parked as " +
			"unroutable, with the type rabbitmqdelay.probe",
	}
}
