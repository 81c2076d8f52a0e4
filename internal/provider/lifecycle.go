package provider

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// declaration is the model of a resource that stands for a topology.
type declaration[M any] interface {
	// kind is what the resource is called in messages.
	kind() string
	// common is the part of the model that all such resources have.
	common() *declaredModel
	// expand is the topology that the model stands for; all values of the model are known.
	expand() (topology.Topology, diag.Diagnostics)
	// setActual writes what a broker has into the model.
	setActual(actual topology.Topology) diag.Diagnostics
	// recognize reads the model off the broker, before the objects are read. Its error may come from the broker.
	recognize(ctx context.Context, look cascade.Lookup, vhost, entry string) error

	// validate reports what the broker would refuse in the configuration, as far as that is known.
	validate(ctx context.Context) diag.Diagnostics
	// complete writes into the planned model what its configuration leaves to the provider.
	complete(ctx context.Context, config *M) diag.Diagnostics
	// alteredBy lists the attributes for whose sake exchanges or queues get other arguments or names by the plan.
	alteredBy(plan *M) (path.Paths, diag.Diagnostics)
	// isKnown tells whether all values are known that the topology depends on.
	isKnown() bool
	// digits is the number of words before the address in a routing key.
	digits() int
	// loses tells whether the plan removes queues and keeps the rest.
	loses(plan *M) bool
}

// lifecycle is what Terraform does with a resource that stands for a topology: everything but its schema.
type lifecycle[M any, P interface {
	*M
	declaration[M]
}] struct {
	connection *connection
	packs      bool // see packedAttributes
}

// How long an operation may take unless the timeouts attribute says otherwise.
const (
	defaultReadTimeout  = 2 * time.Minute
	defaultWriteTimeout = 10 * time.Minute
)

// timeoutsAttribute is the timeouts attribute. Drained says what comes on top of the default where a drain may be waited for.
func timeoutsAttribute(ctx context.Context, drained string) schema.Attribute {
	say := func(operation string, limit time.Duration, more string) string {
		return fmt.Sprintf("How long %s may take, such as `90s` or `1h30m`. Default: `%.0fm`%s.", operation, limit.Minutes(), more)
	}
	return timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, CreateDescription: say("a create", defaultWriteTimeout, ""),
		Read: true, ReadDescription: say("a refresh", defaultReadTimeout, ""),
		Update: true, UpdateDescription: say("an update", defaultWriteTimeout, drained),
		Delete: true, DeleteDescription: say("a destroy", defaultWriteTimeout, drained) + " Has to be applied before a destroy.",
	})
}

func (r *lifecycle[M, P]) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"vhost":          identityschema.StringAttribute{RequiredForImport: true, Description: "Virtual host."},
		"entry_exchange": identityschema.StringAttribute{RequiredForImport: true, Description: "Exchange that publishers use."},
	}}
}

func (r *lifecycle[M, P]) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if connection, ok := req.ProviderData.(*connection); ok {
		r.connection = connection
	}
}

// Create builds what is declared if nothing of it exists, or takes over what exists and adds the rest.
// If that fails it takes back what it made; only what cannot be taken back is left in the state.
func (r *lifecycle[M, P]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	declared := P(&model).common()
	timeout, diags := declared.Timeouts.Create(ctx, defaultWriteTimeout)
	resp.Diagnostics.Append(diags...)
	o, diags := r.open(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	outer := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	claim, err := o.claim(ctx, o.desired)
	if err != nil {
		resp.Diagnostics.Append(o.failed("create", err))
		return
	}
	defer claim.End()
	resp.Diagnostics.Append(o.held(claim.Held(o.own(o.desired)))...)
	if resp.Diagnostics.HasError() {
		return
	}
	before, err := o.client.Read(ctx, o.vhost, o.desired)
	if err != nil {
		resp.Diagnostics.Append(o.failed("create", err))
		return
	}
	resp.Diagnostics.Append(o.checkDelivery(before)...)
	resp.Diagnostics.Append(o.checkExisting(ctx, before, declared.Adopt.ValueBool())...)
	if resp.Diagnostics.HasError() {
		claim.FailFor(o.existing(before.Topology))
		return
	}
	after, done, err := o.create(ctx, before, declared.Adopt.ValueBool())
	if err == nil {
		claim.Take(o.own(o.desired))
		resp.Diagnostics.Append(o.warnings(after)...)
		resp.Diagnostics.Append(P(&model).setActual(after.Topology)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, declared.identity())...)
		return
	}

	ctx, cancelUndo := context.WithTimeout(outer, undoTimeout)
	defer cancelUndo()
	left, undoErr := o.undo(ctx, done)
	resp.Diagnostics.Append(o.notCreated(ctx, claim, err)...)
	if left == nil {
		return
	}
	claim.Take(o.own(*left))
	detail := fmt.Sprintf("%s\n\nThese objects are still there: %s.", undoErr, objectNames(left))
	if declared.Adopt.ValueBool() {
		// Some of them may have been there before. A tainted state would have them deleted.
		resp.Diagnostics.AddError(notTakenBack, detail+" None of them is in the state: the next apply adopts them and adds what is missing.")
		return
	}
	resp.Diagnostics.AddError(notTakenBack, detail+" They stay in the state, marked as tainted: the next apply removes them, as soon as nothing waits in them, and creates everything anew.")
	resp.Diagnostics.Append(P(&model).setActual(*left)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, declared.identity())...)
}

