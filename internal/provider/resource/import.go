package resource

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/importid"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
)

// ImportState reads the configuration off the broker, whoever declared it.
func (r *managed[C]) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	var vhost, entry string
	if byIdentity(req) {
		var id types.Object
		resp.Diagnostics.Append(req.Identity.Get(ctx, &id)...)
		vhost, entry = values(id.Attributes()).text("vhost"), values(id.Attributes()).text("entry_exchange")
		if vhost == "" || entry == "" {
			resp.Diagnostics.AddError("Invalid identity", "The identity has to have both vhost and entry_exchange, "+
				"and neither may be empty.")
		}
	} else {
		var err error
		if vhost, entry, err = importid.ParseEntry(req.ID, r.kind.exampleEntry); err != nil {
			resp.Diagnostics.AddError("Invalid import ID", err.Error()+".")
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Connection.IsKnown() {
		resp.Diagnostics.Append(diagnose.NotImportable(r.kind.name))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, connection.DefaultReadTimeout)
	defer cancel()
	found, err := r.kind.recognize(ctx, r.Connection.Client.Vhost(vhost), vhost, entry)
	var state values
	if err == nil {
		state, err = r.kind.imported(found)
	}
	var other *recognize.OtherEntryError
	if errors.As(err, &other) {
		err = fmt.Errorf("%w. Import that:\n\n%s", err,
			diagnose.WaysToImport(other.Kind, importid.Entry(vhost, other.Entry)))
	}
	if err != nil {
		resp.Diagnostics.Append(diagnose.OfEntry(r.kind.name, vhost, entry).Failed("import", err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state.object())...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, r.kind.identityOf(state))...)
}

// byIdentity tells an import by identity from one by ID, which may be empty.
func byIdentity(req resource.ImportStateRequest) bool {
	return req.ID == "" && req.Identity != nil && !req.Identity.Raw.IsNull()
}
