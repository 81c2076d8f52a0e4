package harness

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// Protocol plays Terraform's part for one resource, through the plugin protocol and without its command line. A plan
// takes milliseconds, so that hundreds of cases can be tried.
type Protocol struct {
	T        testing.TB
	Server   tfprotov6.ProviderServer
	TypeName string
	Version  int64 // of the schema
	Resource tftypes.Object
	Provider tftypes.Object
	computed map[string]bool
	Given    map[string]bool // what a configuration can give
	// run is the provider's configuration: each plan and each apply configures the provider anew, as Terraform does.
	run *tfprotov6.ConfigureProviderRequest

	// state, private and tainted are what Terraform would keep; state is null before the first apply.
	State   tftypes.Value
	Private []byte
	Tainted bool
}

// Attributes are those of a configuration; the rest is null.
type Attributes map[string]any

// With is the same configuration with some attributes set, or set anew.
func (a Attributes) With(further Attributes) Attributes {
	all := maps.Clone(a)
	maps.Copy(all, further)
	return all
}

// OnceMore is the provider's retry_timeout for a second attempt, and for no third.
const OnceMore = "200ms"

// The types of the resources.
const (
	CascadeType     = "rabbitmqdelay_cascade"
	LadderType      = "rabbitmqdelay_ladder"
	DestinationType = "rabbitmqdelay_destination"
)

// NewServer is a provider that is not configured, as in terraform validate.
func NewServer(t testing.TB) *Protocol {
	t.Helper()
	return NewServerOf(t, CascadeType)
}

// NewServerOf is one for a type of resource.
func NewServerOf(t testing.TB, typeName string) *Protocol {
	t.Helper()
	return NewServerFrom(t, typeName, NewProvider)
}

// NewServerFrom is one that is served otherwise.
func NewServerFrom(t testing.TB, typeName string, serve func() (tfprotov6.ProviderServer, error)) *Protocol {
	t.Helper()
	server, err := serve()
	if err != nil {
		t.Fatal(err)
	}
	return (&Protocol{T: t, Server: server}).Of(typeName)
}

// Of is a resource of another type, in the hands of the same provider.
func (p *Protocol) Of(typeName string) *Protocol {
	t := p.T
	t.Helper()
	p = &Protocol{T: t, Server: p.Server, TypeName: typeName, run: p.run, computed: map[string]bool{},
		Given: map[string]bool{}}
	schemas, err := p.Server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p.Provider = objectType(t, schemas.Provider)
	p.Resource = objectType(t, schemas.ResourceSchemas[typeName])
	p.Version = schemas.ResourceSchemas[typeName].Version
	for _, a := range schemas.ResourceSchemas[typeName].Block.Attributes {
		p.computed[a.Name], p.Given[a.Name] = a.Computed, a.Optional || a.Required
	}
	p.State = tftypes.NewValue(p.Resource, nil)
	return p
}

// NewProtocol configures a provider for the broker, with further attributes of the provider.
func NewProtocol(t testing.TB, b *brokertest.Broker, further Attributes) *Protocol {
	t.Helper()
	return NewProtocolOf(t, CascadeType, b, further)
}

// NewProtocolOf does so for a type of resource.
func NewProtocolOf(t testing.TB, typeName string, b *brokertest.Broker, further Attributes) *Protocol {
	t.Helper()
	return NewServerOf(t, typeName).On(b, further)
}

// On configures the provider for the broker.
func (p *Protocol) On(b *brokertest.Broker, further Attributes) *Protocol {
	p.T.Helper()
	configuration := Attributes{"endpoint": b.Endpoint, "username": b.Username, "password": b.Password}
	if b.AMQPURI != "" {
		configuration["amqp_uri"] = b.AMQPURI
	}
	NoErrors(p.T, p.Configure(configuration.With(further)))
	return p
}

