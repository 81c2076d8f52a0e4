package resource

import (
	"context"
	"crypto/rand"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ensureAddressID has the private data know their address.
func ensureAddressID(ctx context.Context, private privateState) (id string, diags diag.Diagnostics) {
	isKept, diags := getPrivate(ctx, private, addressKey, &id)
	if !isKept {
		id = rand.Text()
		diags.Append(setPrivate(ctx, private, addressKey, id)...)
	}
	return id, diags
}

// note enters the address of a cascade or ladder into the ledger of the plan. It says which others there have, or want
// to have, the same objects.
func (r *managed[C]) note(ctx context.Context, p planning[C]) (diags diag.Diagnostics) {
	if r.Connection == nil {
		return nil
	}
	a := connection.Address{Goes: p.plan == nil}
	a.Adopts = p.plan != nil && !p.plan["adopt"].Equal(types.BoolValue(false)) // which may not be known
	if p.state != nil && p.plan != nil {
		a.ID, diags = ensureAddressID(ctx, p.resp.Private)
	} else {
		_, diags = getPrivate(ctx, p.req.Private, addressKey, &a.ID)
	}
	holds, more := r.held(ctx, p)
	a.Holds = holds
	diags.Append(more...)
	a.Declares = r.planned(p.plan, p.after)
	for _, c := range r.Connection.Ledger.Note(a) {
		s := diagnose.OfEntry(c.One.Kind, c.One.Vhost, c.One.Entry)
		other := diagnose.OfEntry(c.Other.Kind, c.Other.Vhost, c.Other.Entry)
		switch {
		case c.MayBeOne:
			diags.Append(s.CreatedTwice(other, c.Objects))
		case !c.WouldDelete:
			diags.Append(s.DeclaredTwice(other, c.Objects))
		case r.isOfOthers(ctx, c.One):
			diags.Append(s.LeavesToOthers(other, c.Objects))
		default:
			diags.Append(s.WouldDelete(other, c.Objects))
		}
	}
	return diags
}

// settle enters into the ledger what a change has come to. A provider of terraform test makes several plans (since
// Terraform 1.13). What a create makes gets an address of its own: a deposed object may keep the one of the plan.
func (r *managed[C]) settle(ctx context.Context, c *change[C]) diag.Diagnostics {
	a := connection.Address{Goes: c.plan == nil}
	if !a.Goes {
		a.Declares = r.planned(c.plan, &c.after)
	}
	_, diags := getPrivate(ctx, c.private, addressKey, &a.ID)
	id := a.ID
	if c.plan != nil && (c.state == nil || id == "") {
		id = rand.Text()
		diags.Append(setPrivate(ctx, c.private, addressKey, id)...)
	}
	r.Connection.Ledger.Done(a, id)
	return diags
}

// held is what the state has, with the owner's mark of the resource.
func (r *managed[C]) held(ctx context.Context, p planning[C]) (held *connection.Planned, diags diag.Diagnostics) {
	if held = r.planned(p.state, p.before); held != nil {
		owner, more := r.owner(ctx, p.req.Private, p.state)
		diags.Append(more...)
		held.Topology = held.WithOwner(owner)
	}
	return held, diags
}

// isSecondHalf tells whether a plan without a state is that of a replacement.
func (p planning[C]) isSecondHalf(ctx context.Context) bool {
	id, _ := p.req.Private.GetKey(ctx, addressKey)
	return id != nil
}

// planned is how a plan notes it, nil if it is not known.
func (r *managed[C]) planned(v attribute.Values, x *attribute.Resolved[C]) *connection.Planned {
	if x == nil {
		return nil
	}
	return &connection.Planned{Kind: r.kind.name, Vhost: v.Text("vhost"), Topology: x.Desired, Scale: x.Scale}
}

// isOfOthers tells whether others own it on the broker, so that a destroy leaves it. A broker that does not answer
// does not say so.
func (r *managed[C]) isOfOthers(ctx context.Context, one connection.Planned) bool {
	if !r.Connection.IsKnown() {
		return false
	}
	ctx, cancel := context.WithTimeout(rabbit.WithoutRetries(ctx), lookTimeout)
	defer cancel()
	marks, err := r.Connection.Client.Vhost(one.Vhost).Owners(ctx, one.Entry)
	return err == nil && one.IsOfOthers(topology.Topology{Owners: topology.NewBindings(marks...)})
}
