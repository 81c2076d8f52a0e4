package resource

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// kind is a kind of resource: the table of its attributes, and its part of the lifecycle. C is what the
// attributes describe.
type kind[C any] struct {
	// name is what such a thing is called in messages.
	name, doc string
	attribute.Table[C]

	// identity are the attributes that tell one from another on a broker. An update may change a mutable one.
	identity        map[string]identityschema.Attribute
	mutableIdentity bool
	// checkTogether says which attributes of a configuration do not go together, where a state may have both. Nil is
	// for none.
	checkTogether func(config attribute.Values) delay.Errors
	// parseID reads an identity from an import ID, and checkIdentity says why one is wrong.
	parseID       func(id string) (attribute.Values, error)
	checkIdentity func(id attribute.Values) string
	// find reads the configuration of what has an identity off the broker.
	find func(ctx context.Context, r *managed[C], id attribute.Values, private privateState) (C, diag.Diagnostics)
	// recognize reads the configuration of what has an entry exchange off the broker.
	recognize func(ctx context.Context, look recognize.Lookup, vhost, entry string) (C, error)
	// beside says what an import leaves out or assumes, by all that the vhost has. Nil is for nothing.
	beside func(ctx context.Context, there *recognize.Inventory, vhost string, config C) diag.Diagnostics
	// displayName says in a few words which one something is, beside its identity.
	displayName func(x attribute.Resolved[C]) string

	// prepare completes a change, and say has the words for what came of it. Remember notes the objects then.
	prepare  func(ctx context.Context, r *managed[C], c *change[C]) diag.Diagnostics
	say      func(ctx context.Context, r *managed[C], c *change[C], result engine.Result, err error) diag.Diagnostics
	remember func(ctx context.Context, c *change[C], result engine.Result) diag.Diagnostics
	// read looks what there is of a state: nil if all is gone.
	read func(
		ctx context.Context, r *managed[C], x attribute.Resolved[C], state attribute.Values, private privateState,
	) (there *topology.Topology, diags diag.Diagnostics)
	// complete plans what depends on the state, which is nil for a create.
	complete func(plan, state attribute.Values)
	// twoWays tells whether a change in place may double messages. Nil is for never.
	twoWays func(before, after topology.Topology) bool
	// keys are those that ask for the delays, by label. Nil is for keys that a change in place does not take away.
	keys func(C) map[string]string
	// look says what a plan would do to what there is, and lookAtDestroy that of a destroy.
	look, lookAtDestroy func(ctx context.Context, r *managed[C], p planning[C])
}

// managed is what Terraform does with the resources of a kind.
type managed[C any] struct {
	connection.Configured
	kind *kind[C]
}

// change is one that is to be made.
type change[C any] struct {
	// state is nil in a create, and plan in a destroy.
	state, plan attribute.Values
	// before and after are what they stand for.
	before, after attribute.Resolved[C]
	// now and is are those after the change, in a destroy those before it.
	now     attribute.Values
	is      attribute.Resolved[C]
	engine  engine.Change
	private privateState
	// owner is the owner's mark of a cascade or ladder, empty in a destroy if it has none.
	owner string
}

// verb is what the change does, for errors and timeouts.
func (c *change[C]) verb() string {
	switch {
	case c.state == nil:
		return "create"
	case c.plan == nil:
		return "destroy"
	}
	return "update"
}

// stateAfter are the state after a change with this result, and what it stands for.
func (c *change[C]) stateAfter(result engine.Result) (attribute.Values, attribute.Resolved[C]) {
	if c.state != nil && !result.StartsFromAfter {
		return c.state, c.before
	}
	return c.plan, c.after
}

// planning is a plan as it is made.
type planning[C any] struct {
	req  resource.ModifyPlanRequest
	resp *resource.ModifyPlanResponse
	// state is nil for a create, and plan for a destroy.
	config, state, plan attribute.Values
	// before and after are what they stand for. After is nil, too, if that is not known yet.
	before, after *attribute.Resolved[C]
}

