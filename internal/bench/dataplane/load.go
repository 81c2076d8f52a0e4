package dataplane

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// payload is the size of a message's body in bytes.
const payload = 256

// window is how many messages may wait for their confirmation, of all publishers together.
const window = 1000

// A sender publishes with confirms, many messages at a time.
type sender struct {
	channel *amqp.Channel
	tokens  chan struct{}
	nacked  atomic.Int64
	// acks are when messages were confirmed, counted from epoch.
	mutex sync.Mutex
	acks  []time.Duration
	// ended is closed when there will be no more confirmations.
	ended chan struct{}
}

func newSender(conn *amqp.Connection) (*sender, error) { return newSenderWith(conn, window) }

func newSenderWith(conn *amqp.Connection, window int) (*sender, error) {
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
				s.mutex.Lock()
				s.acks = append(s.acks, time.Since(epoch))
				s.mutex.Unlock()
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
	return s.channel.PublishWithContext(context.WithoutCancel(ctx), exchange, key, false, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
}

// settle waits until all messages are confirmed.
func (s *sender) settle(ctx context.Context) error {
	for range cap(s.tokens) {
		select {
		case s.tokens <- struct{}{}:
		case <-s.ended:
			return amqp.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for range cap(s.tokens) {
		<-s.tokens
	}
	if n := s.nacked.Load(); n > 0 {
		return fmt.Errorf("the broker refused %d messages", n)
	}
	return nil
}

// close waits for the work under way and ends the channel.
func (s *sender) close(ctx context.Context) error {
	return errors.Join(s.settle(ctx), s.channel.Close())
}

const (
	// fewest is how many confirmations a rate is made of, if they come within longest.
	fewest  = 2500
	longest = 5 * time.Second
	// batch is the time within which confirmations are taken to have come together: RabbitMQ sends them in batches of
	// hundreds when it is slow.
	batch = 5 * time.Millisecond
)

// rate publishes for the time, or longer where confirmations are few, as fast as they come. It returns the confirmed
// messages per second after a fifth of the time.
func (s *sender) rate(ctx context.Context, exchange string, key func() string, d time.Duration) (float64, error) {
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	warm := time.Since(epoch) + d/5
	go func() {
		defer stop()
		time.Sleep(d)
		for began := time.Now(); len(s.since(warm)) < fewest && time.Since(began) < longest-d; {
			time.Sleep(10 * time.Millisecond)
		}
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
	return perSecond(s.since(warm))
}

// since are the confirmations after a time.
func (s *sender) since(from time.Duration) []time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	i, _ := slices.BinarySearch(s.acks, from)
	return s.acks[i:]
}

// perSecond counts from the end of the first batch to the last confirmation.
func perSecond(acks []time.Duration) (float64, error) {
	if len(acks) == 0 {
		return 0, errors.New("no message was confirmed in time")
	}
	first, _ := slices.BinarySearch(acks, acks[0]+batch)
	first--
	last := len(acks) - 1
	if last <= first {
		return 0, errors.New("too few messages were confirmed in time")
	}
	return float64(last-first) / (acks[last] - acks[first]).Seconds(), nil
}

// A receiver measures how late its messages are: those with its stamp. Others may be left of a measurement before,
// because a purge does not reach what has expired and waits to be handed on (at-least-once).
type receiver struct {
	number uint64
	late   chan time.Duration
	// pause is the longest time between two of them, as a time.Duration.
	pause atomic.Int64
}

// epoch is what due times in messages count from; it has a monotonic clock.
var epoch = time.Now()

// stamped is the body of a message that is due at the time.
func (r *receiver) stamped(due time.Time) []byte {
	body := make([]byte, payload)
	binary.BigEndian.PutUint64(body, r.number)
	binary.BigEndian.PutUint64(body[8:], uint64(due.Sub(epoch)))
	return body
}

// lateness is how late a message with this body is now, if it is the receiver's.
func (r *receiver) lateness(body []byte) (late time.Duration, own bool) {
	if len(body) != payload || binary.BigEndian.Uint64(body) != r.number {
		return 0, false
	}
	due := time.Duration(binary.BigEndian.Uint64(body[8:])) // as stamped has written it
	return time.Since(epoch) - due, true
}

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
	r := &receiver{number: rand.Uint64(), late: make(chan time.Duration, expected)}
	go func() {
		var last time.Time
		for delivery := range deliveries {
			late, own := r.lateness(delivery.Body)
			if !own {
				continue
			}
			now := time.Now()
			if pause := now.Sub(last); !last.IsZero() && int64(pause) > r.pause.Load() {
				r.pause.Store(int64(pause))
			}
			last = now
			select {
			case r.late <- late:
			default: // more than expected: the count says so
			}
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
