package dataplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// DeadLetterOptions say what DeadLetter measures.
type DeadLetterOptions struct {
	Lookaheads []int
	QueueTypes []delay.QueueType
	Random     bool // whether to measure random delays beside the round one
	Limit      bool // whether to measure the limit, too
	Messages   int
	Rounds     int
}

const (
	deadLetterLevels     = 28
	deadLetterLevel      = 10
	deadLetterResolution = 4 * time.Millisecond
)

// DeadLetter puts messages into the queue of level 10, past the entry. It measures the time from when the first is due
// until the last is delivered. A round delay of 2^10 steps has ten clear bits behind the queue: the chain passes ten
// exchanges, full lookahead one. Random delays have all bits behind the queue at random. The limit, for a round delay,
// is a queue that hands on to the delivery exchange.
func (b *Bench) DeadLetter(ctx context.Context, o DeadLetterOptions) error {
	for _, queueType := range o.QueueTypes {
		err := b.in(ctx, func(ctx context.Context, s *space) error { return s.deadLetters(ctx, queueType, o) })
		if err != nil {
			return fmt.Errorf("dead-letter from %s queues: %w", queueType, err)
		}
	}
	return nil
}

func (s *space) deadLetters(ctx context.Context, queueType delay.QueueType, o DeadLetterOptions) error {
	measured, err := s.deadLettering(ctx, queueType, o)
	if err != nil {
		return err
	}
	for round := 1; round <= o.Rounds; round++ {
		for kind, subjects := range measured {
			for _, i := range rand.Perm(len(subjects)) {
				of := subjects[i]
				if err := s.deadLetterAs(ctx, fmt.Sprintf("dead-letter %s %s", kind, queueType), of, kind, round,
					o.Messages); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// deadLettering declares the subjects, for each kind of delay.
func (s *space) deadLettering(
	ctx context.Context, queueType delay.QueueType, o DeadLetterOptions,
) (map[string][]*subject, error) {
	declare := func(name string, c delay.Config, level int) (*subject, error) {
		of, err := s.declare(ctx, name, c)
		if err != nil {
			return nil, err
		}
		return of, s.loader(of, level)
	}
	var subjects []*subject
	for _, lookahead := range o.Lookaheads {
		c := config(fmt.Sprintf("l%d", lookahead), deadLetterLevels, lookahead, queueType)
		c.Resolution = deadLetterResolution
		of, err := declare(lookaheadName(lookahead), c, deadLetterLevel)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, of)
	}
	measured := map[string][]*subject{"round": subjects}
	if o.Limit {
		c := config("limit", 1, 1, queueType)
		c.Resolution = deadLetterResolution << deadLetterLevel
		limit, err := declare("limit", c, 0)
		if err != nil {
			return nil, err
		}
		measured["round"] = append(slices.Clone(subjects), limit)
	}
	if o.Random {
		measured["random"] = subjects
	}
	return measured, nil
}

// loader is a fanout exchange that leads into the queue of the level, whatever the key.
func (s *space) loader(of *subject, level int) error {
	channel, err := s.conn.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	name := loaderName(of)
	if err := channel.ExchangeDeclare(name, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		return err
	}
	return channel.QueueBind(of.cascade.DelayQueues(level)[0].Name, "", name, false, nil)
}

func loaderName(of *subject) string { return of.cascade.Name + ".loader" }

func (s *space) deadLetterAs(ctx context.Context, scenario string, of *subject, kind string, round, n int) error {
	const patience = 2 * time.Minute
	receiver, receiving, err := s.receive(of.Delivery, n)
	if err != nil {
		return err
	}
	defer receiving.Close()
	sender, err := newSender(s.conn)
	if err != nil {
		return err
	}
	delay := func() int64 { return 1 << deadLetterLevel }
	if kind == "random" {
		delay = func() int64 { return 1<<deadLetterLevel + rand.Int64N(1<<deadLetterLevel) }
	}
	started := time.Now()
	for range n {
		steps := delay()
		if err := sender.send(ctx, loaderName(of), of.key(steps),
			receiver.stamped(time.Now().Add(time.Duration(steps)*deadLetterResolution))); err != nil {
			return err
		}
	}
	if err := sender.close(ctx); err != nil {
		return err
	}
	firstDue := started.Add(deadLetterResolution << deadLetterLevel)
	if published := time.Now(); published.After(firstDue) {
		return fmt.Errorf("publishing took %s, longer than the delay", published.Sub(started))
	}
	late, err := receiver.wait(ctx, n, firstDue.Add(patience))
	if err != nil {
		return err
	}
	took := time.Since(firstDue).Seconds()
	l, err := newLateness(late, n)
	if err != nil {
		return err
	}
	if kind == "round" {
		err := s.add(sample.Sample{
			Scenario: scenario, Subject: of.name, Parameter: "messages", X: float64(n),
			Metric: "rate", Unit: "msg/s", Round: round, Value: float64(len(late)) / took,
		})
		if err != nil {
			return err
		}
	}
	return s.addLateness(scenario, of.name, "messages", float64(n), round, l)
}
