// Package tfvalue turns what the other packages have into values of Terraform. A topology goes in, and the maps of
// exchanges, queues and bindings come out: call OfCascade or OfLadder for ObjectMaps, and their methods. It also has
// the types of attributes with errors of their own, WholeNumber and Duration.
package tfvalue

import (
	"context"
	"maps"
	"math/big"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ObjectMaps show exchanges, queues and bindings as attributes, of a plan and of a broker's objects. People read them
// as lines of a plan, and a comment in a pull request has 65,536 characters. So the usual values are null, and
// Terraform does not print them. A value that was unusual once stays written out: its repair is a line "false -> true".
type ObjectMaps struct {
	position Position
	// Desired is what the configuration stands for.
	Desired topology.Topology
	// positions are those of the delay queues by their names.
	positions map[string]attr.Value
	QueueType types.String
	Summary   string
}

// Position is the attribute that tells a delay queue from the others of its kind. It is null for the queue of
// unroutable messages.
type Position struct {
	attribute string
	schema    schema.Attribute
}

// LevelPosition is what tells the queues of a cascade from each other.
var LevelPosition = Position{"level",
	computedNumber("Level of a delay queue, null for the queue of unroutable messages.")}

// OfCascade shows a cascade.
func OfCascade(resolved delay.Cascade) ObjectMaps {
	levels := map[string]attr.Value{}
	for level := range resolved.Levels {
		for _, q := range resolved.DelayQueues(level) {
			levels[q.Name] = types.Int64Value(int64(level))
		}
	}
	t := resolved.Expand()
	return ObjectMaps{LevelPosition, t, levels, types.StringValue(string(resolved.QueueType)), resolved.Summary(t)}
}

// DelayPosition is what tells the queues of a ladder from each other.
var DelayPosition = Position{"delay",
	ComputedText("Delay as it stands in `delays`, null for the queue of unroutable messages.")}

// OfLadder shows a ladder.
func OfLadder(resolved delay.Ladder) ObjectMaps {
	labels := map[string]attr.Value{}
	for _, label := range resolved.Delays {
		labels[resolved.Queue(label)] = types.StringValue(label)
	}
	t := resolved.Expand()
	return ObjectMaps{DelayPosition, t, labels, types.StringValue(string(resolved.QueueType)), resolved.Summary(t)}
}

// QueueSchema is that of one of the queues.
func (p Position) QueueSchema() schema.NestedAttributeObject {
	return schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
		p.attribute:            p.schema,
		"type":                 ComputedText("Queue type; null if it is `queue_type`."),
		"message_ttl":          computedNumber("How long a message waits, in milliseconds (`x-message-ttl`)."),
		"dead_letter_exchange": ComputedText("Where a message goes when it has waited (`x-dead-letter-exchange`)."),
		"durable":              computedBool("Whether the queue survives a restart of the broker; null if it does."),
		"auto_delete":          computedBool("Whether the queue goes with its last consumer; null if it stays."),
		"exclusive":            computedBool("Whether the queue belongs to one connection; null if it does not."),
		"arguments": schema.MapAttribute{Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Further arguments. Values other than text are JSON. Null if a delay queue has " +
				"exactly the configured arguments."},
	}}
}

// ExchangeSchema is that of one of the exchanges.
var ExchangeSchema = schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
	"type":               ComputedText("Exchange type."),
	"durable":            computedBool("Whether the exchange survives a restart of the broker; null if it does."),
	"auto_delete":        computedBool("Whether the exchange goes with its last binding; null if it stays."),
	"internal":           computedBool("Whether the exchange refuses publishers; null if it takes their messages."),
	"alternate_exchange": ComputedText("Exchange that gets messages that no binding matches."),
	"arguments": schema.MapAttribute{Computed: true, ElementType: types.StringType,
		MarkdownDescription: "Further arguments. Values other than text are JSON."},
}}

var exchangeType = objectType(ExchangeSchema)

// BindingsType is that of the bindings of one exchange.
var BindingsType = types.MapType{ElemType: types.StringType}

// objectType is the type of the values for a schema.
func objectType(of schema.NestedAttributeObject) types.ObjectType {
	object, _ := of.Type().(types.ObjectType)
	return object
}

// usualExchange is what an exchange is unless its attributes say otherwise.
var usualExchange = map[string]attr.Value{
	"durable": types.BoolValue(true), "auto_delete": types.BoolValue(false), "internal": types.BoolValue(false),
}

