package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

var (
	_ action.ActionWithConfigure      = (*publishAction)(nil)
	_ action.ActionWithValidateConfig = (*publishAction)(nil)
	_ action.ActionWithModifyPlan     = (*publishAction)(nil)
)

type publishAction struct{ connection *connection }

type publishModel struct {
	Vhost         types.String         `tfsdk:"vhost"`
	EntryExchange types.String         `tfsdk:"entry_exchange"`
	Base          types.Int64          `tfsdk:"base"`
	Levels        types.Int64          `tfsdk:"levels"`
	Resolution    timetypes.GoDuration `tfsdk:"resolution"`
	Delay         timetypes.GoDuration `tfsdk:"delay"`
	Address       types.String         `tfsdk:"address"`
	Body          types.String         `tfsdk:"body"`
	ContentType   types.String         `tfsdk:"content_type"`
	Headers       types.Map            `tfsdk:"headers"`
}

func (a *publishAction) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_publish"
}

func (a *publishAction) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	shortText := []validator.String{stringvalidator.LengthBetween(1, cascade.MaxKeyBytes)}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Publishes one message into a delay cascade, whoever declared that, to try it or a " +
			"receiver out: with `terraform apply -invoke` or after a change. Needs Terraform 1.14 or later.\n\n" +
			"It succeeds when the broker has confirmed the message, and does not wait until the delay is over; the " +
			"data source `rabbitmqdelay_probe` does. A plan fails if the cascade, as planned or as it is, cannot " +
			"give the delay. Nothing is sent if no binding of the entry exchange or, already now, of the delivery " +
			"exchange takes the message. The message is persistent and mandatory and has a `message_id`, which is " +
			"reported, a `timestamp`, and the `app_id` `terraform-provider-rabbitmqdelay`.\n\n" +
			"It takes AMQP (`amqp_uri`), and permission to write the entry exchange.",
		Attributes: map[string]schema.Attribute{
			"vhost": schema.StringAttribute{Optional: true, MarkdownDescription: "Virtual host. Default: `/`.",
				Validators: notEmpty},
			"entry_exchange": schema.StringAttribute{Required: true,
				MarkdownDescription: "The exchange that publishers use: that of the highest level.",
				Validators:          notEmpty},
			"levels": schema.Int64Attribute{
				CustomType: wholeNumberType{}, Optional: true,
				MarkdownDescription: "Number of levels that the cascade is meant to have; it is an error if it has " +
					"another. Together with `base` and `resolution` it has the delay checked by `terraform validate` " +
					"already. Default: as many as it has.",
			},
			"base": schema.Int64Attribute{
				CustomType: wholeNumberType{}, Optional: true,
				MarkdownDescription: "Base that the cascade is meant to have, likewise. Default: what it has.",
			},
			"resolution": schema.StringAttribute{
				Optional: true, CustomType: durationType{},
				MarkdownDescription: "Resolution that the cascade is meant to have, likewise. Default: what it has.",
			},
			"delay": schema.StringAttribute{
				Required: true, CustomType: durationType{},
				MarkdownDescription: "How long the message waits, such as `90s`; `0s` passes it straight on. Between " +
					"two steps of the cascade it is rounded up.",
			},
			"address": schema.StringAttribute{Required: true, MarkdownDescription: "Address that the receiver " +
				"has bound to the delivery exchange. It may have dots."},
			"body": schema.StringAttribute{Optional: true, MarkdownDescription: "Body of the message, as " +
				"UTF-8. It is part of the plan: no place for secrets. Default: empty."},
			"content_type": schema.StringAttribute{Optional: true, MarkdownDescription: "Property `content_type`, " +
				"such as `application/json`. Default: none.", Validators: shortText},
			"headers": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Headers of the message, for receivers that need some, all of them text. " +
					"Default: none.",
				Validators: []validator.Map{mapvalidator.KeysAre(shortText...), mapvalidator.NoNullValues()},
			},
		},
	}
}

func (a *publishAction) Configure(_ context.Context, req action.ConfigureRequest, _ *action.ConfigureResponse) {
	a.connection, _ = req.ProviderData.(*connection)
}

// ValidateConfig reports what would be wrong whatever the values turn out to be that are not known yet.
func (a *publishAction) ValidateConfig(
	ctx context.Context, req action.ValidateConfigRequest, resp *action.ValidateConfigResponse,
) {
	var model publishModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(model.check()...)
}

