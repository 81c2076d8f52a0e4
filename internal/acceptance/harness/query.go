package harness

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Listing is one result of a list resource, or what it says instead.
type Listing struct {
	Name string
	// identity is null if there is none; vhost and entry are from it.
	Identity     tftypes.Value
	Vhost, Entry string
	// resource is null unless it was asked for.
	Resource    tftypes.Value
	Diagnostics []*tfprotov6.Diagnostic
}

// Query is what terraform query does with one list block: it validates it and takes as many results as the limit
// allows.
func (p *Protocol) Query(ctx context.Context, configuration Attributes, includeResource bool, limit int64) []Listing {
	p.T.Helper()
	schemas, identities := p.schemas(ctx)
	typ := objectType(p.T, schemas.ListResourceSchemas[p.TypeName])
	resourceType := objectType(p.T, schemas.ResourceSchemas[p.TypeName])
	identityType := identities[p.TypeName].ValueType()
	server, ok := p.Server.(tfprotov6.ListResourceServer)
	if !ok {
		p.T.Fatal("the provider has no list resources")
	}
	config := Dynamic(p.T, typ, NewObject(p.T, typ, configuration))
	validated, err := server.ValidateListResourceConfig(ctx,
		&tfprotov6.ValidateListResourceConfigRequest{TypeName: p.TypeName, Config: config})
	if err != nil {
		p.T.Fatal(err)
	}
	if HasErrors(validated.Diagnostics) {
		return []Listing{{Diagnostics: validated.Diagnostics}}
	}
	stream, err := server.ListResource(ctx, &tfprotov6.ListResourceRequest{TypeName: p.TypeName, Config: config,
		IncludeResource: includeResource, Limit: limit})
	if err != nil {
		p.T.Fatal(err)
	}
	var all []Listing
	for result := range stream.Results {
		l := Listing{Name: result.DisplayName, Diagnostics: result.Diagnostics, Resource: tftypes.NewValue(resourceType,
			nil)}
		if result.Identity != nil && result.Identity.IdentityData != nil {
			identity, err := result.Identity.IdentityData.Unmarshal(identityType)
			if err != nil {
				p.T.Fatal(err)
			}
			l.Identity, l.Vhost = identity, text(p.T, Fields(p.T, identity)["vhost"])
			if entry, is := Fields(p.T, identity)["entry_exchange"]; is {
				l.Entry = text(p.T, entry)
			}
		}
		if result.Resource != nil {
			if l.Resource, err = result.Resource.Unmarshal(resourceType); err != nil {
				p.T.Fatal(err)
			}
		}
		all = append(all, l)
	}
	return all
}

// Generated is the configuration that Terraform writes for a resource that it has listed or imported, as attributes.
func (p *Protocol) Generated(ctx context.Context, resource tftypes.Value) Attributes {
	p.T.Helper()
	state := Dynamic(p.T, resource.Type(), resource)
	resp, err := p.Server.GenerateResourceConfig(ctx, &tfprotov6.GenerateResourceConfigRequest{TypeName: p.TypeName,
		State: state})
	if err != nil {
		p.T.Fatal(err)
	}
	NoErrors(p.T, resp.Diagnostics)
	config, err := resp.Config.Unmarshal(resource.Type())
	if err != nil {
		p.T.Fatal(err)
	}
	configuration := Attributes{}
	for name, value := range Fields(p.T, config) {
		configuration[name] = value
	}
	return configuration
}

// Read is what a plan does with a data source, without what it finds.
func (p *Protocol) Read(ctx context.Context, typeName string, configuration Attributes) []*tfprotov6.Diagnostic {
	p.T.Helper()
	_, diagnostics := p.Observe(ctx, typeName, configuration)
	return diagnostics
}

// Observe reads a data source.
func (p *Protocol) Observe(
	ctx context.Context, typeName string, configuration Attributes,
) (found tftypes.Value, diagnostics []*tfprotov6.Diagnostic) {
	p.T.Helper()
	schemas, _ := p.schemas(ctx)
	typ := objectType(p.T, schemas.DataSourceSchemas[typeName])
	resp, err := p.Server.ReadDataSource(ctx, &tfprotov6.ReadDataSourceRequest{TypeName: typeName,
		Config: Dynamic(p.T, typ, NewObject(p.T, typ, configuration))})
	if err == nil && !HasErrors(resp.Diagnostics) {
		found, err = resp.State.Unmarshal(typ)
	}
	if err != nil {
		p.T.Fatal(err)
	}
	return found, resp.Diagnostics
}

func (p *Protocol) schemas(
	ctx context.Context,
) (*tfprotov6.GetProviderSchemaResponse, map[string]*tfprotov6.ResourceIdentitySchema) {
	p.T.Helper()
	schemas, err := p.Server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		p.T.Fatal(err)
	}
	identities, err := p.Server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		p.T.Fatal(err)
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
