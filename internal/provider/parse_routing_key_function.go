package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

func newParseRoutingKeyFunction() function.Function { return parseRoutingKeyFunction{} }

type parseRoutingKeyFunction struct{}

func (parseRoutingKeyFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "parse_routing_key"
}

func (parseRoutingKeyFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Delay and destination of a routing key",
		MarkdownDescription: "The inverse of `routing_key`: an object with the `delay`, as a duration such as `10s`, and the `destination` of a message with this routing " +
			"key. A key that a cascade would not deliver, with too few digits, other digits or no destination, is an error.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "key", MarkdownDescription: "Routing key: one digit for each level, then the destination, joined by dots."},
			levelsParameter(),
		},
		VariadicParameter: resolutionParameter(),
		Return:            function.ObjectReturn{AttributeTypes: map[string]attr.Type{"delay": types.StringType, "destination": types.StringType}},
	}
}

func (f parseRoutingKeyFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var key string
	var levels int64
	var given []string
	if resp.Error = req.Arguments.Get(ctx, &key, &levels, &given); resp.Error != nil {
		return
	}
	resolution, wrong := optionalResolution(2, given)
	if wrong != nil {
		resp.Error = wrong
		return
	}
	delay, destination, err := cascade.ParseRoutingKey(key, int(levels), resolution)
	if err != nil {
		resp.Error = argumentError(ctx, f, err)
		return
	}
	resp.Error = resp.Result.Set(ctx, struct {
		Delay       string `tfsdk:"delay"`
		Destination string `tfsdk:"destination"`
	}{delay.String(), destination})
}
