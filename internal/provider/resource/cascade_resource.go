package resource

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// schema implements declaration.
func (*cascadeModel) schema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A delay cascade: queues, joined by dead-letter exchanges and topic bindings. Their " +
			"TTLs are 1, 2, 4, 8 … times the resolution. In base 10 they are 1 to 9, 10 to 90 … times the " +
			"resolution. An application publishes to the entry exchange with a routing key that carries the delay " +
			"digit by digit. The message arrives at the delivery exchange when the delay is over.\n\n" +
			"Every exchange, queue, argument and binding is known in the plan. The state holds the objects that the " +
			"broker has. So every deviation shows as a difference, and one apply repairs it.\n\n" +
			rebuildDescription("cascade"),
		Attributes: declaredAttributes(ctx, "cascade", "a topic exchange", "a destroy, a replacement or a rebuild",
			tfvalue.LevelPosition, map[string]schema.Attribute{
				"name": schema.StringAttribute{
					Optional: true,
					MarkdownDescription: "Beginning of all names that are not given. Required unless there is a " +
						"`preset`, or `exchange_name`, `queue_name` and `delivery_exchange` are given and " +
						"`park_unroutable` is `false`. A change replaces the cascade if the entry exchange gets " +
						"another name, and rebuilds it if other objects do.",
				},
				"preset": schema.StringAttribute{
					Optional: true,
					MarkdownDescription: "A cascade exactly as a framework declares it when it starts. Values are " +
						"`nservicebus` (7 and later), `nservicebus_v1` (4.3 to 6), `celery` (5.5 and later, quorum " +
						"queues) and `celery_classic`. `celery_classic` loses some of the tasks that fall due while " +
						"a node restarts, at every restart, see `queue_type`. A preset fixes everything but `vhost`, " +
						"`create_delivery_exchange`, `park_unroutable` and what concerns Terraform alone. A change " +
						"replaces the cascade if the entry exchange gets another name, and rebuilds it if other " +
						"objects change.",
				},
				"base": schema.Int64Attribute{
					CustomType: tfvalue.WholeNumber{}, Optional: true, Computed: true,
					MarkdownDescription: fmt.Sprintf("Base that delays are written in, %d to %d: the digits of the "+
						"routing key. Each level has a queue for each digit but 0. In base 10 and "+
						"at a resolution of one second, an hour on eight levels is `0.0.0.0.3.6.0.0`. New "+
						"applications are faster in base 10. Stay with base 2 for publishers that exist and for "+
						"frameworks; presets are base 2. See [Choosing a base](../guides/base.md). Default: `2`. A "+
						"change rebuilds the cascade, and replaces it if the entry exchange gets another name. After "+
						"a rebuild, keys of the old base are other delays.",
						delay.MinBase, delay.MaxBase),
				},
				"levels": schema.Int64Attribute{
					CustomType: tfvalue.WholeNumber{}, Optional: true, Computed: true,
					MarkdownDescription: fmt.Sprintf("Number of digits of a delay, 1 to %d. With n levels any delay "+
						"up to baseⁿ-1 times the resolution is possible. RabbitMQ accepts no TTL over ten years. So "+
						"at a resolution of one second, at most 29 levels are possible in base 2, and 8 in base 10. "+
						"One of `levels` and `max_delay` is given; the other is computed, and may be given, too, if "+
						"they agree. A change replaces the cascade.",
						delay.MaxLevels),
				},
				"max_delay": schema.StringAttribute{
					Optional: true, Computed: true, CustomType: tfvalue.Duration{},
					MarkdownDescription: "Longest delay that has to be possible, such as `36h`: the cascade gets the " +
						"smallest number of levels that reaches it. If `levels` is given, the longest delay that " +
						"they can give. The same duration in other words is no change. A change replaces the cascade " +
						"unless the number of levels stays the same.",
				},
				"resolution": schema.StringAttribute{
					Optional: true, Computed: true, CustomType: tfvalue.Duration{},
					MarkdownDescription: "Step of all delays and shortest TTL, `1ms` or a multiple of it. " +
						"Default: `1s`. A change rebuilds the cascade.",
				},
				"exchange_name": schema.StringAttribute{
					Optional: true, Computed: true,
					MarkdownDescription: "Names of the level exchanges, as a format with one integer verb for the " +
						"level, such as `%d` or `%02d`. A literal percent sign is `%%`. Default: " +
						"`<name>.delay-%02d`. A change replaces the cascade, or rebuilds it if the entry exchange " +
						"keeps its name.",
				},
				"queue_name": schema.StringAttribute{
					Optional: true, Computed: true,
					MarkdownDescription: "Names of the delay queues, likewise. With a `base` over 2 it has a second " +
						"integer verb, for the digit. Default: `<name>.delay-%02d`, with a `base` over 2 " +
						"`<name>.delay-%02d-%x`. A change rebuilds the cascade.",
				},
				"lookahead": schema.Int64Attribute{
					CustomType: tfvalue.WholeNumber{}, Optional: true, Computed: true,
					MarkdownDescription: "How many digits of the routing key a level exchange looks at, 1 to " +
						"`levels`. With 1, the classic chain, a message passes one exchange for every digit 0; " +
						"with `levels` every hop is routed once. Default: all levels, the fastest. Changes in place, " +
						"without losing or doubling a message.",
				},
				"strict_keys": schema.BoolAttribute{
					Optional: true, Computed: true,
					MarkdownDescription: "Whether the entry exchange takes only routing keys with as many words as " +
						"there are levels and an address behind them. It looks at the digits up to the first that " +
						"is not 0, and counts the words behind it. A wrong digit among these is parked by the " +
						"exchange that has to look at it, which may be after a wait. Without strict keys, a key with " +
						"too few digits may wait for most of the range before it goes astray. Default: `true`. " +
						"Changes in place.",
				},
				"internal_levels": schema.BoolAttribute{
					Optional: true, Computed: true,
					MarkdownDescription: "Whether the exchanges below the entry are internal: they take " +
						"messages from the cascade alone, and the broker refuses those of publishers. After a change " +
						"of `levels` an old entry does so, too. RabbitMQ leaves such exchanges out of exported " +
						"definitions, see [the limits](../guides/guarantees.md#where-the-limits-are). Default: " +
						"`true`, with a `preset` `false`. A change rebuilds the cascade.",
				},
				"entry_exchange": tfvalue.ComputedText("The exchange to publish to: that of the highest level."),
				"publisher": schema.ObjectAttribute{
					Computed: true, AttributeTypes: tfvalue.PublisherTypes,
					MarkdownDescription: tfvalue.PublisherDescription + " An output of this attribute has its " +
						"planned value, even if the apply is refused. Hand over that of the " +
						"[data source](../data-sources/cascade.md).",
				},
				"policies": tfvalue.PoliciesAttribute,
			}),
	}
}
