// Package resource has the resources. A configuration goes in, is expanded by internal/delay, and goes as a change to
// internal/engine. What a broker then has comes out as a state. Call All. For list resources and functions, call
// FindDeclared, FindDestination and CascadeOf. Read lifecycle.go first, which cascades and ladders share.
package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// All are the resources.
func All() []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &lifecycle[cascadeModel, *cascadeModel]{} },
		func() resource.Resource { return &lifecycle[ladderModel, *ladderModel]{} },
		func() resource.Resource { return &destinationResource{} },
	}
}

// declaration is the model of a resource that stands for a topology.
type declaration[M any] interface {
	*M
	// kind is what the resource is called in messages.
	kind() string
	// exampleEntry is how the entry of such a thing may be called.
	exampleEntry() string
	// schema is that of the resource.
	schema(ctx context.Context) schema.Schema
	// common is the part of the model that all such resources have.
	common() *declaredModel
	// expand is the topology that the model stands for; all values of the model are known.
	expand() (topology.Topology, diag.Diagnostics)
	// setActual writes what a broker has into the model.
	setActual(actual topology.Topology) diag.Diagnostics
	// recognize reads the model off the broker, before the objects are read. Its error may come from the broker.
	recognize(ctx context.Context, look recognize.Lookup, vhost, entry string) error

	// validate reports what the broker would refuse in the configuration, as far as that is known.
	validate(ctx context.Context) diag.Diagnostics
	// forecast computes as much as can be said of a configuration with unknown values. The errors are faults that no
	// such value would mend.
	forecast(ctx context.Context) (computed, delay.Errors)
	// setComputed plans what the configuration leaves to the provider.
	setComputed(config *M, c computed)
	// keep keeps in the plan what the state says in other words.
	keep(state *M)
	// alteredBy lists the attributes for whose sake exchanges or queues get other arguments or names by the plan.
	alteredBy(plan *M) (path.Paths, diag.Diagnostics)
	// isKnown tells whether all values are known that the topology depends on.
	isKnown() bool
	// scale is what the delays are written in: its levels are the words before the address in a routing key. A ladder,
	// whose one word is a label, has neither base nor resolution.
	scale() delay.Scale
}

var (
	_ resource.ResourceWithConfigure      = (*lifecycle[cascadeModel, *cascadeModel])(nil)
	_ resource.ResourceWithValidateConfig = (*lifecycle[cascadeModel, *cascadeModel])(nil)
	_ resource.ResourceWithModifyPlan     = (*lifecycle[cascadeModel, *cascadeModel])(nil)
	_ resource.ResourceWithIdentity       = (*lifecycle[cascadeModel, *cascadeModel])(nil)
	_ resource.ResourceWithImportState    = (*lifecycle[cascadeModel, *cascadeModel])(nil)
)

// lifecycle is a resource that stands for a topology: what Terraform does with it.
type lifecycle[M any, P declaration[M]] struct{ connection.Configured }

func (r *lifecycle[M, P]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + P(new(M)).kind()
}

func (r *lifecycle[M, P]) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = P(new(M)).schema(ctx)
}

// defaultWriteTimeout is how long an operation that writes may take unless the timeouts attribute says otherwise.
const defaultWriteTimeout = 10 * time.Minute

// timeoutsAttribute is the timeouts attribute. Drained says what comes on top of the default where a drain may be
// waited for.
func timeoutsAttribute(ctx context.Context, drained string) schema.Attribute {
	say := func(operation string, limit time.Duration, more string) string {
		return fmt.Sprintf("How long %s may take, such as `90s` or `1h30m`. Default: `%.0fm`%s.", operation,
			limit.Minutes(), more)
	}
	attribute, _ := timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, CreateDescription: say("a create", defaultWriteTimeout, ""),
		Read: true, ReadDescription: say("a refresh", connection.DefaultReadTimeout, ""),
		Update: true, UpdateDescription: say("an update", defaultWriteTimeout, drained),
		Delete: true, DeleteDescription: say("a destroy", defaultWriteTimeout, drained) + " Has to be applied before " +
			"a destroy.",
	}).(schema.SingleNestedAttribute)
	for name, each := range attribute.Attributes {
		text, _ := each.(schema.StringAttribute)
		text.Validators = []validator.String{tfvalue.PositiveDuration{}}
		attribute.Attributes[name] = text
	}
	return attribute
}

func (r *lifecycle[M, P]) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"vhost": identityschema.StringAttribute{RequiredForImport: true, Description: "Virtual host."},
		"entry_exchange": identityschema.StringAttribute{RequiredForImport: true,
			Description: "Exchange that publishers use."},
	}}
}

// Create builds the declared objects if none of them exists, or takes over existing ones and adds the rest. If that
// fails, only objects that could not be taken back are left in the state, unless they may have been there before.
func (r *lifecycle[M, P]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	declared := P(&model).common()
	timeout, diags := declared.Timeouts.Create(ctx, defaultWriteTimeout)
	resp.Diagnostics.Append(diags...)
	o, diags := r.newOperation(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := o.apply(ctx, topology.Topology{}, o.subject.Desired)
	resp.Diagnostics.Append(o.subject.Explain(ctx, "create", err)...)
	resp.Diagnostics.Append(o.subject.Warnings(result.State)...)
	if result.There != nil {
		resp.Diagnostics.Append(P(&model).setActual(*result.There)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, declared.identity())...)
	}
}

