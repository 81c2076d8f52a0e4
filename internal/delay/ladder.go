package delay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// LadderConfig describes a ladder as it is given: fixed delays, each with a queue of its own. The zero values of
// QueueName, EntryExchange, EntryExchangeType, DeliveryExchange, QueueType and QueueArguments stand for what Resolve
// puts there. The others mean what they say.
type LadderConfig struct {
	Vhost string
	// Name is the beginning of all names that are not given.
	Name string
	// Delays are the rungs. What a delay is written as, such as "30s", is its label: the first word of a routing key.
	Delays []string

	EntryExchange string
	// EntryExchangeType is Topic or, with BindingKeys, Direct.
	EntryExchangeType ExchangeType
	// BindingKeys has the key by which each delay is asked for, by its label. Nil is for the label and an address. With
	// them, others may bind objects of their own to the entry.
	BindingKeys map[string]string
	// QueueName names the queue of a rung by its label. QueueNames takes its place, with a name for each label.
	QueueName        Format
	QueueNames       map[string]string
	DeliveryExchange string
	// CreateDeliveryExchange makes the delivery exchange a part of the ladder.
	CreateDeliveryExchange bool
	// DeadLetterRoutingKey is the routing key with which every message leaves the ladder; empty for the one it came
	// with.
	DeadLetterRoutingKey string
	// DeliverToQueue is the queue to which every message goes, through the default exchange. Empty is for the delivery
	// exchange. With it there is neither a delivery exchange nor a DeadLetterRoutingKey.
	DeliverToQueue string

	QueueType QueueType
	// QueueArguments are the further arguments of delay queues.
	QueueArguments topology.Arguments
	QuorumOptions
	// ParkUnroutable adds an alternate exchange and a queue for what no binding takes.
	ParkUnroutable bool
}

// ExchangeType is a type of exchanges.
type ExchangeType string

// What an entry of a ladder can be.
const (
	Topic  ExchangeType = "topic"
	Direct ExchangeType = "direct"
)

// Ladder is a configuration in which everything is decided and checked, with the delays from the shortest to the
// longest. Resolve makes it.
type Ladder LadderConfig

func (l Ladder) around() around {
	return around{vhost: l.Vhost, name: l.Name, delivery: l.DeliveryExchange,
		createsDelivery: l.CreateDeliveryExchange, queueType: l.QueueType, arguments: l.QueueArguments,
		parks: l.ParkUnroutable, instead: ofLadders, QuorumOptions: l.QuorumOptions}
}

// Resolve decides what the configuration leaves to defaults, and checks the result. An error is of type Errors.
func (given LadderConfig) Resolve() (Ladder, error) {
	l := Ladder(given)
	var errs Errors
	l.applyDefaults()
	l.Delays = slices.Sorted(slices.Values(l.Delays))
	if checkDelays(&errs, l.Delays) {
		slices.SortStableFunc(l.Delays, func(x, y string) int { return cmp.Compare(delayOf(x), delayOf(y)) })
	}
	l.around().check(&errs)
	if len(l.DeadLetterRoutingKey) > MaxKeyBytes {
		errs.add("dead_letter_routing_key", "has %d bytes; AMQP allows %d", len(l.DeadLetterRoutingKey), MaxKeyBytes)
	}
	l.checkEnd(&errs, given)
	l.checkKeys(&errs)
	l.checkNames(&errs, given)
	if len(errs) > 0 {
		return Ladder{}, errs
	}
	return l, nil
}

// What the default names add to the name of the ladder.
const (
	defaultEntryName = ".entry"
	defaultRung      = ".delay-%s"
)

func (l *Ladder) applyDefaults() {
	setDefault(&l.QueueType, Quorum)
	setDefault(&l.EntryExchangeType, Topic)
	resolveArguments(&l.QueueArguments, l.QueueType)
	if l.Name == "" {
		return
	}
	setDefault(&l.EntryExchange, l.Name+defaultEntryName)
	if l.QueueNames == nil {
		setDefault(&l.QueueName, DefaultQueueName(l.Name))
	}
	if l.DeliverToQueue == "" {
		setDefault(&l.DeliveryExchange, l.Name+defaultDelivery)
	}
}

// checkEnd refuses two ends.
func (l *Ladder) checkEnd(errs *Errors, given LadderConfig) {
	const leaveOut = "is %q beside deliver_to_queue, %q; leave one of the two out"
	if l.DeliverToQueue != "" && given.DeliveryExchange != "" {
		errs.add("delivery_exchange", leaveOut, given.DeliveryExchange, l.DeliverToQueue)
	}
	if l.DeliverToQueue != "" && l.DeadLetterRoutingKey != "" {
		errs.add("dead_letter_routing_key", leaveOut, l.DeadLetterRoutingKey, l.DeliverToQueue)
	}
}

