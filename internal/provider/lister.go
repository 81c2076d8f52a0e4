package provider

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
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
)

// listed is a declaration that can be found on a broker.
type listed[M any] interface {
	declaration[M]
	// listDescription is that of the list resource.
	listDescription() string
	// displayName says in a few words which one the model is, beside its identity.
	displayName() string
}

// lister is what all list resources have in common.
type lister struct{ connected }

// schema is that of something that is found by vhost, and by further attributes.
func (*lister) schema(description string, further map[string]schema.Attribute) schema.Schema {
	attributes := map[string]schema.Attribute{
		"vhost": schema.StringAttribute{
			Optional:   true,
			Validators: notEmpty,
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
	case !r.connection.isKnown():
		return nil, diag.NewErrorDiagnostic("Provider not configured", fmt.Sprintf(
			"The provider's configuration holds values that are not known, so that no %ss can be listed.", kind))
	case !only.IsNull():
		return []string{only.ValueString()}, nil
	}
	vhosts, err := r.connection.client.Vhosts(ctx)
	if err != nil {
		return nil, notListed(kind, "", err)
	}
	return vhosts, nil
}

var _ list.ListResourceWithConfigure = (*declaredLister[cascadeModel, *cascadeModel])(nil)

// declaredLister is the list resource that finds the cascades or ladders, whoever declared them.
type declaredLister[M any, P listed[M]] struct{ lister }

func (r *declaredLister[M, P]) Metadata(
	_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_" + P(new(M)).kind()
}

func (r *declaredLister[M, P]) ListResourceConfigSchema(
	_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse,
) {
	resp.Schema = r.schema(P(new(M)).listDescription(), nil)
}

type listerModel struct {
	Vhost types.String `tfsdk:"vhost"`
}

// List implements list.ListResource.
func (r *declaredLister[M, P]) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var model listerModel
	if diags := req.Config.Get(ctx, &model); diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	stream.Results = func(push func(list.ListResult) bool) {
		r.list(ctx, P(new(M)).kind(), model.Vhost, req.Limit, func(vhost string) ([]list.ListResult, error) {
			return r.in(ctx, vhost, req)
		}, push)
	}
}

// in lists what there is in one vhost.
func (r *declaredLister[M, P]) in(ctx context.Context, vhost string, req list.ListRequest) ([]list.ListResult, error) {
	inventory, err := engine.Inventory(ctx, r.connection.client.Vhost(vhost), recognize.CanBeEntry)
	if err != nil {
		return nil, err
	}
	var results []list.ListResult
	for _, found := range inventory.All(ctx) {
		var model M
		if found.Kind != P(&model).kind() {
			continue
		}
		if err := P(&model).recognize(ctx, inventory, vhost, found.Entry); err != nil {
			return nil, err
		}
		result := req.NewListResult(ctx)
		result.DisplayName = plaintext.Line(P(&model).displayName())
		result.Diagnostics.Append(result.Identity.Set(ctx, P(&model).common().identity())...)
		if req.IncludeResource {
			desired, diags := P(&model).expand()
			result.Diagnostics.Append(diags...)
			result.Diagnostics.Append(P(&model).setActual(inventory.Part(desired))...)
			result.Diagnostics.Append(result.Resource.Set(ctx, &model)...)
		}
		results = append(results, result)
	}
	return results, nil
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
	return failed("list", kind+"s", what, err)
}
