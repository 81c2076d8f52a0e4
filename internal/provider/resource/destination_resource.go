package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

var (
	_ resource.ResourceWithConfigure      = (*destinationResource)(nil)
	_ resource.ResourceWithValidateConfig = (*destinationResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*destinationResource)(nil)
	_ resource.ResourceWithIdentity       = (*destinationResource)(nil)
	_ resource.ResourceWithImportState    = (*destinationResource)(nil)
)

type destinationResource struct{ connection.Configured }

func (r *destinationResource) Metadata(
	_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_destination"
	// It is the binding, and an update makes another one.
	resp.ResourceBehavior.MutableIdentity = true
}

func (r *destinationResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Where delayed messages go: binds one queue or exchange to the delivery exchange of a " +
			"cascade, for one address. The address is what publishers write behind the digits of the delay in a " +
			"routing key.\n\n" +
			"The key is known in the plan. A binding that is gone is made again by the next apply. Every refresh " +
			"warns of other destinations at the exchange that also take messages for this address, or whose messages " +
			"this one also takes. It also warns of a queue that refuses messages when it is full.\n\n" +
			"Every attribute but `vhost` changes in place, the new binding first and then the old one is removed, so " +
			"that no message falls in between. While both are there, for some milliseconds, another queue gets " +
			"messages as well as the one before it; the same queue gets each message once.\n\n" +
			"A queue is bound at once, also one that the same apply has made. Messages of the first three seconds of " +
			"a quorum queue are not safe against a kill of its node.\n\n" +
			"A destroy, a replacement, and a change of the key or exchange take a binding away. Before that, nothing " +
			"may wait in the cascades and ladders that end in the delivery exchange: see `drain_timeout` and " +
			"`force_destroy`. Messages that are still published for the address afterwards find nobody. To move " +
			"publishers, add a destination for the new address. Remove the one for the old address when nobody uses " +
			"it any more.\n\n" +
			"A destroy of both removes the destination before the cascade. Give both a `drain_timeout`: the " +
			"destination then waits until its messages have arrived, and the cascade finds nothing left. Without it, " +
			"a destroy while messages wait is refused, and both stay, unless all these messages are in the queue of " +
			"unroutable messages. They are on their way to no destination: the destination goes, and then the " +
			"cascade is refused.\n\n" +
			"A binding has one destination. It passes to another one in a list that gets shorter, in a swap, or " +
			"under another key of `for_each`. Then set `adopt`, or write a `moved` block, which changes nothing on " +
			"the broker. Otherwise the apply may be refused, but no binding goes that is declared before and after " +
			"it.\n\n" +
			"A name that leads into a cascade or ladder rather than behind it is an error, in the plan if it is " +
			"known there. Other `levels` than those of the cascade are a warning.",
		Attributes: map[string]schema.Attribute{
			"vhost": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(tfvalue.DefaultVhost),
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Virtual host. Default: `/`. A change replaces the destination.",
			},
			"delivery_exchange": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "The topic exchange at the end of the cascade, its attribute " +
					"`delivery_exchange`. It has to exist. The messages of a [ladder](ladder.md) can be received in " +
					"the same way, with `levels = 1`, unless it has a `dead_letter_routing_key`.",
			},
			"levels": schema.Int64Attribute{
				CustomType: tfvalue.WholeNumber{}, Optional: true,
				MarkdownDescription: fmt.Sprintf("Number of levels of the cascade, 1 to %d, its attribute `levels`. "+
					"Required, unless `match` is `suffix`; then it is left out.", delay.MaxLevels),
			},
			"address": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "The address: one word, or several joined by dots, without the wildcards `*` " +
					"and `#`. With its key it can have as many bytes as AMQP allows, 255 in all: with " +
					"28 levels, 199 remain for it.",
			},
			"match": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(string(delay.Exact)),
				MarkdownDescription: "`exact` takes the messages for this address. `suffix` binds with " +
					"`#.<address>`, as NServiceBus and Celery do. The address `orders` then also takes the messages " +
					"for `eu.orders`, and for any other address that ends with `.orders`. Default: `exact`.",
			},
			"queue": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Queue that takes the messages. It has to exist. Exactly one of `queue` and " +
					"`exchange` is given.",
			},
			"exchange": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Exchange that takes the messages, with the routing key that they have at the " +
					"delivery exchange, digits included. It has to exist.",
			},
			"adopt": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether to take over a binding that exists already. Otherwise it is an error, " +
					"before anything is written. Default: `false`.",
			},
			"force_destroy": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether a binding is taken away at once, whatever is on its way. What then " +
					"arrives for the address is unroutable. The cascade's queue of unroutable messages takes it. " +
					"Without one, a quorum queue keeps it and a classic queue loses it. That is for one application " +
					"of many on a cascade that is always busy. Has to be applied before a destroy. Default: `false`.",
			},
			"drain_timeout": schema.StringAttribute{
				Optional: true, CustomType: tfvalue.Duration{},
				MarkdownDescription: "How long the provider waits for empty delay queues before it takes a binding " +
					"away, such as `10m`. A destroy, a replacement, and a change of `address`, `levels`, `match` or " +
					"`delivery_exchange` take it away. The delay queues are those of all cascades and ladders that " +
					"end in the delivery exchange. Any message there counts, because nobody can tell whom it is for " +
					"without reading it. Entries stay open. If messages are left, the binding stays and the error " +
					"says where they wait. Has to be applied before a destroy. `timeouts`, if they are given, have " +
					"to be longer. Default: no waiting, a binding that messages may be on their way to is not taken " +
					"away.",
			},
			"triggers": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Any values. When one of them changes, the apply makes sure that the binding is " +
					"there. That is for a cascade with `force_destroy` that is replaced: its delivery exchange goes " +
					"with all that is bound to it. Otherwise the destination does not see that before the next plan.",
			},
			"timeouts": timeoutsAttribute(ctx, " plus `drain_timeout`"),
			"routing_key": tfvalue.ComputedText(
				"Routing key of the binding: `*.` for each level, or `#.`, and then the address."),
			"leftover_bindings": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Bindings that an update which broke off has left, or may have left, as import " +
					"IDs. They take messages, too. Null if there are none. A refresh keeps those that are there, and " +
					"the plan shows them. The next apply removes all that the configuration does not ask for, as " +
					"does a destroy. Until then, adopt or import none of them elsewhere.",
			},
		},
	}
}

