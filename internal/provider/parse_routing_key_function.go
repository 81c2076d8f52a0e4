package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func newParseRoutingKeyFunction() function.Function {
	return pureFunction{
		name: "parse_routing_key",
		definition: function.Definition{
			Summary: "Delay and destination of a routing key",
			MarkdownDescription: "The inverse of `routing_key`: an object with the `delay`, as a duration such as " +
				"`10s`, and the `destination` of a message with this routing key. A key that a cascade would not " +
				"deliver, with too few digits, other digits or no destination, is an error.",
			Parameters: []function.Parameter{
				function.StringParameter{Name: "key", MarkdownDescription: "Routing key: one digit for each level, " +
					"then the destination, joined by dots."},
				levelsParameter(),
			},
			VariadicParameter: scaleParameter(),
			Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{"delay": types.StringType,
				"destination": types.StringType}},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData) (any, error) {
			var key string
			var levels int64
			var given []string
			if wrong := arguments.Get(ctx, &key, &levels, &given); wrong != nil {
				return nil, wrong
			}
			scale, err := scaleOf(levels, 2, given)
			if err != nil {
				return nil, err
			}
			delay, destination, err := scale.ParseRoutingKey(key)
			return struct {
				Delay       string `tfsdk:"delay"`
				Destination string `tfsdk:"destination"`
			}{delay.String(), destination}, err
		},
	}
}
