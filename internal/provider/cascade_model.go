package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

type cascadeModel struct {
	declaredModel
	Name           types.String         `tfsdk:"name"`
	Preset         types.String         `tfsdk:"preset"`
	Levels         types.Int64          `tfsdk:"levels"`
	MaxDelay       timetypes.GoDuration `tfsdk:"max_delay"`
	Resolution     timetypes.GoDuration `tfsdk:"resolution"`
	ExchangeName   types.String         `tfsdk:"exchange_name"`
	QueueName      types.String         `tfsdk:"queue_name"`
	QueueType      types.String         `tfsdk:"queue_type"`
	MaxLength      types.Int64          `tfsdk:"max_length"`
	Lookahead      types.Int64          `tfsdk:"lookahead"`
	StrictKeys     types.Bool           `tfsdk:"strict_keys"`
	ParkUnroutable types.Bool           `tfsdk:"park_unroutable"`
}

func (*cascadeModel) kind() string { return "cascade" }

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
	// A preset has neither strict keys nor parking.
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
		ParkUnroutable:         unlessPreset(m.ParkUnroutable),
	}
	if !m.Vhost.IsNull() {
		config.Vhost = m.Vhost.ValueString()
	}
	return config, diags
}

// emptyValues reports what is given and says nothing: in a cascade.Config it would stand for a default.
func (m cascadeModel) emptyValues() (cascade.Errors, diag.Diagnostics) {
	var errs cascade.Errors
	var diags diag.Diagnostics
	for _, given := range []struct {
		attribute string
		value     types.String
	}{
		{"name", m.Name}, {"preset", m.Preset}, {"vhost", m.Vhost}, {"exchange_name", m.ExchangeName}, {"queue_name", m.QueueName},
		{"delivery_exchange", m.DeliveryExchange}, {"queue_type", m.QueueType},
	} {
		if !given.value.IsNull() && !given.value.IsUnknown() && given.value.ValueString() == "" {
			errs = append(errs, cascade.AttributeError{Attribute: given.attribute, Message: "is empty; give it a value or leave it out"})
		}
	}
	for _, given := range []struct {
		attribute string
		value     types.Int64
	}{{"levels", m.Levels}, {"max_length", m.MaxLength}, {"lookahead", m.Lookahead}} {
		if n := given.value.ValueInt64(); !given.value.IsNull() && !given.value.IsUnknown() && n < 1 {
			errs = append(errs, cascade.AttributeError{Attribute: given.attribute, Message: fmt.Sprintf("is %d; it has to be 1 or more", n)})
		}
	}
	for _, given := range []struct {
		attribute string
		value     timetypes.GoDuration
	}{{"max_delay", m.MaxDelay}, {"resolution", m.Resolution}, {"drain_timeout", m.DrainTimeout}} {
		if given.value.IsNull() || given.value.IsUnknown() {
			continue
		}
		d, more := given.value.ValueGoDuration()
		diags.Append(more...)
		if !more.HasError() && d <= 0 {
			errs = append(errs, cascade.AttributeError{Attribute: given.attribute, Message: fmt.Sprintf("is %s; it has to be positive", d)})
		}
	}
	return errs, diags
}

// stateConfig is the cascade that a state describes. There, levels and longest delay stand beside
// each other; the levels decide.
func (m cascadeModel) stateConfig() (cascade.Config, diag.Diagnostics) {
	m.MaxDelay = timetypes.NewGoDurationNull()
	return m.config()
}

const defaultVhost = "/"

