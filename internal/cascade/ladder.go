package cascade

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Ladder describes a ladder: a set of fixed delays, each with a queue of its own. The zero values of QueueName,
// EntryExchange, DeliveryExchange and QueueType stand for what Resolve puts there; the others mean what they say.
type Ladder struct {
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
	// DeadLetterRoutingKey is the routing key with which every message leaves the ladder; empty for the one it came with.
	DeadLetterRoutingKey string

	QueueType QueueType
	// MaxLength is the largest number of messages in a queue, 0 for no limit; quorum only.
	MaxLength int64
	// ParkUnroutable adds an alternate exchange and a queue for what no binding takes.
	ParkUnroutable bool
}

// LabelFormat names the queues of a ladder by the labels of their delays: a text with one verb, %s, such as
// "retry.delay-%s". A literal percent sign is written %%. A ladder with a single rung needs no verb.
type LabelFormat string

// Name is the name of the queue with the label. The format has to be valid.
func (f LabelFormat) Name(label string) string {
	return labelVerb.ReplaceAllStringFunc(string(f), func(found string) string {
		if found == "%s" {
			return label
		}
		return "%"
	})
}

// labelVerb is what may follow a percent sign.
var labelVerb = regexp.MustCompile(`%[%s]?`)

// check says what is wrong with the format, nothing if it suits so many rungs.
func (f LabelFormat) check(rungs int) string {
	verbs := 0
	for _, found := range labelVerb.FindAllString(string(f), -1) {
		switch found {
		case "%":
			return "has a percent sign that begins no %s; the delay is written %s, a literal percent sign %%"
		case "%s":
			verbs++
		}
	}
	switch {
	case verbs > 1:
		return fmt.Sprintf("has %%s %d times; once is enough, in the place of the delay", verbs)
	case verbs == 0 && rungs > 1:
		return fmt.Sprintf("has no %%s in the place of the delay; without it, all %d delays would have the same queue", rungs)
	}
	return ""
}

// What the default names add to the name of the ladder.
const (
	defaultEntryName = ".entry"
	defaultRung      = ".delay-%s"
)

func (l Ladder) parts() parts {
	return parts{l.Vhost, l.Name, l.DeliveryExchange, l.CreateDeliveryExchange, l.QueueType, l.MaxLength, l.ParkUnroutable}
}

// Resolve fills in what the configuration leaves to defaults and checks the result. An error is
// of type Errors.
func (l Ladder) Resolve() (Ladder, error) {
	given := l
	var errs Errors
	if l.QueueType == "" {
		l.QueueType = Quorum
	}
	if l.Name != "" {
		if l.EntryExchange == "" {
			l.EntryExchange = l.Name + defaultEntryName
		}
		if l.QueueName == "" {
			l.QueueName = LabelFormat(Escape(l.Name) + defaultRung)
		}
		if l.DeliveryExchange == "" {
			l.DeliveryExchange = l.Name + defaultDelivery
		}
	}
	l.Delays = slices.Sorted(slices.Values(l.Delays))
	if checkDelays(&errs, l.Delays) {
		slices.SortStableFunc(l.Delays, func(x, y string) int { return cmp.Compare(rung(x), rung(y)) })
	}
	l.parts().check(&errs)
	if len(l.DeadLetterRoutingKey) > MaxKeyBytes {
		errs.add("dead_letter_routing_key", "has %d bytes; AMQP allows %d", len(l.DeadLetterRoutingKey), MaxKeyBytes)
	}
	l.checkNames(&errs, given)
	if len(errs) > 0 {
		return Ladder{}, errs
	}
	return l, nil
}

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
		if other, twice := labels[ttl]; twice {
			errs.add("delays", "has both %q and %q, which are the same; leave one out", other, label)
		}
		labels[ttl] = label
	}
	return len(*errs) == before
}

// ParseLabel is the delay that a label stands for: a Go duration of whole milliseconds, 1 ms to ten years. It is a single
// word of a routing key, so it has no dot. The error continues a sentence on the label.
func ParseLabel(label string) (time.Duration, error) {
	ttl, err := time.ParseDuration(label)
	switch {
	case err != nil || strings.ContainsAny(label, "+-"):
		return 0, fmt.Errorf(`which is not a duration such as "30s", "5m" or "1h30m"`)
	case strings.Contains(label, "."):
		return 0, fmt.Errorf("with a dot, which separates the words of a routing key; write %q", withoutDot(ttl))
	case ttl < time.Millisecond || ttl%time.Millisecond != 0:
		return 0, fmt.Errorf("but RabbitMQ counts time-to-live in whole milliseconds, from 1ms on")
	case ttl > MaxTTL:
		return 0, fmt.Errorf("but RabbitMQ accepts no time-to-live over %s", MaxTTL)
	}
	return ttl, nil
}

// withoutDot writes a duration with whole numbers only.
func withoutDot(d time.Duration) string {
	if d%time.Second == 0 {
		return d.String()
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

// rung is the delay of a label that is valid.
func rung(label string) time.Duration {
	ttl, _ := ParseLabel(label)
	return ttl
}

func (l Ladder) checkNames(errs *Errors, given Ladder) {
	p := l.parts()
	p.checkMissing(errs, otherwise{"entry_exchange", l.EntryExchange == ""}, otherwise{"queue_name", l.QueueName == ""})
	queueName := origin("queue_name", string(given.QueueName))
	if wrong := l.QueueName.check(len(l.Delays)); wrong != "" {
		errs.add(queueName, "is %q, which %s", l.QueueName, wrong)
		return
	}
	objects := p.objectsAround(origin("delivery_exchange", given.DeliveryExchange))
	if l.EntryExchange != "" {
		objects = append(objects, object{origin("entry_exchange", given.EntryExchange), "exchange", l.EntryExchange})
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

// Expand is the full set of objects that the ladder stands for. An error is of type Errors: one
// entry for every attribute that is wrong.
func (l Ladder) Expand() (topology.Topology, error) {
	l, err := l.Resolve()
	if err != nil {
		return topology.Topology{}, err
	}
	t := topology.New()
	t.Entry = l.EntryExchange
	p := l.parts()
	p.addAround(&t)
	if l.DeadLetterRoutingKey != "" && !l.CreateDeliveryExchange {
		t.DeliveryType = "" // nothing behind the delay has to be matched
	}
	t.Exchanges[l.EntryExchange] = p.topicExchange(l.EntryExchange)
	for _, label := range l.Delays {
		arguments := p.delayArguments(rung(label), l.DeliveryExchange)
		if l.DeadLetterRoutingKey != "" {
			arguments["x-dead-letter-routing-key"] = l.DeadLetterRoutingKey
		}
		name := l.QueueName.Name(label)
		t.Queues[name] = topology.Queue{Name: name, Durable: true, Arguments: arguments}
		t.Bindings.Add(topology.Binding{Source: l.EntryExchange, RoutingKey: l.rungKey(label), DestinationType: topology.ToQueue, Destination: name})
	}
	return t, nil
}

// rungKey is the key under which the entry leads to a rung: the label and a destination, or, where the
// destination is fixed, the label alone or with anything behind it.
func (l Ladder) rungKey(label string) string {
	if l.DeadLetterRoutingKey != "" {
		return label + ".#"
	}
	return label + ".*.#"
}
