// Package resource has the resources. A configuration goes in, is expanded by internal/delay, and goes as a change to
// internal/engine. What a broker then has comes out as a state. Call All. For list resources, call FindCascades,
// FindLadders and FindDestinations.
//
// Each resource is a kind: a table of its attributes, and its part of the lifecycle. Read package attribute, then
// kind.go and cascade.go. What Terraform does with a resource is in managed.go and plan.go, for all kinds.
package resource

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/private"
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

// managed is what Terraform does with the resources of a kind.
type managed[C any] struct {
	connection.Configured
	kind *kind[C]
}

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
	resp.Diagnostics.Append(diagnose.ConfigErrors(errs)...)
	if len(errs) == 0 {
		resp.Diagnostics.Append(checkDrainTimeout(ctx, config)...)
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
	state, diags := r.write(ctx, &change[C]{verb: "create", after: plan, private: resp.Private})
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
	timeout, diags := timeoutsOf(state).Read(ctx, connection.DefaultReadTimeout)
	resp.Diagnostics.Append(diags...)
	have, diags := r.kind.Of(state)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
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
	state, diags := r.write(ctx, &change[C]{verb: "update", before: prior, after: plan, private: resp.Private})
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
	_, diags = r.write(ctx, &change[C]{verb: "destroy", before: state, private: resp.Private})
	resp.Diagnostics.Append(diagnose.WithWayOut(diagnose.OfState(diags))...)
}

// change is one that is to be made. Before is nil in a create, and after in a destroy.
type change[C any] struct {
	verb          string
	before, after attribute.Values
	// had and gets are what they stand for.
	had, gets attribute.Resolved[C]
	engine    engine.Change
	private   private.State
	// owner is the owner's mark of a cascade or ladder, empty in a destroy if it has none.
	owner string
}

// write makes a change. The state is nil if there is none then, or it is as it was.
func (r *managed[C]) write(ctx context.Context, c *change[C]) (state attribute.Values, diags diag.Diagnostics) {
	now := c.after
	if now == nil {
		now = c.before
	}
	timeout, diags := writeTimeout(ctx, now, c.verb)
	diags.Append(r.resolve(ctx, c, now)...)
	if !diags.HasError() && !r.Connection.IsKnown() {
		diags.Append(diagnose.NotConfigured("the broker cannot be reached"))
	}
	if diags.HasError() {
		return nil, diags
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := r.Connection.Engine.Apply(ctx, c.engine)
	diags.Append(r.kind.say(ctx, r, c, result, err)...)
	if err == nil && r.kind.recognize != nil {
		diags.Append(r.settle(ctx, c)...)
	}
	if result.There == nil || c.after == nil {
		return nil, diags
	}
	state = c.after
	if c.before != nil && !result.IsNew {
		state = c.before
	}
	diags.Append(r.kind.SetActual(state, *result.There)...)
	if r.kind.remember != nil {
		diags.Append(r.kind.remember(ctx, c, result)...)
	}
	return state, diags
}

// resolve works out what the two sides of a change stand for.
func (r *managed[C]) resolve(ctx context.Context, c *change[C], now attribute.Values) (diags diag.Diagnostics) {
	c.engine = engine.Change{Kind: r.kind.name, Vhost: now.Text("vhost"), Options: optionsOf(now)}
	var more diag.Diagnostics
	if c.before != nil {
		c.had, more = r.kind.Of(c.before)
		c.engine.Before = c.had.Desired
		diags.Append(diagnose.OfState(more)...)
	}
	if c.after != nil {
		c.gets, more = r.kind.Of(c.after)
		c.engine.After = c.gets.Desired
		diags.Append(more...)
	}
	if diags.HasError() {
		return diags
	}
	if c.before != nil && c.after != nil {
		altered, more := r.kind.alteredBy(c.before, c.after)
		diags.Append(more...)
		c.engine.Options.Rebuild = len(altered) > 0
	}
	if r.kind.prepare != nil {
		diags.Append(r.kind.prepare(ctx, r, c)...)
	}
	return diags
}

// identityOf is what tells one from another on a broker.
func (k *kind[C]) identityOf(v attribute.Values) types.Object {
	id := maps.Clone(v)
	maps.DeleteFunc(id, func(name string, _ attr.Value) bool { return k.identity[name] == nil })
	return id.Object()
}
