package dataplane

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// LayoutOptions say how Layouts measures.
type LayoutOptions struct {
	Time     time.Duration // of one sample of publishing
	Messages int           // that wait, to be moved on
	Rounds   int
}

// layout is a way to bind the exchanges of a cascade to its queues.
type layout struct {
	name string
	// bind is the topology with 28 levels of quorum queues.
	bind func(delay.Cascade) topology.Topology
	// plan is the order in which all that is made, if not the usual one.
	todo func(desired, actual topology.Topology) plan.Plan
	// atHighestBit lets publishers enter at the exchange of the first set bit.
	atHighestBit bool
}

// layouts are the ways that were thought of: which bindings pay for themselves?
var layouts = []layout{
	{name: "chain", bind: withLookahead(1)},
	{name: "chain, entered at the first set bit", bind: withLookahead(1), atHighestBit: true},
	{name: "full at the entry only", bind: func(c delay.Cascade) topology.Topology { return mixed(c, 1) }},
	{name: "full at the entry, lookahead 4 below", bind: func(c delay.Cascade) topology.Topology {
		return mixed(c, 4)
	}},
	{name: "full, bound in the opposite order", bind: withLookahead(full), todo: oppositely},
	{name: "full, direct exchanges for round delays", bind: withShortcuts},
	{name: "full", bind: withLookahead(full)},
}

// full is the lookahead of all levels.
const full = 0

func withLookahead(lookahead int) func(delay.Cascade) topology.Topology {
	return func(c delay.Cascade) topology.Topology {
		c.Lookahead = cmp.Or(lookahead, c.Levels)
		return c.Expand()
	}
}

// mixed has full lookahead at the entry, and another one below.
func mixed(c delay.Cascade, below int) topology.Topology {
	entry, rest := withLookahead(full)(c), withLookahead(below)(c)
	bindings := topology.Bindings{}
	for b := range entry.Bindings {
		if b.Source == entry.Entry {
			bindings.Add(b)
		}
	}
	for b := range rest.Bindings {
		if b.Source != rest.Entry {
			bindings.Add(b)
		}
	}
	rest.Bindings = bindings
	return rest
}

// oppositely is the plan with the bindings in the opposite order.
func oppositely(desired, actual topology.Topology) plan.Plan {
	todo := plan.Repair(desired, actual)
	for _, phase := range todo {
		if _, binds := phase.Steps[0].(plan.Bind); binds {
			slices.Reverse(phase.Steps)
		}
	}
	return todo
}

// withShortcuts has full lookahead and a direct exchange before the entry and behind each queue. That exchange takes
// round delays to where the topic exchange would, and leaves all others to that. It takes a binding for each level and
// destination, twice.
func withShortcuts(c delay.Cascade) topology.Topology {
	t := withLookahead(full)(c)
	before := func(exchange, name string, destinationType topology.DestinationType, destination string, steps int64) {
		t.Exchanges[name] = topology.Exchange{Name: name, Type: "direct", Durable: true,
			Arguments: topology.Arguments{"alternate-exchange": exchange}}
		t.Bindings.Add(topology.Binding{Source: name, DestinationType: destinationType, Destination: destination,
			RoutingKey: key(c, steps)})
	}
	entry := t.Entry
	t.Entry += ".direct"
	for level := range c.Levels {
		queue := t.Queues[c.DelayQueues(level)[0].Name]
		before(entry, t.Entry, topology.ToQueue, queue.Name, 1<<level)
		if level > 0 {
			next := c.Exchange(level - 1)
			queue.Arguments = maps.Clone(queue.Arguments)
			queue.Arguments["x-dead-letter-exchange"] = next + ".direct"
			t.Queues[queue.Name] = queue
			before(next, next+".direct", topology.ToExchange, t.Delivery, 1<<level)
		}
	}
	return t
}

// Layouts compares ways to bind 28 levels of quorum queues. It measures how fast messages of eight steps get in, see
// Publish. It measures how fast they move on from the queue of level 10, see DeadLetter.
func (b *Bench) Layouts(ctx context.Context, o LayoutOptions) error {
	return b.in(ctx, func(ctx context.Context, s *space) error {
		published, due := make([]*subject, len(layouts)), make([]*subject, len(layouts))
		for i, l := range layouts {
			var err error
			if published[i], due[i], err = s.declareLayout(ctx, l, i); err != nil {
				return err
			}
		}
		for round := 1; round <= o.Rounds; round++ {
			for _, i := range rand.Perm(len(layouts)) {
				if err := s.layout(ctx, layouts[i], published[i], due[i], round, o); err != nil {
					return fmt.Errorf("%s: %w", layouts[i].name, err)
				}
			}
		}
		return nil
	})
}

// declareLayout declares a cascade to publish to, and one from which messages move on.
func (s *space) declareLayout(ctx context.Context, l layout, i int) (published, due *subject, err error) {
	declare := func(prefix string, resolution time.Duration) (*subject, error) {
		c := config(fmt.Sprintf("%s%d", prefix, i), deadLetterLevels, full, delay.Quorum)
		c.Resolution = resolution
		todo := l.todo
		if todo == nil {
			todo = plan.Repair
		}
		return s.declareAs(ctx, l.name, c, l.bind, todo)
	}
	// No published message is ever due, so that a purge takes all of them.
	if published, err = declare("p", publishResolution); err != nil {
		return nil, nil, err
	}
	if due, err = declare("d", deadLetterResolution); err != nil {
		return nil, nil, err
	}
	if err := s.loader(due, deadLetterSteps); err != nil {
		return nil, nil, err
	}
	return published, due, s.addLayout(l, "bindings", "number", 1, float64(len(due.Bindings)))
}

func (s *space) layout(ctx context.Context, l layout, published, due *subject, round int, o LayoutOptions) error {
	const steps, level = 8, 3
	entry := published.Entry
	if l.atHighestBit {
		entry = published.cascade.Exchange(level)
	}
	delay := published.key(steps)
	rate, err := s.rate(ctx, publishing{of: published, exchange: entry, key: func() string { return delay },
		publishers: 1}, o.Time)
	if err != nil {
		return err
	}
	if err := s.addLayout(l, "rate", "msg/s", round, rate); err != nil {
		return err
	}
	for kind, more := range deadLetterKinds {
		if err := s.burst(ctx, "layouts "+kind, due, deadLetterSteps, more, round, o.Messages); err != nil {
			return err
		}
	}
	return nil
}

func (s *space) addLayout(l layout, metric, unit string, round int, value float64) error {
	return s.add(sample.Sample{Scenario: "layouts", Subject: l.name, Parameter: "levels", X: deadLetterLevels,
		Metric: metric, Unit: unit, Round: round, Value: value})
}
