package dataplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// Digits are what delays are written in.
type Digits struct{ Base, Levels int }

// String is the subject's name.
func (d Digits) String() string { return fmt.Sprintf("base %d, %d levels", d.Base, d.Levels) }

const (
	// ByBase sets apart the scenarios in which bases are compared. Their x is BinaryDigits.
	ByBase = ", by base"
	// BinaryDigits are the equal range.
	BinaryDigits = 28
)

// BaseOptions say what Bases measures.
type BaseOptions struct {
	Digits []Digits
	Rounds int
	Time   time.Duration // of one sample of publishing
	Paced  PacedOptions
	Idle   int // cascades that stand idle to see what they cost; 0 is none
}

const (
	// basesPublishResolution is one at which each base has its levels. See publishResolution.
	basesPublishResolution = 1200 * time.Millisecond
	basesPacedResolution   = 10 * time.Millisecond
)

// PublishByBase compares bases at an equal range, with full lookahead and quorum queues: see Publish.
func (b *Bench) PublishByBase(ctx context.Context, o BaseOptions) error {
	return b.in(ctx, func(ctx context.Context, s *space) error { return s.publishByBase(ctx, o) })
}

// Bases compares them as Paced does, and the cost of cascades that hold no message.
func (b *Bench) Bases(ctx context.Context, o BaseOptions) error {
	if err := b.in(ctx, func(ctx context.Context, s *space) error { return s.pacedByBase(ctx, o) }); err != nil {
		return err
	}
	return b.idleByBase(ctx, o)
}

// declareByBase declares a cascade of each base.
func (s *space) declareByBase(ctx context.Context, o BaseOptions, resolution time.Duration) ([]*subject, error) {
	var subjects []*subject
	for _, d := range o.Digits {
		of, err := s.declareDigits(ctx, fmt.Sprintf("b%d", d.Base), d, resolution)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, of)
	}
	return subjects, nil
}

func (s *space) declareDigits(
	ctx context.Context, name string, d Digits, resolution time.Duration,
) (*subject, error) {
	c := config(name, d.Levels, full, delay.Quorum)
	c.Base, c.Resolution = d.Base, resolution
	return s.declare(ctx, d.String(), c)
}

func (s *space) publishByBase(ctx context.Context, o BaseOptions) error {
	const scenario = "publish quorum" + ByBase
	subjects, err := s.declareByBase(ctx, o, basesPublishResolution)
	if err != nil {
		return err
	}
	limit, err := s.publishingToALimit(ctx, scenario, delay.Quorum, basesPublishResolution)
	if err != nil {
		return err
	}
	all := []publishing{limit}
	for _, of := range subjects {
		all = append(all, publishing{scenario, of, of.Entry, shortest(of), 1})
	}
	return s.sampleRates(ctx, all, "binary digits", BinaryDigits, o.Rounds, o.Time)
}

func (s *space) pacedByBase(ctx context.Context, o BaseOptions) error {
	subjects, err := s.declareByBase(ctx, o, basesPacedResolution)
	if err != nil {
		return err
	}
	return s.pacedRounds(ctx, ByBase, subjects, o.Paced)
}

// idleByBase measures on a broker that can be asked for it.
func (b *Bench) idleByBase(ctx context.Context, o BaseOptions) error {
	if o.Idle == 0 {
		return nil
	}
	for round := 1; round <= o.Rounds; round++ {
		for _, i := range rand.Perm(len(o.Digits)) {
			err := b.in(ctx, func(ctx context.Context, s *space) error {
				return s.idle(ctx, o.Digits[i], o.Idle, round)
			})
			if errors.Is(err, brokertest.ErrUnsupported) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("idle cascades of %s: %w", o.Digits[i], err)
			}
		}
	}
	return nil
}

// idle measures what each of n cascades takes.
func (s *space) idle(ctx context.Context, d Digits, n, round int) error {
	before, err := s.usage(ctx)
	if err != nil {
		return err
	}
	var of *subject
	for i := range n {
		if of, err = s.declareDigits(ctx, fmt.Sprintf("idle%d", i), d, time.Second); err != nil {
			return err
		}
	}
	after, err := s.usage(ctx)
	if err != nil {
		return err
	}
	const kiB = 1 << 10
	queues := float64(len(of.Queues))
	memory, disk := (after.memory-before.memory)/float64(n)/kiB, (after.disk-before.disk)/float64(n)/kiB
	for _, each := range []struct {
		metric, unit string
		value        float64
	}{
		{"queues", "", queues},
		{"bindings", "", float64(len(of.Bindings))},
		{"memory", "KiB", memory},
		{"memory per queue", "KiB", memory / queues},
		{"disk", "KiB", disk},
		{"disk per queue", "KiB", disk / queues},
	} {
		err := s.add(sample.Sample{
			Scenario: "idle" + ByBase, Subject: d.String(), Parameter: "binary digits", X: BinaryDigits,
			Metric: each.metric, Unit: each.unit, Round: round, Value: each.value,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
