package resource

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/importid"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

type destinationModel struct {
	operationModel
	Vhost            types.String `tfsdk:"vhost"`
	DeliveryExchange types.String `tfsdk:"delivery_exchange"`
	Levels           types.Int64  `tfsdk:"levels"`
	Address          types.String `tfsdk:"address"`
	Match            types.String `tfsdk:"match"`
	Queue            types.String `tfsdk:"queue"`
	Exchange         types.String `tfsdk:"exchange"`
	Triggers         types.Map    `tfsdk:"triggers"`
	RoutingKey       types.String `tfsdk:"routing_key"`
	Leftovers        types.List   `tfsdk:"leftover_bindings"`
}

func (m *destinationModel) identity() destinationIdentity {
	return destinationIdentity{m.Vhost, m.DeliveryExchange, m.Queue, m.Exchange, m.RoutingKey}
}

// config is the destination that the model describes, as far as it is known. Null values are left to the defaults.
func (m *destinationModel) config() delay.Destination {
	config := delay.Destination{
		Vhost:            tfvalue.VhostOf(m.Vhost),
		DeliveryExchange: m.DeliveryExchange.ValueString(),
		Address:          m.Address.ValueString(),
		Match:            delay.Exact,
		Levels:           int(m.Levels.ValueInt64()),
		Queue:            m.Queue.ValueString(),
		Exchange:         m.Exchange.ValueString(),
	}
	if !m.Match.IsNull() {
		config.Match = delay.Match(m.Match.ValueString())
	}
	return config
}

// binding is what a state or a known plan stands for.
func (m *destinationModel) binding() (topology.Binding, diag.Diagnostics) {
	b, err := m.config().Binding()
	if err != nil {
		return b, diagnose.ConfigErrors(err)
	}
	return b, nil
}

// setBinding writes a binding that is on a broker into the model.
func (m *destinationModel) setBinding(vhost string, b topology.Binding) error {
	d, err := recognize.Destination(vhost, b)
	if err != nil {
		return err
	}
	m.Vhost = types.StringValue(vhost)
	m.DeliveryExchange = types.StringValue(d.DeliveryExchange)
	m.Address = types.StringValue(d.Address)
	m.Match = types.StringValue(string(d.Match))
	m.RoutingKey = types.StringValue(b.RoutingKey)
	m.Levels = tfvalue.NumberOrNull(d.Levels)
	m.Queue, m.Exchange = tfvalue.TextOrNull(d.Queue), tfvalue.TextOrNull(d.Exchange)
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
		_, b, err := importid.ParseBinding(text.ValueString())
		if err != nil {
			diags.AddError("Unreadable state", fmt.Sprintf("leftover_bindings: %s", err))
			continue
		}
		bindings = append(bindings, b)
	}
	return bindings, diags
}

func (m *destinationModel) setLeftovers(bindings []topology.Binding) {
	m.Leftovers = types.ListNull(types.StringType)
	if len(bindings) > 0 {
		var ids []attr.Value
		for _, id := range importid.Bindings(m.Vhost.ValueString(), bindings) {
			ids = append(ids, types.StringValue(id))
		}
		m.Leftovers = types.ListValueMust(types.StringType, ids)
	}
}

// emptyValues reports values that are given and say nothing: in a delay.Destination they would stand for omitted
// ones.
func (m *destinationModel) emptyValues() emptyValues {
	var empty emptyValues
	empty.texts(map[string]types.String{"vhost": m.Vhost, "match": m.Match, "queue": m.Queue, "exchange": m.Exchange})
	empty.count("levels", m.Levels)
	empty.duration("drain_timeout", m.DrainTimeout)
	return empty
}

// forecast is what can be said of a configuration some of whose values are not known yet.
func (m *destinationModel) forecast(ctx context.Context) (computed, diag.Diagnostics) {
	result, errs := tryAll(ctx, m.trials(), delay.Destination.Binding, func(b topology.Binding) computed {
		return computed{"routing_key": types.StringValue(b.RoutingKey)}
	})
	return result, diagnose.ConfigErrors(errs)
}

// trials are configurations that differ in the unknown values of the model, which may turn out to be null.
func (m *destinationModel) trials() []delay.Destination {
	type config = delay.Destination
	var unknown variants[config]
	try(&unknown, m.Vhost, func(c *config, v string) { c.Vhost = v }, "a")
	try(&unknown, m.DeliveryExchange, func(c *config, v string) { c.DeliveryExchange = v }, "delivery~a")
	try(&unknown, m.Address, func(c *config, v string) { c.Address = v }, "a", "b")
	try(&unknown, m.Match, func(c *config, v delay.Match) { c.Match = v }, delay.Exact, delay.Suffix)
	try(&unknown, m.Queue, func(c *config, v string) { c.Queue = v }, "", "queue~a")
	try(&unknown, m.Exchange, func(c *config, v string) { c.Exchange = v }, "", "exchange~a")
	try(&unknown, m.Levels, func(c *config, v int) { c.Levels = v }, 1, 2, 0)
	return unknown.combinations(m.config())
}

// who names a destination in the errors of others, for whom all that is known of it is what it stands for.
func (m *destinationModel) who(doing string) string {
	b, _ := m.binding()
	return fmt.Sprintf("the destination for address %q and %s %q, which is %s", m.Address.ValueString(),
		b.DestinationType, b.Destination, doing)
}
