package resource

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

type ladderModel struct {
	declaredModel
	Delays               types.Set    `tfsdk:"delays"`
	DeadLetterRoutingKey types.String `tfsdk:"dead_letter_routing_key"`
}

func (*ladderModel) kind() string { return "ladder" }

func (*ladderModel) exampleEntry() string { return "retry.entry" }

// expand is the ladder that a state or a known plan stands for.
func (m *ladderModel) expand() (topology.Topology, diag.Diagnostics) {
	resolved, err := m.config().Resolve()
	if err != nil {
		return topology.Topology{}, diagnose.ConfigErrors(err)
	}
	return resolved.Expand(), nil
}

// config is the ladder that the model describes, as far as it is known. Null values are left to the defaults.
func (m *ladderModel) config() delay.LadderConfig {
	config := delay.LadderConfig{
		Vhost:                  tfvalue.VhostOf(m.Vhost),
		Name:                   m.Name.ValueString(),
		EntryExchange:          m.EntryExchange.ValueString(),
		QueueName:              delay.LabelFormat(m.QueueName.ValueString()),
		DeliveryExchange:       m.DeliveryExchange.ValueString(),
		CreateDeliveryExchange: m.CreateDeliveryExchange.IsNull() || m.CreateDeliveryExchange.ValueBool(),
		DeadLetterRoutingKey:   m.DeadLetterRoutingKey.ValueString(),
		QueueType:              delay.QueueType(m.QueueType.ValueString()),
		QuorumOptions:          m.quorumOptions(),
		ParkUnroutable:         m.ParkUnroutable.IsNull() || m.ParkUnroutable.ValueBool(),
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
	return !m.Delays.IsUnknown() && !slices.ContainsFunc(m.Delays.Elements(), attr.Value.IsUnknown)
}

// isKnown implements declaration.
func (m *ladderModel) isKnown() bool {
	return m.declaredModel.isKnown(m.DeadLetterRoutingKey, m.EntryExchange) && m.delaysKnown()
}

// digits implements declaration: the label of the delay stands before the address.
func (*ladderModel) scale() delay.Scale { return delay.Scale{Levels: 1} }

// computeLadder expands a ladder.
func computeLadder(resolved delay.Ladder) computed {
	return computeDeclared(tfvalue.OfLadder(resolved), resolved.ParkUnroutable, string(resolved.QueueName))
}

// setActual writes what a broker has into the model.
func (m *ladderModel) setActual(actual topology.Topology) diag.Diagnostics {
	resolved, err := m.config().Resolve()
	if err != nil {
		return diagnose.ConfigErrors(err)
	}
	m.declaredModel.setActual(tfvalue.OfLadder(resolved), actual)
	return nil
}

// recognize is the state of a ladder that is on a broker, before its objects are read.
func (m *ladderModel) recognize(ctx context.Context, look recognize.Lookup, vhost, entry string) error {
	found, err := recognize.Ladder(ctx, look, vhost, entry)
	if err != nil {
		return err
	}
	*m = ladderModel{declaredModel: imported(found.Name, found.Vhost, found.CreateDeliveryExchange, found.QuorumOptions,
		computeLadder(found))}
	delays := make([]attr.Value, len(found.Delays))
	for i, label := range found.Delays {
		delays[i] = types.StringValue(label)
	}
	m.Delays = types.SetValueMust(types.StringType, delays)
	m.DeadLetterRoutingKey = tfvalue.TextOrNull(found.DeadLetterRoutingKey)
	return nil
}

// forecast is what can be said of a configuration some of whose values are not known yet.
func (m *ladderModel) forecast(ctx context.Context) (computed, delay.Errors) {
	return tryAll(ctx, m.trials(), delay.LadderConfig.Resolve, computeLadder)
}

// trials are configurations that differ in the unknown values of the model. The values are chosen so that some of them
// pass every check and any two of them give different objects.
func (m *ladderModel) trials() []delay.LadderConfig {
	type config = delay.LadderConfig
	var unknown variants[config]
	try(&unknown, m.Vhost, func(c *config, v string) { c.Vhost = v }, "a")
	try(&unknown, m.Name, func(c *config, v string) { c.Name = v }, "name~a", "name~b")
	try(&unknown, m.EntryExchange, func(c *config, v string) { c.EntryExchange = v }, "entry~a", "entry~b")
	try(&unknown, m.QueueName, func(c *config, v delay.LabelFormat) { c.QueueName = v }, "queue~a%s", "queue~b%s")
	try(&unknown, m.DeliveryExchange, func(c *config, v string) { c.DeliveryExchange = v }, "delivery~a", "delivery~b")
	try(&unknown, m.DeadLetterRoutingKey, func(c *config, v string) { c.DeadLetterRoutingKey = v }, "key~a", "")
	try(&unknown, m.QueueType, func(c *config, v delay.QueueType) { c.QueueType = v },
		delay.Quorum, delay.Classic)
	try(&unknown, m.CreateDeliveryExchange, func(c *config, v bool) { c.CreateDeliveryExchange = v }, true, false)
	try(&unknown, m.ParkUnroutable, func(c *config, v bool) { c.ParkUnroutable = v }, true, false)
	try(&unknown, m.MaxLength, func(c *config, v int64) { c.MaxLength = v }, 0, 1)
	try(&unknown, m.QueueLeaderLocator, func(c *config, v delay.LeaderLocator) { c.LeaderLocator = v },
		"", delay.Balanced)
	try(&unknown, m.QuorumInitialGroupSize, func(c *config, v int64) { c.InitialGroupSize = v }, 0, 1)
	if !m.delaysKnown() {
		known := m.config().Delays
		delays := [][]string{append(slices.Clone(known), "11119ms"), append(slices.Clone(known), "22229ms")}
		if len(known) > 0 { // a single one may be all there is, so that the name of its queue needs no verb
			delays = append(delays, known)
		}
		try(&unknown, types.SetUnknown(types.StringType), func(c *config, v []string) { c.Delays = v }, delays...)
	}
	return unknown.trials(m.config())
}

func (m *ladderModel) validate(ctx context.Context) diag.Diagnostics {
	empty := m.declaredModel.emptyValues()
	empty.texts(map[string]types.String{"entry_exchange": m.EntryExchange,
		"dead_letter_routing_key": m.DeadLetterRoutingKey})
	if len(empty) > 0 {
		return diagnose.ConfigErrors(delay.Errors(empty))
	}
	_, errs := m.forecast(ctx)
	return append(diagnose.ConfigErrors(errs), m.checkDrainTimeout(ctx)...)
}

func (m *ladderModel) setComputed(config *ladderModel, c computed) {
	m.declaredModel.setComputed(&config.declaredModel, c)
}

// alteredBy implements declaration. Delays come and go in place, unless a queue would have to get another TTL
// under its name.
func (m *ladderModel) alteredBy(plan *ladderModel) (path.Paths, diag.Diagnostics) {
	sameDelays := *plan
	sameDelays.Delays, sameDelays.CreateDeliveryExchange = m.Delays, m.CreateDeliveryExchange
	altered, diags := m.declaredModel.alteredBy(&plan.declaredModel, []change{
		{"entry_exchange", m.EntryExchange, plan.EntryExchange},
		{"dead_letter_routing_key", m.DeadLetterRoutingKey, plan.DeadLetterRoutingKey},
	}, m.expand, sameDelays.expand)
	if len(altered) > 0 || diags.HasError() || m.Delays.Equal(plan.Delays) || !plan.isKnown() {
		return altered, diags
	}
	before, diags := m.expand()
	after, more := plan.expand()
	diags.Append(more...)
	for name, q := range after.Queues {
		if had, exists := before.Queues[name]; exists && !had.Equal(q) {
			return path.Paths{path.Root("delays")}, diags
		}
	}
	return nil, diags
}
