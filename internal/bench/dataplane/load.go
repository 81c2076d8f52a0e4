package dataplane

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// payload is the size of a message's body in bytes.
const payload = 256

// window is how many messages may wait for their confirmation.
const window = 1000

// A sender publishes with confirms, many messages at a time.
type sender struct {
	channel *amqp.Channel
	tokens  chan struct{}
	acked   atomic.Int64
	nacked  atomic.Int64
	// ended is closed when there will be no more confirmations.
	ended chan struct{}
}

func newSender(conn *amqp.Connection) (*sender, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		return nil, err
	}
	s := &sender{channel: channel, tokens: make(chan struct{}, window), ended: make(chan struct{})}
	confirmations := channel.NotifyPublish(make(chan amqp.Confirmation, window))
	go func() {
		defer close(s.ended)
		for c := range confirmations {
			if c.Ack {
				s.acked.Add(1)
			} else {
				s.nacked.Add(1)
			}
			<-s.tokens
		}
	}()
	return s, nil
}

// send publishes a message once there is room for it in the window.
func (s *sender) send(ctx context.Context, exchange, key string, body []byte) error {
	select {
	case s.tokens <- struct{}{}:
	default:
		select {
		case s.tokens <- struct{}{}:
		case <-s.ended:
			return amqp.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.channel.PublishWithContext(context.WithoutCancel(ctx), exchange, key, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
}

// settle waits until all messages are confirmed.
func (s *sender) settle(ctx context.Context) error {
	for range window {
		select {
		case s.tokens <- struct{}{}:
		case <-s.ended:
			return amqp.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for range window {
		<-s.tokens
	}
	if n := s.nacked.Load(); n > 0 {
		return fmt.Errorf("the broker refused %d messages", n)
	}
	return nil
}

// close waits for what is under way and ends the channel.
func (s *sender) close(ctx context.Context) error {
	return errors.Join(s.settle(ctx), s.channel.Close())
}

// rate publishes for the time, as fast as confirmations come, and returns the confirmed messages per second
// after a fifth of the time.
func (s *sender) rate(ctx context.Context, exchange string, key func() string, d time.Duration) (float64, error) {
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan float64, 1)
	go func() {
		defer stop()
		time.Sleep(d / 5)
		from, before := time.Now(), s.acked.Load()
		time.Sleep(d - d/5)
		result <- float64(s.acked.Load()-before) / time.Since(from).Seconds()
	}()
	body := make([]byte, payload)
	for publishing.Err() == nil {
		if err := s.send(publishing, exchange, key(), body); err != nil && publishing.Err() == nil {
			return 0, err
		}
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return <-result, nil
}

// A receiver measures how late messages are.
type receiver struct {
	arrived atomic.Int64
	late    chan time.Duration
}

// epoch is what due times in messages count from; it has a monotonic clock.
var epoch = time.Now()

// stamp writes into a body when its message is due.
func stamp(body []byte, due time.Time) { binary.BigEndian.PutUint64(body, uint64(due.Sub(epoch))) }

// receive consumes what the exchange delivers and measures how late it is. It ends with the channel that is returned.
func (s *space) receive(exchange string, expected int) (*receiver, *amqp.Channel, error) {
	channel, err := s.conn.Channel()
	if err != nil {
		return nil, nil, err
	}
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := channel.QueueBind(queue.Name, "#", exchange, false, nil); err != nil {
		return nil, nil, err
	}
	deliveries, err := channel.Consume(queue.Name, "", true, true, false, false, nil)
	if err != nil {
		return nil, nil, err
	}
	r := &receiver{late: make(chan time.Duration, expected)}
	go func() {
		for delivery := range deliveries {
			now := time.Since(epoch)
			if len(delivery.Body) != payload {
				continue
			}
			due := time.Duration(binary.BigEndian.Uint64(delivery.Body)) //nolint:gosec // written by stamp
			select {
			case r.late <- now - due:
			default: // more than expected: the count says so
			}
			r.arrived.Add(1)
		}
	}()
	return r, channel, nil
}

// wait returns the lateness of n messages, or of those that have arrived by the deadline.
func (r *receiver) wait(ctx context.Context, n int, deadline time.Time) ([]float64, error) {
	late := make([]float64, 0, n)
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	for len(late) < n {
		select {
		case l := <-r.late:
			late = append(late, l.Seconds())
		case <-timeout.C:
			return late, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return late, nil
}
