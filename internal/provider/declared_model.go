package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// declaredModel is the part of a model that every resource has which stands for a topology.
type declaredModel struct {
	Name                   types.String         `tfsdk:"name"`
	Vhost                  types.String         `tfsdk:"vhost"`
	QueueName              types.String         `tfsdk:"queue_name"`
	DeliveryExchange       types.String         `tfsdk:"delivery_exchange"`
	CreateDeliveryExchange types.Bool           `tfsdk:"create_delivery_exchange"`
	QueueType              types.String         `tfsdk:"queue_type"`
	MaxLength              types.Int64          `tfsdk:"max_length"`
	ParkUnroutable         types.Bool           `tfsdk:"park_unroutable"`
	Adopt                  types.Bool           `tfsdk:"adopt"`
	ForceDestroy           types.Bool           `tfsdk:"force_destroy"`
	DrainTimeout           timetypes.GoDuration `tfsdk:"drain_timeout"`
	Timeouts               timeouts.Value       `tfsdk:"timeouts"`
	EntryExchange          types.String         `tfsdk:"entry_exchange"`
	DeliveryExchangeType   types.String         `tfsdk:"delivery_exchange_type"`
	Exchanges              types.String         `tfsdk:"exchanges"` // packed, as are the next two
	Queues                 types.String         `tfsdk:"queues"`
	Bindings               types.String         `tfsdk:"bindings"`
}

func (d *declaredModel) common() *declaredModel { return d }

// isKnown tells whether these values and the further ones are known.
func (d *declaredModel) isKnown(further ...attr.Value) bool {
	values := append(slices.Clone(further), d.Name, d.Vhost, d.QueueName, d.DeliveryExchange,
		d.CreateDeliveryExchange, d.QueueType, d.MaxLength, d.ParkUnroutable)
	return !slices.ContainsFunc(values, attr.Value.IsUnknown)
}

// guard is what a destroy does about messages that wait.
func (d *declaredModel) guard() (topology.Guard, diag.Diagnostics) {
	guard := topology.Guard{Force: d.ForceDestroy.ValueBool()}
	if d.DrainTimeout.IsNull() {
		return guard, nil
	}
	drain, diags := d.DrainTimeout.ValueGoDuration()
	guard.Drain = drain
	return guard, diags
}

// emptyValues reports what is given and says nothing: in an expansion it would stand for a default.
func (d *declaredModel) emptyValues() emptyValues {
	var empty emptyValues
	empty.texts(map[string]types.String{
		"name": d.Name, "vhost": d.Vhost, "queue_name": d.QueueName, "delivery_exchange": d.DeliveryExchange, "queue_type": d.QueueType,
	})
	empty.count("max_length", d.MaxLength)
	empty.duration("drain_timeout", d.DrainTimeout)
	return empty
}

// checkDrainTimeout makes sure that an operation that removes queues has the time to wait as long as it is to.
func (d *declaredModel) checkDrainTimeout(ctx context.Context, operation string, timeout func(context.Context, time.Duration) (time.Duration, diag.Diagnostics)) diag.Diagnostics {
	if d.DrainTimeout.IsNull() || d.DrainTimeout.IsUnknown() {
		return nil
	}
	drain, diags := d.DrainTimeout.ValueGoDuration()
	if diags.HasError() {
		return nil // the attribute's own type has said so
	}
	limit, diags := timeout(ctx, defaultWriteTimeout+drain)
	if limit <= drain && !diags.HasError() {
		diags.AddAttributeError(path.Root("drain_timeout"), "Invalid drain_timeout",
			fmt.Sprintf("drain_timeout is %s, which does not fit into timeouts.%s, %s. Make that longer, or leave it out.", drain, operation, limit))
	}
	return diags
}

// imported is the state of something that was just recognized, before its objects are read.
func imported(name, vhost string, createsDelivery bool, maxLength int64, c declaredComputed) declaredModel {
	d := declaredModel{
		Name: types.StringNull(), Vhost: types.StringValue(vhost), CreateDeliveryExchange: types.BoolValue(createsDelivery), MaxLength: types.Int64Null(),
		Adopt: types.BoolValue(false), ForceDestroy: types.BoolValue(false), DrainTimeout: timetypes.NewGoDurationNull(),
		Timeouts: noTimeouts(),
	}
	if name != "" {
		d.Name = types.StringValue(name)
	}
	if maxLength > 0 {
		d.MaxLength = types.Int64Value(maxLength)
	}
	d.setComputed(declaredModel{}, c)
	return d
}

// declaredComputed is what the provider works out for every such resource.
type declaredComputed struct {
	QueueType        types.String
	ParkUnroutable   types.Bool
	QueueName        types.String
	DeliveryExchange types.String
	EntryExchange    types.String
	// DeliveryExchangeType is unknown where any type will do.
	DeliveryExchangeType types.String
	Exchanges            types.Map
	Queues               types.Map
	Bindings             types.Map
}

// computeDeclared takes the place of the queues' kind from whoever expanded the topology.
func computeDeclared(t topology.Topology, queueType cascade.QueueType, parks bool, queueName string, queues types.Map) declaredComputed {
	return declaredComputed{
		QueueType:            types.StringValue(string(queueType)),
		ParkUnroutable:       types.BoolValue(parks),
		QueueName:            types.StringValue(queueName),
		DeliveryExchange:     types.StringValue(t.Delivery),
		EntryExchange:        types.StringValue(t.Entry),
		DeliveryExchangeType: textOr(t.DeliveryType, types.StringUnknown()),
		Exchanges:            exchangesValue(t),
		Queues:               queues,
		Bindings:             bindingsValue(t),
	}
}

