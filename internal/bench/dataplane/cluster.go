package dataplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// ClusterOptions say what Cluster measures.
type ClusterOptions struct {
	Units     []Units
	Layouts   []Units // which are compared while they hold no message
	Rounds    int
	Time      time.Duration // of one sample of publishing
	Paced     PacedOptions
	Failovers int     // rounds in which the node that leads fails, with the last of Units; 0 is none
	Rate      float64 // at which messages are published meanwhile, per second
}

// placements are the ways to place leaders. The balanced queues are declared first: RabbitMQ balances all leaders that
// exist.
var placements = []struct {
	name    string
	locator delay.LeaderLocator
}{{"balanced", delay.Balanced}, {"one node", ""}}

// InCluster sets the scenarios of clusters apart.
const InCluster = ", in a cluster"

// Cluster compares cascades with all leaders on one node and with leaders on all nodes. It measures the rate of
// publishers on all nodes, the lateness at an even rate, and the pause when the first node fails. All cascades are
// declared through that node. Publisher and consumer are connected to the second.
func Cluster(ctx context.Context, c *brokertest.Cluster, recorder *sample.Recorder, o ClusterOptions) error {
	b, err := newInCluster(c, recorder)
	if err != nil {
		return err
	}
	if err := b.in(ctx, func(ctx context.Context, s *space) error { return s.publishInCluster(ctx, o) }); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	err = b.in(ctx, func(ctx context.Context, s *space) error {
		subjects, err := s.declarePlaced(ctx, o, clusterPacedStep)
		if err != nil {
			return err
		}
		return s.pacedRounds(ctx, InCluster, subjects, o.Paced)
	})
	if err != nil {
		return fmt.Errorf("an even rate: %w", err)
	}
	for round := 1; round <= o.Failovers; round++ {
		for _, i := range rand.Perm(len(placements)) {
			err := b.in(ctx, func(ctx context.Context, s *space) error { return s.failover(ctx, c, o, i, round) })
			if err != nil {
				return fmt.Errorf("failover: %w", err)
			}
		}
	}
	return nil
}

// ClusterIdle compares layouts that hold no message: their memory, the time without leaders when the first node fails,
// and the time until that is back.
func ClusterIdle(ctx context.Context, c *brokertest.Cluster, recorder *sample.Recorder, o ClusterOptions) error {
	b, err := newInCluster(c, recorder)
	if err != nil {
		return err
	}
	if err := b.idle(ctx, InCluster, o.Layouts, 1, o.Rounds); err != nil {
		return err
	}
	for round := 1; round <= o.Rounds; round++ {
		for _, i := range rand.Perm(len(o.Layouts)) {
			err := b.in(ctx, func(ctx context.Context, s *space) error { return s.loss(ctx, c, o.Layouts[i], round) })
			if err != nil {
				return fmt.Errorf("loss of a node: %w", err)
			}
		}
	}
	return nil
}

// newInCluster declares through the first member, and publishes and consumes through the second.
func newInCluster(c *brokertest.Cluster, recorder *sample.Recorder) (*Bench, error) {
	b, err := New(c.Members[0].Broker, recorder)
	if err != nil {
		return nil, err
	}
	b.broker, b.nodes = c.Members[1].Broker, c.Members
	return b, nil
}

// The steps are such that both bases have them, and that few messages are due while publishing is measured.
const clusterPublishStep, clusterPacedStep = 1200 * time.Millisecond, 10 * time.Millisecond

// declarePlaced declares a cascade of each of the units and placements.
func (s *space) declarePlaced(ctx context.Context, o ClusterOptions, step time.Duration) ([]*subject, error) {
	var subjects []*subject
	for i := range placements {
		for j, u := range o.Units {
			of, err := s.place(ctx, fmt.Sprintf("u%d-%d", j, i), u, i, step)
			if err != nil {
				return nil, err
			}
			subjects = append(subjects, of)
		}
	}
	return subjects, nil
}

