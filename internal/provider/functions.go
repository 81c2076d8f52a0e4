package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

// Functions are pure: none of them needs the provider to be configured.
func (p *rabbitmqdelay) Functions(context.Context) []func() function.Function {
	return []func() function.Function{
		newRoutingKeyFunction, newParseRoutingKeyFunction, newBindingKeyFunction, newDestinationKeyFunction,
		newLevelsForFunction, newExpandFunction, newMermaidFunction,
	}
}

// levelsParameter and resolutionParameter mean the same wherever they occur.
func levelsParameter() function.Parameter {
	return function.Int64Parameter{
		Name:                "levels",
		MarkdownDescription: fmt.Sprintf("Number of levels of the cascade, 1 to %d, as its attribute `levels` has it.", cascade.MaxLevels),
	}
}

// resolutionParameter is optional and therefore variadic: Terraform has no other optional parameters.
func resolutionParameter() function.Parameter {
	return function.StringParameter{
		Name: "resolution",
		// Null is not allowed: OpenTofu 1.12 sends a null argument as nothing, which the framework cannot read.
		MarkdownDescription: "Resolution of the cascade, `1ms` or a multiple of it. May be left out; then it is `1s`. Of a variable that may be `null`, write `var.resolution[*]...`.",
	}
}

// optionalResolution reads what is given for the parameter at the position.
func optionalResolution(position int, given []string) (time.Duration, *function.FuncError) {
	switch {
	case len(given) > 1:
		return 0, function.NewArgumentFuncError(int64(position+1), fmt.Sprintf("resolution is given %d times; give it once or leave it out", len(given)))
	case len(given) == 0:
		return time.Second, nil
	}
	resolution, err := parseDuration("resolution", given[0])
	if err != nil {
		return 0, function.NewArgumentFuncError(int64(position), err.Error())
	}
	return resolution, nil
}

// parseDuration reads the Go duration that a parameter or attribute has as text.
func parseDuration(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, cascade.AttributeError{
			Attribute: name, Message: fmt.Sprintf(`is %q; write a number and its unit, h, m, s or ms, such as "90s", "1h30m" or "500ms"`, text),
		}
	}
	return d, nil
}

// argumentError is the error on the argument for the parameter that a cascade.AttributeError names.
// Terraform ends the sentence.
func argumentError(ctx context.Context, f function.Function, err error) *function.FuncError {
	var wrong cascade.AttributeError
	if !errors.As(err, &wrong) {
		return function.NewFuncError(err.Error())
	}
	var definition function.DefinitionResponse
	f.Definition(ctx, function.DefinitionRequest{}, &definition)
	position := slices.IndexFunc(definition.Definition.Parameters, func(p function.Parameter) bool { return p.GetName() == wrong.Attribute })
	if position < 0 {
		position = len(definition.Definition.Parameters) // the optional one
	}
	return function.NewArgumentFuncError(int64(position), wrong.Error())
}
