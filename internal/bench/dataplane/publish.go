package dataplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

// PublishOptions say what Publish compares.
type PublishOptions struct {
	Levels     []int // of quorum queues; of classic ones the most
	Lookaheads []int // 0 is all levels
	QueueTypes []cascade.QueueType
	Lax        bool // whether to measure, with the most levels, lax keys beside strict ones
	Day        bool // whether to measure, likewise, random delays of up to 2^16 steps beside a single step
	Together   int  // how many publishers to measure, likewise, on quorum queues, each with a connection of its own, beside one; 0 is none
	Rounds     int
	Time       time.Duration // of one sample
}

// publishResolution is longer than a sample: nothing leaves its queue while it is measured, but where confirmations are few. It is the
// longest at which there can be 28 levels.
const publishResolution = 2 * time.Second

// Publish measures the publish rate at the entry. The delay is a single step, for which the chain has to pass
// all levels. The limit is a queue with a time-to-live, published to without any exchange of ours.
func (b *Bench) Publish(ctx context.Context, o PublishOptions) error {
	for _, queueType := range o.QueueTypes {
		for _, levels := range o.Levels {
			if queueType == cascade.Classic && levels < slices.Max(o.Levels) {
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

func (s *space) publish(ctx context.Context, queueType cascade.QueueType, levels int, o PublishOptions) error {
	var all []publishing
	most := levels == slices.Max(o.Levels)
	add := func(name string, c cascade.Config) error {
		of, err := s.declare(ctx, name, c)
		if err != nil {
			return err
		}
		shortest := of.key(1)
		all = append(all, publishing{"publish " + string(queueType), of, of.Entry, func() string { return shortest }, 1})
		if most && queueType == cascade.Quorum && o.Together > 1 && c.StrictKeys && c.Lookahead <= 1 {
			all = append(all, publishing{"publish together quorum", of, of.Entry, func() string { return shortest }, o.Together})
		}
		if o.Day && most && levels > 16 {
			all = append(all, publishing{"publish up to a day " + string(queueType), of, of.Entry, func() string { return of.key(1 + rand.Int64N(1<<16-1)) }, 1})
		}
		return nil
	}
	for _, lookahead := range o.Lookaheads {
		if lookahead > levels {
			continue
		}
		c := config(fmt.Sprintf("l%d", lookahead), levels, lookahead, queueType)
		c.Resolution = publishResolution
		if err := add(lookaheadName(lookahead), c); err != nil {
			return err
		}
		if o.Lax && most && lookahead <= 1 {
			c.Name, c.StrictKeys = c.Name+"-lax", false
			if err := add(lookaheadName(lookahead)+", lax keys", c); err != nil {
				return err
			}
		}
	}
	// The queue of level 0 of a cascade that nobody enters.
	c := config("limit", 1, 1, queueType)
	c.Resolution = publishResolution
	limit, err := s.declare(ctx, "limit", c)
	if err != nil {
		return err
	}
	queue := limit.config.QueueName.Name(0)
	all = append(all, publishing{"publish " + string(queueType), limit, "", func() string { return queue }, 1})
	if most && queueType == cascade.Quorum && o.Together > 1 {
		all = append(all, publishing{"publish together quorum", limit, "", func() string { return queue }, o.Together})
	}

	for round := 1; round <= o.Rounds; round++ {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, p := range all {
			if err := s.sampleRate(ctx, p, "levels", float64(levels), round, o.Time); err != nil {
				return err
			}
		}
	}
	return nil
}

// sampleRate records a rate.
func (s *space) sampleRate(ctx context.Context, p publishing, parameter string, x float64, round int, d time.Duration) error {
	rate, err := s.rate(ctx, p, d)
	if err != nil {
		return err
	}
	return s.add(sample.Sample{Scenario: p.scenario, Subject: p.of.name, Parameter: parameter, X: x, Metric: "rate", Unit: "msg/s", Round: round, Value: rate})
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
