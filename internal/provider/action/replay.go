// Package action has the actions, which Terraform runs when somebody asks for it. A configuration goes in, and words on
// the progress and the end of a run come out. Call All.
package action

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/replay"
)

// All are the actions.
func All() []func() action.Action {
	return []func() action.Action{func() action.Action { return &replayAction{} }}
}

var _ action.ActionWithConfigure = (*replayAction)(nil)

type replayAction struct{ connection *connection.Connection }

type replayModel struct {
	Vhost         types.String `tfsdk:"vhost"`
	EntryExchange types.String `tfsdk:"entry_exchange"`
	Delay         types.String `tfsdk:"delay"`
	Limit         types.Int64  `tfsdk:"limit"`
}

func (a *replayAction) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_replay"
}

func (a *replayAction) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Publishes again the messages that a cascade or ladder has parked as unroutable, " +
			"whoever declared it. A message goes to the delivery exchange if its delay is over, and to the entry " +
			"exchange if its delay has not begun.\n\n" +
			"The action needs Terraform 1.14 or later, and AMQP (`amqp_uri`).\n\n" +
			"The action acknowledges each message only after RabbitMQ has confirmed its copy. So no message is lost. " +
			"A message comes twice if a confirmation or an acknowledgement gets lost.\n\n" +
			"Messages that find no way again, or whose way cannot be proved, stay parked. A warning gives their " +
			"number and the reasons. [Replaying parked " +
			"messages](../guides/troubleshooting.md#replaying-parked-messages) has the rules, the changes to a " +
			"message, and a program for Terraform before 1.14.",
		Attributes: map[string]schema.Attribute{
			"vhost": schema.StringAttribute{Optional: true, MarkdownDescription: "Virtual host. Default: `/`.",
				Validators: tfvalue.NotEmpty},
			"entry_exchange": schema.StringAttribute{Required: true, MarkdownDescription: "Entry exchange of " +
				"the cascade or ladder, to which publishers send.", Validators: tfvalue.NotEmpty},
			"delay": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: fmt.Sprintf("How to replay a message whose delay has not begun. With `%s`, the "+
					"message waits for all of its delay, from now on. With `%s`, the message arrives at once. "+
					"Default: `%[1]s`.",
					replay.Keep, replay.Skip),
				Validators: []validator.String{stringvalidator.OneOf(string(replay.Keep), string(replay.Skip))},
			},
			"limit": schema.Int64Attribute{
				Optional: true, CustomType: tfvalue.WholeNumber{},
				MarkdownDescription: "Largest number of messages to handle, from the head of the queue. Default: the " +
					"number of messages in the queue at the beginning.",
				Validators: []validator.Int64{int64validator.Between(1, 1_000_000_000)},
			},
		},
	}
}

func (a *replayAction) Configure(_ context.Context, req action.ConfigureRequest, _ *action.ConfigureResponse) {
	a.connection, _ = req.ProviderData.(*connection.Connection)
}

// Invoke finds out what there is behind the entry exchange, and replays what it has parked.
func (a *replayAction) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m replayModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !a.connection.IsKnown() {
		resp.Diagnostics.Append(diagnose.NotConfigured("no message can be replayed"))
		return
	}
	vhost := a.connection.Client.Vhost(tfvalue.VhostOf(m.Vhost))
	subject := diagnose.OfEntry(recognize.KindCascade, vhost.Name(), m.EntryExchange.ValueString())
	rule, err := m.rule(ctx, vhost, &subject)
	if err != nil {
		resp.Diagnostics.Append(subject.Failed("replay messages of", err))
		return
	}
	if subject.Desired = rule.Topology; rule.Queue == "" {
		resp.Diagnostics.Append(subject.ParksNothing())
		return
	}
	say := func(text string) { resp.SendProgress(action.InvokeProgressEvent{Message: plaintext.Line(text)}) }
	report, err := replay.Run(ctx, vhost, rule, int(m.Limit.ValueInt64()),
		func(r replay.Report) { say(diagnose.ReplayProgress(rule.Queue, r)) })
	say(diagnose.ReplayProgress(rule.Queue, report))
	resp.Diagnostics.Append(subject.Replayed(rule.Queue, report, err)...)
}

// rule recognizes the cascade or the ladder.
func (m replayModel) rule(
	ctx context.Context, vhost *rabbit.Vhost, subject *diagnose.Subject,
) (replay.Rule, error) {
	ctx, cancel := context.WithTimeout(ctx, connection.DefaultReadTimeout)
	defer cancel()
	begin := cmp.Or(replay.Delay(m.Delay.ValueString()), replay.Keep)
	entry := m.EntryExchange.ValueString()
	cascade, err := recognize.Cascade(ctx, vhost, vhost.Name(), entry)
	if err == nil {
		return replay.OfCascade(cascade, begin), nil
	}
	other, isOther := errors.AsType[*recognize.OtherEntryError](err)
	if !isOther || other.Kind != recognize.KindLadder {
		return replay.Rule{}, err
	}
	subject.Kind = recognize.KindLadder
	ladder, err := recognize.Ladder(ctx, vhost, vhost.Name(), entry)
	if err != nil {
		return replay.Rule{}, err
	}
	return replay.OfLadder(ladder, begin), nil
}
