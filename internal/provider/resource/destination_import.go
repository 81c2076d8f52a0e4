package resource

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/importid"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// destinationIdentity is what tells one binding from another on a broker.
type destinationIdentity struct {
	Vhost            types.String `tfsdk:"vhost"`
	DeliveryExchange types.String `tfsdk:"delivery_exchange"`
	Queue            types.String `tfsdk:"queue"`
	Exchange         types.String `tfsdk:"exchange"`
	RoutingKey       types.String `tfsdk:"routing_key"`
}

func (id destinationIdentity) binding() topology.Binding {
	b := topology.Binding{
		Source: id.DeliveryExchange.ValueString(), RoutingKey: id.RoutingKey.ValueString(),
		DestinationType: topology.ToQueue, Destination: id.Queue.ValueString(),
	}
	if exchange := id.Exchange.ValueString(); exchange != "" {
		b.DestinationType, b.Destination = topology.ToExchange, exchange
	}
	return b
}

// ImportState takes over a binding, whoever made it.
func (r *destinationResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	var vhost string
	var b topology.Binding
	if byIdentity(req) {
		var id destinationIdentity
		resp.Diagnostics.Append(req.Identity.Get(ctx, &id)...)
		vhost, b = id.Vhost.ValueString(), id.binding()
		if (id.Queue.ValueString() == "") == (id.Exchange.ValueString() == "") {
			resp.Diagnostics.AddError("Invalid identity", "The identity has to have either queue or exchange.")
		}
	} else {
		var err error
		if vhost, b, err = importid.ParseBinding(req.ID); err != nil {
			resp.Diagnostics.AddError("Invalid import ID", err.Error()+".")
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Connection.IsKnown() {
		resp.Diagnostics.Append(diagnose.NotImportable("destination"))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, connection.DefaultReadTimeout)
	defer cancel()
	subject := diagnose.Destination{Vhost: vhost, Binding: b}
	there, err := r.Connection.Client.Vhost(vhost).BindingsFrom(ctx, b.Source)
	if err == nil && !slices.Contains(there, b) {
		err = subject.NotFound(there)
	}
	var model destinationModel
	if err == nil {
		model, err = importedDestination(vhost, b)
	}
	if err != nil {
		resp.Diagnostics.Append(subject.Failed("import", err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
}

// importedDestination is the state of a binding that was found on a broker.
func importedDestination(vhost string, b topology.Binding) (destinationModel, error) {
	model := destinationModel{
		operationModel: defaultOperation(),
		Triggers:       types.MapNull(types.StringType), Leftovers: types.ListNull(types.StringType),
	}
	return model, model.setBinding(vhost, b)
}
