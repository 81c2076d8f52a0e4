package recognize

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// reading is one way to read the names behind an entry: units or a number of levels, and how exchanges and queues are
// called. In the uniform form, its base is the highest one in which queues can be called so.
type reading struct {
	delay.Cascade
	objects *objects
	// hops are those of the levels whose keys were read, from the entry down.
	hops []hop
	// contradiction is what the reading cannot explain.
	contradiction error
	// lowest is the lowest base that has all numbers of the keys, in the uniform form.
	lowest int
	// places are those of the queues that there are at least. Those that show most come first.
	places []place
}

// naming is how queues are called. In the uniform form that is in base 2, or in any other one if the format has a verb
// for the number. It has the highest base in which they can be called so, 2 or 10, and none with units.
type naming struct {
	format      delay.Format
	highestBase int
}

// readings are all ways to read the names behind an entry that most of the bindings agree with.
func (o *objects) readings(entry string) (all []*reading, err error) {
	for _, named := range layouts(entry) {
		all = append(all, o.walk(named).withQueues()...)
	}
	if len(all) == 0 {
		return nil, notThis("its name has neither the number of a level nor units")
	}
	all = topRanked(all, (*reading).fit)
	// Of those that are equally wrong, the one with most levels has most to say of the keys.
	most := topRanked(all, func(r *reading) int { return r.Levels })[0]
	return all, most.contradiction
}

// walk follows the keys from the entry down to the delivery exchange. Where they are damaged, the next exchange is
// looked for by its name. It also goes on until a key leads to a queue: a level of units may have none.
func (o *objects) walk(named delay.Cascade) *reading {
	r := &reading{Cascade: named, objects: o}
	next := r.Levels - 1
	for level := next; level >= 0 && r.contradiction == nil; level-- {
		if level <= next || !slices.ContainsFunc(r.hops, func(h hop) bool { return h.Number > 0 }) {
			next = min(next, r.follow(level))
		}
	}
	return r
}

// follow reads the keys of a level, and returns the level that is next. They have to skip as many words as there are
// levels above.
func (r *reading) follow(level int) (next int) {
	name := r.Exchange(level)
	hops, above := r.objects.hops(name)
	if len(hops) > 0 && above != r.Levels-1-level {
		r.contradict("exchange %q would be %d levels below it, but its keys skip %s", name, r.Levels-1-level,
			plaintext.Count(above, "word"))
		return level
	}
	next = level
	astray, others := "", 0
	for _, h := range hops {
		h.from = level
		r.hops = append(r.hops, h)
		switch to := h.to(); {
		case !hasWords(r.Cascade, h) || h.Number > 0 && to.level < 0:
			others++
		case h.Number > 0:
		case isOwn(r.Cascade, h):
			next = min(next, to.level)
		default:
			astray = h.Destination
		}
	}
	switch {
	case len(hops) > 0 && others == len(hops):
		r.contradictKeys()
		r.contradict("its keys are not those of an entry of %d levels, as its name has it", r.Levels)
	case astray != "" && next == level:
		r.contradict("exchange %q is not called like the one below it, %q", name, astray)
	}
	return min(next, level-1)
}

// followAll reads the keys of the levels that the walk has passed by.
func (r *reading) followAll() {
	for level := range r.Levels {
		if !slices.ContainsFunc(r.hops, func(h hop) bool { return h.from == level }) {
			r.follow(level)
		}
	}
}

// contradict notes the first reason why there is no such cascade.
func (r *reading) contradict(format string, args ...any) {
	if r.contradiction == nil {
		r.contradiction = notThisf(format, args...)
	}
}

// contradictKeys notes a key that asks for more words than the cascade has levels, or for fewer.
func (r *reading) contradictKeys() {
	for _, h := range r.hops {
		if !hasWords(r.Cascade, h) {
			r.contradict("the key %q from exchange %q to %q asks for %s behind the digits, where a cascade "+
				"has none or, at its entry, %d"+seeGuide+"a cascade beside it", h.Key(),
				h.Source, h.Destination, plaintext.Count(h.Below, "word"), r.Levels+1-h.Words())
		}
	}
}

