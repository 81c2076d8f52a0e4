package query

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	resources "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/resource"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

var _ list.ListResourceWithConfigure = (*destinationListResource)(nil)

type destinationListResource struct{ lister }

type destinationListModel struct {
	Vhost            types.String `tfsdk:"vhost"`
	DeliveryExchange types.String `tfsdk:"delivery_exchange"`
}

func (r *destinationListResource) Metadata(
	_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_destination"
}

func (r *destinationListResource) ListResourceConfigSchema(
	_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse,
) {
	resp.Schema = r.schema(
		"Finds the destinations of cascades and ladders, for `terraform query`, whoever bound them. The query also "+
			"writes `resource` and `import` blocks for them. Needs Terraform 1.14 or later.\n\n"+
			"A destination is a binding of the delivery exchange of a cascade or ladder that is "+
			"[found](../guides/finding.md#cascades-that-are-found). Its key is one `*` for each level, or `#`, and "+
			"then an address. Those for another number of levels are found, too. Other bindings of that exchange are "+
			"not.",
		map[string]schema.Attribute{
			"delivery_exchange": schema.StringAttribute{
				Optional:   true,
				Validators: tfvalue.NotEmpty,
				MarkdownDescription: "Exchange whose destinations are listed, even if nothing is found that ends " +
					"there. Default: all that cascades and ladders end in.",
			},
		},
	)
}

// List implements list.ListResource.
func (r *destinationListResource) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var model destinationListModel
	diags := req.Config.Get(ctx, &model)
	if model.DeliveryExchange.IsUnknown() {
		diags.AddError("Delivery exchange not known",
			"The value of delivery_exchange is not known yet, so that no destinations can be listed.")
	}
	if diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	stream.Results = func(push func(list.ListResult) bool) {
		r.list(ctx, "destination", model.Vhost, req.Limit, func(vhost string) ([]list.ListResult, error) {
			bindings, err := model.bindings(ctx, r.Connection.Client, vhost)
			var results []list.ListResult
			for _, b := range bindings {
				if found, err := resources.FindDestination(vhost, b); err == nil { // else it is something else
					results = append(results, resultOf(ctx, req, found, nil))
				}
			}
			return results, err
		}, push)
	}
}

// bindings are those among which the destinations in a vhost are.
func (m *destinationListModel) bindings(
	ctx context.Context, client *rabbit.Client, vhost string,
) ([]topology.Binding, error) {
	if !m.DeliveryExchange.IsNull() {
		bindings, err := client.Vhost(vhost).BindingsFrom(ctx, m.DeliveryExchange.ValueString())
		return topology.NewBindings(bindings...).Sorted(), err
	}
	inventory, err := engine.Inventory(ctx, client.Vhost(vhost), recognize.CanBeEntry)
	if err != nil {
		return nil, err
	}
	return inventory.Destinations(ctx), nil
}
