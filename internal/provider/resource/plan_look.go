package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// lookTimeout is how long a plan looks at the broker. The look only says earlier what the apply would say, so that a
// broker that does not answer is no error. A busy one has as long as a request has by default.
const lookTimeout = 10 * time.Second

// forPlan is the operation on a planned or prior topology for a look at the broker, nil if no look is possible.
func (r *lifecycle[M, P]) forPlan(ctx context.Context, model P) (context.Context, context.CancelFunc, *operation) {
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	if !r.Connection.IsKnown() || !model.isKnown() {
		return ctx, cancel, nil
	}
	o, diags := r.newOperation(model)
	if diags.HasError() {
		return ctx, cancel, nil
	}
	return ctx, cancel, o
}

// plannedOf is the model as the plan notes it.
func plannedOf[M any, P declaration[M]](model P, isNew bool) (connection.Planned, bool) {
	if !model.isKnown() {
		return connection.Planned{}, false
	}
	expanded, diags := model.expand()
	return connection.Planned{Kind: model.kind(), Vhost: model.common().Vhost.ValueString(), Topology: expanded,
		Scale: model.scale(), IsNew: isNew}, !diags.HasError()
}

// notePrior notes what the state has.
func (r *lifecycle[M, P]) notePrior(state P) {
	if one, ok := plannedOf(state, false); ok && r.Connection != nil {
		r.Connection.Planned.AddPrior(one)
	}
}

// notePlan notes the planned objects, and refuses two new resources that would declare the same.
func (r *lifecycle[M, P]) notePlan(plan P, isNew bool) diag.Diagnostics {
	var diags diag.Diagnostics
	one, ok := plannedOf(plan, isNew)
	if !ok || r.Connection == nil {
		return diags
	}
	if other, common := r.Connection.Planned.Add(one); len(common) > 0 {
		diags.AddError("Two resources declare the same objects", fmt.Sprintf(
			"Two resources of this configuration, the %s with entry exchange %q and a %s with entry exchange %q, "+
				"would both declare in vhost %q:\n\n  %s\n\nGive one of the two other names.",
			one.Kind, one.Entry, other.Kind, other.Entry, one.Vhost, strings.Join(diagnose.AtMost(common), "\n  ")))
	}
	return diags
}

// lookForCreate warns of what exists already, and of policies of others that lose exchanges.
func (r *lifecycle[M, P]) lookForCreate(ctx context.Context, plan P) diag.Diagnostics {
	if plan.common().Adopt.IsUnknown() {
		return r.lookForDisplaced(ctx, plan)
	}
	return r.look(ctx, topology.Topology{}, plan, false, func(o *operation, err error) (diags diag.Diagnostics) {
		if rabbit.IsKind(err, rabbit.LavinMQ) {
			diags.Append(o.subject.Failed("create", err))
			return diags
		}
		for _, found := range o.subject.Explain(ctx, "create", err) {
			detail := "The apply will be refused, as things are. " +
				strings.TrimPrefix(found.Detail(), diagnose.NothingWritten)
			diags.AddWarning(found.Summary(), detail)
		}
		return diags
	})
}

// lookForReplacement refuses a replacement that would destroy the existing objects and then could not make the planned
// ones. The state's objects go first, and are not in the way.
func (r *lifecycle[M, P]) lookForReplacement(ctx context.Context, plan P) diag.Diagnostics {
	if plan.common().Adopt.IsUnknown() || plan.common().CreateDeliveryExchange.IsUnknown() {
		return r.lookForDisplaced(ctx, plan)
	}
	const refused = "Nothing was destroyed: the replacement could not be completed. "
	return r.look(ctx, topology.Topology{}, plan, true, func(o *operation, err error) (diags diag.Diagnostics) {
		if rabbit.IsKind(err, rabbit.VhostNotFound) {
			diags.AddAttributeError(path.Root("vhost"), "Vhost does not exist", fmt.Sprintf(
				refused+"There is no vhost %q. Declare it in an apply before this one.", o.subject.Vhost))
			return diags
		}
		return refusedWith(o.subject.Explain(ctx, "create", err), refused)
	})
}

// lookForDisplaced warns of policies of others that no longer apply to exchanges when those of a create are set.
func (r *lifecycle[M, P]) lookForDisplaced(ctx context.Context, plan P) diag.Diagnostics {
	return r.look(ctx, topology.Topology{}, plan, false, saysNothing)
}

// lookForUpdate warns likewise of an update. A plan that is settled changes nothing.
func (r *lifecycle[M, P]) lookForUpdate(ctx context.Context, state, plan P, isSettled bool) diag.Diagnostics {
	before, diags := state.expand()
	if isSettled || diags.HasError() { // which the refresh has said
		return nil
	}
	return r.look(ctx, before, plan, false, saysNothing)
}

func saysNothing(*operation, error) diag.Diagnostics { return nil }

// look says what a create or a replacement would meet, and an update as far as policies are concerned. Refused has the
// words for what would be refused.
func (r *lifecycle[M, P]) look(
	ctx context.Context, before topology.Topology, plan P, replaces bool,
	refused func(*operation, error) diag.Diagnostics,
) diag.Diagnostics {
	var diags diag.Diagnostics
	ctx, cancel, o := r.forPlan(ctx, plan)
	defer cancel()
	if o == nil {
		return diags
	}
	o.subject.Options.Own, o.subject.Options.Replaces = r.prior(o.subject.Vhost), replaces
	o.subject.Options.DeliveryPlanned = slices.ContainsFunc(r.Connection.Planned.In(o.subject.Vhost),
		func(one connection.Planned) bool { return one.Has(o.subject.Desired.Delivery) })
	for _, problem := range o.engine.Preview(ctx, o.change(before, o.subject.Desired)) {
		if problem.Code == engine.Displaces {
			diags.Append(o.subject.Explain(ctx, "update", problem.Cause)...)
		} else {
			diags.Append(refused(o, problem.Cause)...)
		}
	}
	return diags
}

// prior is all that the state has in the vhost.
func (r *lifecycle[M, P]) prior(vhost string) topology.Topology {
	own := topology.New()
	for _, prior := range r.Connection.Planned.PriorIn(vhost) {
		own = own.And(prior.Topology)
	}
	return own
}

// refusedWith begins the details of all errors with the same words.
func refusedWith(diags diag.Diagnostics, words string) diag.Diagnostics {
	var all diag.Diagnostics
	for _, d := range diags {
		detail := words + strings.TrimPrefix(strings.TrimPrefix(d.Detail(), words), diagnose.NothingWritten)
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
			strings.Join(diagnose.AtMost(lines), "\n  ")))
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
	var lines []string
	for _, problem := range o.engine.Preview(ctx, o.change(o.subject.Desired, topology.Topology{})) {
		var inbound *engine.InboundError
		if !errors.As(problem.Cause, &inbound) {
			continue
		}
		for _, b := range inbound.Bindings {
			lines = append(lines,
				fmt.Sprintf("exchange %q, bound to exchange %q with key %q", b.Source, b.Destination, b.RoutingKey))
		}
	}
	return lines
}