// known is what a state or a plan stands for, nil if that is not known yet.
func (k *kind[C]) known(v attribute.Values) (*attribute.Resolved[C], diag.Diagnostics) {
	if !k.IsKnown(v) {
		return nil, nil
	}
	x, diags := k.Of(v)
	if diags.HasError() {
		return nil, diags
	}
	return &x, nil
}

// alteredBy lists the attributes that change, if an exchange or queue gets other arguments or another name with them.
// Bindings can change as they are. Policies and the objects where they lead can come and go.
func (k *kind[C]) alteredBy(state, plan attribute.Values, before, after *attribute.Resolved[C]) path.Paths {
	var changed, others path.Paths
	known, same := true, maps.Clone(plan)
	for _, a := range k.Attributes {
		switch {
		case state[a.Name].Equal(plan[a.Name]):
		case a.Alters:
			changed = append(changed, path.Root(a.Name))
			known = known && tfvalue.IsFullyKnown(plan[a.Name])
		case a.InPlace:
			others = append(others, path.Root(a.Name))
			same[a.Name] = state[a.Name]
		}
	}
	if len(changed) > 0 && (!known || !samePlace(state, plan)) {
		return changed
	}
	x, err := k.Resolve(k.Config(same)) // new names may not fit the delays before
	if len(changed) > 0 &&
		(err != nil || !before.Desired.WithoutPolicies().SameObjects(x.Desired.WithoutPolicies())) {
		return changed
	}
	if len(others) == 0 || after == nil {
		return nil
	}
	// What comes and goes in place does so under names that are free.
	for name, q := range after.Desired.Queues {
		if had, exists := before.Desired.Queues[name]; exists && !had.Equal(q) {
			return others
		}
	}
	if k.twoWays != nil && k.twoWays(before.Desired, after.Desired) {
		return others
	}
	return nil
}

// samePlace tells whether publishers find both in the same place: what moves elsewhere is replaced, all else that
// alters objects is a rebuild. A place that is not known yet is another one.
func samePlace(state, plan attribute.Values) bool {
	for _, name := range []string{"vhost", "entry_exchange"} {
		if before, has := state[name]; has && !before.Equal(plan[name]) {
			return false
		}
	}
	return true
}

// lostKeys are the keys by which a delay is no longer asked for that stays, by its label.
func (k *kind[C]) lostKeys(before, after C) map[string]string {
	if k.keys == nil {
		return nil
	}
	lost, keys := k.keys(before), k.keys(after)
	kept := slices.Collect(maps.Values(keys))
	maps.DeleteFunc(lost, func(label, key string) bool {
		_, stays := keys[label]
		return !stays || slices.Contains(kept, key)
	})
	return lost
}

// resolve works out what the two sides of a change stand for.
func (r *managed[C]) resolve(ctx context.Context, c *change[C]) (diags diag.Diagnostics) {
	var more diag.Diagnostics
	if c.state != nil {
		c.before, more = r.kind.Of(c.state)
		c.now, c.is = c.state, c.before
		diags.Append(diagnose.OfState(more)...)
	}
	if c.plan != nil {
		c.after, more = r.kind.Of(c.plan)
		c.now, c.is = c.plan, c.after
		diags.Append(more...)
	}
	c.engine = engine.Change{Kind: r.kind.name, Vhost: c.now.Text("vhost"), Options: optionsOf(c.now),
		Before: c.before.Desired, After: c.after.Desired}
	if diags.HasError() {
		return diags
	}
	if c.state != nil && c.plan != nil {
		c.engine.Options.Rebuild = len(r.kind.alteredBy(c.state, c.plan, &c.before, &c.after)) > 0
	}
	diags.Append(r.kind.prepare(ctx, r, c)...)
	return diags
}

// identityOf is what tells one from another on a broker.
func (k *kind[C]) identityOf(v attribute.Values) types.Object {
	id := maps.Clone(v)
	maps.DeleteFunc(id, func(name string, _ attr.Value) bool { return k.identity[name] == nil })
	return id.Object()
}