// Read writes what the broker has into the state.
func (r *lifecycle[M, P]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model M
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	declared := P(&model).common()
	if r.connection == nil || r.connection.client == nil {
		resp.Diagnostics.Append(notRefreshed(P(&model).kind()))
		resp.Diagnostics.Append(resp.Identity.Set(ctx, declared.identity())...)
		return
	}
	timeout, diags := declared.Timeouts.Read(ctx, defaultReadTimeout)
	resp.Diagnostics.Append(diags...)
	o, diags := r.open(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	state, err := o.read(ctx)
	if err != nil && !broker.IsKind(err, broker.VhostNotFound) {
		resp.Diagnostics.Append(o.failed("read", err))
		return
	}
	// The framework wants an identity even of what is gone, and Terraform before 1.12 brings none.
	resp.Diagnostics.Append(resp.Identity.Set(ctx, declared.identity())...)
	if err != nil || len(state.Exchanges)+len(state.Queues) == 0 {
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(o.warnings(state)...)
	if r.connection.planned.refresh(o.vhost, o.desired.Entry) {
		resp.Diagnostics.Append(o.twice())
	}
	resp.Diagnostics.Append(P(&model).setActual(state.Topology)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, inFlightKey, []byte(strconv.FormatInt(inFlight(state), 10)))...)
}

// Update brings the broker from whatever it has to what is planned.
func (r *lifecycle[M, P]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var prior, model M
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	declared := P(&model).common()
	guard, diags := declared.guard()
	resp.Diagnostics.Append(diags...)
	timeout, diags := declared.Timeouts.Update(ctx, defaultWriteTimeout+guard.Drain)
	resp.Diagnostics.Append(diags...)
	o, diags := r.open(&model)
	resp.Diagnostics.Append(diags...)
	before, diags := P(&prior).expand()
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	outer := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	claim, err := o.claim(ctx, before, o.desired)
	if err != nil {
		resp.Diagnostics.Append(o.failed("update", err))
		return
	}
	defer func() { o.endUpdate(claim, before, resp.Diagnostics.HasError()) }()
	retired := before.Without(o.desired)
	resp.Diagnostics.Append(o.held(claim.Held(o.own(o.desired)))...)
	altered, diags := P(&prior).alteredBy(&model)
	resp.Diagnostics.Append(diags...)
	if len(altered) > 0 && !resp.Diagnostics.HasError() {
		rebuilt, diags := (&rebuild{o, claim, before, guard, declared.Adopt.ValueBool()}).run(ctx)
		resp.Diagnostics.Append(diags...)
		left := &prior
		if rebuilt.isNew {
			left = &model
		}
		if rebuilt.there != nil {
			resp.Diagnostics.Append(P(left).setActual(*rebuilt.there)...)
			resp.Diagnostics.Append(resp.State.Set(ctx, left)...)
		}
		resp.Diagnostics.Append(resp.Identity.Set(ctx, declared.identity())...)
		return
	}
	resp.Diagnostics.Append(o.askedInVain("changed", claim.AskedInVain(o.own(retired)))...)
	if resp.Diagnostics.HasError() {
		return
	}
	state, err := o.readForChange(ctx)
	if err != nil {
		resp.Diagnostics.Append(o.failed("update", err))
		return
	}
	resp.Diagnostics.Append(o.checkDelivery(state)...)
	if declared.CreateDeliveryExchange.ValueBool() && !P(&prior).common().CreateDeliveryExchange.ValueBool() {
		resp.Diagnostics.Append(o.checkTakeover(state)...)
	}
	added := o.desired.Without(before)
	retired = o.spare(retired, claim.Taken(o.own(retired)))
	resp.Diagnostics.Append(o.part(added).checkExisting(ctx, state, declared.Adopt.ValueBool())...)
	if resp.Diagnostics.HasError() {
		claim.FailFor(o.part(added).existing(state.Topology))
		return
	}
	// If it fails, the state has to name all that there may be.
	left := &prior
	if len(added.Queues)+len(retired.Queues) > 0 {
		left = &model
	}
	if len(retired.Queues) > 0 {
		if err := o.part(retired).remove(ctx, guard); err != nil {
			resp.Diagnostics.Append(o.part(retired).notRemoved("change", err, guard))
			return
		}
		state.Bindings.DeleteInto(retired.Queues)
	}
	after, done, err := o.change(ctx, state)
	if err != nil {
		resp.Diagnostics.Append(o.failed("update", err))
	}
	if after == nil {
		// Leave what really exists: the next plan shows what is still to be done.
		ctx, cancelRead := context.WithTimeout(outer, undoTimeout)
		defer cancelRead()
		there := state.Topology.After(done)
		if after, err := o.read(ctx); err == nil {
			there = after.Topology
		}
		resp.Diagnostics.Append(P(left).setActual(there)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, left)...)
		return
	}
	resp.Diagnostics.Append(o.warnings(after)...)
	resp.Diagnostics.Append(P(&model).setActual(after.Topology)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, declared.identity())...)
}

