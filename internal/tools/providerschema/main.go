// Providerschema prints the provider's schemas in the JSON of `terraform providers schema -json`, from which the docs
// are generated. It asks the provider itself and never a Terraform. Each version of that leaves out what it does not
// know yet (identities before 1.12, list resources before 1.14 and in OpenTofu). So the docs would depend on the
// machine that generates them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider"
)

func main() {
	log.SetFlags(0)
	// tfplugindocs looks a provider up by its short name.
	const name = "rabbitmqdelay"
	schema, err := schemaOf(context.Background(), provider.NewServer(""))
	if err != nil {
		log.Fatalf("read the schemas of provider %s: %v", name, err)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	err = out.Encode(tfjson.ProviderSchemas{
		FormatVersion: "1.0",
		Schemas:       map[string]*tfjson.ProviderSchema{name: schema},
	})
	if err != nil {
		log.Fatal(err)
	}
}

func schemaOf(ctx context.Context, server tfprotov6.ProviderServer) (*tfjson.ProviderSchema, error) {
	schemas, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, err
	}
	identities, err := server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(errorsOf(schemas.Diagnostics), errorsOf(identities.Diagnostics)); err != nil {
		return nil, err
	}
	return &tfjson.ProviderSchema{
		ConfigSchema:             rootSchema(schemas.Provider),
		ResourceSchemas:          each(schemas.ResourceSchemas, rootSchema),
		DataSourceSchemas:        each(schemas.DataSourceSchemas, rootSchema),
		EphemeralResourceSchemas: each(schemas.EphemeralResourceSchemas, rootSchema),
		ListResourceSchemas:      each(schemas.ListResourceSchemas, rootSchema),
		ActionSchemas: each(schemas.ActionSchemas, func(s *tfprotov6.ActionSchema) *tfjson.ActionSchema {
			return &tfjson.ActionSchema{Block: block(s.Schema.Block)}
		}),
		ResourceIdentitySchemas: each(identities.IdentitySchemas, identitySchema),
		Functions:               each(schemas.Functions, function),
	}, nil
}

func errorsOf(diagnostics []*tfprotov6.Diagnostic) error {
	var errs []error
	for _, d := range diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			errs = append(errs, fmt.Errorf("%s: %s", d.Summary, d.Detail))
		}
	}
	return errors.Join(errs...)
}

func each[From, To any](from map[string]From, convert func(From) To) map[string]To {
	to := make(map[string]To, len(from))
	for name, f := range from {
		to[name] = convert(f)
	}
	return to
}

func rootSchema(s *tfprotov6.Schema) *tfjson.Schema {
	return &tfjson.Schema{Version: uint64(s.Version), Block: block(s.Block)}
}

func block(b *tfprotov6.SchemaBlock) *tfjson.SchemaBlock {
	nested := make(map[string]*tfjson.SchemaBlockType, len(b.BlockTypes))
	for _, n := range b.BlockTypes {
		nested[n.TypeName] = &tfjson.SchemaBlockType{
			NestingMode: tfjson.SchemaNestingMode(strings.ToLower(n.Nesting.String())),
			Block:       block(n.Block),
			MinItems:    uint64(n.MinItems),
			MaxItems:    uint64(n.MaxItems),
		}
	}
	return &tfjson.SchemaBlock{
		Attributes:      attributes(b.Attributes),
		NestedBlocks:    nested,
		Description:     b.Description,
		DescriptionKind: descriptionKind(b.DescriptionKind),
		Deprecated:      b.Deprecated,
	}
}

func attributes(list []*tfprotov6.SchemaAttribute) map[string]*tfjson.SchemaAttribute {
	byName := make(map[string]*tfjson.SchemaAttribute, len(list))
	for _, a := range list {
		attribute := &tfjson.SchemaAttribute{
			Description:     a.Description,
			DescriptionKind: descriptionKind(a.DescriptionKind),
			Deprecated:      a.Deprecated,
			Required:        a.Required,
			Optional:        a.Optional,
			Computed:        a.Computed,
			Sensitive:       a.Sensitive,
			WriteOnly:       a.WriteOnly,
		}
		if a.NestedType == nil {
			attribute.AttributeType = ctyType(a.Type)
		} else {
			attribute.AttributeNestedType = &tfjson.SchemaNestedAttributeType{
				Attributes:  attributes(a.NestedType.Attributes),
				NestingMode: tfjson.SchemaNestingMode(strings.ToLower(a.NestedType.Nesting.String())),
			}
		}
		byName[a.Name] = attribute
	}
	return byName
}

func identitySchema(s *tfprotov6.ResourceIdentitySchema) *tfjson.IdentitySchema {
	byName := make(map[string]*tfjson.IdentityAttribute, len(s.IdentityAttributes))
	for _, a := range s.IdentityAttributes {
		byName[a.Name] = &tfjson.IdentityAttribute{
			IdentityType:      ctyType(a.Type),
			Description:       a.Description,
			RequiredForImport: a.RequiredForImport,
			OptionalForImport: a.OptionalForImport,
		}
	}
	return &tfjson.IdentitySchema{Version: uint64(s.Version), Attributes: byName}
}

func function(f *tfprotov6.Function) *tfjson.FunctionSignature {
	signature := &tfjson.FunctionSignature{
		Description:        f.Description,
		Summary:            f.Summary,
		DeprecationMessage: f.DeprecationMessage,
		ReturnType:         ctyType(f.Return.Type),
	}
	for _, p := range f.Parameters {
		signature.Parameters = append(signature.Parameters, parameter(p))
	}
	if f.VariadicParameter != nil {
		signature.VariadicParameter = parameter(f.VariadicParameter)
	}
	return signature
}

func parameter(p *tfprotov6.FunctionParameter) *tfjson.FunctionParameter {
	return &tfjson.FunctionParameter{
		Name:        p.Name,
		Description: p.Description,
		IsNullable:  p.AllowNullValue,
		Type:        ctyType(p.Type),
	}
}

func descriptionKind(k tfprotov6.StringKind) tfjson.SchemaDescriptionKind {
	return tfjson.SchemaDescriptionKind(strings.ToLower(k.String()))
}

// ctyType relies on both libraries writing a type as the same JSON: it is the form in which types cross the protocol.
func ctyType(t tftypes.Type) cty.Type {
	//nolint:staticcheck // Deprecated only as not meant for direct use; the protocol itself has no other form.
	encoded, err := t.MarshalJSON()
	if err != nil {
		log.Fatalf("encode type %s: %v", t, err)
	}
	decoded, err := ctyjson.UnmarshalType(encoded)
	if err != nil {
		log.Fatalf("decode type %s: %v", encoded, err)
	}
	return decoded
}