func (r *destinationResource) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"vhost": identityschema.StringAttribute{RequiredForImport: true, Description: "Virtual host."},
		"delivery_exchange": identityschema.StringAttribute{RequiredForImport: true,
			Description: "Exchange that the messages come from."},
		"queue": identityschema.StringAttribute{OptionalForImport: true,
			Description: "Queue that takes the messages. This or exchange is given."},
		"exchange": identityschema.StringAttribute{OptionalForImport: true,
			Description: "Exchange that takes the messages."},
		"routing_key": identityschema.StringAttribute{RequiredForImport: true,
			Description: "Routing key of the binding."},
	}}
}

// ValidateConfig reports what cannot be bound, on the attribute it concerns.
func (r *destinationResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var config destinationModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if empty := config.emptyValues(); len(empty) > 0 {
		resp.Diagnostics.Append(diagnose.ConfigErrors(delay.Errors(empty))...)
		return
	}
	_, diags := config.forecast(ctx)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(config.checkDrainTimeout(ctx)...)
}

// ModifyPlan writes the key into the plan, and that nothing is left over, which makes it an update if something is. It
// checks the names, and says whose messages a change leaves without a way.
func (r *destinationResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan destinationModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	computed, diags := plan.forecast(ctx)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	fill(&plan.RoutingKey, types.StringNull(), computed, "routing_key")
	plan.Leftovers = types.ListNull(types.StringType)
	var state destinationModel
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(diagnose.OfState(req.State.Get(ctx, &state))...)
		plan.keep(&state.operationModel)
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	resp.Diagnostics.Append(r.checkNames(ctx, &plan, req.State.Raw.IsNull() || state.identity() != plan.identity())...)
	if req.State.Raw.IsNull() {
		if r.Connection != nil && resp.Plan.Raw.IsFullyKnown() {
			resp.Diagnostics.Append(plan.checkPlannedOnce(&r.Connection.Bindings)...)
		}
		return
	}
	if resp.Diagnostics.HasError() || plan.RoutingKey.IsUnknown() || plan.DeliveryExchange.IsUnknown() {
		return
	}
	resp.Diagnostics.Append(state.leftBy(&plan)...)
}

