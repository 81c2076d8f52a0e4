package delay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// LadderConfig describes a ladder as it is given: fixed delays, each with a queue of its own. The zero values of
// QueueName, EntryExchange, DeliveryExchange, QueueType and QueueArguments stand for what Resolve puts there. The
// others mean what they say.
type LadderConfig struct {
	Vhost string
	// Name is the beginning of all names that are not given.
	Name string
	// Delays are the rungs. What a delay is written as, such as "30s", is its label: the first word of a routing key.
	Delays []string

	EntryExchange string
	// QueueName names the queue of a rung by its label.
	QueueName        LabelFormat
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

// Ladder is a configuration in which everything is decided and checked, with the delays from the shortest to the
// longest. Resolve and RecognizeLadder make it.
type Ladder LadderConfig

// Resolve decides what the configuration leaves to defaults, and checks the result. An error is of type Errors.
func (given LadderConfig) Resolve() (Ladder, error) {
	l := Ladder(given)
	var errs Errors
	l.applyDefaults()
	l.Delays = slices.Sorted(slices.Values(l.Delays))
	if checkDelays(&errs, l.Delays) {
		slices.SortStableFunc(l.Delays, func(x, y string) int { return cmp.Compare(rung(x), rung(y)) })
	}
	l.shared().check(&errs)
	if len(l.DeadLetterRoutingKey) > MaxKeyBytes {
		errs.add("dead_letter_routing_key", "has %d bytes; AMQP allows %d", len(l.DeadLetterRoutingKey), MaxKeyBytes)
	}
	l.checkEnd(&errs, given)
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
	resolveArguments(&l.QueueArguments, l.QueueType)
	if l.Name == "" {
		return
	}
	setDefault(&l.EntryExchange, l.Name+defaultEntryName)
	setDefault(&l.QueueName, DefaultQueueName(l.Name))
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

// FixedKey is the routing key with which every message leaves the ladder, empty for the one it came with.
func (l Ladder) FixedKey() string { return cmp.Or(l.DeliverToQueue, l.DeadLetterRoutingKey) }

// DefaultQueueName is how the queues of a ladder with the name are called, unless their names are given.
func DefaultQueueName(name string) LabelFormat { return LabelFormat(Escape(name) + defaultRung) }

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

// rung is the delay of a label that is valid.
func rung(label string) time.Duration {
	ttl, _ := ParseLabel(label)
	return ttl
}

func (l *Ladder) checkNames(errs *Errors, given LadderConfig) {
	p := l.shared()
	p.checkMissing(errs, otherwise{"entry_exchange", l.EntryExchange == ""}, otherwise{"queue_name", l.QueueName == ""},
		otherwise{"delivery_exchange", l.DeliveryExchange == "" && l.DeliverToQueue == ""})
	queueName := origin("queue_name", string(given.QueueName))
	if wrong := l.QueueName.check(len(l.Delays)); wrong != "" {
		errs.add(queueName, "is %q, which %s", l.QueueName, wrong)
		return
	}
	objects := p.objectsAround(origin("delivery_exchange", given.DeliveryExchange))
	if l.EntryExchange != "" {
		objects = append(objects, object{origin("entry_exchange", given.EntryExchange), "exchange", l.EntryExchange})
	}
	if l.DeliverToQueue != "" {
		objects = append(objects, object{"deliver_to_queue", "queue", l.DeliverToQueue})
	}
	if l.QueueName != "" {
		for _, label := range l.Delays {
			if _, err := ParseLabel(label); err == nil {
				objects = append(objects, object{queueName, "queue", l.QueueName.Name(label)})
			}
		}
	}
	p.checkNames(errs, objects)
}

// Waits has the delay of each label.
func (l Ladder) Waits() map[string]time.Duration {
	waits := map[string]time.Duration{}
	for _, label := range l.Delays {
		waits[label] = rung(label)
	}
	return waits
}

// Expand is the full set of objects that the ladder stands for.
func (l Ladder) Expand() topology.Topology {
	t := topology.New()
	t.Entry = l.EntryExchange
	p := l.shared()
	p.addAround(&t)
	if l.FixedKey() != "" && !l.CreateDeliveryExchange {
		t.DeliveryType = "" // nothing behind the delay has to be matched
	}
	t.Exchanges[l.EntryExchange] = p.topicExchange(l.EntryExchange)
	for _, label := range l.Delays {
		arguments := p.delayArguments(rung(label), l.DeliveryExchange)
		if key := l.FixedKey(); key != "" {
			arguments["x-dead-letter-routing-key"] = key
		}
		name := l.QueueName.Name(label)
		t.Queues[name] = topology.Queue{Name: name, Durable: true, Arguments: arguments}
		t.Bindings.Add(topology.Binding{Source: l.EntryExchange, RoutingKey: l.rungKey(label),
			DestinationType: topology.ToQueue, Destination: name})
	}
	return t
}

// rungKey is the key under which the entry leads to a rung: the label and an address. Where the address is fixed, the
// key is the label alone or with anything behind it.
func (l Ladder) rungKey(label string) string {
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