// Delete removes what is declared, unless messages wait in it.
func (r *lifecycle[M, P]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model M
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	declared := P(&model).common()
	guard, diags := declared.guard()
	resp.Diagnostics.Append(diags...)
	timeout, diags := declared.Timeouts.Delete(ctx, defaultWriteTimeout+guard.Drain)
	resp.Diagnostics.Append(diags...)
	o, diags := r.open(&model)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	claim, err := o.claim(ctx, o.desired)
	if err != nil {
		resp.Diagnostics.Append(o.failed("destroy", err))
		return
	}
	defer claim.End()
	own := o.own(o.desired)
	if wanted := claim.AskedInVain(own); len(wanted) > 0 {
		claim.Keep(own)
		resp.Diagnostics.Append(o.askedInVain("destroyed", wanted)...)
		return
	}
	taken := claim.Taken(own)
	resp.Diagnostics.Append(o.takenOver(taken)...)
	if len(taken) == len(own) {
		return
	}
	o.desired = o.spare(o.desired, taken)
	own = o.own(o.desired)
	users, err := o.destroy(ctx, guard)
	if err != nil && !broker.IsKind(err, broker.VhostNotFound) {
		claim.Keep(own)
		resp.Diagnostics.Append(o.notRemoved("destroy", err, guard))
		return
	}
	claim.LetGo(own)
	resp.Diagnostics.Append(o.leftStanding(users)...)
}

// open expands a model whose values are all known, and gets the way to the broker.
func (r *lifecycle[M, P]) open(model P) (*operation, diag.Diagnostics) {
	desired, diags := model.expand()
	if diags.HasError() {
		return nil, diags
	}
	if r.connection == nil || r.connection.client == nil {
		diags.Append(notConfigured())
		return nil, diags
	}
	o := &operation{
		client: r.connection.client, claims: r.connection.claims,
		kind: model.kind(), vhost: model.common().Vhost.ValueString(), desired: desired,
	}
	o.importable = func(ctx context.Context) (topology.Topology, bool) {
		var found M
		if err := P(&found).recognize(ctx, o.client.Lookup(o.vhost), o.vhost, desired.Entry); err != nil {
			return topology.Topology{}, false
		}
		recognized, diags := P(&found).expand()
		return recognized, !diags.HasError()
	}
	return o, diags
}
