package function

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

func newRoutingKeyFunction() function.Function {
	return pureFunction{
		name: "routing_key",
		definition: function.Definition{
			Summary: "Routing key for a delay and an address",
			MarkdownDescription: "The routing key with which a message to the entry exchange of a cascade arrives at " +
				"the address when the delay is over. It has one digit for each level, the highest first, then the " +
				"address. The digits are the delay in steps of the resolution, in the base of the cascade. A delay " +
				"between two steps is rounded up, so that no message is early. A delay longer than the cascade can " +
				"give is an error, as is a negative one.",
			Parameters: []function.Parameter{
				function.StringParameter{Name: "delay", MarkdownDescription: "How long the message waits, such as " +
					"`90s`, `1h30m` or `500ms`; `0s` passes it straight on."},
				levelsParameter(),
				function.StringParameter{Name: "address", MarkdownDescription: "Address that the receiver has " +
					"bound to the delivery exchange. It may have dots."},
			},
			VariadicParameter: scaleParameter(),
			Return:            function.StringReturn{},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData) (any, error) {
			var delay, address string
			var levels int64
			var given []string
			if wrong := arguments.Get(ctx, &delay, &levels, &address, &given); wrong != nil {
				return nil, wrong
			}
			wait, err := tfvalue.ParseDuration("delay", delay)
			if err != nil {
				return nil, err
			}
			scale, err := scaleOf(levels, 3, given)
			if err != nil {
				return nil, err
			}
			return scale.RoutingKey(wait, address)
		},
	}
}
