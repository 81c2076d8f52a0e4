// Package function has the functions of the provider. Each is one of pureFunction: what comes in are its arguments,
// and what goes out is a value or an error on an argument. Call All.
package function

import (
	"context"
	"errors"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// All are the functions. They are pure: none of them needs the provider to be configured.
func All() []func() function.Function {
	var all []func() function.Function
	for _, f := range []pureFunction{routingKey, parseRoutingKey, bindingKey, destinationKey, mermaid} {
		all = append(all, func() function.Function { return f })
	}
	return all
}

// pureFunction is a function of its arguments alone.
type pureFunction struct {
	name       string
	definition function.Definition
	// run returns the result. A delay.AttributeError names the parameter that is wrong.
	run func(ctx context.Context, arguments function.ArgumentsData) (any, error)
}

func (f pureFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = f.name
}

func (f pureFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = f.definition
}

func (f pureFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	result, err := f.run(ctx, req.Arguments)
	if errors.Is(err, tfvalue.ErrUnknown) {
		return // OpenTofu calls with parts that are not known. The result is unknown, unless it is set.
	}
	if err != nil {
		resp.Error = f.explain(err)
		return
	}
	resp.Error = resp.Result.Set(ctx, result)
}

// explain puts an error on the argument that it concerns. Terraform ends the sentence.
func (f pureFunction) explain(err error) *function.FuncError {
	var onArgument *function.FuncError
	if errors.As(err, &onArgument) {
		return onArgument
	}
	var wrong delay.AttributeError
	if !errors.As(err, &wrong) {
		return function.NewFuncError(err.Error())
	}
	position := f.position(wrong.Attribute)
	if position < 0 {
		position = f.position(publisherParameter.Name) // it is an attribute of that
	}
	return function.NewArgumentFuncError(int64(position), wrong.Error())
}

func (f pureFunction) position(parameter string) int {
	return slices.IndexFunc(f.definition.Parameters,
		func(p function.Parameter) bool { return p.GetName() == parameter })
}
