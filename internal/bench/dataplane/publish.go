package dataplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// PublishOptions say what Publish compares.
type PublishOptions struct {
	Levels     []int // of quorum queues; of classic ones the most
	Lookaheads []int // 0 is all levels
	QueueTypes []delay.QueueType
	Lax        bool // with the most levels, lax keys beside strict ones
	Day        bool // likewise, random delays of up to 2^16 steps beside a single step
	// how many publishers to measure, likewise, on quorum queues, each with a connection of its own, beside one; 0 is
	// none
	Together int
	Rounds   int
	Time     time.Duration // of one sample
}

// publishResolution is longer than a sample: nothing leaves its queue while it is measured, but where confirmations are
// few. It is the longest at which there can be 28 levels.
const publishResolution = 2 * time.Second

// Publish measures the publish rate at the entry. The delay is a single step, for which the chain has to pass
// all levels. The limit is a queue with a TTL, published to without any exchange of ours.
func (b *Bench) Publish(ctx context.Context, o PublishOptions) error {
	for _, queueType := range o.QueueTypes {
		for _, levels := range o.Levels {
			if queueType == delay.Classic && levels < slices.Max(o.Levels) {
				continue
			}
			err := b.in(ctx, func(ctx context.Context, s *space) error { return s.publish(ctx, queueType, levels, o) })
			if err != nil {
				return fmt.Errorf("publish to %d levels of %s queues: %w", levels, queueType, err)
			}
		}
	}
	return nil
}

type publishing struct {
	scenario   string
	of         *subject
	exchange   string
	key        func() string
	publishers int // at the same time
}

func (s *space) publish(ctx context.Context, queueType delay.QueueType, levels int, o PublishOptions) error {
	var all []publishing
	for _, lookahead := range o.Lookaheads {
		if lookahead > levels {
			continue
		}
		further, err := s.publishings(ctx, queueType, levels, lookahead, o)
		if err != nil {
			return err
		}
		all = append(all, further...)
	}
	limit, err := s.limit(ctx, queueType, publishResolution, 1)
	if err != nil {
		return err
	}
	all = append(all, publishing{"publish " + string(queueType), limit, limit.Entry, limit.anyOf(1), 1})
	if o.together(queueType, levels) {
		all = append(all, publishing{"publish together quorum", limit, limit.Entry, limit.anyOf(1), o.Together})
	}
	return s.sampleRates(ctx, all, "levels", float64(levels), o.Rounds, o.Time)
}

// sampleRates takes interleaved rounds.
func (s *space) sampleRates(
	ctx context.Context, all []publishing, parameter string, x float64, rounds int, d time.Duration,
) error {
	for round := 1; round <= rounds; round++ {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, p := range all {
			if err := s.sampleRate(ctx, p, parameter, x, round, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// publishings are those into cascades of a lookahead, which it declares.
func (s *space) publishings(
	ctx context.Context, queueType delay.QueueType, levels, lookahead int, o PublishOptions,
) ([]publishing, error) {
	c := config(fmt.Sprintf("l%d", lookahead), levels, lookahead, queueType)
	c.Resolution = publishResolution
	of, err := s.declare(ctx, lookaheadName(lookahead), c)
	if err != nil {
		return nil, err
	}
	most := levels == slices.Max(o.Levels)
	all := o.publishings(of, levels)
	if o.together(queueType, levels) && lookahead <= 1 {
		all = append(all, publishing{"publish together quorum", of, of.Entry, of.anyOf(1), o.Together})
	}
	if o.Lax && most && lookahead <= 1 {
		c.Name, c.StrictKeys = c.Name+"-lax", false
		lax, err := s.declare(ctx, lookaheadName(lookahead)+", lax keys", c)
		if err != nil {
			return nil, err
		}
		all = append(all, o.publishings(lax, levels)...)
	}
	return all, nil
}

// upToADay are delays of seconds.
var upToADay = UpTo(1<<16 - 1)

// publishings are those of one publisher into a cascade.
func (o PublishOptions) publishings(of *subject, levels int) []publishing {
	queueType := string(of.cascade.QueueType)
	all := []publishing{{"publish " + queueType, of, of.Entry, of.anyOf(1), 1}}
	if o.Day && levels == slices.Max(o.Levels) && levels > 16 {
		all = append(all, publishing{"publish up to a day " + queueType, of, of.Entry, of.anyOf(upToADay...), 1})
	}
	return all
}

// together tells whether several publishers are measured at a time.
func (o PublishOptions) together(queueType delay.QueueType, levels int) bool {
	return levels == slices.Max(o.Levels) && queueType == delay.Quorum && o.Together > 1
}

// sampleRate records a rate.
func (s *space) sampleRate(
	ctx context.Context, p publishing, parameter string, x float64, round int, d time.Duration,
) error {
	rate, err := s.rate(ctx, p, d)
	if err != nil {
		return err
	}
	return s.add(sample.Sample{Scenario: p.scenario, Subject: p.of.name, Parameter: parameter, X: x, Metric: "rate",
		Unit: "msg/s", Round: round, Value: rate})
}

// rate is that of all publishers together.
func (s *space) rate(ctx context.Context, p publishing, d time.Duration) (float64, error) {
	rates := make([]float64, p.publishers)
	group, together := errgroup.WithContext(ctx)
	for i := range rates {
		group.Go(func() error {
			conn := s.conn
			if i > 0 {
				var err error
				if conn, err = s.broker.Dial(s.vhost); err != nil {
					return err
				}
				defer conn.Close()
			}
			sender, err := newSenderWith(conn, window/p.publishers)
			if err != nil {
				return err
			}
			if rates[i], err = sender.rate(together, p.exchange, p.key, d); err != nil {
				return err
			}
			return sender.close(together)
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	sum := 0.0
	for _, rate := range rates {
		sum += rate
	}
	return sum, s.purge(p.of)
}

func lookaheadName(lookahead int) string {
	switch lookahead {
	case 0:
		return "full"
	case 1:
		return "chain"
	}
	return fmt.Sprintf("lookahead %d", lookahead)
}