// ModifyPlan reports what does not go with the cascade: as this plan has it, or else as the broker has it, if that
// answers.
func (a *publishAction) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	var model publishModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || a.connection == nil || model.Vhost.IsUnknown() ||
		model.EntryExchange.IsUnknown() {
		return
	}
	scale, ok := a.connection.planned.scale(vhostOf(model.Vhost), model.EntryExchange.ValueString())
	if !ok {
		scale, ok = a.look(ctx, model)
	}
	if !ok {
		return // the apply looks again
	}
	resp.Diagnostics.Append(model.checkScale(scale)...)
	if resp.Diagnostics.HasError() {
		return
	}
	model.Base, model.Levels = types.Int64Value(int64(scale.Base)), types.Int64Value(int64(scale.Levels))
	model.Resolution = timetypes.NewGoDurationValue(scale.Resolution)
	resp.Diagnostics.Append(model.check()...)
}

// look reads the scale of the cascade off the broker for a plan.
func (a *publishAction) look(ctx context.Context, model publishModel) (cascade.Scale, bool) {
	if a.connection.client == nil || a.connection.silent.Load() {
		return cascade.Scale{}, false
	}
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	defer cancel()
	found, err := cascade.Recognize(ctx, a.connection.client.Vhost(vhostOf(model.Vhost)), vhostOf(model.Vhost),
		model.EntryExchange.ValueString())
	return found.Scale(), err == nil
}

// check reports what would be wrong whatever the values turn out to be that are not known yet.
func (m publishModel) check() diag.Diagnostics {
	var diags diag.Diagnostics
	// An unknown parameter has a value that goes with every other one.
	base, levels, resolution := cascade.MinBase, 1, time.Millisecond
	delay, address := time.Duration(0), "a"
	if isGiven(m.Base) {
		base = int(m.Base.ValueInt64())
	}
	if isGiven(m.Levels) {
		levels = int(m.Levels.ValueInt64())
	}
	if isGiven(m.Resolution) {
		resolution = durationOf(m.Resolution)
	}
	if isGiven(m.Delay) {
		delay = durationOf(m.Delay)
	}
	if !isGiven(m.Base) || !isGiven(m.Levels) || !isGiven(m.Resolution) {
		delay = min(delay, 0) // nobody knows how long it may be
	}
	if isGiven(m.Address) {
		address = m.Address.ValueString()
	}
	scale, err := cascade.NewScale(base, levels, resolution)
	if err == nil {
		_, err = scale.RoutingKey(delay, address)
	}
	if err != nil {
		diags.Append(publishError(err))
	}
	return diags
}

// Invoke looks at the cascade and sends the message.
func (a *publishAction) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var model publishModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !a.connection.isKnown() {
		resp.Diagnostics.Append(notConfigured())
		return
	}
	message := rabbit.Message{
		Vhost: vhostOf(model.Vhost), Exchange: model.EntryExchange.ValueString(),
		ID: rand.Text(), ContentType: model.ContentType.ValueString(), Body: model.Body.ValueString(),
	}
	resp.Diagnostics.Append(model.Headers.ElementsAs(ctx, &message.Headers, false)...)
	if resp.Diagnostics.HasError() {
		return
	}
	client := a.connection.client
	o := a.connection.entryOperation("cascade", message.Vhost, message.Exchange)
	look := client.Vhost(message.Vhost)
	found, err := cascade.Recognize(ctx, look, message.Vhost, message.Exchange)
	if err != nil {
		resp.Diagnostics.Append(o.notRecognized("publish into", err))
		return
	}
	resp.Diagnostics.Append(model.checkScale(found.Scale())...)
	if resp.Diagnostics.HasError() {
		return
	}
	if message.RoutingKey, err = found.Scale().RoutingKey(durationOf(model.Delay),
		model.Address.ValueString()); err != nil {
		resp.Diagnostics.Append(publishError(err))
		return
	}
	wrong, err := model.checkBindings(ctx, look, found, message)
	if err != nil {
		resp.Diagnostics.Append(o.failed("publish into", err))
		return
	}
	resp.Diagnostics.Append(wrong...)
	if resp.Diagnostics.HasError() {
		return
	}
	due, _, err := found.Scale().ParseRoutingKey(message.RoutingKey)
	if err != nil {
		resp.Diagnostics.Append(publishError(err))
		return
	}
	report := func(format string, args ...any) {
		resp.SendProgress(action.InvokeProgressEvent{Message: fmt.Sprintf(format, args...)})
	}
	report("Publishing message %s to exchange %q with routing key %q.", message.ID, message.Exchange,
		message.RoutingKey)
	began := time.Now()
	if err := client.Publish(ctx, message); err != nil {
		resp.Diagnostics.Append(o.failed("publish into", err))
		return
	}
	report("The broker has confirmed the message. It is due at address %q after %s, at %s.",
		model.Address.ValueString(), plaintext.Duration(due), began.Add(due).UTC().Format(time.RFC3339))
}

