package resource

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/importid"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// bindingOf is what a destination stands for.
func bindingOf(t topology.Topology) (only topology.Binding) {
	for b := range t.Bindings {
		only = b
	}
	return only
}

const leftoverBindings = "leftover_bindings"

// showLeftovers shows the other bindings that are there, the newest last.
func showLeftovers(x *attribute.Resolved[delay.Destination], there topology.Topology, before attr.Value) attr.Value {
	left := importid.Bindings(x.Config.Vhost, there.Bindings.Sorted())
	if i := slices.Index(left, importid.Binding(x.Config.Vhost, bindingOf(x.Desired))); i >= 0 {
		left = slices.Delete(left, i, i+1)
	}
	if len(left) == 0 {
		return types.ListNull(types.StringType)
	}
	ordered := slices.DeleteFunc(tfvalue.TextsIn(before), func(id string) bool { return !slices.Contains(left, id) })
	left = slices.DeleteFunc(left, func(id string) bool { return slices.Contains(ordered, id) })
	return tfvalue.TextsValue(slices.Concat(ordered, left))
}

// owner is what the private state keeps of a destination: which bindings are its own.
type owner struct {
	// Mark is that of all bindings that it has made.
	Mark string `json:"mark"`
	// Plain is the import ID of a binding without a mark that it has imported, and not replaced so far.
	Plain string `json:"plain,omitempty"`
}

// own are the bindings of a destination that may be there, the one that its state names first. Terraform loses the
// private state if the provider's process ends in the middle of an apply (Terraform 1.11.4). The binding is then the
// only one with a mark, if there is one alone.
func own(
	ctx context.Context, r *managed[delay.Destination], private privateState, x attribute.Resolved[delay.Destination],
	state attribute.Values,
) (all []topology.Binding, mark string, diags diag.Diagnostics) {
	o := owner{Mark: rand.Text()}
	isKept, diags := getPrivate(ctx, private, ownerKey, &o)
	if b := bindingOf(x.Desired); !isKept && r.Connection.IsKnown() {
		there, err := r.Connection.Client.Vhost(x.Config.Vhost).BindingsFrom(ctx, b.Source)
		marked := topology.NewBindings(there...).Where(
			func(other topology.Binding) bool { return other.Plain() == b && other.DestinationMark() != "" })
		if err == nil && len(marked) == 1 {
			o.Mark = marked[0].DestinationMark()
		}
	}
	left := tfvalue.TextsIn(state[leftoverBindings])
	for _, id := range append([]string{importid.Binding(x.Config.Vhost, bindingOf(x.Desired))}, left...) {
		_, b, err := importid.ParseBinding(id)
		if err != nil {
			diags.Append(diagnose.Error("Unreadable state", "leftover_bindings: %s", err))
		}
		if id == o.Plain {
			all = append(all, b)
		}
		all = append(all, b.OfDestination(o.Mark))
	}
	return all, o.Mark, diags
}

// saveOwner notes which of the bindings that are there are the destination's own.
func saveOwner(
	ctx context.Context, private privateState, vhost, mark string, there topology.Bindings,
) diag.Diagnostics {
	o := owner{Mark: mark}
	for b := range there {
		if b.DestinationMark() == "" {
			o.Plain = importid.Binding(vhost, b)
		}
	}
	return setPrivate(ctx, private, ownerKey, o)
}

// prepareDestination has all bindings of the destination before the change, and marks the one after it.
func prepareDestination(
	ctx context.Context, r *managed[delay.Destination], c *change[delay.Destination],
) (diags diag.Diagnostics) {
	mark := rand.Text()
	if c.state != nil {
		var all []topology.Binding
		all, mark, diags = own(ctx, r, c.private, c.before, c.state)
		c.engine.Before.Bindings, c.engine.Options.Named = topology.NewBindings(all...), all[0]
	}
	if c.plan != nil {
		c.engine.After.Bindings = topology.NewBindings(bindingOf(c.after.Desired).OfDestination(mark))
	}
	if c.state != nil && c.plan != nil {
		c.plan[leftoverBindings] = c.state[leftoverBindings] // the order of those that are left
	}
	return diags
}

// rememberOwner is what the private state keeps after a create or an update.
func rememberOwner(ctx context.Context, c *change[delay.Destination], result engine.Result) diag.Diagnostics {
	return saveOwner(ctx, c.private, c.engine.Vhost, bindingOf(c.engine.After).DestinationMark(),
		result.There.Bindings)
}

const routingKey = "routing_key"
