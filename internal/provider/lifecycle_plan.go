package provider

import (
	"context"
	"fmt"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// ValidateConfig reports what the broker would refuse, on the attribute it concerns.
func (r *lifecycle[M, P]) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config M
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(P(&config).validate(ctx)...)
	}
}

// ModifyPlan writes the expansion into the plan, and says when a change replaces or rebuilds what there is, or
// removes queues. It takes everything from the configuration and nothing from the broker.
func (r *lifecycle[M, P]) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		if req.State.Raw.IsNull() {
			return
		}
		var state M
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		resp.Diagnostics.Append(r.warnInFlight(ctx, req, "destroyed")...)
		resp.Diagnostics.Append(r.lookForInbound(ctx, &state, "destroyed")...)
		r.notePrior(&state)
		return
	}
	var config, plan M
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(P(&plan).complete(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if req.State.Raw.IsNull() {
		resp.Diagnostics.Append(r.notePlan(&plan, true)...)
		if counted, _ := req.Private.GetKey(ctx, inFlightKey); counted != nil {
			resp.Diagnostics.Append(r.lookForReplacement(ctx, &plan)...)
		} else if !resp.Diagnostics.HasError() {
			resp.Diagnostics.Append(r.lookForCreate(ctx, &plan)...)
		}
		return
	}

	var state M
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	altered, diags := P(&state).alteredBy(&plan)
	resp.Diagnostics.Append(diags...)
	if !P(&state).common().DeliveryExchange.Equal(P(&plan).common().DeliveryExchange) {
		resp.Diagnostics.Append(r.planDeliveryType(ctx, resp, &plan)...)
	}
	replaced := len(altered) > 0 && !P(&state).common().hasPlaceOf(P(&plan).common())
	r.notePrior(&state)
	if !replaced {
		resp.Diagnostics.Append(r.notePlan(&plan, false)...)
	}
	if before := P(&state).common().DeliveryExchange; len(altered) > 0 && P(&plan).isKnown() &&
		before.Equal(P(&plan).common().DeliveryExchange) {
		resp.Diagnostics.Append(layoutChange(before.ValueString(), P(&state).digits(), P(&plan).digits())...)
	}
	switch {
	case replaced:
		resp.RequiresReplace = append(resp.RequiresReplace, altered...)
		resp.Diagnostics.Append(r.warnInFlight(ctx, req, "replaced")...)
		resp.Diagnostics.Append(r.lookForInbound(ctx, &state, "replaced")...)
	case len(altered) > 0:
		resp.Diagnostics.Append(r.warnRebuild(ctx, req, &plan, altered)...)
	case P(&state).loses(&plan):
		resp.Diagnostics.Append(r.warnInFlight(ctx, req, "rid of some of its queues")...)
	}
}

// warnInFlight says what a destroy or replacement has in its way, by what the last refresh counted.
func (r *lifecycle[M, P]) warnInFlight(ctx context.Context, req resource.ModifyPlanRequest, verb string) diag.Diagnostics {
	counted, diags := req.Private.GetKey(ctx, inFlightKey)
	messages, err := strconv.ParseInt(string(counted), 10, 64)
	if err != nil || messages == 0 {
		return diags
	}
	var state M
	diags.Append(req.State.Get(ctx, &state)...)
	declared := P(&state).common()
	then := "The apply will be refused while any message waits."
	switch {
	case declared.ForceDestroy.ValueBool():
		then = "They will be deleted, because force_destroy is true."
	case !declared.DrainTimeout.IsNull():
		then = fmt.Sprintf("The apply will close the entry and wait up to %s for them to be delivered.", declared.DrainTimeout.ValueString())
	}
	diags.AddWarning("Messages in flight", fmt.Sprintf("The %s with entry exchange %q is to be %s. Messages that wait in it, by the broker's last count, which may be some seconds old: %d. %s",
		P(&state).kind(), declared.EntryExchange.ValueString(), verb, messages, then))
	return diags
}
