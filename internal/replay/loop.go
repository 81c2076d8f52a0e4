package replay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Report is what has become of the messages so far.
type Report struct {
	// There is the number of messages that are to be handled, and Handled that of those that were looked at.
	There, Handled int
	// Published counts the messages that RabbitMQ has confirmed, by the exchange that they went to.
	Published map[string]int
	// Stays counts those that a Rule leaves, by its reason.
	Stays map[Reason]int
	// Returned are those that no binding takes where nothing parks them, and Refused those that a queue does not take.
	// All of them stay.
	Returned, Refused int
	// CameBack are those that no binding has taken, so that they were parked again. Messages that others have parked
	// meanwhile are among them.
	CameBack int
	// BrokeOff is set for a run that did not come to its end. Up to MayDouble messages that were published may be in
	// the queue still.
	BrokeOff bool
}

// Sum is how many messages were published.
func (r Report) Sum() (sum int) {
	for _, n := range r.Published {
		sum += n
	}
	return sum
}

const (
	// window is how many messages are under way at most. It is the prefetch of a consumer, too.
	window = 1000
	// MayDouble is how many messages of a run that breaks off may come twice.
	MayDouble = window
)

// consumer and publisher are what a run needs of a channel. Each is the channel of a connection of its own: RabbitMQ
// reads no acknowledgements on a connection on which it keeps a publisher waiting.
type consumer interface {
	Qos(prefetchCount, prefetchSize int, global bool) error
	Consume(
		queue, consumer string, autoAck, exclusive, noLocal, noWait bool, args amqp.Table,
	) (<-chan amqp.Delivery, error)
	Cancel(consumer string, noWait bool) error
	Ack(tag uint64, multiple bool) error
	Nack(tag uint64, multiple, requeue bool) error
	QueueDeclarePassive(name string, durable, autoDelete, exclusive, noWait bool, args amqp.Table) (amqp.Queue, error)
	Get(queue string, autoAck bool) (d amqp.Delivery, isThere bool, err error)
}

type publisher interface {
	Confirm(noWait bool) error
	NotifyReturn(c chan amqp.Return) chan amqp.Return
	// Send publishes a message, mandatory. Outcome waits for the confirmation. Not known is one that gets lost.
	Send(exchange, key string, message amqp.Publishing) (outcome func() (isTaken, isKnown bool), err error)
}

// run is one way through the queue.
type run struct {
	rule      Rule
	consumer  consumer
	publisher publisher
	progress  func(Report) // which keeps none
	// alive is called whenever something goes on.
	alive func()
	// isForOne is set for a queue with a single active consumer, which lets nobody get a message otherwise.
	isForOne bool

	report   Report
	shown    time.Time
	arrivals <-chan amqp.Delivery
	consumes bool // and nobody has told the consumer to end
	taken    int  // from the queue, handled or not
	held     int  // by the present consumer, for messages that stay
	confirms chan confirmation
	returns  chan amqp.Return
	pending  map[uint64]*pending // by the number of the publication
	number   uint64
	known    map[string]bool // exchanges that have taken a message
}

// confirmation is the outcome of a publication.
type confirmation struct {
	number           uint64
	isTaken, isKnown bool
}

const (
	consumerTag = "replay"
	// idle is how long a queue may be silent before it is asked whether it is empty.
	idle = time.Second
	// showEach is the time between two reports of progress.
	showEach = 5 * time.Second
)

// consumerError is an error of the channel that takes messages. All others are of the one that publishes.
type consumerError struct{ err error }

func (e *consumerError) Error() string { return e.err.Error() }

func ofConsumer(err error) error {
	if err == nil {
		return nil
	}
	return &consumerError{err}
}

