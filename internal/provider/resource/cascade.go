package resource

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// cascades are the resources rabbitmqdelay_cascade.
var cascades = &kind[delay.Config]{
	name: "cascade", identity: entryIdentity,
	doc: "A delay cascade: queues, joined by dead-letter exchanges and topic bindings. Their " +
		"TTLs are 1, 2, 4, 8 … times the resolution. In base 10 they are 1 to 9, 10 to 90 … times the " +
		"resolution. An application publishes to the entry exchange with a routing key that carries the delay " +
		"digit by digit. The message arrives at the delivery exchange when the delay is over.\n\n" +
		"Every exchange, queue, argument and binding is known in the plan. The state holds the objects that the " +
		"broker has. So every deviation shows as a difference, and one apply repairs it.\n\n" +
		ownerDescription("cascade") + "\n\n" + rebuildDescription("cascade"),
	attributes: slices.Concat(cascadeAttributes, aroundAttributes(aroundWords{
		kind: "cascade", delivery: "a topic exchange", removal: "a destroy, a replacement or a rebuild",
		parking: " With a `preset`, the default is `false`, a policy makes it the alternate exchange, which takes " +
			"the tag `policymaker`, and a change is made in place. See [With Celery or NServiceBus]" +
			"(../guides/frameworks.md#parking).",
	}, tfvalue.LevelPosition, func(c *delay.Config) around {
		return around{&c.Vhost, &c.Name, &c.DeliveryExchange, &c.CreateDeliveryExchange, &c.ParkUnroutable,
			&c.QueueType, c.Preset, &c.QuorumOptions}
	})),
	resolve: func(given delay.Config) (resolved[delay.Config], error) {
		c, err := given.Resolve()
		if err != nil {
			return resolved[delay.Config]{}, err
		}
		return resolved[delay.Config]{delay.Config(c), tfvalue.OfCascade(c), c.Scale()}, nil
	},
	recognize: func(ctx context.Context, look recognize.Lookup, vhost, entry string) (delay.Config, error) {
		c, err := recognize.Cascade(ctx, look, vhost, entry)
		return delay.Config(c), err
	},
	displayName: func(x resolved[delay.Config]) string {
		name := cmp.Or(string(x.config.Preset), x.config.Name, x.Desired.Entry)
		levels := "1 level"
		if n := x.config.Levels; n > 1 {
			levels = fmt.Sprintf("%d levels", n)
		}
		return fmt.Sprintf("%s (%s, up to %s)", name, levels, plaintext.Duration(x.config.MaxDelay))
	},
	parseID: parseEntryID("tasks.delay-16"), checkIdentity: checkEntryIdentity, find: findTopology[delay.Config],
	prepare: prepareTopology[delay.Config], say: sayOfTopology[delay.Config],
	remember: rememberTopology[delay.Config], read: readTopology[delay.Config],
	complete: keepDeliveryType,
	look:     lookAtTopology[delay.Config], lookAtDestroy: lookAtDestroy[delay.Config],
}

// withoutPreset tells whether no preset says what the value is.
func withoutPreset(c *delay.Config) bool { return c.Preset == "" }

