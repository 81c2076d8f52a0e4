package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

func newDestinationKeyFunction() function.Function { return destinationKeyFunction{} }

type destinationKeyFunction struct{}

func (destinationKeyFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "destination_key"
}

func (destinationKeyFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Key that binds a receiver to the delivery exchange",
		MarkdownDescription: "The key with which a queue or exchange is bound to the delivery exchange of a cascade to receive the messages for one address: `*.` for each level, " +
			"then the address. It takes no other address, as a key like `#.address` would; only a word `*` or `#` in the address itself stands for other words.",
		Parameters: []function.Parameter{
			levelsParameter(),
			function.StringParameter{Name: "address", MarkdownDescription: "What publishers give as destination. It may have dots."},
		},
		Return: function.StringReturn{},
	}
}

func (f destinationKeyFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var levels int64
	var address string
	if resp.Error = req.Arguments.Get(ctx, &levels, &address); resp.Error != nil {
		return
	}
	key, err := cascade.DestinationKey(int(levels), address)
	if err != nil {
		resp.Error = argumentError(ctx, f, err)
		return
	}
	resp.Error = resp.Result.Set(ctx, key)
}
