// Package function has the functions of the provider. Each is one of pureFunction: what comes in are its arguments,
// and what goes out is a value or an error on an argument. Call All.
package function

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// All are the functions. They are pure: none of them needs the provider to be configured.
func All() []func() function.Function {
	return []func() function.Function{
		newRoutingKeyFunction, newParseRoutingKeyFunction, newBindingKeyFunction, newDestinationKeyFunction,
		newMermaidFunction,
	}
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
	position := slices.IndexFunc(f.definition.Parameters,
		func(p function.Parameter) bool { return p.GetName() == wrong.Attribute })
	if position < 0 {
		position = len(f.definition.Parameters) // the optional ones
		if wrong.Attribute == "base" {
			position++
		}
	}
	return function.NewArgumentFuncError(int64(position), wrong.Error())
}

// levelsParameter and scaleParameter mean the same wherever they occur.
func levelsParameter() function.Parameter {
	return function.Int64Parameter{
		CustomType: tfvalue.WholeNumber{}, Name: "levels",
		MarkdownDescription: fmt.Sprintf("Number of levels of the cascade, 1 to %d, as its attribute `levels` has it.",
			delay.MaxLevels),
	}
}

// scaleParameter stands for resolution and base, which are optional and therefore variadic: Terraform has no other
// optional parameters. It makes a text of a number.
func scaleParameter() function.Parameter {
	return function.StringParameter{
		Name: "resolution_and_base",
		// Null is not allowed: OpenTofu 1.12 sends a null argument as nothing, which the framework cannot read.
		MarkdownDescription: fmt.Sprintf("Resolution of the cascade, `1ms` or a multiple of it, and behind that its "+
			"base, %d to %d. Both may be left out, and the base alone; then they are `1s` and `2`. Of a variable that "+
			"may be `null`, write `var.resolution[*]...`.", delay.MinBase, delay.MaxBase),
	}
}

// optionalScale reads the resolution and the base, if they are given behind so many other arguments.
func optionalScale(others int, given []string) (base int, resolution time.Duration, err error) {
	base, resolution = delay.DefaultBase, time.Second
	if len(given) > 0 {
		if resolution, err = tfvalue.ParseDuration("resolution", given[0]); err != nil {
			return 0, 0, err
		}
	}
	if len(given) > 1 {
		if base, err = strconv.Atoi(given[1]); err != nil {
			return 0, 0, function.NewArgumentFuncError(int64(others+1), fmt.Sprintf("base is %q; it can be %d to %d",
				given[1], delay.MinBase, delay.MaxBase))
		}
	}
	if len(given) > 2 {
		return 0, 0, function.NewArgumentFuncError(int64(others+2),
			"it is one too many: the last two arguments are resolution and base")
	}
	return base, resolution, nil
}

// scaleOf is the scale of so many levels, with the optional resolution and base behind so many other arguments.
func scaleOf(levels int64, others int, given []string) (delay.Scale, error) {
	base, resolution, err := optionalScale(others, given)
	if err != nil {
		return delay.Scale{}, err
	}
	return delay.NewScale(base, int(levels), resolution)
}
