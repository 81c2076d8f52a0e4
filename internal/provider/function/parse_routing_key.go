package function

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
			Summary: "Delay and address of a routing key",
			MarkdownDescription: "The inverse of `routing_key`: an object with the `delay`, as a duration such as " +
				"`10s`, and the `address` of a message with this routing key. A key that a cascade would not " +
				"deliver, with too few digits, other digits or no address, is an error.",
			Parameters: []function.Parameter{
				function.StringParameter{Name: "key", MarkdownDescription: "Routing key: one digit for each level, " +
					"then the address, joined by dots."},
				levelsParameter(),
			},
			VariadicParameter: scaleParameter(),
			Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{"delay": types.StringType,
				"address": types.StringType}},
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
			delay, address, err := scale.ParseRoutingKey(key)
			return struct {
				Delay   string `tfsdk:"delay"`
				Address string `tfsdk:"address"`
			}{delay.String(), address}, err
		},
	}
}
