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
	deadLetterSteps      = 1 << 10 // which wait in the queue of level 10
	deadLetterResolution = 4 * time.Millisecond
)

// deadLetterKinds are how many steps longer a delay can be, at random.
var deadLetterKinds = map[string]int64{"round": 0, "random": deadLetterSteps}

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
				err := s.burst(ctx, fmt.Sprintf("dead-letter %s %s", kind, queueType), subjects[i], deadLetterSteps,
					deadLetterKinds[kind], round, o.Messages)
				if err != nil {
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
	var subjects []*subject
	for _, lookahead := range o.Lookaheads {
		c := config(fmt.Sprintf("l%d", lookahead), deadLetterLevels, lookahead, queueType)
		c.Resolution = deadLetterResolution
		of, err := s.declare(ctx, lookaheadName(lookahead), c)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, of)
	}
	measured := map[string][]*subject{"round": subjects}
	if o.Random {
		measured["random"] = subjects
	}
	if o.Limit {
		limit, err := s.limit(ctx, queueType, deadLetterResolution, deadLetterSteps)
		if err != nil {
			return nil, err
		}
		measured["round"] = append(slices.Clone(subjects), limit)
	}
	for _, of := range measured["round"] {
		if err := s.loader(of, deadLetterSteps); err != nil {
			return nil, err
		}
	}
	return measured, nil
}

// loader is a fanout exchange that leads into the queue in which the delay waits first, whatever the key.
func (s *space) loader(of *subject, steps int64) error {
	channel, err := s.conn.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	name := loaderName(of)
	if err := channel.ExchangeDeclare(name, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		return err
	}
	return channel.QueueBind(of.queue(steps), "", name, false, nil)
}

func loaderName(of *subject) string { return of.Delivery + ".loader" }

// burst has n messages wait for so many steps, and for up to more at random. It measures their lateness, and their rate
// where all wait as long.
func (s *space) burst(ctx context.Context, scenario string, of *subject, steps, more int64, round, n int) error {
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
	started := time.Now()
	for range n {
		waits := steps
		if more > 0 {
			waits += rand.Int64N(more)
		}
		if err := sender.send(ctx, loaderName(of), of.key(waits),
			receiver.stamped(time.Now().Add(time.Duration(waits)*of.step))); err != nil {
			return err
		}
	}
	if err := sender.close(ctx); err != nil {
		return err
	}
	firstDue := started.Add(time.Duration(steps) * of.step)
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
	if more == 0 {
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
