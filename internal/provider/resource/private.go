package resource

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
)

// Keys of the private state.
const (
	// ownerKey is for the owner's mark of a cascade or ladder, and for those of a destination.
	ownerKey = "owner"
	// inFlightKey is for what Read counted, for the warnings of plans.
	inFlightKey = "in_flight"
	// damagesKey is for the keys of the damages that the state has. An apply says those alone that came later.
	damagesKey = "damages"
	// addressKey is for which address the private data are. Terraform hands them from the first half of a replacement
	// to the second one. With -minimal-refresh, it plans what changes a second time, after it has read it.
	addressKey = "address"
)

// privateState is what Terraform keeps of a resource beside its state, and shows nobody.
type privateState interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// getPrivate reads what a key has into value, and tells whether it has something.
func getPrivate(ctx context.Context, private privateState, key string, value any) (found bool, diags diag.Diagnostics) {
	text, diags := private.GetKey(ctx, key)
	if len(text) == 0 {
		return false, diags
	}
	if err := json.Unmarshal(text, value); err != nil {
		diags.Append(diagnose.Error("Unreadable private state", "The value of %q: %s", key, err))
	}
	return true, diags
}

func setPrivate(ctx context.Context, private privateState, key string, value any) diag.Diagnostics {
	text, _ := json.Marshal(value) // all values here have one
	return private.SetKey(ctx, key, text)
}
