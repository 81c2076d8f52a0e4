package recognize

import (
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const errNoHops notThis = `it has no binding like that of a cascade's top level, with a key such as "1.#" or "0.1.*.*.#"`

// cascade is the one whose entry the exchange is, as its own bindings show.
func (o *objects) cascade(entry string) (cascade.Cascade, error) {
	if err := o.checkEntry(entry); err != nil {
		return cascade.Cascade{}, err
	}
	hops, above := o.hops(entry)
	switch {
	case above > 0:
		return cascade.Cascade{}, notThisf("the keys of its bindings skip %d digit(s), so it is a level in the middle "+
			"of a cascade", above)
	case len(hops) == 0:
		return cascade.Cascade{}, errNoHops
	}
	return o.firstOf(entry, func(*candidate) bool { return true })
}

// firstOf is the first cascade that the objects agree with, and that is accepted, by all ways to read the name of its
// entry. Those with the most levels come first. The error is that of the first.
func (o *objects) firstOf(entry string, accept func(*candidate) bool) (found cascade.Cascade, unlike error) {
	for levels := cascade.MaxLevels; levels > 0; levels-- {
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
	return cascade.Cascade{}, unlike
}

// candidate is a cascade of so many levels whose exchanges have names of the format, as far as the objects agree.
type candidate struct {
	objects   *objects
	levels    int
	exchanges cascade.Format
	// seen are the levels to whose exchanges keys or queues lead. The keys of those that are followed were read.
	seen, followed map[int]bool
	// hops are those of the highest level that shows some, which is -1 for none.
	hops    []hop
	highest int
	// waits are the names of the queues to which keys lead, by what the keys say.
	waits map[place][]string
	// ends counts where the keys that look at the last digit lead to, and deadLetters where the lowest queues do.
	ends, deadLetters map[string]int
	delivery          string

	queues  naming
	samples []sample
	// agreed is what two of the samples agree on, one of them perhaps of the lowest level, or all there is to know.
	agreed           shown
	first            topology.Queue
	proven, toLowest bool
}

// read is the cascade, if the objects agree with the candidate.
func (c *candidate) read() (cascade.Cascade, error) {
	c.waits, c.ends, c.highest = map[place][]string{}, map[string]int{}, -1
	c.seen, c.followed = map[int]bool{}, map[int]bool{}
	for _, step := range []func() error{c.walk, c.readQueues, c.settle} {
		if err := step(); err != nil {
			return cascade.Cascade{}, err
		}
	}
	lookahead, strict, err := c.readKeys()
	if err != nil {
		return cascade.Cascade{}, err
	}
	return c.complete(lookahead, strict)
}

// walk follows the bindings from the entry down to the delivery exchange. Where they are damaged, and as long as they
// lead to no queue, it looks for the next exchange by its name.
func (c *candidate) walk() error {
	next := c.levels - 1
	for level := next; level >= 0; level-- {
		if level > next && len(c.waits) > 0 {
			continue
		}
		below, err := c.follow(level)
		if err != nil {
			return err
		}
		next = min(next, below)
	}
	return nil
}

// follow notes where the keys of a level lead to, and returns the level that is next. They have to skip as many digits
// as there are levels above.
func (c *candidate) follow(level int) (next int, err error) {
	name := c.exchanges.Name(level)
	hops, above := c.objects.hops(name)
	switch {
	case c.followed[level], len(hops) == 0:
		return level - 1, nil
	case above != c.levels-1-level:
		return 0, notThisf("exchange %q would be %d levels below it, but its keys skip %d digit(s)", name,
			c.levels-1-level, above)
	case c.highest < 0:
		c.highest, c.hops = level, hops
	}
	c.followed[level], c.seen[level] = true, true
	next = level
	astray, others := "", 0
	for _, h := range hops {
		switch to := level - h.Zeros; {
		case h.Below > 0 && h.Digits()+h.Below != c.levels+1, h.Digit > 0 && to < 0:
			others++
		case h.Digit > 0:
			at := place{to, h.Digit}
			c.waits[at] = append(slices.DeleteFunc(c.waits[at], func(name string) bool { return name == h.to }), h.to)
		case to == -1:
			c.ends[h.to]++
			next = to
		case to >= 0 && c.exchanges.Name(to) == h.to:
			c.seen[to] = true
			next = min(next, to)
		default:
			astray = h.to
		}
	}
	switch {
	case others > 0 && others == len(hops):
		return 0, notThisf("its keys are not those of an entry of %d levels, as its name has it", c.levels)
	case astray != "" && next == level:
		return 0, notThisf("exchange %q is not called like the one below it, %q", name, astray)
	}
	return min(next, level-1), nil
}

// settle finds the delivery exchange, and makes sure that no other format fits. It looks at the lowest exchanges as long
// as there is a doubt.
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

// rival is another format that gives the same names to the entry and all that is seen, but not to the rest.
func (c *candidate) rival() cascade.Format {
	for _, other := range exchangeFormats(c.exchanges.Name(c.levels-1), c.levels-1) {
		same := !other.Same(c.exchanges, c.levels)
		for level := range c.seen {
			same = same && other.Name(level) == c.exchanges.Name(level)
		}
		if same {
			return other
		}
	}
	return ""
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

func (c *candidate) isLevel(exchange string) bool {
	for level := range c.levels {
		if c.exchanges.Name(level) == exchange {
			return true
		}
	}
	return false
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
	for level := 1; level < cascade.MaxLevels; level++ {
		like := func(f cascade.Format) bool { return f.Name(level-1) == c.delivery }
		if slices.ContainsFunc(exchangeFormats(c.exchanges.Name(0), level), like) {
			return true
		}
	}
	return false
}
