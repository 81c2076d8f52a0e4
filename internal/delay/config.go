// Package delay turns the few words that describe a delay cascade or a ladder into all its objects. These are
// exchanges, queues, bindings and policies. It also computes the keys that go with them.
//
// In come a Config or a LadderConfig. Resolve decides what they leave open, and checks them: whatever RabbitMQ would
// refuse is an error there, as far as it can be known. Out come a Cascade or a Ladder, and Expand turns these into a
// topology. A Scale has the routing keys of publishers, a Hop the binding keys between levels, a Destination that of a
// receiver. Mermaid draws a cascade, and Summary says it in a line.
//
// The package is pure. It knows nothing of Terraform and of requests. The way back is that of internal/recognize.
package delay

import (
	"cmp"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// QueueType is the type of the queues of a cascade.
type QueueType string

// The queue types that a cascade can be made of.
const (
	Quorum  QueueType = "quorum"
	Classic QueueType = "classic"
)

// Config describes a cascade as it is given: by Units, or in the uniform form, by Base, Levels and Resolution. Resolve
// puts its defaults in place of the zero values of all these, of MaxDelay, ExchangeName, QueueName, DeliveryExchange,
// QueueType, QueueArguments and Lookahead. The other values mean what they say.
type Config struct {
	Vhost string
	// Preset fixes everything but the vhost and who creates the delivery exchange; empty for none.
	Preset Preset
	// Prefix is what the framework of the preset puts before all names, empty for none.
	Prefix string
	// Name is the beginning of all names that are not given.
	Name string
	// Units are what a 1 stands for in each word of a key, 1 to 12, the largest first, each a multiple of the next.
	// They are days, hours, minutes and seconds, unless Levels, Base or Preset is given. None are left in the uniform
	// form.
	Units []time.Duration
	// Base is what the delays are written in, 2 to 10. It is 2 in the uniform form unless given.
	Base int
	// Levels is the number of levels, 1 to MaxLevels. In the uniform form it or MaxDelay is given, or both if MaxDelay
	// takes so many. A Cascade with units has as many levels.
	Levels int
	// MaxDelay is the longest delay that has to be possible. Units then have queues up to that, 30 days unless given.
	MaxDelay time.Duration
	// Resolution is the shortest TTL of level 0, in whole milliseconds. Level k has Base^k times as much. It is 1 s in
	// the uniform form unless given.
	Resolution time.Duration

	ExchangeName     Format
	QueueName        Format
	DeliveryExchange string
	// CreateDeliveryExchange makes the delivery exchange a part of the cascade.
	CreateDeliveryExchange bool

	QueueType QueueType
	// QueueArguments are the further arguments of delay queues. Nil stands for those that Resolve puts there.
	QueueArguments topology.Arguments
	QuorumOptions
	// Lookahead is the number of words that a level exchange looks at, 1 to Levels.
	Lookahead int
	// StrictKeys makes the entry exchange take only keys with all words and an address.
	StrictKeys bool
	// InternalLevels makes the exchanges below the entry refuse publishers.
	InternalLevels bool
	// ParkUnroutable adds an alternate exchange and a queue for what no binding takes.
	ParkUnroutable bool
}

// Cascade is a configuration in which everything is decided and checked. Resolve and Recognize make it.
type Cascade Config

// IsUniform tells whether it is of the uniform form: a base says so, or levels without units.
func (c Cascade) IsUniform() bool { return c.Base != 0 || c.Levels != 0 && len(c.Units) == 0 }

// Resolve decides what the configuration leaves to a preset or to defaults, and checks the result. An error is of type
// Errors.
func (given Config) Resolve() (Cascade, error) {
	c := Cascade(given)
	var errs Errors
	c.applyPreset(&errs)
	if len(errs) > 0 {
		return Cascade{}, errs // what else seems to be missing or wrong, the preset that is meant may have
	}
	if err := c.chooseForm(); err != nil {
		errs.append(err)
		return Cascade{}, errs // names and levels depend on it
	}
	c.applyDefaults()
	c.resolveLevels(&errs)
	if len(errs) == 0 && c.IsUniform() && len(given.Units) > 0 {
		if err := c.checkAgreement(given.Units); err != nil {
			errs.append(err)
		}
	}
	c.resolveLookahead(&errs)
	c.shared().check(&errs)
	c.checkNames(&errs, given)
	if len(errs) > 0 {
		return Cascade{}, errs
	}
	return c, nil
}

// What the default names add to the name of the cascade. Those of queues have the digit, too, in a base over 2.
const (
	defaultLevel = ".delay-%02d"
	defaultDigit = "-%x"
	// defaultUnits is that of exchanges and queues with units.
	defaultUnits = ".%s"
)

func (c *Cascade) applyDefaults() {
	setDefault(&c.QueueType, Quorum)
	resolveArguments(&c.QueueArguments, c.QueueType)
	if c.Name == "" {
		return
	}
	exchange, queue := c.defaultNames()
	setDefault(&c.ExchangeName, Format(Escape(c.Name)+exchange))
	setDefault(&c.QueueName, Format(Escape(c.Name)+queue))
	setDefault(&c.DeliveryExchange, c.Name+defaultDelivery)
}

// defaultNames are what the default names of exchanges and queues add to the name of the cascade.
func (c Cascade) defaultNames() (exchange, queue string) {
	switch {
	case !c.IsUniform():
		return defaultUnits, defaultUnits
	case c.Base == DefaultBase:
		return defaultLevel, defaultLevel
	}
	return defaultLevel, defaultLevel + defaultDigit
}

// chooseForm sets the defaults of units or of the uniform form, and checks in what delays are written. Values of the
// other form have to agree, because a generated configuration has all of it.
func (c *Cascade) chooseForm() error {
	switch {
	case c.IsUniform():
		if c.Levels == 0 && c.MaxDelay == 0 {
			c.Levels = len(c.Units)
		}
		c.Units = nil
		setDefault(&c.Base, DefaultBase)
		setDefault(&c.Resolution, time.Second)
		if c.Base < MinBase || c.Base > MaxBase {
			return attributeError("base", "is %d; it can be %d to %d", c.Base, MinBase, MaxBase)
		}
		return nil
	case len(c.Units) == 0 && c.Resolution != 0:
		return attributeError("resolution", "is given without levels or base; give one of them, or units, the last of "+
			"which is the resolution")
	case len(c.Units) == 0:
		const daysToSeconds = 4
		c.Units = CommonUnits()[:daysToSeconds]
	}
	setDefault(&c.MaxDelay, DefaultMaxDelay)
	if err := checkUnits("units", c.Units, time.Millisecond, maxUnits); err != nil {
		return err
	}
	return c.checkAgreement(c.Units)
}

// checkAgreement checks what there is of the uniform form beside units. In that form, levels have to be resolved.
func (c *Cascade) checkAgreement(units []time.Duration) error {
	const leaveOut = "; leave one of the two out"
	last := units[len(units)-1]
	if c.Levels != 0 && c.Levels != len(units) {
		return attributeError("levels", "is %d beside the units %s"+leaveOut, c.Levels, durationTexts(units))
	}
	for i, unit := range units[1:] {
		if c.Base != 0 && units[i] != time.Duration(c.Base)*unit {
			return attributeError("base", "is %d beside the units %s"+leaveOut, c.Base, durationTexts(units))
		}
	}
	if c.Resolution != 0 && c.Resolution != last {
		return attributeError("resolution", "is %s beside the units %s, the last of which it is"+leaveOut,
			DurationText(c.Resolution), durationTexts(units))
	}
	return nil
}

func setDefault[T comparable](value *T, otherwise T) {
	*value = cmp.Or(*value, otherwise)
}

// resolveLevels derives the number of levels and the longest delay from each other.
func (c *Cascade) resolveLevels(errs *Errors) {
	if !c.IsUniform() {
		c.Levels = len(c.Units)
		if err := c.Scale().checkReach(c.MaxDelay); err != nil {
			errs.append(err)
		}
		return
	}
	err := c.uniform().checkResolution()
	if err == nil && c.Levels != 0 {
		err = c.uniform().checkLevels()
	}
	if err != nil {
		errs.append(err)
		return
	}
	switch {
	case c.MaxDelay != 0:
		levels, err := levelsFor(c.Base, c.MaxDelay, c.Resolution)
		if err != nil {
			errs.append(err)
		} else if c.Levels != 0 && c.Levels != levels {
			errs.add("levels", "is %d, but the max_delay beside it, %s, takes %d; leave one of the two out, it is "+
				"computed. "+
				"What ignore_changes lists counts as given", c.Levels, c.MaxDelay, levels)
		}
		c.Levels = levels
	case c.Levels == 0:
		errs.add("levels", "is missing; give it or max_delay")
	default:
		c.MaxDelay = c.uniform().longest()
	}
}

// resolveLookahead takes the largest that is possible where none is given.
func (c *Cascade) resolveLookahead(errs *Errors) {
	setDefault(&c.Lookahead, c.Levels)
	if len(*errs) == 0 && (c.Lookahead < 1 || c.Lookahead > c.Levels) {
		errs.add("lookahead", "is %d; with %d levels it can be 1 (the classic chain) to %d (every hop is routed once)",
			c.Lookahead, c.Levels, c.Levels)
	}
}

// checkNames checks every name of the cascade, each on the attribute that gives it.
func (c *Cascade) checkNames(errs *Errors, given Config) {
	p := c.shared()
	p.checkMissing(errs, otherwise{"exchange_name", c.ExchangeName == ""}, otherwise{"queue_name", c.QueueName == ""},
		otherwise{"delivery_exchange", c.DeliveryExchange == ""})
	exchangeName := origin("exchange_name", string(given.ExchangeName))
	queueName := origin("queue_name", string(given.QueueName))
	deliveryExchange := origin("delivery_exchange", given.DeliveryExchange)
	for _, each := range []struct {
		attribute string
		format    Format
		err       error
	}{
		{exchangeName, c.ExchangeName, c.checkFormat(c.ExchangeName, Format.Check)},
		{queueName, c.QueueName, c.checkFormat(c.QueueName, func(f Format) error { return f.checkQueue(c.Base) })},
	} {
		if each.format == "" {
			return
		}
		if each.err != nil {
			errs.add(each.attribute, "is %q, which %s", each.format, each.err)
			return
		}
	}
	if c.Levels < 1 || c.Levels > MaxLevels || !c.IsUniform() && len(*errs) > 0 {
		return
	}
	objects := p.objectsAround(deliveryExchange)
	for level := range c.Levels {
		objects = append(objects, object{exchangeName, "exchange", c.Exchange(level)})
		for _, q := range c.DelayQueues(level) {
			objects = append(objects, object{queueName, "queue", q.Name})
		}
	}
	p.checkNames(errs, objects)
}
