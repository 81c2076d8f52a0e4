package drain

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// observation is the sight of queues, round after round.
type observation struct {
	counter *counter
	queues  []topology.Queue
	known   []Queue
	overdue map[string]bool // the queues that may keep a message after its time
	ticks   map[string]*Ticks

	mutex  sync.Mutex
	counts []Count
}

// countOld asks the management API for the total counts of quorum queues. They are as old as the queue's last tick, but
// they show at once the messages that have waited for longer.
func (o *observation) countOld(ctx context.Context) error {
	return o.countAtSomeTick(ctx, slices.DeleteFunc(slices.Clone(o.queues),
		func(q topology.Queue) bool { return !isQuorum(q) }))
}

func (o *observation) countAtSomeTick(ctx context.Context, queues []topology.Queue) error {
	totals, err := o.counter.totals(ctx, queues)
	if err != nil {
		return err
	}
	for _, q := range queues {
		t := totals[q.Name]
		o.add(Count{Queue: q.Name, Kind: All, Messages: t.Messages, ReadyOfAll: t.Ready,
			Delayed: t.Delayed, NextDelayed: t.NextDelayed, LastDelayed: t.LastDelayed})
	}
	return nil
}

// count asks all queues for the counts of messages that move through them, and some queues for the counts that are
// lacking.
func (o *observation) count(ctx context.Context, lacks map[string]Kind) error {
	if o.counter.isOverAMQP() {
		// A round that has to do that says little of how fast the broker is.
		o.counter.conn.OpenChannels(ctx, len(o.queues))
	}
	group, together := errgroup.WithContext(ctx)
	group.Go(func() error { return o.countExact(together) })
	for i, q := range o.queues {
		if isQuorum(q) {
			group.Go(func() error { return o.countQuorum(together, q, o.known[i].needs(lacks[q.Name])) })
		}
	}
	return group.Wait()
}

// countQuorum takes the counts of a quorum queue that a round needs.
func (o *observation) countQuorum(ctx context.Context, q topology.Queue, needs needs) (err error) {
	if needs.ready {
		err = o.countReady(ctx, q)
	}
	if err == nil && needs.leader {
		err = o.askLeader(ctx, q)
	}
	if err == nil && needs.old {
		err = o.countAtSomeTick(ctx, []topology.Queue{q})
	}
	if err == nil && needs.ticked {
		err = o.countTicked(ctx, q)
	}
	return err
}

// countReady counts ready messages over AMQP.
func (o *observation) countReady(ctx context.Context, q topology.Queue) error {
	asked := time.Now()
	ready, err := o.counter.depth(ctx, q)
	if err == nil {
		o.add(Count{Queue: q.Name, Kind: Ready, AsOf: asked, Messages: ready.Messages, Consumers: ready.Consumers})
	}
	return err
}

// countExact counts all messages of classic queues, which the management API knows at once, and those of streams.
func (o *observation) countExact(ctx context.Context) error {
	queues := slices.DeleteFunc(slices.Clone(o.queues), isQuorum)
	if len(queues) == 0 {
		return nil
	}
	asked := time.Now()
	totals, err := o.counter.totals(ctx, queues)
	if err != nil {
		return err
	}
	for _, q := range queues {
		t := totals[q.Name]
		asOf := asked
		if q.Type() == "stream" {
			asOf = asked.Add(-streamLag)
		}
		o.add(Count{
			Queue: q.Name, Kind: All, AsOf: asOf, Messages: t.Messages, ReadyOfAll: t.Ready, Consumers: t.Consumers,
		})
	}
	return nil
}

func (o *observation) askLeader(ctx context.Context, q topology.Queue) error {
	asked := time.Now()
	ready, err := o.counter.leader(ctx, q)
	if err != nil {
		return err
	}
	kind := Leader
	if ready.Messages > 0 {
		kind = Ready
	}
	o.add(Count{Queue: q.Name, Kind: kind, AsOf: asked, Messages: ready.Messages})
	return nil
}

// countTicked asks for what a quorum queue has counted at its last tick, and finds out how old that is.
func (o *observation) countTicked(ctx context.Context, q topology.Queue) error {
	asked := time.Now()
	count, err := o.counter.vhost.Count(ctx, q.Name, rabbit.CountedAtTick)
	if err != nil {
		return err
	}
	if count == nil { // what does not exist holds nothing
		o.add(Count{Queue: q.Name, Kind: All, AsOf: asked})
		return nil
	}
	reductions := NoNote
	if count.IsCounted && count.Reductions != nil {
		reductions = *count.Reductions
	}
	if asOf := o.ticks[q.Name].Read(asked, reductions); !asOf.IsZero() {
		o.add(Count{
			Queue: q.Name, Kind: All, AsOf: asOf, Messages: count.Messages, ReadyOfAll: count.Ready,
			Delayed: count.Delayed, NextDelayed: count.NextDelayed, LastDelayed: count.LastDelayed,
			Consumers: count.Consumers,
		})
	}
	return nil
}

func (o *observation) add(c Count) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	c.Answered = time.Now()
	o.counts = append(o.counts, c)
}

// depths are the counts in the words of an error. Of a queue that delays messages by itself, no count says for certain
// that some are overdue. The management API takes over first how many there are, and how many are delayed later.
func (o *observation) depths(waiting []Count) []QueueDepth {
	depths := make([]QueueDepth, len(waiting))
	for i, c := range waiting {
		mayKeep := o.overdue[c.Queue] && !o.delaysItself(c.Queue)
		depths[i] = QueueDepth{
			Name: c.Queue, Messages: c.Messages, Consumers: c.Consumers,
			Delayed: c.Delayed, NextDelayed: c.NextDelayed, LastDelayed: c.LastDelayed,
			Overdue: c.Kind == All && mayKeep && overdueOf(c.Messages, c.ReadyOfAll, c.Delayed, c.Consumers) > 0,
		}
	}
	return depths
}

func (o *observation) delaysItself(queue string) bool {
	return slices.ContainsFunc(o.known, func(q Queue) bool { return q.Name == queue && q.DelaysItself })
}