// checkKeys refuses keys with which a message would get into no rung, or into two.
func (l *Ladder) checkKeys(errs *Errors) {
	switch {
	case l.EntryExchangeType != Topic && l.EntryExchangeType != Direct:
		errs.add("entry_exchange_type", "is %q; it can be %q or %q", l.EntryExchangeType, Topic, Direct)
	case l.EntryExchangeType == Direct && l.BindingKeys == nil:
		errs.add("entry_exchange_type", "is %q, and a direct exchange takes only keys that are equal to those of its "+
			"bindings; give binding_keys", Direct)
	}
	checkByLabel(errs, "binding_keys", l.BindingKeys, l.Delays)
	labels := slices.Sorted(maps.Keys(l.BindingKeys))
	for i, label := range labels {
		key := l.BindingKeys[label]
		if len(key) > MaxKeyBytes {
			errs.add("binding_keys", "has a key of %d bytes for %q; AMQP allows %d", len(key), label, MaxKeyBytes)
		}
		for _, other := range labels[:i] {
			if KeysMeet(l.EntryExchangeType, key, l.BindingKeys[other]) {
				errs.add("binding_keys", "has %q for %q and %q for %q. A message with a key that fits both would come "+
					"twice; give keys of which a message fits one", l.BindingKeys[other], other, key, label)
			}
		}
	}
}

// KeysMeet tells whether a message can take the way of both bindings of an exchange of the type.
func KeysMeet(of ExchangeType, key, other string) bool {
	if of == Direct {
		return key == other
	}
	return topology.ParseTopicKey(key).Meets(topology.ParseTopicKey(other))
}

