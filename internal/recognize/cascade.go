package recognize

import (
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

const errNoHops notThis = "it has no binding like that of a cascade's top level, with a key such as \"1.#\" or " +
	"\"0.1.*.*.#\""

// cascade is the one whose entry the exchange is, as its own bindings show.
func (o *objects) cascade(entry string) (delay.Cascade, error) {
	if err := o.checkEntry(entry); err != nil {
		return delay.Cascade{}, err
	}
	hops, above := o.hops(entry)
	switch {
	case above > 0:
		return delay.Cascade{}, notThisf("the keys of its bindings skip %d digit(s), so it is a level in the middle "+
			"of a cascade", above)
	case len(hops) == 0:
		return delay.Cascade{}, errNoHops
	}
	return o.firstOf(entry, func(*candidate) bool { return true })
}

// firstOf is the first cascade that the objects agree with, and that is accepted, by all ways to read the name of its
// entry. Those with the most levels come first. The error is that of the first.
func (o *objects) firstOf(entry string, accept func(*candidate) bool) (found delay.Cascade, unlike error) {
	for levels := delay.MaxLevels; levels > 0; levels-- {
		for _, format := range exchangeFormats(entry, levels-1) {
			c := &candidate{objects: o, levels: levels, exchanges: format}
			found, err := c.read()
			if err == nil && accept(c) {
				return found, nil
			}
			if unlike == nil {
				unlike = err
			}
		}
	}
	if unlike == nil {
		unlike = notThis("its name has no number of a level")
	}
	return delay.Cascade{}, unlike
}

// read is the cascade, if the objects agree with the candidate.
func (c *candidate) read() (delay.Cascade, error) {
	c.waits, c.ends, c.highest = map[place][]string{}, map[string]int{}, -1
	c.seen, c.followed = map[int]bool{}, map[int]bool{}
	for _, step := range []func() error{c.walk, c.readQueues, c.settle} {
		if err := step(); err != nil {
			return delay.Cascade{}, err
		}
	}
	lookahead, strict, err := c.readKeys()
	if err != nil {
		return delay.Cascade{}, err
	}
	return c.complete(lookahead, strict)
}

// settle finds the delivery exchange, and makes sure that no other format fits. It looks at the lowest exchanges as
// long as there is a doubt.
func (c *candidate) settle() error {
	for level := 0; level < c.levels-1 && (c.rival() != "" || len(c.likeliestEnds()) != 1); level++ {
		if _, err := c.follow(level); err != nil {
			return err
		}
	}
	if rival := c.rival(); rival != "" {
		return notThisf("its exchanges can be called %q or %q, and nothing shows which", c.exchanges, rival)
	}
	ends := c.likeliestEnds()
	if len(ends) != 1 {
		return notThisf("nothing shows its delivery exchange: queue %q and exchange %q do not lead to one and the same",
			c.queues.name(place{0, 1}), c.exchanges.Name(0))
	}
	c.delivery = ends[0]
	return nil
}

// likeliestEnds are the exchanges at the end to which as many keys and queues lead as to no other.
func (c *candidate) likeliestEnds() []string {
	count := maps.Clone(c.deadLetters)
	for name, n := range c.ends {
		if !c.isLevel(name) {
			count[name] += n
		}
	}
	most := slices.Max(append(slices.Collect(maps.Values(count)), 0))
	maps.DeleteFunc(count, func(_ string, n int) bool { return n < most })
	return slices.Collect(maps.Keys(count))
}

// readKeys reads lookahead and strictness off the hops of the highest level that shows some, and makes sure of the
// number of levels. A strict key proves how many there are. An entry that shows nothing is taken to be strict.
func (c *candidate) readKeys() (lookahead int, strict bool, err error) {
	own, tails := 0, 0
	for _, h := range c.hops {
		if c.isOwn(h) {
			own++
			tails += min(h.Below, 1)
			lookahead = max(lookahead, h.Digits())
		}
	}
	if lookahead == c.highest+1 {
		lookahead = c.levels
	}
	strict = c.highest < c.levels-1 || 2*tails >= own
	switch {
	case own == 0:
		err = notThis("none of its bindings leads to what else there is of a cascade")
	case strict && tails > 0:
	case c.continues():
		err = notThisf("it goes on below exchange %q with exchange %q", c.exchanges.Name(0), c.delivery)
	case c.ends[c.delivery] == 0 && !c.toLowest:
		err = notThis("no key shows how many levels it has")
	}
	return lookahead, strict, err
}

// isOwn tells whether a hop of the highest level leads to what the cascade has there.
func (c *candidate) isOwn(h hop) bool {
	switch to := c.highest - h.Zeros; {
	case h.Digit > 0:
		return to >= 0 && h.Digit < c.agreed.base && c.queues.name(place{to, h.Digit}) == h.to
	case to == -1:
		return c.delivery == h.to
	default:
		return to >= 0 && c.exchanges.Name(to) == h.to
	}
}

// continues tells whether the delivery exchange is called like the level below the lowest. Then these are the upper
// levels of a longer cascade.
func (c *candidate) continues() bool {
	for level := 1; level < delay.MaxLevels; level++ {
		like := func(f delay.Format) bool { return f.Name(level-1) == c.delivery }
		if slices.ContainsFunc(exchangeFormats(c.exchanges.Name(0), level), like) {
			return true
		}
	}
	return false
}