// leftBy warns of the messages that nobody takes once the plan is carried out.
func (m *destinationModel) leftBy(plan *destinationModel) diag.Diagnostics {
	var diags diag.Diagnostics
	if m.DeliveryExchange.Equal(plan.DeliveryExchange) && plan.config().TakesAll(m.config()) {
		return diags
	}
	var changes []string
	change := func(what string, before, after types.String) {
		if !before.Equal(after) {
			changes = append(changes, fmt.Sprintf("the %s changes from %q to %q", what, before.ValueString(),
				after.ValueString()))
		}
	}
	change("delivery exchange", m.DeliveryExchange, plan.DeliveryExchange)
	change("key", m.RoutingKey, plan.RoutingKey)
	from := ""
	if !m.DeliveryExchange.Equal(plan.DeliveryExchange) {
		from = fmt.Sprintf(" that arrive at exchange %q", m.DeliveryExchange.ValueString())
	}
	diags.AddWarning("Messages on their way may become unroutable", fmt.Sprintf(
		"%s. Messages for the address %q%s, if some are on their way or still published, are then unroutable unless "+
			"something else is bound for them. To move "+
			"publishers without that, add a second destination, and remove this one when nobody uses it any more.",
		diagnose.Title(strings.Join(changes, ", and ")), m.Address.ValueString(), from))
	return diags
}

// Create binds, unless the binding exists already.
func (r *destinationResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model destinationModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	timeout, diags := model.Timeouts.Create(ctx, defaultWriteTimeout)
	resp.Diagnostics.Append(diags...)
	o, diags := r.newOperation(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := o.engine.Apply(ctx, o.change(model.who("created"), nil, o.subject.Binding))
	resp.Diagnostics.Append(o.subject.ExplainAll("create", result.Problems, err)...)
	if result.State != nil {
		resp.Diagnostics.Append(o.subject.Overlaps(result.State.Bindings.Sorted())...)
	}
	if result.There != nil {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
	}
}

// Read looks whether the binding is there, and who else takes its messages.
func (r *destinationResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	defer func() { resp.Diagnostics = diagnose.OfState(resp.Diagnostics) }()
	var model destinationModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Connection.IsKnown() {
		resp.Diagnostics.Append(diagnose.NotRefreshed("destination"))
		resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
		return
	}
	timeout, diags := model.Timeouts.Read(ctx, connection.DefaultReadTimeout)
	resp.Diagnostics.Append(diags...)
	leftovers, diags := model.leftovers()
	resp.Diagnostics.Append(diags...)
	o, diags := r.newOperation(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	there, found, leftovers, err := engine.FindBinding(ctx, o.vhost, o.subject.Binding, leftovers)
	if err == nil && found != o.subject.Binding {
		o.subject.Binding = found
		err = model.setBinding(o.vhost.Name(), found)
	}
	if err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		resp.Diagnostics.Append(o.subject.Failed("read", err))
		return
	}
	model.setLeftovers(leftovers)
	// The framework wants an identity even of an object that is gone, and Terraform before 1.12 brings none.
	resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
	if err != nil || !slices.Contains(there, o.subject.Binding) {
		resp.Diagnostics.Append(o.subject.Gone(model.Address.ValueString())...)
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(o.subject.LeftBehind(leftovers)...)
	resp.Diagnostics.Append(o.subject.Overlaps(without(there, leftovers))...)
	if o.subject.Binding.DestinationType == topology.ToQueue {
		queue, status, _, err := o.vhost.QueueStatus(ctx, o.subject.Binding.Destination)
		if err != nil {
			resp.Diagnostics.Append(o.subject.Failed("read", err))
			return
		}
		resp.Diagnostics.Append(o.subject.Limited(health.Refuses(queue, status))...)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// Update makes the planned binding and then removes the one before, and what earlier updates have left. If it fails,
// the state holds whatever is still bound, or may be.
func (r *destinationResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var prior, model destinationModel
	resp.Diagnostics.Append(diagnose.OfState(req.State.Get(ctx, &prior))...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	before, diags := prior.binding()
	resp.Diagnostics.Append(diagnose.OfState(diags)...)
	leftovers, diags := prior.leftovers()
	resp.Diagnostics.Append(diags...)
	o, diags := r.newOperation(&model)
	resp.Diagnostics.Append(diags...)
	timeout, diags := model.Timeouts.Update(ctx, defaultWriteTimeout+model.guard().Drain)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	isShared := isShared(ctx, req.Private) && before != o.subject.Binding
	own := append(slices.Clone(leftovers), before)
	if isShared {
		own = without(own, []topology.Binding{before})
	}
	result, err := o.engine.Apply(ctx, o.change(prior.who("updated"), own, o.subject.Binding))
	said := o.subject.ExplainAll("update", result.Problems, err)
	if result.State != nil {
		said.Append(o.subject.Overlaps(result.State.Bindings.Sorted())...)
	}
	left, has := &model, o.subject.Binding
	if !result.IsNew {
		left, has = &prior, before
	}
	there := topology.Bindings{}
	if result.There != nil {
		there = result.There.Bindings
	}
	if !slices.Contains(own, o.subject.Binding) {
		own = append(own, o.subject.Binding)
	}
	leftovers = slices.DeleteFunc(own, func(b topology.Binding) bool { return b == has || !there.Has(b) })
	o.subject.Binding = has
	var unfinished *engine.UnfinishedError
	if errors.As(err, &unfinished) && unfinished.Undo == nil {
		resp.Diagnostics.Append(o.subject.LeftBehind(leftovers)...)
	}
	resp.Diagnostics.Append(said...)
	left.setLeftovers(leftovers)
	_, isTaken := result.TakenOver[engine.BindingObject(o.vhost.Name(), before)]
	shared := fmt.Append(nil, !result.IsNew && (isShared || isTaken))
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, sharedKey, shared)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, left)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, left.identity())...)
}

func without(bindings, others []topology.Binding) []topology.Binding {
	return slices.DeleteFunc(slices.Clone(bindings),
		func(b topology.Binding) bool { return slices.Contains(others, b) })
}

// sharedKey is where the private state keeps that another resource has taken the binding, which an update could not
// leave behind. Whoever has the binding in the state then has it no more.
const sharedKey = "shared"

// isShared tells whether the private state says so.
func isShared(ctx context.Context, private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}) bool {
	shared, _ := private.GetKey(ctx, sharedKey)
	return string(shared) == "true"
}