// checkScale makes sure that the cascade is the one that is meant. With another number of levels a key may wait for
// years.
func (m publishModel) checkScale(scale cascade.Scale) diag.Diagnostics {
	var diags diag.Diagnostics
	differs := func(attribute string, meant, is any) {
		diags.AddAttributeError(path.Root(attribute), "Another "+attribute+" than the cascade has",
			fmt.Sprintf("%s is %v, and that of the cascade with entry exchange %q in vhost %q is %v. Nothing was sent.",
				attribute, meant, m.EntryExchange.ValueString(), vhostOf(m.Vhost), is))
	}
	if base := m.Base.ValueInt64(); isGiven(m.Base) && base != int64(scale.Base) {
		differs("base", base, scale.Base)
	}
	if levels := m.Levels.ValueInt64(); isGiven(m.Levels) && levels != int64(scale.Levels) {
		differs("levels", levels, scale.Levels)
	}
	if resolution := durationOf(m.Resolution); isGiven(m.Resolution) && resolution != scale.Resolution {
		differs("resolution", cascade.DurationText(resolution), cascade.DurationText(scale.Resolution))
	}
	return diags
}

// checkBindings makes sure that the message gets into the cascade, and to somebody at its end. A broker that parks what
// no binding takes confirms it and does not return it.
func (m publishModel) checkBindings(
	ctx context.Context, look cascade.Lookup, found cascade.Cascade, message rabbit.Message,
) (diag.Diagnostics, error) {
	var diags diag.Diagnostics
	entry, _, err := look.Exchange(ctx, message.Exchange)
	if err != nil {
		return nil, err
	}
	delivery, delivers, err := look.Exchange(ctx, found.DeliveryExchange)
	if err != nil {
		return nil, err
	}
	entered, err := takes(ctx, look, entry, message.RoutingKey)
	if err != nil {
		return nil, err
	}
	if !entered || !delivers {
		reason := fmt.Sprintf("no binding of the entry exchange %q takes the routing key %q", message.Exchange,
			message.RoutingKey)
		if !delivers {
			reason = fmt.Sprintf("there is no delivery exchange %q", found.DeliveryExchange)
		}
		diags.AddError("The cascade is damaged", fmt.Sprintf("In vhost %q %s. Nothing was sent. A plan of the "+
			"cascade shows the damage, and an apply repairs it.", message.Vhost, reason))
		return diags, nil
	}
	delivered, err := takes(ctx, look, delivery, message.RoutingKey)
	if err != nil || delivered {
		return nil, err
	}
	binding, err := cascade.DestinationKey(found.Levels, m.Address.ValueString())
	if err != nil {
		return nil, err
	}
	fate := "not get to anybody"
	parks := found.Expand()
	parks.Exchanges[delivery.Name] = delivery // as it is; a policy is recognized only if it is there
	if alternate := parks.AlternateOf(delivery.Name); alternate != "" {
		fate = fmt.Sprintf("be parked behind the alternate exchange %q", alternate)
	}
	diags.AddAttributeError(path.Root("address"), "The address is not bound", fmt.Sprintf(
		"No binding of the delivery exchange %q in vhost %q takes the routing key %q: after its delay the message "+
			"would %s. Nothing was sent. Bind the receiver's queue with the key %q before, or check the address.",
		delivery.Name, message.Vhost, message.RoutingKey, fate, binding))
	return diags, nil
}

// takes tells whether a binding of the exchange takes the key. For other types than topic that cannot be told from the
// key alone.
func takes(ctx context.Context, look cascade.Lookup, e topology.Exchange, key string) (bool, error) {
	if e.Type != "topic" {
		return true, nil
	}
	bindings, err := look.BindingsFrom(ctx, e.Name)
	words := topology.ParseTopicKey(key)
	return slices.ContainsFunc(bindings,
		func(b topology.Binding) bool { return topology.ParseTopicKey(b.RoutingKey).Matches(words) }), err
}

// publishError puts the error on the attribute that it names.
func publishError(err error) diag.Diagnostic {
	var wrong cascade.AttributeError
	if !errors.As(err, &wrong) {
		return diag.NewErrorDiagnostic("Invalid message", err.Error()+".")
	}
	return diag.NewAttributeErrorDiagnostic(path.Root(wrong.Attribute), "Invalid "+wrong.Attribute, wrong.Error()+".")
}
