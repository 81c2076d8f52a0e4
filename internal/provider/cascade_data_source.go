package provider

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

var _ datasource.DataSourceWithConfigure = (*cascadeDataSource)(nil)

func newCascadeDataSource() datasource.DataSource { return &cascadeDataSource{} }

type cascadeDataSource struct{ connection *connection }

// observedModel is what flows in a cascade.
type observedModel struct {
	Vhost            types.String         `tfsdk:"vhost"`
	EntryExchange    types.String         `tfsdk:"entry_exchange"`
	DeliveryExchange types.String         `tfsdk:"delivery_exchange"`
	Levels           types.Int64          `tfsdk:"levels"`
	Resolution       timetypes.GoDuration `tfsdk:"resolution"`
	MaxDelay         timetypes.GoDuration `tfsdk:"max_delay"`
	QueueType        types.String         `tfsdk:"queue_type"`
	Lookahead        types.Int64          `tfsdk:"lookahead"`
	Queues           []observedQueue      `tfsdk:"queues"`
	Messages         types.Int64          `tfsdk:"messages"`
	Unroutable       types.Int64          `tfsdk:"unroutable_messages"`
	Findings         []observedFinding    `tfsdk:"findings"`
}

type observedQueue struct {
	Level      types.Int64  `tfsdk:"level"`
	Name       types.String `tfsdk:"name"`
	MessageTTL types.Int64  `tfsdk:"message_ttl"`
	Messages   types.Int64  `tfsdk:"messages"`
	Consumers  types.Int64  `tfsdk:"consumers"`
}

type observedFinding struct {
	Severity types.String `tfsdk:"severity"`
	Object   types.String `tfsdk:"object"`
	Cause    types.String `tfsdk:"cause"`
	Effect   types.String `tfsdk:"effect"`
}

func (d *cascadeDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cascade"
}

func (d *cascadeDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "What flows through a delay cascade right now, whoever declared it: messages and consumers for each level, and everything that " +
			"changes what happens to messages. For `check` blocks and dashboards.\n\n" +
			"The configuration is read off the broker, as an import does. Numbers of messages come from the management API, which lags by up to nine seconds.",
		Attributes: map[string]schema.Attribute{
			"vhost":             schema.StringAttribute{Optional: true, MarkdownDescription: "Virtual host. Default: `/`."},
			"entry_exchange":    schema.StringAttribute{Required: true, MarkdownDescription: "The exchange that publishers use: that of the highest level.", Validators: notEmpty},
			"delivery_exchange": schema.StringAttribute{Computed: true, MarkdownDescription: "Exchange at the end of the cascade."},
			"levels":            schema.Int64Attribute{Computed: true, MarkdownDescription: "Number of delay queues."},
			"resolution":        schema.StringAttribute{Computed: true, CustomType: timetypes.GoDurationType{}, MarkdownDescription: "Time-to-live of level 0 and step of all delays."},
			"max_delay":         schema.StringAttribute{Computed: true, CustomType: timetypes.GoDurationType{}, MarkdownDescription: "Longest delay that the levels can give."},
			"queue_type":        schema.StringAttribute{Computed: true, MarkdownDescription: "`quorum` or `classic`."},
			"lookahead":         schema.Int64Attribute{Computed: true, MarkdownDescription: "How many digits of the routing key a level exchange looks at."},
			"queues": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The delay queues from level 0 up; one that is missing is among the findings instead.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"level":       schema.Int64Attribute{Computed: true, MarkdownDescription: "Level."},
					"name":        schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the queue."},
					"message_ttl": schema.Int64Attribute{Computed: true, MarkdownDescription: "How long a message waits in it, in milliseconds, as it is declared; null if it is not."},
					"messages":    schema.Int64Attribute{Computed: true, MarkdownDescription: "Messages that wait in it."},
					"consumers":   schema.Int64Attribute{Computed: true, MarkdownDescription: "Consumers, of which there should be none."},
				}},
			},
			"messages":            schema.Int64Attribute{Computed: true, MarkdownDescription: "Messages that wait in all delay queues together."},
			"unroutable_messages": schema.Int64Attribute{Computed: true, MarkdownDescription: "Messages in the queue of unroutable messages; null if the cascade has none."},
			"findings": schema.ListNestedAttribute{
				Computed: true,
				MarkdownDescription: "What changes what happens to messages; empty for a healthy cascade. Bindings of the " +
					"delivery exchange for another number of levels are among it, the first ten.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"severity": schema.StringAttribute{Computed: true, MarkdownDescription: "`error` if messages are lost, leave early, arrive twice or do not get on; `warning` if they may be late, or if it is not known."},
					"object":   schema.StringAttribute{Computed: true, MarkdownDescription: "What it was found on, such as `queue \"tasks.delay-03\"`."},
					"cause":    schema.StringAttribute{Computed: true, MarkdownDescription: "What does it, such as `missing` or `policy \"ttl\"`."},
					"effect":   schema.StringAttribute{Computed: true, MarkdownDescription: "What it does to messages."},
				}},
			},
		},
	}
}

