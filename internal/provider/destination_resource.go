package provider

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

var (
	_ resource.ResourceWithConfigure      = (*destinationResource)(nil)
	_ resource.ResourceWithValidateConfig = (*destinationResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*destinationResource)(nil)
	_ resource.ResourceWithIdentity       = (*destinationResource)(nil)
	_ resource.ResourceWithImportState    = (*destinationResource)(nil)
)

func newDestinationResource() resource.Resource { return &destinationResource{} }

type destinationResource struct{ connection *connection }

func (r *destinationResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_destination"
	// It is the binding, and an update makes another one.
	resp.ResourceBehavior.MutableIdentity = true
}

func (r *destinationResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Where delayed messages go: binds one queue or exchange to the delivery exchange of a cascade, for one address. The address is what publishers write " +
			"behind the digits of the delay in a routing key.\n\n" +
			"The key is known in the plan. A binding that is gone is made again by the next apply. Every refresh warns of other destinations at the exchange that also take " +
			"messages for this address, or whose messages this one also takes, and of a queue that refuses messages when it is full.\n\n" +
			"Every attribute but `vhost` changes in place, the new binding first and then the old one is removed, so " +
			"that no message falls in between. While both are there, for some milliseconds, another queue gets " +
			"messages as well as the one before it; the same queue gets each message once.\n\nBefore a binding is " +
			"taken away, by a destroy, a replacement or a change of its key or exchange, nothing may wait in what " +
			"ends in the delivery exchange: see `drain_timeout` and `force_destroy`. Messages that are still " +
			"published for the address afterwards find nobody: to move publishers, add a destination for the new " +
			"address, and remove the one for the old address when nobody uses it any more.\n\nA destroy of both " +
			"removes the destination before the cascade. Give both a `drain_timeout`: the destination then waits " +
			"until its messages have arrived, and the cascade finds nothing left. Without it, a destroy while " +
			"messages wait is refused, and both stay as they are.\n\nA binding has one destination. Where it passes " +
			"to another one, in a list that gets shorter, a swap, or under another key of `for_each`, set `adopt`, " +
			"or write a `moved` block, which changes nothing on the broker. Otherwise the apply may be refused, but " +
			"no binding goes that is declared before and after it.\n\nA name that leads into a cascade or ladder " +
			"rather than behind it is an error, in the plan if it is known there, and `levels` that are not those of " +
			"the cascade are warned of.",
		Attributes: map[string]schema.Attribute{
			"vhost": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(defaultVhost),
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Virtual host. Default: `/`. A change replaces the destination.",
			},
			"delivery_exchange": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "The topic exchange at the end of the cascade, its attribute `delivery_exchange`. It has to exist. The messages of a " +
					"[ladder](ladder.md) can be received in the same way, with `levels = 1`, unless it has a `dead_letter_routing_key`.",
			},
			"levels": schema.Int64Attribute{
				Optional:            true,
				MarkdownDescription: fmt.Sprintf("Number of levels of the cascade, 1 to %d, its attribute `levels`. Required, unless `match` is `suffix`; then it is left out.", cascade.MaxLevels),
			},
			"address": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "The address: one word, or several joined by dots, without the wildcards `*` and `#`. With its key it can have as many bytes as AMQP allows, 255 in all: with " +
					"28 levels, 199 remain for it.",
			},
			"match": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(string(cascade.Exact)),
				MarkdownDescription: "`exact` takes the messages for this address. `suffix` binds with `#.<address>`, as NServiceBus and Celery do: `orders` then also takes the messages for " +
					"`eu.orders`, and for any other address that ends with `.orders`. Default: `exact`.",
			},
			"queue": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Queue that takes the messages. It has to exist. Exactly one of `queue` and `exchange` is given.",
			},
			"exchange": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Exchange that takes the messages, with the routing key that they have at the delivery exchange, digits included. It has to exist.",
			},
			"adopt": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether to take over a binding that exists already. Otherwise it is an error, before anything is written. Default: `false`.",
			},
			"force_destroy": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether a binding is taken away at once, whatever is on its way. What then " +
					"arrives for the address is unroutable: it is parked in the cascade's queue of unroutable " +
					"messages, or, without one, a quorum queue keeps it and a classic queue loses it. That is for " +
					"one application of many on a cascade that is always busy. Has to be applied before a destroy. " +
					"Default: `false`.",
			},
			"drain_timeout": schema.StringAttribute{
				Optional: true, CustomType: timetypes.GoDurationType{},
				MarkdownDescription: "How long a destroy, a replacement, or a change of `address`, `levels`, `match` " +
					"or `delivery_exchange` waits, before it takes a binding away, for the delay queues of all " +
					"cascades and ladders that end in the delivery exchange to run empty, such as `10m`. Any message " +
					"there counts, because nobody can tell whom it is for without reading it. Entries stay open. If " +
					"messages are left, the binding stays and the error says where they wait. Has to be applied " +
					"before a destroy. `timeouts`, if they are given, have to be longer. Default: no waiting, a " +
					"binding that messages may be on their way to is not taken away.",
			},
			"triggers": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Any values. When one of them changes, the apply makes sure that the binding is there. That is for " +
					"a cascade with `force_destroy` that is replaced: its delivery exchange goes with all that is bound to it, " +
					"which the destination otherwise does not see before the next plan.",
			},
			"timeouts": timeoutsAttribute(ctx, " plus `drain_timeout`"),
			"routing_key": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Routing key of the binding: `*.` for each level, or `#.`, and then the address.",
			},
			"leftover_bindings": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Bindings that an update which broke off has left, or may have left, as import IDs. They take messages, too. Null if there are none. A refresh keeps those that are " +
					"there, the plan shows them, and the next apply removes all that the configuration does not ask for, as does a destroy. Until then, adopt or import none of them elsewhere.",
			},
		},
	}
}

