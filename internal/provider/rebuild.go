package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// rebuild is an update in which exchanges or queues get other arguments or names, while the entry stays.
type rebuild struct {
	*operation
	claim  *claims.Operation
	before topology.Topology
	guard  topology.Guard
	adopt  bool
}

// outcome is what a rebuild has come to.
type outcome struct {
	// there is what exists of both topologies. It is nil if nothing was changed.
	there *topology.Topology
	// isNew tells whether the next apply has to go on under the new configuration: nothing that only the one
	// before has is there any more.
	isNew bool
}

// run rebuilds. After a failure it says what there is.
func (r *rebuild) run(ctx context.Context) (outcome, diag.Diagnostics) {
	retired := r.retired()
	diags := r.askedInVain("changed", r.claim.AskedInVain(retired))
	if diags.HasError() {
		return outcome{}, diags
	}
	r.before = r.spare(r.before, r.claim.Taken(retired))
	runner := r.client.Begin(r.vhost)
	defer runner.Close()
	if !r.guard.Force {
		runner.Connect(ctx, len(r.before.Queues))
	}
	state, err := r.client.ReadExisting(ctx, r.vhost, topology.Union(r.before, r.desired))
	if err != nil {
		return outcome{}, append(diags, r.failed("update", err))
	}
	if diags.Append(r.check(ctx, state)...); diags.HasError() {
		return outcome{}, diags
	}
	there := state.Within(r.before)
	if !r.guard.Force {
		runner.Look(ctx, r.before.Downstream(there.Queues), there)
	}
	if err := r.readBound(ctx, state); err != nil {
		return outcome{}, append(diags, r.failed("update", err))
	}
	done, err := runner.Run(ctx, topology.Rebuild(r.before, r.desired, state.Topology, r.guard))
	if err != nil {
		diags.Append(r.part(r.before).notRemoved("update", err, r.guard))
		return r.brokenOff(ctx, state, done, diags)
	}
	runner.Release()
	after, err := r.read(ctx, done...)
	if err == nil {
		err = r.verify(after)
	}
	if err != nil {
		diags.Append(r.failed("update", err))
		return r.brokenOff(ctx, state, done, diags)
	}
	diags.Append(r.warnings(after)...)
	diags.Append(r.letGoOfDelivery(ctx)...)
	return outcome{&after.Topology, true}, diags
}

// retired are the objects that only the topology before has.
func (r *rebuild) retired() []claims.Object {
	kept := r.own(r.desired)
	return slices.DeleteFunc(r.own(r.before), func(object claims.Object) bool { return slices.Contains(kept, object) })
}

// check refuses what cannot be, before anything is written.
func (r *rebuild) check(ctx context.Context, state *broker.State) diag.Diagnostics {
	diags := r.checkDelivery(state)
	had := r.before
	if had.Delivery != r.desired.Delivery {
		had.Exchanges = maps.Clone(had.Exchanges)
		delete(had.Exchanges, had.Delivery)
	}
	added := r.desired.Except(had)
	part := r.part(added)
	if diags.Append(part.checkExisting(ctx, state, r.adopt)...); diags.HasError() {
		r.claim.FailFor(part.existing(state.Topology))
	}
	return diags
}

// readBound adds what others have bound to what is to be torn down.
func (r *rebuild) readBound(ctx context.Context, state *broker.State) error {
	there := state.Within(r.before)
	exchanges := r.part(r.before).ownedExchanges(there)
	if topology.RebuildsDelivery(r.before, r.desired, state.Topology) {
		exchanges = append(exchanges, r.desired.Delivery)
		bindings, err := r.client.Lookup(r.vhost).BindingsFrom(ctx, r.desired.Delivery)
		if err != nil {
			return err
		}
		maps.Copy(state.Bindings, bindingSet(bindings...))
	}
	inbound, err := r.client.Inbound(ctx, r.vhost, exchanges, slices.Collect(maps.Keys(there.Queues)))
	maps.Copy(state.Bindings, inbound)
	return err
}

