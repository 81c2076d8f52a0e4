package resource

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

type cascadeModel struct {
	declaredModel
	Preset         types.String         `tfsdk:"preset"`
	Base           types.Int64          `tfsdk:"base"`
	Levels         types.Int64          `tfsdk:"levels"`
	MaxDelay       timetypes.GoDuration `tfsdk:"max_delay"`
	Resolution     timetypes.GoDuration `tfsdk:"resolution"`
	ExchangeName   types.String         `tfsdk:"exchange_name"`
	Lookahead      types.Int64          `tfsdk:"lookahead"`
	StrictKeys     types.Bool           `tfsdk:"strict_keys"`
	InternalLevels types.Bool           `tfsdk:"internal_levels"`
	Publisher      types.Object         `tfsdk:"publisher"`
	Policies       types.Map            `tfsdk:"policies"`
}

func (*cascadeModel) kind() string { return "cascade" }

func (*cascadeModel) exampleEntry() string { return "tasks.delay-16" }

// isKnown implements declaration.
func (m *cascadeModel) isKnown() bool {
	return m.declaredModel.isKnown(m.Preset, m.Base, m.Levels, m.MaxDelay, m.Resolution, m.ExchangeName,
		m.Lookahead, m.StrictKeys, m.InternalLevels)
}

// scale implements declaration.
func (m *cascadeModel) scale() delay.Scale {
	return delay.Scale{Base: int(m.Base.ValueInt64()), Levels: int(m.Levels.ValueInt64()),
		Resolution: tfvalue.DurationOf(m.Resolution)}
}

// expand is the cascade that a state or a known plan stands for.
func (m *cascadeModel) expand() (topology.Topology, diag.Diagnostics) {
	resolved, diags := m.resolve()
	if diags.HasError() {
		return topology.Topology{}, diags
	}
	return resolved.Expand(), nil
}

func (m *cascadeModel) resolve() (delay.Cascade, diag.Diagnostics) {
	resolved, err := m.config().Resolve()
	if err != nil {
		return delay.Cascade{}, diagnose.ConfigErrors(err)
	}
	return resolved, nil
}

// config is the cascade that the model describes, as far as it is known. Null values are left to the defaults.
func (m cascadeModel) config() delay.Config {
	// A preset has neither strict keys nor internal levels, and parking only if that is given.
	unlessPreset := func(value types.Bool) bool { return value.IsNull() && m.Preset.IsNull() || value.ValueBool() }
	return delay.Config{
		Vhost:                  tfvalue.VhostOf(m.Vhost),
		Name:                   m.Name.ValueString(),
		Preset:                 delay.Preset(m.Preset.ValueString()),
		Base:                   int(m.Base.ValueInt64()),
		Levels:                 int(m.Levels.ValueInt64()),
		MaxDelay:               tfvalue.DurationOf(m.MaxDelay),
		Resolution:             tfvalue.DurationOf(m.Resolution),
		ExchangeName:           delay.Format(m.ExchangeName.ValueString()),
		QueueName:              delay.Format(m.QueueName.ValueString()),
		DeliveryExchange:       m.DeliveryExchange.ValueString(),
		CreateDeliveryExchange: m.CreateDeliveryExchange.IsNull() || m.CreateDeliveryExchange.ValueBool(),
		QueueType:              delay.QueueType(m.QueueType.ValueString()),
		QuorumOptions:          m.quorumOptions(),
		Lookahead:              int(m.Lookahead.ValueInt64()),
		StrictKeys:             unlessPreset(m.StrictKeys),
		InternalLevels:         unlessPreset(m.InternalLevels),
		ParkUnroutable:         unlessPreset(m.ParkUnroutable),
	}
}

// emptyValues adds those of the cascade.
func (m *cascadeModel) emptyValues() emptyValues {
	empty := m.declaredModel.emptyValues()
	empty.texts(map[string]types.String{"preset": m.Preset, "exchange_name": m.ExchangeName})
	if tfvalue.IsGiven(m.Base) && m.Base.ValueInt64() == 0 { // which would stand for the default
		empty.add("base", "is 0; it can be %d to %d", delay.MinBase, delay.MaxBase)
	}
	empty.count("levels", m.Levels)
	empty.count("lookahead", m.Lookahead)
	empty.duration("max_delay", m.MaxDelay)
	empty.duration("resolution", m.Resolution)
	return empty
}