// computed is what the provider works out from a configuration.
type computed struct {
	Levels           types.Int64
	Resolution       timetypes.GoDuration
	QueueType        types.String
	StrictKeys       types.Bool
	ParkUnroutable   types.Bool
	MaxDelay         timetypes.GoDuration
	Lookahead        types.Int64
	ExchangeName     types.String
	QueueName        types.String
	DeliveryExchange types.String
	EntryExchange    types.String
	Exchanges        types.Map
	Queues           types.Map
	Bindings         types.Map
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
		Levels:           types.Int64Value(int64(resolved.Levels)),
		Resolution:       timetypes.NewGoDurationValue(resolved.Resolution),
		QueueType:        types.StringValue(string(resolved.QueueType)),
		StrictKeys:       types.BoolValue(resolved.StrictKeys),
		ParkUnroutable:   types.BoolValue(resolved.ParkUnroutable),
		MaxDelay:         timetypes.NewGoDurationValue(resolved.MaxDelay),
		Lookahead:        types.Int64Value(int64(resolved.Lookahead)),
		ExchangeName:     types.StringValue(string(resolved.ExchangeName)),
		QueueName:        types.StringValue(string(resolved.QueueName)),
		DeliveryExchange: types.StringValue(resolved.DeliveryExchange),
		EntryExchange:    types.StringValue(t.Entry),
		Exchanges:        exchangesValue(t),
		Queues:           queuesValue(levelsOf(resolved), t),
		Bindings:         bindingsValue(t),
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
	m.EntryExchange = types.StringValue(actual.Entry)
	m.Exchanges = exchangesValue(actual)
	m.Queues = queuesValue(levelsOf(resolved), actual)
	m.Bindings = bindingsValue(actual)
	return nil
}

