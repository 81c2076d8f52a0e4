package delay

import (
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Match says which messages a destination takes.
type Match string

const (
	// Exact takes the messages for one address that come from a cascade of one number of levels.
	Exact Match = "exact"
	// Suffix takes the messages for all addresses that end with the words of one, whatever the levels, as
	// frameworks do.
	Suffix Match = "suffix"
)

// Destination is a queue or exchange that takes, from the delivery exchange of a cascade, the messages for one
// address.
type Destination struct {
	Vhost            string
	DeliveryExchange string
	// Address is what publishers write behind the delay.
	Address string
	Match   Match
	// Levels is the number of words before the address; only for Exact.
	Levels int
	// Queue or Exchange is given, the other one is empty.
	Queue, Exchange string
}

// Binding checks the destination and is the binding that it consists of. An error is of type Errors.
func (d Destination) Binding() (topology.Binding, error) {
	var errs Errors
	key := d.key(&errs)
	d.checkEnds(&errs)
	d.checkMarkable(&errs)
	if len(errs) > 0 {
		return topology.Binding{}, errs
	}
	b := d.Place()
	b.RoutingKey = key
	return b, nil
}

// Place is where its binding starts and leads, without a key. It also is one of a destination that is not valid.
func (d Destination) Place() topology.Binding {
	b := topology.Binding{Source: d.DeliveryExchange, DestinationType: topology.ToQueue, Destination: d.Queue}
	if d.Exchange != "" {
		b.DestinationType, b.Destination = topology.ToExchange, d.Exchange
	}
	return b
}

// Keys are the keys of the messages that the destination takes: they have a number for each level. Before a suffix
// there may be any words.
func (d Destination) Keys() topology.TopicKey {
	keys := slices.Repeat(topology.TopicKey{topology.Digits}, d.Levels)
	if d.Match == Suffix {
		keys = topology.TopicKey{"#"}
	}
	return append(keys, topology.ParseTopicKey(d.Address)...)
}

// anyLevels begins the key of a suffix.
const anyLevels = "#."

func (d Destination) key(errs *Errors) string {
	switch {
	case d.Match != Exact && d.Match != Suffix:
		errs.add("match", "is %q; it can be %q or %q", d.Match, Exact, Suffix)
	case d.Match == Suffix && d.Levels != 0:
		errs.add("levels", "is given, but with match = %q the key holds for any number of levels; leave it out", Suffix)
	case d.Match == Exact && d.Levels == 0:
		errs.add("levels", "is missing; with match = %q the key has a \"*\" for each word of the delay: give "+
			"length(<cascade>.units), or the attribute levels of a ladder", Exact)
	}
	d.checkAddress(errs)
	if len(*errs) > 0 {
		return ""
	}
	if d.Match == Suffix {
		return anyLevels + d.Address
	}
	key, err := DestinationKey(d.Levels, d.Address)
	if err != nil {
		errs.append(err)
	}
	return key
}

func (d Destination) checkAddress(errs *Errors) {
	if d.Address == "" {
		errs.add("address", "is empty; give the word or words that publishers write behind the delay")
	}
	// Behind the delay of a message there is as much room as for the shortest cascade.
	if most := MaxKeyBytes - len(anyLevels); len(d.Address) > most {
		errs.add("address", "is %q of %d bytes; it can have %d at the most, because AMQP allows a key %d", d.Address,
			len(d.Address), most, MaxKeyBytes)
	}
	for word := range strings.SplitSeq(d.Address, ".") {
		if word == "*" || word == "#" {
			errs.add("address", "is %q, whose word %q would stand for any word and take messages for other addresses. "+
				"Write one destination for each address, or match = %q for all that end with the same words",
				d.Address, word, Suffix)
		}
	}
}

func (d Destination) checkEnds(errs *Errors) {
	switch {
	case d.Queue != "" && d.Exchange != "":
		errs.add("queue", "is given beside exchange; give one of the two, and a second destination for the other")
	case d.Queue == "" && d.Exchange == "":
		errs.add("queue", "is missing; give it, or exchange, to say who takes the messages")
	case d.Exchange != "" && d.Exchange == d.DeliveryExchange:
		errs.add("exchange", "is %q, the delivery exchange itself; give the exchange that is to take the messages",
			d.Exchange)
	}
	checkVhost(errs, d.Vhost)
	if IsDefaultExchange(d.DeliveryExchange) {
		errs.add("delivery_exchange", "is %q, the default exchange, which takes no bindings; give the attribute "+
			"delivery_exchange of the cascade or ladder", d.DeliveryExchange)
	}
	for _, end := range []object{{"delivery_exchange", "exchange", d.DeliveryExchange}, {"queue", "queue", d.Queue},
		{"exchange", "exchange", d.Exchange}} {
		checkReference(errs, end)
	}
}

// checkMarkable refuses a key that no binding with an argument can have. With a "~" before another character in such a
// key, the management API answers 500 for each list with the binding in it (3.10.8, 4.0.5, 4.3.6).
func (d Destination) checkMarkable(errs *Errors) {
	if strings.Contains(strings.TrimRight(d.Address, "~"), "~") {
		errs.add("address", "is %q, with a \"~\" before another character: RabbitMQ could list no bindings of the "+
			"vhost any more. Use another address", d.Address)
	}
}

// ParseDestinationKey reads match, levels and address off a binding key. Not ok is a key that is none of a destination.
func ParseDestinationKey(key string) (d Destination, ok bool) {
	d.Match, d.Address = Exact, key
	if address, suffix := strings.CutPrefix(key, anyLevels); suffix {
		d.Match, d.Address = Suffix, address
	} else {
		for strings.HasPrefix(d.Address, "*.") {
			d.Address = d.Address[len("*."):]
			d.Levels++
		}
	}
	var errs Errors
	d.key(&errs)
	return d, len(errs) == 0
}

// Overlap says that of two destinations at one delivery exchange, one takes messages of the other, too.
type Overlap struct {
	// Other is the other destination's binding, and Address what it is bound for.
	Other   topology.Binding
	Address string
	// Takes says that the other one takes messages for one's own address; otherwise one's own takes
	// messages for the address of the other.
	Takes bool
}

// Overlaps lists, in the order of the others, where a destination takes messages that are meant for another one alone,
// and the other way round. Any number can be a word of a delay. Three kinds are not listed. Destinations
// with the same address are to take the same messages. Keys with wildcards within an address take what their owner
// wants. And a queue or exchange with a second key gets a message only once.
func Overlaps(own topology.Binding, others []topology.Binding) []Overlap {
	mine, ok := ParseDestinationKey(own.RoutingKey)
	if !ok {
		return nil
	}
	var found []Overlap
	for _, b := range others {
		theirs, ok := ParseDestinationKey(b.RoutingKey)
		sameEnd := b.DestinationType == own.DestinationType && b.Destination == own.Destination
		if !ok || sameEnd || b.Source != own.Source || theirs.Address == mine.Address {
			continue
		}
		if mine.takes(theirs) {
			found = append(found, Overlap{Other: b, Address: theirs.Address})
		}
		if theirs.takes(mine) {
			found = append(found, Overlap{Other: b, Address: theirs.Address, Takes: true})
		}
	}
	return found
}

// takes tells whether the key matches some message for the address of the other. How many numbers such a
// message has, a suffix does not say: it is taken to be what the key expects, or any number.
func (d Destination) takes(other Destination) bool {
	levels := other.Levels
	if other.Match == Suffix {
		levels = MaxLevels
		if d.Match == Exact {
			levels = d.Levels
		}
	}
	own, words := strings.Split(d.Address, "."), strings.Split(other.Address, ".")
	before := levels + len(words) - len(own) // words of the message that stand before the own address
	if before < 0 || d.Match == Exact && before != d.Levels {
		return false
	}
	for i, word := range own {
		_, isNumber := parseNumber(MaxQueues, word)
		if at := before + i - levels; at >= 0 && words[at] != word || at < 0 && !isNumber {
			return false
		}
	}
	return true
}

// TakesAll tells whether the destination takes every message that the other one takes at the same exchange.
func (d Destination) TakesAll(other Destination) bool {
	if d.Match == Suffix {
		return d.Address == other.Address || strings.HasSuffix(other.Address, "."+d.Address)
	}
	return d.Match == other.Match && d.Levels == other.Levels && d.Address == other.Address
}

// TakesAll tells whether a binding takes every message that another one takes. Both have keys of destinations.
func TakesAll(b, other topology.Binding) bool {
	mine, ok := ParseDestinationKey(b.RoutingKey)
	theirs, also := ParseDestinationKey(other.RoutingKey)
	return ok && also && b.Source == other.Source && mine.TakesAll(theirs)
}

// Replaces tells whether a binding brings every message that another one takes to the same queue or exchange.
func Replaces(b, other topology.Binding) bool {
	return b.LeadsTo(other.DestinationType, other.Destination) && TakesAll(b, other)
}
