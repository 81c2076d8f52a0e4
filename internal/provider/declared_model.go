package provider

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// declaredModel is the part of a model that every resource has which stands for a topology.
type declaredModel struct {
	Vhost                  types.String         `tfsdk:"vhost"`
	DeliveryExchange       types.String         `tfsdk:"delivery_exchange"`
	CreateDeliveryExchange types.Bool           `tfsdk:"create_delivery_exchange"`
	Adopt                  types.Bool           `tfsdk:"adopt"`
	ForceDestroy           types.Bool           `tfsdk:"force_destroy"`
	DrainTimeout           timetypes.GoDuration `tfsdk:"drain_timeout"`
	Timeouts               timeouts.Value       `tfsdk:"timeouts"`
	EntryExchange          types.String         `tfsdk:"entry_exchange"`
	Exchanges              types.Map            `tfsdk:"exchanges"`
	Queues                 types.Map            `tfsdk:"queues"`
	Bindings               types.Map            `tfsdk:"bindings"`
}

func (d *declaredModel) common() *declaredModel { return d }

func (d *declaredModel) identity() identity {
	return identity{Vhost: d.Vhost, EntryExchange: d.EntryExchange}
}

var (
	argumentsType = types.MapType{ElemType: types.StringType}
	exchangeType  = types.ObjectType{AttrTypes: map[string]attr.Type{
		"type": types.StringType, "durable": types.BoolType, "auto_delete": types.BoolType, "internal": types.BoolType,
		"alternate_exchange": types.StringType, "arguments": argumentsType,
	}}
	queueType = types.ObjectType{AttrTypes: map[string]attr.Type{
		"level": types.Int64Type, "type": types.StringType, "message_ttl": types.Int64Type, "dead_letter_exchange": types.StringType,
		"durable": types.BoolType, "auto_delete": types.BoolType, "exclusive": types.BoolType, "arguments": argumentsType,
	}}
	linesType = types.SetType{ElemType: types.StringType}
)

func exchangesValue(t topology.Topology) types.Map {
	values := map[string]attr.Value{}
	for name, e := range t.Exchanges {
		further := maps.Clone(e.Arguments)
		values[name] = types.ObjectValueMust(exchangeType.AttrTypes, map[string]attr.Value{
			"type":               types.StringValue(e.Type),
			"durable":            types.BoolValue(e.Durable),
			"auto_delete":        types.BoolValue(e.AutoDelete),
			"internal":           types.BoolValue(e.Internal),
			"alternate_exchange": takeString(further, "alternate-exchange"),
			"arguments":          argumentsValue(further),
		})
	}
	return types.MapValueMust(exchangeType, values)
}

func queuesValue(levels map[string]int64, t topology.Topology) types.Map {
	values := map[string]attr.Value{}
	for name, q := range t.Queues {
		level := types.Int64Null()
		if k, isLevel := levels[name]; isLevel {
			level = types.Int64Value(k)
		}
		further := maps.Clone(q.Arguments)
		delete(further, "x-queue-type")
		values[name] = types.ObjectValueMust(queueType.AttrTypes, map[string]attr.Value{
			"level":                level,
			"type":                 types.StringValue(q.Type()),
			"message_ttl":          takeInt64(further, "x-message-ttl"),
			"dead_letter_exchange": takeString(further, "x-dead-letter-exchange"),
			"durable":              types.BoolValue(q.Durable),
			"auto_delete":          types.BoolValue(q.AutoDelete),
			"exclusive":            types.BoolValue(q.Exclusive),
			"arguments":            argumentsValue(further),
		})
	}
	return types.MapValueMust(queueType, values)
}

func bindingsValue(t topology.Topology) types.Map {
	lines := map[string][]attr.Value{}
	for b := range t.Bindings {
		if t.Owns(b.Source) {
			lines[b.Source] = append(lines[b.Source], types.StringValue(b.Line()))
		}
	}
	values := map[string]attr.Value{}
	for source, of := range lines {
		values[source] = types.SetValueMust(types.StringType, of)
	}
	return types.MapValueMust(linesType, values)
}

// takeString moves a text out of the arguments. Anything else stays, to be shown among the rest.
func takeString(arguments topology.Arguments, key string) types.String {
	text, ok := arguments[key].(string)
	if !ok {
		return types.StringNull()
	}
	delete(arguments, key)
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
		values[key] = types.StringValue(topology.ValueText(value))
	}
	return types.MapValueMust(types.StringType, values)
}
