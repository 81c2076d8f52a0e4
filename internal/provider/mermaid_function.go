package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
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
		run: ofCascade(types.StringUnknown(), func(c delay.Cascade) (any, error) {
			return c.Mermaid(), nil
		}),
	}
}
