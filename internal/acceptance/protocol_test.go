package acceptance

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

// protocol plays Terraform's part for one resource, through the plugin protocol and without its command line. A plan
// takes milliseconds, so that hundreds of cases can be tried.
type protocol struct {
	t        testing.TB
	server   tfprotov6.ProviderServer
	typeName string
	version  int64 // of the schema
	resource tftypes.Object
	provider tftypes.Object
	computed map[string]bool
	given    map[string]bool // what a configuration can give
	// run is the provider's configuration: each plan and each apply configures the provider anew, as Terraform does.
	run *tfprotov6.ConfigureProviderRequest

	// state, private and tainted are what Terraform would keep; state is null before the first apply.
	state   tftypes.Value
	private []byte
	tainted bool
}

// attributes are those of a configuration; the rest is null.
type attributes map[string]any

// with is the same configuration with some attributes set, or set anew.
func (a attributes) with(further attributes) attributes {
	all := maps.Clone(a)
	maps.Copy(all, further)
	return all
}

// onceMore is the provider's retry_timeout for a second attempt, and for no third.
const onceMore = "200ms"

// The types of the resources.
const (
	cascadeType     = "rabbitmqdelay_cascade"
	ladderType      = "rabbitmqdelay_ladder"
	destinationType = "rabbitmqdelay_destination"
)

// newServer is a provider that is not configured, as in terraform validate.
func newServer(t testing.TB) *protocol {
	t.Helper()
	return newServerOf(t, cascadeType)
}

// newServerOf is one for a type of resource.
func newServerOf(t testing.TB, typeName string) *protocol {
	t.Helper()
	return newServerFrom(t, typeName, newProvider)
}

// newServerFrom is one that is served otherwise.
func newServerFrom(t testing.TB, typeName string, serve func() (tfprotov6.ProviderServer, error)) *protocol {
	t.Helper()
	server, err := serve()
	if err != nil {
		t.Fatal(err)
	}
	return (&protocol{t: t, server: server}).of(typeName)
}

// of is a resource of another type, in the hands of the same provider.
func (p *protocol) of(typeName string) *protocol {
	t := p.t
	t.Helper()
	p = &protocol{t: t, server: p.server, typeName: typeName, run: p.run, computed: map[string]bool{},
		given: map[string]bool{}}
	schemas, err := p.server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p.provider = objectType(t, schemas.Provider)
	p.resource = objectType(t, schemas.ResourceSchemas[typeName])
	p.version = schemas.ResourceSchemas[typeName].Version
	for _, a := range schemas.ResourceSchemas[typeName].Block.Attributes {
		p.computed[a.Name], p.given[a.Name] = a.Computed, a.Optional || a.Required
	}
	p.state = tftypes.NewValue(p.resource, nil)
	return p
}

// newProtocol configures a provider for the broker, with further attributes of the provider.
func newProtocol(t testing.TB, b *brokertest.Broker, further attributes) *protocol {
	t.Helper()
	return newProtocolOf(t, cascadeType, b, further)
}

// newProtocolOf does so for a type of resource.
func newProtocolOf(t testing.TB, typeName string, b *brokertest.Broker, further attributes) *protocol {
	t.Helper()
	return newServerOf(t, typeName).on(b, further)
}

// on configures the provider for the broker.
func (p *protocol) on(b *brokertest.Broker, further attributes) *protocol {
	p.t.Helper()
	configuration := attributes{"endpoint": b.Endpoint, "username": b.Username, "password": b.Password,
		"amqp_uri": b.AMQPURI}
	noErrors(p.t, p.configure(configuration.with(further)))
	return p
}

// with is the same resource in the hands of another provider.
func (p *protocol) with(b *brokertest.Broker, further attributes) *protocol {
	p.t.Helper()
	other := newProtocolOf(p.t, p.typeName, b, further)
	other.state, other.private = p.state, p.private
	return other
}

