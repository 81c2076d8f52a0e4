package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

func newLevelsForFunction() function.Function { return levelsForFunction{} }

type levelsForFunction struct{}

func (levelsForFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "levels_for"
}

func (levelsForFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Number of levels that reach a delay",
		MarkdownDescription: "The smallest number of levels with which a cascade can give the delay, as the attribute `max_delay` takes it. A delay that no cascade of the " +
			"resolution reaches is an error.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "max_delay", MarkdownDescription: "Longest delay that has to be possible, such as `36h`."},
		},
		VariadicParameter: resolutionParameter(),
		Return:            function.Int64Return{},
	}
}

func (f levelsForFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var text string
	var given []string
	if resp.Error = req.Arguments.Get(ctx, &text, &given); resp.Error != nil {
		return
	}
	maxDelay, err := parseDuration("max_delay", text)
	if err != nil {
		resp.Error = argumentError(ctx, f, err)
		return
	}
	resolution, wrong := optionalResolution(1, given)
	if wrong != nil {
		resp.Error = wrong
		return
	}
	levels, err := cascade.LevelsFor(maxDelay, resolution)
	if err != nil {
		resp.Error = argumentError(ctx, f, err)
		return
	}
	resp.Error = resp.Result.Set(ctx, int64(levels))
}