func unknownDeclared(p position) declaredComputed {
	return declaredComputed{
		QueueType: types.StringUnknown(), ParkUnroutable: types.BoolUnknown(), QueueName: types.StringUnknown(), DeliveryExchange: types.StringUnknown(),
		EntryExchange: types.StringUnknown(), DeliveryExchangeType: types.StringUnknown(),
		Exchanges: types.MapUnknown(exchangeType), Queues: types.MapUnknown(p.queueType()), Bindings: types.MapUnknown(linesType),
	}
}

// merge implements merger.
func (c declaredComputed) merge(ctx context.Context, other declaredComputed) declaredComputed {
	return declaredComputed{
		QueueType:            common(ctx, c.QueueType, other.QueueType),
		ParkUnroutable:       common(ctx, c.ParkUnroutable, other.ParkUnroutable),
		QueueName:            common(ctx, c.QueueName, other.QueueName),
		DeliveryExchange:     common(ctx, c.DeliveryExchange, other.DeliveryExchange),
		EntryExchange:        common(ctx, c.EntryExchange, other.EntryExchange),
		DeliveryExchangeType: common(ctx, c.DeliveryExchangeType, other.DeliveryExchangeType),
		Exchanges:            common(ctx, c.Exchanges, other.Exchanges),
		Queues:               common(ctx, c.Queues, other.Queues),
		Bindings:             common(ctx, c.Bindings, other.Bindings),
	}
}

// setComputed plans what the configuration leaves to the provider.
func (d *declaredModel) setComputed(config declaredModel, c declaredComputed) {
	fill(&d.QueueType, config.QueueType, c.QueueType)
	fill(&d.ParkUnroutable, config.ParkUnroutable, c.ParkUnroutable)
	fill(&d.QueueName, config.QueueName, c.QueueName)
	fill(&d.DeliveryExchange, config.DeliveryExchange, c.DeliveryExchange)
	fill(&d.EntryExchange, config.EntryExchange, c.EntryExchange)
	if !c.DeliveryExchangeType.IsUnknown() || d.DeliveryExchangeType.IsNull() {
		d.DeliveryExchangeType = c.DeliveryExchangeType
	}
	d.Exchanges, d.Queues, d.Bindings = packed(c.Exchanges), packed(c.Queues), packed(c.Bindings)
}

// textOr is the text, or something else if there is none.
func textOr(text string, otherwise types.String) types.String {
	if text == "" {
		return otherwise
	}
	return types.StringValue(text)
}

// fill plans what was computed where the configuration says nothing.
func fill[T attr.Value](planned *T, config, computed T) {
	if config.IsNull() {
		*planned = computed
	}
}

// setActual writes what a broker has into the model.
func (d *declaredModel) setActual(actual topology.Topology, queues types.Map) {
	d.EntryExchange = types.StringValue(actual.Entry)
	d.DeliveryExchangeType = textOr(actual.DeliveryType, types.StringNull())
	d.Exchanges, d.Queues, d.Bindings = packed(exchangesValue(actual)), packed(queues), packed(bindingsValue(actual))
}

func (d *declaredModel) identity() identity {
	return identity{Vhost: d.Vhost, EntryExchange: d.EntryExchange}
}

var (
	argumentsType = types.MapType{ElemType: types.StringType}
	exchangeType  = types.ObjectType{AttrTypes: map[string]attr.Type{
		"type": types.StringType, "durable": types.BoolType, "auto_delete": types.BoolType, "internal": types.BoolType,
		"alternate_exchange": types.StringType, "arguments": argumentsType,
	}}
	// linesType is that of a set, except that Terraform compares the elements of two sets each with each, and writes an error for each
	// pair that differs: that was 60 of the 290 ms that the apply of 28 levels takes more than that of one exchange (1.11.4).
	linesType = types.ListType{ElemType: types.StringType}
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

// position is the attribute that tells a delay queue from the others of its kind. It is null for the queue of unroutable
// messages.
type position struct {
	attribute, description string
	null                   attr.Value
}

func (p position) schema() schema.Attribute {
	if p.null.Type(context.Background()) == types.Int64Type {
		return schema.Int64Attribute{Computed: true, MarkdownDescription: p.description}
	}
	return schema.StringAttribute{Computed: true, MarkdownDescription: p.description}
}

func (p position) queueType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		p.attribute: p.null.Type(context.Background()), "type": types.StringType, "message_ttl": types.Int64Type, "dead_letter_exchange": types.StringType,
		"durable": types.BoolType, "auto_delete": types.BoolType, "exclusive": types.BoolType, "arguments": argumentsType,
	}}
}

// queues are the queues of the topology, and positions those of the delay queues by their names.
func (p position) queues(positions map[string]attr.Value, t topology.Topology) types.Map {
	queueType := p.queueType()
	values := map[string]attr.Value{}
	for name, q := range t.Queues {
		at, delays := positions[name]
		if !delays {
			at = p.null
		}
		further := maps.Clone(q.Arguments)
		delete(further, "x-queue-type")
		values[name] = types.ObjectValueMust(queueType.AttrTypes, map[string]attr.Value{
			p.attribute:            at,
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
	lines := map[string][]string{}
	for b := range t.Bindings {
		if t.Owns(b.Source) {
			lines[b.Source] = append(lines[b.Source], b.Line())
		}
	}
	values := map[string]attr.Value{}
	for source, of := range lines {
		slices.Sort(of)
		texts := make([]attr.Value, len(of))
		for i, line := range of {
			texts[i] = types.StringValue(line)
		}
		values[source] = types.ListValueMust(types.StringType, texts)
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

func noTimeouts() timeouts.Value {
	return timeouts.Value{Object: types.ObjectNull(map[string]attr.Type{
		"create": types.StringType, "read": types.StringType, "update": types.StringType, "delete": types.StringType,
	})}
}
