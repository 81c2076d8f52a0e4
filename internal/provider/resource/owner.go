package resource

import (
	"context"
	"crypto/rand"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// owner is the owner's mark of a cascade or ladder that the private state has, empty if there is none. An import has no
// private state yet. Terraform loses it if the provider's process ends in the middle of an apply (1.11.4). Then it is
// the mark that is on the broker.
func (r *managed[C]) owner(
	ctx context.Context, private privateState, v attribute.Values,
) (owner string, diags diag.Diagnostics) {
	_, diags = getPrivate(ctx, private, ownerKey, &owner)
	counted, _ := private.GetKey(ctx, inFlightKey)
	if owner != "" || counted != nil || r.kind.recognize == nil || !r.Connection.IsKnown() {
		return owner, diags
	}
	vhost, entry := v.Text("vhost"), v.Text("entry_exchange")
	marks, err := r.Connection.Client.Vhost(vhost).Owners(ctx, entry)
	if err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound) {
		diags.Append(diagnose.OfEntry(r.kind.name, vhost, entry).Failed("read", err))
	}
	if len(marks) > 0 {
		owner = marks[0].Owner()
	}
	return owner, diags
}

// prepareTopology has both sides of a change of a cascade or ladder belong to the resource. A create makes a mark, as
// does an update of what has none.
func prepareTopology[C any](ctx context.Context, r *managed[C], c *change[C]) (diags diag.Diagnostics) {
	if c.state != nil {
		c.owner, diags = r.owner(ctx, c.private, c.state)
		_, more := getPrivate(ctx, c.private, damagesKey, &c.engine.Options.Known)
		diags.Append(more...)
	}
	if c.owner == "" && c.plan != nil {
		c.owner = newOwner()
	}
	c.engine.Before, c.engine.After = c.engine.Before.WithOwner(c.owner), c.engine.After.WithOwner(c.owner)
	return diags
}

// newOwner is an owner that nobody can guess. It has the characters of the keys of bindings, for users with topic
// permissions.
func newOwner() string {
	digits := make([]byte, 64)
	_, _ = rand.Read(digits) // which never fails
	for i := range digits {
		digits[i] = '0' + digits[i]%2
	}
	return string(digits)
}

// rememberTopology notes the owner's mark of a cascade or ladder that there is, or may be, after a change. It notes
// which damages the state has.
func rememberTopology[C any](ctx context.Context, c *change[C], result engine.Result) diag.Diagnostics {
	_, has := c.stateAfter(result)
	diags := setPrivate(ctx, c.private, ownerKey, c.owner)
	return append(diags,
		setPrivate(ctx, c.private, damagesKey, health.Keys(health.Damages(has.Desired, *result.There, nil)))...)
}