// configure validates the provider's configuration and configures it, as Terraform does.
func (p *protocol) configure(configuration attributes) []*tfprotov6.Diagnostic {
	p.t.Helper()
	config := dynamic(p.t, p.provider, object(p.t, p.provider, configuration))
	validated, err := p.server.ValidateProviderConfig(p.t.Context(),
		&tfprotov6.ValidateProviderConfigRequest{Config: config})
	if err != nil {
		p.t.Fatal(err)
	}
	if hasErrors(validated.Diagnostics) {
		return validated.Diagnostics
	}
	p.run = &tfprotov6.ConfigureProviderRequest{TerraformVersion: "1.11.0", Config: config}
	return append(validated.Diagnostics, p.newRun()...)
}

// newRun begins a plan or an apply with a provider that knows nothing of those before.
func (p *protocol) newRun() []*tfprotov6.Diagnostic {
	p.t.Helper()
	if p.run == nil {
		return nil
	}
	configured, err := p.server.ConfigureProvider(p.t.Context(), p.run)
	if err != nil {
		p.t.Fatal(err)
	}
	return configured.Diagnostics
}

// plannedChange is a plan, with everything that an apply needs.
type plannedChange struct {
	config, state tftypes.Value
	replace       bool
	private       []byte
	diagnostics   []*tfprotov6.Diagnostic
}

// isEmpty tells whether Terraform would say "No changes".
func (p plannedChange) isEmpty(prior tftypes.Value) bool { return !p.replace && p.state.Equal(prior) }

// plan plans the configuration on top of the state; a nil configuration plans a destroy.
func (p *protocol) plan(ctx context.Context, configuration attributes) plannedChange {
	p.t.Helper()
	p.newRun()
	first, _ := p.planHalves(ctx, configuration)
	return first
}

// planWithin does so within a run. Of a replacement, it returns the second half.
func (p *protocol) planWithin(ctx context.Context, configuration attributes) plannedChange {
	p.t.Helper()
	_, last := p.planHalves(ctx, configuration)
	return last
}

// planHalves plans both halves of a replacement. Of all else, both are the same.
func (p *protocol) planHalves(ctx context.Context, configuration attributes) (first, last plannedChange) {
	p.t.Helper()
	config := tftypes.NewValue(p.resource, nil)
	if configuration != nil {
		config = object(p.t, p.resource, configuration)
	}
	validated, err := p.server.ValidateResourceConfig(ctx,
		&tfprotov6.ValidateResourceConfigRequest{TypeName: p.typeName, Config: dynamic(p.t, p.resource, config)})
	if err != nil {
		p.t.Fatal(err)
	}
	if configuration != nil && hasErrors(validated.Diagnostics) {
		first = plannedChange{config: config, diagnostics: validated.Diagnostics}
		return first, first
	}
	if p.tainted && configuration != nil {
		result := p.planOn(ctx, tftypes.NewValue(p.resource, nil), nil, config)
		result.replace = true
		first = result
		return first, first
	}
	result := p.planOn(ctx, p.state, p.private, config)
	if result.replace && !hasErrors(result.diagnostics) {
		// Terraform plans the second half like a create, with what the first half has noted.
		create := p.planOn(ctx, tftypes.NewValue(p.resource, nil), result.private, config)
		result.diagnostics = append(result.diagnostics, create.diagnostics...)
		create.replace, create.diagnostics = true, result.diagnostics
		return result, create
	}
	return result, result
}

