package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// listed is a declaration that can be found on a broker.
type listed[M any] interface {
	declaration[M]
	// canBeEntry tells whether it is worth to look behind an exchange.
	canBeEntry(e topology.Exchange) bool
	// entries are the entry exchanges of all that there are in a vhost.
	entries(ctx context.Context, vhost *cascade.Inventory) []string
	// displayName says in a few words which one the model is, beside its identity.
	displayName() string
}

// lister finds the resources of one kind, whoever declared them: all of it but its name and description.
type lister[M any, P interface {
	*M
	listed[M]
}] struct{ connection *connection }

type listerModel struct {
	Vhost types.String `tfsdk:"vhost"`
}

// schema is the same for everything that is found by vhost.
func (r *lister[M, P]) schema(description string) schema.Schema {
	return schema.Schema{
		MarkdownDescription: description,
		Attributes: map[string]schema.Attribute{
			"vhost": schema.StringAttribute{
				Optional: true, Validators: notEmpty,
				MarkdownDescription: "Virtual host to look into. Default: all that the user is told of. One that the user may not look into is a warning then, and an error if it is named here.",
			},
		},
	}
}

func (r *lister[M, P]) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if connection, ok := req.ProviderData.(*connection); ok {
		r.connection = connection
	}
}

// List reads the broker vhost by vhost, as long as more is asked for.
func (r *lister[M, P]) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	stream.Results = func(push func(list.ListResult) bool) {
		kind := P(new(M)).kind()
		var model listerModel
		diags := req.Config.Get(ctx, &model)
		switch {
		case diags.HasError():
		case model.Vhost.IsUnknown():
			diags.AddError("Vhost not known", fmt.Sprintf("The value of vhost is not known yet, so that no %ss can be listed.", kind))
		case r.connection == nil || r.connection.client == nil:
			diags.AddError("Provider not configured", fmt.Sprintf("The provider's configuration holds values that are not known, so that no %ss can be listed.", kind))
		}
		if diags.HasError() {
			push(list.ListResult{Diagnostics: diags})
			return
		}
		client := r.connection.client
		vhosts := []string{model.Vhost.ValueString()}
		if model.Vhost.IsNull() {
			var err error
			if vhosts, err = client.Vhosts(ctx); err != nil {
				push(list.ListResult{Diagnostics: diag.Diagnostics{notListed(kind, "", err)}})
				return
			}
		}
		left := req.Limit // as many as there are, if it is 0
		for _, vhost := range vhosts {
			results, err := r.in(ctx, client, vhost, req)
			if err != nil {
				problem := notListed(kind, vhost, err)
				goOn := model.Vhost.IsNull() && concernsVhost(err)
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
}

// in lists what there is in one vhost.
func (r *lister[M, P]) in(ctx context.Context, client *broker.Client, vhost string, req list.ListRequest) ([]list.ListResult, error) {
	inventory, err := client.Inventory(ctx, vhost, P(new(M)).canBeEntry)
	if err != nil {
		return nil, err
	}
	var results []list.ListResult
	for _, entry := range P(new(M)).entries(ctx, inventory) {
		var model M
		if err := P(&model).recognize(ctx, inventory, vhost, entry); err != nil {
			return nil, err
		}
		result := req.NewListResult(ctx)
		result.DisplayName = P(&model).displayName()
		result.Diagnostics.Append(result.Identity.Set(ctx, P(&model).common().identity())...)
		if req.IncludeResource {
			desired, diags := P(&model).expand()
			result.Diagnostics.Append(diags...)
			result.Diagnostics.Append(P(&model).setActual(inventory.Within(desired))...)
			result.Diagnostics.Append(result.Resource.Set(ctx, &model)...)
		}
		results = append(results, result)
	}
	return results, nil
}

// concernsVhost tells whether an error says nothing of other vhosts: one that the user may not look into, that is gone by now, or that
// is down or too large.
func concernsVhost(err error) bool {
	return broker.IsKind(err, broker.Forbidden) || broker.IsKind(err, broker.VhostNotFound) || broker.IsKind(err, broker.Unavailable) ||
		broker.IsKind(err, broker.Timeout)
}

// notListed says what could not be listed, in a vhost or at all.
func notListed(kind, vhost string, err error) diag.Diagnostic {
	what := kind + "s"
	if vhost != "" {
		what += fmt.Sprintf(" of vhost %q", vhost)
	}
	return failed("list", kind+"s", what, err)
}
