package provider

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// schemaVersion is that of cascades and ladders. In version 0, bindings were lists of lines.
const schemaVersion = 1

// UpgradeState reads the states of earlier versions.
func (r *lifecycle[M, P]) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: {StateUpgrader: upgradeState}}
}

func upgradeState(ctx context.Context, req resource.UpgradeStateRequest, resp *resource.UpgradeStateResponse) {
	state, err := withoutObjects(req.RawState.JSON, resp.State.Schema.Type().TerraformType(ctx))
	if err != nil {
		resp.Diagnostics.AddError("Unreadable state",
			"The state of an earlier version cannot be read: "+err.Error()+".")
		return
	}
	resp.State.Raw = state
}

// withoutObjects leaves out what the next refresh writes anew.
func withoutObjects(state []byte, as tftypes.Type) (tftypes.Value, error) {
	var attributes map[string]json.RawMessage
	if err := json.Unmarshal(state, &attributes); err != nil {
		return tftypes.Value{}, err
	}
	for _, attribute := range []string{"exchanges", "queues", "bindings"} {
		delete(attributes, attribute)
	}
	text, err := json.Marshal(attributes)
	if err != nil {
		return tftypes.Value{}, err
	}
	return tfprotov6.RawState{JSON: text}.Unmarshal(as)
}
