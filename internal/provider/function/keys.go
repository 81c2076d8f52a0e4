package function

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

var routingKey = pureFunction{
	name: "routing_key",
	definition: function.Definition{
		Summary: "Routing key for a delay and an address",
		MarkdownDescription: "Publish a message with this routing key to the entry exchange of a cascade. The " +
			"message arrives at the address when the delay is over.\n\n" +
			"The key has a decimal number for each unit of the cascade, the largest first, then the address. The " +
			"function rounds a delay between two steps up, so that no message is early. A negative delay, or a delay " +
			"over `max_delay_ms`, is an error. Applications compute the same key " +
			"[at run time](../guides/publishing.md#compute-the-routing-key).",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "delay", MarkdownDescription: "How long the message waits, such as " +
				"`7d`, `1h30m` or `500ms`. With `0s`, the message does not wait."},
			publisherParameter,
			function.StringParameter{Name: "address", MarkdownDescription: "Address that the receiver has bound to " +
				"the delivery exchange. The address may have dots."},
		},
		Return: function.StringReturn{},
	},
	run: func(ctx context.Context, arguments function.ArgumentsData) (any, error) {
		var delay, address string
		var publisher types.Object
		if wrong := arguments.Get(ctx, &delay, &publisher, &address); wrong != nil {
			return nil, wrong
		}
		wait, err := tfvalue.ParseDuration("delay", delay)
		if err != nil {
			return nil, err
		}
		_, scale, err := tfvalue.Publisher(ctx, publisher)
		if err != nil {
			return nil, err
		}
		return scale.RoutingKey(wait, address)
	},
}

var parseRoutingKey = pureFunction{
	name: "parse_routing_key",
	definition: function.Definition{
		Summary: "Delay and address of a routing key",
		MarkdownDescription: "The function says how long a message with this routing key waits, and for whom. " +
			"[`routing_key`](routing_key.md) is the inverse.\n\n" +
			"The result is an object: `delay` is a duration such as `10s`, and `address` is a text. A key that a " +
			"cascade would not deliver is an error: a key with too few numbers, wrong numbers or no address.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "key", MarkdownDescription: "Routing key: a number for each unit, " +
				"then the address, joined by dots."},
			publisherParameter,
		},
		Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{"delay": types.StringType,
			"address": types.StringType}},
	},
	run: func(ctx context.Context, arguments function.ArgumentsData) (any, error) {
		var key string
		var publisher types.Object
		if wrong := arguments.Get(ctx, &key, &publisher); wrong != nil {
			return nil, wrong
		}
		_, scale, err := tfvalue.Publisher(ctx, publisher)
		if err != nil {
			return nil, err
		}
		wait, address, err := scale.ParseRoutingKey(key)
		return struct {
			Delay   string `tfsdk:"delay"`
			Address string `tfsdk:"address"`
		}{delay.DurationText(wait), address}, err
	},
}

var bindingKey = pureFunction{
	name: "binding_key",
	definition: function.Definition{
		Summary: "Key of one of the bindings inside a cascade",
		MarkdownDescription: "Use this function to look at, or to declare, a single binding inside a cascade. Other " +
			"configurations do not need the function: [`rabbitmqdelay_cascade`](../resources/cascade.md) declares " +
			"all its bindings, and receivers use [`destination_key`](destination_key.md).\n\n" +
			"The keys are those of the uniform form with lookahead 1, as NServiceBus and Celery declare them. There, " +
			"the exchange of each level is bound to the delay queues of the level, and to the exchange below. Digit " +
			"0 is for the exchange below, and each other digit is for its queue. In base 2, the only queue is that " +
			"of digit 1.",
		Parameters: []function.Parameter{
			function.Int64Parameter{CustomType: tfvalue.WholeNumber{}, Name: "level",
				MarkdownDescription: "Level of the exchange: 0 is the lowest, and levels - 1 is the entry exchange."},
			levelsParameter,
			function.Int64Parameter{CustomType: tfvalue.WholeNumber{}, Name: "digit",
				MarkdownDescription: fmt.Sprintf("`1` to `%d` for the binding to the digit's queue, `0` for the "+
					"binding to the exchange below.", delay.MaxBase-1)},
		},
		Return: function.StringReturn{},
	},
	run: func(ctx context.Context, arguments function.ArgumentsData) (any, error) {
		var level, levels, digit int64
		if wrong := arguments.Get(ctx, &level, &levels, &digit); wrong != nil {
			return nil, wrong
		}
		return delay.BindingKey(int(level), int(levels), int(digit))
	},
}

var destinationKey = pureFunction{
	name: "destination_key",
	definition: function.Definition{
		Summary: "Key by which a receiver's queue gets the messages for an address",
		MarkdownDescription: "Bind the queue of a receiver to the delivery exchange of a cascade with this key. " +
			"The queue gets the messages for one address when their delay is over. The resource " +
			"[`rabbitmqdelay_destination`](../resources/destination.md) computes the same key by itself.\n\n" +
			"The key is `*.` for each word of the delay, then the address. A word `*` or `#` in the address stands " +
			"for other words. A key like `#.billing` would also take the messages for `eu.billing`.",
		Parameters: []function.Parameter{
			levelsParameter,
			function.StringParameter{Name: "address", MarkdownDescription: "Address that publishers give. The " +
				"address may have dots."},
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

// levelsParameter means the same wherever it occurs.
var levelsParameter = function.Int64Parameter{
	CustomType: tfvalue.WholeNumber{}, Name: "levels",
	MarkdownDescription: fmt.Sprintf("Number of words of a delay, 1 to %d: `length(<cascade>.units)`.",
		delay.MaxLevels),
}
