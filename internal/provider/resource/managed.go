// Package resource has the resources. A configuration goes in, is expanded by internal/delay, and goes as a change to
// internal/engine. What a broker then has comes out as a state. Call All. For list resources, call FindCascades,
// FindLadders and FindDestinations.
//
// Each resource is a kind: a table of its attributes, and its part of the lifecycle. Read package attribute, then
// kind.go and cascade.go. What Terraform does with a resource is in managed.go and plan.go, for all kinds.
package resource

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
)

// All are the resources.
func All() []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &managed[delay.Config]{kind: cascades} },
		func() resource.Resource { return &managed[delay.LadderConfig]{kind: ladders} },
		func() resource.Resource { return &managed[delay.Destination]{kind: destinations} },
	}
}

var (
	_ resource.ResourceWithConfigure      = (*managed[delay.Config])(nil)
	_ resource.ResourceWithValidateConfig = (*managed[delay.Config])(nil)
	_ resource.ResourceWithModifyPlan     = (*managed[delay.Config])(nil)
	_ resource.ResourceWithIdentity       = (*managed[delay.Config])(nil)
	_ resource.ResourceWithImportState    = (*managed[delay.Config])(nil)
)

func (r *managed[C]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind.name
	resp.ResourceBehavior.MutableIdentity = r.kind.mutableIdentity
}

func (r *managed[C]) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{MarkdownDescription: r.kind.doc, Attributes: r.kind.Schema()}
}

func (r *managed[C]) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	resp.IdentitySchema = identityschema.Schema{Attributes: r.kind.identity}
}

// ValidateConfig reports what the broker would refuse, on the attribute it concerns, as far as that is known.
func (r *managed[C]) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	config, diags := attribute.ValuesOf(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || req.Config.Raw.IsNull() {
		return
	}
	errs := r.kind.Check(config)
	if len(errs) == 0 {
		_, errs = r.kind.Computed(config, nil)
	}
	if len(errs) == 0 && r.kind.checkTogether != nil {
		errs = r.kind.checkTogether(config)
	}
	resp.Diagnostics.Append(diagnose.ConfigErrors(errs)...)
	if len(errs) == 0 {
		resp.Diagnostics.Append(checkDrainTimeout(config)...)
	}
}

// Create makes the objects if none of them exists, or takes over existing ones and adds the rest. If that fails, only
// objects that could not be taken back are left in the state, unless they may have been there before.
func (r *managed[C]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	plan, diags := attribute.ValuesOf(ctx, req.Plan)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	state, diags := r.write(ctx, &change[C]{plan: plan, private: resp.Private})
	resp.Diagnostics.Append(diags...)
	if state != nil {
		resp.Diagnostics.Append(resp.State.Set(ctx, state.Object())...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, r.kind.identityOf(state))...)
	}
}

// Read writes what the broker has into the state.
func (r *managed[C]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	defer func() { resp.Diagnostics = diagnose.OfState(resp.Diagnostics) }()
	state, diags := attribute.ValuesOf(ctx, req.State)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Connection.IsKnown() {
		resp.Diagnostics.Append(diagnose.NotRefreshed(r.kind.name))
		resp.Diagnostics.Append(resp.Identity.Set(ctx, r.kind.identityOf(state))...)
		return
	}
	have, diags := r.kind.Of(state)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(state, "read", connection.DefaultReadTimeout))
	defer cancel()
	there, diags := r.kind.read(ctx, r, have, state, resp.Private)
	resp.Diagnostics.Append(diagnose.WithWayOut(diags)...)
	if resp.Diagnostics.HasError() {
		return
	}
	// The framework wants an identity even of an object that is gone, and Terraform before 1.12 brings none.
	resp.Diagnostics.Append(resp.Identity.Set(ctx, r.kind.identityOf(state))...)
	if there == nil {
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(r.kind.SetActual(state, *there)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, state.Object())...)
}

// Update brings the broker from any state to the planned one. If it fails, the state holds the objects that exist then.
func (r *managed[C]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	prior, diags := attribute.ValuesOf(ctx, req.State)
	resp.Diagnostics.Append(diagnose.OfState(diags)...)
	plan, diags := attribute.ValuesOf(ctx, req.Plan)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	state, diags := r.write(ctx, &change[C]{state: prior, plan: plan, private: resp.Private})
	resp.Diagnostics.Append(diags...)
	if state == nil {
		state = prior
	} else {
		resp.Diagnostics.Append(resp.State.Set(ctx, state.Object())...)
	}
	resp.Diagnostics.Append(resp.Identity.Set(ctx, r.kind.identityOf(state))...)
}

// Delete removes the objects, unless messages wait in them.
func (r *managed[C]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	state, diags := attribute.ValuesOf(ctx, req.State)
	resp.Diagnostics.Append(diagnose.OfState(diags)...)
	if resp.Diagnostics.HasError() {
		return
	}
	_, diags = r.write(ctx, &change[C]{state: state, private: resp.Private})
	resp.Diagnostics.Append(diagnose.WithWayOut(diagnose.OfState(diags))...)
}

// write makes a change. The state is nil if there is none then, or it is as it was.
func (r *managed[C]) write(ctx context.Context, c *change[C]) (state attribute.Values, diags diag.Diagnostics) {
	diags = r.resolve(ctx, c)
	if !diags.HasError() && !r.Connection.IsKnown() {
		diags.Append(diagnose.NotConfigured("the broker cannot be reached"))
	}
	if diags.HasError() {
		return nil, diags
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout(c.now, c.verb()))
	defer cancel()
	result, err := r.Connection.Engine.Apply(ctx, c.engine)
	diags.Append(r.kind.say(ctx, r, c, result, err)...)
	if err == nil && r.kind.recognize != nil {
		diags.Append(r.settle(ctx, c)...)
	}
	if result.There == nil || c.plan == nil {
		return nil, diags
	}
	state, _ = c.stateAfter(result)
	diags.Append(r.kind.SetActual(state, *result.There)...)
	diags.Append(r.kind.remember(ctx, c, result)...)
	return state, diags
}
