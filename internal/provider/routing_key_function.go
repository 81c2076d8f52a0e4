package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

func newRoutingKeyFunction() function.Function { return routingKeyFunction{} }

type routingKeyFunction struct{}

func (routingKeyFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "routing_key"
}

func (routingKeyFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Routing key for a delay and a destination",
		MarkdownDescription: "The routing key with which a message, published to the entry exchange of a cascade, arrives at the destination when the delay is over: " +
			"the delay in steps of the resolution, in binary with one digit for each level, the highest first, then the destination. " +
			"A delay between two steps is rounded up, so that no message is early. A delay longer than the cascade can give is an error, as is a negative one.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "delay", MarkdownDescription: "How long the message waits, such as `90s`, `1h30m` or `500ms`; `0s` passes it straight on."},
			levelsParameter(),
			function.StringParameter{Name: "destination", MarkdownDescription: "Address that the receiver has bound to the delivery exchange. It may have dots."},
		},
		VariadicParameter: resolutionParameter(),
		Return:            function.StringReturn{},
	}
}

func (f routingKeyFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var delay, destination string
	var levels int64
	var given []string
	if resp.Error = req.Arguments.Get(ctx, &delay, &levels, &destination, &given); resp.Error != nil {
		return
	}
	wait, err := parseDuration("delay", delay)
	if err != nil {
		resp.Error = argumentError(ctx, f, err)
		return
	}
	resolution, wrong := optionalResolution(3, given)
	if wrong != nil {
		resp.Error = wrong
		return
	}
	key, err := cascade.RoutingKey(wait, int(levels), resolution, destination)
	if err != nil {
		resp.Error = argumentError(ctx, f, err)
		return
	}
	resp.Error = resp.Result.Set(ctx, key)
}
