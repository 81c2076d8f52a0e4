package delay

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// Scale defines how the delays of a cascade are written. A key has a word for each unit, with how many of it there are.
type Scale struct {
	// Units are what a 1 stands for in each word, the largest first. Each is a multiple of the next.
	Units []time.Duration
	// Longest is the longest delay that has a key, or the longest duration if that is shorter.
	Longest time.Duration
}

// Levels is the number of words, each of which is that of a level of the cascade.
func (s Scale) Levels() int { return len(s.Units) }

// Resolution is the smallest step of delays.
func (s Scale) Resolution() time.Duration { return s.Units[len(s.Units)-1] }

// unitOf is that of a level. Level 0 has the smallest one.
func (s Scale) unitOf(level int) time.Duration { return s.Units[len(s.Units)-1-level] }

// LargestNumber is the largest number that the word of a level can have, 0 if no delay is so long.
func (s Scale) LargestNumber(level int) int {
	most := s.Longest / s.unitOf(level)
	if level+1 < s.Levels() {
		most = min(most, s.unitOf(level+1)/s.unitOf(level)-1)
	}
	return int(most)
}

// TTL is how long a message with the number waits at the level.
func (s Scale) TTL(level, number int) time.Duration { return time.Duration(number) * s.unitOf(level) }

// What there can be of units.
const (
	maxUnits = 12
	// MaxQueues bounds the delay queues of a cascade with units.
	MaxQueues = 1024
	// DefaultMaxDelay is how far units reach, unless that is given.
	DefaultMaxDelay = 30 * day
)

// checkUnits checks the units of a cascade, as durations or as numbers. A millisecond is one of them.
func checkUnits[T ~int64](attribute string, units []T, millisecond T, most int) error {
	if len(units) > most {
		return attributeError(attribute, "are %d; give at most %d", len(units), most)
	}
	longest := T(MaxTTL/time.Millisecond) * millisecond
	for i, unit := range units {
		switch {
		case unit < millisecond || unit%millisecond != 0:
			return attributeError(attribute, "have %v; RabbitMQ counts TTL in whole milliseconds, so give %v or a "+
				"multiple of it", unit, millisecond)
		case unit > longest:
			return attributeError(attribute, "have %v; give at most %v (ten years), the longest TTL that RabbitMQ "+
				"accepts", unit, longest)
		case i > 0 && unit == units[i-1]:
			return attributeError(attribute, "have %v twice; give each unit once", unit)
		case i > 0 && unit > units[i-1]:
			return attributeError(attribute, "have %v behind %v; give the largest first", unit, units[i-1])
		case i > 0 && units[i-1]%unit != 0:
			return attributeError(attribute, "have %v before %v; each unit has to be a multiple of the next",
				units[i-1], unit)
		}
	}
	return nil
}

// checkReach checks how far units reach, and how many queues that takes.
func (s Scale) checkReach(maxDelay time.Duration) error {
	if maxDelay > MaxTTL || s.TTL(s.Levels()-1, s.LargestNumber(s.Levels()-1)) > MaxTTL {
		return attributeError("max_delay", "is %s; give at most %s, the longest TTL that RabbitMQ accepts", maxDelay,
			pictured(MaxTTL))
	}
	if last := s.Resolution(); maxDelay < last {
		return attributeError("max_delay", "is %s; give at least %s, the smallest of the units", maxDelay, last)
	}
	if queues := s.delayQueues(); queues > MaxQueues {
		largest := 0
		for level := range s.Levels() {
			if s.LargestNumber(level) > s.LargestNumber(largest) {
				largest = level
			}
		}
		instead := "Add a unit above " + DurationText(s.unitOf(largest))
		if enough, found := s.withinQueues(maxDelay); found {
			instead = fmt.Sprintf("The units %s take %d", durationTexts(enough.Units), enough.delayQueues())
		}
		return attributeError("units", "take %d delay queues up to a max_delay of %s, %d of them for multiples of %s; "+
			"there can be %d. %s. Or give a shorter max_delay", queues, maxDelay,
			s.LargestNumber(largest), s.unitOf(largest), MaxQueues, instead)
	}
	return nil
}

