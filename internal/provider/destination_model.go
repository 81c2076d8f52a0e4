package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

type destinationModel struct {
	Vhost            types.String         `tfsdk:"vhost"`
	DeliveryExchange types.String         `tfsdk:"delivery_exchange"`
	Levels           types.Int64          `tfsdk:"levels"`
	Address          types.String         `tfsdk:"address"`
	Match            types.String         `tfsdk:"match"`
	Queue            types.String         `tfsdk:"queue"`
	Exchange         types.String         `tfsdk:"exchange"`
	Adopt            types.Bool           `tfsdk:"adopt"`
	ForceDestroy     types.Bool           `tfsdk:"force_destroy"`
	DrainTimeout     timetypes.GoDuration `tfsdk:"drain_timeout"`
	Triggers         types.Map            `tfsdk:"triggers"`
	Timeouts         timeouts.Value       `tfsdk:"timeouts"`
	RoutingKey       types.String         `tfsdk:"routing_key"`
	Leftovers        types.List           `tfsdk:"leftover_bindings"`
}

func (m *destinationModel) identity() destinationIdentity {
	return destinationIdentity{m.Vhost, m.DeliveryExchange, m.Queue, m.Exchange, m.RoutingKey}
}

// config is the destination that the model describes, as far as it is known. What is null is left to the defaults.
func (m *destinationModel) config() cascade.Destination {
	config := cascade.Destination{
		Vhost:            defaultVhost,
		DeliveryExchange: m.DeliveryExchange.ValueString(),
		Address:          m.Address.ValueString(),
		Match:            cascade.Exact,
		Levels:           int(m.Levels.ValueInt64()),
		Queue:            m.Queue.ValueString(),
		Exchange:         m.Exchange.ValueString(),
	}
	if !m.Vhost.IsNull() {
		config.Vhost = m.Vhost.ValueString()
	}
	if !m.Match.IsNull() {
		config.Match = cascade.Match(m.Match.ValueString())
	}
	return config
}

// binding is what a state or a known plan stands for.
func (m *destinationModel) binding() (topology.Binding, diag.Diagnostics) {
	b, err := m.config().Binding()
	if err != nil {
		return b, configErrors(err)
	}
	return b, nil
}

// setBinding writes a binding that is on a broker into the model.
func (m *destinationModel) setBinding(vhost string, b topology.Binding) error {
	d, err := cascade.RecognizeDestination(vhost, b)
	if err != nil {
		return err
	}
	m.Vhost = types.StringValue(vhost)
	m.DeliveryExchange = types.StringValue(d.DeliveryExchange)
	m.Address = types.StringValue(d.Address)
	m.Match = types.StringValue(string(d.Match))
	m.RoutingKey = types.StringValue(b.RoutingKey)
	m.Levels, m.Queue, m.Exchange = types.Int64Null(), types.StringNull(), types.StringNull()
	if d.Levels > 0 {
		m.Levels = types.Int64Value(int64(d.Levels))
	}
	if d.Queue != "" {
		m.Queue = types.StringValue(d.Queue)
	} else {
		m.Exchange = types.StringValue(d.Exchange)
	}
	return nil
}

// leftovers are the bindings beside that of a state, the newest last.
func (m *destinationModel) leftovers() ([]topology.Binding, diag.Diagnostics) {
	var (
		bindings []topology.Binding
		diags    diag.Diagnostics
	)
	for _, each := range m.Leftovers.Elements() {
		text, _ := each.(types.String)
		id, err := parseDestinationID(text.ValueString())
		if err != nil {
			diags.AddError("Unreadable state", fmt.Sprintf("leftover_bindings: %s", err))
			continue
		}
		bindings = append(bindings, id.binding())
	}
	return bindings, diags
}

func (m *destinationModel) setLeftovers(bindings []topology.Binding) {
	m.Leftovers = types.ListNull(types.StringType)
	if len(bindings) > 0 {
		var ids []attr.Value
		for _, id := range destinationIDs(m.Vhost.ValueString(), bindings) {
			ids = append(ids, types.StringValue(id))
		}
		m.Leftovers = types.ListValueMust(types.StringType, ids)
	}
}

// emptyValues reports what is given and says nothing: in a cascade.Destination it would stand for what is left out.
func (m *destinationModel) emptyValues() *emptyValues {
	var empty emptyValues
	empty.texts(map[string]types.String{"vhost": m.Vhost, "match": m.Match, "queue": m.Queue, "exchange": m.Exchange})
	empty.count("levels", m.Levels)
	empty.duration("drain_timeout", m.DrainTimeout)
	return &empty
}

// destinationComputed is what the provider works out from a configuration.
type destinationComputed struct{ RoutingKey types.String }

func (c destinationComputed) merge(ctx context.Context, other destinationComputed) destinationComputed {
	return destinationComputed{common(ctx, c.RoutingKey, other.RoutingKey)}
}

// computeDestination expands a configuration. An error is of type cascade.Errors.
func computeDestination(config cascade.Destination) (destinationComputed, error) {
	b, err := config.Binding()
	return destinationComputed{types.StringValue(b.RoutingKey)}, err
}

// forecast is what can be said of a configuration some of whose values are not known yet.
func (m *destinationModel) forecast(ctx context.Context) (destinationComputed, diag.Diagnostics) {
	var diags diag.Diagnostics
	result, errs, err := forecast(ctx, m.trials(), computeDestination)
	if err != nil {
		diags.AddError("Computing the destination failed", err.Error())
	}
	if len(errs) > 0 {
		diags.Append(configErrors(errs)...)
	}
	if result == nil {
		return destinationComputed{types.StringUnknown()}, diags
	}
	return *result, diags
}

// trials are configurations that differ in what is unknown in the model, which may turn out to be null.
func (m *destinationModel) trials() []cascade.Destination {
	var unknown variants[cascade.Destination]
	add := func(value attr.Value, set func(*cascade.Destination, string), texts ...string) {
		var each []func(*cascade.Destination)
		for _, text := range texts {
			each = append(each, func(d *cascade.Destination) { set(d, text) })
		}
		unknown.add(value, each...)
	}
	add(m.Vhost, func(d *cascade.Destination, v string) { d.Vhost = v }, "a")
	add(m.DeliveryExchange, func(d *cascade.Destination, v string) { d.DeliveryExchange = v }, "delivery~a")
	add(m.Address, func(d *cascade.Destination, v string) { d.Address = v }, "a", "b")
	add(m.Match, func(d *cascade.Destination, v string) { d.Match = cascade.Match(v) }, string(cascade.Exact), string(cascade.Suffix))
	add(m.Queue, func(d *cascade.Destination, v string) { d.Queue = v }, "", "queue~a")
	add(m.Exchange, func(d *cascade.Destination, v string) { d.Exchange = v }, "", "exchange~a")
	unknown.add(m.Levels, func(d *cascade.Destination) { d.Levels = 1 }, func(d *cascade.Destination) { d.Levels = 2 }, func(d *cascade.Destination) { d.Levels = 0 })
	return unknown.combinations(m.config())
}
