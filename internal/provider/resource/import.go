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

// identity is what tells one topology from another on a broker.
type identity struct {
	Vhost         types.String `tfsdk:"vhost"`
	EntryExchange types.String `tfsdk:"entry_exchange"`
}

// ImportState reads the configuration off the broker, whoever declared it.
func (r *lifecycle[M, P]) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	var (
		id    identity
		model M
	)
	kind := P(&model).kind()
	if byIdentity(req) {
		resp.Diagnostics.Append(req.Identity.Get(ctx, &id)...)
		if id.Vhost.ValueString() == "" || id.EntryExchange.ValueString() == "" {
			resp.Diagnostics.AddError("Invalid identity", "The identity has to have both vhost and entry_exchange, "+
				"and neither may be empty.")
		}
	} else {
		vhost, entry, err := importid.ParseEntry(req.ID, P(&model).exampleEntry())
		if err != nil {
			resp.Diagnostics.AddError("Invalid import ID", err.Error()+".")
		}
		id = identity{Vhost: types.StringValue(vhost), EntryExchange: types.StringValue(entry)}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Connection.IsKnown() {
		resp.Diagnostics.Append(diagnose.NotImportable(kind))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, connection.DefaultReadTimeout)
	defer cancel()
	vhost, entry := id.Vhost.ValueString(), id.EntryExchange.ValueString()
	if err := P(&model).recognize(ctx, r.Connection.Client.Vhost(vhost), vhost, entry); err != nil {
		var other *recognize.OtherEntryError
		if errors.As(err, &other) {
			err = fmt.Errorf("%w. Import that:\n\n%s", err,
				diagnose.WaysToImport(other.Kind, importid.Entry(vhost, other.Entry)))
		}
		resp.Diagnostics.Append(diagnose.OfEntry(kind, vhost, entry).Failed("import", err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, P(&model).common().identity())...)
}

// byIdentity tells an import by identity from one by ID, which may be empty.
func byIdentity(req resource.ImportStateRequest) bool {
	return req.ID == "" && req.Identity != nil && !req.Identity.Raw.IsNull()
}
