package provider

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ValidateConfig reports what the broker would refuse, on the attribute it concerns.
func (r *cascadeResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config cascadeModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	errs, diags := config.emptyValues()
	resp.Diagnostics.Append(diags...)
	if len(errs) == 0 && !diags.HasError() {
		_, errs, diags = config.forecast(ctx)
		resp.Diagnostics.Append(diags...)
	}
	if len(errs) > 0 {
		resp.Diagnostics.Append(configErrors(errs)...)
		return
	}
	resp.Diagnostics.Append(config.checkDrainTimeout(ctx)...)
}

// checkDrainTimeout makes sure that a destroy has the time to wait as long as it is to.
func (m cascadeModel) checkDrainTimeout(ctx context.Context) diag.Diagnostics {
	if m.DrainTimeout.IsNull() || m.DrainTimeout.IsUnknown() {
		return nil
	}
	drain, diags := m.DrainTimeout.ValueGoDuration()
	if diags.HasError() {
		return nil // the attribute's own type has said so
	}
	timeout, diags := m.Timeouts.Delete(ctx, defaultWriteTimeout+drain)
	if timeout <= drain && !diags.HasError() {
		diags.AddAttributeError(path.Root("drain_timeout"), "Invalid drain_timeout",
			fmt.Sprintf("drain_timeout is %s, which does not fit into timeouts.delete, %s. Make that longer, or leave it out.", drain, timeout))
	}
	return diags
}

// ModifyPlan writes the expansion into the plan, and says when a change means a new cascade. It takes
// everything from the configuration and nothing from the broker.
func (r *cascadeResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(warnInFlight(ctx, req, "destroyed")...)
		return
	}
	var config, plan cascadeModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	forecast, errs, diags := config.forecast(ctx)
	resp.Diagnostics.Append(diags...)
	if len(errs) > 0 {
		resp.Diagnostics.Append(configErrors(errs)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	plan.setComputed(config, forecast)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	if req.State.Raw.IsNull() || resp.Diagnostics.HasError() {
		return
	}

	var state cascadeModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	replaced, diags := state.replacedBy(plan)
	resp.Diagnostics.Append(diags...)
	resp.RequiresReplace = append(resp.RequiresReplace, replaced...)
	if len(replaced) > 0 {
		resp.Diagnostics.Append(warnInFlight(ctx, req, "replaced")...)
	}
}

// setComputed plans what the configuration leaves to the provider.
func (m *cascadeModel) setComputed(config cascadeModel, c computed) {
	if config.Levels.IsNull() {
		m.Levels = c.Levels
	}
	if config.MaxDelay.IsNull() {
		m.MaxDelay = c.MaxDelay
	}
	if config.Resolution.IsNull() {
		m.Resolution = c.Resolution
	}
	if config.QueueType.IsNull() {
		m.QueueType = c.QueueType
	}
	if config.StrictKeys.IsNull() {
		m.StrictKeys = c.StrictKeys
	}
	if config.ParkUnroutable.IsNull() {
		m.ParkUnroutable = c.ParkUnroutable
	}
	if config.Lookahead.IsNull() {
		m.Lookahead = c.Lookahead
	}
	if config.ExchangeName.IsNull() {
		m.ExchangeName = c.ExchangeName
	}
	if config.QueueName.IsNull() {
		m.QueueName = c.QueueName
	}
	if config.DeliveryExchange.IsNull() {
		m.DeliveryExchange = c.DeliveryExchange
	}
	m.EntryExchange = c.EntryExchange
	m.Exchanges = c.Exchanges
	m.Queues = c.Queues
	m.Bindings = c.Bindings
}

// replacedBy lists the attributes for whose sake the planned cascade cannot be made out of the one
// in the state: those that change, if an exchange or queue changes with them. Bindings can change in
// place, and whether the delivery exchange belongs to the cascade is a matter of the state alone.
func (m cascadeModel) replacedBy(plan cascadeModel) (path.Paths, diag.Diagnostics) {
	candidates := []struct {
		attribute      string
		prior, planned attr.Value
	}{
		{"vhost", m.Vhost, plan.Vhost},
		{"name", m.Name, plan.Name},
		{"preset", m.Preset, plan.Preset},
		{"levels", m.Levels, plan.Levels},
		{"resolution", m.Resolution, plan.Resolution},
		{"exchange_name", m.ExchangeName, plan.ExchangeName},
		{"queue_name", m.QueueName, plan.QueueName},
		{"delivery_exchange", m.DeliveryExchange, plan.DeliveryExchange},
		{"queue_type", m.QueueType, plan.QueueType},
		{"max_length", m.MaxLength, plan.MaxLength},
		{"park_unroutable", m.ParkUnroutable, plan.ParkUnroutable},
	}
	var changed path.Paths
	known := true
	for _, c := range candidates {
		if !c.prior.Equal(c.planned) {
			changed = append(changed, path.Root(c.attribute))
			known = known && !c.planned.IsUnknown()
		}
	}
	if len(changed) == 0 || !known {
		return changed, nil
	}
	same, diags := m.sameObjects(plan)
	if same {
		return nil, diags
	}
	return changed, diags
}

// sameObjects tells whether both models stand for the same exchanges and queues.
func (m cascadeModel) sameObjects(plan cascadeModel) (bool, diag.Diagnostics) {
	before, diags := m.stateConfig()
	after, more := plan.stateConfig()
	diags.Append(more...)
	if diags.HasError() {
		return false, diags
	}
	after.CreateDeliveryExchange = before.CreateDeliveryExchange
	prior, err := cascade.Expand(before)
	if err != nil {
		return false, configErrors(err)
	}
	planned, err := cascade.Expand(after)
	if err != nil {
		return false, configErrors(err)
	}
	return before.Vhost == after.Vhost && prior.Delivery == planned.Delivery &&
		maps.EqualFunc(prior.Exchanges, planned.Exchanges, topology.Exchange.Equal) &&
		maps.EqualFunc(prior.Queues, planned.Queues, topology.Queue.Equal), diags
}

// warnInFlight says what a destroy or replacement has in its way, by what the last refresh counted.
func warnInFlight(ctx context.Context, req resource.ModifyPlanRequest, verb string) diag.Diagnostics {
	counted, diags := req.Private.GetKey(ctx, inFlightKey)
	messages, err := strconv.ParseInt(string(counted), 10, 64)
	if err != nil || messages == 0 {
		return diags
	}
	var state cascadeModel
	diags.Append(req.State.Get(ctx, &state)...)
	then := "The apply will be refused while any message waits."
	switch {
	case state.ForceDestroy.ValueBool():
		then = "They will be deleted, because force_destroy is true."
	case !state.DrainTimeout.IsNull():
		then = fmt.Sprintf("The apply will close the entry and wait up to %s for them to be delivered.", state.DrainTimeout.ValueString())
	}
	diags.AddWarning("Messages in flight", fmt.Sprintf("The cascade with entry exchange %q is to be %s. Messages that wait in it, by the broker's last count, which may be some seconds old: %d. %s",
		state.EntryExchange.ValueString(), verb, messages, then))
	return diags
}
