package drain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// endedError is for an AMQP connection that ended in the middle, or that cannot be opened again. It is also for a
// question that the broker refuses, or answers too late.
type endedError struct{ err error }

func (e *endedError) Error() string { return "the AMQP connection has ended: " + e.err.Error() }

// counter counts messages in queues: over AMQP, or through the management API alone.
type counter struct {
	vhost *rabbit.Vhost
	// conn asks the queues themselves, nil where AMQP is not to be had.
	conn   *rabbit.Conn
	filled *sync.Map // see Prover
	// failure is set once the connection has ended, or the broker has refused a question or answered too late.
	failure atomic.Pointer[endedError]
}

func (c *counter) isOverAMQP() bool { return c.conn != nil }

// version is that of the broker, empty if it cannot be found out.
func (c *counter) version(ctx context.Context) string {
	if c.isOverAMQP() {
		return c.conn.Version()
	}
	return c.vhost.Client().Version(ctx)
}

func (c *counter) close() {
	if c.isOverAMQP() {
		c.conn.Close()
	}
}

// polling is the time between two questions while messages wait, or a count is waited for.
const polling = 250 * time.Millisecond

// question asks a queue something over AMQP.
type question func(*rabbit.Conn, context.Context, string) (count rabbit.ReadyCount, exists bool, err error)

// patience is how long a queue is asked again that answers late.
const patience = 5 * time.Second

// ask asks a queue until its answer is not late. One that does not exist holds nothing.
func (c *counter) ask(ctx context.Context, q topology.Queue, question question) (rabbit.ReadyCount, error) {
	count, exists, err := question(c.conn, ctx, q.Name)
	for began := time.Now(); err == nil && isLate(q, count); {
		if time.Since(began) >= patience {
			err = rabbit.ErrLate
			break
		}
		count, exists, err = question(c.conn, ctx, q.Name)
		count.IsPrompt = false
	}
	switch {
	case ctx.Err() != nil:
		return count, c.vhost.Client().Interrupted(c.vhost.Counting(q.Name), ctx.Err())
	case err != nil:
		c.failure.CompareAndSwap(nil, &endedError{err})
		return count, c.failure.Load() // the end of the connection may follow from another failure
	case !exists:
		// That is also the answer for a queue on a node that is down.
		_, known, err := c.vhost.Queue(ctx, q.Name)
		if err == nil && known {
			err = uncountable(c.vhost, q.Name, "it exists, but is not available")
		}
		return rabbit.ReadyCount{}, err
	}
	return count, nil
}

// isLate tells whether RabbitMQ may have answered in place of the leader of a quorum queue.
func isLate(q topology.Queue, count rabbit.ReadyCount) bool { return isQuorum(q) && count.IsLate }

// depth counts the ready messages of a queue.
func (c *counter) depth(ctx context.Context, q topology.Queue) (rabbit.ReadyCount, error) {
	count, err := c.ask(ctx, q, (*rabbit.Conn).Depth)
	if count.Messages > 0 && q.Type() != "stream" {
		c.filled.Store(q.Name, true)
	}
	return count, err
}

// leader asks a quorum queue for a message, which only its leader has, and puts it back. A queue without a leader, for
// moments after its node started, says that nothing is ready, but it does not answer this (TestQueueWithoutLeader).
// That counts as a delivery of a message that came just now, so nobody asks where a policy limits these. Nor does
// anybody where the queue may delay a message that is put back.
//
// If there seems to have been no leader a moment ago, it asks again, for two reasons. By then, the messages that a
// client had got from the leader before are back. And the deletion of a queue in the first millisecond of its leader
// can cost the node its at-least-once dead-lettering. That is for good (3.10.8; issue 16652 of RabbitMQ).
func (c *counter) leader(ctx context.Context, q topology.Queue) (rabbit.ReadyCount, error) {
	count, err := c.ask(ctx, q, (*rabbit.Conn).Peek)
	if err != nil || count.Messages > 0 || count.IsPrompt {
		return count, err
	}
	if err := c.vhost.Client().Wait(ctx, Settling); err != nil {
		return count, err
	}
	return c.ask(ctx, q, (*rabbit.Conn).Peek)
}

