package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func newMermaidFunction() function.Function {
	return pureFunction{
		name: "mermaid",
		definition: function.Definition{
			Summary: "Diagram of a cascade",
			MarkdownDescription: "A [Mermaid](https://mermaid.js.org) flowchart of a cascade, for a pull request or " +
				"a README. GitHub, GitLab and others draw it in a code block of the language `mermaid`. It has every " +
				"exchange and queue by its name, and how long a message waits where. The shortcuts of a lookahead " +
				"are named and not drawn.",
			Parameters: []function.Parameter{cascadeParameter()},
			Return:     function.StringReturn{},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData) (any, error) {
			var argument types.Dynamic
			if wrong := arguments.Get(ctx, &argument); wrong != nil {
				return nil, wrong
			}
			resolved, known, err := cascadeArgument(ctx, argument)
			switch {
			case err != nil:
				return nil, function.NewArgumentFuncError(0, err.Error())
			case !known:
				return types.StringUnknown(), nil
			}
			return resolved.Mermaid(), nil
		},
	}
}
