package dataplane

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/montanaflynn/stats"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// PacedOptions say what Paced measures.
type PacedOptions struct {
	Lookaheads []int
	Rates      []float64 // messages per second
	Search     bool      // whether to search for the highest rate too
	Rounds     int
	Time       time.Duration // for which messages are published
	Delays     []int64       // in steps, of which each message has one
}

const (
	pacedLevels     = 28
	pacedResolution = 100 * time.Millisecond
	// lateLimit is the lateness that 99 of 100 messages may have at the highest rate.
	lateLimit = 0.1 // s
)

// Paced publishes at an even rate, with random delays, to quorum queues, and measures how late messages arrive. It
// counts from the time at which they should have been published, so that a publisher that is held back counts.
func (b *Bench) Paced(ctx context.Context, o PacedOptions) error {
	return b.in(ctx, func(ctx context.Context, s *space) error {
		var subjects []*subject
		for _, lookahead := range o.Lookaheads {
			c := config(fmt.Sprintf("l%d", lookahead), pacedLevels, lookahead, delay.Quorum)
			c.Resolution = pacedResolution
			of, err := s.declare(ctx, lookaheadName(lookahead), c)
			if err != nil {
				return err
			}
			subjects = append(subjects, of)
		}
		return s.pacedRounds(ctx, "", subjects, o)
	})
}

// pacedRounds measures all subjects. More sets the scenarios apart.
func (s *space) pacedRounds(ctx context.Context, more string, subjects []*subject, o PacedOptions) error {
	for round := 1; round <= o.Rounds; round++ {
		if err := s.pacedRound(ctx, more, subjects, round, o); err != nil {
			return err
		}
	}
	return nil
}

// pacedRound measures all subjects at each rate, and searches for the highest.
func (s *space) pacedRound(ctx context.Context, more string, subjects []*subject, round int, o PacedOptions) error {
	for _, rate := range o.Rates {
		for _, i := range rand.Perm(len(subjects)) {
			of := subjects[i]
			l, err := s.paced(ctx, of, rate, o)
			if err != nil {
				return err
			}
			if err := s.addLateness("lateness"+more, of.name, "rate", rate, round, l); err != nil {
				return err
			}
		}
	}
	if !o.Search {
		return nil
	}
	return s.search(ctx, more, subjects, round, o)
}

// search halves the range of rates for all subjects in turn, on a logarithmic scale.
func (s *space) search(ctx context.Context, more string, subjects []*subject, round int, o PacedOptions) error {
	const slowest, fastest, precision = 200.0, 25600.0, 1.15
	low, high := map[*subject]float64{}, map[*subject]float64{}
	for _, of := range subjects {
		low[of], high[of] = slowest, fastest
	}
	for busy := true; busy; {
		busy = false
		for _, of := range subjects {
			if high[of] < precision*low[of] {
				continue
			}
			busy = true
			rate := math.Sqrt(low[of] * high[of])
			sustained, err := s.sustains(ctx, of, rate, o)
			if err != nil {
				return err
			}
			if sustained {
				low[of] = rate
			} else {
				high[of] = rate
			}
		}
	}
	parameter, x := "levels", float64(pacedLevels)
	if more == ByUnits {
		parameter, x = "delays", float64(len(o.Delays))
	}
	for _, of := range subjects {
		err := s.add(sample.Sample{
			Scenario: "highest paced rate" + more, Subject: of.name, Parameter: parameter, X: x,
			Metric: "rate", Unit: "msg/s", Round: round, Value: low[of],
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sustains tells whether the messages of the rate are hardly late. A rate that seems too high is tried once more,
// because something else on the machine may have been.
func (s *space) sustains(ctx context.Context, of *subject, rate float64, o PacedOptions) (bool, error) {
	for range 2 {
		l, err := s.paced(ctx, of, rate, o)
		if err != nil || l.all() && l.p99 < lateLimit {
			return err == nil, err
		}
	}
	return false, nil
}

// lateness is how late the messages of one measurement were, in seconds.
type lateness struct {
	p50, p99, max   float64
	arrived, wanted int
}

func newLateness(late []float64, wanted int) (l lateness, err error) {
	l.arrived, l.wanted = len(late), wanted
	if len(late) == 0 {
		return l, nil
	}
	if l.p50, err = stats.Percentile(late, 50); err != nil {
		return l, err
	}
	if l.p99, err = stats.Percentile(late, 99); err != nil {
		return l, err
	}
	l.max, err = stats.Max(late)
	return l, err
}

// all tells whether every message arrived in time to be measured.
func (l lateness) all() bool { return l.arrived == l.wanted }

func (b *Bench) addLateness(scenario, subject, parameter string, x float64, round int, l lateness) error {
	for _, each := range []struct {
		metric string
		value  float64
	}{{"p50", l.p50}, {"p99", l.p99}, {"max", l.max}} {
		err := b.add(sample.Sample{
			Scenario: scenario, Subject: subject, Parameter: parameter, X: x,
			Metric: each.metric, Unit: "ms", Round: round, Value: 1000 * each.value,
		})
		if err != nil {
			return err
		}
	}
	return b.add(sample.Sample{
		Scenario: scenario, Subject: subject, Parameter: parameter, X: x,
		Metric: "arrived", Unit: "share", Round: round, Value: float64(l.arrived) / float64(l.wanted),
	})
}

// paced publishes for a time at the rate and waits for what arrives.
func (s *space) paced(ctx context.Context, of *subject, rate float64, o PacedOptions) (lateness, error) {
	const patience = 10 * time.Second
	n := int(rate * o.Time.Seconds())
	receiver, receiving, err := s.receive(of.Delivery, n)
	if err != nil {
		return lateness{}, err
	}
	defer receiving.Close()
	sender, err := newSender(s.conn)
	if err != nil {
		return lateness{}, err
	}
	keys := map[int64]string{}
	for _, steps := range o.Delays {
		keys[steps] = of.key(steps)
	}
	started := time.Now()
	giveUp := started.Add(o.Time + patience)
	for i := range n {
		at := started.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if wait := time.Until(at); wait > time.Millisecond {
			time.Sleep(wait)
		}
		if time.Now().After(giveUp) {
			break // hopeless
		}
		steps := o.Delays[rand.IntN(len(o.Delays))]
		if err := sender.send(ctx, of.Entry, keys[steps],
			receiver.stamped(at.Add(time.Duration(steps)*of.step))); err != nil {
			return lateness{}, err
		}
	}
	longest := time.Duration(slices.Max(o.Delays)) * of.step
	late, err := receiver.wait(ctx, n, started.Add(o.Time+longest+patience))
	if err != nil {
		return lateness{}, err
	}
	if err := sender.close(ctx); err != nil {
		return lateness{}, err
	}
	if err := s.purge(of); err != nil {
		return lateness{}, err
	}
	return newLateness(late, n)
}