// With is the same resource in the hands of another provider.
func (p *Protocol) With(b *brokertest.Broker, further Attributes) *Protocol {
	p.T.Helper()
	other := NewProtocolOf(p.T, p.TypeName, b, further)
	other.State, other.Private = p.State, p.Private
	return other
}

// Configure validates the provider's configuration and configures it, as Terraform does.
func (p *Protocol) Configure(configuration Attributes) []*tfprotov6.Diagnostic {
	p.T.Helper()
	config := Dynamic(p.T, p.Provider, NewObject(p.T, p.Provider, configuration))
	validated, err := p.Server.ValidateProviderConfig(p.T.Context(),
		&tfprotov6.ValidateProviderConfigRequest{Config: config})
	if err != nil {
		p.T.Fatal(err)
	}
	if HasErrors(validated.Diagnostics) {
		return validated.Diagnostics
	}
	p.run = &tfprotov6.ConfigureProviderRequest{TerraformVersion: "1.11.0", Config: config}
	return append(validated.Diagnostics, p.NewRun()...)
}

// NewRun begins a plan or an apply with a provider that knows nothing of those before.
func (p *Protocol) NewRun() []*tfprotov6.Diagnostic {
	p.T.Helper()
	if p.run == nil {
		return nil
	}
	configured, err := p.Server.ConfigureProvider(p.T.Context(), p.run)
	if err != nil {
		p.T.Fatal(err)
	}
	return configured.Diagnostics
}

// PlannedChange is a plan, with everything that an apply needs.
type PlannedChange struct {
	Config, State tftypes.Value
	Replace       bool
	Private       []byte
	Diagnostics   []*tfprotov6.Diagnostic
}

// IsEmpty tells whether Terraform would say "No changes".
func (p PlannedChange) IsEmpty(prior tftypes.Value) bool { return !p.Replace && p.State.Equal(prior) }

// Plan plans the configuration on top of the state; a nil configuration plans a destroy.
func (p *Protocol) Plan(ctx context.Context, configuration Attributes) PlannedChange {
	p.T.Helper()
	p.NewRun()
	first, _ := p.planHalves(ctx, configuration)
	return first
}

// PlanWithin does so within a run. Of a replacement, it returns the second half.
func (p *Protocol) PlanWithin(ctx context.Context, configuration Attributes) PlannedChange {
	p.T.Helper()
	_, last := p.planHalves(ctx, configuration)
	return last
}

// planHalves plans both halves of a replacement. Of all else, both are the same.
func (p *Protocol) planHalves(ctx context.Context, configuration Attributes) (first, last PlannedChange) {
	p.T.Helper()
	config := tftypes.NewValue(p.Resource, nil)
	if configuration != nil {
		config = NewObject(p.T, p.Resource, configuration)
	}
	validated, err := p.Server.ValidateResourceConfig(ctx,
		&tfprotov6.ValidateResourceConfigRequest{TypeName: p.TypeName, Config: Dynamic(p.T, p.Resource, config)})
	if err != nil {
		p.T.Fatal(err)
	}
	if configuration != nil && HasErrors(validated.Diagnostics) {
		first = PlannedChange{Config: config, Diagnostics: validated.Diagnostics}
		return first, first
	}
	if p.Tainted && configuration != nil {
		result := p.PlanOn(ctx, tftypes.NewValue(p.Resource, nil), nil, config)
		result.Replace = true
		first = result
		return first, first
	}
	result := p.PlanOn(ctx, p.State, p.Private, config)
	if result.Replace && !HasErrors(result.Diagnostics) {
		// Terraform plans the second half like a create, with what the first half has noted.
		create := p.PlanOn(ctx, tftypes.NewValue(p.Resource, nil), result.Private, config)
		result.Diagnostics = append(result.Diagnostics, create.Diagnostics...)
		create.Replace, create.Diagnostics = true, result.Diagnostics
		return result, create
	}
	return result, result
}

