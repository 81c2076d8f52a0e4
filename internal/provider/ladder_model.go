package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

type ladderModel struct {
	declaredModel
	Delays               types.Set    `tfsdk:"delays"`
	DeadLetterRoutingKey types.String `tfsdk:"dead_letter_routing_key"`
}

func (*ladderModel) kind() string { return "ladder" }

// expand is the ladder that a state or a known plan stands for.
func (m *ladderModel) expand() (topology.Topology, diag.Diagnostics) {
	t, err := m.config().Expand()
	if err != nil {
		return topology.Topology{}, configErrors(err)
	}
	return t, nil
}

// config is the ladder that the model describes, as far as it is known. What is null is left to the defaults.
func (m *ladderModel) config() cascade.Ladder {
	config := cascade.Ladder{
		Vhost:                  defaultVhost,
		Name:                   m.Name.ValueString(),
		EntryExchange:          m.EntryExchange.ValueString(),
		QueueName:              cascade.LabelFormat(m.QueueName.ValueString()),
		DeliveryExchange:       m.DeliveryExchange.ValueString(),
		CreateDeliveryExchange: m.CreateDeliveryExchange.IsNull() || m.CreateDeliveryExchange.ValueBool(),
		DeadLetterRoutingKey:   m.DeadLetterRoutingKey.ValueString(),
		QueueType:              cascade.QueueType(m.QueueType.ValueString()),
		MaxLength:              m.MaxLength.ValueInt64(),
		ParkUnroutable:         m.ParkUnroutable.IsNull() || m.ParkUnroutable.ValueBool(),
	}
	if !m.Vhost.IsNull() {
		config.Vhost = m.Vhost.ValueString()
	}
	for _, element := range m.Delays.Elements() {
		if label, ok := element.(types.String); ok && !label.IsUnknown() {
			config.Delays = append(config.Delays, label.ValueString())
		}
	}
	return config
}

// delaysKnown tells whether the set and all that is in it is known.
func (m *ladderModel) delaysKnown() bool {
	for _, element := range m.Delays.Elements() {
		if element.IsUnknown() {
			return false
		}
	}
	return !m.Delays.IsUnknown()
}

// isKnown implements declaration.
func (m *ladderModel) isKnown() bool {
	return m.declaredModel.isKnown(m.DeadLetterRoutingKey, m.EntryExchange) && m.delaysKnown()
}

// digits implements declaration: the label of the delay stands before the address.
func (*ladderModel) digits() int { return 1 }

// delayPosition is what tells the queues of a ladder from each other.
var delayPosition = position{"delay", "Delay as it stands in `delays`, null for the queue of unroutable messages.", types.StringNull()}

// labelsOf is the label of each delay queue by its name.
func labelsOf(resolved cascade.Ladder) map[string]attr.Value {
	labels := map[string]attr.Value{}
	for _, label := range resolved.Delays {
		labels[resolved.QueueName.Name(label)] = types.StringValue(label)
	}
	return labels
}

// computeLadder expands a configuration. An error is of type cascade.Errors.
func computeLadder(config cascade.Ladder) (declaredComputed, error) {
	resolved, err := config.Resolve()
	if err != nil {
		return declaredComputed{}, err
	}
	t, err := resolved.Expand()
	if err != nil {
		return declaredComputed{}, err
	}
	return computeDeclared(t, resolved.QueueType, resolved.ParkUnroutable, string(resolved.QueueName), delayPosition.queues(labelsOf(resolved), t)), nil
}

// setActual writes what a broker has into the model.
func (m *ladderModel) setActual(actual topology.Topology) diag.Diagnostics {
	resolved, err := m.config().Resolve()
	if err != nil {
		return configErrors(err)
	}
	m.declaredModel.setActual(actual, delayPosition.queues(labelsOf(resolved), actual))
	return nil
}

