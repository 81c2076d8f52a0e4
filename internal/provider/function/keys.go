package function

import (
	"context"
	"fmt"
	"strconv"
	"time"

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
			"the address when the delay is over. It has one digit for each level, the highest first, then the " +
			"address. The digits are the delay in steps of the resolution, in the base of the cascade. A delay " +
			"between two steps is rounded up, so that no message is early. A delay longer than the cascade can " +
			"give is an error, as is a negative one.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "delay", MarkdownDescription: "How long the message waits, such as " +
				"`7d`, `1h30m` or `500ms`; `0s` passes it straight on."},
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

var parseRoutingKey = pureFunction{
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
		Summary: "Key of a binding between two levels",
		MarkdownDescription: "The key of a binding of a level's exchange in the classic chain, as NServiceBus " +
			"and Celery declare it. Digit 1 is for the binding to the level's queue, digit 0 for the one to the " +
			"exchange below. In a base over 2, each digit but 0 has a queue. For those who look at or declare " +
			"single bindings; `rabbitmqdelay_cascade` needs none of it.",
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

// scaleOf is the scale of so many levels. The resolution and the base may be given behind so many other arguments.
func scaleOf(levels int64, others int, given []string) (scale delay.Scale, err error) {
	base, resolution := delay.DefaultBase, time.Second
	if len(given) > 0 {
		if resolution, err = tfvalue.ParseDuration("resolution", given[0]); err != nil {
			return scale, err
		}
	}
	if len(given) > 1 {
		if base, err = strconv.Atoi(given[1]); err != nil {
			return scale, delay.AttributeError{Attribute: "base", Message: fmt.Sprintf("is %q; it can be %d to %d",
				given[1], delay.MinBase, delay.MaxBase)}
		}
	}
	if len(given) > 2 {
		return scale, function.NewArgumentFuncError(int64(others+2),
			"it is one too many: the last two arguments are resolution and base")
	}
	return delay.UniformScale(base, int(levels), resolution)
}