// through handles the messages that are there at its beginning, up to the limit, if that is not 0. A message that stays
// is held until the end: put back earlier, it would come again.
func (r *run) through(ctx context.Context, limit int) error {
	r.pending, r.known = map[uint64]*pending{}, map[string]bool{}
	r.report.Published, r.report.Stays = map[string]int{}, map[Reason]int{}
	r.report.BrokeOff, r.shown = true, time.Now()
	if err := r.publisher.Confirm(false); err != nil {
		return err
	}
	// RabbitMQ sends a return before the confirmation. Nobody ever waits to hand over either: all fit in.
	r.confirms = make(chan confirmation, window)
	r.returns = r.publisher.NotifyReturn(make(chan amqp.Return, window))
	there, err := r.steady()
	if err != nil {
		return err
	}
	r.report.There = there
	if limit > 0 {
		r.report.There = min(there, limit)
	}
	err = r.handle(ctx)
	if err == nil {
		err = r.settle(0)
	}
	if _, isLost := errors.AsType[*consumerError](err); isLost {
		return err
	}
	if left := r.leave(there); err == nil {
		err = left
	}
	if r.report.BrokeOff = err != nil; err == nil && r.report.Handled < r.report.There {
		err = ctx.Err()
	}
	return err
}

// handle takes one message after the other, until the context ends.
func (r *run) handle(ctx context.Context) error {
	for r.report.Handled < r.report.There && ctx.Err() == nil {
		d, err := r.next(ctx)
		if d == nil {
			return err
		}
		r.report.Handled++
		to := r.rule.Judge(messageOf(*d))
		if to.Stays != "" {
			r.report.Stays[to.Stays]++
			err = r.hold()
		} else {
			err = r.publish(*d, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// next is the next message. It is nil with an error, after the context has ended, and where somebody else has taken the
// rest.
func (r *run) next(ctx context.Context) (*amqp.Delivery, error) {
	silence := time.NewTicker(idle)
	defer silence.Stop()
	wasEmpty := false
	for {
		if err := r.consume(); err != nil {
			return nil, err
		}
		r.show()
		select {
		case d, open := <-r.arrivals:
			if open {
				r.alive()
				r.taken++
				return &d, nil
			}
			if r.arrivals = nil; r.consumes {
				return nil, r.whyEnded()
			}
		case c := <-r.confirms:
			if err := r.confirmed(c); err != nil {
				return nil, err
			}
		case <-silence.C:
			isEmpty, err := r.isEmpty()
			if err != nil || isEmpty && wasEmpty { // messages from before the first answer have come since
				return nil, err
			}
			wasEmpty = isEmpty
			silence.Reset(idle) // the answer may have taken longer
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// isEmpty tells whether nothing is left to take. A message that is under way may come back.
func (r *run) isEmpty() (bool, error) {
	if len(r.pending) > 0 {
		return false, nil
	}
	ready, err := r.ready()
	return ready == 0, err
}

// errConsumerEnded is for a queue that was deleted, or whose leader is gone.
var errConsumerEnded = errors.New("RabbitMQ has ended the consumer")

// whyEnded is why there are no more messages, although nobody has told the consumer to end.
func (r *run) whyEnded() error {
	if _, err := r.count(); err != nil {
		return err
	}
	return ofConsumer(errConsumerEnded)
}

// consume begins to take messages, unless it has begun.
func (r *run) consume() (err error) {
	if r.arrivals != nil {
		return nil
	}
	const wholeChannel, autoAck, exclusive, noLocal, noWait = false, false, false, false, false
	r.held = 0
	if err = r.consumer.Qos(min(window, r.report.There-r.report.Handled), 0, wholeChannel); err != nil {
		return ofConsumer(err)
	}
	r.arrivals, err = r.consumer.Consume(r.rule.Queue, consumerTag, autoAck, exclusive, noLocal, noWait, nil)
	r.consumes = err == nil
	return ofConsumer(err)
}

// hold keeps a message that stays. A consumer that holds half of what it may have ends, and another one goes on. What
// it holds belongs to the channel then.
func (r *run) hold() error {
	if r.held++; r.held < window/2 || !r.consumes {
		return nil
	}
	return r.end()
}

func (r *run) end() error {
	r.consumes = false
	return ofConsumer(r.consumer.Cancel(consumerTag, false))
}

// publish publishes a message. The first one to an exchange goes alone. If that is missing, or the user may not write
// to it, RabbitMQ closes the channel, and tells nothing of others that are under way.
func (r *run) publish(d amqp.Delivery, to Verdict) error {
	most := window - 1
	if !r.known[to.Exchange] {
		most = 0
	}
	if err := r.settle(most); err != nil {
		return err
	}
	p := &pending{tag: d.DeliveryTag, to: to, message: again(d, to.Begins)}
	r.number++
	r.pending[r.number] = p
	outcome, err := r.publisher.Send(to.Exchange, to.Key, p.message)
	if err != nil {
		return err
	}
	go func(number uint64) {
		isTaken, isKnown := outcome()
		r.confirms <- confirmation{number, isTaken, isKnown}
	}(r.number)
	if most == 0 {
		err = r.settle(0)
		r.known[to.Exchange] = true
	}
	return err
}

// settle waits until no more than so many messages are pending.
func (r *run) settle(most int) error {
	for len(r.pending) > most {
		if err := r.confirmed(<-r.confirms); err != nil {
			return err
		}
	}
	return nil
}

// confirmed acknowledges a message that RabbitMQ has taken over.
func (r *run) confirmed(c confirmation) error {
	if !c.isKnown {
		return amqp.ErrClosed
	}
	r.alive()
	for len(r.returns) > 0 {
		if err := r.returned(<-r.returns); err != nil {
			return err
		}
	}
	p := r.pending[c.number]
	delete(r.pending, c.number)
	switch {
	case !c.isTaken:
		r.report.Refused++
		return r.hold()
	case p.isReturned:
		r.report.Returned++
		return r.hold()
	}
	r.report.Published[p.to.Exchange]++
	return ofConsumer(r.consumer.Ack(p.tag, false))
}

// errUnknownReturn is for a message that comes back otherwise than it was published.
var errUnknownReturn = errors.New("RabbitMQ has returned a message that is none of those under way")

func (r *run) returned(back amqp.Return) error {
	for _, number := range slices.Sorted(maps.Keys(r.pending)) {
		if p := r.pending[number]; !p.isReturned && isReturn(p, back) {
			p.isReturned = true
			return nil
		}
	}
	return errUnknownReturn
}

// leave counts what came back, and puts back what stays.
func (r *run) leave(there int) error {
	if r.consumes {
		if err := r.end(); err != nil {
			return err
		}
	}
	if r.arrivals != nil {
		for range r.arrivals {
			r.taken++
		}
	}
	ready, err := r.steady()
	if err != nil {
		return err
	}
	r.report.CameBack = min(max(ready+r.taken-there, 0), r.report.Sum())
	const all, multiple, requeue = 0, true, true
	if err := r.consumer.Nack(all, multiple, requeue); err != nil {
		return ofConsumer(err)
	}
	_, err = r.count() // RabbitMQ has done it when it answers
	return err
}

// count is how many messages RabbitMQ says are ready. That is also 0 where the leader of the queue is gone or slow.
func (r *run) count() (int, error) {
	const durable, autoDelete, exclusive, noWait = true, false, false, false // not compared
	q, err := r.consumer.QueueDeclarePassive(r.rule.Queue, durable, autoDelete, exclusive, noWait, nil)
	return q.Messages, ofConsumer(err)
}

// ready is how many messages the queue has to give. Where RabbitMQ counts none, the leader is asked for one, which is
// put back. That of a queue with a single active consumer refuses it: there is only the count.
func (r *run) ready() (int, error) {
	n, err := r.count()
	if err != nil || n > 0 || r.isForOne {
		return n, err
	}
	const autoAck, multiple, requeue = false, false, true
	first, isThere, err := r.consumer.Get(r.rule.Queue, autoAck)
	if err != nil || !isThere {
		return 0, ofConsumer(err)
	}
	return int(first.MessageCount) + 1, ofConsumer(r.consumer.Nack(first.DeliveryTag, multiple, requeue))
}

// pause is how long the count of a queue has to stay the same.
const pause = 100 * time.Millisecond

// steady is the count once it does not change any more. A quorum queue takes messages back that were on their way to a
// consumer which has ended, and counts them late. So it was with 200 to 400 of 1000 (3.10.8, 4.0.5, 4.3.6).
func (r *run) steady() (ready int, err error) {
	const most = 20
	ready, err = r.ready()
	for before, i := -1, 0; err == nil && ready != before && i < most; i++ {
		time.Sleep(pause)
		before = ready
		ready, err = r.ready()
	}
	return ready, err
}

// show reports the progress from time to time.
func (r *run) show() {
	if time.Since(r.shown) < showEach {
		return
	}
	r.shown = time.Now()
	r.progress(r.report)
}