func (d *cascadeDataSource) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	if connection, ok := req.ProviderData.(*connection); ok {
		d.connection = connection
	}
}

// Read looks at the cascade behind the entry exchange.
func (d *cascadeDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model observedModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if d.connection == nil || d.connection.client == nil {
		resp.Diagnostics.Append(notConfigured())
		return
	}
	ctx, cancel := context.WithTimeout(ctx, defaultReadTimeout)
	defer cancel()
	vhost := defaultVhost
	if !model.Vhost.IsNull() {
		vhost = model.Vhost.ValueString()
	}
	o := operation{client: d.connection.client, kind: "cascade", vhost: vhost, desired: topology.Topology{Entry: model.EntryExchange.ValueString()}}
	if err := model.observe(ctx, &o); err != nil {
		resp.Diagnostics.Append(o.failed("read", err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// observe reads the configuration off the broker, and then what there is of it.
func (m *observedModel) observe(ctx context.Context, o *operation) error {
	config, err := cascade.Recognize(ctx, o.client.Lookup(o.vhost), o.vhost, o.desired.Entry)
	if err == nil {
		config, err = config.Resolve()
	}
	if err != nil {
		return err
	}
	given := config
	given.MaxDelay = 0 // beside the levels it would be one too many
	if o.desired, err = cascade.Expand(given); err != nil {
		return err
	}
	state, err := o.read(ctx)
	if err != nil {
		return err
	}
	m.DeliveryExchange = types.StringValue(config.DeliveryExchange)
	m.Levels = types.Int64Value(int64(config.Levels))
	m.Resolution = timetypes.NewGoDurationValue(config.Resolution)
	m.MaxDelay = timetypes.NewGoDurationValue(config.MaxDelay)
	m.QueueType = types.StringValue(string(config.QueueType))
	m.Lookahead = types.Int64Value(int64(config.Lookahead))

	m.Queues = []observedQueue{}
	waiting := inFlight(state)
	for level := range config.Levels {
		name := config.QueueName.Name(level)
		queue, exists := state.Queues[name]
		if !exists {
			continue
		}
		ttl := types.Int64Null()
		if millis, ok := queue.Arguments["x-message-ttl"].(int64); ok {
			ttl = types.Int64Value(millis)
		}
		m.Queues = append(m.Queues, observedQueue{
			Level: types.Int64Value(int64(level)), Name: types.StringValue(name), MessageTTL: ttl,
			Messages: types.Int64Value(state.Status[name].Messages), Consumers: types.Int64Value(state.Status[name].Consumers),
		})
	}
	m.Unroutable = types.Int64Null()
	if config.ParkUnroutable {
		parked := state.Status[o.desired.Exchanges[o.desired.Entry].AlternateExchange()].Messages
		m.Unroutable = types.Int64Value(parked)
		waiting -= parked
	}
	m.Messages = types.Int64Value(waiting)

	m.Findings = []observedFinding{}
	found := append(topology.Damages(o.desired, state.Topology), o.findings(state)...)
	if !o.ownsDelivery() && !state.DeliveryExists {
		found = append(found, topology.Finding{Severity: topology.Error, Object: fmt.Sprintf("exchange %q", o.desired.Delivery), Cause: "missing", Effect: "messages do not get to their destination"})
	}
	astray, err := astray(ctx, o, config)
	if err != nil {
		return err
	}
	for _, f := range append(found, astray...) {
		m.Findings = append(m.Findings, observedFinding{
			Severity: types.StringValue(string(f.Severity)), Object: types.StringValue(f.Object),
			Cause: types.StringValue(f.Cause), Effect: types.StringValue(f.Effect),
		})
	}
	return nil
}

// mostAstray is how many bindings for another number of levels are among the findings.
const mostAstray = 10

// astray are the bindings of the delivery exchange that are made for another number of levels than anything that ends
// there has.
func astray(ctx context.Context, o *operation, config cascade.Config) ([]topology.Finding, error) {
	bindings, err := o.client.Lookup(o.vhost).BindingsFrom(ctx, config.DeliveryExchange)
	if err != nil {
		return nil, err
	}
	there := map[int]bool{config.Levels: true}
	var found []topology.Finding
	for _, b := range bindingSet(bindings...).Sorted() {
		d, err := cascade.RecognizeDestination(o.vhost, b)
		if err != nil || d.Match != cascade.Exact || there[d.Levels] {
			continue
		}
		if len(there) == 1 { // something else may end there, too
			others, err := levelsInto(ctx, o.client, o.vhost, config.DeliveryExchange)
			if err != nil {
				return nil, err
			}
			maps.Copy(there, others)
			there[0] = true // so that nobody looks again
		}
		if there[d.Levels] || len(found) == mostAstray {
			continue
		}
		found = append(found, topology.Finding{
			Severity: topology.Error, Object: bindingObject(o.vhost, b).Name,
			Cause: fmt.Sprintf("made for levels = %d, not %d", d.Levels, config.Levels),
			Effect: fmt.Sprintf("it takes no message of the cascade: those for %q are unroutable unless something "+
				"else is bound for them", d.Address),
		})
	}
	return found, nil
}
