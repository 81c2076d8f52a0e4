package drain

import (
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Proven is that queues certainly held nothing at a time. Without it, a destroy of 28 levels would look anew into each
// queue that it deletes, and take several times as long.
type Proven struct {
	queues []topology.Queue
	since  time.Time
	// stay is the shortest time for which a message in one of the queues is ready.
	stay  time.Duration
	known []Queue
}

// Proven is what an empty verdict has proven of the queues that were judged.
func (p Proof) Proven(queues []topology.Queue, v Verdict) Proven {
	return Proven{queues: queues, since: v.Since, stay: v.stay, known: p.Queues}
}

// HoldsAt is true while a message that has come into one of the queues since is still ready there, unless somebody
// consumes it. No ready message then says that they are still empty. It never is for queues that delay messages by
// themselves.
func (p Proven) HoldsAt(now time.Time, queues []topology.Queue) bool {
	return now.Sub(p.since) < p.stay && !slices.ContainsFunc(queues,
		func(q topology.Queue) bool { return !p.Covers(q, time.Time{}) })
}

// Renewed is the proof of queues for which it still held at a time.
func (p Proven) Renewed(queues []topology.Queue, at time.Time) Proven {
	p.queues, p.since = queues, at
	return p
}

// Covers tells whether the queue held nothing at a time after its ways in were closed.
func (p Proven) Covers(q topology.Queue, closed time.Time) bool {
	return slices.ContainsFunc(p.queues, q.Equal) && p.since.After(closed)
}

// WithoutQueue is the rest of the proof when a queue has changed.
func (p Proven) WithoutQueue(name string) Proven {
	p.queues = slices.DeleteFunc(slices.Clone(p.queues), func(q topology.Queue) bool { return q.Name == name })
	return p
}

// NeedsCountOfAll tells whether the ready messages of a queue are not all that it may hold.
func (p Proven) NeedsCountOfAll(queue string) bool {
	return slices.ContainsFunc(p.known, func(q Queue) bool { return q.Name == queue && q.MayHide })
}

// lastLook tells whether a look over AMQP finds a queue still empty, and whether its leader has to say so, too. The
// count of all may be old: where a message was ready earlier on, those that it has as ready may have left.
func (p Proven) lastLook(all, ready Count, filled bool) (isEmpty, needsLeader bool) {
	isEmpty = (all.Messages == 0 || filled && all.Messages == all.ReadyOfAll) && isIdle(ready.Messages, ready.Consumers)
	return isEmpty, isEmpty && !p.NeedsCountOfAll(all.Queue)
}

func isIdle(ready, consumers int64) bool { return ready == 0 && consumers == 0 }
