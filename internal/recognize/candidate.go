package recognize

import (
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// candidate is a cascade of so many levels whose exchanges have names of the format, as far as the objects agree.
type candidate struct {
	objects   *objects
	levels    int
	exchanges delay.Format
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

// place is where a message waits that has the digit at the level.
type place struct{ level, digit int }

// naming is how queues are called in base 2 or, where the format has a verb for the digit, in one from the lowest on.
type naming struct {
	format       delay.Format
	lowest, base int
}

const anyBase = delay.MaxBase

func (n naming) name(at place) string { return n.format.Queue(n.base, at.level, at.digit) }

// sample is a queue in which a message with the digit waits at the level.
type sample struct {
	place
	queue topology.Queue
}

// shown is what a sample tells of the whole cascade.
type shown struct {
	base       int
	resolution time.Duration
	queueType  delay.QueueType
	delay.QuorumOptions
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

// rival is another format that gives the same names to the entry and all that is seen, but not to the rest.
func (c *candidate) rival() delay.Format {
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

func (c *candidate) isLevel(exchange string) bool {
	for level := range c.levels {
		if c.exchanges.Name(level) == exchange {
			return true
		}
	}
	return false
}
