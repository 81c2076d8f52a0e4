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
		MarkdownDescription: "A [Mermaid](https://mermaid.js.org) flowchart of a cascade, for a pull request or " +
			"a README. GitHub, GitLab and others draw it in a code block of the language `mermaid`. It has the " +
			"entry exchange by its name, each level by its unit, and how long a message waits where. The queues of a " +
			"level are one node. The shortcuts of a lookahead are not drawn.",
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
