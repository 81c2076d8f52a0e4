package function

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

var mermaid = pureFunction{
	name: "mermaid",
	definition: function.Definition{
		Summary: "Diagram of a cascade",
		MarkdownDescription: "The function returns a [Mermaid](https://mermaid.js.org) flowchart of a cascade, for a " +
			"pull request or a README. GitHub and GitLab, for example, draw the flowchart in a code block of the " +
			"language `mermaid`.\n\n" +
			"The flowchart has the entry exchange by its name, each level by its unit, and the time that a message " +
			"waits in each queue. The queues of a level are one node. The flowchart leaves out the shortcuts of a " +
			"lookahead.",
		Parameters: []function.Parameter{publisherParameter},
		Return:     function.StringReturn{},
	},
	run: func(ctx context.Context, arguments function.ArgumentsData) (any, error) {
		var publisher types.Object
		if wrong := arguments.Get(ctx, &publisher); wrong != nil {
			return nil, wrong
		}
		entry, scale, err := tfvalue.Publisher(ctx, publisher)
		if err != nil {
			return nil, err
		}
		if entry == "" {
			return nil, delay.AttributeError{Attribute: "entry_exchange",
				Message: "is empty; give the name of the exchange that publishers use"}
		}
		return delay.Mermaid(entry, scale), nil
	},
}
