package provider

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

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
		if vhost, b, err = parseDestinationID(req.ID); err != nil {
			resp.Diagnostics.AddError("Invalid import ID", err.Error()+".")
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.connection.isKnown() {
		resp.Diagnostics.Append(notImportable("destination"))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, defaultReadTimeout)
	defer cancel()
	o := &bindingOperation{vhost: r.connection.client.Vhost(vhost), binding: b}
	there, err := o.vhost.BindingsFrom(ctx, b.Source)
	if err == nil && !slices.Contains(there, o.binding) {
		err = o.notFound(there)
	}
	var model destinationModel
	if err == nil {
		model, err = importedDestination(o.vhost.Name(), o.binding)
	}
	if err != nil {
		resp.Diagnostics.Append(o.failed("import", err))
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

// destinationID is the import ID: "<vhost>/<delivery exchange>/<queue or exchange>/<its name>/<routing key>" with each
// part percent-encoded, but for the "*" of keys, which need it neither in a URL nor within quotes.
func destinationID(vhost string, b topology.Binding) string {
	parts := []string{vhost, b.Source, string(b.DestinationType), b.Destination, b.RoutingKey}
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(part), "%2A", "*")
	}
	return strings.Join(parts, "/")
}

func destinationIDs(vhost string, bindings []topology.Binding) []string {
	ids := make([]string, len(bindings))
	for i, b := range bindings {
		ids[i] = destinationID(vhost, b)
	}
	return ids
}

func parseDestinationID(id string) (vhost string, b topology.Binding, err error) {
	parts, ok := splitID(id, 5)
	if !ok || parts[2] != string(topology.ToQueue) && parts[2] != string(topology.ToExchange) {
		return "", b, fmt.Errorf("the import ID is %q; it has to be <vhost>/<delivery "+
			"exchange>/queue/<queue>/<routing key>, or with exchange in place of queue, each part percent-encoded, "+
			"such as %s",
			id, destinationID("/", topology.Binding{Source: "tasks.delivery", DestinationType: topology.ToQueue,
				Destination: "orders", RoutingKey: "*.*.*.*.orders"}))
	}
	return parts[0], topology.Binding{Source: parts[1], DestinationType: topology.DestinationType(parts[2]),
		Destination: parts[3], RoutingKey: parts[4]}, nil
}
