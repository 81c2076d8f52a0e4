package delay

import (
	"cmp"
	"fmt"
	"maps"
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

// give says what to write in place of an argument.
func give(attributes string) string { return fmt.Sprintf("; give %s in its place", attributes) }

// ofCascades and ofLadders say why their queues have none of these among the further arguments.
var (
	ofCascades = map[string]string{
		"x-queue-type":              give("queue_type"),
		"x-message-ttl":             give("units, or levels, base and resolution"),
		"x-dead-letter-exchange":    give("delivery_exchange"),
		"x-dead-letter-routing-key": ", with which messages would lose their delay and their address; leave it out",
	}
	ofLadders = map[string]string{
		"x-queue-type":              ofCascades["x-queue-type"],
		"x-message-ttl":             give("delays"),
		"x-dead-letter-exchange":    ofCascades["x-dead-letter-exchange"],
		"x-dead-letter-routing-key": give("dead_letter_routing_key"),
	}
)

// kind is a kind of values.
type kind struct {
	words string
	has   func(value any) bool
}

var (
	isText   = kind{"a text", is[string]}
	isNumber = kind{"a whole number", is[int64]}
	isFlag   = kind{"true or false", is[bool]}
)

func is[T any](value any) bool { _, ok := value.(T); return ok }

// argumentTypes are what RabbitMQ takes for an argument (rabbit_amqqueue:declare_args/0), and the only type of queue
// that has it. Arguments of plugins are not among them.
var argumentTypes = map[string]struct {
	kind
	only QueueType
}{
	"x-dead-letter-strategy":      {isText, Quorum},
	"x-delivery-limit":            {isNumber, Quorum},
	"x-expires":                   {isNumber, ""},
	"x-max-length":                {isNumber, ""},
	"x-max-length-bytes":          {isNumber, ""},
	"x-max-priority":              {isNumber, ""},
	"x-overflow":                  {isText, ""},
	"x-queue-leader-locator":      {isText, ""},
	"x-queue-mode":                {isText, Classic},
	"x-queue-version":             {isNumber, Classic},
	"x-quorum-initial-group-size": {isNumber, Quorum},
	"x-single-active-consumer":    {isFlag, ""},
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
	}
	return ""
}

// checkArguments checks the further arguments.
func (p shared) checkArguments(errs *Errors) {
	wrong := maps.Clone(p.instead)
	for _, each := range append(p.QuorumOptions.given(), p.optionsWithin().given()...) {
		wrong[each.argument] = give(each.attribute)
	}
	for _, name := range slices.Sorted(maps.Keys(p.arguments)) {
		if why := cmp.Or(wrong[name], wrongArgument(p.queueType, name, p.arguments[name])); why != "" {
			errs.add("queue_arguments", "has %q%s", name, why)
		}
	}
}

// optionsWithin are the quorum options that stand among the further arguments.
func (p shared) optionsWithin() QuorumOptions {
	arguments := maps.Clone(p.arguments)
	if arguments == nil {
		return QuorumOptions{}
	}
	arguments["x-queue-type"] = string(p.queueType)
	return QuorumOptionsOf(topology.Queue{Arguments: arguments})
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
