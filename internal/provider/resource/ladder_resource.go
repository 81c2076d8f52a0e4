package resource

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// schema implements declaration.
func (*ladderModel) schema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A set of fixed delays, each with a queue of its own, for retries with backoff and the " +
			"like. An application publishes to the entry exchange with the routing key `<delay>.<address>`, such as " +
			"`30s.orders`. The message arrives at the delivery exchange, with that key, when the delay is over. " +
			"Where any delay has to be possible, take a [cascade](cascade.md).\n\n" +
			"Every exchange, queue, argument and binding is known in the plan. The state holds the objects that the " +
			"broker has. So every deviation shows as a difference, and one apply repairs it. Delays are added and " +
			"removed in place.\n\n" +
			rebuildDescription("ladder"),
		Attributes: declaredAttributes(ctx, "ladder", "a topic exchange; with `dead_letter_routing_key`, one that the "+
			"ladder does not create may have any type", "a destroy, a replacement, a rebuild or the removal of a delay",
			tfvalue.DelayPosition, map[string]schema.Attribute{
				"name": schema.StringAttribute{
					Optional: true,
					MarkdownDescription: "Beginning of all names that are not given. Required unless " +
						"`entry_exchange`, `queue_name` and `delivery_exchange` are given and `park_unroutable` is " +
						"`false`. A change replaces the ladder if the entry exchange gets another name, and rebuilds " +
						"it if other objects do.",
				},
				"delays": schema.SetAttribute{
					Required: true, ElementType: types.StringType,
					MarkdownDescription: "The delays, such as `[\"5s\", \"30s\", \"5m\", \"1h\"]`: durations of " +
						"whole milliseconds up to ten years (`87600h`), without a dot. As it is written, a delay is " +
						"the first word of the routing keys that ask for it. So a change from `60s` to `1m` removes " +
						"one delay and adds another. A delay that is added gets its queue in place. One that is " +
						"removed takes no further messages, and its queue is deleted as soon as it is empty. A queue " +
						"that holds messages is guarded as in a destroy.",
				},
				"entry_exchange": schema.StringAttribute{
					Optional: true, Computed: true,
					MarkdownDescription: "The topic exchange to publish to. Default: `<name>.entry`. A change " +
						"replaces the ladder.",
				},
				"queue_name": schema.StringAttribute{
					Optional: true, Computed: true,
					MarkdownDescription: "Names of the delay queues, as a format with `%s` in the place of the " +
						"delay; a literal percent sign is `%%`. With a single delay, a name without `%s` will do. " +
						"Default: `<name>.delay-%s`. A change rebuilds the ladder.",
				},
				"dead_letter_routing_key": schema.StringAttribute{
					Optional: true,
					MarkdownDescription: "Routing key with which every message gets to the delivery exchange, in the " +
						"place of its own (`x-dead-letter-routing-key`). The delay alone is then enough as " +
						"a key for publishers. A change rebuilds the ladder.",
				},
			}),
	}
}
