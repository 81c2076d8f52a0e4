package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

type cascadeModel struct {
	declaredModel
	Preset         types.String         `tfsdk:"preset"`
	Levels         types.Int64          `tfsdk:"levels"`
	MaxDelay       timetypes.GoDuration `tfsdk:"max_delay"`
	Resolution     timetypes.GoDuration `tfsdk:"resolution"`
	ExchangeName   types.String         `tfsdk:"exchange_name"`
	Lookahead      types.Int64          `tfsdk:"lookahead"`
	StrictKeys     types.Bool           `tfsdk:"strict_keys"`
	InternalLevels types.Bool           `tfsdk:"internal_levels"`
}

func (*cascadeModel) kind() string { return "cascade" }

// isKnown implements declaration.
func (m *cascadeModel) isKnown() bool {
	return m.declaredModel.isKnown(m.Preset, m.Levels, m.MaxDelay, m.Resolution, m.ExchangeName, m.Lookahead,
		m.StrictKeys, m.InternalLevels)
}

// digits implements declaration.
func (m *cascadeModel) digits() int { return int(m.Levels.ValueInt64()) }

// expand is the cascade that a state or a known plan stands for.
func (m *cascadeModel) expand() (topology.Topology, diag.Diagnostics) {
	config, diags := m.stateConfig()
	if diags.HasError() {
		return topology.Topology{}, diags
	}
	t, err := cascade.Expand(config)
	if err != nil {
		return topology.Topology{}, configErrors(err)
	}
	return t, nil
}

// config is the cascade that the model describes, as far as it is known. What is null is left to
// the defaults.
func (m cascadeModel) config() (cascade.Config, diag.Diagnostics) {
	var diags diag.Diagnostics
	duration := func(value timetypes.GoDuration) time.Duration {
		if value.IsNull() || value.IsUnknown() {
			return 0
		}
		d, more := value.ValueGoDuration()
		diags.Append(more...)
		return d
	}
	// A preset has neither strict keys nor internal levels nor parking.
	unlessPreset := func(value types.Bool) bool { return value.IsNull() && m.Preset.IsNull() || value.ValueBool() }
	config := cascade.Config{
		Vhost:                  defaultVhost,
		Name:                   m.Name.ValueString(),
		Preset:                 cascade.Preset(m.Preset.ValueString()),
		Levels:                 int(m.Levels.ValueInt64()),
		MaxDelay:               duration(m.MaxDelay),
		Resolution:             duration(m.Resolution),
		ExchangeName:           cascade.Format(m.ExchangeName.ValueString()),
		QueueName:              cascade.Format(m.QueueName.ValueString()),
		DeliveryExchange:       m.DeliveryExchange.ValueString(),
		CreateDeliveryExchange: m.CreateDeliveryExchange.IsNull() || m.CreateDeliveryExchange.ValueBool(),
		QueueType:              cascade.QueueType(m.QueueType.ValueString()),
		MaxLength:              m.MaxLength.ValueInt64(),
		Lookahead:              int(m.Lookahead.ValueInt64()),
		StrictKeys:             unlessPreset(m.StrictKeys),
		InternalLevels:         unlessPreset(m.InternalLevels),
		ParkUnroutable:         unlessPreset(m.ParkUnroutable),
	}
	if !m.Vhost.IsNull() {
		config.Vhost = m.Vhost.ValueString()
	}
	return config, diags
}

// emptyValues adds those of the cascade.
func (m *cascadeModel) emptyValues() emptyValues {
	empty := m.declaredModel.emptyValues()
	empty.texts(map[string]types.String{"preset": m.Preset, "exchange_name": m.ExchangeName})
	empty.count("levels", m.Levels)
	empty.count("lookahead", m.Lookahead)
	empty.duration("max_delay", m.MaxDelay)
	empty.duration("resolution", m.Resolution)
	return empty
}

// stateConfig is the cascade that a state describes. There, levels and longest delay stand beside
// each other; the levels decide.
func (m cascadeModel) stateConfig() (cascade.Config, diag.Diagnostics) {
	m.MaxDelay = timetypes.NewGoDurationNull()
	return m.config()
}

const defaultVhost = "/"