// compute expands a cascade.
func compute(resolved delay.Cascade) computed {
	shows := tfvalue.OfCascade(resolved)
	c := computeDeclared(shows, resolved.ParkUnroutable, string(resolved.QueueName))
	c["base"] = types.Int64Value(int64(resolved.Base))
	c["levels"] = types.Int64Value(int64(resolved.Levels))
	c["resolution"] = tfvalue.DurationValue(resolved.Resolution)
	c["strict_keys"] = types.BoolValue(resolved.StrictKeys)
	c["internal_levels"] = types.BoolValue(resolved.InternalLevels)
	c["max_delay"] = tfvalue.DurationValue(resolved.MaxDelay)
	c["lookahead"] = types.Int64Value(int64(resolved.Lookahead))
	c["exchange_name"] = types.StringValue(string(resolved.ExchangeName))
	c["publisher"] = tfvalue.PublisherValue(resolved)
	c["policies"] = tfvalue.PoliciesValue(shows.Desired, shows.Desired)
	return c
}

// setActual writes what a broker has into the model.
func (m *cascadeModel) setActual(actual topology.Topology) diag.Diagnostics {
	resolved, diags := m.resolve()
	if diags.HasError() {
		return diags
	}
	shows := tfvalue.OfCascade(resolved)
	m.declaredModel.setActual(shows, actual)
	m.Publisher = tfvalue.PublisherValue(resolved)
	m.Policies = tfvalue.PoliciesValue(shows.Desired, actual)
	// A state of an older version does not know the attributes.
	m.Base = types.Int64Value(int64(resolved.Base))
	if m.InternalLevels.IsNull() {
		m.InternalLevels = types.BoolValue(internalLevels(resolved, actual))
	}
	return nil
}

// internalLevels tells whether an exchange below the entry is internal. Where there is none at all, the configured
// value holds.
func internalLevels(resolved delay.Cascade, actual topology.Topology) bool {
	none := true
	for level := range resolved.Levels - 1 {
		e, exists := actual.Exchanges[resolved.Exchange(level)]
		if e.Internal {
			return true
		}
		none = none && !exists
	}
	return none && resolved.InternalLevels
}

// recognize is the state of a cascade that is on a broker, before its objects are read.
func (m *cascadeModel) recognize(ctx context.Context, look recognize.Lookup, vhost, entry string) error {
	found, err := recognize.Cascade(ctx, look, vhost, entry)
	if err != nil {
		return err
	}
	c := compute(found)
	*m = cascadeModel{declaredModel: imported(found.Name, found.Vhost, found.CreateDeliveryExchange,
		found.QuorumOptions, c)}
	m.setComputed(&cascadeModel{}, c)
	m.Preset = tfvalue.TextOrNull(found.Preset)
	return nil
}

// forecast is what can be said of a configuration some of whose values are not known yet.
func (m cascadeModel) forecast(ctx context.Context) (computed, delay.Errors) {
	return tryAll(ctx, m.trials(), delay.Config.Resolve, compute)
}

