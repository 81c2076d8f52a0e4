// Package cascade expands the few words that describe a delay cascade into every exchange,
// queue, argument and binding it consists of, and computes the routing keys that go with it.
//
// It is pure: it imports nothing of Terraform and never talks to a broker. What RabbitMQ would
// refuse, and what can be known beforehand, is an error here.
package cascade

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// QueueType is the type of the queues of a cascade.
type QueueType string

// The queue types that a cascade can be made of.
const (
	Quorum  QueueType = "quorum"
	Classic QueueType = "classic"
)

const (
	// MaxTTL is the longest time-to-live of a queue: ten years, for classic and quorum queues,
	// since RabbitMQ 3.10.2 (MAX_EXPIRY_TIMER in rabbit_misc).
	MaxTTL = 315_360_000_000 * time.Millisecond
	// MaxLevels is the largest number of levels: with the finest resolution of 1 ms the queue of
	// a 40th level would exceed MaxTTL.
	MaxLevels = 39
)

// Config describes a cascade. The zero values of Levels, MaxDelay, Resolution, ExchangeName,
// QueueName, DeliveryExchange, QueueType and Lookahead stand for what Resolve puts there; the
// others mean what they say.
type Config struct {
	Vhost string
	// Preset fixes everything but the vhost and who creates the delivery exchange; empty for none.
	Preset Preset
	// Name is the beginning of all names that are not given.
	Name string
	// Levels is the number of queues, 1 to 39. It or MaxDelay is given, or both if they agree.
	Levels int
	// MaxDelay is the longest delay that has to be possible.
	MaxDelay time.Duration
	// Resolution is the time-to-live of level 0, in whole milliseconds. Level k has 2^k times as much.
	Resolution time.Duration

	ExchangeName     Format
	QueueName        Format
	DeliveryExchange string
	// CreateDeliveryExchange makes the delivery exchange a part of the cascade.
	CreateDeliveryExchange bool

	QueueType QueueType
	// MaxLength is the largest number of messages in a queue, 0 for no limit; quorum only.
	MaxLength int64
	// Lookahead is the number of digits that a level exchange looks at, 1 to Levels.
	Lookahead int
	// StrictKeys makes the entry exchange take only keys with all digits and a destination.
	StrictKeys bool
	// InternalLevels makes the exchanges below the entry refuse publishers.
	InternalLevels bool
	// ParkUnroutable adds an alternate exchange and a queue for what no binding takes.
	ParkUnroutable bool
}

// Resolve fills in what the configuration leaves to defaults and checks the result. An error is
// of type Errors.
func (c Config) Resolve() (Config, error) {
	given := c
	var errs Errors
	c.applyPreset(&errs)
	if c.Resolution == 0 {
		c.Resolution = time.Second
	}
	if c.QueueType == "" {
		c.QueueType = Quorum
	}
	if c.ExchangeName == "" && c.Name != "" {
		c.ExchangeName = Format(Escape(c.Name) + defaultLevel)
	}
	if c.QueueName == "" && c.Name != "" {
		c.QueueName = Format(Escape(c.Name) + defaultLevel)
	}
	if c.DeliveryExchange == "" && c.Name != "" {
		c.DeliveryExchange = c.Name + defaultDelivery
	}
	c.resolveLevels(&errs)
	if c.Lookahead == 0 {
		c.Lookahead = c.Levels
	}
	if len(errs) == 0 {
		c.checkLookahead(&errs)
	}
	c.parts().check(&errs)
	c.checkNames(&errs, given)
	if len(errs) > 0 {
		return Config{}, errs
	}
	return c, nil
}

// defaultLevel is what the default names add to the name of the cascade.
const defaultLevel = ".delay-%02d"

// TTL is the time-to-live of the queue of the level.
func (c Config) TTL(level int) time.Duration { return c.Resolution << level }

// resolveLevels derives the number of levels and the longest delay from each other.
func (c *Config) resolveLevels(errs *Errors) {
	if wrong, ok := checkResolution(c.Resolution); !ok {
		*errs = append(*errs, wrong)
		return
	}
	switch {
	case c.MaxDelay != 0 && c.Levels == 0:
		levels, wrong, ok := levelsFor(c.MaxDelay, c.Resolution)
		if !ok {
			*errs = append(*errs, wrong)
		}
		c.Levels = levels
	case c.Levels == 0:
		errs.add("levels", "is missing; give it or max_delay")
	default:
		if wrong, ok := checkLevelCount(c.Levels, c.Resolution); !ok {
			*errs = append(*errs, wrong)
			return
		}
		longest := longestDelay(c.Levels, c.Resolution)
		if c.MaxDelay != 0 && c.MaxDelay != longest {
			errs.add("levels", "is given beside max_delay, and reaches %s, not %s; leave one of the two out, it is computed", longest, c.MaxDelay)
		}
		c.MaxDelay = longest
	}
}

// checkLevels returns an error unless there can be a cascade of so many levels.
func checkLevels(levels int, resolution time.Duration) error {
	if wrong, ok := checkResolution(resolution); !ok {
		return wrong
	}
	if wrong, ok := checkLevelCount(levels, resolution); !ok {
		return wrong
	}
	return nil
}