// usualQueue is what a queue is unless its attributes say otherwise. Delay queues have arguments in common.
func usualQueue(queueType types.String, delays bool, arguments types.Map) map[string]attr.Value {
	usual := map[string]attr.Value{
		"type": queueType, "durable": types.BoolValue(true), "auto_delete": types.BoolValue(false),
		"exclusive": types.BoolValue(false),
	}
	if delays {
		usual["arguments"] = arguments
	}
	return usual
}

// shorten makes usual values null, unless they were written out before.
func shorten(values, usual map[string]attr.Value, written attr.Value) {
	object, _ := written.(types.Object)
	had := object.Attributes()
	for attribute, value := range usual {
		before, exists := had[attribute]
		if values[attribute].Equal(value) && (!exists || before.IsNull()) {
			values[attribute] = Null(value.Type(context.Background()))
		}
	}
}

// elementsOf are those of a map.
func elementsOf(value attr.Value) map[string]attr.Value {
	of, _ := value.(types.Map)
	return of.Elements()
}

// Exchanges shows those of a topology. Before is the value before: properties that it writes out stay written out.
func (m ObjectMaps) Exchanges(t topology.Topology, before attr.Value) types.Map {
	values, written := map[string]attr.Value{}, elementsOf(before)
	for name, e := range t.Exchanges {
		further := maps.Clone(e.Arguments)
		exchange := map[string]attr.Value{
			"type":               types.StringValue(e.Type),
			"durable":            types.BoolValue(e.Durable),
			"auto_delete":        types.BoolValue(e.AutoDelete),
			"internal":           types.BoolValue(e.Internal),
			"alternate_exchange": takeString(further, "alternate-exchange"),
			"arguments":          argumentsValue(further),
		}
		shorten(exchange, usualExchange, written[name])
		values[name] = types.ObjectValueMust(exchangeType.AttrTypes, exchange)
	}
	return types.MapValueMust(exchangeType, values)
}

// QueueArguments are those that all delay queues have in common.
func (m ObjectMaps) QueueArguments() types.Map {
	for name := range m.positions {
		if q, exists := m.Desired.Queues[name]; exists {
			arguments, _ := m.queue(q)["arguments"].(types.Map)
			return arguments
		}
	}
	return types.MapNull(types.StringType)
}

// Queues likewise shows the queues.
func (m ObjectMaps) Queues(t topology.Topology, before attr.Value) types.Map {
	queueType, arguments := objectType(m.position.QueueSchema()), m.QueueArguments()
	values, written := map[string]attr.Value{}, elementsOf(before)
	for name, q := range t.Queues {
		_, delays := m.positions[name]
		queue := m.queue(q)
		if delays && !arguments.IsNull() && queue["arguments"].IsNull() { // null would stand for the usual ones
			queue["arguments"] = types.MapValueMust(types.StringType, map[string]attr.Value{})
		}
		shorten(queue, usualQueue(m.QueueType, delays, arguments), written[name])
		values[name] = types.ObjectValueMust(queueType.AttrTypes, queue)
	}
	return types.MapValueMust(queueType, values)
}

func (m ObjectMaps) queue(q topology.Queue) map[string]attr.Value {
	at, delays := m.positions[q.Name]
	if !delays {
		at = Null(m.position.schema.GetType())
	}
	further := maps.Clone(q.Arguments)
	delete(further, "x-queue-type")
	return map[string]attr.Value{
		m.position.attribute:   at,
		"type":                 types.StringValue(q.Type()),
		"message_ttl":          takeInt64(further, "x-message-ttl"),
		"dead_letter_exchange": takeString(further, "x-dead-letter-exchange"),
		"durable":              types.BoolValue(q.Durable),
		"auto_delete":          types.BoolValue(q.AutoDelete),
		"exclusive":            types.BoolValue(q.Exclusive),
		"arguments":            argumentsValue(further),
	}
}

// Foreign is the value of a binding that the configuration does not have.
const Foreign = "foreign"

