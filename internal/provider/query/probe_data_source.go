package query

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
)

var _ datasource.DataSourceWithConfigure = (*probeDataSource)(nil)

type probeDataSource struct{ connectedData }

type probeModel struct {
	Vhost         types.String         `tfsdk:"vhost"`
	EntryExchange types.String         `tfsdk:"entry_exchange"`
	Delay         timetypes.GoDuration `tfsdk:"delay"`
	Tolerance     timetypes.GoDuration `tfsdk:"tolerance"`
	MeasuredDelay timetypes.GoDuration `tfsdk:"measured_delay"`
	LatenessMS    types.Int64          `tfsdk:"lateness_ms"`
}

const defaultTolerance = 5 * time.Second

func (d *probeDataSource) Metadata(
	_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_probe"
}

func (d *probeDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Sends one real message through a delay cascade, to a queue of its own that is gone " +
			"afterwards, and measures how long it takes. For `check` blocks, where a message that does not arrive is " +
			"a warning; elsewhere it is an error.\n\n" +
			"Every read, so every plan, sends a message and waits for it: choose a short delay. It takes AMQP " +
			"(`amqp_uri`), and permissions to configure, write and read queues `^amq\\.gen-`, to write the entry " +
			"exchange and to read the delivery exchange. A message that does not arrive in time can end among the " +
			"unroutable ones later; its type is `rabbitmqdelay.probe`.",
		Attributes: map[string]schema.Attribute{
			"vhost": schema.StringAttribute{Optional: true, MarkdownDescription: "Virtual host. Default: `/`.",
				Validators: tfvalue.NotEmpty},
			"entry_exchange": schema.StringAttribute{Required: true,
				MarkdownDescription: "The exchange that publishers use: that of the highest level.",
				Validators:          tfvalue.NotEmpty},
			"delay": schema.StringAttribute{Required: true, CustomType: tfvalue.Duration{},
				MarkdownDescription: "Delay to ask for, such as `1s`. Between two steps of the cascade it is " +
					"rounded up."},
			"tolerance": schema.StringAttribute{
				Optional: true, CustomType: tfvalue.Duration{},
				MarkdownDescription: fmt.Sprintf("How late the message may be, as `lateness_ms` counts it, before it "+
					"counts as not arrived. Default: `%s`.", defaultTolerance),
			},
			"measured_delay": schema.StringAttribute{Computed: true, CustomType: tfvalue.Duration{},
				MarkdownDescription: "Time from publishing to arrival."},
			"lateness_ms": observedNumber("How much longer that is than " +
				"`delay`, rounded up to a step of the cascade, in milliseconds. It is negative for a message that is " +
				"early."),
		},
	}
}

// Read sends the message and waits for it.
func (d *probeDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model probeModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	tolerance := defaultTolerance
	if !model.Tolerance.IsNull() {
		tolerance = tfvalue.DurationOf(model.Tolerance)
		if tolerance <= 0 {
			resp.Diagnostics.AddAttributeError(path.Root("tolerance"), "Invalid tolerance",
				fmt.Sprintf("tolerance is %s; it has to be positive.", delay.DurationText(tolerance)))
		}
	}
	if !d.connection.IsKnown() {
		resp.Diagnostics.Append(diagnose.NotReadable())
	}
	if resp.Diagnostics.HasError() {
		return
	}
	vhost := tfvalue.VhostOf(model.Vhost)
	client := d.connection.Client
	subject := diagnose.OfEntry("cascade", vhost, model.EntryExchange.ValueString())
	found, err := recognize.Cascade(ctx, client.Vhost(vhost), vhost, subject.Desired.Entry)
	if err != nil {
		resp.Diagnostics.Append(subject.NotRecognized("probe", err))
		return
	}
	address := "probe-" + rand.Text()
	key, err := found.Scale().RoutingKey(tfvalue.DurationOf(model.Delay), address)
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("delay"), "Invalid delay", err.Error()+".")
		return
	}
	due, _, err := found.Scale().ParseRoutingKey(key)
	var binding string
	if err == nil {
		binding, err = delay.DestinationKey(found.Levels, address)
	}
	if err == nil {
		var took time.Duration
		took, err = client.Probe(ctx, rabbit.Probe{
			Vhost: vhost, Exchange: subject.Desired.Entry, RoutingKey: key, Delivery: found.DeliveryExchange,
			BindingKey: binding, Within: due + tolerance,
		})
		model.MeasuredDelay = tfvalue.DurationValue(took)
		model.LatenessMS = types.Int64Value((took - due).Milliseconds())
	}
	if err != nil {
		resp.Diagnostics.Append(subject.Failed("probe", err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}
