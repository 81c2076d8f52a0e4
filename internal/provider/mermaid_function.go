package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

func newMermaidFunction() function.Function { return mermaidFunction{} }

type mermaidFunction struct{}

func (mermaidFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "mermaid"
}

func (mermaidFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Diagram of a cascade",
		MarkdownDescription: "A [Mermaid](https://mermaid.js.org) flowchart of a cascade, for a pull request or a README: GitHub, GitLab and others draw it in a code block of the language " +
			"`mermaid`. It has every exchange and queue by its name, and how long a message waits where. The shortcuts of a lookahead are named and not drawn.",
		Parameters: []function.Parameter{cascadeParameter()},
		Return:     function.StringReturn{},
	}
}

func (mermaidFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var argument types.Dynamic
	if resp.Error = req.Arguments.Get(ctx, &argument); resp.Error != nil {
		return
	}
	config, known, wrong := cascadeArgument(ctx, argument)
	if wrong != nil {
		resp.Error = wrong
		return
	}
	if !known {
		resp.Error = resp.Result.Set(ctx, types.StringUnknown())
		return
	}
	chart, err := cascade.Mermaid(config)
	if err != nil {
		resp.Error = cascadeError(err)
		return
	}
	resp.Error = resp.Result.Set(ctx, chart)
}