// cascadeAttributes are those that only cascades have. The preset is first: it is known when defaults are chosen.
var cascadeAttributes = []attribute[delay.Config]{
	{
		name: "preset", alters: true,
		field: text(func(c *delay.Config) *delay.Preset { return &c.Preset }, "", "", delay.NServiceBusV1,
			delay.Celery),
		doc: "A cascade exactly as a framework declares it when it starts. Values are " +
			"`nservicebus` (7 and later), `nservicebus_v1` (4.3 to 6), `celery` (5.5 and later, quorum " +
			"queues) and `celery_classic`. `celery_classic` loses some of the tasks that fall due while " +
			"a node restarts, at every restart, see `queue_type`. A preset fixes everything but `vhost`, " +
			"`create_delivery_exchange`, `park_unroutable` and what concerns Terraform alone. A change " +
			"replaces the cascade if the entry exchange gets another name, and rebuilds it if other " +
			"objects change.",
	},
	{
		name: "base", decided: true, alters: true,
		field: count(func(c *delay.Config) *int { return &c.Base }, 2, 2, 3, 10),
		check: func(value attr.Value) string {
			if value.Equal(types.Int64Value(0)) { // which would stand for the default
				return fmt.Sprintf("is 0; it can be %d to %d", delay.MinBase, delay.MaxBase)
			}
			return ""
		},
		doc: fmt.Sprintf("Base that delays are written in, %d to %d: the digits of the "+
			"routing key. Each level has a queue for each digit but 0. In base 10 and "+
			"at a resolution of one second, an hour on eight levels is `0.0.0.0.3.6.0.0`. New "+
			"applications are faster in base 10. Stay with base 2 for publishers that exist and for "+
			"frameworks; presets are base 2. See [Choosing a base](../guides/base.md). Default: `2`. A "+
			"change rebuilds the cascade, and replaces it if the entry exchange gets another name. After "+
			"a rebuild, keys of the old base are other delays.",
			delay.MinBase, delay.MaxBase),
	},
	{
		name: "levels", decided: true, alters: true,
		field: count(func(c *delay.Config) *int { return &c.Levels }, 17, 1, 2, 8, delay.MaxLevels, 0, 0),
		doc: fmt.Sprintf("Number of digits of a delay, 1 to %d. With n levels any delay "+
			"up to baseⁿ-1 times the resolution is possible. RabbitMQ accepts no TTL over ten years. So "+
			"at a resolution of one second, at most 29 levels are possible in base 2, and 8 in base 10. "+
			"One of `levels` and `max_delay` is given; the other is computed, and may be given, too, if "+
			"they agree. A change replaces the cascade.",
			delay.MaxLevels),
	},
	{
		name: "max_delay", decided: true,
		field: duration(func(c *delay.Config) *time.Duration { return &c.MaxDelay }, 0, 0, time.Hour, time.Millisecond),
		// An import takes the longest delay that is possible. A shorter one for which it takes as many levels is no
		// difference.
		sameBy: []string{"base", "levels", "resolution"},
		same: func(c *delay.Config, _, state attr.Value) bool {
			return sameDuration(tfvalue.DurationValue(delay.Cascade(*c).Scale().Longest), state)
		},
		doc: "Longest delay that has to be possible, such as `30d`: the cascade gets the " +
			"smallest number of levels that reaches it. If `levels` is given, the longest delay that " +
			"they can give. " + tfvalue.DurationSyntax + " The same duration in other words is no change. " +
			"`timeouts` and the function `timeadd` of Terraform know neither `d` nor `w`. A change replaces the " +
			"cascade unless the number of levels stays the same.",
	},
	{
		name: "resolution", decided: true, alters: true,
		field: duration(func(c *delay.Config) *time.Duration { return &c.Resolution }, time.Second, time.Millisecond,
			time.Hour),
		doc: "Step of all delays and shortest TTL, `1ms` or a multiple of it. " +
			"Default: `1s`. A change rebuilds the cascade.",
	},
	{
		name: "exchange_name", decided: true, alters: true,
		field:  text(func(c *delay.Config) *delay.Format { return &c.ExchangeName }, "exchange~a%d", "exchange~b%d"),
		sameBy: []string{"levels"},
		same: func(c *delay.Config, planned, state attr.Value) bool {
			return format(planned).Same(format(state), c.Levels)
		},
		doc: "Names of the level exchanges, as a format with one integer verb for the " +
			"level, such as `%d` or `%02d`. A literal percent sign is `%%`. Default: " +
			"`<name>.delay-%02d`. A change replaces the cascade, or rebuilds it if the entry exchange " +
			"keeps its name.",
	},
	{
		name: "lookahead", decided: true,
		field: count(func(c *delay.Config) *int { return &c.Lookahead }, 1, 1, 2),
		doc: "How many digits of the routing key a level exchange looks at, 1 to " +
			"`levels`. With 1, the classic chain, a message passes one exchange for every digit 0; " +
			"with `levels` every hop is routed once. Default: all levels, the fastest. Changes in place, " +
			"without losing or doubling a message.",
	},
	{
		name: "strict_keys", decided: true,
		field: flag(func(c *delay.Config) *bool { return &c.StrictKeys }, withoutPreset),
		doc: "Whether the entry exchange takes only routing keys with as many words as " +
			"there are levels and an address behind them. It looks at the digits up to the first that " +
			"is not 0, and counts the words behind it. A wrong digit among these is parked by the " +
			"exchange that has to look at it, which may be after a wait. Without strict keys, a key with " +
			"too few digits may wait for most of the range before it goes astray. Default: `true`. " +
			"Changes in place.",
	},
	{
		name: "internal_levels", decided: true, alters: true,
		field: flag(func(c *delay.Config) *bool { return &c.InternalLevels }, withoutPreset),
		doc: "Whether the exchanges below the entry are internal: they take " +
			"messages from the cascade alone, and the broker refuses those of publishers. After a change " +
			"of `levels` an old entry does so, too. RabbitMQ leaves such exchanges out of exported " +
			"definitions, see [the limits](../guides/guarantees.md#where-the-limits-are). Default: " +
			"`true`, with a `preset` `false`. A change rebuilds the cascade.",
	},
	{
		name:   "entry_exchange",
		schema: tfvalue.ComputedText("The exchange to publish to: that of the highest level."),
		show: func(_ *resolved[delay.Config], there topology.Topology, _ attr.Value) attr.Value {
			return types.StringValue(there.Entry)
		},
	},
	{
		name: "publisher",
		schema: schema.ObjectAttribute{Computed: true, AttributeTypes: tfvalue.PublisherTypes,
			MarkdownDescription: tfvalue.PublisherDescription + " An output of this attribute has its planned value, " +
				"even if the apply is refused. Hand over that of the " +
				"[data source](../data-sources/cascade.md)."},
		show: func(r *resolved[delay.Config], _ topology.Topology, _ attr.Value) attr.Value {
			return tfvalue.PublisherValue(delay.Cascade(r.config))
		},
	},
	{
		name: "policies", schema: tfvalue.PoliciesAttribute,
		show: func(r *resolved[delay.Config], there topology.Topology, _ attr.Value) attr.Value {
			return tfvalue.PoliciesValue(r.Desired, there)
		},
	},
	{
		name: "name", alters: true,
		field: text(func(c *delay.Config) *string { return &c.Name }, "name~a", "name~b"),
		doc: "Beginning of all names that are not given. Required unless there is a " +
			"`preset`, or `exchange_name`, `queue_name` and `delivery_exchange` are given and " +
			"`park_unroutable` is `false`. A change replaces the cascade if the entry exchange gets " +
			"another name, and rebuilds it if other objects do.",
	},
	{
		name: "queue_name", decided: true, alters: true,
		field: text(func(c *delay.Config) *delay.Format { return &c.QueueName }, "queue~a%d", "queue~b%d",
			"queue~a%d-%x", "queue~b%d-%x"),
		sameBy: []string{"base", "levels"},
		same: func(c *delay.Config, planned, state attr.Value) bool {
			return format(planned).SameQueues(format(state), c.Base, c.Levels)
		},
		doc: "Names of the delay queues, likewise. With a `base` over 2 it has a second " +
			"integer verb, for the digit. Default: `<name>.delay-%02d`, with a `base` over 2 " +
			"`<name>.delay-%02d-%x`. A change rebuilds the cascade.",
	},
}

func format(value attr.Value) delay.Format {
	given, _ := value.(types.String)
	return delay.Format(given.ValueString())
}
