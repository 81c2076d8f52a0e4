// Package private reads and writes what Terraform keeps of a resource beside its state, and shows nobody. A key comes
// in, and a value of any type as JSON. Call Get and Set.
package private

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
)

// State is the private state of a resource.
type State interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// Get reads what a key has into value, and tells whether it has something.
func Get(ctx context.Context, state State, key string, value any) (found bool, diags diag.Diagnostics) {
	text, diags := state.GetKey(ctx, key)
	if len(text) == 0 {
		return false, diags
	}
	if err := json.Unmarshal(text, value); err != nil {
		diags.Append(diagnose.Error("Unreadable private state", "The value of %q: %s", key, err))
	}
	return true, diags
}

// Set writes a value.
func Set(ctx context.Context, state State, key string, value any) diag.Diagnostics {
	text, err := json.Marshal(value)
	if err != nil {
		return diag.Diagnostics{diagnose.Error("Could not write the private state", "The value of %q: %s", key, err)}
	}
	return state.SetKey(ctx, key, text)
}