// withQueues are the readings with each of the names that most queues can have.
func (r *reading) withQueues() (all []*reading) {
	var namings []naming
	fitting := map[naming]int{}
	for _, h := range r.hops {
		if h.Number == 0 || h.to().level < 0 || !hasWords(r.Cascade, h) {
			continue
		}
		for _, n := range r.namingsOf(h.Destination, h.to()) {
			if fitting[n]++; fitting[n] == 1 {
				namings = append(namings, n)
			}
		}
	}
	for _, n := range topRanked(namings, func(n naming) int { return fitting[n] }) {
		with := *r
		with.QueueName, with.Base, with.hops = n.format, n.highestBase, slices.Clone(r.hops)
		with.findPlaces()
		all = append(all, &with)
	}
	if len(all) == 0 {
		r.contradictKeys()
		r.contradict("no binding leads to a queue with the number of its level in its name, or with its delay")
		return []*reading{r}
	}
	return all
}

// namingsOf are those by which a queue can have the name, the likeliest first.
func (r *reading) namingsOf(name string, at place) (all []naming) {
	if !r.IsUniform() {
		for _, f := range textFormats(name, delay.DurationText(r.wait(at))) {
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

// findPlaces finds the queues to which the keys lead, those of the top level and of the lowest ones first. In the
// uniform form, each level has a queue for each of the numbers. Every cascade has the lowest one.
func (r *reading) findPlaces() {
	r.places, r.lowest = []place{{0, 1}}, min(r.Base, delay.DefaultBase+1)
	for _, h := range r.hops {
		if h.Number > 0 && isOwn(r.Cascade, h) {
			r.places = append(r.places, h.to())
			r.MaxDelay = max(r.MaxDelay, r.wait(h.to()))
			r.lowest = max(r.lowest, h.Number+1)
		}
	}
	for level := range r.Levels {
		for number := 1; number < r.lowest && r.IsUniform(); number++ {
			r.places = append(r.places, place{level, number})
		}
	}
	order := func(at place) int {
		switch {
		case at.level == r.Levels-1:
			return -1
		// In another base than 2, the lowest queue comes next: it shows the resolution whatever the base is.
		case at.level < 2 && r.Base == delay.DefaultBase:
			return 1 - at.level // that of level 1 shows how the lowest exchange is called
		}
		return at.level
	}
	slices.SortFunc(r.places, func(x, y place) int {
		return cmp.Or(cmp.Compare(x.number, y.number), cmp.Compare(order(x), order(y)))
	})
	r.places = slices.Compact(r.places)
}

// wait is how long a message waits at a place, with units.
func (r *reading) wait(at place) time.Duration {
	if r.IsUniform() {
		return 0
	}
	return delay.Scale{Units: r.Units}.TTL(at.level, at.number)
}

// hasWords tells whether the key of a hop is for so many levels, or for any number.
func hasWords(c delay.Cascade, h hop) bool { return h.Below == 0 || h.Words()+h.Below == c.Levels+1 }

// isOwn tells whether a hop leads to what the cascade has there. Without a delivery exchange, that is anything.
func isOwn(c delay.Cascade, h hop) bool {
	switch to := h.to(); {
	case !hasWords(c, h) || to.level < -1:
		return false
	case h.Number > 0:
		return to.level >= 0 && (!c.IsUniform() || h.Number < c.Base) &&
			c.DelayQueueName(to.level, h.Number) == h.Destination
	case to.level == -1 && c.DeliveryExchange == "":
		return true
	default:
		return c.Exchange(to.level) == h.Destination
	}
}

// fit is how many of the bindings are those of the cascade.
func (r *reading) fit() (fit int) {
	for _, h := range r.hops {
		if isOwn(r.Cascade, h) {
			fit += 2
		}
	}
	if r.contradiction == nil {
		fit++
	}
	return fit
}

// highest is the highest level that shows something.
func (r *reading) highest() int { return r.hops[0].from }

// ends are the exchanges to which the keys and the queues of the lowest level lead. The levels themselves are no end.
func (r *reading) ends(queues []place) (ends []string) {
	for _, h := range r.hops {
		if h.to() == (place{-1, 0}) && hasWords(r.Cascade, h) {
			ends = append(ends, h.Destination)
		}
	}
	for _, at := range queues {
		if at.level == 0 {
			ends = append(ends, r.queue(at).DeadLetterExchange())
		}
	}
	levels := exchangesOf(r.Cascade)
	ends = slices.DeleteFunc(ends, func(end string) bool { return end == "" || slices.Contains(levels, end) })
	slices.Sort(ends)
	if len(ends) == 0 {
		return []string{""}
	}
	return slices.Compact(ends)
}

// queuesLike tells whether queues are called like exchanges with the format.
func (r *reading) queuesLike(exchange delay.Format) bool {
	return exchange == r.QueueName ||
		r.Base != delay.DefaultBase && strings.HasPrefix(string(r.QueueName), string(exchange))
}
