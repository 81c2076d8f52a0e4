package resource

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// declaredModel is the part of a model that every resource has which stands for a topology.
type declaredModel struct {
	operationModel
	Name                   types.String `tfsdk:"name"`
	Vhost                  types.String `tfsdk:"vhost"`
	QueueName              types.String `tfsdk:"queue_name"`
	DeliveryExchange       types.String `tfsdk:"delivery_exchange"`
	CreateDeliveryExchange types.Bool   `tfsdk:"create_delivery_exchange"`
	QueueType              types.String `tfsdk:"queue_type"`
	MaxLength              types.Int64  `tfsdk:"max_length"`
	QueueLeaderLocator     types.String `tfsdk:"queue_leader_locator"`
	QuorumInitialGroupSize types.Int64  `tfsdk:"quorum_initial_group_size"`
	ParkUnroutable         types.Bool   `tfsdk:"park_unroutable"`
	EntryExchange          types.String `tfsdk:"entry_exchange"`
	DeliveryExchangeType   types.String `tfsdk:"delivery_exchange_type"`
	Summary                types.String `tfsdk:"summary"`
	QueueArguments         types.Map    `tfsdk:"queue_arguments"`
	Exchanges              types.Map    `tfsdk:"exchanges"`
	Queues                 types.Map    `tfsdk:"queues"`
	Bindings               types.Map    `tfsdk:"bindings"`
}

func (d *declaredModel) common() *declaredModel { return d }

// isKnown tells whether these values and the further ones are known.
func (d *declaredModel) isKnown(further ...attr.Value) bool {
	values := append(slices.Clone(further), d.Name, d.Vhost, d.QueueName, d.DeliveryExchange,
		d.CreateDeliveryExchange, d.QueueType, d.MaxLength, d.QueueLeaderLocator,
		d.QuorumInitialGroupSize, d.ParkUnroutable)
	return !slices.ContainsFunc(values, attr.Value.IsUnknown)
}

// emptyValues reports values that are given and say nothing: in an expansion they would stand for a default.
func (d *declaredModel) emptyValues() emptyValues {
	var empty emptyValues
	empty.texts(map[string]types.String{
		"name": d.Name, "vhost": d.Vhost, "queue_name": d.QueueName, "delivery_exchange": d.DeliveryExchange,
		"queue_type": d.QueueType, "queue_leader_locator": d.QueueLeaderLocator,
	})
	empty.count("max_length", d.MaxLength)
	empty.count("quorum_initial_group_size", d.QuorumInitialGroupSize)
	empty.duration("drain_timeout", d.DrainTimeout)
	return empty
}

// imported is the state of something that was just recognized, before its objects are read.
func imported(name, vhost string, createsDelivery bool, options delay.QuorumOptions, c computed) declaredModel {
	d := declaredModel{
		operationModel: defaultOperation(),
		Name:           tfvalue.TextOrNull(name), Vhost: types.StringValue(vhost),
		CreateDeliveryExchange: types.BoolValue(createsDelivery),
		MaxLength:              tfvalue.NumberOrNull(options.MaxLength),
		QueueLeaderLocator:     tfvalue.TextOrNull(options.LeaderLocator),
		QuorumInitialGroupSize: tfvalue.NumberOrNull(options.InitialGroupSize),
	}
	d.setComputed(&declaredModel{}, c)
	return d
}

// quorumOptions are those of the model, as far as they are known.
func (d *declaredModel) quorumOptions() delay.QuorumOptions {
	return delay.QuorumOptions{
		MaxLength:        d.MaxLength.ValueInt64(),
		LeaderLocator:    delay.LeaderLocator(d.QueueLeaderLocator.ValueString()),
		InitialGroupSize: d.QuorumInitialGroupSize.ValueInt64(),
	}
}

// computeDeclared are the attributes that all such resources compute. The type of the delivery exchange is unknown
// where any type will do.
func computeDeclared(d tfvalue.Depiction, parks bool, queueName string) computed {
	return computed{
		"queue_type":             d.QueueType,
		"park_unroutable":        types.BoolValue(parks),
		"queue_name":             types.StringValue(queueName),
		"delivery_exchange":      types.StringValue(d.Desired.Delivery),
		"entry_exchange":         types.StringValue(d.Desired.Entry),
		"delivery_exchange_type": tfvalue.TextOrUnknown(d.Desired.DeliveryType),
		"summary":                types.StringValue(d.Summary),
		"queue_arguments":        d.QueueArguments(),
		"exchanges":              d.Exchanges(d.Desired, types.Map{}),
		"queues":                 d.Queues(d.Desired, types.Map{}),
		"bindings":               d.Bindings(d.Desired),
	}
}

// setComputed plans what the configuration leaves to the provider.
func (d *declaredModel) setComputed(config *declaredModel, c computed) {
	fill(&d.QueueType, config.QueueType, c, "queue_type")
	fill(&d.ParkUnroutable, config.ParkUnroutable, c, "park_unroutable")
	fill(&d.QueueName, config.QueueName, c, "queue_name")
	fill(&d.DeliveryExchange, config.DeliveryExchange, c, "delivery_exchange")
	fill(&d.EntryExchange, config.EntryExchange, c, "entry_exchange")
	fill(&d.Summary, config.Summary, c, "summary")
	fill(&d.QueueArguments, config.QueueArguments, c, "queue_arguments")
	fill(&d.Exchanges, config.Exchanges, c, "exchanges")
	fill(&d.Queues, config.Queues, c, "queues")
	fill(&d.Bindings, config.Bindings, c, "bindings")
	before := d.DeliveryExchangeType
	fill(&d.DeliveryExchangeType, config.DeliveryExchangeType, c, "delivery_exchange_type")
	if d.DeliveryExchangeType.IsUnknown() && !before.IsNull() {
		d.DeliveryExchangeType = before
	}
}

// setActual writes what a broker has into the model. A state of an older version knows neither summary nor arguments.
func (d *declaredModel) setActual(shows tfvalue.Depiction, actual topology.Topology) {
	d.EntryExchange = types.StringValue(actual.Entry)
	d.DeliveryExchangeType = tfvalue.TextOrNull(actual.DeliveryType)
	d.Summary = types.StringValue(shows.Summary)
	d.QueueArguments = shows.QueueArguments()
	d.Exchanges = shows.Exchanges(actual, d.Exchanges)
	d.Queues = shows.Queues(actual, d.Queues)
	d.Bindings = shows.Bindings(actual)
}

func (d *declaredModel) identity() identity {
	return identity{Vhost: d.Vhost, EntryExchange: d.EntryExchange}
}
