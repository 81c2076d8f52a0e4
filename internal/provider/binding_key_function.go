package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

func newBindingKeyFunction() function.Function { return bindingKeyFunction{} }

type bindingKeyFunction struct{}

func (bindingKeyFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "binding_key"
}

func (bindingKeyFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Key of a binding between two levels",
		MarkdownDescription: "The key of a binding of a level's exchange in the classic chain, as NServiceBus and Celery declare it: with bit 1 the binding to the level's " +
			"queue, with bit 0 the one to the exchange below. For those who look at or declare single bindings; `rabbitmqdelay_cascade` needs none of it.",
		Parameters: []function.Parameter{
			function.Int64Parameter{Name: "level", MarkdownDescription: "Level of the exchange, 0, the lowest, to levels - 1, the entry."},
			levelsParameter(),
			function.Int64Parameter{Name: "bit", MarkdownDescription: "`1` for the binding to the queue, `0` for the binding to the exchange below."},
		},
		Return: function.StringReturn{},
	}
}

func (f bindingKeyFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var level, levels, bit int64
	if resp.Error = req.Arguments.Get(ctx, &level, &levels, &bit); resp.Error != nil {
		return
	}
	key, err := cascade.BindingKey(int(level), int(levels), int(bit))
	if err != nil {
		resp.Error = argumentError(ctx, f, err)
		return
	}
	resp.Error = resp.Result.Set(ctx, key)
}
