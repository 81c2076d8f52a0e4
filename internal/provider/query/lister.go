package query

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	resources "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/resource"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
)

// ListResources are the list resources.
func ListResources() []func() list.ListResource {
	vhost := schema.StringAttribute{Optional: true, Validators: tfvalue.NotEmpty,
		MarkdownDescription: "Virtual host to look into. Default: all virtual hosts that RabbitMQ shows to the user. " +
			"The query warns of a virtual host that the user may not look into, and fails if `vhost` names it."}
	delivery := schema.StringAttribute{Optional: true, Validators: tfvalue.NotEmpty,
		MarkdownDescription: "Exchange whose destinations are listed, even if no cascade or ladder is found that " +
			"ends there. Default: all delivery exchanges of cascades and ladders."}
	return []func() list.ListResource{
		func() list.ListResource {
			return &lister{kind: recognize.KindCascade, find: resources.FindCascades, schema: schema.Schema{
				MarkdownDescription: cascadesDescription, Attributes: map[string]schema.Attribute{"vhost": vhost}}}
		},
		func() list.ListResource {
			return &lister{kind: recognize.KindLadder, find: resources.FindLadders, schema: schema.Schema{
				MarkdownDescription: laddersDescription, Attributes: map[string]schema.Attribute{"vhost": vhost}}}
		},
		func() list.ListResource {
			return &lister{kind: "destination", find: resources.FindDestinations, schema: schema.Schema{
				MarkdownDescription: destinationsDescription,
				Attributes:          map[string]schema.Attribute{"vhost": vhost, "delivery_exchange": delivery}}}
		},
	}
}

const cascadesDescription = "Finds the delay cascades of a virtual host or of the whole broker, for `terraform " +
	"query`, whoever declared them. The query also writes `resource` and `import` blocks for them. Needs Terraform " +
	"1.14 or later.\n\n" +
	"The query recognizes a cascade by the name and keys of its entry exchange and the objects behind the entry, as " +
	"an import does. Damage does not hide a cascade as long as the keys still show its form. The query does not find " +
	"a cascade whose entry is gone or leads nowhere. An import by identity still works if the exchange below the " +
	"entry proves the cascade."

const laddersDescription = "Finds the ladders of a virtual host or of the whole broker, for `terraform query`, " +
	"whoever declared them. The query also writes `resource` and `import` blocks for them. Needs Terraform 1.14 or " +
	"later.\n\n" +
	"The query recognizes a ladder by its entry exchange and the keys that lead from there to queues, such as " +
	"`30s.*.#`, as an import does. At least one delay queue has to be undamaged. Bindings to other queues, such as " +
	"the queues of another ladder, do not hide a ladder. A plan shows these bindings as drift."

const destinationsDescription = "Finds the destinations of cascades and ladders, for `terraform query`, whoever " +
	"bound them. The query also writes `resource` and `import` blocks for them. Needs Terraform 1.14 or later.\n\n" +
	"A destination is a binding of the delivery exchange of a cascade or ladder that is " +
	"[found](../guides/import.md#cascades-that-are-found). Its key is one `*` for each level, or `#`, and then an " +
	"address. The query also finds destinations for another number of levels. The query leaves out all other " +
	"bindings of the exchange."

var _ list.ListResourceWithConfigure = (*lister)(nil)

// lister is a list resource. It reads a broker vhost by vhost.
type lister struct {
	connection.Configured
	kind   string
	schema schema.Schema
	find   func(ctx context.Context, vhost string, in *recognize.Inventory) ([]resources.Found, error)
}

func (r *lister) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind
}

func (r *lister) ListResourceConfigSchema(
	_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse,
) {
	resp.Schema = r.schema
}

// List pushes what it finds, as long as more is asked for.
func (r *lister) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	config, diags := r.config(ctx, req)
	if diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	stream.Results = func(push func(list.ListResult) bool) { r.list(ctx, req, config, push) }
}

func (r *lister) list(
	ctx context.Context, req list.ListRequest, config map[string]string, push func(list.ListResult) bool,
) {
	vhosts, err := []string{config["vhost"]}, error(nil)
	if config["vhost"] == "" {
		vhosts, err = r.Connection.Client.Vhosts(ctx)
	}
	if err != nil {
		push(list.ListResult{Diagnostics: diag.Diagnostics{diagnose.NotListed(r.kind, "", err)}})
		return
	}
	left := req.Limit // as many as there are, if it is 0
	for _, vhost := range vhosts {
		all, problem := r.in(ctx, vhost, config)
		if problem != nil && (!push(list.ListResult{Diagnostics: diag.Diagnostics{problem}}) ||
			problem.Severity() == diag.SeverityError) {
			return
		}
		for _, found := range all {
			if left--; !push(resultOf(ctx, req, found)) || left == 0 {
				return
			}
		}
	}
}

// in lists a vhost. Where all vhosts are asked, it is a warning that one of them cannot be looked into, is gone, down
// or too large. That says nothing of the others.
func (r *lister) in(ctx context.Context, vhost string, config map[string]string) ([]resources.Found, diag.Diagnostic) {
	all, err := r.findIn(ctx, r.Connection.Client.Vhost(vhost), config["delivery_exchange"])
	if err == nil {
		return all, nil
	}
	problem := diagnose.NotListed(r.kind, vhost, err)
	if config["vhost"] == "" &&
		rabbit.IsKind(err, rabbit.Forbidden, rabbit.VhostNotFound, rabbit.Unavailable, rabbit.Timeout) {
		problem = diagnose.Warning(problem.Summary(), "%s", problem.Detail())
	}
	return nil, problem
}

// findIn finds what a vhost has. Delivery is the only exchange to look at, empty for all.
func (r *lister) findIn(ctx context.Context, vhost *rabbit.Vhost, delivery string) ([]resources.Found, error) {
	if delivery != "" {
		bindings, err := vhost.BindingsFrom(ctx, delivery)
		return resources.DestinationsAmong(vhost.Name(), bindings), err
	}
	inventory, err := engine.Inventory(ctx, vhost, recognize.CanBeEntry)
	if err != nil {
		return nil, err
	}
	return r.find(ctx, vhost.Name(), inventory)
}

// config are the values of the configuration, empty where it has none.
func (r *lister) config(ctx context.Context, req list.ListRequest) (map[string]string, diag.Diagnostics) {
	var diags diag.Diagnostics
	config := map[string]string{}
	for _, attribute := range slices.Sorted(maps.Keys(r.schema.Attributes)) {
		var value types.String
		diags.Append(req.Config.GetAttribute(ctx, path.Root(attribute), &value)...)
		if config[attribute] = value.ValueString(); value.IsUnknown() {
			diags.Append(diagnose.NotListable(r.kind, attribute))
		}
	}
	if !diags.HasError() && !r.Connection.IsKnown() {
		diags.Append(diagnose.NotConfigured("no %ss can be listed", r.kind))
	}
	return config, diags
}

// resultOf shows a resource.
func resultOf(ctx context.Context, req list.ListRequest, found resources.Found) list.ListResult {
	result := req.NewListResult(ctx)
	result.DisplayName = found.DisplayName
	result.Diagnostics.Append(result.Identity.Set(ctx, found.Identity)...)
	if req.IncludeResource {
		result.Diagnostics.Append(found.Diagnostics...)
		result.Diagnostics.Append(result.Resource.Set(ctx, found.State)...)
	}
	return result
}
