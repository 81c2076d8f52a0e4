package recognize

import (
	"regexp"
	"slices"
	"sync"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

const errNoHops notThis = "it has no binding like that of a cascade's top level, with a key such as \"1.#\" or " +
	"\"0.1.*.*.#\""

// cascade is the one whose entry the exchange is, as its own bindings show.
func (o *objects) cascade(entry string) (delay.Cascade, error) {
	if o.cascades[entry] == nil {
		o.cascades[entry] = sync.OnceValues(func() (delay.Cascade, error) { return o.readCascade(entry) })
	}
	return o.cascades[entry]()
}

func (o *objects) readCascade(entry string) (delay.Cascade, error) {
	if err := o.checkEntry(entry); err != nil {
		return delay.Cascade{}, err
	}
	hops, above := o.hops(entry)
	switch {
	case above > 0:
		return delay.Cascade{}, notThisf("the keys of its bindings skip %s, so it is a level in the middle of a "+
			"cascade", plaintext.Count(above, "word"))
	case len(hops) == 0:
		return delay.Cascade{}, errNoHops
	}
	c, err := o.likeliest(entry)
	if err != nil {
		return delay.Cascade{}, err
	}
	return c.cascade()
}

// cascadeBelow is the one whose entry is missing, or shows nothing, as long as the exchange below proves it. Otherwise
// the error is the given one.
func (o *objects) cascadeBelow(entry string, missing error) (delay.Cascade, error) {
	if c, err := o.likeliest(entry); err == nil && c.provesEntry() {
		if found, err := c.cascade(); err == nil {
			return found, nil
		}
	}
	return delay.Cascade{}, missing
}

// provesEntry tells whether the highest exchange that shows something can be below no other entry. Two queues agree,
// all names have one format, and the exchange is a level of no other cascade.
func (c *candidate) provesEntry() bool {
	top := c.Exchange(c.Levels - 1)
	level := c.highest()
	below := c.Exchange(level)
	if !c.isAgreed() || c.objects.entryAbove(below) != "" {
		return false
	}
	if !c.IsUniform() {
		return c.objects.exchange(top).Name != "" || c.reach() >= c.Units[0]
	}
	formats := slices.DeleteFunc(exchangeFormats(below, level), func(f delay.Format) bool {
		return slices.ContainsFunc(c.hops, func(h hop) bool { return f.Name(h.from) != h.Source })
	})
	if at := slices.IndexFunc(formats, c.queuesLike); at >= 0 {
		formats = formats[at : at+1] // what all names have in common
	}
	other := func(f delay.Format) bool { return f.Name(c.Levels-1) != top }
	return !slices.ContainsFunc(formats, other)
}

// cascade is what the candidate has turned out to be. A strict key proves the number of levels.
func (c *candidate) cascade() (delay.Cascade, error) {
	end := c.DeliveryExchange
	isStrict := func(h hop) bool { return h.Below > 0 && isOwn(c.Cascade, h) }
	reachesEnd := func(h hop) bool { return h.Number == 0 && h.Destination == end }
	strict := slices.ContainsFunc(c.hops, isStrict)
	switch {
	case end == "":
		return delay.Cascade{}, c.noEnd()
	case c.Lookahead == 0:
		return delay.Cascade{}, notThis("none of its bindings leads to what else there is of a cascade")
	case !strict && c.continues():
		return delay.Cascade{}, notThisf("it goes on below exchange %q with exchange %q", c.Exchange(0), end)
	case c.Levels == 1 && c.continues() && c.furtherKey() != "":
		return delay.Cascade{}, notThisf("its keys are those of one level, and exchange %q, to which they lead, "+
			"goes on to a delay queue with key %q"+seeGuide+"a cascade beside it", end, c.furtherKey())
	case !strict && !slices.ContainsFunc(c.hops, reachesEnd) && !c.provesLevels():
		return delay.Cascade{}, notThis("no key shows how many levels it has")
	}
	return c.complete()
}

// isAgreed tells whether two queues agree, or all there is to know.
func (c *candidate) isAgreed() bool { return len(c.queues) > 1 || len(c.places) == 1 }

// provesLevels tells whether two queues agree, one of which is of the lowest level.
func (c *candidate) provesLevels() bool {
	isLowest := func(at place) bool { return at.level == 0 }
	return c.Levels > 1 && c.isAgreed() && slices.ContainsFunc(c.queues, isLowest)
}

// furtherKey is the key by which the end of a single level leads on to a further delay queue, empty if there is none.
func (c *candidate) furtherKey() string {
	return c.objects.keyToDelay(c.DeliveryExchange, furtherDigit.MatchString)
}

// furtherDigit begins the key of a second level.
var furtherDigit = regexp.MustCompile(`^\*\.[0-9]+\.`)

// continues tells whether the end is called like a level below the lowest. Then these are the upper levels of a longer
// cascade.
func (c *candidate) continues() bool {
	if !c.IsUniform() {
		return false // the name of an exchange has the units of all that are below it
	}
	for level := 1; level < delay.MaxLevels; level++ {
		like := func(f delay.Format) bool { return f.Name(level-1) == c.DeliveryExchange }
		if slices.ContainsFunc(exchangeFormats(c.Exchange(0), level), like) {
			return true
		}
	}
	return false
}

// entryAbove is the entry of the cascade that the keys of an exchange show it to be a level of. It is empty if there is
// none.
func (o *objects) entryAbove(name string) string {
	hops, above := o.hops(name)
	if len(hops) == 0 {
		return ""
	}
	for _, lower := range layouts(name) {
		for _, longer := range extended(lower, above) {
			entry := longer.Exchange(longer.Levels - 1)
			c, err := o.cascade(entry)
			if level := c.Levels - 1 - above; err == nil && level >= 0 && c.Exchange(level) == name {
				return entry
			}
		}
	}
	return ""
}
