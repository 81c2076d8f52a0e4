package provider

import (
	"context"
	"fmt"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
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

// ModifyPlan writes the expansion into the plan, and says when a change replaces what there is or removes
// queues. It takes everything from the configuration and nothing from the broker.
func (r *lifecycle[M, P]) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
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
	replaced, diags := P(&state).replacedBy(&plan)
	resp.Diagnostics.Append(diags...)
	resp.RequiresReplace = append(resp.RequiresReplace, replaced...)
	r.notePrior(&state)
	if len(replaced) == 0 {
		resp.Diagnostics.Append(r.notePlan(&plan, false)...)
	}
	switch {
	case len(replaced) > 0:
		resp.Diagnostics.Append(r.warnInFlight(ctx, req, "replaced")...)
		resp.Diagnostics.Append(r.lookForInbound(ctx, &state, "replaced")...)
		if before := P(&state).common().DeliveryExchange; before.Equal(P(&plan).common().DeliveryExchange) && P(&plan).isKnown() {
			resp.Diagnostics.Append(layoutChange(before.ValueString(), P(&state).digits(), P(&plan).digits())...)
		}
	case P(&state).loses(&plan):
		resp.Diagnostics.Append(r.warnInFlight(ctx, req, "rid of some of its queues")...)
	}
}

// change is an attribute in the state and in the plan.
type change struct {
	attribute      string
	prior, planned attr.Value
}

// replacedBy lists the attributes for whose sake what is planned cannot be made out of what is in the
// state: those that change, if an exchange or queue changes with them. Bindings can change in
// place, and whether the delivery exchange belongs to the resource is a matter of the state alone.
func (d *declaredModel) replacedBy(plan *declaredModel, further []change, sameObjects func() (bool, diag.Diagnostics)) (path.Paths, diag.Diagnostics) {
	var changed path.Paths
	known := true
	for _, c := range append(further,
		change{"vhost", d.Vhost, plan.Vhost},
		change{"name", d.Name, plan.Name},
		change{"queue_name", d.QueueName, plan.QueueName},
		change{"delivery_exchange", d.DeliveryExchange, plan.DeliveryExchange},
		change{"queue_type", d.QueueType, plan.QueueType},
		change{"max_length", d.MaxLength, plan.MaxLength},
		change{"park_unroutable", d.ParkUnroutable, plan.ParkUnroutable},
	) {
		if !c.prior.Equal(c.planned) {
			changed = append(changed, path.Root(c.attribute))
			known = known && !c.planned.IsUnknown()
		}
	}
	if len(changed) == 0 || !known || !d.Vhost.Equal(plan.Vhost) {
		return changed, nil
	}
	same, diags := sameObjects()
	if same {
		return nil, diags
	}
	return changed, diags
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
