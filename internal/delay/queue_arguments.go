package delay

import (
	"fmt"
	"math"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Further arguments of delay queues: all but the TTL, the dead-letter exchange, the type, and those with an attribute
// of their own.

// usualArguments are those of a cascade or ladder that gives none.
func usualArguments(queueType QueueType) topology.Arguments {
	if queueType != Quorum {
		return topology.Arguments{}
	}
	// Together these make RabbitMQ keep a message until the next queue has confirmed it
	// (3.10); without either it falls back to at-most-once without a word.
	return topology.Arguments{"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
}

// resolveArguments takes the usual ones where none are given.
func resolveArguments(arguments *topology.Arguments, queueType QueueType) {
	if *arguments == nil {
		*arguments = usualArguments(queueType)
	}
}

// HasUsualArguments tells whether the further arguments are those of a cascade that gives none.
func (c Cascade) HasUsualArguments() bool { return c.QueueArguments.Equal(usualArguments(c.QueueType)) }

// giveInstead says what to write in place of an argument.
func giveInstead(attributes string) string { return fmt.Sprintf("; give %s in its place", attributes) }

// ofCascades and ofLadders say why their queues have none of these among the further arguments.
var (
	ofCascades = map[string]string{
		"x-queue-type":              giveInstead("queue_type"),
		"x-message-ttl":             giveInstead("units, or levels, base and resolution"),
		"x-dead-letter-exchange":    giveInstead("delivery_exchange"),
		"x-dead-letter-routing-key": ", with which messages would lose their delay and their address; leave it out",
	}
	ofLadders = map[string]string{
		"x-queue-type":              ofCascades["x-queue-type"],
		"x-message-ttl":             giveInstead("delays"),
		"x-dead-letter-exchange":    ofCascades["x-dead-letter-exchange"],
		"x-dead-letter-routing-key": giveInstead("dead_letter_routing_key"),
	}
)

// kind is a kind of values.
type kind struct {
	words string
	has   func(value any) bool
}

var (
	isText   = kind{"a text", isOf[string]}
	isNumber = kind{"a whole number", isWhole}
	isFlag   = kind{"true or false", isOf[bool]}
)

func isOf[T any](value any) bool { _, ok := value.(T); return ok }

// oneOf are some texts.
func oneOf(texts ...string) kind {
	return kind{orList(texts), func(value any) bool { text, _ := value.(string); return slices.Contains(texts, text) }}
}

// isWhole tells whether a value is a whole number of any size.
func isWhole(value any) bool {
	float, _ := value.(float64) // it is one from mostNumber on
	return isOf[int64](value) || math.Abs(float) > mostNumber && !math.IsInf(float, 0)
}

// mostNumber is the largest number that an argument keeps on its way through JSON.
const mostNumber = 1<<53 - 1

// numbersBetween are the whole numbers from least to most.
func numbersBetween(least, most int64) kind {
	return kind{fmt.Sprintf("%d to %d", least, most), func(value any) bool {
		n, is := value.(int64)
		return is && least <= n && n <= most
	}}
}

// argumentTypes are what RabbitMQ takes for an argument (rabbit_amqqueue:declare_args/0), and the only type of queue
// that has it. Can are the values that some version takes (3.10 to 4.3). Arguments of plugins are not among them.
var argumentTypes = map[string]struct {
	kind
	only QueueType
	can  kind
}{
	"x-dead-letter-strategy": {isText, Quorum, oneOf("at-least-once", "at-most-once")},
	"x-delivery-limit":       {isNumber, Quorum, numbersBetween(-mostNumber, mostNumber)},
	"x-expires":              {isNumber, "", numbersBetween(1, MaxTTL.Milliseconds())},
	"x-max-length":           {isNumber, "", numbersBetween(0, mostNumber)},
	"x-max-length-bytes":     {isNumber, "", numbersBetween(0, mostNumber)},
	"x-max-priority":         {isNumber, Classic, numbersBetween(0, math.MaxUint8)},
	"x-overflow":             {isText, "", oneOf("drop-head", "reject-publish", "reject-publish-dlx")},
	"x-queue-leader-locator": {isText, "", oneOf("balanced", "client-local", "least-leaders", "min-masters",
		"random")},
	"x-queue-mode":                {isText, Classic, isText}, // RabbitMQ 4.3 takes any
	"x-queue-version":             {isNumber, Classic, numbersBetween(1, 2)},
	"x-quorum-initial-group-size": {isNumber, Quorum, numbersBetween(1, mostNumber)},
	"x-single-active-consumer":    {isFlag, "", isFlag},
}

// wrongArgument says why a queue cannot have an argument, empty if it can.
func wrongArgument(queueType QueueType, name string, value any) string {
	known, isKnown := argumentTypes[name]
	switch {
	case !isKnown:
		return ""
	case known.only != "" && known.only != queueType:
		return fmt.Sprintf(", which only %s queues have; leave it out", known.only)
	case !known.has(value):
		return fmt.Sprintf(" = %s; it has to be %s", topology.ValueText(value), known.words)
	case !known.can.has(value):
		return fmt.Sprintf(" = %s; it can be %s", topology.ValueText(value), known.can.words)
	}
	return ""
}

// QueueArgumentsOf reads the further arguments off a delay queue. One that cannot be given is left out: it shows as a
// difference.
func QueueArgumentsOf(q topology.Queue) topology.Arguments {
	further := topology.Arguments{}
	for name, value := range q.Arguments {
		if wrongArgument(QueueType(q.Type()), name, value) == "" && ofCascades[name] == "" {
			further[name] = value
		}
	}
	for _, each := range QuorumOptionsOf(q).given() {
		delete(further, each.argument)
	}
	return further
}