// Bindings are maps within a map: Terraform compares them by their keys, so that none shows as another one. A list does
// not do that, and of two sets it compares each element with each: a fifth of the time of an apply (1.11.4).
func (m ObjectMaps) Bindings(t topology.Topology) types.Map {
	destinations, others := map[string]map[string]attr.Value{}, topology.Bindings{}
	add := func(source, key, value string) {
		if destinations[source] == nil {
			destinations[source] = map[string]attr.Value{}
		}
		destinations[source][key] = types.StringValue(value)
	}
	for b := range t.Bindings {
		switch {
		case !t.Owns(b.Source) || !m.Desired.OwnsBinding(b):
		case m.Desired.Bindings.Has(b):
			add(b.Source, shortKey(b.RoutingKey), b.Leads())
		default:
			others.Add(b)
		}
	}
	for _, b := range others.Sorted() {
		key := plaintext.Line(b.Line()) // it is somebody else's
		for _, taken := destinations[b.Source][key]; taken; _, taken = destinations[b.Source][key] {
			key += " again" // two that differ in what cannot be seen may be written in the same way
		}
		add(b.Source, key, Foreign)
	}
	values := map[string]attr.Value{}
	for source, of := range destinations {
		values[source] = types.MapValueMust(types.StringType, of)
	}
	return types.MapValueMust(BindingsType, values)
}

// MostEqualWords is how many equal words people count at a glance.
const MostEqualWords = 4

// shortKey writes more equal words in a row as one: "*×22.0×5.1.#" has 29 words.
func shortKey(routingKey string) string {
	words := strings.Split(routingKey, ".")
	var short []string
	for i := 0; i < len(words); {
		next := i + 1
		for next < len(words) && words[next] == words[i] {
			next++
		}
		if n := next - i; n > MostEqualWords {
			short = append(short, words[i]+"×"+strconv.Itoa(n))
		} else {
			short = append(short, words[i:next]...)
		}
		i = next
	}
	return strings.Join(short, ".")
}

// takeString moves a text out of the arguments. Anything else stays, to be shown among the rest.
func takeString(arguments topology.Arguments, key string) types.String {
	text, ok := arguments[key].(string)
	if !ok {
		return types.StringNull()
	}
	delete(arguments, key)
	if strings.Contains(text, "\n") { // which no name has, and Terraform would print it as it is
		text = plaintext.Line(text)
	}
	return types.StringValue(text)
}

func takeInt64(arguments topology.Arguments, key string) types.Int64 {
	number, ok := arguments[key].(int64)
	if !ok {
		return types.Int64Null()
	}
	delete(arguments, key)
	return types.Int64Value(number)
}

func argumentsValue(arguments topology.Arguments) types.Map {
	if len(arguments) == 0 {
		return types.MapNull(types.StringType)
	}
	values := map[string]attr.Value{}
	for key, value := range arguments {
		values[plaintext.Line(key)] = types.StringValue(plaintext.Line(topology.ValueText(value)))
	}
	return types.MapValueMust(types.StringType, values)
}

var policyType = objectType(PoliciesAttribute.NestedObject)

// PoliciesAttribute is for a cascade of a preset.
var PoliciesAttribute = schema.MapNestedAttribute{
	Computed: true,
	MarkdownDescription: "The policies of the cascade by name, null if it has none: with a `preset` and " +
		"`park_unroutable`, the policy that parks.",
	NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
		"pattern":  ComputedText("Regular expression for the names of the exchanges."),
		"apply_to": ComputedText("Kind of objects, `exchanges`."),
		"priority": schema.NumberAttribute{Computed: true,
			MarkdownDescription: "Of all policies that match an exchange, the policy with the highest priority " +
				"applies."},
		"alternate_exchange": ComputedText("Exchange that gets messages that no binding matches."),
		"definition": schema.MapAttribute{Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Further keys of the policy. Values other than text are JSON."},
	}},
}

// PoliciesValue shows what there is of the policies that are desired.
func PoliciesValue(desired, t topology.Topology) types.Map {
	if len(desired.Policies) == 0 {
		return types.MapNull(policyType)
	}
	values := map[string]attr.Value{}
	for name, p := range t.Policies {
		further := maps.Clone(p.Definition)
		values[name] = types.ObjectValueMust(policyType.AttrTypes, map[string]attr.Value{
			"pattern":            types.StringValue(p.Pattern),
			"apply_to":           types.StringValue(p.ApplyTo),
			"priority":           types.NumberValue(big.NewFloat(p.Priority)),
			"alternate_exchange": takeString(further, "alternate-exchange"),
			"definition":         argumentsValue(further),
		})
	}
	return types.MapValueMust(policyType, values)
}