// checkByLabel checks that an attribute, if it is given, has a value for each of the delays and for nothing else.
func checkByLabel(errs *Errors, attribute string, values map[string]string, delays []string) {
	for _, label := range delays {
		if _, has := values[label]; !has && values != nil {
			errs.add(attribute, "has nothing for the delay %q; give a value for each of the delays", label)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(delays, label) {
			errs.add(attribute, "has %q, which is none of the delays; write it as in delays, or leave it out", label)
		}
	}
}

// FixedKey is the routing key with which every message leaves the ladder, empty for the one it came with.
func (l Ladder) FixedKey() string { return cmp.Or(l.DeliverToQueue, l.DeadLetterRoutingKey) }

// DefaultQueueName is how the queues of a ladder with the name are called, unless their names are given.
func DefaultQueueName(name string) Format { return Format(Escape(name) + defaultRung) }

func checkDelays(errs *Errors, delays []string) bool {
	if len(delays) == 0 {
		errs.add("delays", "is empty; give at least one delay")
	}
	before := len(*errs)
	labels := map[time.Duration]string{}
	for _, label := range delays {
		ttl, err := ParseLabel(label)
		if err != nil {
			errs.add("delays", "has %q, %s", label, err)
			continue
		}
		if other, twice := labels[ttl]; twice && other == label {
			errs.add("delays", "has %q twice; leave one out", label)
		} else if twice {
			errs.add("delays", "has both %q and %q, which are the same; leave one out", other, label)
		}
		labels[ttl] = label
	}
	return len(*errs) == before
}

// ParseLabel is the delay that a label stands for: a duration of whole milliseconds, 1 ms to ten years, as
// ParseDuration reads it. It is a single word of a routing key, so it has no dot. The error continues a sentence on the
// label.
func ParseLabel(label string) (time.Duration, error) {
	ttl, err := ParseDuration(label)
	switch {
	case err != nil || strings.ContainsAny(label, "+-"):
		return 0, fmt.Errorf(`which is not a duration such as "30s", "1h30m" or "7d"`)
	case ttl < time.Millisecond || ttl%time.Millisecond != 0:
		return 0, fmt.Errorf("but RabbitMQ counts TTL in whole milliseconds, from 1ms on")
	case ttl > MaxTTL:
		return 0, fmt.Errorf("but RabbitMQ accepts no TTL over %s", pictured(MaxTTL))
	case strings.Contains(label, "."):
		return 0, fmt.Errorf("with a dot, which separates the words of a routing key; write %q", DurationText(ttl))
	}
	return ttl, nil
}

// delayOf is the delay of a label that is valid.
func delayOf(label string) time.Duration {
	ttl, _ := ParseLabel(label)
	return ttl
}

func (l *Ladder) checkNames(errs *Errors, given LadderConfig) {
	a := l.around()
	a.checkMissing(errs, otherwise{"entry_exchange", l.EntryExchange == ""},
		otherwise{"queue_name", l.QueueName == "" && l.QueueNames == nil},
		otherwise{"delivery_exchange", l.DeliveryExchange == "" && l.DeliverToQueue == ""})
	queueName := origin("queue_name", string(given.QueueName))
	if l.QueueNames != nil {
		queueName = "queue_names"
		checkByLabel(errs, queueName, l.QueueNames, l.Delays)
		if given.QueueName != "" {
			errs.add("queue_name", "is %q beside queue_names; leave one of the two out", given.QueueName)
			return
		}
	}
	if wrong := l.QueueName.checkRungs(len(l.Delays)); wrong != "" && l.QueueNames == nil {
		errs.add(queueName, "is %q, which %s", l.QueueName, wrong)
		return
	}
	objects := a.objectsAround(origin("delivery_exchange", given.DeliveryExchange), "name")
	if l.EntryExchange != "" {
		objects = append(objects, object{origin("entry_exchange", given.EntryExchange), "exchange", l.EntryExchange})
	}
	if l.DeliverToQueue != "" {
		objects = append(objects, object{"deliver_to_queue", "queue", l.DeliverToQueue})
	}
	for _, label := range l.Delays {
		_, err := ParseLabel(label)
		named, isNamed := l.QueueNames[label]
		switch {
		case isNamed && named == "":
			errs.add(queueName, "has an empty name for %q; give the queue a name", label)
		case err == nil && (isNamed || l.QueueName != ""):
			objects = append(objects, object{queueName, "queue", l.Queue(label)})
		}
	}
	a.checkNames(errs, objects)
}

// Queue is the name of the delay queue with the label.
func (l Ladder) Queue(label string) string {
	if l.QueueNames != nil {
		return l.QueueNames[label]
	}
	return l.QueueName.Labelled(label)
}

// Waits has the delay of each label, by the label or, if these are given, by the keys that ask for them.
func (l Ladder) Waits() map[string]time.Duration {
	waits := map[string]time.Duration{}
	for _, label := range l.Delays {
		asks := label
		if l.BindingKeys != nil {
			asks = l.BindingKeys[label]
		}
		waits[asks] = delayOf(label)
	}
	return waits
}

// Keys has the key of each delay's binding, by the label.
func (l Ladder) Keys() map[string]string {
	keys := map[string]string{}
	for _, label := range l.Delays {
		keys[label] = l.rungKey(label)
	}
	return keys
}

// Levels is the number of words before the address of a routing key. It is 0 where keys have no address.
func (l Ladder) Levels() int {
	if l.FixedKey() != "" || l.BindingKeys != nil {
		return 0
	}
	return 1
}

// Expand is the full set of objects that the ladder stands for.
func (l Ladder) Expand() topology.Topology {
	t := topology.New()
	t.Entry = l.EntryExchange
	a := l.around()
	a.addAround(&t)
	if l.Levels() == 0 && !l.CreateDeliveryExchange {
		t.DeliveryType = "" // no address behind the delay has to be matched
	}
	entry := a.topicExchange(l.EntryExchange)
	entry.Type = string(l.EntryExchangeType)
	t.Exchanges[l.EntryExchange], t.Shared = entry, l.BindingKeys != nil
	for _, label := range l.Delays {
		arguments := a.delayArguments(delayOf(label), l.DeliveryExchange)
		if key := l.FixedKey(); key != "" {
			arguments["x-dead-letter-routing-key"] = key
		}
		name := l.Queue(label)
		t.Queues[name] = topology.Queue{Name: name, Durable: true, Arguments: arguments}
		t.Bindings.Add(topology.Binding{Source: l.EntryExchange, RoutingKey: l.rungKey(label),
			DestinationType: topology.ToQueue, Destination: name})
	}
	return t
}

// rungKey is the key under which the entry leads to a rung: the label and an address, unless another one is given.
// Where the address is fixed, the key is the label alone or with anything behind it.
func (l Ladder) rungKey(label string) string {
	if l.BindingKeys != nil {
		return l.BindingKeys[label]
	}
	if l.FixedKey() != "" {
		return label + ".#"
	}
	return label + ".*.#"
}

// ParseRungKey is the inverse of rungKey. Not ok is a key of another kind.
func ParseRungKey(key string) (label string, ok bool) {
	label, ok = strings.CutSuffix(key, ".#")
	label = strings.TrimSuffix(label, ".*")
	_, err := ParseLabel(label)
	return label, ok && err == nil
}
