package brokertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A Publisher publishes messages and knows what became of each: routed to a queue and taken over by the
// broker, or an error.
type Publisher struct {
	mu      sync.Mutex
	channel *amqp.Channel
	returns chan amqp.Return
}

var (
	// ErrReturned says that no binding took the message.
	ErrReturned = errors.New("returned")
	// ErrNacked says that the broker refused the message, as a full queue with reject-publish does.
	ErrNacked = errors.New("nacked")
)

// NewPublisher opens a channel for publishing; it closes with the connection.
func NewPublisher(conn *amqp.Connection) (*Publisher, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	if err := channel.Confirm(false); err != nil {
		return nil, fmt.Errorf("switch a channel to confirms: %w", err)
	}
	// The broker returns a message before it confirms it, and one at a time is under way.
	return &Publisher{channel: channel, returns: channel.NotifyReturn(make(chan amqp.Return, 1))}, nil
}

// Publish publishes one message and waits until the broker has it.
func (p *Publisher) Publish(ctx context.Context, exchange, routingKey string, message amqp.Publishing) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.publish(ctx, exchange, routingKey, message); err != nil {
		return fmt.Errorf("publish to exchange %q with routing key %q: %w", exchange, routingKey, err)
	}
	return nil
}

func (p *Publisher) publish(ctx context.Context, exchange, routingKey string, message amqp.Publishing) error {
	const mandatory, immediate = true, false
	confirmation, err := p.channel.PublishWithDeferredConfirmWithContext(ctx, exchange, routingKey, mandatory,
		immediate, message)
	if err != nil {
		return err
	}
	acked, err := confirmation.WaitContext(ctx)
	if err != nil {
		// A late return must not be taken for that of another message.
		return errors.Join(err, p.channel.Close())
	}
	select {
	case returned, open := <-p.returns:
		if open {
			return fmt.Errorf("%w: %d %s", ErrReturned, returned.ReplyCode, returned.ReplyText)
		}
	default:
	}
	if p.channel.IsClosed() {
		return amqp.ErrClosed
	}
	if !acked {
		return ErrNacked
	}
	return nil
}

// An Arrival is a delivery and when it came.
type Arrival struct {
	amqp.Delivery
	At time.Time
}

// A Collector consumes a queue and keeps what arrives, in order.
type Collector struct {
	mu       sync.Mutex
	arrivals []Arrival
	changed  chan struct{} // closed and replaced at every arrival
	closed   bool
}

// Collect consumes a queue until the connection closes. Messages are acknowledged as they arrive.
func Collect(conn *amqp.Connection, queue string) (*Collector, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consume queue %q: %w", queue, err)
	}
	c := &Collector{changed: make(chan struct{})}
	go func() {
		for delivery := range deliveries {
			c.add(Arrival{delivery, time.Now()})
		}
		c.end()
	}()
	return c, nil
}

// CollectFrom collects what an exchange routes by any of the binding keys, through a queue that is gone
// with the connection.
func CollectFrom(conn *amqp.Connection, exchange string, bindingKeys ...string) (*Collector, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	const durable, autoDelete, exclusive, noWait = false, false, true, false
	queue, err := channel.QueueDeclare("", durable, autoDelete, exclusive, noWait, nil)
	if err != nil {
		return nil, fmt.Errorf("declare an exclusive queue: %w", err)
	}
	for _, key := range bindingKeys {
		if err := channel.QueueBind(queue.Name, key, exchange, noWait, nil); err != nil {
			return nil, fmt.Errorf("bind queue %q to exchange %q with %q: %w", queue.Name, exchange, key, err)
		}
	}
	return Collect(conn, queue.Name)
}

func (c *Collector) add(a Arrival) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivals = append(c.arrivals, a)
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Collector) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	close(c.changed)
}

// Arrivals returns what has arrived so far.
func (c *Collector) Arrivals() []Arrival {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Arrival(nil), c.arrivals...)
}

// Wait waits until n messages have arrived in all and returns them. What comes after them it does not
// wait for: whoever expects no more than n looks at Arrivals once that can be told.
func (c *Collector) Wait(ctx context.Context, n int) ([]Arrival, error) {
	for {
		c.mu.Lock()
		arrivals, changed, closed := append([]Arrival(nil), c.arrivals...), c.changed, c.closed
		c.mu.Unlock()
		if len(arrivals) >= n {
			return arrivals, nil
		}
		if closed {
			return arrivals, fmt.Errorf("%d of %d messages had arrived when the connection closed", len(arrivals), n)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return arrivals, fmt.Errorf("%d of %d messages have arrived: %w", len(arrivals), n, ctx.Err())
		}
	}
}
