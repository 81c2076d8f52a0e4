package recognize

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// candidate is a cascade as far as names show it: units or a number of levels, and how exchanges and queues are called.
// In the uniform form, the base is the highest one in which queues can be called so.
type candidate struct {
	objects *objects
	delay.Cascade
	// hops are those of each level whose keys were read.
	hops [][]hop
	// contradiction is what the candidate cannot explain.
	contradiction error
	// ends counts the exchanges to which the keys and the queues of the lowest level lead.
	ends map[string]int

	// lowest is the lowest base that has all numbers of the keys, in the uniform form.
	lowest int
	// places are those of the queues that there are at least, in the order in which they are read.
	places []place
	claims []claim
	// right is how many queues are like those of some cascade, and wrong how many are not, or missing. Unlike says why.
	right, wrong int
	unlike       error
}

// naming is how queues are called. In the uniform form that is in base 2, or in any other one if the format has a verb
// for the number. It has the highest base in which they can be called so, 2 or 10, and none with units.
type naming struct {
	format      delay.Format
	highestBase int
}

// claim is what queues at some places tell of the whole cascade.
type claim struct {
	shown
	by []place
}

type shown struct {
	base       int
	resolution time.Duration
	queueType  delay.QueueType
	delay.QuorumOptions
	// arguments are the further ones, as canonical JSON.
	arguments string
}

// queue is the name of the queue at a place.
func (c *candidate) queue(at place) string { return c.DelayQueueName(at.level, at.number) }

// ttl is how long a message waits at a place, with units.
func (c *candidate) ttl(at place) time.Duration {
	return delay.Scale{Units: c.Units}.TTL(at.level, at.number)
}

// queuesLike tells whether queues are called like exchanges with the format.
func (c *candidate) queuesLike(exchange delay.Format) bool {
	return exchange == c.QueueName ||
		c.Base != delay.DefaultBase && strings.HasPrefix(string(c.QueueName), string(exchange))
}

// namingsOf are those by which a queue can have the name, the likeliest first.
func (c *candidate) namingsOf(name string, at place) (all []naming) {
	if !c.IsUniform() {
		for _, f := range textFormats(name, delay.DurationText(c.ttl(at))) {
			all = append(all, naming{format: f})
		}
		return all
	}
	for _, f := range exchangeFormats(name, at.level) {
		if at.number < delay.DefaultBase {
			all = append(all, naming{f, delay.DefaultBase})
		}
	}
	for _, f := range queueFormats(name, at) {
		all = append(all, naming{f, delay.MaxBase})
	}
	return all
}

// candidates follow the bindings from the entry down to the delivery exchange. Where they are damaged, the next
// exchange is looked for by its name. There is a candidate for each way to read the names of most queues.
func (o *objects) candidates(named delay.Cascade) (candidates []*candidate) {
	c := candidate{objects: o, Cascade: named, hops: make([][]hop, named.Levels), ends: map[string]int{}}
	waits := false
	for level, next := c.Levels-1, c.Levels-1; level >= 0 && c.contradiction == nil; level-- {
		if level <= next || !waits {
			next = min(next, c.follow(level))
			waits = waits || slices.ContainsFunc(c.hops[level], func(h hop) bool { return h.Number > 0 })
		}
	}
	all, fitting, lowest := c.namings()
	for _, n := range topRanked(all, func(n naming) int { return fitting[n] }) {
		of := c
		of.QueueName, of.Base, of.lowest = n.format, n.highestBase, lowest[n]
		of.hops, of.ends = slices.Clone(c.hops), maps.Clone(c.ends)
		if of.places = of.placesShown(); len(of.places) > delay.MaxQueues {
			of.contradict("by its name it has units of which a cascade takes more than %d queues", delay.MaxQueues)
		}
		candidates = append(candidates, &of)
	}
	if len(all) == 0 {
		c.contradictKeys()
		c.contradict("no binding leads to a queue with the number of its level in its name, or with its delay")
		return []*candidate{&c}
	}
	return candidates
}