// levelsOf is the level of each delay queue by its name.
func levelsOf(resolved cascade.Config) map[string]int64 {
	levels := map[string]int64{}
	for level := range resolved.Levels {
		levels[resolved.QueueName.Name(level)] = int64(level)
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
	*m = cascadeModel{
		declaredModel: declaredModel{
			Vhost:                  types.StringValue(config.Vhost),
			DeliveryExchange:       c.DeliveryExchange,
			CreateDeliveryExchange: types.BoolValue(config.CreateDeliveryExchange),
			Adopt:                  types.BoolValue(false),
			ForceDestroy:           types.BoolValue(false),
			DrainTimeout:           timetypes.NewGoDurationNull(),
			Timeouts: timeouts.Value{Object: types.ObjectNull(map[string]attr.Type{
				"create": types.StringType, "read": types.StringType, "update": types.StringType, "delete": types.StringType,
			})},
			EntryExchange: c.EntryExchange,
			Exchanges:     c.Exchanges,
			Queues:        c.Queues,
			Bindings:      c.Bindings,
		},
		Name:           types.StringNull(),
		Levels:         c.Levels,
		MaxDelay:       c.MaxDelay,
		Resolution:     c.Resolution,
		ExchangeName:   c.ExchangeName,
		QueueName:      c.QueueName,
		QueueType:      c.QueueType,
		MaxLength:      types.Int64Null(),
		Lookahead:      c.Lookahead,
		StrictKeys:     c.StrictKeys,
		ParkUnroutable: c.ParkUnroutable,
	}
	if config.Name != "" {
		m.Name = types.StringValue(config.Name)
	}
	if config.Preset != "" {
		m.Preset = types.StringValue(string(config.Preset))
	}
	if config.MaxLength > 0 {
		m.MaxLength = types.Int64Value(config.MaxLength)
	}
	return nil
}

// forecast is what can be said of a configuration some of whose values are not known yet. It is
// found by trying: the known part is expanded with several values in the place of each unknown one,
// and what comes out the same every time does not depend on what is unknown. Errors are those that
// no value would mend.
func (m cascadeModel) forecast(ctx context.Context) (computed, cascade.Errors, diag.Diagnostics) {
	base, diags := m.config()
	if diags.HasError() {
		return unknownComputed(), nil, diags
	}
	trials := m.trials(base)
	var result *computed
	var common cascade.Errors
	for i, trial := range trials {
		got, err := compute(trial)
		var errs cascade.Errors
		if err != nil && !errors.As(err, &errs) {
			diags.AddError("Expanding the cascade failed", err.Error())
			return unknownComputed(), nil, diags
		}
		if i == 0 {
			common = errs
		}
		common = slices.DeleteFunc(common, func(e cascade.AttributeError) bool {
			return !slices.ContainsFunc(errs, func(other cascade.AttributeError) bool { return other.Attribute == e.Attribute })
		})
		switch {
		case err != nil:
		case result == nil:
			result = &got
		default:
			*result = result.merge(ctx, got)
		}
	}
	if result == nil {
		return unknownComputed(), common, diags
	}
	return *result, nil, diags
}

// trials are configurations that differ in what is unknown in the model. The values are chosen so
// that some of them pass every check and any two of them give different objects.
func (m cascadeModel) trials(base cascade.Config) []cascade.Config {
	type vary func(*cascade.Config)
	var unknown [][]vary
	add := func(value attr.Value, variants ...vary) {
		if value.IsUnknown() {
			unknown = append(unknown, variants)
		}
	}
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
	add(m.ParkUnroutable, func(c *cascade.Config) { c.ParkUnroutable = true }, func(c *cascade.Config) { c.ParkUnroutable = false })

	for _, variants := range unknown {
		variants[0](&base)
	}
	trials := []cascade.Config{base}
	for _, variants := range unknown {
		for _, set := range variants[1:] {
			trial := base
			set(&trial)
			trials = append(trials, trial)
		}
	}
	return trials
}

func unknownComputed() computed {
	return computed{
		Levels: types.Int64Unknown(), MaxDelay: timetypes.NewGoDurationUnknown(), Lookahead: types.Int64Unknown(),
		Resolution: timetypes.NewGoDurationUnknown(), QueueType: types.StringUnknown(), StrictKeys: types.BoolUnknown(), ParkUnroutable: types.BoolUnknown(),
		ExchangeName: types.StringUnknown(), QueueName: types.StringUnknown(), DeliveryExchange: types.StringUnknown(),
		EntryExchange: types.StringUnknown(),
		Exchanges:     types.MapUnknown(exchangeType), Queues: types.MapUnknown(queueType), Bindings: types.MapUnknown(linesType),
	}
}

// merge keeps what is the same in both and makes the rest unknown.
func (c computed) merge(ctx context.Context, other computed) computed {
	return computed{
		Levels:           common(ctx, c.Levels, other.Levels),
		Resolution:       common(ctx, c.Resolution, other.Resolution),
		QueueType:        common(ctx, c.QueueType, other.QueueType),
		StrictKeys:       common(ctx, c.StrictKeys, other.StrictKeys),
		ParkUnroutable:   common(ctx, c.ParkUnroutable, other.ParkUnroutable),
		MaxDelay:         common(ctx, c.MaxDelay, other.MaxDelay),
		Lookahead:        common(ctx, c.Lookahead, other.Lookahead),
		ExchangeName:     common(ctx, c.ExchangeName, other.ExchangeName),
		QueueName:        common(ctx, c.QueueName, other.QueueName),
		DeliveryExchange: common(ctx, c.DeliveryExchange, other.DeliveryExchange),
		EntryExchange:    common(ctx, c.EntryExchange, other.EntryExchange),
		Exchanges:        common(ctx, c.Exchanges, other.Exchanges),
		Queues:           common(ctx, c.Queues, other.Queues),
		Bindings:         common(ctx, c.Bindings, other.Bindings),
	}
}

// common is the value if both are equal, a map or object with the common part if they have the same
// keys, and unknown otherwise.
func common[T attr.Value](ctx context.Context, x, y T) T {
	merged, _ := commonValue(ctx, x, y).(T)
	return merged
}

func commonValue(ctx context.Context, x, y attr.Value) attr.Value {
	if x.Equal(y) {
		return x
	}
	switch x := x.(type) {
	case types.Map:
		y, ok := y.(types.Map)
		if !ok || x.IsUnknown() || y.IsUnknown() || !sameKeys(x.Elements(), y.Elements()) {
			return types.MapUnknown(x.ElementType(ctx))
		}
		elements := map[string]attr.Value{}
		for key, value := range x.Elements() {
			elements[key] = commonValue(ctx, value, y.Elements()[key])
		}
		return types.MapValueMust(x.ElementType(ctx), elements)
	case types.Object:
		y, ok := y.(types.Object)
		if !ok || x.IsUnknown() || y.IsUnknown() {
			return types.ObjectUnknown(x.AttributeTypes(ctx))
		}
		attributes := map[string]attr.Value{}
		for key, value := range x.Attributes() {
			attributes[key] = commonValue(ctx, value, y.Attributes()[key])
		}
		return types.ObjectValueMust(x.AttributeTypes(ctx), attributes)
	case types.Set:
		return types.SetUnknown(x.ElementType(ctx))
	case types.String:
		return types.StringUnknown()
	case types.Int64:
		return types.Int64Unknown()
	case types.Bool:
		return types.BoolUnknown()
	default:
		return timetypes.NewGoDurationUnknown()
	}
}

func sameKeys(x, y map[string]attr.Value) bool {
	return len(x) == len(y) && maps.EqualFunc(x, y, func(attr.Value, attr.Value) bool { return true })
}
