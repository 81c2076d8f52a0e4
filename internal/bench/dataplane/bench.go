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
	"slices"
	"strings"

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
	nodes    []*brokertest.Broker // of a cluster
}

// New returns a Bench that has to be closed.
func New(b *brokertest.Broker, recorder *sample.Recorder) (*Bench, error) {
	client, err := rabbit.New(rabbit.Config{Endpoint: b.Endpoint, Username: b.Username, Password: b.Password,
		AMQPURI: b.AMQPURI, BindsAtOnce: true}) // nobody kills the broker, and its own time is measured
	if err != nil {
		return nil, err
	}
	return &Bench{broker: b, client: client, recorder: recorder}, nil
}

// Close gives up the connections.
func (b *Bench) Close() error { return b.client.Close() }

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

// subject is a cascade under measurement.
type subject struct {
	name    string
	cascade delay.Cascade
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
	want := expand(resolved)
	if _, err := engine.Run(ctx, s.client.Vhost(s.vhost), todo(want, topology.New())); err != nil {
		return nil, err
	}
	return &subject{name: name, cascade: resolved, Topology: want}, nil
}

// purge drops all messages of the subject.
func (s *space) purge(of *subject) error {
	channel, err := s.conn.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	for _, name := range slices.Sorted(maps.Keys(of.Queues)) { // those of level 0 first: their messages are due first
		if _, err := channel.QueuePurge(name, false); err != nil {
			return fmt.Errorf("purge queue %q: %w", name, err)
		}
	}
	return nil
}

// key is a routing key of the subject for a delay in steps of the resolution.
func (of *subject) key(steps int64) string { return key(of.cascade.Base, of.cascade.Levels, steps) }

func key(base, levels int, steps int64) string {
	key := []byte(strings.Repeat("0.", levels) + destination)
	for i := 2 * (levels - 1); steps > 0; i -= 2 {
		key[i] = '0' + byte(steps%int64(base))
		steps /= int64(base)
	}
	return string(key)
}

// destination is the word behind the digits.
const destination = "d"