// recognize is the state of a ladder that is on a broker, before its objects are read.
func (m *ladderModel) recognize(ctx context.Context, look cascade.Lookup, vhost, entry string) error {
	config, err := cascade.RecognizeLadder(ctx, look, vhost, entry)
	if err != nil {
		return err
	}
	c, err := computeLadder(config)
	if err != nil {
		return err
	}
	*m = ladderModel{declaredModel: imported(config.Name, config.Vhost, config.CreateDeliveryExchange, config.MaxLength, c)}
	delays := make([]attr.Value, len(config.Delays))
	for i, label := range config.Delays {
		delays[i] = types.StringValue(label)
	}
	m.Delays = types.SetValueMust(types.StringType, delays)
	if config.DeadLetterRoutingKey != "" {
		m.DeadLetterRoutingKey = types.StringValue(config.DeadLetterRoutingKey)
	}
	return nil
}

// forecast is what can be said of a configuration some of whose values are not known yet.
func (m *ladderModel) forecast(ctx context.Context) (declaredComputed, diag.Diagnostics) {
	var diags diag.Diagnostics
	result, errs, err := forecast(ctx, m.trials(m.config()), computeLadder)
	if err != nil {
		diags.AddError("Expanding the ladder failed", err.Error())
	}
	if result == nil {
		if len(errs) > 0 {
			diags.Append(configErrors(errs)...)
		}
		return unknownDeclared(delayPosition), diags
	}
	return *result, diags
}

// trials are configurations that differ in what is unknown in the model. The values are chosen so
// that some of them pass every check and any two of them give different objects.
func (m *ladderModel) trials(base cascade.Ladder) []cascade.Ladder {
	type vary = func(*cascade.Ladder)
	texts := func(set func(*cascade.Ladder, string), values ...string) []vary {
		var each []vary
		for _, value := range values {
			each = append(each, func(l *cascade.Ladder) { set(l, value) })
		}
		return each
	}
	flags := func(set func(*cascade.Ladder, bool)) []vary {
		return []vary{func(l *cascade.Ladder) { set(l, true) }, func(l *cascade.Ladder) { set(l, false) }}
	}
	var unknown variants[cascade.Ladder]
	unknown.add(m.Vhost, texts(func(l *cascade.Ladder, v string) { l.Vhost = v }, "a")...)
	unknown.add(m.Name, texts(func(l *cascade.Ladder, v string) { l.Name = v }, "name~a", "name~b")...)
	unknown.add(m.EntryExchange, texts(func(l *cascade.Ladder, v string) { l.EntryExchange = v }, "entry~a", "entry~b")...)
	unknown.add(m.QueueName, texts(func(l *cascade.Ladder, v string) { l.QueueName = cascade.LabelFormat(v) }, "queue~a%s", "queue~b%s")...)
	unknown.add(m.DeliveryExchange, texts(func(l *cascade.Ladder, v string) { l.DeliveryExchange = v }, "delivery~a", "delivery~b")...)
	unknown.add(m.DeadLetterRoutingKey, texts(func(l *cascade.Ladder, v string) { l.DeadLetterRoutingKey = v }, "key~a", "")...)
	unknown.add(m.QueueType, texts(func(l *cascade.Ladder, v string) { l.QueueType = cascade.QueueType(v) }, string(cascade.Quorum), string(cascade.Classic))...)
	unknown.add(m.CreateDeliveryExchange, flags(func(l *cascade.Ladder, v bool) { l.CreateDeliveryExchange = v })...)
	unknown.add(m.ParkUnroutable, flags(func(l *cascade.Ladder, v bool) { l.ParkUnroutable = v })...)
	unknown.add(m.MaxLength, func(l *cascade.Ladder) { l.MaxLength = 0 }, func(l *cascade.Ladder) { l.MaxLength = 1 })
	if !m.delaysKnown() {
		known := base.Delays
		var delays []vary
		// A single known delay may be all there is, so that the name of its queue needs no verb.
		for _, further := range [][]string{{"11119ms"}, {"22229ms"}} {
			delays = append(delays, func(l *cascade.Ladder) { l.Delays = append(append([]string(nil), known...), further...) })
		}
		if len(known) > 0 {
			delays = append(delays, func(l *cascade.Ladder) { l.Delays = known })
		}
		unknown = append(unknown, delays)
	}
	return unknown.trials(base)
}
