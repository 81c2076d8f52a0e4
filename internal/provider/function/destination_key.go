package function

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

func newDestinationKeyFunction() function.Function {
	return pureFunction{
		name: "destination_key",
		definition: function.Definition{
			Summary: "Key that binds a receiver to the delivery exchange",
			MarkdownDescription: "The key that binds a queue or exchange to the delivery exchange of a cascade for " +
				"the messages to one address. It is `*.` for each level, then the address. It takes no other " +
				"address, as a key like `#.address` would. Only a word `*` or `#` in the address itself stands for " +
				"other words.",
			Parameters: []function.Parameter{
				levelsParameter(),
				function.StringParameter{Name: "address", MarkdownDescription: "Address that publishers give. It " +
					"may have dots."},
			},
			Return: function.StringReturn{},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData) (any, error) {
			var levels int64
			var address string
			if wrong := arguments.Get(ctx, &levels, &address); wrong != nil {
				return nil, wrong
			}
			return delay.DestinationKey(int(levels), address)
		},
	}
}
