package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// identity is what tells one topology from another on a broker.
type identity struct {
	Vhost         types.String `tfsdk:"vhost"`
	EntryExchange types.String `tfsdk:"entry_exchange"`
}

// ImportState reads the configuration off the broker, whoever declared it.
func (r *lifecycle[M, P]) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	var id identity
	if req.ID == "" {
		resp.Diagnostics.Append(req.Identity.Get(ctx, &id)...)
	} else {
		vhost, entry, err := parseImportID(req.ID)
		if err != nil {
			resp.Diagnostics.AddError("Invalid import ID", err.Error())
		}
		id = identity{Vhost: types.StringValue(vhost), EntryExchange: types.StringValue(entry)}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	var model M
	kind := P(&model).kind()
	if r.connection == nil || r.connection.client == nil {
		resp.Diagnostics.Append(notImportable(kind))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, defaultReadTimeout)
	defer cancel()
	vhost, entry := id.Vhost.ValueString(), id.EntryExchange.ValueString()
	if err := P(&model).recognize(ctx, r.connection.client.Lookup(vhost), vhost, entry); err != nil {
		o := operation{kind: kind, vhost: vhost, desired: topology.Topology{Entry: entry}}
		var elsewhere *cascade.ElsewhereError
		if errors.As(err, &elsewhere) {
			err = fmt.Errorf("%w. Import that:\n\n  %s", err, commandToImport(elsewhere.Kind, vhost, elsewhere.Entry))
		}
		resp.Diagnostics.Append(o.failed("import", err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, P(&model).common().identity())...)
}

func commandToImport(kind, vhost, entry string) string {
	return fmt.Sprintf("terraform import rabbitmqdelay_%s.<name in your configuration> '%s'", kind, importID(vhost, entry))
}

// importID is "<vhost>/<entry exchange>" with each part percent-encoded.
func importID(vhost, entry string) string {
	return url.PathEscape(vhost) + "/" + url.PathEscape(entry)
}

func parseImportID(id string) (vhost, entry string, err error) {
	parts, ok := splitID(id, 2)
	if !ok {
		return "", "", fmt.Errorf("the import ID is %q; it has to be <vhost>/<entry exchange>, each part percent-encoded, such as %s", id, importID("/", "tasks.delay-16"))
	}
	return parts[0], parts[1], nil
}

// splitID decodes the parts of an import ID. Not ok is one with another number of parts, or in which one is empty.
func splitID(id string, n int) (parts []string, ok bool) {
	parts = strings.Split(id, "/")
	for i, part := range parts {
		decoded, err := url.PathUnescape(part)
		if err != nil || decoded == "" || !utf8.ValidString(decoded) {
			return nil, false
		}
		parts[i] = decoded
	}
	return parts, len(parts) == n
}
