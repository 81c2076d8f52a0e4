package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

var (
	_ resource.ResourceWithConfigure      = (*cascadeResource)(nil)
	_ resource.ResourceWithValidateConfig = (*cascadeResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*cascadeResource)(nil)
	_ resource.ResourceWithIdentity       = (*cascadeResource)(nil)
	_ resource.ResourceWithImportState    = (*cascadeResource)(nil)
)

func newCascadeResource() resource.Resource { return &cascadeResource{} }

type cascadeResource struct{ connection *connection }

// How long an operation may take unless the timeouts attribute says otherwise.
const (
	defaultReadTimeout  = 2 * time.Minute
	defaultWriteTimeout = 10 * time.Minute
)

func (r *cascadeResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cascade"
}

func (r *cascadeResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A delay cascade: a ladder of queues with time-to-live 1, 2, 4, 8 … times the resolution, joined by dead-letter exchanges and topic " +
			"bindings. An application publishes to the entry exchange with a routing key that carries the delay in binary, and the message arrives at the " +
			"delivery exchange when the delay is over.\n\n" +
			"Every exchange, queue, argument and binding is known in the plan; the state holds what the broker has, so that every deviation shows as a " +
			"difference, and one apply repairs it.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Beginning of all names that are not given. Required unless `exchange_name`, `queue_name` and `delivery_exchange` are given and `park_unroutable` is `false`.",
			},
			"vhost": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(defaultVhost),
				MarkdownDescription: "Virtual host. It has to exist. Default: `/`. A change replaces the cascade.",
			},
			"levels": schema.Int64Attribute{
				Optional: true, Computed: true,
				MarkdownDescription: fmt.Sprintf("Number of delay queues, 1 to %d. With n levels any delay up to 2ⁿ-1 times the resolution is possible. RabbitMQ accepts no "+
					"time-to-live over ten years, so at a resolution of one second it is at most 29. Exactly one of `levels` and `max_delay` is given; the other is "+
					"computed. A change replaces the cascade.", cascade.MaxLevels),
			},
			"max_delay": schema.StringAttribute{
				Optional: true, Computed: true, CustomType: timetypes.GoDurationType{},
				MarkdownDescription: "Longest delay that has to be possible, such as `36h`: the cascade gets the smallest number of levels that reaches it. " +
					"If `levels` is given, the longest delay that they can give.",
			},
			"resolution": schema.StringAttribute{
				Optional: true, Computed: true, CustomType: timetypes.GoDurationType{}, Default: stringdefault.StaticString("1s"),
				MarkdownDescription: "Time-to-live of level 0 and step of all delays, `1ms` or a multiple of it. Default: `1s`. A change replaces the cascade.",
			},
			"exchange_name": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Names of the level exchanges, as a format with one integer verb for the level, such as `%d` or `%02d`; a literal percent sign is `%%`. " +
					"Default: `<name>.delay-%02d`. A change replaces the cascade.",
			},
			"queue_name": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Names of the delay queues, likewise. Default: `<name>.delay-%02d`. A change replaces the cascade.",
			},
			"delivery_exchange": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Topic exchange at the end of the cascade. Applications bind their queues to it; those bindings are never touched or listed. " +
					"Default: `<name>.delivery`. A change replaces the cascade.",
			},
			"create_delivery_exchange": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Whether the delivery exchange belongs to the cascade. If `false`, it has to exist as a topic exchange. Default: `true`.",
			},
			"queue_type": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(string(cascade.Quorum)),
				MarkdownDescription: "`quorum` or `classic`. Quorum queues hand a message on at least once: `x-dead-letter-strategy` is `at-least-once` and `x-overflow` is " +
					"`reject-publish`. Classic queues dead-letter at most once. Default: `quorum`. A change replaces the cascade.",
			},
			"max_length": schema.Int64Attribute{
				Optional: true,
				MarkdownDescription: "Largest number of messages in each delay queue, for quorum queues only. A full queue refuses publishers and holds back the level above it. " +
					"Default: no limit. A change replaces the cascade.",
			},
			"lookahead": schema.Int64Attribute{
				Optional: true, Computed: true,
				MarkdownDescription: "How many digits of the routing key a level exchange looks at, 1 to `levels`. With 1, the classic chain, a message passes one exchange for " +
					"every clear bit; with `levels` every hop is routed once. Default: all levels. Changes in place, without losing or doubling a message.",
			},
			"strict_keys": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Whether the entry exchange takes only routing keys with all digits and a destination. Otherwise a malformed key may wait for half " +
					"the range before it goes astray. Default: `true`. Changes in place.",
			},
			"park_unroutable": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Whether every exchange of the cascade gets an alternate exchange with a queue, both named `<name>.unroutable`, where messages with a malformed " +
					"key or without a destination are kept. Default: `true`. A change replaces the cascade.",
			},
			"adopt": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether to take over objects that exist already and match exactly. Otherwise existing objects are an error that names them, before anything is " +
					"written. Default: `false`.",
			},
			"force_destroy": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether a destroy or replacement deletes queues with the messages that wait in them. Has to be applied before the destroy. Default: `false`.",
			},
			"drain_timeout": schema.StringAttribute{
				Optional: true, CustomType: timetypes.GoDurationType{},
				MarkdownDescription: "How long a destroy or replacement waits for the cascade to run empty, with its entry closed, such as `10m`. If it does not, the entry is opened " +
					"again and the error says what still waits. Has to be applied before the destroy. `timeouts.delete`, if it is given, has to be longer. Default: no " +
					"waiting, a cascade that holds messages is not destroyed.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{Create: true, Read: true, Update: true, Delete: true}),
			"entry_exchange": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "The exchange to publish to: that of the highest level.",
			},
			"exchanges": schema.MapNestedAttribute{
				Computed:            true,
				MarkdownDescription: "The exchanges of the cascade by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"type":               schema.StringAttribute{Computed: true, MarkdownDescription: "Exchange type."},
					"durable":            schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the exchange survives a restart of the broker."},
					"auto_delete":        schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the exchange goes with its last binding."},
					"internal":           schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the exchange refuses publishers."},
					"alternate_exchange": schema.StringAttribute{Computed: true, MarkdownDescription: "Exchange that takes what no binding takes."},
					"arguments":          schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Further arguments; what is not text is written as JSON."},
				}},
			},
			"queues": schema.MapNestedAttribute{
				Computed:            true,
				MarkdownDescription: "The queues of the cascade by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"level":                schema.Int64Attribute{Computed: true, MarkdownDescription: "Level of a delay queue, null for the queue of unroutable messages."},
					"type":                 schema.StringAttribute{Computed: true, MarkdownDescription: "Queue type."},
					"message_ttl":          schema.Int64Attribute{Computed: true, MarkdownDescription: "How long a message waits, in milliseconds (`x-message-ttl`)."},
					"dead_letter_exchange": schema.StringAttribute{Computed: true, MarkdownDescription: "Where a message goes when it has waited (`x-dead-letter-exchange`)."},
					"durable":              schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the queue survives a restart of the broker."},
					"auto_delete":          schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the queue goes with its last consumer."},
					"exclusive":            schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the queue belongs to one connection."},
					"arguments":            schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Further arguments; what is not text is written as JSON."},
				}},
			},
			"bindings": schema.MapAttribute{
				Computed: true, ElementType: linesType,
				MarkdownDescription: "The bindings of the cascade by source exchange, each as a line `<routing key> -> queue <name>` or `<routing key> -> exchange <name>`.",
			},
		},
	}
}

