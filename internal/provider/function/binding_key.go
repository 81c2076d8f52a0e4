package function

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

func newBindingKeyFunction() function.Function {
	return pureFunction{
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
}
