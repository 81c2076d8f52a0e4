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

// planned is how a plan notes it. Not ok is one that is not known yet.
func (r *managed[C]) planned(v values, isNew bool) (one connection.Planned, ok bool) {
	if r.Connection == nil || !r.kind.isKnown(v) {
		return one, false
	}
	x, diags := r.kind.of(v)
	return connection.Planned{Kind: r.kind.name, Vhost: v.text("vhost"), Topology: x.Desired, Scale: x.scale,
		IsNew: isNew}, !diags.HasError()
}

// notePrior notes what the state has.
func (r *managed[C]) notePrior(state values) {
	if one, ok := r.planned(state, false); ok {
		r.Connection.Planned.AddPrior(one)
	}
}

// notePlan notes the planned objects, and refuses two new resources that would declare the same.
func (r *managed[C]) notePlan(plan values, isNew bool) diag.Diagnostics {
	var diags diag.Diagnostics
	one, ok := r.planned(plan, isNew)
	if !ok {
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
func (r *managed[C]) lookForCreate(ctx context.Context, plan values) diag.Diagnostics {
	if plan["adopt"].IsUnknown() {
		return r.lookForDisplaced(ctx, plan)
	}
	return r.look(ctx, topology.Topology{}, plan, false, func(
		ctx context.Context, s diagnose.Subject, err error,
	) (diags diag.Diagnostics) {
		if rabbit.IsKind(err, rabbit.LavinMQ) {
			diags.Append(s.Failed("create", err))
			return diags
		}
		for _, found := range s.Explain(ctx, "create", err) {
			detail := "The apply will be refused, as things are. " +
				strings.TrimPrefix(found.Detail(), diagnose.NothingWritten)
			diags.AddWarning(found.Summary(), detail)
		}
		return diags
	})
}

// lookForReplacement refuses a replacement that would destroy the existing objects and then could not make the planned
// ones. The state's objects go first, and are not in the way.
func (r *managed[C]) lookForReplacement(ctx context.Context, plan values) diag.Diagnostics {
	if plan["adopt"].IsUnknown() || plan["create_delivery_exchange"].IsUnknown() {
		return r.lookForDisplaced(ctx, plan)
	}
	const refused = "Nothing was destroyed: the replacement could not be completed. "
	return r.look(ctx, topology.Topology{}, plan, true, func(
		ctx context.Context, s diagnose.Subject, err error,
	) (diags diag.Diagnostics) {
		if rabbit.IsKind(err, rabbit.VhostNotFound) {
			diags.AddAttributeError(path.Root("vhost"), "Vhost does not exist", fmt.Sprintf(
				refused+"There is no vhost %q. Declare it in an apply before this one.", s.Vhost))
			return diags
		}
		return refusedWith(s.Explain(ctx, "create", err), refused)
	})
}

// lookForDisplaced warns of policies of others that no longer apply to exchanges when those of a create are set.
func (r *managed[C]) lookForDisplaced(ctx context.Context, plan values) diag.Diagnostics {
	return r.look(ctx, topology.Topology{}, plan, false, saysNothing)
}

// lookForUpdate warns likewise of an update. A plan that is settled changes nothing.
func (r *managed[C]) lookForUpdate(ctx context.Context, state, plan values, isSettled bool) diag.Diagnostics {
	before, diags := r.kind.of(state)
	if isSettled || diags.HasError() { // which the refresh has said
		return nil
	}
	return r.look(ctx, before.Desired, plan, false, saysNothing)
}

func saysNothing(context.Context, diagnose.Subject, error) diag.Diagnostics { return nil }

// look says what a create or a replacement would meet, and an update as far as policies are concerned. Refused has the
// words for what would be refused.
func (r *managed[C]) look(
	ctx context.Context, before topology.Topology, plan values, replaces bool,
	refused func(context.Context, diagnose.Subject, error) diag.Diagnostics,
) (diags diag.Diagnostics) {
	if !r.Connection.IsKnown() || !r.kind.isKnown(plan) {
		return nil
	}
	x, wrong := r.kind.of(plan)
	if wrong.HasError() {
		return nil
	}
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	defer cancel()
	s := topologySubject(r, x, plan)
	s.Options.Own, s.Options.Replaces = r.prior(s.Vhost), replaces
	s.Options.DeliveryPlanned = slices.ContainsFunc(r.Connection.Planned.In(s.Vhost),
		func(one connection.Planned) bool { return one.Has(s.Desired.Delivery) })
	for _, problem := range r.Connection.Engine.Preview(ctx, engine.Change{Kind: s.Kind, Vhost: s.Vhost,
		Before: before, After: s.Desired, Options: s.Options}) {
		if problem.Code == engine.Displaces {
			diags.Append(s.Explain(ctx, "update", problem.Cause)...)
		} else {
			diags.Append(refused(ctx, s, problem.Cause)...)
		}
	}
	return diags
}

// prior is all that the state has in the vhost.
func (r *managed[C]) prior(vhost string) topology.Topology {
	own := topology.New()
	for _, prior := range r.Connection.Planned.PriorIn(vhost) {
		own = own.Union(prior.Topology)
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
func (r *managed[C]) lookForInbound(ctx context.Context, state values) diag.Diagnostics {
	var diags diag.Diagnostics
	if lines := r.inbound(ctx, state); len(lines) > 0 {
		diags.AddWarning("Bindings of others go, too", fmt.Sprintf(
			"The %s with entry exchange %q in vhost %q is to be destroyed. These bindings of others lead into it, and "+
				"go with it:\n\n  %s\n\nWhoever made them has to bind again.", r.kind.name,
			state.text("entry_exchange"), state.text("vhost"),
			strings.Join(diagnose.AtMost(lines), "\n  ")))
	}
	return diags
}

// inbound are the bindings of others into the exchanges that go, in words.
func (r *managed[C]) inbound(ctx context.Context, state values) (lines []string) {
	x, diags := r.kind.of(state)
	if diags.HasError() || !r.Connection.IsKnown() {
		return nil
	}
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	defer cancel()
	for _, problem := range r.Connection.Engine.Preview(ctx, engine.Change{Kind: r.kind.name,
		Vhost: state.text("vhost"), Before: x.Desired, Options: state.options()}) {
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