// levelPosition is what tells the queues of a cascade from each other.
var levelPosition = position{"level", "Level of a delay queue, null for the queue of unroutable messages.", types.Int64Null()}

// computed is what the provider works out from a configuration.
type computed struct {
	declaredComputed
	Levels         types.Int64
	Resolution     timetypes.GoDuration
	StrictKeys     types.Bool
	InternalLevels types.Bool
	MaxDelay       timetypes.GoDuration
	Lookahead      types.Int64
	ExchangeName   types.String
}

// compute expands a configuration. An error is of type cascade.Errors.
func compute(config cascade.Config) (computed, error) {
	resolved, err := config.Resolve()
	if err != nil {
		return computed{}, err
	}
	t, err := cascade.Expand(config)
	if err != nil {
		return computed{}, err
	}
	return computed{
		declaredComputed: computeDeclared(t, resolved.QueueType, resolved.ParkUnroutable, string(resolved.QueueName), levelPosition.queues(levelsOf(resolved), t)),
		Levels:           types.Int64Value(int64(resolved.Levels)),
		Resolution:       timetypes.NewGoDurationValue(resolved.Resolution),
		StrictKeys:       types.BoolValue(resolved.StrictKeys),
		InternalLevels:   types.BoolValue(resolved.InternalLevels),
		MaxDelay:         timetypes.NewGoDurationValue(resolved.MaxDelay),
		Lookahead:        types.Int64Value(int64(resolved.Lookahead)),
		ExchangeName:     types.StringValue(string(resolved.ExchangeName)),
	}, nil
}

// setActual writes what a broker has into the model.
func (m *cascadeModel) setActual(actual topology.Topology) diag.Diagnostics {
	config, diags := m.stateConfig()
	if diags.HasError() {
		return diags
	}
	resolved, err := config.Resolve()
	if err != nil {
		return configErrors(err)
	}
	m.declaredModel.setActual(actual, levelPosition.queues(levelsOf(resolved), actual))
	if m.InternalLevels.IsNull() {
		// The state is of a version that did not know the attribute.
		m.InternalLevels = types.BoolValue(internalLevels(resolved, actual))
	}
	return nil
}

// internalLevels tells whether an exchange below the entry is internal. Where there is none at all, what is
// configured holds.
func internalLevels(resolved cascade.Config, actual topology.Topology) bool {
	none := true
	for level := range resolved.Levels - 1 {
		e, exists := actual.Exchanges[resolved.ExchangeName.Name(level)]
		if e.Internal {
			return true
		}
		none = none && !exists
	}
	return none && resolved.InternalLevels
}

// levelsOf is the level of each delay queue by its name.
func levelsOf(resolved cascade.Config) map[string]attr.Value {
	levels := map[string]attr.Value{}
	for level := range resolved.Levels {
		levels[resolved.QueueName.Name(level)] = types.Int64Value(int64(level))
	}
	return levels
}

// recognize is the state of a cascade that is on a broker, before its objects are read.
func (m *cascadeModel) recognize(ctx context.Context, look cascade.Lookup, vhost, entry string) error {
	config, err := cascade.Recognize(ctx, look, vhost, entry)
	if err != nil {
		return err
	}
	c, err := compute(config)
	if err != nil {
		return err
	}
	*m = cascadeModel{declaredModel: imported(config.Name, config.Vhost, config.CreateDeliveryExchange, config.MaxLength, c.declaredComputed)}
	m.setComputed(cascadeModel{}, c)
	if config.Preset != "" {
		m.Preset = types.StringValue(string(config.Preset))
	}
	return nil
}

// forecast is what can be said of a configuration some of whose values are not known yet.
func (m cascadeModel) forecast(ctx context.Context) (computed, cascade.Errors, diag.Diagnostics) {
	base, diags := m.config()
	if diags.HasError() {
		return unknownComputed(), nil, diags
	}
	result, errs, err := forecast(ctx, m.trials(base), compute)
	if err != nil {
		diags.AddError("Expanding the cascade failed", err.Error())
	}
	if result == nil {
		return unknownComputed(), errs, diags
	}
	return *result, nil, diags
}

