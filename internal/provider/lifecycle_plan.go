package provider

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// ValidateConfig reports what the broker would refuse, on the attribute it concerns.
func (r *lifecycle[M, P]) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var config M
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(P(&config).validate(ctx)...)
	}
}

// ModifyPlan writes the expansion into the plan, and says when a change replaces or rebuilds what there is, or
// removes queues. What it writes comes from the configuration alone. It asks the broker for warnings and refusals only,
// see plan_look.go.
func (r *lifecycle[M, P]) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		if req.State.Raw.IsNull() {
			return
		}
		var state M
		resp.Diagnostics.Append(ofState(req.State.Get(ctx, &state))...)
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
	computed, errs, diags := P(&config).forecast(ctx)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(configErrors(errs)...)
	var state M
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(ofState(req.State.Get(ctx, &state))...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	P(&plan).setComputed(&config, computed)
	if !req.State.Raw.IsNull() {
		P(&plan).keep(&state)
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

	altered, diags := P(&state).alteredBy(&plan)
	resp.Diagnostics.Append(ofState(diags)...) // the plan has been expanded above
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
		was, gets := P(&state).scale().Levels, P(&plan).scale().Levels
		resp.Diagnostics.Append(layoutChange(before.ValueString(), was, gets)...)
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
func (r *lifecycle[M, P]) warnInFlight(
	ctx context.Context, req resource.ModifyPlanRequest, verb string,
) diag.Diagnostics {
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
		then = fmt.Sprintf("The apply will close the entry and wait up to %s for them to be delivered.",
			declared.DrainTimeout.ValueString())
	}
	diags.AddWarning("Messages in flight", fmt.Sprintf("The %s with entry exchange %q is to be %s. Messages that "+
		"wait in it, by the broker's last count, which may be some seconds old: %d. %s",
		P(&state).kind(), declared.EntryExchange.ValueString(), verb, messages, then))
	return diags
}

// planDeliveryType plans the type of another delivery exchange than before, which is not that of the one before.
func (r *lifecycle[M, P]) planDeliveryType(
	ctx context.Context, resp *resource.ModifyPlanResponse, plan P,
) diag.Diagnostics {
	planned := plan.common()
	planned.DeliveryExchangeType = types.StringUnknown()
	if plan.isKnown() {
		expanded, diags := plan.expand()
		if diags.HasError() {
			return diags
		}
		planned.DeliveryExchangeType = textOr(expanded.DeliveryType, types.StringUnknown())
	}
	return resp.Plan.Set(ctx, plan)
}

// warnRebuild says what an update does that rebuilds.
func (r *lifecycle[M, P]) warnRebuild(
	ctx context.Context, req resource.ModifyPlanRequest, plan P, altered path.Paths,
) diag.Diagnostics {
	counted, diags := req.Private.GetKey(ctx, inFlightKey)
	declared, kind := plan.common(), plan.kind()
	names := make([]string, len(altered))
	for i, attribute := range altered {
		names[i] = attribute.String()
	}
	then := "While any message waits, the apply is refused."
	switch {
	case declared.ForceDestroy.ValueBool():
		then = "Messages that wait are deleted, because force_destroy is true."
	case !declared.DrainTimeout.IsNull():
		then = fmt.Sprintf("The apply waits up to %s for the messages that wait. If they are not all delivered by "+
			"then, it is refused and the entry is opened again.", declared.DrainTimeout.ValueString())
	}
	messages, err := strconv.ParseInt(string(counted), 10, 64)
	if err == nil {
		then += fmt.Sprintf(
			" Messages that wait, by the broker's last count, which may be some seconds old: %d.", messages)
	}
	diags.AddWarning(title(kind)+" is rebuilt", fmt.Sprintf(
		"The %s with entry exchange %q gets other exchanges or queues, because of a change of %s. It is rebuilt in "+
			"one go, with all that others have bound. Its entry is closed meanwhile: publishers get an error and "+
			"have to "+
			"try again. %s", kind, declared.EntryExchange.ValueString(), strings.Join(names, ", "), then))
	return diags
}
