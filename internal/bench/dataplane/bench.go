// Package dataplane measures messages on their way through a cascade. It measures how fast they get in, how late they
// come out, and how fast they move between queues. It also measures the cost of their wait, and the broker's time for
// the cascade itself. A broker comes in, and samples go out to a recorder. Call New, and methods of the Bench.
//
// One publisher with confirms sends persistent messages of 256 bytes, unless a measurement says otherwise.
// Publisher, consumer and broker share one machine, so that only ratios inside one run count.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Bench measures on one broker.
type Bench struct {
	broker   *brokertest.Broker
	client   *rabbit.Client
	recorder *sample.Recorder
	nodes    []*brokertest.Member // of a cluster
}

// New returns a Bench of the broker.
func New(b *brokertest.Broker, recorder *sample.Recorder) (*Bench, error) {
	client, err := rabbit.New(rabbit.Config{Endpoint: b.Endpoint, Username: b.Username, Password: b.Password,
		AMQPURI: b.AMQPURI, BindsAtOnce: true, // nobody kills the broker, and its own time is measured
		RequestTimeout: time.Minute}) // a node with a part of a core is slow to declare many queues
	if err != nil {
		return nil, err
	}
	return &Bench{broker: b, client: client, recorder: recorder}, nil
}

// add records a sample of this broker.
func (b *Bench) add(s sample.Sample) error {
	s.Broker = b.broker.Version
	return b.recorder.Add(s)
}

// space is a vhost of one measurement, with a connection.
type space struct {
	*Bench
	vhost string
	conn  *amqp.Connection
}

// in runs a measurement in a vhost of its own.
func (b *Bench) in(ctx context.Context, measure func(context.Context, *space) error) (err error) {
	vhost, remove, err := b.broker.NewVhost(ctx, "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx))) }()
	conn, err := b.broker.Dial(vhost)
	if err != nil {
		return err
	}
	defer conn.Close()
	return measure(ctx, &space{Bench: b, vhost: vhost, conn: conn})
}

// subject is a cascade under measurement, or the limit. Its delays are numbers of steps.
type subject struct {
	name    string
	cascade delay.Cascade // none of the limit
	step    time.Duration
	// key is the routing key of a delay at the entry, and queue the one in which it waits first.
	key, queue func(steps int64) string
	topology.Topology
}

// config is what all measured cascades have in common.
func config(name string, levels, lookahead int, queueType delay.QueueType) delay.Config {
	return delay.Config{
		Name: name, Levels: levels, Lookahead: lookahead, QueueType: queueType,
		CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true,
	}
}

// declare creates the cascade as the provider would.
func (s *space) declare(ctx context.Context, name string, c delay.Config) (*subject, error) {
	return s.declareAs(ctx, name, c, delay.Cascade.Expand, plan.Repair)
}

// declareAs creates it with another expansion, or in another order.
func (s *space) declareAs(ctx context.Context, name string, c delay.Config,
	expand func(delay.Cascade) topology.Topology,
	todo func(desired, actual topology.Topology) plan.Plan,
) (*subject, error) {
	c.Vhost = s.vhost
	resolved, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	of := &subject{name: name, cascade: resolved, step: resolved.Scale().Resolution(), Topology: expand(resolved)}
	of.key = func(steps int64) string { return key(resolved, steps) }
	of.queue = func(steps int64) string { return firstQueue(resolved, steps) }
	_, err = engine.Run(ctx, s.client.Vhost(s.vhost), todo(of.Topology, topology.New()))
	return of, err
}

// limit declares a queue with a TTL for each delay, to publish to without any exchange of ours.
func (s *space) limit(
	ctx context.Context, queueType delay.QueueType, step time.Duration, delays ...int64,
) (*subject, error) {
	label := func(steps int64) string { return delay.DurationText(time.Duration(steps) * step) }
	c := delay.LadderConfig{Vhost: s.vhost, Name: "limit", QueueType: queueType, CreateDeliveryExchange: true}
	for _, steps := range delays {
		c.Delays = append(c.Delays, label(steps))
	}
	ladder, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	of := &subject{name: "limit", step: step, Topology: ladder.Expand()}
	of.queue = func(steps int64) string { return ladder.QueueName.Labelled(label(steps)) }
	of.key = of.queue
	_, err = engine.Run(ctx, s.client.Vhost(s.vhost), plan.Repair(of.Topology, topology.New()))
	of.Entry = "" // RabbitMQ's own, which leads to queues by their names
	return of, err
}

// purge drops all messages of the subject, and those that come from queue to queue meanwhile.
func (s *space) purge(of *subject) error {
	channel, err := s.conn.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	const passes = 100 // a slow broker takes seconds
	for range passes {
		purged := 0
		for _, name := range slices.Sorted(maps.Keys(of.Queues)) { // those of level 0 first: theirs are due first
			n, err := channel.QueuePurge(name, false)
			if err != nil {
				return fmt.Errorf("purge queue %q: %w", name, err)
			}
			purged += n
		}
		if purged == 0 {
			break
		}
	}
	return nil
}

// anyOf gives keys of delays at random. They are made before, so that publishers of all subjects have as little to do.
func (of *subject) anyOf(delays ...int64) func() string {
	keys := make([]string, len(delays))
	for i, steps := range delays {
		keys[i] = of.key(steps)
	}
	return func() string { return keys[rand.IntN(len(keys))] }
}

// key is the routing key of a delay in steps, which is within the reach of the cascade.
func key(c delay.Cascade, steps int64) string {
	scale := c.Scale()
	key, err := scale.RoutingKey(time.Duration(steps)*scale.Resolution(), destination)
	if err != nil {
		panic(err) // a mistake in a measurement
	}
	return key
}

// firstQueue is the queue in which a message with a delay in steps waits first.
func firstQueue(c delay.Cascade, steps int64) string {
	scale := c.Scale()
	level := scale.Levels() - 1
	for scale.TTL(level, 1) > time.Duration(steps)*scale.Resolution() {
		level--
	}
	return c.DelayQueueName(level, int(time.Duration(steps)*scale.Resolution()/scale.TTL(level, 1)))
}

// destination is the word behind the delay.
const destination = "d"
