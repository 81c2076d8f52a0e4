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
		vhost, entry, err := parseImportID(req.ID, P(&model).exampleEntry())
		if err != nil {
			resp.Diagnostics.AddError("Invalid import ID", err.Error()+".")
		}
		id = identity{Vhost: types.StringValue(vhost), EntryExchange: types.StringValue(entry)}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.connection.isKnown() {
		resp.Diagnostics.Append(notImportable(kind))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, defaultReadTimeout)
	defer cancel()
	vhost, entry := id.Vhost.ValueString(), id.EntryExchange.ValueString()
	if err := P(&model).recognize(ctx, r.connection.client.Vhost(vhost), vhost, entry); err != nil {
		var other *recognize.OtherEntryError
		if errors.As(err, &other) {
			err = fmt.Errorf("%w. Import that:\n\n%s", err, waysToImport(other.Kind, importID(vhost, other.Entry)))
		}
		resp.Diagnostics.Append(ofEntry(kind, vhost, entry).failed("import", err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, P(&model).common().identity())...)
}

// byIdentity tells an import by identity from one by ID, which may be empty.
func byIdentity(req resource.ImportStateRequest) bool {
	return req.ID == "" && req.Identity != nil && !req.Identity.Raw.IsNull()
}

// waysToImport are the block and the command that import something. An ID holds nothing that has to be escaped in
// either.
func waysToImport(kind, id string) string {
	to := fmt.Sprintf("rabbitmqdelay_%s.<name in your configuration>", kind)
	return fmt.Sprintf("  import {\n    to = %s\n    id = \"%s\"\n  }\n\nor, as a command:\n\n  terraform "+
		"import %s '%s'", to, id, to, id)
}

// importID is "<vhost>/<entry exchange>" with each part percent-encoded.
func importID(vhost, entry string) string {
	return url.PathEscape(vhost) + "/" + url.PathEscape(entry)
}

// parseImportID has the name of an entry for its example.
func parseImportID(id, example string) (vhost, entry string, err error) {
	parts, ok := splitID(id, 2)
	if !ok {
		return "", "", fmt.Errorf("the import ID is %q; it has to be <vhost>/<entry exchange>, each part "+
			"percent-encoded, such as %s", id, importID("/", example))
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
