package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
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
// removes queues. What it writes comes from the configuration, and from the state only where that says the same in
// other words. It asks the broker for warnings and refusals only, see plan_look.go.
func (r *lifecycle[M, P]) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		if req.State.Raw.IsNull() {
			return
		}
		var state M
		resp.Diagnostics.Append(diagnose.OfState(req.State.Get(ctx, &state))...)
		resp.Diagnostics.Append(r.warnInFlight(ctx, req, "destroyed", nil)...)
		resp.Diagnostics.Append(r.lookForInbound(ctx, &state)...)
		r.notePrior(&state)
		return
	}
	var config, plan M
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	values, errs := P(&config).forecast(ctx)
	resp.Diagnostics.Append(diagnose.ConfigErrors(errs)...)
	var state M
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(diagnose.OfState(req.State.Get(ctx, &state))...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	P(&plan).setComputed(&config, values)
	if !req.State.Raw.IsNull() {
		P(&plan).keep(&state)
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if req.State.Raw.IsNull() {
		resp.Diagnostics.Append(r.notePlan(&plan, true)...)
		counted, _ := req.Private.GetKey(ctx, inFlightKey)
		switch {
		case counted != nil:
			resp.Diagnostics.Append(r.lookForReplacement(ctx, &plan)...)
		case resp.Diagnostics.HasError():
			resp.Diagnostics.Append(r.lookForDisplaced(ctx, &plan)...)
		default:
			resp.Diagnostics.Append(r.lookForCreate(ctx, &plan)...)
		}
		return
	}

	altered, diags := P(&state).alteredBy(&plan)
	resp.Diagnostics.Append(diagnose.OfState(diags)...) // the plan has been expanded above
	if !P(&state).common().DeliveryExchange.Equal(P(&plan).common().DeliveryExchange) {
		resp.Diagnostics.Append(r.planDeliveryType(ctx, resp, &plan)...)
	}
	replaced := len(altered) > 0 && !P(&state).common().hasPlaceOf(P(&plan).common())
	r.notePrior(&state)
	if !replaced {
		resp.Diagnostics.Append(r.notePlan(&plan, false)...)
		resp.Diagnostics.Append(r.lookForUpdate(ctx, &state, &plan, resp.Plan.Raw.Equal(req.State.Raw))...)
	}
	if replaced {
		resp.RequiresReplace = append(resp.RequiresReplace, altered...)
	}
	if len(altered) > 0 {
		resp.Diagnostics.Append(r.warnOverhaul(ctx, req, resp.Plan.Raw, &state, &plan, altered)...)
	} else if lost := lostQueues(P(&state), P(&plan)); len(lost) > 0 {
		resp.Diagnostics.Append(r.warnInFlight(ctx, req, "rid of some of its queues", lost)...)
		resp.Diagnostics.Append(withoutDelays(lost, P(&plan).common().ParkUnroutable.ValueBool())...)
	}
}

// withoutDelays says what publishers see when delays are taken out of a ladder. A cascade with fewer is rebuilt.
func withoutDelays(lost []topology.Queue, parks bool) diag.Diagnostics {
	var diags diag.Diagnostics
	var names []string
	for _, q := range lost {
		if q.Delays() {
			names = append(names, topology.QueueObject(q.Name))
		}
	}
	if len(names) == 0 {
		return diags
	}
	slices.Sort(names)
	fate := "lost"
	if parks {
		fate = "parked"
	}
	diags.AddAttributeWarning(path.Root("delays"), "Delays are removed", fmt.Sprintf(
		"The apply deletes the queues of these delays:\n\n  %s\n\nA message with a key for one of them is %s from "+
			"then on. To move publishers without that, add the new delays first, and remove these when nobody uses "+
			"them any more.", strings.Join(diagnose.AtMost(names), "\n  "), fate))
	return diags
}

// warnInFlight says what a destroy, or a change that removes the lost queues, has in its way, by what the last refresh
// counted.
func (r *lifecycle[M, P]) warnInFlight(
	ctx context.Context, req resource.ModifyPlanRequest, verb string, lost []topology.Queue,
) diag.Diagnostics {
	waits, diags := readWaiting(ctx, req)
	if waits != nil && len(lost) > 0 && !slices.ContainsFunc(lost, topology.Queue.Delays) {
		waits.Delayed = diagnose.Tally{} // these stay
	}
	if waits == nil || waits.IsNone() {
		return diags
	}
	var state M
	diags.Append(req.State.Get(ctx, &state)...)
	diags.AddWarning("Messages in flight", fmt.Sprintf("The %s with entry exchange %q is to be %s. %s %s",
		P(&state).kind(), P(&state).common().EntryExchange.ValueString(), verb, diagnose.WaitsNow(waits),
		diagnose.Overhaul{Guard: P(&state).common().guard(), Waits: waits}.Fate()))
	return diags
}

// readWaiting is what the last refresh counted, nil if that is not known.
func readWaiting(ctx context.Context, req resource.ModifyPlanRequest) (*diagnose.Waiting, diag.Diagnostics) {
	text, diags := req.Private.GetKey(ctx, inFlightKey)
	var waits diagnose.Waiting
	if json.Unmarshal(text, &waits) != nil {
		return nil, diags
	}
	return &waits, diags
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
		planned.DeliveryExchangeType = tfvalue.TextOrUnknown(expanded.DeliveryType)
	}
	return resp.Plan.Set(ctx, plan)
}

// warnOverhaul says what a replacement or a rebuild does.
func (r *lifecycle[M, P]) warnOverhaul(
	ctx context.Context, req resource.ModifyPlanRequest, planned tftypes.Value, state, next P, altered path.Paths,
) diag.Diagnostics {
	waits, diags := readWaiting(ctx, req)
	had, gets := state.common(), next.common()
	names := make([]string, len(altered))
	for i, attribute := range altered {
		names[i] = attribute.String()
	}
	o := diagnose.Overhaul{
		Kind: state.kind(), Vhost: had.Vhost.ValueString(), Entry: had.EntryExchange.ValueString(), Waits: waits,
		Because: diagnose.Reasons(names, attributesOf(req.Config.Raw), attributesOf(req.State.Raw),
			attributesOf(planned)),
		Delivery: had.DeliveryExchange.ValueString(), NewDelivery: gets.DeliveryExchange.ValueString(),
	}
	if next.isKnown() {
		before, after := state.scale(), next.scale()
		o.Before, o.After = &before, &after
	}
	before, more := state.expand()
	diags.Append(diagnose.OfState(more)...)
	after := topology.New()
	if next.isKnown() {
		after, more = next.expand()
		diags.Append(more...)
	}
	declared := gets // an update goes by the plan, and a destroy by the state
	if had.hasPlaceOf(gets) {
		o.KeepsParked = plan.KeepsParked(before, after)
	} else {
		declared = had
		o.Moved = &diagnose.MovedEntry{Vhost: gets.Vhost.ValueString(), Entry: gets.EntryExchange.ValueString()}
		middle, exists := after.Exchanges[o.Entry]
		o.Moved.StaysOpen = exists && !middle.Internal && o.Entry != o.Moved.Entry && had.Vhost.Equal(gets.Vhost)
		o.Inbound = r.inbound(ctx, state)
	}
	o.Guard = declared.guard()
	return append(diags, o.Diagnostic())
}

// attributesOf are the attributes of a resource by their names.
func attributesOf(resource tftypes.Value) map[string]tftypes.Value {
	attributes := map[string]tftypes.Value{}
	_ = resource.As(&attributes) // what Terraform sends is an object
	return attributes
}
