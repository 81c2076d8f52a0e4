package query

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
)

type probeModel struct {
	Vhost         types.String     `tfsdk:"vhost"`
	EntryExchange types.String     `tfsdk:"entry_exchange"`
	Delay         tfvalue.Duration `tfsdk:"delay"`
	Tolerance     tfvalue.Duration `tfsdk:"tolerance"`
	MeasuredDelay tfvalue.Duration `tfsdk:"measured_delay"`
	LatenessMS    types.Int64      `tfsdk:"lateness_ms"`
}

const defaultTolerance = 5 * time.Second

func probeSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "Sends one real message through a delay cascade, to a queue of its own that is gone " +
			"afterwards, and measures how long it takes. Use the data source in `check` blocks. A message that does " +
			"not arrive is a warning there, and an error elsewhere.\n\n" +
			"Every read, so every plan, sends a message and waits for it: choose a short delay. The data source " +
			"needs AMQP (`amqp_uri`). The user needs permissions to configure, write and read queues `^amq\\.gen-`, " +
			"to write the entry exchange and to read the delivery exchange. A message that does not arrive in time " +
			"can end among the unroutable ones later; its type is `rabbitmqdelay.probe`.",
		Attributes: map[string]schema.Attribute{
			"vhost":          vhostAttribute,
			"entry_exchange": entryAttribute("The exchange that publishers use: the exchange of the highest level."),
			"delay": schema.StringAttribute{Required: true, CustomType: tfvalue.DurationType{},
				MarkdownDescription: "Delay to ask for, such as `1s`. A delay between two steps of the cascade is " +
					"rounded up."},
			"tolerance": schema.StringAttribute{
				Optional: true, CustomType: tfvalue.DurationType{},
				MarkdownDescription: fmt.Sprintf("How late the message may be, as `lateness_ms` counts it, before it "+
					"counts as not arrived. Default: `%s`.", delay.DurationText(defaultTolerance)),
			},
			"measured_delay": schema.StringAttribute{Computed: true, CustomType: tfvalue.DurationType{},
				MarkdownDescription: "Time from publishing to arrival, in whole milliseconds."},
			"lateness_ms": observedNumber("Difference between `measured_delay` and `delay`, which is rounded up to a " +
				"step of the cascade, in milliseconds. Negative for a message that is early."),
		},
	}
}

// readProbe sends the message and waits for it.
func readProbe(ctx context.Context, client *rabbit.Client, m *probeModel) (diags diag.Diagnostics) {
	tolerance := defaultTolerance
	if !m.Tolerance.IsNull() {
		tolerance = tfvalue.DurationOf(m.Tolerance)
	}
	if tolerance <= 0 {
		diags.Append(diagnose.Invalid(path.Root("tolerance"),
			fmt.Errorf("tolerance is %s; it has to be positive", delay.DurationText(tolerance))))
		return diags
	}
	subject := diagnose.OfEntry(recognize.KindCascade, tfvalue.VhostOf(m.Vhost), m.EntryExchange.ValueString())
	found, err := recognize.Cascade(ctx, client.Vhost(subject.Vhost), subject.Vhost, subject.Desired.Entry)
	if err != nil {
		diags.Append(subject.NotRecognized("probe", err))
		return diags
	}
	address := "probe-" + rand.Text()
	key, err := found.Scale().RoutingKey(tfvalue.DurationOf(m.Delay), address)
	if err != nil {
		diags.Append(diagnose.Invalid(path.Root("delay"), err))
		return diags
	}
	due, _, err := found.Scale().ParseRoutingKey(key)
	var binding string
	if err == nil {
		binding, err = delay.DestinationKey(found.Levels, address)
	}
	var took time.Duration
	if err == nil {
		took, err = client.Probe(ctx, rabbit.Probe{
			Vhost: subject.Vhost, Exchange: subject.Desired.Entry, RoutingKey: key, Delivery: found.DeliveryExchange,
			BindingKey: binding, Timeout: due + tolerance,
		})
	}
	if err != nil {
		diags.Append(subject.Failed("probe", err))
		return diags
	}
	m.MeasuredDelay = tfvalue.DurationValue(took.Truncate(time.Millisecond))
	m.LatenessMS = types.Int64Value((took - due).Milliseconds())
	return diags
}