// PlanOn is one call of the provider to plan a change.
func (p *Protocol) PlanOn(
	ctx context.Context, prior tftypes.Value, private []byte, config tftypes.Value,
) PlannedChange {
	p.T.Helper()
	resp, err := p.Server.PlanResourceChange(ctx, &tfprotov6.PlanResourceChangeRequest{
		TypeName: p.TypeName, PriorState: Dynamic(p.T, p.Resource, prior), Config: Dynamic(p.T, p.Resource, config),
		ProposedNewState: Dynamic(p.T, p.Resource, p.proposed(prior, config)), PriorPrivate: private,
	})
	if err != nil {
		p.T.Fatal(err)
	}
	result := PlannedChange{Config: config, Replace: len(resp.RequiresReplace) > 0, Private: resp.PlannedPrivate,
		Diagnostics: resp.Diagnostics}
	if !HasErrors(resp.Diagnostics) {
		result.State = p.Value(resp.PlannedState)
	}
	return result
}

// proposed is Terraform's own merge of configuration and prior state.
func (p *Protocol) proposed(prior, config tftypes.Value) tftypes.Value {
	if config.IsNull() {
		return config
	}
	values := Fields(p.T, config)
	if !prior.IsNull() {
		before := Fields(p.T, prior)
		for name, value := range values {
			if value.IsNull() && p.computed[name] {
				values[name] = before[name]
			}
		}
	} else {
		for name, value := range values {
			if value.IsNull() && p.computed[name] {
				values[name] = tftypes.NewValue(value.Type(), tftypes.UnknownValue)
			}
		}
	}
	return tftypes.NewValue(p.Resource, values)
}

// Apply carries out a plan as Terraform would, a replacement as destroy and create, and keeps the
// state that comes of it.
func (p *Protocol) Apply(ctx context.Context, plan PlannedChange) []*tfprotov6.Diagnostic {
	p.T.Helper()
	p.NewRun()
	if HasErrors(plan.Diagnostics) || p.State.IsNull() && plan.State.IsNull() {
		return plan.Diagnostics
	}
	if plan.Replace {
		null := tftypes.NewValue(p.Resource, nil)
		if diagnostics := p.ApplyOne(ctx, PlannedChange{Config: null, State: null, Private: p.Private}); HasErrors(
			diagnostics) {
			return diagnostics
		}
		plan = p.PlanOn(ctx, null, nil, plan.Config)
		if HasErrors(plan.Diagnostics) {
			return plan.Diagnostics
		}
	}
	return p.ApplyOne(ctx, plan)
}

// ApplyOne is one call of the provider to apply a change.
func (p *Protocol) ApplyOne(ctx context.Context, plan PlannedChange) []*tfprotov6.Diagnostic {
	p.T.Helper()
	resp, err := p.Server.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: p.TypeName, PriorState: Dynamic(p.T, p.Resource, p.State), PlannedState: Dynamic(p.T, p.Resource,
			plan.State),
		Config: Dynamic(p.T, p.Resource, plan.Config), PlannedPrivate: plan.Private,
	})
	if err != nil {
		p.T.Fatal(err)
	}
	created := p.State.IsNull()
	p.State, p.Private = p.Value(resp.NewState), resp.Private
	p.Tainted = !p.State.IsNull() && (p.Tainted || created && HasErrors(resp.Diagnostics))
	if !p.State.IsFullyKnown() {
		p.T.Errorf("the state after the apply holds unknown values: %s", p.State)
	}
	if !HasErrors(resp.Diagnostics) && !plan.State.IsNull() {
		if differences, err := plan.State.Diff(p.State); err != nil {
			p.T.Fatal(err)
		} else if plan.State.IsFullyKnown() && len(differences) > 0 {
			p.T.Errorf("the result of the apply differs from the plan: %s", differences)
		}
	}
	return resp.Diagnostics
}

// Refresh reads the broker into the state.
func (p *Protocol) Refresh(ctx context.Context) []*tfprotov6.Diagnostic {
	p.T.Helper()
	if p.State.IsNull() {
		return nil
	}
	p.NewRun()
	return p.ReadState(ctx)
}

