package broker

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/emptiness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// observation is the sight of queues, round after round.
type observation struct {
	*inspector
	queues  []topology.Queue
	known   []emptiness.Queue
	overdue map[string]bool // the queues that may keep a message after its time
	ticks   map[string]*emptiness.Ticks

	mutex  sync.Mutex
	counts []emptiness.Count
}

// observe finds out what has to be known of the queues to count them, and takes the old counts of quorum queues.
func (i *inspector) observe(ctx context.Context, queues []topology.Queue) (*observation, error) {
	o := &observation{inspector: i, queues: queues, ticks: map[string]*emptiness.Ticks{}}
	conn := i.amqp(ctx)
	group, together := errgroup.WithContext(ctx)
	var around emptiness.Surroundings
	group.Go(func() (err error) {
		around, o.overdue, err = i.surroundings(together, queues)
		return err
	})
	group.Go(func() error { return o.countOld(together) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	around.Version = i.version(ctx)
	var hiding []string
	for _, q := range queues {
		known := around.Known(q, conn != nil, o.overdue)
		_, known.Filled = i.filled.Load(q.Name)
		if isQuorum(q) {
			o.ticks[q.Name] = &emptiness.Ticks{}
			if known.Hides {
				hiding = append(hiding, q.Name)
			}
		}
		o.known = append(o.known, known)
	}
	return o, i.needStatistics(ctx, hiding)
}

// needStatistics fails where RabbitMQ does not say when it has counted the queues.
func (i *inspector) needStatistics(ctx context.Context, queues []string) error {
	if len(queues) == 0 || i.hasStatistics.Load() {
		return nil
	}
	o, err := i.overview(i.newCall(ctx))
	if err != nil {
		return i.failed("ask whether RabbitMQ collects statistics", err)
	}
	if !o.DisableStats {
		i.hasStatistics.Store(true)
		return nil
	}
	return &Error{Unavailable, i.counting(queues[0]),
		"RabbitMQ's statistics are switched off (management_agent.disable_metrics_collector), and only they tell " +
			"whether a quorum queue keeps a message after its time, or delays one by itself",
		"nothing is deleted while that is not certain. Switch the statistics on, or make sure of it yourself and set " +
			"force_destroy = true"}
}

// countOld asks the management API for the total counts of quorum queues. They are as old as the queue's last tick, but
// they show at once the messages that have waited for longer.
func (o *observation) countOld(ctx context.Context) error {
	return o.countAtSomeTick(ctx, slices.DeleteFunc(slices.Clone(o.queues),
		func(q topology.Queue) bool { return !isQuorum(q) }))
}

func (o *observation) countAtSomeTick(ctx context.Context, queues []topology.Queue) error {
	totals, err := o.totals(ctx, queues)
	if err != nil {
		return err
	}
	for _, q := range queues {
		t := totals[q.Name]
		o.add(emptiness.Count{Queue: q.Name, Kind: emptiness.All, Messages: t.messages, ReadyOfAll: t.ready})
	}
	return nil
}

// count asks all queues for the counts of messages that move through them, and some queues for the counts that are
// lacking.
func (o *observation) count(ctx context.Context, lacks map[string]emptiness.Kind) error {
	if conn := o.amqp(ctx); conn != nil {
		conn.openChannels(ctx, len(o.queues)) // a round that has to do that says little of how fast the broker is
	}
	group, together := errgroup.WithContext(ctx)
	group.Go(func() error { return o.countExact(together) })
	for i, q := range o.queues {
		if !isQuorum(q) {
			continue
		}
		group.Go(func() error {
			if o.known[i].Moves == emptiness.Ready {
				if err := o.countReady(together, q); err != nil {
					return err
				}
			}
			kind, lacking := lacks[q.Name]
			switch {
			case lacking && kind == emptiness.Leader:
				return o.askLeader(together, q)
			case lacking && !o.known[i].Hides: // for the sake of an old count, which may be another one by now
				if err := o.countAtSomeTick(together, []topology.Queue{q}); err != nil {
					return err
				}
				return o.countTicked(together, q)
			case o.known[i].Hides:
				return o.countTicked(together, q)
			}
			return nil
		})
	}
	return group.Wait()
}

// countReady counts ready messages over AMQP.
func (o *observation) countReady(ctx context.Context, q topology.Queue) error {
	asked := time.Now()
	depth, err := o.overSession(ctx, q, (*amqpConn).depth)
	if err == nil {
		o.noteFilled(depth)
		o.add(emptiness.Count{
			Queue: q.Name, Kind: emptiness.Ready, AsOf: asked, Messages: depth.Messages, Consumers: depth.Consumers,
		})
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
	totals, err := o.totals(ctx, queues)
	if err != nil {
		return err
	}
	for _, q := range queues {
		t := totals[q.Name]
		asOf := asked
		if q.Type() == "stream" {
			asOf = asked.Add(-streamLag)
		}
		o.add(emptiness.Count{
			Queue: q.Name, Kind: emptiness.All, AsOf: asOf, Messages: t.messages, ReadyOfAll: t.ready,
			Consumers: t.consumers,
		})
	}
	return nil
}

func (o *observation) askLeader(ctx context.Context, q topology.Queue) error {
	asked := time.Now()
	depth, err := o.leader(ctx, q)
	if err != nil {
		return err
	}
	kind := emptiness.Leader
	if depth.Messages > 0 {
		kind = emptiness.Ready
	}
	o.add(emptiness.Count{Queue: q.Name, Kind: kind, AsOf: asked, Messages: depth.Messages})
	return nil
}

// countTicked asks for what a quorum queue has counted at its last tick, and finds out how old that is.
func (o *observation) countTicked(ctx context.Context, q topology.Queue) error {
	asked := time.Now()
	info, err := o.totalNow(ctx, q, "?columns="+tickColumns)
	if err != nil {
		return err
	}
	if info == nil { // what does not exist holds nothing
		o.add(emptiness.Count{Queue: q.Name, Kind: emptiness.All, AsOf: asked})
		return nil
	}
	total, reductions := info.total(), emptiness.NoNote
	if total != nil && info.Reductions.n != nil {
		reductions = *info.Reductions.n
	}
	if asOf := o.ticks[q.Name].Read(asked, reductions); !asOf.IsZero() {
		o.add(emptiness.Count{
			Queue: q.Name, Kind: emptiness.All, AsOf: asOf, Messages: total.messages, ReadyOfAll: total.ready,
			Delayed: info.Delayed.value, NextDelayed: sinceEpoch(info.NextDelayed),
			LastDelayed: sinceEpoch(info.LastDelayed), Consumers: total.consumers,
		})
	}
	return nil
}

func (o *observation) add(c emptiness.Count) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	c.Answered = time.Now()
	o.counts = append(o.counts, c)
}

// depths are the counts in the words of an error. An old count may not tell what the queue delays.
func (o *observation) depths(waiting []emptiness.Count) []QueueDepth {
	depths := make([]QueueDepth, len(waiting))
	for i, c := range waiting {
		mayKeep := o.overdue[c.Queue] && (!c.AsOf.IsZero() || !o.delaysItself(c.Queue))
		depths[i] = QueueDepth{
			Name: c.Queue, Messages: c.Messages, Consumers: c.Consumers,
			Delayed: c.Delayed, NextDelayed: c.NextDelayed, LastDelayed: c.LastDelayed,
			Overdue: c.Kind == emptiness.All && mayKeep && c.Consumers == 0 && c.Messages > c.ReadyOfAll+c.Delayed,
		}
	}
	return depths
}

func (o *observation) delaysItself(queue string) bool {
	return slices.ContainsFunc(o.known, func(q emptiness.Queue) bool { return q.Name == queue && q.DelaysItself })
}