// namings are those that fit some queue to which keys lead, how many each of them fits, and the lowest base that has
// the numbers.
func (c *candidate) namings() (all []naming, fitting, lowest map[naming]int) {
	fitting, lowest = map[naming]int{}, map[naming]int{}
	for level, hops := range slices.Backward(c.hops) {
		for _, h := range hops {
			at := place{level - h.Zeros, h.Number}
			if h.Number == 0 || at.level < 0 || !c.hasLevels(h) {
				continue
			}
			for _, n := range c.namingsOf(h.to, at) {
				if fitting[n]++; fitting[n] == 1 {
					all = append(all, n)
				}
				lowest[n] = max(lowest[n], min(n.highestBase, delay.DefaultBase+1), h.Number+1)
			}
		}
	}
	return all, fitting, lowest
}

// contradict notes the first reason why there is no such cascade.
func (c *candidate) contradict(format string, args ...any) {
	if c.contradiction == nil {
		c.contradiction = notThisf(format, args...)
	}
}

// contradictKeys notes a key that asks for more words than the cascade has levels, or for fewer.
func (c *candidate) contradictKeys() {
	for level, hops := range slices.Backward(c.hops) {
		for _, h := range hops {
			if !c.hasLevels(h) {
				c.contradict("the key %q from exchange %q to %q asks for %s behind the digits, where a cascade "+
					"has none or, at its entry, %d"+seeGuide+"a cascade beside it", h.Key(),
					c.Exchange(level), h.to, plaintext.Count(h.Below, "word"), c.Levels+1-h.Words())
			}
		}
	}
}

// follow reads the keys of a level, and returns the level that is next. They have to skip as many words as there are
// levels above.
func (c *candidate) follow(level int) (next int) {
	name := c.Exchange(level)
	hops, above := c.objects.hops(name)
	if len(hops) == 0 {
		return level - 1
	}
	if above != c.Levels-1-level {
		c.contradict("exchange %q would be %d levels below it, but its keys skip %s", name, c.Levels-1-level,
			plaintext.Count(above, "word"))
		return level
	}
	c.hops[level] = hops
	next = level
	astray, others := "", 0
	for _, h := range hops {
		switch to := level - h.Zeros; {
		case !c.hasLevels(h), h.Number > 0 && to < 0:
			others++
		case h.Number > 0:
		case to == -1:
			c.countEnd(h.to)
			next = to
		case to >= 0 && c.Exchange(to) == h.to:
			next = min(next, to)
		default:
			astray = h.to
		}
	}
	switch {
	case others == len(hops):
		c.contradictKeys()
		c.contradict("its keys are not those of an entry of %d levels, as its name has it", c.Levels)
	case astray != "" && next == level:
		c.contradict("exchange %q is not called like the one below it, %q", name, astray)
	}
	return min(next, level-1)
}

// hasLevels tells whether the key of a hop is for so many levels, or for any number.
func (c *candidate) hasLevels(h hop) bool { return h.Below == 0 || h.Words()+h.Below == c.Levels+1 }

// has tells whether there may be a queue at a place.
func (c *candidate) has(at place) bool {
	switch {
	case at.level < 0:
		return false
	case c.IsUniform():
		return at.number < c.Base
	case at.level == c.Levels-1:
		return true
	}
	return c.ttl(at) < c.ttl(place{at.level + 1, 1})
}

// sameQueues tells whether both call all queues alike.
func (c *candidate) sameQueues(other *candidate) bool {
	if c.IsUniform() && other.IsUniform() {
		return other.Base == c.Base && other.QueueName.SameQueues(c.QueueName, c.Base, c.Levels)
	}
	differs := func(at place) bool { return c.queue(at) != other.queue(at) }
	return len(other.places) == len(c.places) && !slices.ContainsFunc(c.places, differs)
}