// ReadState does so within a run.
func (p *Protocol) ReadState(ctx context.Context) []*tfprotov6.Diagnostic {
	p.T.Helper()
	resp, err := p.Server.ReadResource(ctx, &tfprotov6.ReadResourceRequest{TypeName: p.TypeName,
		CurrentState: Dynamic(p.T, p.Resource, p.State), Private: p.Private})
	if err != nil {
		p.T.Fatal(err)
	}
	if !HasErrors(resp.Diagnostics) {
		p.State, p.Private = p.Value(resp.NewState), resp.Private
		p.Tainted = p.Tainted && !p.State.IsNull()
	}
	return resp.Diagnostics
}

// ImportState imports by ID and refreshes, as Terraform does.
func (p *Protocol) ImportState(ctx context.Context, id string) []*tfprotov6.Diagnostic {
	p.T.Helper()
	return p.ImportBy(ctx, &tfprotov6.ImportResourceStateRequest{TypeName: p.TypeName, ID: id})
}

// ImportIdentity does the same by identity.
func (p *Protocol) ImportIdentity(ctx context.Context, vhost, entry string) []*tfprotov6.Diagnostic {
	p.T.Helper()
	typ := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"vhost": tftypes.String,
		"entry_exchange": tftypes.String}}
	return p.ImportListed(ctx, NewObject(p.T, typ, Attributes{"vhost": vhost, "entry_exchange": entry}))
}

// ImportListed does the same by any identity.
func (p *Protocol) ImportListed(ctx context.Context, identity tftypes.Value) []*tfprotov6.Diagnostic {
	p.T.Helper()
	data := &tfprotov6.ResourceIdentityData{IdentityData: Dynamic(p.T, identity.Type(), identity)}
	return p.ImportBy(ctx, &tfprotov6.ImportResourceStateRequest{TypeName: p.TypeName, Identity: data})
}

// ImportBy does the same by any request.
func (p *Protocol) ImportBy(ctx context.Context, req *tfprotov6.ImportResourceStateRequest) []*tfprotov6.Diagnostic {
	p.T.Helper()
	resp, err := p.Server.ImportResourceState(ctx, req)
	if err != nil {
		p.T.Fatal(err)
	}
	if HasErrors(resp.Diagnostics) {
		return resp.Diagnostics
	}
	p.State, p.Private = p.Value(resp.ImportedResources[0].State), resp.ImportedResources[0].Private
	return append(resp.Diagnostics, p.Refresh(ctx)...)
}

// MustApply refreshes, plans and applies without an error.
func (p *Protocol) MustApply(configuration Attributes) {
	p.T.Helper()
	ctx := p.T.Context()
	NoErrors(p.T, p.Refresh(ctx))
	NoErrors(p.T, p.Apply(ctx, p.Plan(ctx, configuration)))
}

// MustBeSettled checks that a refresh and a plan find nothing to do.
func (p *Protocol) MustBeSettled(configuration Attributes) {
	p.T.Helper()
	ctx := p.T.Context()
	NoErrors(p.T, p.Refresh(ctx))
	plan := p.Plan(ctx, configuration)
	NoErrors(p.T, plan.Diagnostics)
	if !plan.IsEmpty(p.State) {
		differences, err := p.State.Diff(plan.State)
		p.T.Errorf("the plan is not empty: replace %t, differences %v %v", plan.Replace, differences, err)
	}
}

// Value is a value of the resource.
func (p *Protocol) Value(d *tfprotov6.DynamicValue) tftypes.Value {
	p.T.Helper()
	v, err := d.Unmarshal(p.Resource)
	if err != nil {
		p.T.Fatal(err)
	}
	return v
}

// objectType is the type of a schema.
func objectType(t testing.TB, schema *tfprotov6.Schema) tftypes.Object {
	t.Helper()
	typ, ok := schema.ValueType().(tftypes.Object)
	if !ok {
		t.Fatalf("a schema of type %s", schema.ValueType())
	}
	return typ
}