// brokenOff is what a rebuild has come to that failed. Done are the steps that may have had an effect.
func (r *rebuild) brokenOff(
	ctx context.Context, state *broker.State, done []topology.Step, diags diag.Diagnostics,
) (outcome, diag.Diagnostics) {
	if len(done) == 0 {
		return outcome{}, diags
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	left := r.left(ctx, state, done)
	if left.isNew { // so that the next apply does not know of the delivery exchange before
		diags.Append(r.letGoOfDelivery(ctx)...)
	}
	return left, diags
}

// left is what there is after a failure.
func (r *rebuild) left(ctx context.Context, state *broker.State, done []topology.Step) outcome {
	before, err := r.part(r.before).read(ctx)
	if err != nil {
		// Nobody can say what exists: the state names all that may. Nothing is declared before all is torn down.
		there := state.After(done)
		declared := slices.ContainsFunc(done, func(step topology.Step) bool {
			switch step.(type) {
			case topology.DeclareExchange, topology.DeclareQueue:
				return true
			}
			return false
		})
		return outcome{&there, declared}
	}
	there, isNew := before.Topology, r.isNew(before.Topology)
	after, err := r.read(ctx)
	switch {
	case err != nil:
		there = state.After(done)
	case isNew:
		there = after.Topology
	default:
		there = there.And(after.Topology)
	}
	return outcome{&there, isNew}
}

// isNew tells whether nothing is there of the topology before that is not as it is to be.
func (r *rebuild) isNew(there topology.Topology) bool {
	for name, e := range there.Exchanges {
		if r.before.Owns(name) && !e.Equal(r.desired.Exchanges[name]) {
			return false
		}
	}
	for name, q := range there.Queues {
		if !q.Equal(r.desired.Queues[name]) {
			return false
		}
	}
	return true
}

// letGoOfDelivery deletes the delivery exchange before, if the resource has got another one and nobody uses it.
func (r *rebuild) letGoOfDelivery(ctx context.Context) diag.Diagnostics {
	if r.before.Delivery == r.desired.Delivery {
		return nil
	}
	old := r.part(r.before)
	users, err := old.letGo(ctx, r.guard.Force)
	if err != nil {
		return diag.Diagnostics{old.failed("update", err)}
	}
	return old.leftStanding(users)
}

// change is an attribute in the state and in the plan.
type change struct {
	attribute      string
	prior, planned attr.Value
}

// alteredBy lists the attributes that change, if an exchange or queue gets other arguments or another name with them.
// Bindings can change as they are, and whether the delivery exchange belongs to the resource is a matter of the state.
func (d *declaredModel) alteredBy(
	plan *declaredModel, further []change, sameObjects func() (bool, diag.Diagnostics),
) (path.Paths, diag.Diagnostics) {
	var changed path.Paths
	known := true
	for _, c := range append(further,
		change{"vhost", d.Vhost, plan.Vhost},
		change{"name", d.Name, plan.Name},
		change{"queue_name", d.QueueName, plan.QueueName},
		change{"delivery_exchange", d.DeliveryExchange, plan.DeliveryExchange},
		change{"queue_type", d.QueueType, plan.QueueType},
		change{"max_length", d.MaxLength, plan.MaxLength},
		change{"park_unroutable", d.ParkUnroutable, plan.ParkUnroutable},
	) {
		if !c.prior.Equal(c.planned) {
			changed = append(changed, path.Root(c.attribute))
			known = known && !c.planned.IsUnknown()
		}
	}
	if len(changed) == 0 || !known || !d.hasPlaceOf(plan) {
		return changed, nil
	}
	same, diags := sameObjects()
	if same {
		return nil, diags
	}
	return changed, diags
}

// hasPlaceOf tells whether publishers find both in the same place: what moves elsewhere is replaced, all else that
// alters objects is a rebuild. A place that is not known yet is another one.
func (d *declaredModel) hasPlaceOf(plan *declaredModel) bool {
	return d.Vhost.Equal(plan.Vhost) && d.EntryExchange.Equal(plan.EntryExchange)
}

// planDeliveryType plans the type of another delivery exchange than before, which is not that of the one before.
func (r *lifecycle[M, P]) planDeliveryType(
	ctx context.Context, resp *resource.ModifyPlanResponse, plan P,
) diag.Diagnostics {
	planned := plan.common()
	planned.DeliveryExchangeType = types.StringUnknown()
	if plan.isKnown() {
		expanded, diags := plan.expand()
		if diags.HasError() {
			return diags
		}
		planned.DeliveryExchangeType = textOr(expanded.DeliveryType, types.StringUnknown())
	}
	return resp.Plan.Set(ctx, plan)
}

// warnRebuild says what an update does that rebuilds.
func (r *lifecycle[M, P]) warnRebuild(
	ctx context.Context, req resource.ModifyPlanRequest, plan P, altered path.Paths,
) diag.Diagnostics {
	counted, diags := req.Private.GetKey(ctx, inFlightKey)
	declared, kind := plan.common(), plan.kind()
	names := make([]string, len(altered))
	for i, attribute := range altered {
		names[i] = attribute.String()
	}
	then := "While any message waits, the apply is refused."
	switch {
	case declared.ForceDestroy.ValueBool():
		then = "Messages that wait are deleted, because force_destroy is true."
	case !declared.DrainTimeout.IsNull():
		then = fmt.Sprintf("The apply waits up to %s for the messages that wait. If they are not all delivered by "+
			"then, it is refused and the entry is opened again.", declared.DrainTimeout.ValueString())
	}
	messages, err := strconv.ParseInt(string(counted), 10, 64)
	if err == nil {
		then += fmt.Sprintf(
			" Messages that wait, by the broker's last count, which may be some seconds old: %d.", messages)
	}
	diags.AddWarning(title(kind)+" is rebuilt", fmt.Sprintf(
		"The %s with entry exchange %q gets other exchanges or queues, because of a change of %s. It is rebuilt in "+
			"one go, with all that others have bound. Its entry is closed meanwhile: publishers get an error and "+
			"have to "+
			"try again. %s", kind, declared.EntryExchange.ValueString(), strings.Join(names, ", "), then))
	return diags
}
