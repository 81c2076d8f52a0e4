// Package query has what only looks at a broker: the data sources and the list resources. A name or a vhost goes in.
// What a broker has comes out, as the attributes of a state. Call DataSources and ListResources.
package query

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
)

// DataSources are the data sources.
func DataSources() []func() datasource.DataSource {
	return []func() datasource.DataSource{
		func() datasource.DataSource {
			return &dataSource[observedCascade]{name: recognize.KindCascade, schema: cascadeSchema(),
				read: func(ctx context.Context, client *rabbit.Client, m *observedCascade) diag.Diagnostics {
					return m.observe(ctx, client, recognize.KindCascade, m.look)
				}}
		},
		func() datasource.DataSource {
			return &dataSource[observedLadder]{name: recognize.KindLadder, schema: ladderSchema(),
				read: func(ctx context.Context, client *rabbit.Client, m *observedLadder) diag.Diagnostics {
					return m.observe(ctx, client, recognize.KindLadder, m.look)
				}}
		},
		func() datasource.DataSource {
			return &dataSource[probeModel]{name: "probe", schema: probeSchema(), read: readProbe}
		},
	}
}

var _ datasource.DataSourceWithConfigure = (*dataSource[observedCascade])(nil)

// dataSource reads a model off a broker.
type dataSource[M any] struct {
	connection *connection.Connection
	name       string
	schema     schema.Schema
	// read fills in what the configuration leaves open.
	read func(ctx context.Context, client *rabbit.Client, model *M) diag.Diagnostics
}

func (d *dataSource[M]) Metadata(
	_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_" + d.name
}

func (d *dataSource[M]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = d.schema
}

func (d *dataSource[M]) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.connection, _ = req.ProviderData.(*connection.Connection)
}

func (d *dataSource[M]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model M
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !d.connection.IsKnown() {
		resp.Diagnostics.Append(diagnose.NotReadable())
		return
	}
	resp.Diagnostics.Append(d.read(ctx, d.connection.Client, &model)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}
