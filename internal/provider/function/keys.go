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
		MarkdownDescription: "The routing key with which a message to the entry exchange of a cascade arrives at " +
			"the address when the delay is over. It has a decimal number for each unit of the cascade, the largest " +
			"first, then the address. A delay between two steps is rounded up, so that no message is early. A delay " +
			"over `max_delay_ms` is an error, as is a negative one.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "delay", MarkdownDescription: "How long the message waits, such as " +
				"`7d`, `1h30m` or `500ms`; `0s` passes it straight on."},
			publisherParameter,
			function.StringParameter{Name: "address", MarkdownDescription: "Address that the receiver has " +
				"bound to the delivery exchange. It may have dots."},
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
		MarkdownDescription: "The inverse of `routing_key`: an object with the `delay`, as a duration such as " +
			"`10s`, and the `address` of a message with this routing key. A key that a cascade would not " +
			"deliver, with too few numbers, other numbers or no address, is an error.",
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
		MarkdownDescription: "Inside a cascade, the exchange of a level is bound to its queues, where messages wait, " +
			"and to the exchange below, where they pass on. This is the key of such a binding in the uniform form " +
			"with lookahead 1, as NServiceBus and Celery declare it. Digit 1 is for the queue, and digit 0 for the " +
			"exchange below. In a base over 2, each digit up to 9 but 0 has a queue. It is for those who look at or " +
			"declare single bindings. `rabbitmqdelay_cascade` needs none of it, and receivers take `destination_key`.",
		Parameters: []function.Parameter{
			function.Int64Parameter{CustomType: tfvalue.WholeNumber{}, Name: "level",
				MarkdownDescription: "Level of the exchange, 0, the lowest, to levels - 1, the entry."},
			levelsParameter(),
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
		MarkdownDescription: "Receivers bind their queue to the delivery exchange, at the end of a cascade. With " +
			"this key, the queue gets the messages for one address when their delay is over. The key is `*.` for " +
			"each word of the delay, then the address. It takes no other address, as a key like `#.address` would. " +
			"Only a word `*` or `#` in the address itself stands for other words.",
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

// levelsParameter means the same wherever it occurs.
func levelsParameter() function.Parameter {
	return function.Int64Parameter{
		CustomType: tfvalue.WholeNumber{}, Name: "levels",
		MarkdownDescription: fmt.Sprintf("Number of words of a delay, 1 to %d: `length(<cascade>.units)`.",
			delay.MaxLevels),
	}
}

// publisherParameter means the same wherever it occurs. Terraform drops further attributes of an object.
var publisherParameter = function.ObjectParameter{
	Name: "publisher", AttributeTypes: tfvalue.PublisherTypes,
	MarkdownDescription: "The attribute `publisher` of [`rabbitmqdelay_cascade`](../resources/cascade.md) or of its " +
		"[data source](../data-sources/cascade.md), or an object like it. It has `entry_exchange`, the name of the " +
		"entry exchange. `units_ms` are the milliseconds that a 1 stands for in each word of the key, the largest " +
		"first. `max_delay_ms` is the longest delay that has a key, in milliseconds.",
}