func (s Scale) delayQueues() (queues int) {
	for level := range s.Levels() {
		queues += s.LargestNumber(level)
	}
	return queues
}

// withinQueues is the scale with as many common units more as bring it within the bound.
func (s Scale) withinQueues(maxDelay time.Duration) (best Scale, found bool) {
	best = s
	for _, unit := range CommonUnits() {
		units := append(slices.Clone(s.Units), unit)
		slices.SortFunc(units, func(a, b time.Duration) int { return cmp.Compare(b, a) })
		if unit > maxDelay || checkUnits("units", units, time.Millisecond, maxUnits) != nil {
			continue
		}
		if with := unitsReaching(units, maxDelay); with.delayQueues() < best.delayQueues() {
			best = with
		}
	}
	switch {
	case best.delayQueues() <= MaxQueues:
		return best, true
	case len(best.Units) == len(s.Units):
		return s, false
	}
	return best.withinQueues(maxDelay)
}

// unitsReaching is the scale of units that reach a delay. The largest one that is not longer has as many numbers as
// that takes, and those below it have all.
func unitsReaching(units []time.Duration, maxDelay time.Duration) Scale {
	last := units[len(units)-1]
	if over := maxDelay % last; over > 0 {
		maxDelay += last - over
	}
	longest := maxDelay
	if first := slices.IndexFunc(units, func(unit time.Duration) bool { return unit <= maxDelay }); first >= 0 {
		longest = maxDelay - maxDelay%units[first] + units[first] - last
	}
	return Scale{units, longest}
}

// unitLabel is a unit within the name of an exchange.
func unitLabel(unit time.Duration) string { return cmp.Or(writtenAs(unit).letter, DurationText(unit)) }

// UnitsLabel are units within the name of an exchange: "h.10m.s".
func UnitsLabel(units []time.Duration) string {
	return plaintext.Join(units, ".", unitLabel)
}

// namedUnit is a unit within the name of an exchange.
var namedUnit = regexp.MustCompile(`^(?:(?:[1-9][0-9]*(?:d|h|ms|m|s))+|d|h|ms|m|s)`)

// UnitsIn are the units with which a text begins, as the names of exchanges have them. They are as many as can be those
// of one cascade.
func UnitsIn(text string) (units []time.Duration) {
	for {
		word := namedUnit.FindString(text)
		one := word
		if len(strings.TrimLeft(word, "dhms")) == 0 { // a unit without a number
			one = "1" + word
		}
		unit, err := ParseDuration(one)
		more := append(slices.Clone(units), unit)
		if err != nil || unitLabel(unit) != word || checkUnits("units", more, time.Millisecond, maxUnits) != nil {
			return units
		}
		units = more
		rest, goesOn := strings.CutPrefix(text[len(word):], ".")
		if !goesOn {
			return units
		}
		text = rest
	}
}

// durationTexts lists units as attributes have them.
func durationTexts(units []time.Duration) string {
	return plaintext.Join(units, ", ", DurationText)
}

// unitInWords is a unit in a sentence: "days", "10 min", "16384 s".
func unitInWords(unit time.Duration) string {
	switch word := writtenAs(unit).word; {
	case word != "":
		return word
	case unit%time.Minute == 0:
		return plaintext.Duration(unit)
	case unit%time.Second == 0:
		return fmt.Sprintf("%d s", unit/time.Second)
	}
	return fmt.Sprintf("%d ms", unit/time.Millisecond)
}

// What there can be of the uniform form.
const (
	// MaxLevels is the largest number of levels: with the finest resolution of 1 ms the queue of
	// a 40th level would exceed MaxTTL.
	MaxLevels = 39
	// A digit is one of 0 to 9.
	MinBase     = 2
	MaxBase     = 10
	DefaultBase = 2
)

