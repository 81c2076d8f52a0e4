package function

import (
	"context"
	"errors"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

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
	if onArgument, is := errors.AsType[*function.FuncError](err); is {
		return onArgument
	}
	wrong, is := errors.AsType[delay.AttributeError](err)
	if !is {
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

// publisherParameter means the same wherever it occurs. Terraform drops further attributes of an object.
var publisherParameter = function.ObjectParameter{
	Name: "publisher", AttributeTypes: tfvalue.PublisherTypes,
	MarkdownDescription: "The attribute `publisher` of [`rabbitmqdelay_cascade`](../resources/cascade.md) or of its " +
		"[data source](../data-sources/cascade.md), or an object like it. `entry_exchange` is the name of the entry " +
		"exchange. `units_ms` are the milliseconds that a 1 stands for in each word of the key, the largest first. " +
		"`max_delay_ms` is the longest delay that has a key, in milliseconds.",
}