// ready counts ready messages, for a wait: the counts may be old.
func (c *counter) ready(ctx context.Context, queues []topology.Queue) ([]QueueDepth, error) {
	if c.isOverAMQP() {
		return rabbit.AskAll(ctx, queues, func(ctx context.Context, q topology.Queue) (QueueDepth, error) {
			count, err := c.depth(ctx, q)
			if q.Type() == "stream" {
				count.Messages = 0 // by the statistics, and 1 for some seconds where a new one is empty
			}
			return QueueDepth{Name: q.Name, Messages: count.Messages, Consumers: count.Consumers}, err
		})
	}
	totals, err := c.totals(ctx, queues)
	if err != nil {
		return nil, err
	}
	depths := make([]QueueDepth, len(queues))
	for i, q := range queues {
		depths[i] = QueueDepth{Name: q.Name, Messages: totals[q.Name].Messages, Consumers: totals[q.Name].Consumers}
	}
	return depths, nil
}

// isStillEmpty tells whether a queue that an earlier proof covers has got no message since. Over AMQP it asks the
// leader of the queue last.
func (c *counter) isStillEmpty(ctx context.Context, q topology.Queue, earlier Proven) (bool, error) {
	totals, err := c.totals(ctx, []topology.Queue{q})
	if err != nil {
		return false, err
	}
	total := totals[q.Name]
	if !c.isOverAMQP() {
		return total.Messages == 0, nil
	}
	ready, err := c.ask(ctx, q, (*rabbit.Conn).Depth)
	_, filled := c.filled.Load(q.Name)
	isEmpty, needsLeader := earlier.lastLook(Count{Queue: q.Name, Messages: total.Messages, ReadyOfAll: total.Ready},
		Count{Messages: ready.Messages, Consumers: ready.Consumers}, filled)
	if err == nil && needsLeader {
		ready, err = c.leader(ctx, q)
		isEmpty = ready.Messages == 0
	}
	return isEmpty, err
}

// verifyServed fails for a queue that was declared and that nobody serves.
func (c *counter) verifyServed(ctx context.Context, q topology.Queue) error {
	if _, err := c.count(ctx, q); err != nil || !isQuorum(q) {
		return err
	}
	if c.isOverAMQP() {
		ready, err := c.ask(ctx, q, (*rabbit.Conn).Depth)
		if err == nil && ready.Messages == 0 {
			_, err = c.ask(ctx, q, (*rabbit.Conn).Peek) // nobody knows the queue yet: there is nothing to deliver
		}
		return err
	}
	for deadline := time.Now().Add(2 * streamLag); ; { // its leader counts it
		count, err := c.countServed(ctx, q, rabbit.CountedAtTick)
		if err != nil || count == nil || count.Reductions != nil {
			return err
		}
		if time.Now().After(deadline) {
			return uncountable(c.vhost, q.Name, "it has not been counted since it was declared")
		}
		if err := c.vhost.Client().Wait(ctx, polling); err != nil {
			return err
		}
	}
}

// streamLag is how old the count of a stream may be, which has no ticks. Only a queue that somebody has declared
// anew is one. It is also how long a count may be missing: until a tick, or until the statistics have it.
const streamLag = 11 * time.Second

// majorityLag is how long a queue may be without most of its members online. One that was declared just now may have
// none, on a busy node for moments (4.3.6). In a busy cluster that has just lost a node, it may have one of three for
// longer than streamLag (4.0.5).
const majorityLag = 30 * time.Second