// trials are configurations that differ in the unknown values of the model. The values are chosen so that some of them
// pass every check and any two of them give different objects.
func (m cascadeModel) trials() []delay.Config {
	type config = delay.Config
	var unknown variants[config]
	try(&unknown, m.Vhost, func(c *config, v string) { c.Vhost = v }, "a")
	try(&unknown, m.Name, func(c *config, v string) { c.Name = v }, "name~a", "name~b")
	try(&unknown, m.Preset, func(c *config, v delay.Preset) { c.Preset = v },
		"", delay.NServiceBusV1, delay.Celery)
	try(&unknown, m.Base, func(c *config, v int) {
		if c.Base = v; v > 2 && m.QueueName.IsUnknown() {
			c.QueueName = "queue~a%d-%x"
		}
	}, 2, 3, 10, 16)
	try(&unknown, m.Resolution, func(c *config, v time.Duration) { c.Resolution = v },
		time.Second, time.Millisecond, time.Hour)
	try(&unknown, m.Levels, func(c *config, v int) { c.Levels = v }, 28, 1, 2, 14, delay.MaxLevels, 0)
	try(&unknown, m.MaxDelay, func(c *config, v time.Duration) { c.MaxDelay = v }, time.Hour, time.Millisecond, 0)
	try(&unknown, m.ExchangeName, func(c *config, v delay.Format) { c.ExchangeName = v },
		"exchange~a%d", "exchange~b%d")
	try(&unknown, m.QueueName, func(c *config, v delay.Format) { c.QueueName = v }, "queue~a%d", "queue~b%d",
		"queue~a%d-%x", "queue~b%d-%x")
	try(&unknown, m.DeliveryExchange, func(c *config, v string) { c.DeliveryExchange = v }, "delivery~a", "delivery~b")
	try(&unknown, m.CreateDeliveryExchange, func(c *config, v bool) { c.CreateDeliveryExchange = v }, true, false)
	try(&unknown, m.QueueType, func(c *config, v delay.QueueType) { c.QueueType = v },
		delay.Quorum, delay.Classic)
	try(&unknown, m.MaxLength, func(c *config, v int64) { c.MaxLength = v }, 0, 1)
	try(&unknown, m.QueueLeaderLocator, func(c *config, v delay.LeaderLocator) { c.LeaderLocator = v },
		"", delay.Balanced)
	try(&unknown, m.QuorumInitialGroupSize, func(c *config, v int64) { c.InitialGroupSize = v }, 0, 1)
	try(&unknown, m.Lookahead, func(c *config, v int) { c.Lookahead = v }, 1, 2)
	try(&unknown, m.StrictKeys, func(c *config, v bool) { c.StrictKeys = v }, true, false)
	try(&unknown, m.InternalLevels, func(c *config, v bool) { c.InternalLevels = v }, true, false)
	try(&unknown, m.ParkUnroutable, func(c *config, v bool) { c.ParkUnroutable = v }, true, false)
	return unknown.trials(m.config())
}

func (m *cascadeModel) validate(ctx context.Context) diag.Diagnostics {
	if empty := m.emptyValues(); len(empty) > 0 {
		return diagnose.ConfigErrors(delay.Errors(empty))
	}
	if _, errs := m.forecast(ctx); len(errs) > 0 {
		return diagnose.ConfigErrors(errs)
	}
	return m.checkDrainTimeout(ctx)
}

// setComputed plans what the configuration leaves to the provider.
func (m *cascadeModel) setComputed(config *cascadeModel, c computed) {
	m.declaredModel.setComputed(&config.declaredModel, c)
	fill(&m.Base, config.Base, c, "base")
	fill(&m.Levels, config.Levels, c, "levels")
	fill(&m.MaxDelay, config.MaxDelay, c, "max_delay")
	fill(&m.Resolution, config.Resolution, c, "resolution")
	fill(&m.StrictKeys, config.StrictKeys, c, "strict_keys")
	fill(&m.InternalLevels, config.InternalLevels, c, "internal_levels")
	fill(&m.Lookahead, config.Lookahead, c, "lookahead")
	fill(&m.ExchangeName, config.ExchangeName, c, "exchange_name")
	fill(&m.Publisher, config.Publisher, c, "publisher")
	fill(&m.Policies, config.Policies, c, "policies")
}

func (m *cascadeModel) alteredBy(plan *cascadeModel) (path.Paths, diag.Diagnostics) {
	sameOwner := *plan
	sameOwner.CreateDeliveryExchange = m.CreateDeliveryExchange
	return m.declaredModel.alteredBy(&plan.declaredModel, []change{
		{"preset", m.Preset, plan.Preset},
		{"base", m.Base, plan.Base},
		{"levels", m.Levels, plan.Levels},
		{"resolution", m.Resolution, plan.Resolution},
		{"exchange_name", m.ExchangeName, plan.ExchangeName},
		{"internal_levels", m.InternalLevels, plan.InternalLevels},
	}, m.expand, sameOwner.expand)
}
