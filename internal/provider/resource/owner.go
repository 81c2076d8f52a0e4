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

// textIn is a text that the private state has, empty if there is none.
func textIn(ctx context.Context, state private, key string) (text string, diags diag.Diagnostics) {
	value, diags := state.GetKey(ctx, key)
	if len(value) > 0 && json.Unmarshal(value, &text) != nil {
		diags.Append(diagnose.Error("Unreadable private state", "The value of %q is no text.", key))
	}
	return text, diags
}

// keepText notes a text.
func keepText(ctx context.Context, in keeping, key, text string) diag.Diagnostics {
	value, err := json.Marshal(text)
	if err != nil {
		return diag.Diagnostics{diagnose.Error("Could not write the private state", "%s", err)}
	}
	return in.SetKey(ctx, key, value)
}

// setOwner has both sides of a change of a cascade or ladder belong to the resource. A create makes a mark, as does an
// update of what has none.
func (c *change[C]) setOwner(ctx context.Context) (diags diag.Diagnostics) {
	if c.before != nil {
		c.owner, diags = textIn(ctx, c.private, ownerKey)
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
	diags := keepText(ctx, in, ownerKey, c.owner)
	diags.Append(in.SetKey(ctx, planKey, nil)...) // it was for the plan alone
	return diags
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
	return keepText(ctx, in, ownerKey, marks[0].Owner())
}