// trials are configurations that differ in what is unknown in the model. The values are chosen so
// that some of them pass every check and any two of them give different objects.
func (m cascadeModel) trials(base cascade.Config) []cascade.Config {
	type vary = func(*cascade.Config)
	var unknown variants[cascade.Config]
	add := unknown.add
	add(m.Vhost, func(c *cascade.Config) { c.Vhost = "a" })
	add(m.Name, func(c *cascade.Config) { c.Name = "name~a" }, func(c *cascade.Config) { c.Name = "name~b" })
	add(m.Preset, func(*cascade.Config) {}, func(c *cascade.Config) { c.Preset = cascade.NServiceBusV1 }, func(c *cascade.Config) { c.Preset = cascade.Celery })
	add(m.Resolution, func(c *cascade.Config) { c.Resolution = time.Second },
		func(c *cascade.Config) { c.Resolution = time.Millisecond }, func(c *cascade.Config) { c.Resolution = time.Hour })
	var levels []vary
	for _, n := range []int{28, 1, 2, 14, cascade.MaxLevels, 0} {
		levels = append(levels, func(c *cascade.Config) { c.Levels = n })
	}
	add(m.Levels, levels...)
	add(m.MaxDelay, func(c *cascade.Config) { c.MaxDelay = time.Hour }, func(c *cascade.Config) { c.MaxDelay = time.Millisecond },
		func(c *cascade.Config) { c.MaxDelay = 0 })
	add(m.ExchangeName, func(c *cascade.Config) { c.ExchangeName = "exchange~a%d" }, func(c *cascade.Config) { c.ExchangeName = "exchange~b%d" })
	add(m.QueueName, func(c *cascade.Config) { c.QueueName = "queue~a%d" }, func(c *cascade.Config) { c.QueueName = "queue~b%d" })
	add(m.DeliveryExchange, func(c *cascade.Config) { c.DeliveryExchange = "delivery~a" }, func(c *cascade.Config) { c.DeliveryExchange = "delivery~b" })
	add(m.CreateDeliveryExchange, func(c *cascade.Config) { c.CreateDeliveryExchange = true }, func(c *cascade.Config) { c.CreateDeliveryExchange = false })
	add(m.QueueType, func(c *cascade.Config) { c.QueueType = cascade.Quorum }, func(c *cascade.Config) { c.QueueType = cascade.Classic })
	add(m.MaxLength, func(c *cascade.Config) { c.MaxLength = 0 }, func(c *cascade.Config) { c.MaxLength = 1 })
	add(m.Lookahead, func(c *cascade.Config) { c.Lookahead = 1 }, func(c *cascade.Config) { c.Lookahead = 2 })
	add(m.StrictKeys, func(c *cascade.Config) { c.StrictKeys = true }, func(c *cascade.Config) { c.StrictKeys = false })
	add(m.InternalLevels, func(c *cascade.Config) { c.InternalLevels = true },
		func(c *cascade.Config) { c.InternalLevels = false })
	add(m.ParkUnroutable, func(c *cascade.Config) { c.ParkUnroutable = true }, func(c *cascade.Config) { c.ParkUnroutable = false })

	return unknown.trials(base)
}

func unknownComputed() computed {
	return computed{
		declaredComputed: unknownDeclared(levelPosition),
		Levels:           types.Int64Unknown(), MaxDelay: timetypes.NewGoDurationUnknown(), Lookahead: types.Int64Unknown(),
		Resolution: timetypes.NewGoDurationUnknown(), StrictKeys: types.BoolUnknown(),
		InternalLevels: types.BoolUnknown(), ExchangeName: types.StringUnknown(),
	}
}

// merge implements merger.
func (c computed) merge(ctx context.Context, other computed) computed {
	return computed{
		declaredComputed: c.declaredComputed.merge(ctx, other.declaredComputed),
		Levels:           common(ctx, c.Levels, other.Levels),
		Resolution:       common(ctx, c.Resolution, other.Resolution),
		StrictKeys:       common(ctx, c.StrictKeys, other.StrictKeys),
		InternalLevels:   common(ctx, c.InternalLevels, other.InternalLevels),
		MaxDelay:         common(ctx, c.MaxDelay, other.MaxDelay),
		Lookahead:        common(ctx, c.Lookahead, other.Lookahead),
		ExchangeName:     common(ctx, c.ExchangeName, other.ExchangeName),
	}
}
