package dataplane

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// BacklogOptions say what Backlog measures.
type BacklogOptions struct {
	QueueTypes []delay.QueueType
	Messages   int
	Wait       time.Duration // how long the messages wait, at least: longer than it takes to publish them
	Paced      PacedOptions  // measured while they wait, at its first rate
}

const (
	backlogLevels = 28
	backlogLevel  = 10
)

// Backlog fills the queue of level 10 of a cascade with full lookahead, past the entry and with a round delay. It
// measures the cost of the wait: memory and disk per message, and lateness and publish rate in another cascade beside
// them. It also measures how fast the messages leave when all of them are due.
func (b *Bench) Backlog(ctx context.Context, o BacklogOptions) error {
	for _, queueType := range o.QueueTypes {
		// A process does not give back what another backlog took. Where it cannot be restarted, its memory says
		// nothing.
		if err := b.broker.Restart(ctx); err != nil && !errors.Is(err, brokertest.ErrUnsupported) {
			return err
		}
		err := b.in(ctx, func(ctx context.Context, s *space) error { return s.backlog(ctx, queueType, o) })
		if err != nil {
			return fmt.Errorf("backlog in %s queues: %w", queueType, err)
		}
	}
	return nil
}

func (s *space) backlog(ctx context.Context, queueType delay.QueueType, o BacklogOptions) error {
	n := float64(o.Messages)
	scenario := "backlog " + string(queueType)
	add := func(metric, unit string, value float64) error {
		return s.add(sample.Sample{Scenario: scenario, Subject: "full", Parameter: "messages", X: n, Metric: metric,
			Unit: unit, Round: 1, Value: value})
	}
	waiting := config("waiting", backlogLevels, full, queueType)
	waiting.Resolution = (o.Wait >> backlogLevel).Truncate(time.Millisecond) + time.Millisecond
	wait := waiting.Resolution << backlogLevel
	store, err := s.declare(ctx, "full", waiting)
	if err != nil {
		return err
	}
	if err := s.loader(store, 1<<backlogLevel); err != nil {
		return err
	}
	beside := config("beside", pacedLevels, full, queueType)
	beside.Resolution = pacedResolution
	of, err := s.declare(ctx, "full", beside)
	if err != nil {
		return err
	}
	receiver, receiving, err := s.receive(store.Delivery, o.Messages)
	if err != nil {
		return err
	}
	defer receiving.Close()
	var empty lateness
	for range 2 { // the first time warms up a broker that was just restarted
		if empty, err = s.paced(ctx, of, o.Paced.Rates[0], o.Paced); err != nil {
			return err
		}
	}
	if err := s.addLateness("lateness beside no backlog "+string(queueType), "full", "messages", n, 1,
		empty); err != nil {
		return err
	}
	before, err := s.usage(ctx)
	if err != nil {
		return err
	}

	started := time.Now()
	if err := s.fill(ctx, store, receiver, wait, o.Messages); err != nil {
		return err
	}
	published := time.Since(started)
	if err := add("publish rate", "msg/s", n/published.Seconds()); err != nil {
		return err
	}
	after, err := s.usage(ctx)
	if err != nil {
		return err
	}
	err = errors.Join(
		add("memory", "bytes/message", (after.memory-before.memory)/n),
		add("process memory", "bytes/message", (after.rss-before.rss)/n),
		add("disk", "bytes/message", (after.disk-before.disk)/n))
	if err != nil {
		return err
	}
	standing, err := s.paced(ctx, of, o.Paced.Rates[0], o.Paced)
	if err != nil {
		return err
	}
	if err := s.addLateness("lateness beside a backlog "+string(queueType), "full", "messages", n, 1,
		standing); err != nil {
		return err
	}
	if err := s.besides(ctx, of, "publish beside a backlog "+string(queueType), n); err != nil {
		return err
	}

	firstDue := started.Add(wait)
	if time.Now().After(firstDue) {
		return fmt.Errorf("after %s the first messages are due, before everything is measured; let them wait "+
			"longer than %s", time.Since(started), wait)
	}
	late, err := receiver.wait(ctx, o.Messages, firstDue.Add(20*time.Minute))
	if err != nil {
		return err
	}
	took := time.Since(firstDue)
	if err := add("arrived", "share", float64(len(late))/n); err != nil {
		return err
	}
	// Messages are due as fast as they were published: a rate below that is the limit of dead-lettering.
	if err := add("rate when due", "msg/s", float64(len(late))/took.Seconds()); err != nil {
		return err
	}
	// Not before: purged messages take memory for a while.
	return s.besides(ctx, of, "publish beside no backlog "+string(queueType), n)
}

