package dataplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// Units are what delays are written in: a base with so many levels, or units up to a longest delay.
type Units struct {
	Base, Levels int

	Units   []time.Duration
	Longest time.Duration
}

// String is the subject's name.
func (u Units) String() string {
	if len(u.Units) > 0 {
		return delay.UnitsLabel(u.Units)
	}
	return fmt.Sprintf("base %d, %d levels", u.Base, u.Levels)
}

// config has full lookahead, quorum queues, and a step in place of the smallest unit. The others are as many steps as
// they were of that.
func (u Units) config(name string, step time.Duration) delay.Config {
	c := config(name, u.Levels, full, delay.Quorum)
	if len(u.Units) == 0 {
		c.Base, c.Resolution = u.Base, step
		return c
	}
	scaled := func(d time.Duration) time.Duration {
		steps := int64(d / u.Units[len(u.Units)-1])
		return time.Duration(steps) * step
	}
	for _, unit := range u.Units {
		c.Units = append(c.Units, scaled(unit))
	}
	c.MaxDelay = scaled(u.Longest)
	return c
}

// ByUnits sets apart the scenarios in which units are compared.
const ByUnits = ", by units"

// UnitOptions say what Units measures.
type UnitOptions struct {
	Units    []Units
	Idle     []Units // which are compared while they hold no message
	Rounds   int
	Time     time.Duration // of one sample of publishing
	Paced    PacedOptions  // of delays as people choose them, if it has rounds
	Random   PacedOptions  // of random delays
	Messages int           // of a burst; 0 is none
}

// chosen are the seconds of delays as people choose them: 30 s, 1 min, 5 min, 30 min, 1 h, 1 day and 7 days.
var chosen = []int64{30, 60, 300, 1800, hour, 24 * hour, 7 * 24 * hour}

const (
	hour = 3600 // s
	// toTheSecond is the longest of the random delays, in seconds.
	toTheSecond = 2 * hour
	// These stand for a second, so that messages arrive while others are published. That of bursts is longer, for the
	// time to publish.
	unitsPacedStep = time.Millisecond
	unitsBurstStep = 2 * time.Millisecond
)

// UpTo are the numbers from 1 on.
func UpTo(most int64) []int64 {
	all := make([]int64, most)
	for i := range all {
		all[i] = int64(i) + 1
	}
	return all
}

// PublishUnits compares cascades of other units with each other, and with the limit: a queue for each delay. It
// measures publishing as Publish does.
func (b *Bench) PublishUnits(ctx context.Context, o UnitOptions) error {
	return b.in(ctx, func(ctx context.Context, s *space) error { return publishUnits(ctx, s, o) })
}

// Units compares them further. It measures an even rate as Paced does, and a burst.
func (b *Bench) Units(ctx context.Context, o UnitOptions) error {
	for _, measure := range []func(context.Context, *space, UnitOptions) error{paceUnits, burstUnits} {
		err := b.in(ctx, func(ctx context.Context, s *space) error { return measure(ctx, s, o) })
		if err != nil {
			return err
		}
	}
	return nil
}

// IdleUnits measures the cost of cascades that hold no message.
func (b *Bench) IdleUnits(ctx context.Context, o UnitOptions) error {
	const cascades = 3 // as many as make a difference to the memory of a broker
	return b.idle(ctx, ByUnits, o.Idle, cascades, o.Rounds)
}

// declareUnits declares a cascade of each.
func (s *space) declareUnits(ctx context.Context, units []Units, step time.Duration) ([]*subject, error) {
	var subjects []*subject
	for i, u := range units {
		of, err := s.declare(ctx, u.String(), u.config(fmt.Sprintf("u%d", i), step))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u, err)
		}
		subjects = append(subjects, of)
	}
	return subjects, nil
}

// withLimit adds the limit for these delays.
func (s *space) withLimit(ctx context.Context, subjects []*subject, step time.Duration, delays ...int64,
) ([]*subject, error) {
	limit, err := s.limit(ctx, delay.Quorum, step, delays...)
	return append(slices.Clone(subjects), limit), err
}