// placesShown are those of the queues that there are at least. Those that show most come first: the top level, then the
// lowest ones, whose names show padding.
func (c *candidate) placesShown() (places []place) {
	largest := func(int) int { return c.lowest - 1 }
	if !c.IsUniform() {
		largest = delay.Cascade{Units: c.Units, MaxDelay: c.ttl(c.longestBound())}.Scale().LargestNumber
	}
	for number, more := 1, true; more && len(places) <= delay.MaxQueues; number++ {
		more = false
		for i := range c.Levels {
			at := place{(i + c.Levels - 1) % c.Levels, number}
			// In another base than 2, the lowest queue comes first: it shows the resolution whatever the base is.
			if at.level < 2 && c.Levels > 2 && c.Base == delay.DefaultBase {
				at.level = 1 - at.level // that of level 1 shows how the lowest exchange is called
			}
			if number <= largest(at.level) {
				places, more = append(places, at), true
			}
		}
	}
	return places
}

// longestBound is where messages wait longest of all queues to which keys lead, with units.
func (c *candidate) longestBound() (longest place) {
	for level, hops := range c.hops {
		for _, h := range hops {
			at := place{level - h.Zeros, h.Number}
			if h.Number > 0 && c.isOwn(level, h) && (longest.number == 0 || c.ttl(at) > c.ttl(longest)) {
				longest = at
			}
		}
	}
	return longest
}

// isOwn tells whether a hop leads to what the cascade has there.
func (c *candidate) isOwn(level int, h hop) bool {
	switch to := level - h.Zeros; {
	case !c.hasLevels(h) || to < -1:
		return false
	case h.Number > 0:
		at := place{to, h.Number}
		return c.has(at) && c.queue(at) == h.to
	case to == -1:
		return c.end() == h.to
	default:
		return c.Exchange(to) == h.to
	}
}

// fit is how many of the bindings are those of the cascade.
func (c *candidate) fit() int {
	fit := 0
	for level, hops := range c.hops {
		for _, h := range hops {
			if c.isOwn(level, h) {
				fit += 2
			}
		}
	}
	if c.contradiction == nil {
		fit++
	}
	return fit
}

// fitAll is fit with the bindings of all levels.
func (c *candidate) fitAll() int {
	for level := range c.Levels {
		if len(c.hops[level]) == 0 && c.contradiction == nil {
			c.follow(level)
		}
	}
	return c.fit()
}

// highest is the highest level that shows something.
func (c *candidate) highest() int {
	highest := c.Levels - 1
	for highest > 0 && len(c.hops[highest]) == 0 {
		highest--
	}
	return highest
}

// countEnd notes that something of the lowest level leads to an exchange. The levels themselves are no end.
func (c *candidate) countEnd(exchange string) {
	if !c.isLevel(exchange) {
		c.ends[exchange]++
	}
}

// end is the exchange at the end to which more leads than to any other, empty if there is none.
func (c *candidate) end() string {
	ends := topRanked(slices.Collect(maps.Keys(c.ends)), func(name string) int { return c.ends[name] })
	if len(ends) != 1 {
		return ""
	}
	return ends[0]
}

// readEnd finds the delivery exchange. It looks at the lowest exchanges as long as there is a doubt.
func (c *candidate) readEnd() error {
	for level := 0; level < c.Levels-1 && c.end() == "" && c.contradiction == nil; level++ {
		if len(c.hops[level]) == 0 {
			c.follow(level)
		}
	}
	if c.end() == "" {
		if q := c.objects.queue(c.queue(place{0, 1})); hasEnd(q) && q.DeadLetterExchange() == "" {
			c.contradict("queue %q hands messages on through the default exchange, and a cascade has a delivery "+
				"exchange"+seeGuide+"a cascade beside it", q.Name)
		}
		c.contradict("nothing shows its delivery exchange: queue %q and exchange %q do not lead to one and the same",
			c.queue(place{0, 1}), c.Exchange(0))
	}
	return c.contradiction
}

func (c *candidate) isLevel(exchange string) bool {
	return slices.Contains(exchangesOf(c.Cascade), exchange)
}

// topRanked are those of the highest rank, in their order.
func topRanked[T any](all []T, rank func(T) int) (highest []T) {
	for _, each := range all {
		switch {
		case len(highest) == 0 || rank(each) > rank(highest[0]):
			highest = []T{each}
		case rank(each) == rank(highest[0]):
			highest = append(highest, each)
		}
	}
	return highest
}
