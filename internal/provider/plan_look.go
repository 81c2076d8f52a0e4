package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// lookTimeout is how long a plan looks at the broker. The look only says earlier what the apply would say, so that a
// broker that does not answer is no error. A busy one has as long as a request has by default.
const lookTimeout = 10 * time.Second

// forPlan is the operation on a planned or prior topology for a look at the broker, nil if no look is possible.
func (r *lifecycle[M, P]) forPlan(ctx context.Context, model P) (context.Context, context.CancelFunc, *operation) {
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	if !r.connection.isKnown() || !model.isKnown() {
		return ctx, cancel, nil
	}
	o, diags := r.newOperation(model)
	if diags.HasError() {
		return ctx, cancel, nil
	}
	return ctx, cancel, o
}

// plannedOf is the model as the plan notes it.
func plannedOf[M any, P declaration[M]](model P, isNew bool) (planned, bool) {
	if !model.isKnown() {
		return planned{}, false
	}
	expanded, diags := model.expand()
	return planned{model.kind(), model.common().Vhost.ValueString(), expanded, model.scale(), isNew}, !diags.HasError()
}

// notePrior notes what the state has.
func (r *lifecycle[M, P]) notePrior(state P) {
	if one, ok := plannedOf(state, false); ok && r.connection != nil {
		r.connection.planned.addPrior(one)
	}
}

// notePlan notes the planned objects, and refuses two new resources that would declare the same.
func (r *lifecycle[M, P]) notePlan(plan P, isNew bool) diag.Diagnostics {
	var diags diag.Diagnostics
	one, ok := plannedOf(plan, isNew)
	if !ok || r.connection == nil {
		return diags
	}
	if other, common := r.connection.planned.add(one); len(common) > 0 {
		diags.AddError("Two resources declare the same objects", fmt.Sprintf(
			"Two resources of this configuration, the %s with entry exchange %q and a %s with entry exchange %q, "+
				"would both declare in vhost %q:\n\n  %s\n\nGive one of the two other names.",
			one.kind, one.Entry, other.kind, other.Entry, one.vhost, strings.Join(atMost(common), "\n  ")))
	}
	return diags
}

// lookForCreate warns of what exists already.
func (r *lifecycle[M, P]) lookForCreate(ctx context.Context, plan P) diag.Diagnostics {
	var diags diag.Diagnostics
	ctx, cancel, o := r.forPlan(ctx, plan)
	defer cancel()
	if o == nil || plan.common().Adopt.IsUnknown() {
		return diags
	}
	for _, found := range o.explain(ctx, "create", o.PreviewCreate(ctx, o.options.Adopt)) {
		detail := "The apply will be refused, as things are. " + strings.TrimPrefix(found.Detail(), nothingWritten)
		diags.AddWarning(found.Summary(), detail)
	}
	return diags
}

// lookForReplacement refuses a replacement that would destroy the existing objects and then could not make the planned
// ones. The state's objects go first, and are not in the way.
func (r *lifecycle[M, P]) lookForReplacement(ctx context.Context, plan P) diag.Diagnostics {
	var diags diag.Diagnostics
	ctx, cancel, o := r.forPlan(ctx, plan)
	defer cancel()
	if o == nil || plan.common().Adopt.IsUnknown() || plan.common().CreateDeliveryExchange.IsUnknown() {
		return diags
	}
	const refused = "Nothing was destroyed: the replacement could not be completed. "
	own := r.prior(o.Vhost)
	deliveryPlanned := slices.ContainsFunc(r.connection.planned.in(o.Vhost),
		func(one planned) bool { return one.Has(o.Desired.Delivery) })
	err := o.PreviewReplacement(ctx, own, deliveryPlanned, o.options.Adopt)
	if rabbit.IsKind(err, rabbit.VhostNotFound) {
		diags.AddAttributeError(path.Root("vhost"), "Vhost does not exist", fmt.Sprintf(
			refused+"There is no vhost %q. Declare it in an apply before this one.", o.Vhost))
		return diags
	}
	return refusedWith(o.explain(ctx, "create", err), refused)
}

// prior is all that the state has in the vhost.
func (r *lifecycle[M, P]) prior(vhost string) topology.Topology {
	own := topology.New()
	for _, prior := range r.connection.planned.priorIn(vhost) {
		own = own.And(prior.Topology)
	}
	return own
}

// lookForDisplaced warns of policies of others that no longer apply to exchanges when those of the plan are set. A plan
// that is settled changes nothing.
func (r *lifecycle[M, P]) lookForDisplaced(ctx context.Context, plan P, isSettled bool) diag.Diagnostics {
	var diags diag.Diagnostics
	ctx, cancel, o := r.forPlan(ctx, plan)
	defer cancel()
	if o == nil || isSettled || len(o.Desired.Policies) == 0 {
		return diags
	}
	for _, displacement := range o.PreviewDisplacements(ctx, r.prior(o.Vhost)) {
		diags.Append(o.displaces(displacement))
	}
	return diags
}

// refusedWith begins the details of all errors with the same words.
func refusedWith(diags diag.Diagnostics, words string) diag.Diagnostics {
	var all diag.Diagnostics
	for _, d := range diags {
		detail := words + strings.TrimPrefix(strings.TrimPrefix(d.Detail(), words), nothingWritten)
		if at, ok := d.(diag.DiagnosticWithPath); ok {
			all.AddAttributeError(at.Path(), d.Summary(), detail)
		} else {
			all.AddError(d.Summary(), detail)
		}
	}
	return all
}

// lookForInbound warns of what others have bound into the exchanges that a destroy takes away.
func (r *lifecycle[M, P]) lookForInbound(ctx context.Context, state P) diag.Diagnostics {
	var diags diag.Diagnostics
	if lines := r.inbound(ctx, state); len(lines) > 0 {
		diags.AddWarning("Bindings of others go, too", fmt.Sprintf(
			"The %s with entry exchange %q in vhost %q is to be destroyed. These bindings of others lead into it, and "+
				"go with it:\n\n  %s\n\nWhoever made them has to bind again.", state.kind(),
			state.common().EntryExchange.ValueString(), state.common().Vhost.ValueString(),
			strings.Join(atMost(lines), "\n  ")))
	}
	return diags
}

// inbound are the bindings of others into the exchanges that go, in words.
func (r *lifecycle[M, P]) inbound(ctx context.Context, state P) []string {
	ctx, cancel, o := r.forPlan(ctx, state)
	defer cancel()
	if o == nil {
		return nil
	}
	inbound, err := o.PreviewRemoval(ctx)
	if err != nil {
		return nil
	}
	var lines []string
	for _, b := range inbound {
		lines = append(lines,
			fmt.Sprintf("exchange %q, bound to exchange %q with key %q", b.Source, b.Destination, b.RoutingKey))
	}
	return lines
}
