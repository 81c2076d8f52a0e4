package delay

import "time"

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
	c.around().check(&errs)
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
				"An argument that ignore_changes lists counts as given", c.Levels, c.MaxDelay, levels)
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

// origin is the attribute to blame for a name: the names of a preset begin with the prefix.
func (given Config) origin(attribute, value string) string {
	if value == "" && given.Preset != "" && given.Prefix != "" {
		return "prefix"
	}
	return origin(attribute, value)
}

// checkNames checks every name of the cascade, each on the attribute that gives it.
func (c *Cascade) checkNames(errs *Errors, given Config) {
	a := c.around()
	a.checkMissing(errs, otherwise{"exchange_name", c.ExchangeName == ""}, otherwise{"queue_name", c.QueueName == ""},
		otherwise{"delivery_exchange", c.DeliveryExchange == ""})
	exchangeName := given.origin("exchange_name", string(given.ExchangeName))
	queueName := given.origin("queue_name", string(given.QueueName))
	deliveryExchange := given.origin("delivery_exchange", given.DeliveryExchange)
	wrongExchange, wrongQueue := c.ExchangeName.checkText(), c.QueueName.checkText()
	if c.IsUniform() {
		wrongExchange, wrongQueue = c.ExchangeName.Check(), c.QueueName.checkQueue(c.Base)
	}
	for _, each := range []struct {
		attribute string
		format    Format
		err       error
	}{{exchangeName, c.ExchangeName, wrongExchange}, {queueName, c.QueueName, wrongQueue}} {
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
	objects := a.objectsAround(deliveryExchange, given.origin("name", given.Name))
	for level := range c.Levels {
		objects = append(objects, object{exchangeName, "exchange", c.Exchange(level)})
		for _, q := range c.DelayQueues(level) {
			objects = append(objects, object{queueName, "queue", q.Name})
		}
	}
	a.checkNames(errs, objects)
}
