package provider

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

// ImportState reads the configuration of a cascade off the broker, whoever declared it.
func (r *cascadeResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	identity := cascadeIdentity{}
	if req.ID == "" {
		resp.Diagnostics.Append(req.Identity.Get(ctx, &identity)...)
	} else {
		vhost, entry, err := parseImportID(req.ID)
		if err != nil {
			resp.Diagnostics.AddError("Invalid import ID", err.Error())
		}
		identity = cascadeIdentity{Vhost: types.StringValue(vhost), EntryExchange: types.StringValue(entry)}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if r.connection == nil || r.connection.client == nil {
		resp.Diagnostics.AddError("Provider not configured", "The provider's configuration holds values that are not known, so that the cascade cannot be read for the import.")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, defaultReadTimeout)
	defer cancel()
	vhost, entry := identity.Vhost.ValueString(), identity.EntryExchange.ValueString()
	config, err := cascade.Recognize(ctx, r.connection.client.Lookup(vhost), vhost, entry)
	if err != nil {
		o := operation{config: cascade.Config{Vhost: vhost}}
		o.desired.Entry = entry
		resp.Diagnostics.Append(o.failed("import", err))
		return
	}
	model, err := recognized(config)
	if err != nil {
		resp.Diagnostics.Append(configErrors(err)...)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, model.identity())...)
}

// recognized is the state of a cascade with the configuration, before its objects are read.
func recognized(config cascade.Config) (cascadeModel, error) {
	c, err := compute(config)
	if err != nil {
		return cascadeModel{}, err
	}
	resolved, err := config.Resolve()
	if err != nil {
		return cascadeModel{}, err
	}
	model := cascadeModel{
		Name:                   types.StringNull(),
		Vhost:                  types.StringValue(config.Vhost),
		Levels:                 c.Levels,
		MaxDelay:               c.MaxDelay,
		Resolution:             timetypes.NewGoDurationValue(resolved.Resolution),
		ExchangeName:           c.ExchangeName,
		QueueName:              c.QueueName,
		DeliveryExchange:       c.DeliveryExchange,
		CreateDeliveryExchange: types.BoolValue(config.CreateDeliveryExchange),
		QueueType:              types.StringValue(string(resolved.QueueType)),
		MaxLength:              types.Int64Null(),
		Lookahead:              c.Lookahead,
		StrictKeys:             types.BoolValue(config.StrictKeys),
		ParkUnroutable:         types.BoolValue(config.ParkUnroutable),
		Adopt:                  types.BoolValue(false),
		ForceDestroy:           types.BoolValue(false),
		DrainTimeout:           timetypes.NewGoDurationNull(),
		Timeouts: timeouts.Value{Object: types.ObjectNull(map[string]attr.Type{
			"create": types.StringType, "read": types.StringType, "update": types.StringType, "delete": types.StringType,
		})},
		EntryExchange: c.EntryExchange,
		Exchanges:     c.Exchanges,
		Queues:        c.Queues,
		Bindings:      c.Bindings,
	}
	if config.Name != "" {
		model.Name = types.StringValue(config.Name)
	}
	if config.MaxLength > 0 {
		model.MaxLength = types.Int64Value(config.MaxLength)
	}
	return model, nil
}

// importID is "<vhost>/<entry exchange>" with each part percent-encoded.
func importID(vhost, entry string) string {
	return url.PathEscape(vhost) + "/" + url.PathEscape(entry)
}

func parseImportID(id string) (vhost, entry string, err error) {
	parts := strings.Split(id, "/")
	if len(parts) == 2 {
		vhost, err = url.PathUnescape(parts[0])
		if err == nil {
			entry, err = url.PathUnescape(parts[1])
		}
	}
	if len(parts) != 2 || err != nil || vhost == "" || entry == "" || !utf8.ValidString(vhost+entry) {
		return "", "", fmt.Errorf("the import ID is %q; it has to be <vhost>/<entry exchange>, each part percent-encoded, such as %s", id, importID("/", "tasks.delay-16"))
	}
	return vhost, entry, nil
}
