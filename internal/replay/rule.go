// Package replay publishes again the messages that a cascade or ladder has parked. A Rule comes in, and a Report of
// their fates goes out. Call OfCascade or OfLadder for a Rule, and Run to follow it.
//
// A message is acknowledged only after RabbitMQ has confirmed its copy: so none is lost, however a run ends. Read
// rule.go first, which is pure, then loop.go.
package replay

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Delay says what becomes of a message whose delay has not begun.
type Delay string

// What becomes of it.
const (
	// Keep publishes it to the entry exchange: it waits for all of its delay, from now on.
	Keep Delay = "keep"
	// Skip publishes it to the delivery exchange: it arrives at once.
	Skip Delay = "skip"
)

// Reason says why a message stays parked.
type Reason string

// The reasons of a Rule.
const (
	Malformed   Reason = "malformed key"
	Foreign     Reason = "exchange of another owner"
	Unproven    Reason = "delay left not proved"
	Internal    Reason = "internal exchange"
	FurtherKeys Reason = "further keys"
	Waited      Reason = "waited elsewhere"
)

// Message is what a Rule looks at.
type Message struct {
	// Exchange is where it was published or dead-lettered last. An exchange that is bound to that one, and an alternate
	// exchange, do not change it (3.10.8, 4.0.5, 4.3.6).
	Exchange, Key string
	// Deaths are the queues that it has left, the last one first.
	Deaths []Death
	// HasFurtherKeys is set for a header CC. RabbitMQ then makes a copy for each way that one of the keys takes.
	HasFurtherKeys bool
}

// Death is an entry of the header x-death.
type Death struct {
	Queue, Reason string
	// Exchange is where the message was published or dead-lettered before it came into the queue.
	Exchange string
}

// expired is the reason of a message whose time in a queue is over.
const expired = "expired"

// Verdict says where a message goes on, or why it stays.
type Verdict struct {
	Exchange, Key string
	// Begins is set for a message that goes to the entry exchange.
	Begins bool
	// Stays is empty for a message that goes on.
	Stays Reason
}

// Rule decides on each message of a queue.
type Rule struct {
	// Queue is that of unroutable messages.
	Queue string
	// Topology is what the cascade or ladder consists of.
	Topology topology.Topology
	delay    Delay
	// atEnd is the key with which a message leaves, empty for its own.
	atEnd string
	// readKey tells whether a key is right at the entry, and whether it asks for no delay.
	readKey func(key string) (zero, right bool)
	// within judges a message that is neither at the entry nor at the delivery exchange.
	within func(Message) Verdict
}

// OfCascade is the rule of a cascade that parks.
func OfCascade(c delay.Cascade, d Delay) Rule {
	scale, levels := c.Scale(), map[string]int{}
	for level := range c.Levels {
		levels[c.Exchange(level)] = level
	}
	r := Rule{Topology: c.Expand(), delay: d}
	r.Queue = r.Topology.Parking()
	r.readKey = func(key string) (zero, right bool) {
		wait, _, err := scale.ParseRoutingKey(key)
		return wait == 0, err == nil
	}
	r.within = func(m Message) Verdict {
		at, isLevel := levels[m.Exchange]
		if !isLevel {
			return Verdict{Stays: Foreign}
		}
		if _, right := r.readKey(m.Key); !right {
			return Verdict{Stays: Malformed}
		}
		w := way{c, levels, strings.SplitN(m.Key, ".", c.Levels+1)}
		switch isOver := w.zeros(0, at); {
		case !w.leadsTo(at, m.Deaths):
			return Verdict{Stays: Unproven}
		case isOver:
			return r.toEnd(m.Key)
		case c.InternalLevels:
			return Verdict{Stays: Internal}
		}
		return Verdict{Exchange: m.Exchange, Key: m.Key}
	}
	return r
}

// OfLadder is the rule of a ladder that parks.
func OfLadder(l delay.Ladder, d Delay) Rule {
	r := Rule{Topology: l.Expand(), delay: d, atEnd: l.FixedKey()}
	r.Queue = r.Topology.Parking()
	rungs := slices.Collect(maps.Values(l.Keys()))
	r.readKey = func(key string) (zero, right bool) {
		words := topology.ParseTopicKey(key)
		return false, slices.ContainsFunc(rungs, func(rung string) bool {
			return rung == key || l.EntryExchangeType == delay.Topic && topology.ParseTopicKey(rung).Matches(words)
		})
	}
	r.within = func(Message) Verdict { return Verdict{Stays: Foreign} }
	return r
}

// Judge decides on a message. Its exchange says from where on it has found no way.
func (r Rule) Judge(m Message) Verdict {
	switch {
	case m.HasFurtherKeys:
		return Verdict{Stays: FurtherKeys}
	case m.Exchange != "" && m.Exchange == r.Topology.Delivery:
		return Verdict{Exchange: m.Exchange, Key: m.Key}
	case m.Exchange != r.Topology.Entry:
		return r.within(m)
	case hasWaited(m.Deaths):
		return Verdict{Stays: Waited}
	}
	zero, right := r.readKey(m.Key)
	switch {
	case !right:
		return Verdict{Stays: Malformed}
	case zero || r.delay == Skip:
		return r.toEnd(m.Key)
	}
	return Verdict{Exchange: m.Exchange, Key: m.Key, Begins: true}
}

// hasWaited tells whether a queue has delayed a message before it came to the entry. None of the cascade or ladder
// leads there. That of a larger cascade did, if this exchange was a level of it.
func hasWaited(deaths []Death) bool { return len(deaths) > 0 && deaths[0].Reason == expired }

func (r Rule) toEnd(key string) Verdict {
	return Verdict{Exchange: r.Topology.Delivery, Key: cmp.Or(r.atEnd, key)}
}

// way is the way of a message through a cascade, as the words of its key say it.
type way struct {
	delay.Cascade
	levels map[string]int // by exchange
	words  []string
}

// number is the word of a level.
func (w way) number(level int) int {
	number, _ := strconv.Atoi(w.words[w.Levels-1-level]) // the key is right
	return number
}

// zeros tells whether the words from one level up to another are 0.
func (w way) zeros(from, to int) bool {
	for level := from; level <= to; level++ {
		if w.number(level) != 0 {
			return false
		}
	}
	return true
}

// leadsTo tells whether the queues that a message has left are those of its way from the entry to the exchange of a
// level. The last one comes first. So no other cascade has read the words above that level otherwise, such as this one
// before it was resized.
func (w way) leadsTo(level int, deaths []Death) bool {
	for i, d := range deaths {
		at := level + 1 // the level of the queue
		from, isLevel := w.levels[d.Exchange]
		if at >= w.Levels || !isLevel || from < at || d.Reason != expired || w.number(at) == 0 ||
			d.Queue != w.DelayQueueName(at, w.number(at)) || !w.zeros(at+1, from) {
			return false
		}
		if from == w.Levels-1 {
			return !hasWaited(deaths[i+1:])
		}
		level = from
	}
	return false
}
