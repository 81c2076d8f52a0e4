package resource

import (
	"context"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// ModifyPlan writes the expansion into the plan, and has the kind look what the plan would do. What it writes comes
// from the configuration, and from the state only where that says the same in other words.
func (r *managed[C]) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	p := planning[C]{req: req, resp: resp}
	if !req.State.Raw.IsNull() {
		state, diags := attribute.ValuesOf(ctx, req.State)
		resp.Diagnostics.Append(diagnose.OfState(diags)...)
		p.state = state
	}
	if req.Plan.Raw.IsNull() {
		if p.state != nil && !resp.Diagnostics.HasError() {
			p.before, _ = r.kind.known(p.state) // the destroy is refused if it is wrong
			found := r.lookForAMQP(ctx, p.state)
			r.kind.lookAtDestroy(ctx, r, p)
			resp.Diagnostics.Append(<-found...)
		}
		return
	}
	config, diags := attribute.ValuesOf(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	plan, diags := attribute.ValuesOf(ctx, req.Plan)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	p.config, p.plan = config, plan
	resp.Diagnostics.Append(diagnose.ConfigErrors(r.kind.SetComputed(plan, config, p.state))...)
	if resp.Diagnostics.HasError() {
		return
	}
	if p.state != nil {
		r.kind.KeepEqual(plan, p.state)
		resp.Diagnostics.Append(diagnose.ConfigErrors(r.computeFromKept(plan, config, p.state))...)
	}
	if r.kind.complete != nil {
		r.kind.complete(plan, p.state)
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan.Object())...)
	if p.state != nil {
		p.before, diags = r.kind.known(p.state)
		resp.Diagnostics.Append(diagnose.OfState(diags)...)
	}
	p.after, diags = r.kind.known(plan)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if resp.Plan.Raw.Equal(req.State.Raw) {
		r.kind.look(ctx, r, p)
		return
	}
	found := r.lookForAMQP(ctx, plan)
	r.kind.look(ctx, r, p)
	resp.Diagnostics.Append(<-found...)
}

// computeFromKept plans what follows from values that the plan keeps in place of the configured ones.
func (r *managed[C]) computeFromKept(plan, config, state attribute.Values) delay.Errors {
	kept := maps.Clone(config)
	for name, value := range config {
		if !value.IsNull() {
			kept[name] = plan[name]
		}
	}
	if maps.EqualFunc(kept, config, attr.Value.Equal) {
		return nil
	}
	errs := r.kind.SetComputed(plan, kept, state)
	r.kind.KeepEqual(plan, state)
	return errs
}

// amqpTimeout is longer than it takes to find out that a port does not answer.
const amqpTimeout = 5 * time.Second

// lookForAMQP finds a warning of a given address for AMQP that does not work, one for a plan. It looks beside all else.
func (r *managed[C]) lookForAMQP(ctx context.Context, v attribute.Values) <-chan diag.Diagnostics {
	found := make(chan diag.Diagnostics, 1)
	if !r.Connection.IsKnown() || v["vhost"].IsUnknown() {
		found <- nil
		return found
	}
	vhost := r.Connection.Client.Vhost(v.Text("vhost"))
	go func() {
		ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), amqpTimeout)
		defer cancel()
		found <- diagnose.AMQPNotUsable(vhost.LookForAMQP(ctx))
	}()
	return found
}
