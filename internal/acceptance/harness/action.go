package harness

import (
	"context"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Invoke is what Terraform does with an action: it validates, plans and runs it, and shows what that says.
func (p *Protocol) Invoke(
	ctx context.Context, typeName string, configuration Attributes,
) (says []string, diagnostics []*tfprotov6.Diagnostic) {
	p.T.Helper()
	return p.InvokeAndWatch(ctx, typeName, configuration, func(string) {})
}

// InvokeAndWatch is Invoke that shows each message of progress when it comes.
func (p *Protocol) InvokeAndWatch(
	ctx context.Context, typeName string, configuration Attributes, watch func(message string),
) (says []string, diagnostics []*tfprotov6.Diagnostic) {
	p.T.Helper()
	schemas, _ := p.schemas(ctx)
	typ := objectType(p.T, schemas.ActionSchemas[typeName].Schema)
	config := Dynamic(p.T, typ, NewObject(p.T, typ, configuration))
	server, ok := p.Server.(tfprotov6.ActionServer)
	if !ok {
		p.T.Fatal("the provider has no actions")
	}
	validated, err := server.ValidateActionConfig(ctx,
		&tfprotov6.ValidateActionConfigRequest{ActionType: typeName, Config: config})
	if err != nil {
		p.T.Fatal(err)
	}
	if HasErrors(validated.Diagnostics) {
		return nil, validated.Diagnostics
	}
	p.NewRun()
	planned, err := server.PlanAction(ctx, &tfprotov6.PlanActionRequest{ActionType: typeName, Config: config})
	if err != nil {
		p.T.Fatal(err)
	}
	if HasErrors(planned.Diagnostics) {
		return nil, planned.Diagnostics
	}
	stream, err := server.InvokeAction(ctx, &tfprotov6.InvokeActionRequest{ActionType: typeName, Config: config})
	if err != nil {
		p.T.Fatal(err)
	}
	for event := range stream.Events {
		switch is := event.Type.(type) {
		case tfprotov6.ProgressInvokeActionEventType:
			says = append(says, is.Message)
			watch(is.Message)
		case tfprotov6.CompletedInvokeActionEventType:
			diagnostics = append(diagnostics, is.Diagnostics...)
		}
	}
	return says, diagnostics
}
