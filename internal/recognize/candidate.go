package recognize

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// candidate is a cascade that a reading and one of its queues show, and how much of its expansion is there. Only the
// objects around the cascade are missing, see complete. Base and names are those of the cascade, not of the reading.
type candidate struct {
	delay.Cascade
	*reading
	expanded topology.Topology
	// bindings is how many of those that were read are there as the cascade has them.
	bindings int
	// queues are those that are there, apart from their further arguments.
	queues []place
	// typical is the first queue with the further arguments of most queues, and alike is how many have these.
	typical topology.Queue
	alike   int
}

// likeliest is the candidate of which most objects are there. It reads two queues, and more for as long as there is a
// doubt. If that does not help, it reads the keys of all levels.
func (o *objects) likeliest(entry string) (*candidate, error) {
	readings, err := o.readings(entry)
	if err != nil {
		return nil, err
	}
	most := 0
	for _, r := range readings {
		most = max(most, len(r.places))
	}
	for queues := 2; queues/4 < most; queues *= 4 {
		all := mostThere(readings, queues)
		if len(all) > 0 && all[0].isProven(queues) && all[0].mistakable(all) == nil {
			return all[0], nil
		}
	}
	for _, r := range readings {
		r.followAll()
	}
	all := mostThere(readings, most)
	if len(all) == 0 {
		return nil, readings[0].noQueue()
	}
	// One queue alone may show neither its format nor the base.
	all = topRanked(all, (*candidate).isUsual)
	all = topRanked(all, func(c *candidate) int { return -max(c.Base, delay.DefaultBase) })
	return all[0], all[0].mistakable(all)
}

// mostThere are the candidates of all readings of which most objects are there, as far as so many queues show.
func mostThere(readings []*reading, queues int) (all []*candidate) {
	for _, r := range readings {
		all = append(all, r.candidates(queues)...)
	}
	return topRanked(all, func(c *candidate) int { return c.bindings + len(c.queues) })
}

// candidates are the cascades that the first queues show, with each delivery exchange.
func (r *reading) candidates(queues int) (all []*candidate) {
	places := r.places[:min(queues, len(r.places))]
	ends := r.ends(places)
	for _, at := range places {
		shown, _ := r.shown(at)
		for _, c := range shown {
			for _, c.DeliveryExchange = range ends {
				c.Lookahead, c.StrictKeys = r.keys(c)
				isKnown := func(other *candidate) bool { return reflect.DeepEqual(other.Cascade, c) }
				if !slices.ContainsFunc(all, isKnown) {
					all = append(all, &candidate{Cascade: c, reading: r, typical: r.queue(at)})
				}
			}
		}
	}
	for _, c := range all {
		c.compare(places)
	}
	return all
}

// shown are the cascades that the queue at a place can be one of: one for each base that its TTL fits. Wrong says why
// it is not like that of the place.
func (r *reading) shown(at place) (all []delay.Cascade, wrong string) {
	q, c := r.queue(at), r.Cascade
	to, ttl, highest := q.DeadLetterExchange(), q.TTLMillis(), r.Base
	if r.Levels == 1 {
		highest = r.lowest // in any other base, a single level has the same times
	}
	c.QueueType = delay.QueueType(q.Type())
	if !r.IsUniform() {
		all = append(all, c)
	}
	for c.Base = r.lowest; c.Base <= highest && r.IsUniform(); c.Base++ {
		if steps := at.steps(c.Base); ttl%steps == 0 {
			c.Resolution = time.Duration(ttl/steps) * time.Millisecond
			all = append(all, c)
		}
	}
	switch {
	case ttl < 1 || ttl > delay.MaxTTL.Milliseconds():
		return nil, "it has no valid x-message-ttl"
	case !r.IsUniform() && ttl != r.wait(at).Milliseconds():
		return nil, fmt.Sprintf("its x-message-ttl is %d, and its binding and its name have %d", ttl,
			r.wait(at).Milliseconds())
	case len(all) == 0:
		return nil, fmt.Sprintf("its x-message-ttl of %d is no whole number of milliseconds times %d", ttl,
			at.steps(r.lowest))
	case to == "":
		return nil, "it has no x-dead-letter-exchange"
	case at.level == 0 && slices.Contains(exchangesOf(r.Cascade), to),
		at.level > 0 && to != r.Exchange(at.level-1):
		return nil, fmt.Sprintf("its x-dead-letter-exchange is %q", to)
	case q.Type() != string(delay.Quorum) && q.Type() != string(delay.Classic):
		return nil, fmt.Sprintf("it is a %s queue, and those of a cascade are quorum or classic",
			plaintext.Line(q.Type()))
	}
	return all, ""
}

// queue is the one at a place, as it is there.
func (r *reading) queue(at place) topology.Queue {
	return r.objects.queue(r.DelayQueueName(at.level, at.number))
}

// steps is how many steps of the resolution a message waits there in the base.
func (p place) steps(base int) int64 {
	return delay.Uniform{Base: base}.Steps(p.level, p.number)
}