// publishUnits sends while messages that were sent before move on and arrive, as they do where publishers never stop.
func publishUnits(ctx context.Context, s *space, o UnitOptions) error {
	subjects, err := s.declareUnits(ctx, o.Units, unitsPacedStep)
	if err != nil {
		return err
	}
	all, err := s.withLimit(ctx, subjects, unitsPacedStep, chosen...)
	if err != nil {
		return err
	}
	for _, of := range all {
		_, channel, err := s.receive(of.Delivery, 0)
		if err != nil {
			return err
		}
		defer channel.Close()
	}
	for _, each := range []struct {
		scenario string
		subjects []*subject
		delays   []int64
	}{
		{"publish as people choose" + ByUnits, all, chosen},
		{"publish to the second" + ByUnits, subjects, UpTo(toTheSecond)},
	} {
		var all []publishing
		for _, of := range each.subjects {
			all = append(all, publishing{each.scenario, of, of.Entry, of.anyOf(each.delays...), 1})
		}
		err := s.sampleRates(ctx, all, "delays", float64(len(each.delays)), o.Rounds, o.Time)
		if err != nil {
			return err
		}
	}
	return nil
}

func paceUnits(ctx context.Context, s *space, o UnitOptions) error {
	if o.Paced.Rounds == 0 {
		return nil
	}
	subjects, err := s.declareUnits(ctx, o.Units, unitsPacedStep)
	if err != nil {
		return err
	}
	all, err := s.withLimit(ctx, subjects, unitsPacedStep, o.Paced.Delays...)
	if err != nil {
		return err
	}
	if err := s.pacedRounds(ctx, ByUnits, all, o.Paced); err != nil {
		return err
	}
	return s.pacedRounds(ctx, " to the second"+ByUnits, subjects, o.Random)
}

// burstUnits has messages of an hour wait, past the entry.
func burstUnits(ctx context.Context, s *space, o UnitOptions) error {
	if o.Messages == 0 {
		return nil
	}
	subjects, err := s.declareUnits(ctx, o.Units, unitsBurstStep)
	if err != nil {
		return err
	}
	subjects, err = s.withLimit(ctx, subjects, unitsBurstStep, hour)
	if err != nil {
		return err
	}
	for _, of := range subjects {
		if err := s.loader(of, hour); err != nil {
			return err
		}
	}
	for round := 1; round <= o.Rounds; round++ {
		for _, i := range rand.Perm(len(subjects)) {
			err := s.burst(ctx, "burst"+ByUnits, subjects[i], hour, 0, round, o.Messages)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// idle measures cascades that hold no message, on a broker that can be asked for it.
func (b *Bench) idle(ctx context.Context, more string, units []Units, cascades, rounds int) error {
	for round := 1; round <= rounds; round++ {
		for _, i := range rand.Perm(len(units)) {
			err := b.in(ctx, func(ctx context.Context, s *space) error {
				return s.idle(ctx, more, units[i], cascades, round)
			})
			if errors.Is(err, brokertest.ErrUnsupported) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("idle cascades of %s: %w", units[i], err)
			}
		}
	}
	return nil
}

// idle measures what each of the cascades takes.
func (s *space) idle(ctx context.Context, more string, u Units, cascades, round int) error {
	before, err := s.usage(ctx)
	if err != nil {
		return err
	}
	subjects, err := s.declareUnits(ctx, slices.Repeat([]Units{u}, cascades), time.Second)
	if err != nil {
		return err
	}
	after, err := s.usage(ctx)
	if err != nil {
		return err
	}
	const kiB, miB = 1 << 10, 1 << 20
	n, queues := float64(cascades), float64(len(subjects[0].Queues))
	memory, disk := (after.memory-before.memory)/n, (after.disk-before.disk)/n
	for _, each := range []struct {
		metric, unit string
		value        float64
	}{
		{"queues", "", queues},
		{"bindings", "", float64(len(subjects[0].Bindings))},
		{"memory", "MiB", memory / miB},
		{"memory per queue", "KiB", memory / queues / kiB},
		{"disk", "MiB", disk / miB},
		{"disk per queue", "KiB", disk / queues / kiB},
	} {
		err := s.add(sample.Sample{
			Scenario: "idle" + more, Subject: u.String(), Parameter: "cascades", X: n,
			Metric: each.metric, Unit: each.unit, Round: round, Value: each.value,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