// planOn is one call of the provider to plan a change.
func (p *protocol) planOn(
	ctx context.Context, prior tftypes.Value, private []byte, config tftypes.Value,
) plannedChange {
	p.t.Helper()
	resp, err := p.server.PlanResourceChange(ctx, &tfprotov6.PlanResourceChangeRequest{
		TypeName: p.typeName, PriorState: dynamic(p.t, p.resource, prior), Config: dynamic(p.t, p.resource, config),
		ProposedNewState: dynamic(p.t, p.resource, p.proposed(prior, config)), PriorPrivate: private,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	result := plannedChange{config: config, replace: len(resp.RequiresReplace) > 0, private: resp.PlannedPrivate,
		diagnostics: resp.Diagnostics}
	if !hasErrors(resp.Diagnostics) {
		result.state = p.value(resp.PlannedState)
	}
	return result
}

// proposed is Terraform's own merge of configuration and prior state.
func (p *protocol) proposed(prior, config tftypes.Value) tftypes.Value {
	if config.IsNull() {
		return config
	}
	values := fields(p.t, config)
	if !prior.IsNull() {
		before := fields(p.t, prior)
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
	return tftypes.NewValue(p.resource, values)
}

// apply carries out a plan as Terraform would, a replacement as destroy and create, and keeps the
// state that comes of it.
func (p *protocol) apply(ctx context.Context, plan plannedChange) []*tfprotov6.Diagnostic {
	p.t.Helper()
	p.newRun()
	if hasErrors(plan.diagnostics) || p.state.IsNull() && plan.state.IsNull() {
		return plan.diagnostics
	}
	if plan.replace {
		null := tftypes.NewValue(p.resource, nil)
		if diagnostics := p.applyOne(ctx, plannedChange{config: null, state: null, private: p.private}); hasErrors(
			diagnostics) {
			return diagnostics
		}
		plan = p.planOn(ctx, null, nil, plan.config)
		if hasErrors(plan.diagnostics) {
			return plan.diagnostics
		}
	}
	return p.applyOne(ctx, plan)
}

// applyOne is one call of the provider to apply a change.
func (p *protocol) applyOne(ctx context.Context, plan plannedChange) []*tfprotov6.Diagnostic {
	p.t.Helper()
	resp, err := p.server.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: p.typeName, PriorState: dynamic(p.t, p.resource, p.state), PlannedState: dynamic(p.t, p.resource,
			plan.state),
		Config: dynamic(p.t, p.resource, plan.config), PlannedPrivate: plan.private,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	created := p.state.IsNull()
	p.state, p.private = p.value(resp.NewState), resp.Private
	p.tainted = !p.state.IsNull() && (p.tainted || created && hasErrors(resp.Diagnostics))
	if !p.state.IsFullyKnown() {
		p.t.Errorf("the state after the apply holds unknown values: %s", p.state)
	}
	if !hasErrors(resp.Diagnostics) && !plan.state.IsNull() {
		if differences, err := plan.state.Diff(p.state); err != nil {
			p.t.Fatal(err)
		} else if plan.state.IsFullyKnown() && len(differences) > 0 {
			p.t.Errorf("the result of the apply differs from the plan: %s", differences)
		}
	}
	return resp.Diagnostics
}

// refresh reads the broker into the state.
func (p *protocol) refresh(ctx context.Context) []*tfprotov6.Diagnostic {
	p.t.Helper()
	if p.state.IsNull() {
		return nil
	}
	p.newRun()
	return p.readState(ctx)
}

// readState does so within a run.
func (p *protocol) readState(ctx context.Context) []*tfprotov6.Diagnostic {
	p.t.Helper()
	resp, err := p.server.ReadResource(ctx, &tfprotov6.ReadResourceRequest{TypeName: p.typeName,
		CurrentState: dynamic(p.t, p.resource, p.state), Private: p.private})
	if err != nil {
		p.t.Fatal(err)
	}
	if !hasErrors(resp.Diagnostics) {
		p.state, p.private = p.value(resp.NewState), resp.Private
		p.tainted = p.tainted && !p.state.IsNull()
	}
	return resp.Diagnostics
}

// importState imports by ID and refreshes, as Terraform does.
func (p *protocol) importState(ctx context.Context, id string) []*tfprotov6.Diagnostic {
	p.t.Helper()
	return p.importBy(ctx, &tfprotov6.ImportResourceStateRequest{TypeName: p.typeName, ID: id})
}

// importIdentity does the same by identity.
func (p *protocol) importIdentity(ctx context.Context, vhost, entry string) []*tfprotov6.Diagnostic {
	p.t.Helper()
	typ := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"vhost": tftypes.String,
		"entry_exchange": tftypes.String}}
	return p.importListed(ctx, object(p.t, typ, attributes{"vhost": vhost, "entry_exchange": entry}))
}

// importListed does the same by any identity.
func (p *protocol) importListed(ctx context.Context, identity tftypes.Value) []*tfprotov6.Diagnostic {
	p.t.Helper()
	data := &tfprotov6.ResourceIdentityData{IdentityData: dynamic(p.t, identity.Type(), identity)}
	return p.importBy(ctx, &tfprotov6.ImportResourceStateRequest{TypeName: p.typeName, Identity: data})
}

// importBy does the same by any request.
func (p *protocol) importBy(ctx context.Context, req *tfprotov6.ImportResourceStateRequest) []*tfprotov6.Diagnostic {
	p.t.Helper()
	resp, err := p.server.ImportResourceState(ctx, req)
	if err != nil {
		p.t.Fatal(err)
	}
	if hasErrors(resp.Diagnostics) {
		return resp.Diagnostics
	}
	p.state, p.private = p.value(resp.ImportedResources[0].State), resp.ImportedResources[0].Private
	return append(resp.Diagnostics, p.refresh(ctx)...)
}

// mustApply refreshes, plans and applies without an error.
func (p *protocol) mustApply(configuration attributes) {
	p.t.Helper()
	ctx := p.t.Context()
	noErrors(p.t, p.refresh(ctx))
	noErrors(p.t, p.apply(ctx, p.plan(ctx, configuration)))
}

// mustBeSettled checks that a refresh and a plan find nothing to do.
func (p *protocol) mustBeSettled(configuration attributes) {
	p.t.Helper()
	ctx := p.t.Context()
	noErrors(p.t, p.refresh(ctx))
	plan := p.plan(ctx, configuration)
	noErrors(p.t, plan.diagnostics)
	if !plan.isEmpty(p.state) {
		differences, err := p.state.Diff(plan.state)
		p.t.Errorf("the plan is not empty: replace %t, differences %v %v", plan.replace, differences, err)
	}
}

// value is a value of the resource.
func (p *protocol) value(d *tfprotov6.DynamicValue) tftypes.Value {
	p.t.Helper()
	v, err := d.Unmarshal(p.resource)
	if err != nil {
		p.t.Fatal(err)
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

// textSet is a set of texts, as an attribute.
func textSet(texts ...string) tftypes.Value {
	values := make([]tftypes.Value, len(texts))
	for i, text := range texts {
		values[i] = tftypes.NewValue(tftypes.String, text)
	}
	return tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, values)
}

// object builds a value of all attributes, null where none is given.
func object(t testing.TB, typ tftypes.Object, given attributes) tftypes.Value {
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

// fields are the values in an object or a map.
func fields(t testing.TB, v tftypes.Value) map[string]tftypes.Value {
	t.Helper()
	values := map[string]tftypes.Value{}
	if err := v.As(&values); err != nil {
		t.Fatal(err)
	}
	return maps.Clone(values)
}

// dynamic is a value as it goes to the provider.
func dynamic(t testing.TB, typ tftypes.Type, v tftypes.Value) *tfprotov6.DynamicValue {
	t.Helper()
	d, err := tfprotov6.NewDynamicValue(typ, v)
	if err != nil {
		t.Fatal(err)
	}
	return &d
}

// hasErrors tells whether an error is among the diagnostics.
func hasErrors(diagnostics []*tfprotov6.Diagnostic) bool { return errorText(diagnostics) != "" }

// errorText is what Terraform would print of the errors.
func errorText(diagnostics []*tfprotov6.Diagnostic) string {
	return diagnosticText(diagnostics, tfprotov6.DiagnosticSeverityError)
}

// warningText is what Terraform would print of the warnings.
func warningText(diagnostics []*tfprotov6.Diagnostic) string {
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

// noErrors makes sure that there is no error.
func noErrors(t testing.TB, diagnostics []*tfprotov6.Diagnostic) {
	t.Helper()
	if text := errorText(diagnostics); text != "" {
		t.Fatal(text)
	}
}

// mustSay looks for parts in what somebody reads, such as the error of a destroy.
func mustSay(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not say %q: %s", what, part, text)
		}
	}
}
