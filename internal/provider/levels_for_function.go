package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

func newLevelsForFunction() function.Function {
	return pureFunction{
		name: "levels_for",
		definition: function.Definition{
			Summary: "Number of levels that reach a delay",
			MarkdownDescription: "The smallest number of levels with which a cascade can give the delay, as the " +
				"attribute `max_delay` takes it. A delay that no cascade of the resolution reaches is an error.",
			Parameters: []function.Parameter{
				function.StringParameter{Name: "max_delay", MarkdownDescription: "Longest delay that has to be " +
					"possible, such as `36h`."},
			},
			VariadicParameter: scaleParameter(),
			Return:            function.Int64Return{},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData) (any, error) {
			var text string
			var given []string
			if wrong := arguments.Get(ctx, &text, &given); wrong != nil {
				return nil, wrong
			}
			maxDelay, err := parseDuration("max_delay", text)
			if err != nil {
				return nil, err
			}
			base, resolution, err := optionalScale(1, given)
			if err != nil {
				return nil, err
			}
			levels, err := cascade.LevelsFor(base, maxDelay, resolution)
			return int64(levels), err
		},
	}
}
