package function

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/resource"
)

// cascadeParameter takes a cascade as an object with the attributes of rabbitmqdelay_cascade. It is
// dynamic because an object type would demand every attribute.
func cascadeParameter() function.Parameter {
	return function.DynamicParameter{
		Name: "cascade",
		// A known part may be wrong already.
		AllowUnknownValues: true,
		MarkdownDescription: "Object with attributes of [`rabbitmqdelay_cascade`](../resources/cascade.md), such as " +
			"`{ name = \"tasks\", levels = 17 }`. Attributes that are left out or `null` have the resource's " +
			"default. It can also be such a resource itself. Then its `levels` count, and its objects on the broker " +
			"do not.",
	}
}

var mermaid = pureFunction{
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
		resolved, known, err := resource.CascadeOf(ctx, argument)
		switch {
		case err != nil:
			return nil, function.NewArgumentFuncError(0, err.Error())
		case !known:
			return types.StringUnknown(), nil
		}
		return resolved.Mermaid(), nil
	},
}
