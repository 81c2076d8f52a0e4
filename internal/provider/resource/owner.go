package resource

import (
	"context"
	"crypto/rand"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
)

// ownerKey is where the private state keeps the owner's mark of a cascade or ladder.
const ownerKey = "owner"

// private is the private state.
type private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

// keeping is a private state to write.
type keeping interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// ownerIn is the owner's mark that the private state has, empty if there is none.
func ownerIn(ctx context.Context, state private) (owner string, diags diag.Diagnostics) {
	text, diags := state.GetKey(ctx, ownerKey)
	if len(text) > 0 && json.Unmarshal(text, &owner) != nil {
		diags.Append(diagnose.Error("Unreadable state", "The owner's mark is no text."))
	}
	return owner, diags
}

// keepOwner notes an owner's mark.
func keepOwner(ctx context.Context, in keeping, owner string) diag.Diagnostics {
	text, err := json.Marshal(owner)
	if err != nil {
		return diag.Diagnostics{diagnose.Error("Could not keep the owner's mark", "%s", err)}
	}
	return in.SetKey(ctx, ownerKey, text)
}

// setOwner has both sides of a change of a cascade or ladder belong to the resource. A create makes a mark, as does an
// update of what has none.
func (c *change[C]) setOwner(ctx context.Context) (diags diag.Diagnostics) {
	if c.before != nil {
		c.owner, diags = ownerIn(ctx, c.private)
	}
	if c.owner == "" && c.after != nil {
		c.owner = rand.Text()
	}
	c.engine.Before, c.engine.After = c.engine.Before.WithOwner(c.owner), c.engine.After.WithOwner(c.owner)
	return diags
}

// keepOwner notes the owner's mark of a cascade or ladder that there is, or may be, after a change.
func (c *change[C]) keepOwner(ctx context.Context, in keeping) diag.Diagnostics {
	if c.engine.After.IsEmpty() {
		return nil
	}
	return keepOwner(ctx, in, c.owner)
}

// importOwner reads the owner's mark of a cascade or ladder that is being imported.
func (r *managed[C]) importOwner(ctx context.Context, in keeping, state values) (diags diag.Diagnostics) {
	if r.kind.recognize == nil {
		return nil
	}
	vhost, entry := state.text("vhost"), state.text("entry_exchange")
	marks, err := r.Connection.Client.Vhost(vhost).Owners(ctx, entry)
	if err != nil {
		diags.Append(diagnose.OfEntry(r.kind.name, vhost, entry).Failed("import", err))
	}
	if len(marks) == 0 {
		return diags
	}
	return keepOwner(ctx, in, marks[0].Owner())
}