func checkResolution(resolution time.Duration) (wrong AttributeError, ok bool) {
	switch {
	case resolution < time.Millisecond || resolution%time.Millisecond != 0:
		return attributeError("resolution", "is %s; RabbitMQ counts time-to-live in whole milliseconds, so give 1ms or a multiple of it", resolution), false
	case resolution > MaxTTL:
		return attributeError("resolution", "is %s; give at most %s, the longest time-to-live that RabbitMQ accepts", resolution, MaxTTL), false
	}
	return AttributeError{}, true
}

func checkLevelCount(levels int, resolution time.Duration) (wrong AttributeError, ok bool) {
	if most := mostLevels(resolution); levels < 1 || levels > most {
		return attributeError("levels", "is %d; at a resolution of %s it can be 1 to %d: RabbitMQ accepts no time-to-live over %s",
			levels, resolution, most, MaxTTL), false
	}
	return AttributeError{}, true
}

// mostLevels is the number of levels at which the longest time-to-live is still below the
// broker's ceiling.
func mostLevels(resolution time.Duration) int {
	levels := 1
	for levels < MaxLevels && resolution<<levels <= MaxTTL {
		levels++
	}
	return levels
}

// LevelsFor is the smallest number of levels that reaches the delay. An error is of type AttributeError.
func LevelsFor(maxDelay, resolution time.Duration) (int, error) {
	if wrong, ok := checkResolution(resolution); !ok {
		return 0, wrong
	}
	levels, wrong, ok := levelsFor(maxDelay, resolution)
	if !ok {
		return 0, wrong
	}
	return levels, nil
}

func levelsFor(maxDelay, resolution time.Duration) (levels int, wrong AttributeError, ok bool) {
	if maxDelay <= 0 {
		return 0, attributeError("max_delay", "is %s; it has to be positive", maxDelay), false
	}
	most := mostLevels(resolution)
	levels = 1
	for levels <= most && longestDelay(levels, resolution) < maxDelay {
		levels++
	}
	if levels > most {
		return levels, attributeError("max_delay", "is %s, more than %s, the longest delay at a resolution of %s: RabbitMQ accepts no time-to-live over %s; a coarser resolution reaches further",
			maxDelay, longestDelay(most, resolution), resolution, MaxTTL), false
	}
	return levels, AttributeError{}, true
}

// longestDelay is the longest delay of so many levels, or the longest duration if that is shorter.
func longestDelay(levels int, resolution time.Duration) time.Duration {
	if maxSteps(levels) > math.MaxInt64/int64(resolution) {
		return math.MaxInt64
	}
	return time.Duration(maxSteps(levels)) * resolution
}

func (c Config) checkLookahead(errs *Errors) {
	if c.Lookahead < 1 || c.Lookahead > c.Levels {
		errs.add("lookahead", "is %d; with %d levels it can be 1 (the classic chain) to %d (every hop is routed once)", c.Lookahead, c.Levels, c.Levels)
	}
}

// checkNames checks every name of the cascade, each on the attribute that gives it.
func (c Config) checkNames(errs *Errors, given Config) {
	p := c.parts()
	p.checkMissing(errs, otherwise{"exchange_name", c.ExchangeName == ""}, otherwise{"queue_name", c.QueueName == ""})
	exchangeName := origin("exchange_name", string(given.ExchangeName))
	queueName := origin("queue_name", string(given.QueueName))
	deliveryExchange := origin("delivery_exchange", given.DeliveryExchange)
	for _, each := range []struct {
		attribute string
		format    Format
	}{{exchangeName, c.ExchangeName}, {queueName, c.QueueName}} {
		if each.format == "" {
			return
		}
		if err := each.format.Check(); err != nil {
			errs.add(each.attribute, "is %q, which %s", each.format, err)
			return
		}
	}
	if c.Levels < 1 || c.Levels > MaxLevels {
		return
	}
	objects := p.objectsAround(deliveryExchange)
	for level := range c.Levels {
		objects = append(objects,
			object{exchangeName, "exchange", c.ExchangeName.Name(level)},
			object{queueName, "queue", c.QueueName.Name(level)})
	}
	p.checkNames(errs, objects)
}

// Errors lists what is wrong with a configuration.
type Errors []AttributeError

// AttributeError says what is wrong with one attribute or parameter and what to do.
type AttributeError struct {
	// Attribute is the name of the resource's attribute or of the function's parameter in Terraform.
	Attribute string
	// Message continues a sentence that begins with the attribute's name.
	Message string
}

func (e *Errors) add(attribute, format string, args ...any) {
	for _, known := range *e {
		if known.Attribute == attribute {
			return // one error per attribute: the first is the one to mend
		}
	}
	*e = append(*e, attributeError(attribute, format, args...))
}

func attributeError(attribute, format string, args ...any) AttributeError {
	return AttributeError{attribute, fmt.Sprintf(format, args...)}
}

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, each := range e {
		lines[i] = each.Error()
	}
	return strings.Join(lines, "\n")
}

func (e AttributeError) Error() string { return e.Attribute + " " + e.Message }