// noQueue says why no queue shows a cascade.
func (r *reading) noQueue() error {
	missing := notThis("no key leads to one of its queues")
	for _, at := range slices.Backward(r.places) {
		name := r.DelayQueueName(at.level, at.number)
		if _, wrong := r.shown(at); r.queue(at).Name != "" {
			return notThisf("queue %q is not like that of level %d of %d: %s", name, at.level, r.Levels, wrong)
		}
		missing = notThisf("there is no queue such as %q", name)
	}
	return missing
}

// keys are lookahead and strictness as the highest level shows them that shows some. An entry that shows nothing is
// taken to be strict.
func (r *reading) keys(c delay.Cascade) (lookahead int, strict bool) {
	own, strictKeys := 0, 0
	highest := r.highest()
	for _, h := range r.hops {
		if h.from == highest && isOwn(c, h) {
			own++
			strictKeys += min(h.Below, 1)
			lookahead = max(lookahead, h.Words())
		}
	}
	if lookahead == highest+1 {
		lookahead = r.Levels
	}
	return lookahead, highest < r.Levels-1 || 2*strictKeys >= own
}

// compare expands the cascade, and counts the objects that are there. The further arguments of its queues are those of
// most of them.
func (c *candidate) compare(places []place) {
	c.expanded = c.Expand()
	for _, h := range c.hops {
		if c.expanded.Bindings.Has(h.Binding) {
			c.bindings++
		}
	}
	var queues []topology.Queue
	for _, at := range places {
		if q := c.queue(at); isLike(q, c.expanded.Queues[q.Name]) {
			c.queues, queues = append(c.queues, at), append(queues, q)
		}
	}
	if len(queues) > 0 {
		c.typical, c.alike = mostAlike(queues, "x-queue-type", "x-message-ttl", "x-dead-letter-exchange")
	}
	c.QuorumOptions, c.QueueArguments = delay.QuorumOptionsOf(c.typical), delay.QueueArgumentsOf(c.typical)
}

// mostAlike is the first of the queues with the arguments of most of them, apart from some, and how many have these.
func mostAlike(queues []topology.Queue, apart ...string) (first topology.Queue, alike int) {
	shows := func(q topology.Queue) string {
		arguments := maps.Clone(q.Arguments)
		maps.DeleteFunc(arguments, func(name string, _ any) bool { return slices.Contains(apart, name) })
		return arguments.JSON()
	}
	like := map[string]int{}
	for _, q := range queues {
		like[shows(q)]++
	}
	first = topRanked(queues, func(q topology.Queue) int { return like[shows(q)] })[0]
	return first, like[shows(first)]
}

// isLike tells whether both queues are the same, apart from further arguments.
func isLike(q, other topology.Queue) bool {
	return q.Name != "" && q.Name == other.Name && q.Type() == other.Type() && q.TTLMillis() == other.TTLMillis() &&
		q.DeadLetterExchange() == other.DeadLetterExchange()
}

// isUsual tells whether queues are called like exchanges.
func (c *candidate) isUsual() int {
	if c.queuesLike(c.ExchangeName) {
		return 1
	}
	return 0
}

// isProven tells whether most queues agree, of those that were read.
func (c *candidate) isProven(queues int) bool {
	return c.alike > 1 && 2*c.alike > min(queues, len(c.places)) && c.DeliveryExchange != ""
}

// mistakable says in what another one of these differs, of which as much is there. Further arguments do not count.
func (c *candidate) mistakable(all []*candidate) error {
	anyQueue := func(_, _ topology.Queue) bool { return true }
	for _, other := range all {
		switch {
		case maps.Equal(other.expanded.Bindings, c.expanded.Bindings) &&
			maps.EqualFunc(other.expanded.Queues, c.expanded.Queues, isLike):
		case other.Levels != c.Levels:
			return notThis("no key shows how many levels it has")
		case !slices.Equal(exchangesOf(other.Cascade), exchangesOf(c.Cascade)):
			return notThisf("its exchanges can be called %q or %q, and nothing shows which", c.ExchangeName,
				other.ExchangeName)
		case !maps.EqualFunc(other.expanded.Queues, c.expanded.Queues, anyQueue):
			return notThisf("its queues can be called %q or %q, and nothing shows which", c.QueueName, other.QueueName)
		case other.Resolution != c.Resolution:
			return notThisf("its queues do not agree on the x-message-ttl of the lowest level, which can be %s or %s",
				delay.DurationText(c.Resolution), delay.DurationText(other.Resolution))
		case other.QueueType != c.QueueType:
			return notThisf("its queues do not agree on their type: queue %q is of type %s, and queue %q of type %s",
				c.typical.Name, c.QueueType, other.typical.Name, other.QueueType)
		case other.DeliveryExchange != c.DeliveryExchange:
			return c.noEnd()
		}
	}
	return nil
}

// noEnd says that nothing shows the delivery exchange.
func (c *candidate) noEnd() error {
	lowest := c.DelayQueueName(0, 1)
	if q := c.objects.queue(lowest); hasEnd(q) && q.DeadLetterExchange() == "" {
		return notThisf("queue %q hands messages on through the default exchange, and a cascade has a delivery "+
			"exchange"+seeGuide+"a cascade beside it", q.Name)
	}
	return notThisf("nothing shows its delivery exchange: queue %q and exchange %q do not lead to one and the same",
		lowest, c.Exchange(0))
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
