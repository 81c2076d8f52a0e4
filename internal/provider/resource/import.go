package resource

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
)

// ImportState reads the configuration off the broker, whoever declared it.
func (r *managed[C]) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	var id attribute.Values
	if byIdentity(req) {
		var object types.Object
		resp.Diagnostics.Append(req.Identity.Get(ctx, &object)...)
		id = object.Attributes()
		if wrong := r.kind.checkIdentity(id); wrong != "" {
			resp.Diagnostics.Append(diagnose.Error("Invalid identity", "%s", wrong))
		}
	} else {
		var err error
		if id, err = r.kind.parseID(req.ID); err != nil {
			resp.Diagnostics.Append(diagnose.Error("Invalid import ID", "%s.", err))
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Connection.IsKnown() {
		resp.Diagnostics.Append(diagnose.NotConfigured("the %s cannot be read for the import", r.kind.name))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, connection.DefaultReadTimeout)
	defer cancel()
	found, diags := r.kind.find(ctx, r, id, resp.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	state, err := r.kind.Imported(found)
	if err != nil {
		resp.Diagnostics.Append(diagnose.ConfigErrors(err)...)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state.Object())...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, r.kind.identityOf(state))...)
}

// byIdentity tells an import by identity from one by ID, which may be empty.
func byIdentity(req resource.ImportStateRequest) bool {
	return req.ID == "" && req.Identity != nil && !req.Identity.Raw.IsNull()
}