// totals asks for all that the queues hold. It waits for counts that RabbitMQ leaves out, such as that of a quorum
// queue until its first tick (3.10.8). If they do not come, it fails: nothing is empty by a missing count.
func (c *counter) totals(ctx context.Context, queues []topology.Queue) (map[string]rabbit.QueueCount, error) {
	totals := map[string]rabbit.QueueCount{}
	for deadline := (time.Time{}); ; {
		if err := c.addTotals(ctx, queues, totals); err != nil {
			return nil, err
		}
		if deadline.IsZero() { // the first count may have waited for a majority
			deadline = time.Now().Add(streamLag)
		}
		if queues = unknown(queues, totals); len(queues) == 0 {
			return totals, nil
		}
		if time.Now().After(deadline) {
			return nil, uncounted(c.vhost, queues[0].Name)
		}
		if err := c.vhost.Client().Wait(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// unknown are the queues that have no count yet.
func unknown(queues []topology.Queue, totals map[string]rabbit.QueueCount) []topology.Queue {
	return slices.DeleteFunc(slices.Clone(queues), func(q topology.Queue) bool {
		_, known := totals[q.Name]
		return known
	})
}

// addTotals adds the counts that RabbitMQ tells now. Where one is missing, it lists the queues of the whole vhost. An
// older broker gives exact counts of classic queues nowhere else (3.10.8 does not, 4.0.5 does).
func (c *counter) addTotals(
	ctx context.Context, queues []topology.Queue, totals map[string]rabbit.QueueCount,
) error {
	counts, err := rabbit.AskAll(ctx, queues, c.count)
	if err != nil {
		return err
	}
	for i, q := range queues {
		switch {
		case counts[i] == nil: // a queue that does not exist holds nothing
			totals[q.Name] = rabbit.QueueCount{}
		case counts[i].IsCounted:
			totals[q.Name] = *counts[i]
		}
	}
	if len(unknown(queues, totals)) == 0 {
		return nil
	}
	listed, err := c.vhost.CountAll(ctx)
	for name, count := range listed {
		if _, known := totals[name]; !known && count.IsCounted {
			totals[name] = *count
		}
	}
	return err
}

// count is the present count of a queue, or that of its last tick where there is no present one. It is nil for a queue
// that does not exist.
func (c *counter) count(ctx context.Context, q topology.Queue) (*rabbit.QueueCount, error) {
	count, err := c.countServed(ctx, q, rabbit.CountedNow)
	if err == nil && count != nil && !count.IsCounted && q.Type() != "classic" {
		return c.countServed(ctx, q, rabbit.CountedLast)
	}
	return count, err
}

// countServed waits until most members of a queue are online. There is none of a stream until there are statistics of
// it (3.10.8).
func (c *counter) countServed(
	ctx context.Context, q topology.Queue, kind rabbit.CountKind,
) (*rabbit.QueueCount, error) {
	for deadline := time.Now().Add(majorityLag); ; {
		count, err := c.vhost.Count(ctx, q.Name, kind)
		if err != nil || count == nil || count.HasMajority() {
			return count, err
		}
		if time.Now().After(deadline) {
			// RabbitMQ says of such a queue that nothing is ready (stat in rabbit_quorum_queue).
			return nil, uncountable(c.vhost, q.Name,
				fmt.Sprintf("only %d of its %d members are online", count.Online, count.Members))
		}
		if err := c.vhost.Client().Wait(ctx, polling); err != nil {
			return nil, err
		}
	}
}

// uncounted is for a queue whose count RabbitMQ leaves out for good.
func uncounted(vhost *rabbit.Vhost, queue string) error {
	return &rabbit.Error{Kind: rabbit.Unavailable, Op: vhost.Counting(queue),
		Reason: "the management API does not say how many there are",
		Hint: "nothing is deleted while it is not certain that the queue is empty. RabbitMQ 4.3.0 to 4.3.3 leave out " +
			"the counts of quorum queues that come from 3.13 (rabbitmq-server issue 16974): 4.3.4 has them. " +
			halfDone}
}

func uncountable(vhost *rabbit.Vhost, queue, why string) error {
	return &rabbit.Error{Kind: rabbit.Unavailable, Op: vhost.Counting(queue), Reason: why,
		Hint: "nothing is deleted while it is not certain that the queue is empty. Look at the state of the queue " +
			"and of the nodes that hold it. " + halfDone}
}

// halfDone is the state of a queue after a declaration or deletion whose client or connection ended in the middle.
// RabbitMQ keeps it over a restart (3.10.8).
const halfDone = "A broken-off declaration or deletion may have left the queue without replicas. Only if " +
	"rabbitmq-queues quorum_status names none: it holds nothing, delete it with rabbitmqctl delete_queue"

func isQuorum(q topology.Queue) bool { return q.Type() == "quorum" }