// Uniform is a way to write a scale in which each unit is the base times the next. Delays are numbers with a digit for
// each level, in steps of the resolution.
type Uniform struct {
	Base       int
	Levels     int
	Resolution time.Duration
}

// Scale is the one that it stands for.
func (u Uniform) Scale() Scale {
	units := make([]time.Duration, u.Levels)
	for i := range units {
		units[i] = u.ttl(u.Levels-1-i, 1)
	}
	return Scale{units, u.longest()}
}

// checkResolution checks the resolution in a valid base.
func (u Uniform) checkResolution() error {
	switch {
	case u.Resolution < time.Millisecond || u.Resolution%time.Millisecond != 0:
		return attributeError("resolution", "is %s; RabbitMQ counts TTL in whole milliseconds, so give 1ms "+
			"or a multiple of it", u.Resolution)
	case u.Resolution > MaxTTL:
		return attributeError("resolution", "is %s; give at most %s, the longest TTL that RabbitMQ accepts",
			u.Resolution, pictured(MaxTTL))
	case u.mostLevels() < 1:
		most := MaxTTL / time.Duration(u.Base-1)
		return attributeError("resolution", "is %s; in base %d give at most %s: the highest digit waits %d times as "+
			"long, and RabbitMQ accepts no TTL over %s",
			u.Resolution, u.Base, most.Truncate(time.Millisecond), u.Base-1, pictured(MaxTTL))
	}
	return nil
}

func (u Uniform) checkLevels() error {
	if most := u.mostLevels(); u.Levels < 1 || u.Levels > most {
		return attributeError("levels", "is %d; at a resolution of %s%s it can be 1 to %d: RabbitMQ accepts no "+
			"TTL over %s",
			u.Levels, u.Resolution, u.inBase(), most, pictured(MaxTTL))
	}
	return nil
}

// inBase names a base that is not the default.
func (u Uniform) inBase() string {
	if u.Base == DefaultBase {
		return ""
	}
	return fmt.Sprintf(" in base %d", u.Base)
}

// mostLevels is the number of levels at which the longest TTL is at most the
// broker's ceiling.
func (u Uniform) mostLevels() int {
	levels := 0
	for levels < MaxLevels && u.ttl(levels, u.Base-1) <= MaxTTL {
		levels++
	}
	return levels
}

// Steps is how many steps of the resolution the digit stands for at the level, or the largest number if that is less.
func (u Uniform) Steps(level, digit int) int64 {
	steps := int64(digit)
	for range level {
		if steps > math.MaxInt64/int64(u.Base) {
			return math.MaxInt64
		}
		steps *= int64(u.Base)
	}
	return steps
}

// ttl is how long a message with the digit waits at the level, or the longest duration if that is shorter.
func (u Uniform) ttl(level, digit int) time.Duration { return u.times(u.Steps(level, digit)) }

// longest is the longest delay, or the longest duration if that is shorter.
func (u Uniform) longest() time.Duration { return u.times(u.Steps(u.Levels, 1) - 1) }

func (u Uniform) times(steps int64) time.Duration {
	if steps > math.MaxInt64/int64(u.Resolution) {
		return math.MaxInt64
	}
	return time.Duration(steps) * u.Resolution
}

// levelsFor is the smallest number of levels that reaches the delay, in a valid base and resolution. An error is of
// type AttributeError.
func levelsFor(base int, maxDelay, resolution time.Duration) (int, error) {
	u := Uniform{base, 1, resolution}
	if maxDelay <= 0 {
		return 0, attributeError("max_delay", "is %s; it has to be positive", maxDelay)
	}
	most := u.mostLevels()
	for u.longest() < maxDelay {
		if u.Levels == most {
			return most + 1, attributeError("max_delay", "is %s, more than %s, the longest delay at a resolution of "+
				"%s%s: RabbitMQ accepts no TTL over %s; a coarser resolution reaches further",
				maxDelay, pictured(u.longest()), resolution, u.inBase(), pictured(MaxTTL))
		}
		u.Levels++
	}
	return u.Levels, nil
}
