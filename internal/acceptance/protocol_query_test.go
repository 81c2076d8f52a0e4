package acceptance

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// listing is one result of a list resource, or what it says instead.
type listing struct {
	name string
	// identity is null if there is none; vhost and entry are from it.
	identity     tftypes.Value
	vhost, entry string
	// resource is null unless it was asked for.
	resource    tftypes.Value
	diagnostics []*tfprotov6.Diagnostic
}

// query is what terraform query does with one list block: it validates it and takes as many results as the limit
// allows.
func (p *protocol) query(ctx context.Context, configuration attributes, includeResource bool, limit int64) []listing {
	p.t.Helper()
	schemas, identities := p.schemas(ctx)
	typ := objectType(p.t, schemas.ListResourceSchemas[p.typeName])
	resourceType := objectType(p.t, schemas.ResourceSchemas[p.typeName])
	identityType := identities[p.typeName].ValueType()
	server, ok := p.server.(tfprotov6.ListResourceServer)
	if !ok {
		p.t.Fatal("the provider has no list resources")
	}
	config := dynamic(p.t, typ, object(p.t, typ, configuration))
	validated, err := server.ValidateListResourceConfig(ctx,
		&tfprotov6.ValidateListResourceConfigRequest{TypeName: p.typeName, Config: config})
	if err != nil {
		p.t.Fatal(err)
	}
	if hasErrors(validated.Diagnostics) {
		return []listing{{diagnostics: validated.Diagnostics}}
	}
	stream, err := server.ListResource(ctx, &tfprotov6.ListResourceRequest{TypeName: p.typeName, Config: config,
		IncludeResource: includeResource, Limit: limit})
	if err != nil {
		p.t.Fatal(err)
	}
	var all []listing
	for result := range stream.Results {
		l := listing{name: result.DisplayName, diagnostics: result.Diagnostics, resource: tftypes.NewValue(resourceType,
			nil)}
		if result.Identity != nil && result.Identity.IdentityData != nil {
			identity, err := result.Identity.IdentityData.Unmarshal(identityType)
			if err != nil {
				p.t.Fatal(err)
			}
			l.identity, l.vhost = identity, text(p.t, fields(p.t, identity)["vhost"])
			if entry, is := fields(p.t, identity)["entry_exchange"]; is {
				l.entry = text(p.t, entry)
			}
		}
		if result.Resource != nil {
			if l.resource, err = result.Resource.Unmarshal(resourceType); err != nil {
				p.t.Fatal(err)
			}
		}
		all = append(all, l)
	}
	return all
}

// generated is the configuration that Terraform writes for a resource that it has listed or imported, as attributes.
func (p *protocol) generated(ctx context.Context, resource tftypes.Value) attributes {
	p.t.Helper()
	state := dynamic(p.t, resource.Type(), resource)
	resp, err := p.server.GenerateResourceConfig(ctx, &tfprotov6.GenerateResourceConfigRequest{TypeName: p.typeName,
		State: state})
	if err != nil {
		p.t.Fatal(err)
	}
	noErrors(p.t, resp.Diagnostics)
	config, err := resp.Config.Unmarshal(resource.Type())
	if err != nil {
		p.t.Fatal(err)
	}
	configuration := attributes{}
	for name, value := range fields(p.t, config) {
		configuration[name] = value
	}
	return configuration
}

// read is what a plan does with a data source, without what it finds.
func (p *protocol) read(ctx context.Context, typeName string, configuration attributes) []*tfprotov6.Diagnostic {
	p.t.Helper()
	_, diagnostics := p.observe(ctx, typeName, configuration)
	return diagnostics
}

// observe reads a data source.
func (p *protocol) observe(
	ctx context.Context, typeName string, configuration attributes,
) (found tftypes.Value, diagnostics []*tfprotov6.Diagnostic) {
	p.t.Helper()
	schemas, _ := p.schemas(ctx)
	typ := objectType(p.t, schemas.DataSourceSchemas[typeName])
	resp, err := p.server.ReadDataSource(ctx, &tfprotov6.ReadDataSourceRequest{TypeName: typeName,
		Config: dynamic(p.t, typ, object(p.t, typ, configuration))})
	if err == nil && !hasErrors(resp.Diagnostics) {
		found, err = resp.State.Unmarshal(typ)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return found, resp.Diagnostics
}

func (p *protocol) schemas(
	ctx context.Context,
) (*tfprotov6.GetProviderSchemaResponse, map[string]*tfprotov6.ResourceIdentitySchema) {
	p.t.Helper()
	schemas, err := p.server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	identities, err := p.server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	return schemas, identities.IdentitySchemas
}

func text(t testing.TB, v tftypes.Value) string {
	t.Helper()
	var s string
	if err := v.As(&s); err != nil {
		t.Fatal(err)
	}
	return s
}