// fill puts messages with a round delay into the queue behind the loader.
func (s *space) fill(ctx context.Context, of *subject, r *receiver, wait time.Duration, n int) error {
	sender, err := newSender(s.conn)
	if err != nil {
		return err
	}
	key := of.key(1 << backlogLevel)
	for range n {
		if err := sender.send(ctx, loaderName(of), key, r.stamped(time.Now().Add(wait))); err != nil {
			return err
		}
	}
	return sender.close(ctx)
}

// besides measures how fast messages are published that wait for longer than everything here takes.
func (s *space) besides(ctx context.Context, of *subject, scenario string, n float64) error {
	const samples, each, level = 3, 1200 * time.Millisecond, 20
	key := of.key(1 << level)
	p := publishing{scenario, of, of.Entry, func() string { return key }, 1}
	for i := range samples {
		if err := s.sampleRate(ctx, p, "messages", n, i+1, each); err != nil {
			return err
		}
	}
	return nil
}

// usage is what all nodes of the broker take, in bytes.
type usage struct{ memory, rss, disk float64 }

// usage looks once the broker has done what it does in the background after a burst.
func (s *space) usage(ctx context.Context) (sum usage, err error) {
	time.Sleep(3 * time.Second)
	nodes := []*brokertest.Broker{s.broker}
	for _, m := range s.nodes {
		if m.Broker != s.broker {
			nodes = append(nodes, m.Broker)
		}
	}
	of := make([]usage, len(nodes))
	group, together := errgroup.WithContext(ctx)
	for i, node := range nodes {
		group.Go(func() (err error) {
			of[i], err = usageOf(together, node)
			return err
		})
	}
	err = group.Wait()
	for _, u := range of {
		sum = usage{sum.memory + u.memory, sum.rss + u.rss, sum.disk + u.disk}
	}
	return sum, err
}

func usageOf(ctx context.Context, node *brokertest.Broker) (usage, error) {
	const look = `[garbage_collect(P) || P <- processes()], ` +
		`Directory = case erlang:function_exported(rabbit, data_dir, 0) of true -> rabbit:data_dir(); false -> ` +
		`rabbit_mnesia:dir() end, ` +
		`lists:flatten(io_lib:format("~w ~w ~s", [erlang:memory(total), ` +
		`proplists:get_value(rss, proplists:get_value(total, rabbit_vm:memory())), hd(string:lexemes(os:cmd("du -sk ` +
		`" ++ Directory), "\t "))])).`
	text, err := node.CLI(ctx, "rabbitmqctl", "eval", look)
	if err != nil {
		return usage{}, err
	}
	return parseUsage(string(text))
}

func parseUsage(text string) (usage, error) {
	fields := strings.Fields(strings.Trim(strings.TrimSpace(text), `"`))
	if len(fields) != 3 {
		return usage{}, fmt.Errorf("%q is not memory, memory of the process and disk", text)
	}
	var figures [3]float64
	for i, field := range fields {
		figure, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return usage{}, err
		}
		figures[i] = figure
	}
	return usage{memory: figures[0], rss: figures[1], disk: 1024 * figures[2]}, nil
}