func (r *destinationResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"vhost":             identityschema.StringAttribute{RequiredForImport: true, Description: "Virtual host."},
		"delivery_exchange": identityschema.StringAttribute{RequiredForImport: true, Description: "Exchange that the messages come from."},
		"queue":             identityschema.StringAttribute{OptionalForImport: true, Description: "Queue that takes the messages. This or exchange is given."},
		"exchange":          identityschema.StringAttribute{OptionalForImport: true, Description: "Exchange that takes the messages."},
		"routing_key":       identityschema.StringAttribute{RequiredForImport: true, Description: "Routing key of the binding."},
	}}
}

func (r *destinationResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if connection, ok := req.ProviderData.(*connection); ok {
		r.connection = connection
	}
}

// ValidateConfig reports what cannot be bound, on the attribute it concerns.
func (r *destinationResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config destinationModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(config.emptyValues().diagnostics()...)
	if resp.Diagnostics.HasError() {
		return
	}
	_, diags := config.forecast(ctx)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(config.checkDrainTimeout(ctx)...)
}

// ModifyPlan writes the key into the plan, and that nothing is left over, which makes it an update if something is. It
// checks the names, and says whose messages a change leaves without a way.
func (r *destinationResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan destinationModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("leftover_bindings"), types.ListNull(types.StringType))...)
	if resp.Diagnostics.HasError() {
		return
	}
	computed, diags := plan.forecast(ctx)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.RoutingKey = computed.RoutingKey
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("routing_key"), plan.RoutingKey)...)
	var state destinationModel
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	resp.Diagnostics.Append(r.checkNames(ctx, &plan, req.State.Raw.IsNull() || state.identity() != plan.identity())...)
	if req.State.Raw.IsNull() {
		if r.connection != nil && resp.Plan.Raw.IsFullyKnown() {
			resp.Diagnostics.Append(plan.checkPlannedOnce(r.connection.bindings)...)
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
	from := ""
	if !m.DeliveryExchange.Equal(plan.DeliveryExchange) {
		from = fmt.Sprintf(" that arrive at exchange %q", m.DeliveryExchange.ValueString())
	}
	diags.AddWarning("Messages for the address before", fmt.Sprintf(
		"The key changes from %q to %q. Messages for the address %q%s, if some are on their way or still published, are then unroutable unless something else is bound for them. To move "+
			"publishers without that, add a second destination, and remove this one when nobody uses it any more.",
		m.RoutingKey.ValueString(), plan.RoutingKey.ValueString(), m.Address.ValueString(), from))
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
	o, diags := r.open(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	outer := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	if err := o.begin(ctx, model.who("created"), o.binding); err != nil {
		resp.Diagnostics.Append(o.failed("create", err))
		return
	}
	defer o.claim.End()
	there, diags := o.prepare(ctx, "create", model.Adopt.ValueBool(), nil)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	after, done, err := o.rebind(ctx, o.existing(there))
	if err == nil {
		o.take()
		resp.Diagnostics.Append(o.overlaps(after)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
		return
	}
	resp.Diagnostics.Append(o.failed("create", err))
	if err := o.undo(outer, done); err != nil {
		o.take()
		resp.Diagnostics.AddError(notTakenBack, fmt.Sprintf("%s\n\nThe %s may still be there. It stays in the state, marked as tainted: the next apply removes it and creates it anew.", err, o))
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
	}
}

// Read looks whether the binding is there, and who else takes its messages.
func (r *destinationResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model destinationModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.connection == nil || r.connection.client == nil {
		resp.Diagnostics.Append(notRefreshed("destination"))
		resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
		return
	}
	timeout, diags := model.Timeouts.Read(ctx, defaultReadTimeout)
	resp.Diagnostics.Append(diags...)
	leftovers, diags := model.leftovers()
	resp.Diagnostics.Append(diags...)
	o, diags := r.open(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	there, err := o.read(ctx)
	if err == nil {
		leftovers, err = o.present(ctx, leftovers)
	}
	if last := len(leftovers) - 1; err == nil && !o.isIn(there) && last >= 0 {
		// An update got further than it could see: what it was to make is there in place of the one before.
		o.binding, leftovers = leftovers[last], leftovers[:last]
		if there, err = o.read(ctx); err == nil {
			err = model.setBinding(o.vhost, o.binding)
		}
	}
	if err != nil && !broker.IsKind(err, broker.VhostNotFound) {
		resp.Diagnostics.Append(o.failed("read", err))
		return
	}
	model.setLeftovers(leftovers)
	// The framework wants an identity even of what is gone, and Terraform before 1.12 brings none.
	resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
	if err != nil || !o.isIn(there) {
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(o.leftBehind(leftovers)...)
	resp.Diagnostics.Append(o.overlaps(without(there, leftovers...))...)
	if o.binding.DestinationType == topology.ToQueue {
		_, limit, err := o.queue(ctx)
		if err != nil {
			resp.Diagnostics.Append(o.failed("read", err))
			return
		}
		resp.Diagnostics.Append(o.limited(limit)...)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// Update makes the planned binding and then removes the one before, and what earlier updates have left. If it fails, the
// state holds whatever is still bound, or may be.
func (r *destinationResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var prior, model destinationModel
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	guard, diags := model.guard()
	resp.Diagnostics.Append(diags...)
	timeout, diags := model.Timeouts.Update(ctx, defaultWriteTimeout+guard.Drain)
	resp.Diagnostics.Append(diags...)
	before, diags := prior.binding()
	resp.Diagnostics.Append(diags...)
	leftovers, diags := prior.leftovers()
	resp.Diagnostics.Append(diags...)
	o, diags := r.open(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	outer := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	own := append(without(leftovers, before), before)
	if err := o.begin(ctx, prior.who("updated"), append(own, o.binding)...); err != nil {
		resp.Diagnostics.Append(o.failed("update", err))
		return
	}
	defer o.claim.End()
	spared := o.among(without(own, o.binding), o.claim.Taken)
	if shared, _ := req.Private.GetKey(ctx, sharedKey); string(shared) == "true" && before != o.binding {
		spared = append(spared, before)
	}
	own = without(own, spared...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, sharedKey, fmt.Append(nil, slices.Contains(spared, before)))...)
	refuse := func() {
		o.keep(own...)
		prior.setLeftovers(without(own, before))
		resp.Diagnostics.Append(resp.State.Set(ctx, &prior)...)
	}
	there, diags := o.prepare(ctx, "update", model.Adopt.ValueBool(), own)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		refuse()
		return
	}
	wanted := o.among(without(own, o.binding), o.claim.AskedInVain)
	gone := without(own, append(wanted, o.binding)...)
	actual := o.existing(there)
	for _, b := range gone {
		actual.Add(b)
	}
	resp.Diagnostics.Append(o.vacate(ctx, "update", o.uncovered(gone), guard)...)
	if resp.Diagnostics.HasError() {
		refuse()
		return
	}
	after, done, err := o.rebind(ctx, actual)
	if err == nil {
		o.take(gone...)
		resp.Diagnostics.Append(o.checkNotWanted(wanted)...)
		o.keep(wanted...)
		model.setLeftovers(wanted)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, sharedKey, []byte("false"))...)
		resp.Diagnostics.Append(o.overlaps(without(after, wanted...))...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
		return
	}
	resp.Diagnostics.Append(o.failed("update", err))
	if !o.isIn(own) {
		own = append(own, o.binding)
	}
	left, err := o.present(outer, own)
	made, kept := o.isIn(left), slices.Contains(left, before)
	if err == nil && o.binding != before && !actual.Has(o.binding) && (kept || !made) {
		if err = o.undo(outer, done); err == nil {
			left = without(left, o.binding)
		}
	}
	o.keep(left...)
	switch {
	case err != nil:
		o.keep(own...)
		left = without(own, before)
		resp.Diagnostics.AddError(notTakenBack, fmt.Sprintf("%s\n\nThe %s may be there, besides the one before or in its place. It stays in the state as one of leftover_bindings: "+
			"the next apply goes on from there, whatever the configuration is then.", err, o))
	case made && !kept:
		left = without(left, o.binding)
		prior = model
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, sharedKey, []byte("false"))...)
		resp.Diagnostics.Append(o.leftBehind(left)...)
	default:
		left = without(left, before)
		o.binding = before
		resp.Diagnostics.Append(o.leftBehind(left)...)
	}
	prior.setLeftovers(left)
	resp.Diagnostics.Append(resp.State.Set(ctx, &prior)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, prior.identity())...)
}

// Delete removes this binding and what updates have left of it, and nothing else.
func (r *destinationResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model destinationModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	guard, diags := model.guard()
	resp.Diagnostics.Append(diags...)
	timeout, diags := model.Timeouts.Delete(ctx, defaultWriteTimeout+guard.Drain)
	resp.Diagnostics.Append(diags...)
	leftovers, diags := model.leftovers()
	resp.Diagnostics.Append(diags...)
	o, diags := r.open(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	own := append(without(leftovers, o.binding), o.binding)
	if err := o.begin(ctx, model.who("destroyed"), own...); err != nil {
		resp.Diagnostics.Append(o.failed("destroy", err))
		return
	}
	defer o.claim.End()
	gone := without(own, o.among(own, o.claim.Taken)...)
	if shared, _ := req.Private.GetKey(ctx, sharedKey); string(shared) == "true" {
		gone = without(gone, o.binding)
	}
	resp.Diagnostics.Append(o.checkNotWanted(gone)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(o.vacate(ctx, "destroy", gone, guard)...)
	}
	if resp.Diagnostics.HasError() {
		o.keep(own...)
		return
	}
	_, err := o.client.Run(ctx, o.vhost, topology.Rebind(bindingSet(), bindingSet(gone...)))
	if err != nil && !broker.IsKind(err, broker.VhostNotFound) {
		o.keep(own...)
		resp.Diagnostics.Append(o.failed("destroy", err))
		return
	}
	o.claim.LetGo(bindingObjects(o.vhost, gone))
}

// open gets the way to the broker for a model whose values are all known.
func (r *destinationResource) open(model *destinationModel) (*rebinding, diag.Diagnostics) {
	b, diags := model.binding()
	if diags.HasError() {
		return nil, diags
	}
	if r.connection == nil || r.connection.client == nil {
		diags.Append(notConfigured())
		return nil, diags
	}
	return &rebinding{
		client: r.connection.client, claims: r.connection.claims, vhost: model.Vhost.ValueString(), binding: b,
	}, diags
}