// TextList is a list of texts, as an attribute.
func TextList(texts ...string) tftypes.Value {
	values := make([]tftypes.Value, len(texts))
	for i, text := range texts {
		values[i] = tftypes.NewValue(tftypes.String, text)
	}
	return tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, values)
}

// Arguments are a value of queue_arguments: texts, numbers and flags by their names.
func Arguments(of map[string]any) tftypes.Value {
	kinds, values := map[string]tftypes.Type{}, map[string]tftypes.Value{}
	for name, value := range of {
		kind := tftypes.Type(tftypes.Number)
		switch value.(type) {
		case string:
			kind = tftypes.String
		case bool:
			kind = tftypes.Bool
		}
		kinds[name], values[name] = kind, tftypes.NewValue(kind, value)
	}
	return tftypes.NewValue(tftypes.Object{AttributeTypes: kinds}, values)
}

// NewObject builds a value of all attributes, null where none is given.
func NewObject(t testing.TB, typ tftypes.Object, given Attributes) tftypes.Value {
	t.Helper()
	values := map[string]tftypes.Value{}
	for name, attributeType := range typ.AttributeTypes {
		values[name] = tftypes.NewValue(attributeType, nil)
		if value, ok := given[name]; ok {
			if already, ok := value.(tftypes.Value); ok {
				values[name] = already
			} else {
				values[name] = tftypes.NewValue(attributeType, value)
			}
		}
	}
	for name := range given {
		if _, ok := typ.AttributeTypes[name]; !ok {
			t.Fatalf("there is no attribute %q", name)
		}
	}
	return tftypes.NewValue(typ, values)
}

// Fields are the values in an object or a map.
func Fields(t testing.TB, v tftypes.Value) map[string]tftypes.Value {
	t.Helper()
	values := map[string]tftypes.Value{}
	if err := v.As(&values); err != nil {
		t.Fatal(err)
	}
	return maps.Clone(values)
}

// Dynamic is a value as it goes to the provider.
func Dynamic(t testing.TB, typ tftypes.Type, v tftypes.Value) *tfprotov6.DynamicValue {
	t.Helper()
	d, err := tfprotov6.NewDynamicValue(typ, v)
	if err != nil {
		t.Fatal(err)
	}
	return &d
}

// HasErrors tells whether an error is among the diagnostics.
func HasErrors(diagnostics []*tfprotov6.Diagnostic) bool { return ErrorText(diagnostics) != "" }

// ErrorText is what Terraform would print of the errors.
func ErrorText(diagnostics []*tfprotov6.Diagnostic) string {
	return diagnosticText(diagnostics, tfprotov6.DiagnosticSeverityError)
}

// WarningText is what Terraform would print of the warnings.
func WarningText(diagnostics []*tfprotov6.Diagnostic) string {
	return diagnosticText(diagnostics, tfprotov6.DiagnosticSeverityWarning)
}

func diagnosticText(diagnostics []*tfprotov6.Diagnostic, severity tfprotov6.DiagnosticSeverity) string {
	var text strings.Builder
	for _, d := range diagnostics {
		if d.Severity == severity {
			fmt.Fprintf(&text, "%s\n%s\n(%s)\n", d.Summary, d.Detail, d.Attribute)
		}
	}
	return text.String()
}

// NoErrors makes sure that there is no error.
func NoErrors(t testing.TB, diagnostics []*tfprotov6.Diagnostic) {
	t.Helper()
	if text := ErrorText(diagnostics); text != "" {
		t.Fatal(text)
	}
}

// MustSay looks for parts in what somebody reads, such as the error of a destroy.
func MustSay(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not say %q: %s", what, part, text)
		}
	}
}

// MustNotSay makes sure that a text has none of the parts.
func MustNotSay(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%s says %q: %s", what, part, text)
		}
	}
}