// place declares a cascade, and records how many of its queues the node leads that leads most.
func (s *space) place(
	ctx context.Context, name string, u Units, placement int, step time.Duration,
) (*subject, error) {
	p := placements[placement]
	c := u.config(name, step)
	c.LeaderLocator = p.locator
	of, err := s.declare(ctx, u.String()+", "+p.name, c)
	if err != nil {
		return nil, err
	}
	state, err := s.client.Vhost(s.vhost).Read(ctx, of.Topology)
	if err != nil {
		return nil, err
	}
	led := map[string]int{}
	for _, status := range state.Status {
		led[status.Leader]++
	}
	most := slices.Max(slices.Collect(maps.Values(led)))
	return of, s.add(sample.Sample{
		Scenario: "leaders" + InCluster, Subject: of.name, Parameter: "queues", X: float64(len(of.Queues)),
		Metric: "leaders on one node", Value: float64(most), Round: 1,
	})
}

func (s *space) publishInCluster(ctx context.Context, o ClusterOptions) error {
	subjects, err := s.declarePlaced(ctx, o, clusterPublishStep)
	if err != nil {
		return err
	}
	for round := 1; round <= o.Rounds; round++ {
		for _, i := range rand.Perm(len(subjects)) {
			of := subjects[i]
			rate, err := s.rateOfAll(ctx, of, o.Time)
			if err == nil {
				err = s.purge(of)
			}
			if err == nil {
				err = s.add(sample.Sample{Scenario: "publish quorum" + InCluster, Subject: of.name, Parameter: "nodes",
					X: float64(len(s.nodes)), Metric: "rate", Unit: "msg/s", Round: round, Value: rate})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// rateOfAll is how many messages a second are confirmed to publishers on all nodes, after a fifth of the time. Where a
// queue elects a leader, a publisher may get no confirm for seconds: that counts. Delays are up to 2^16 steps, so that
// all queues have their share, and few messages are due meanwhile.
func (s *space) rateOfAll(ctx context.Context, of *subject, d time.Duration) (float64, error) {
	key := of.anyOf(upToADay...)
	warm, end := time.Since(epoch)+d/5, time.Since(epoch)+d
	confirmed := make([]int, len(s.nodes))
	group, together := errgroup.WithContext(ctx)
	for i, node := range s.nodes {
		group.Go(func() error {
			conn, err := node.Dial(s.vhost)
			if err != nil {
				return err
			}
			defer conn.Close()
			sender, err := newSenderWith(conn, window/len(s.nodes))
			if err != nil {
				return err
			}
			publishing, stop := context.WithTimeout(together, end-time.Since(epoch))
			defer stop()
			body := make([]byte, payload)
			for publishing.Err() == nil {
				err := sender.send(publishing, of.Entry, key(), body)
				if err != nil && publishing.Err() == nil {
					return err
				}
			}
			confirmed[i] = len(sender.since(warm))
			return sender.close(together)
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	sum := 0
	for _, n := range confirmed {
		sum += n
	}
	return float64(sum) / (end - warm).Seconds(), nil
}

const (
	// beforeFailure and afterFailure are for how long messages are published.
	beforeFailure, afterFailure = 3 * time.Second, 12 * time.Second
	// failurePatience is how late the last message may be: RabbitMQ offers some again after three minutes only.
	failurePatience = 4 * time.Minute
)

// failover publishes at an even rate, kills the first node meanwhile, and starts it again afterwards.
func (s *space) failover(ctx context.Context, c *brokertest.Cluster, o ClusterOptions, placement, round int) error {
	of, err := s.place(ctx, "u", o.Units[len(o.Units)-1], placement, clusterPacedStep)
	if err != nil {
		return err
	}
	first := c.Members[0]
	killed := make(chan error, 1)
	time.AfterFunc(beforeFailure, func() { killed <- first.Kill() })
	unconfirmed, undelivered, l, err := s.throughFailure(ctx, of, o)
	err = errors.Join(err, <-killed)
	// The vhost is removed on a whole cluster.
	if err := errors.Join(err, first.Start(ctx, first.Image), c.WaitWhole(ctx)); err != nil {
		return err
	}
	const scenario = "failure of a node" + InCluster
	for _, each := range []struct {
		metric string
		pause  time.Duration
	}{{"longest time without a confirm", unconfirmed}, {"longest time without a delivery", undelivered}} {
		err := s.add(sample.Sample{Scenario: scenario, Subject: of.name, Parameter: "rate", X: o.Rate,
			Metric: each.metric, Unit: "ms", Round: round, Value: 1000 * each.pause.Seconds()})
		if err != nil {
			return err
		}
	}
	return s.addLateness(scenario, of.name, "rate", o.Rate, round, l)
}

// throughFailure publishes and waits until all is confirmed, and delivered.
func (s *space) throughFailure(
	ctx context.Context, of *subject, o ClusterOptions,
) (unconfirmed, undelivered time.Duration, l lateness, err error) {
	n := int(o.Rate * (beforeFailure + afterFailure).Seconds())
	receiver, receiving, err := s.receive(of.Delivery, 2*n) // some may come twice
	if err != nil {
		return 0, 0, l, err
	}
	defer receiving.Close()
	sender, err := newSenderWith(s.conn, n)
	if err != nil {
		return 0, 0, l, err
	}
	started := time.Now()
	for i := range n {
		at := started.Add(time.Duration(float64(i) / o.Rate * float64(time.Second)))
		time.Sleep(time.Until(at))
		steps := o.Paced.Delays[rand.IntN(len(o.Paced.Delays))]
		due := at.Add(time.Duration(steps) * of.step)
		if err := sender.send(ctx, of.Entry, of.key(steps), receiver.stamped(due)); err != nil {
			return 0, 0, l, err
		}
	}
	if err := sender.close(ctx); err != nil {
		return 0, 0, l, err
	}
	late, err := receiver.wait(ctx, n, time.Now().Add(failurePatience))
	if err != nil {
		return 0, 0, l, err
	}
	l, err = newLateness(late, n)
	return longestPause(sender.since(0)), time.Duration(receiver.pause.Load()), l, err
}

// longestPause is that between two confirmations.
func longestPause(acks []time.Duration) (longest time.Duration) {
	for i := 1; i < len(acks); i++ {
		longest = max(longest, acks[i]-acks[i-1])
	}
	return longest
}

// loss kills the first node of an idle cascade with balanced leaders, and starts it again.
func (s *space) loss(ctx context.Context, c *brokertest.Cluster, u Units, round int) error {
	of, err := s.place(ctx, "u", u, 0, time.Second)
	if err != nil {
		return err
	}
	add := func(metric string, since time.Time) error {
		return s.add(sample.Sample{Scenario: "loss of a node" + InCluster, Subject: u.String(), Parameter: "nodes",
			X: float64(len(s.nodes)), Metric: metric, Unit: "s", Round: round, Value: time.Since(since).Seconds()})
	}
	first, killed := c.Members[0], time.Now()
	if err := first.Kill(); err != nil {
		return err
	}
	if err := awaitLeaders(ctx, c, first.Name, len(of.Queues)); err != nil {
		return err
	}
	if err := add("until all queues have a leader", killed); err != nil {
		return err
	}
	started := time.Now()
	if err := first.Start(ctx, first.Image); err != nil {
		return err
	}
	if err := add("until the node is back", started); err != nil {
		return err
	}
	if err := c.WaitWhole(ctx); err != nil {
		return err
	}
	return add("until all members are online", started)
}

// awaitLeaders waits until nodes beside the lost one lead so many queues.
func awaitLeaders(ctx context.Context, c *brokertest.Cluster, lost string, queues int) error {
	ctx, cancel := context.WithTimeout(ctx, failurePatience)
	defer cancel()
	for {
		leads, err := c.Leaders(ctx)
		if err != nil && ctx.Err() != nil {
			return err
		}
		led := -leads[lost]
		for _, n := range leads {
			led += n
		}
		if err == nil && led == queues {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}