// Delete removes this binding and what updates have left of it, and nothing else.
func (r *destinationResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	defer func() { resp.Diagnostics = diagnose.OfState(resp.Diagnostics) }()
	var model destinationModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	leftovers, diags := model.leftovers()
	resp.Diagnostics.Append(diags...)
	o, diags := r.newOperation(&model)
	resp.Diagnostics.Append(diags...)
	timeout, diags := model.Timeouts.Delete(ctx, defaultWriteTimeout+model.guard().Drain)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	own := leftovers
	if !isShared(ctx, req.Private) {
		own = append(own, o.subject.Binding)
	}
	if len(own) == 0 {
		return
	}
	_, err := o.engine.Apply(ctx, o.change(model.who("destroyed"), own))
	resp.Diagnostics.Append(o.subject.Explain("destroy", err)...)
}

// bindingOperation is one operation on a destination.
type bindingOperation struct {
	engine  *engine.Engine
	vhost   *rabbit.Vhost
	subject diagnose.Destination
}

// change is one of bindings, named for the errors of others.
func (o *bindingOperation) change(who string, before []topology.Binding, after ...topology.Binding) engine.Change {
	return engine.Change{Kind: who, Vhost: o.vhost.Name(), Options: o.subject.Options,
		Before: topology.Topology{Bindings: topology.NewBindings(before...)},
		After:  topology.Topology{Bindings: topology.NewBindings(after...)}}
}

// newOperation gets the way to the broker for a model whose values are all known.
func (r *destinationResource) newOperation(model *destinationModel) (*bindingOperation, diag.Diagnostics) {
	b, diags := model.binding()
	if diags.HasError() {
		return nil, diags
	}
	if !r.Connection.IsKnown() {
		diags.Append(diagnose.NotConfigured())
		return nil, diags
	}
	vhost := r.Connection.Client.Vhost(model.Vhost.ValueString())
	return &bindingOperation{r.Connection.Engine, vhost, diagnose.Destination{
		Vhost: vhost.Name(), Binding: b, Options: model.options()}}, diags
}
