package query

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
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
	return []func() list.ListResource{
		newCascades, newLadders, func() list.ListResource { return &destinationListResource{} },
	}
}

// lister is what all list resources have in common.
type lister struct{ connection.Configured }

// schema is that of something that is found by vhost, and by further attributes.
func (*lister) schema(description string, further map[string]schema.Attribute) schema.Schema {
	attributes := map[string]schema.Attribute{
		"vhost": schema.StringAttribute{
			Optional:   true,
			Validators: tfvalue.NotEmpty,
			MarkdownDescription: "Virtual host to look into. Default: all that the user is told of. One that the " +
				"user may not look into is a warning then, and an error if it is named here.",
		},
	}
	maps.Copy(attributes, further)
	return schema.Schema{MarkdownDescription: description, Attributes: attributes}
}

// vhostLister lists what there is in one vhost.
type vhostLister func(vhost string) ([]list.ListResult, error)

// list reads the broker vhost by vhost, and pushes what it finds, as long as more is asked for.
func (r *lister) list(
	ctx context.Context, kind string, only types.String, limit int64, in vhostLister,
	push func(list.ListResult) bool,
) {
	vhosts, problem := r.vhosts(ctx, kind, only)
	if problem != nil {
		push(list.ListResult{Diagnostics: diag.Diagnostics{problem}})
		return
	}
	left := limit // as many as there are, if it is 0
	for _, vhost := range vhosts {
		results, err := in(vhost)
		if err != nil {
			problem := notListed(kind, vhost, err)
			goOn := only.IsNull() && concernsVhost(err)
			if goOn {
				problem = diag.NewWarningDiagnostic(problem.Summary(), problem.Detail())
			}
			if !push(list.ListResult{Diagnostics: diag.Diagnostics{problem}}) || !goOn {
				return
			}
		}
		for _, result := range results {
			if left--; !push(result) || left == 0 {
				return
			}
		}
	}
}

// vhosts are those to look into, or why nothing can be listed.
func (r *lister) vhosts(ctx context.Context, kind string, only types.String) ([]string, diag.Diagnostic) {
	switch {
	case only.IsUnknown():
		return nil, diag.NewErrorDiagnostic("Vhost not known",
			fmt.Sprintf("The value of vhost is not known yet, so that no %ss can be listed.", kind))
	case !r.Connection.IsKnown():
		return nil, diag.NewErrorDiagnostic("Provider not configured", fmt.Sprintf(
			"The provider's configuration holds values that are not known, so that no %ss can be listed.", kind))
	case !only.IsNull():
		return []string{only.ValueString()}, nil
	}
	vhosts, err := r.Connection.Client.Vhosts(ctx)
	if err != nil {
		return nil, notListed(kind, "", err)
	}
	return vhosts, nil
}

var _ list.ListResourceWithConfigure = (*declaredLister)(nil)

// declaredLister is the list resource that finds the cascades or ladders, whoever declared them.
type declaredLister struct {
	lister
	kind, description string
}

func newCascades() list.ListResource {
	return &declaredLister{kind: recognize.KindCascade, description: "Finds the delay cascades of a virtual host or of the whole broker, for `terraform query`, whoever declared " +
		"them. The query also writes `resource` and `import` blocks for them. Needs Terraform 1.14 or later.\n\n" +
		"A cascade is found by the keys of its entry exchange and the objects behind it, as an import recognizes " +
		"it. Damage does not hide it as long as the keys say what it was. One whose entry is gone, or leads " +
		"nowhere, is not found. It can still be imported by its identity if the exchange below proves it."}
}

func newLadders() list.ListResource {
	return &declaredLister{kind: recognize.KindLadder, description: "Finds the ladders of a virtual host or of the whole broker, for `terraform query`, whoever declared them. " +
		"The query also writes `resource` and `import` blocks for them. Needs Terraform 1.14 or later.\n\n" +
		"A ladder is found by its entry exchange and the keys that lead from there to queues, such as `30s.*.#`, as " +
		"an import recognizes it. For that the queue of one delay has to be whole. Bindings to other queues, such " +
		"as those of another ladder, do not hide it; a plan shows them as drift."}
}

func (r *declaredLister) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind
}

func (r *declaredLister) ListResourceConfigSchema(
	_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse,
) {
	resp.Schema = r.schema(r.description, nil)
}

type listerModel struct {
	Vhost types.String `tfsdk:"vhost"`
}

// List implements list.ListResource.
func (r *declaredLister) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var model listerModel
	if diags := req.Config.Get(ctx, &model); diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	stream.Results = func(push func(list.ListResult) bool) {
		r.list(ctx, r.kind, model.Vhost, req.Limit, func(vhost string) ([]list.ListResult, error) {
			return r.in(ctx, vhost, req)
		}, push)
	}
}

// in lists what there is in one vhost.
func (r *declaredLister) in(ctx context.Context, vhost string, req list.ListRequest) ([]list.ListResult, error) {
	inventory, err := engine.Inventory(ctx, r.Connection.Client.Vhost(vhost), recognize.CanBeEntry)
	if err != nil {
		return nil, err
	}
	var results []list.ListResult
	for _, each := range inventory.All(ctx) {
		if each.Kind != r.kind {
			continue
		}
		found, diags, err := resources.FindDeclared(ctx, r.kind, inventory, vhost, each.Entry)
		if err != nil {
			return nil, err
		}
		results = append(results, resultOf(ctx, req, found, diags))
	}
	return results, nil
}

// resultOf shows what is found. The diagnostics are for its state.
func resultOf(
	ctx context.Context, req list.ListRequest, found resources.Found, diags diag.Diagnostics,
) list.ListResult {
	result := req.NewListResult(ctx)
	result.DisplayName = found.DisplayName
	result.Diagnostics.Append(result.Identity.Set(ctx, found.Identity)...)
	if req.IncludeResource {
		result.Diagnostics.Append(diags...)
		result.Diagnostics.Append(result.Resource.Set(ctx, found.State)...)
	}
	return result
}

// concernsVhost tells whether an error says nothing of other vhosts. The user may not look into this one, or it is
// gone, down or too large.
func concernsVhost(err error) bool {
	return rabbit.IsKind(err, rabbit.Forbidden, rabbit.VhostNotFound, rabbit.Unavailable, rabbit.Timeout)
}

// notListed says what could not be listed, in a vhost or at all.
func notListed(kind, vhost string, err error) diag.Diagnostic {
	what := kind + "s"
	if vhost != "" {
		what += fmt.Sprintf(" of vhost %q", vhost)
	}
	return diagnose.Failed("list", kind+"s", what, err)
}
