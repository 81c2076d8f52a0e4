package delay

import (
	"fmt"
	"math"
	"time"
)

const (
	// MaxTTL is the longest TTL of a queue: ten years, for classic and quorum queues,
	// since RabbitMQ 3.10.2 (MAX_EXPIRY_TIMER in rabbit_misc).
	MaxTTL = 315_360_000_000 * time.Millisecond
	// MaxLevels is the largest number of levels: with the finest resolution of 1 ms the queue of
	// a 40th level would exceed MaxTTL.
	MaxLevels = 39
)

// The bases that delays can be written in: a digit is one of 0 to 9.
const (
	MinBase     = 2
	MaxBase     = 10
	DefaultBase = 2
)

// Scale defines how the delays of a cascade are written: in steps of the resolution, as a number with a digit for each
// level.
type Scale struct {
	Base       int
	Levels     int
	Resolution time.Duration
}

// Scale is that of the cascade.
func (c Cascade) Scale() Scale { return Scale{c.Base, c.Levels, c.Resolution} }

// NewScale returns an AttributeError unless there can be a cascade of the scale.
func NewScale(base, levels int, resolution time.Duration) (Scale, error) {
	s := Scale{base, levels, resolution}
	if err := s.checkSteps(); err != nil {
		return s, err
	}
	return s, s.checkLevels()
}

func checkBase(base int) error {
	if base < MinBase || base > MaxBase {
		return attributeError("base", "is %d; it can be %d to %d", base, MinBase, MaxBase)
	}
	return nil
}

// checkSteps checks everything but the levels.
func (s Scale) checkSteps() error {
	if err := checkBase(s.Base); err != nil {
		return err
	}
	switch {
	case s.Resolution < time.Millisecond || s.Resolution%time.Millisecond != 0:
		return attributeError("resolution", "is %s; RabbitMQ counts TTL in whole milliseconds, so give 1ms "+
			"or a multiple of it", s.Resolution)
	case s.Resolution > MaxTTL:
		return attributeError("resolution", "is %s; give at most %s, the longest TTL that RabbitMQ accepts",
			s.Resolution, pictured(MaxTTL))
	case s.mostLevels() < 1:
		most := MaxTTL / time.Duration(s.Base-1)
		return attributeError("resolution", "is %s; in base %d give at most %s: the highest digit waits %d times as "+
			"long, and RabbitMQ accepts no TTL over %s",
			s.Resolution, s.Base, most.Truncate(time.Millisecond), s.Base-1, pictured(MaxTTL))
	}
	return nil
}

func (s Scale) checkLevels() error {
	if most := s.mostLevels(); s.Levels < 1 || s.Levels > most {
		return attributeError("levels", "is %d; at a resolution of %s%s it can be 1 to %d: RabbitMQ accepts no "+
			"TTL over %s",
			s.Levels, s.Resolution, s.inBase(), most, pictured(MaxTTL))
	}
	return nil
}

// inBase names a base that is not the default.
func (s Scale) inBase() string {
	if s.Base == DefaultBase {
		return ""
	}
	return fmt.Sprintf(" in base %d", s.Base)
}

// mostLevels is the number of levels at which the longest TTL is at most the
// broker's ceiling.
func (s Scale) mostLevels() int {
	levels := 0
	for levels < MaxLevels && s.TTL(levels, s.Base-1) <= MaxTTL {
		levels++
	}
	return levels
}

// weight is how many steps a 1 at the level stands for, or the largest number if that is less.
func (s Scale) weight(level int) int64 {
	weight := int64(1)
	for range level {
		if weight > math.MaxInt64/int64(s.Base) {
			return math.MaxInt64
		}
		weight *= int64(s.Base)
	}
	return weight
}

// TTL is how long a message with the digit waits at the level. It may overflow unless the TTL of the level below is at
// most MaxTTL.
func (s Scale) TTL(level, digit int) time.Duration {
	return time.Duration(s.weight(level)*int64(digit)) * s.Resolution
}

// Units are what a 1 stands for in each word of a key, the largest first.
func (s Scale) Units() []time.Duration {
	units := make([]time.Duration, s.Levels)
	for i := range units {
		units[i] = s.TTL(s.Levels-1-i, 1)
	}
	return units
}

// Longest is the longest delay, or the longest duration if that is shorter.
func (s Scale) Longest() time.Duration {
	steps := s.weight(s.Levels) - 1
	if steps > math.MaxInt64/int64(s.Resolution) {
		return math.MaxInt64
	}
	return time.Duration(steps) * s.Resolution
}

// levelsFor is the smallest number of levels that reaches the delay. An error is of type AttributeError.
func levelsFor(base int, maxDelay, resolution time.Duration) (int, error) {
	s := Scale{base, 1, resolution}
	if err := s.checkSteps(); err != nil {
		return 0, err
	}
	if maxDelay <= 0 {
		return 0, attributeError("max_delay", "is %s; it has to be positive", maxDelay)
	}
	most := s.mostLevels()
	for s.Longest() < maxDelay {
		if s.Levels == most {
			return most + 1, attributeError("max_delay", "is %s, more than %s, the longest delay at a resolution of "+
				"%s%s: RabbitMQ accepts no TTL over %s; a coarser resolution reaches further",
				maxDelay, pictured(s.Longest()), resolution, s.inBase(), pictured(MaxTTL))
		}
		s.Levels++
	}
	return s.Levels, nil
}
