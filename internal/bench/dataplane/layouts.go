package dataplane

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
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
	bind func(cascade.Config) (topology.Topology, error)
	// plan is the order in which all that is made, if not the usual one.
	plan func(desired, actual topology.Topology) topology.Plan
	// atHighestBit lets publishers enter at the exchange of the first set bit.
	atHighestBit bool
}

// layouts are the ways that were thought of: which bindings pay for themselves?
var layouts = []layout{
	{name: "chain", bind: withLookahead(1)},
	{name: "chain, entered at the first set bit", bind: withLookahead(1), atHighestBit: true},
	{name: "full at the entry only", bind: func(c cascade.Config) (topology.Topology, error) { return mixed(c, 1) }},
	{name: "full at the entry, lookahead 4 below", bind: func(c cascade.Config) (topology.Topology, error) { return mixed(c, 4) }},
	{name: "full, bound in the opposite order", bind: withLookahead(full), plan: oppositely},
	{name: "full, direct exchanges for round delays", bind: withShortcuts},
	{name: "full", bind: withLookahead(full)},
}

// full is the lookahead of all levels.
const full = 0

func withLookahead(lookahead int) func(cascade.Config) (topology.Topology, error) {
	return func(c cascade.Config) (topology.Topology, error) {
		c.Lookahead, c.InternalLevels = lookahead, false // in one of the layouts publishers enter below the entry
		return cascade.Expand(c)
	}
}

// mixed has full lookahead at the entry, and another one below.
func mixed(c cascade.Config, below int) (topology.Topology, error) {
	entry, err := withLookahead(full)(c)
	if err != nil {
		return topology.Topology{}, err
	}
	rest, err := withLookahead(below)(c)
	if err != nil {
		return topology.Topology{}, err
	}
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
	return rest, nil
}

// oppositely is the plan with the bindings in the opposite order.
func oppositely(desired, actual topology.Topology) topology.Plan {
	plan := topology.Diff(desired, actual)
	for _, phase := range plan {
		if _, binds := phase.Steps[0].(topology.Bind); binds {
			slices.Reverse(phase.Steps)
		}
	}
	return plan
}

// withShortcuts has full lookahead and, before the entry and behind each queue, a direct exchange that takes round delays to where the
// topic exchange would, and leaves all others to that. It takes a binding for each level and destination, twice.
func withShortcuts(c cascade.Config) (topology.Topology, error) {
	t, err := withLookahead(full)(c)
	if err != nil {
		return t, err
	}
	resolved, err := c.Resolve()
	if err != nil {
		return t, err
	}
	before := func(exchange, name string, destinationType topology.DestinationType, destination string, steps int64) {
		t.Exchanges[name] = topology.Exchange{Name: name, Type: "direct", Durable: true, Arguments: topology.Arguments{"alternate-exchange": exchange}}
		t.Bindings.Add(topology.Binding{Source: name, DestinationType: destinationType, Destination: destination, RoutingKey: key(c.Levels, steps)})
	}
	entry := t.Entry
	t.Entry += ".direct"
	for level := range c.Levels {
		queue := t.Queues[resolved.QueueName.Name(level)]
		before(entry, t.Entry, topology.ToQueue, queue.Name, 1<<level)
		if level > 0 {
			next := resolved.ExchangeName.Name(level - 1)
			queue.Arguments = maps.Clone(queue.Arguments)
			queue.Arguments["x-dead-letter-exchange"] = next + ".direct"
			t.Queues[queue.Name] = queue
			before(next, next+".direct", topology.ToExchange, t.Delivery, 1<<level)
		}
	}
	return t, nil
}

// Layouts compares ways to bind 28 levels of quorum queues: how fast messages of eight steps get in, see Publish, and how fast they
// move on from the queue of level 10, see DeadLetter.
func (b *Bench) Layouts(ctx context.Context, o LayoutOptions) error {
	return b.in(ctx, func(ctx context.Context, s *space) error {
		declare := func(prefix string, i int, resolution time.Duration) (*subject, error) {
			c := config(fmt.Sprintf("%s%d", prefix, i), deadLetterLevels, full, cascade.Quorum)
			c.Resolution = resolution
			plan := layouts[i].plan
			if plan == nil {
				plan = topology.Diff
			}
			return s.declareAs(ctx, layouts[i].name, c, layouts[i].bind, plan)
		}
		published, due := make([]*subject, len(layouts)), make([]*subject, len(layouts))
		for i, l := range layouts {
			var err error
			// What is published is never due, so that it is gone with a purge.
			if published[i], err = declare("p", i, publishResolution); err != nil {
				return err
			}
			if due[i], err = declare("d", i, deadLetterResolution); err != nil {
				return err
			}
			if err := s.loader(due[i], deadLetterLevel); err != nil {
				return err
			}
			if err := s.addLayout(l, "bindings", "number", 1, float64(len(due[i].Bindings))); err != nil {
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

func (s *space) layout(ctx context.Context, l layout, published, due *subject, round int, o LayoutOptions) error {
	const steps, level = 8, 3
	entry := published.Entry
	if l.atHighestBit {
		entry = published.config.ExchangeName.Name(level)
	}
	delay := published.key(steps)
	rate, err := s.rate(ctx, publishing{of: published, exchange: entry, key: func() string { return delay }, publishers: 1}, o.Time)
	if err != nil {
		return err
	}
	if err := s.addLayout(l, "rate", "msg/s", round, rate); err != nil {
		return err
	}
	for _, kind := range []string{"round", "random"} {
		if err := s.deadLetterAs(ctx, "layouts "+kind, due, kind, round, o.Messages); err != nil {
			return err
		}
	}
	return nil
}

func (s *space) addLayout(l layout, metric, unit string, round int, value float64) error {
	return s.add(sample.Sample{Scenario: "layouts", Subject: l.name, Parameter: "levels", X: deadLetterLevels, Metric: metric, Unit: unit, Round: round, Value: value})
}