func (r *cascadeResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"vhost":          identityschema.StringAttribute{RequiredForImport: true, Description: "Virtual host of the cascade."},
		"entry_exchange": identityschema.StringAttribute{RequiredForImport: true, Description: "Exchange of the highest level."},
	}}
}

func (r *cascadeResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if connection, ok := req.ProviderData.(*connection); ok {
		r.connection = connection
	}
}

// Create builds the cascade if nothing of it exists, or takes over what exists and adds the rest.
// If that fails it takes back what it made; only what cannot be taken back is left in the state.
func (r *cascadeResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model cascadeModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	timeout, diags := model.Timeouts.Create(ctx, defaultWriteTimeout)
	resp.Diagnostics.Append(diags...)
	c, diags := r.open(model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	outer := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	before, err := c.read(ctx)
	if err != nil {
		resp.Diagnostics.Append(c.failed("create", err))
		return
	}
	resp.Diagnostics.Append(c.checkDelivery(before)...)
	resp.Diagnostics.Append(c.checkExisting(ctx, before, model.Adopt.ValueBool())...)
	if resp.Diagnostics.HasError() {
		return
	}
	done, err := c.client.Run(ctx, c.config.Vhost, topology.Diff(c.desired, before.Topology))
	var after *broker.State
	if err == nil {
		after, err = c.read(ctx)
	}
	if err == nil {
		err = c.verify(after)
	}
	if err == nil {
		resp.Diagnostics.Append(c.warnings(after)...)
		resp.Diagnostics.Append(model.setActual(c.config, after.Topology)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
		return
	}

	resp.Diagnostics.Append(c.failed("create", err))
	ctx, cancelUndo := context.WithTimeout(outer, undoTimeout)
	defer cancelUndo()
	left, err := c.undo(ctx, done)
	if left == nil {
		return
	}
	const summary = "What was created could not all be taken back"
	detail := fmt.Sprintf("%s\n\nThese objects are still there: %s.", err, objectNames(left))
	if model.Adopt.ValueBool() {
		// Some of them may have been there before. A tainted state would have them deleted.
		resp.Diagnostics.AddError(summary, detail+" None of them is in the state: the next apply adopts them and adds what is missing.")
		return
	}
	resp.Diagnostics.AddError(summary, detail+" They stay in the state, marked as tainted: the next apply removes them, as soon as nothing waits in them, and creates the cascade anew.")
	resp.Diagnostics.Append(model.setActual(c.config, *left)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
}

// Read writes what the broker has into the state.
func (r *cascadeResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model cascadeModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.connection == nil || r.connection.client == nil {
		resp.Diagnostics.AddWarning("Cascade not refreshed", "The provider's configuration is not known yet, so the cascade was not read and the plan is made from the state.")
		return
	}
	timeout, diags := model.Timeouts.Read(ctx, defaultReadTimeout)
	resp.Diagnostics.Append(diags...)
	c, diags := r.open(model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	state, err := c.read(ctx)
	if err != nil && !broker.IsKind(err, broker.VhostNotFound) {
		resp.Diagnostics.Append(c.failed("read", err))
		return
	}
	// The framework wants an identity even of what is gone, and Terraform before 1.12 brings none.
	resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
	if err != nil || len(state.Exchanges)+len(state.Queues) == 0 {
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(c.warnings(state)...)
	resp.Diagnostics.Append(model.setActual(c.config, state.Topology)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, inFlightKey, []byte(strconv.FormatInt(inFlight(state), 10)))...)
}

// Update brings the broker from whatever it has to what is planned.
func (r *cascadeResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var prior, model cascadeModel
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	timeout, diags := model.Timeouts.Update(ctx, defaultWriteTimeout)
	resp.Diagnostics.Append(diags...)
	c, diags := r.open(model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	outer := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	state, err := c.readForChange(ctx)
	if err != nil {
		resp.Diagnostics.Append(c.failed("update", err))
		return
	}
	resp.Diagnostics.Append(c.checkDelivery(state)...)
	if model.CreateDeliveryExchange.ValueBool() && !prior.CreateDeliveryExchange.ValueBool() {
		resp.Diagnostics.Append(c.checkTakeover(state, model.Adopt.ValueBool())...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if plan := topology.Diff(c.desired, state.Topology); len(plan) > 0 {
		done, err := c.client.Run(ctx, c.config.Vhost, plan)
		if err != nil {
			resp.Diagnostics.Append(c.failed("update", err))
			// Leave what really exists: the next plan shows what is still to be done.
			ctx, cancelRead := context.WithTimeout(outer, undoTimeout)
			defer cancelRead()
			left := state.Topology.After(done)
			if after, err := c.read(ctx); err == nil {
				left = after.Topology
			}
			resp.Diagnostics.Append(prior.setActual(c.config, left)...)
			resp.Diagnostics.Append(resp.State.Set(ctx, &prior)...)
			return
		}
		if state, err = c.read(ctx); err == nil {
			err = c.verify(state)
		}
		if err != nil {
			resp.Diagnostics.Append(c.failed("update", err))
		}
	}
	if state != nil {
		resp.Diagnostics.Append(c.warnings(state)...)
		resp.Diagnostics.Append(model.setActual(c.config, state.Topology)...)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
}

// Delete removes the cascade unless messages wait in it.
func (r *cascadeResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model cascadeModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	guard := topology.Guard{Force: model.ForceDestroy.ValueBool()}
	if !model.DrainTimeout.IsNull() {
		drain, diags := model.DrainTimeout.ValueGoDuration()
		resp.Diagnostics.Append(diags...)
		guard.Drain = drain
	}
	timeout, diags := model.Timeouts.Delete(ctx, defaultWriteTimeout+guard.Drain)
	resp.Diagnostics.Append(diags...)
	c, diags := r.open(model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	state, err := c.readForDelete(ctx)
	if broker.IsKind(err, broker.VhostNotFound) {
		return
	}
	if err == nil {
		_, err = c.client.Run(ctx, c.config.Vhost, topology.Teardown(c.desired, state.Topology, guard))
	}
	var notEmpty *broker.NotEmptyError
	var undo *broker.UndoError
	switch {
	case errors.As(err, &notEmpty) && !errors.As(err, &undo):
		resp.Diagnostics.Append(c.refused(notEmpty, guard))
	case err != nil:
		resp.Diagnostics.Append(c.failed("destroy", err))
	}
}

// operation is one operation on one cascade: what is wanted, and the way to the broker.
type operation struct {
	client  *broker.Client
	config  cascade.Config
	desired topology.Topology
}

// open expands a model whose values are all known.
func (r *cascadeResource) open(model cascadeModel) (*operation, diag.Diagnostics) {
	config, diags := model.stateConfig()
	if diags.HasError() {
		return nil, diags
	}
	desired, err := cascade.Expand(config)
	if err != nil {
		diags.Append(configErrors(err)...)
		return nil, diags
	}
	if r.connection == nil || r.connection.client == nil {
		diags.AddError("Provider not configured", "The provider's configuration holds values that are not known, so that the broker cannot be reached.")
		return nil, diags
	}
	return &operation{client: r.connection.client, config: config, desired: desired}, diags
}

func (o *operation) read(ctx context.Context) (*broker.State, error) {
	return o.client.Read(ctx, o.config.Vhost, o.desired)
}

// readForChange adds what others have bound to objects that have to be recreated.
func (o *operation) readForChange(ctx context.Context) (*broker.State, error) {
	state, err := o.read(ctx)
	if err != nil {
		return nil, err
	}
	exchanges, queues := topology.Recreated(o.desired, state.Topology)
	return o.withInbound(ctx, state, exchanges, queues)
}

// readForDelete adds what others have bound to the objects that a refused destroy has to bring back.
func (o *operation) readForDelete(ctx context.Context) (*broker.State, error) {
	state, err := o.read(ctx)
	if err != nil {
		return nil, err
	}
	return o.withInbound(ctx, state, slices.Collect(maps.Keys(state.Exchanges)), slices.Collect(maps.Keys(state.Queues)))
}

func (o *operation) withInbound(ctx context.Context, state *broker.State, exchanges, queues []string) (*broker.State, error) {
	if len(exchanges)+len(queues) == 0 {
		return state, nil
	}
	inbound, err := o.client.Inbound(ctx, o.config.Vhost, exchanges, queues)
	if err != nil {
		return nil, err
	}
	maps.Copy(state.Bindings, inbound)
	return state, nil
}

// checkDelivery makes sure of a delivery exchange that the cascade does not create.
func (o *operation) checkDelivery(state *broker.State) diag.Diagnostics {
	var diags diag.Diagnostics
	if o.config.CreateDeliveryExchange {
		return diags
	}
	where := fmt.Sprintf("delivery exchange %q in vhost %q", o.desired.Delivery, o.config.Vhost)
	switch {
	case !state.DeliveryExists:
		diags.AddAttributeError(path.Root("delivery_exchange"), "Delivery exchange does not exist",
			fmt.Sprintf("The %s does not exist, and create_delivery_exchange is false. Declare it first, as a durable topic exchange, or let the cascade create it.", where))
	case state.DeliveryExchange.Type != "topic":
		diags.AddAttributeError(path.Root("delivery_exchange"), "Delivery exchange has the wrong type",
			fmt.Sprintf("The %s is of type %q. It has to be a topic exchange: destinations are matched behind the digits of the routing key.", where, state.DeliveryExchange.Type))
	}
	return diags
}

// checkExisting refuses to touch what is there already, unless it is to be adopted and is exactly right.
func (o *operation) checkExisting(ctx context.Context, state *broker.State, adopt bool) diag.Diagnostics {
	var diags diag.Diagnostics
	var equal, different []string
	for _, object := range topology.Existing(o.desired, state.Topology) {
		if len(object.Differences) > 0 {
			different = append(different, object.String())
		} else {
			equal = append(equal, object.String())
		}
	}
	switch {
	case len(different) > 0:
		also := ""
		if len(equal) > 0 {
			also = "Exactly as the cascade would declare them:\n\n  " + strings.Join(equal, "\n  ") + "\n\n"
		}
		diags.AddError("Objects of the cascade exist and differ", fmt.Sprintf(
			"Nothing was written. In vhost %q these objects exist and are not what the cascade would declare:\n\n  %s\n\n%s"+
				"%s",
			o.config.Vhost, strings.Join(different, "\n  "), also,
			o.orImport(ctx, "Use other names or remove these objects", "import the cascade and let an apply bring it into line")))
	case len(equal) > 0 && !adopt:
		diags.AddError("Objects of the cascade exist already", fmt.Sprintf(
			"Nothing was written. In vhost %q these objects exist, exactly as the cascade would declare them:\n\n  %s\n\n"+
				"%s",
			o.config.Vhost, strings.Join(equal, "\n  "),
			o.orImport(ctx, "If nobody else owns them, set adopt = true to take them over", "import the cascade")))
	}
	return diags
}

// checkTakeover does the same for a delivery exchange that is to become part of the cascade.
func (o *operation) checkTakeover(state *broker.State, adopt bool) diag.Diagnostics {
	var diags diag.Diagnostics
	want, have := topology.New(), topology.New()
	want.Exchanges[o.desired.Delivery] = o.desired.Exchanges[o.desired.Delivery]
	if state.DeliveryExists {
		have.Exchanges[o.desired.Delivery] = state.DeliveryExchange
	}
	for _, object := range topology.Existing(want, have) {
		if len(object.Differences) > 0 {
			diags.AddAttributeError(path.Root("create_delivery_exchange"), "Delivery exchange differs", fmt.Sprintf(
				"Nothing was written. In vhost %q the delivery exchange is not what the cascade would declare:\n\n  %s\n\n"+
					"Leave create_delivery_exchange at false, or let its owner delete it.", o.config.Vhost, object))
		} else if !adopt {
			diags.AddAttributeError(path.Root("create_delivery_exchange"), "Delivery exchange exists already", fmt.Sprintf(
				"Nothing was written. In vhost %q there is %s, exactly as the cascade would declare it. "+
					"If nobody else owns it, set adopt = true to take it over.", o.config.Vhost, object))
		}
	}
	return diags
}

// orImport adds the import as a way out, with its command, if what exists is so much of the cascade
// that an import would recognize it.
func (o *operation) orImport(ctx context.Context, otherwise, purpose string) string {
	config, err := cascade.Recognize(ctx, o.client.Lookup(o.config.Vhost), o.config.Vhost, o.desired.Entry)
	if err != nil {
		return otherwise + "."
	}
	recognized, err := cascade.Expand(config)
	if err != nil || !maps.EqualFunc(recognized.Queues, o.desired.Queues, sameName) || recognized.Delivery != o.desired.Delivery {
		return otherwise + "."
	}
	return fmt.Sprintf("%s, or %s:\n\n  terraform import rabbitmqdelay_cascade.<name in your configuration> '%s'",
		otherwise, purpose, importID(o.config.Vhost, o.desired.Entry))
}

func sameName(_, _ topology.Queue) bool { return true }

// verify makes sure that what was written is there.
func (o *operation) verify(state *broker.State) error {
	missing := topology.Diff(o.desired, state.Topology).Steps()
	if len(missing) == 0 {
		return nil
	}
	texts := make([]string, len(missing))
	for i, step := range missing {
		texts[i] = step.String()
	}
	return fmt.Errorf("somebody else changed the cascade meanwhile; still to be done: %s", strings.Join(texts, "; "))
}

// undo takes back what a create made. It returns what of the cascade is left of it, nil for nothing.
func (o *operation) undo(ctx context.Context, done []topology.Step) (*topology.Topology, error) {
	if len(done) == 0 {
		return nil, nil
	}
	_, err := o.client.Run(ctx, o.config.Vhost, topology.Undo(o.desired, done))
	if err == nil {
		return nil, nil
	}
	state, readErr := o.read(ctx)
	if readErr != nil {
		// Nobody can say what exists: the state names all that may.
		return &o.desired, errors.Join(err, readErr)
	}
	if len(state.Exchanges)+len(state.Queues) == 0 {
		return nil, nil
	}
	return &state.Topology, err
}

// inFlight is the number of messages that wait in the cascade, by the broker's lagging count.
func inFlight(state *broker.State) int64 {
	var sum int64
	for _, status := range state.Status {
		sum += status.Messages
	}
	return sum
}

// inFlightKey is where the private state keeps what Read counted, for the warning of a replacement.
const inFlightKey = "in_flight"