// Read writes what the broker has into the state.
func (r *lifecycle[M, P]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	defer func() { resp.Diagnostics = diagnose.OfState(resp.Diagnostics) }()
	var model M
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	declared := P(&model).common()
	if !r.Connection.IsKnown() {
		resp.Diagnostics.Append(diagnose.NotRefreshed(P(&model).kind()))
		resp.Diagnostics.Append(resp.Identity.Set(ctx, declared.identity())...)
		return
	}
	timeout, diags := declared.Timeouts.Read(ctx, connection.DefaultReadTimeout)
	resp.Diagnostics.Append(diags...)
	o, diags := r.newOperation(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	state, err := o.vhost.ReadExisting(ctx, o.subject.Desired)
	if err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		resp.Diagnostics.Append(o.subject.Failed("read", err))
		return
	}
	// The framework wants an identity even of an object that is gone, and Terraform before 1.12 brings none.
	resp.Diagnostics.Append(resp.Identity.Set(ctx, declared.identity())...)
	if err != nil || state.IsEmpty() {
		resp.Diagnostics.Append(o.subject.Gone(err)...)
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(o.subject.Drift(state)...)
	resp.Diagnostics.Append(o.subject.Warnings(state)...)
	if r.Connection.Planned.Refresh(o.subject.Vhost, o.subject.Desired.Entry) {
		resp.Diagnostics.Append(o.subject.Twice())
	}
	resp.Diagnostics.Append(P(&model).setActual(state.Topology)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	waits, err := json.Marshal(diagnose.CountWaiting(o.subject.Desired, state))
	if err != nil {
		resp.Diagnostics.AddError("Could not keep the counts of messages", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, inFlightKey, waits)...)
}

// Update brings the broker from any state to the planned one.
func (r *lifecycle[M, P]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var prior, model M
	resp.Diagnostics.Append(diagnose.OfState(req.State.Get(ctx, &prior))...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	declared := P(&model).common()
	o, diags := r.newOperation(&model)
	resp.Diagnostics.Append(diags...)
	before, diags := P(&prior).expand()
	resp.Diagnostics.Append(diagnose.OfState(diags)...)
	altered, diags := P(&prior).alteredBy(&model)
	resp.Diagnostics.Append(diags...)
	timeout, diags := declared.Timeouts.Update(ctx, defaultWriteTimeout+declared.guard().Drain)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	o.subject.Options.Rebuild = len(altered) > 0
	result, err := o.apply(ctx, before, o.subject.Desired)
	resp.Diagnostics.Append(o.subject.Explain(ctx, "update", err)...)
	resp.Diagnostics.Append(o.subject.Warnings(result.State)...)
	resp.Diagnostics.Append(o.subject.LeftStanding(before.Delivery, result.Users)...)
	if result.There != nil {
		left := &prior
		if result.IsNew {
			left = &model
		}
		resp.Diagnostics.Append(P(left).setActual(*result.There)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, left)...)
	}
	resp.Diagnostics.Append(resp.Identity.Set(ctx, declared.identity())...)
}

// Delete removes the declared objects, unless messages wait in them.
func (r *lifecycle[M, P]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	defer func() { resp.Diagnostics = diagnose.OfState(resp.Diagnostics) }()
	var model M
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	declared := P(&model).common()
	o, diags := r.newOperation(&model)
	resp.Diagnostics.Append(diags...)
	timeout, diags := declared.Timeouts.Delete(ctx, defaultWriteTimeout+declared.guard().Drain)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := o.apply(ctx, o.subject.Desired, topology.Topology{})
	resp.Diagnostics.Append(o.subject.TakenOver(result.TakenOver)...)
	resp.Diagnostics.Append(o.subject.Explain(ctx, "destroy", err)...)
	resp.Diagnostics.Append(o.subject.LeftStanding(o.subject.Desired.Delivery, result.Users)...)
}

// operation is one change of a topology, or a look at one.
type operation struct {
	engine  *engine.Engine
	vhost   *rabbit.Vhost
	subject diagnose.Subject
}

func (o *operation) change(before, after topology.Topology) engine.Change {
	return engine.Change{Kind: o.subject.Kind, Vhost: o.subject.Vhost, Before: before, After: after,
		Options: o.subject.Options}
}

func (o *operation) apply(ctx context.Context, before, after topology.Topology) (engine.Result, error) {
	return o.engine.Apply(ctx, o.change(before, after))
}

// newOperation expands a model whose values are all known, and gets the way to the broker.
func (r *lifecycle[M, P]) newOperation(model P) (*operation, diag.Diagnostics) {
	desired, diags := model.expand()
	if diags.HasError() {
		return nil, diags
	}
	if !r.Connection.IsKnown() {
		diags.Append(diagnose.NotConfigured())
		return nil, diags
	}
	vhost := r.Connection.Client.Vhost(model.common().Vhost.ValueString())
	importable := func(ctx context.Context) (topology.Topology, bool) {
		var found M
		if err := P(&found).recognize(ctx, vhost, vhost.Name(), desired.Entry); err != nil {
			return topology.Topology{}, false
		}
		recognized, diags := P(&found).expand()
		return recognized, !diags.HasError()
	}
	subject := diagnose.Subject{Kind: model.kind(), Vhost: vhost.Name(), Desired: desired,
		Options: model.common().options(), Importable: importable}
	return &operation{r.Connection.Engine, vhost, subject}, diags
}

// inFlightKey is where the private state keeps what Read counted, for the warnings of plans.
const inFlightKey = "in_flight"
