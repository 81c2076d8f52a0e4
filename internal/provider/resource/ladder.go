package resource

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ladders are the resources rabbitmqdelay_ladder.
var ladders = &kind[delay.LadderConfig]{
	name: "ladder", identity: entryIdentity,
	doc: "A few fixed delays, each with a queue of its own, for retries with backoff and the " +
		"like. An application publishes to the entry exchange with the routing key `<delay>.<address>`, such as " +
		"`30s.orders`. The message arrives at the delivery exchange, with that key, when the delay is over. " +
		"Where any delay has to be possible, take a [cascade](cascade.md).\n\n" +
		"Every exchange, queue, argument and binding is known in the plan. The state holds the objects that the " +
		"broker has. So every deviation shows as a difference, and one apply repairs it. Delays are added and " +
		"removed in place.\n\n" +
		ownerDescription("ladder") + "\n\n" + rebuildDescription("ladder"),
	Table: attribute.Table[delay.LadderConfig]{
		Attributes: slices.Concat(ladderAttributes, aroundAttributes(aroundWords{
			kind: "ladder", delivery: "a topic exchange; with `dead_letter_routing_key`, one that the " +
				"ladder does not create may have any type",
			shrinking: "the removal of a delay", instead: ", or give deliver_to_queue",
		}, tfvalue.DelayPosition, func(c *delay.LadderConfig) around {
			return around{&c.Vhost, &c.Name, &c.DeliveryExchange, &c.CreateDeliveryExchange, &c.ParkUnroutable,
				&c.QueueType, &c.QueueArguments, "", &c.QuorumOptions}
		})),
		Resolve: func(given delay.LadderConfig) (attribute.Resolved[delay.LadderConfig], error) {
			l, err := given.Resolve()
			if err != nil {
				return attribute.Resolved[delay.LadderConfig]{}, err
			}
			return attribute.Resolved[delay.LadderConfig]{Config: delay.LadderConfig(l), Depiction: tfvalue.OfLadder(l),
				Scale: ladderScale}, nil
		},
	},
	recognize: func(ctx context.Context, look recognize.Lookup, vhost, entry string) (delay.LadderConfig, error) {
		l, err := recognize.Ladder(ctx, look, vhost, entry)
		return delay.LadderConfig(l), err
	},
	displayName: func(x attribute.Resolved[delay.LadderConfig]) string {
		return fmt.Sprintf("%s (%s)", cmp.Or(x.Config.Name, x.Desired.Entry), strings.Join(x.Config.Delays, ", "))
	},
	parseID: parseEntryID("retry.entry"), checkIdentity: checkEntryIdentity, find: findTopology[delay.LadderConfig],
	prepare: prepareTopology[delay.LadderConfig], say: sayOfTopology[delay.LadderConfig],
	remember: rememberTopology[delay.LadderConfig], read: readTopology[delay.LadderConfig],
	complete: keepDeliveryType, twoWays: twoWays,
	look: lookAtTopology[delay.LadderConfig], lookAtDestroy: lookAtDestroy[delay.LadderConfig],
}

// ladderScale is what the delays of a ladder are written in: the label of one stands before the address.
var ladderScale = delay.Scale{Units: []time.Duration{0}}

// ladderAttributes are those that only ladders have.
var ladderAttributes = []attribute.Attribute[delay.LadderConfig]{
	{
		Name: "entry_exchange", Decided: true, Alters: true,
		Field: attribute.Text(func(c *delay.LadderConfig) *string { return &c.EntryExchange }, "entry~a", "entry~b"),
		Doc:   "The exchange to publish to. Default: `<name>.entry`. A change replaces the ladder.",
	},
	{
		Name: "entry_exchange_type", Default: string(delay.Topic), Alters: true,
		Field: attribute.Choice(func(c *delay.LadderConfig) *delay.ExchangeType { return &c.EntryExchangeType },
			delay.Topic, delay.Direct),
		Doc: "Type of the entry exchange: `topic`, or with `binding_keys` also `direct`. A direct exchange takes " +
			"the keys as they are. Default: `topic`. A change rebuilds the ladder.",
	},
	{
		Name: "publisher",
		Schema: schema.ObjectAttribute{Computed: true, AttributeTypes: tfvalue.LadderPublisherTypes,
			MarkdownDescription: tfvalue.LadderPublisherDescription + " An output of this attribute has its planned " +
				"value, even if the apply is refused. Hand over that of the " +
				"[data source](../data-sources/ladder.md)."},
		Show: func(r *attribute.Resolved[delay.LadderConfig], _ topology.Topology, _ attr.Value) attr.Value {
			return tfvalue.LadderPublisherValue(delay.Ladder(r.Config))
		},
	},
	{
		Name:   "levels",
		Schema: schema.Int64Attribute{Computed: true, MarkdownDescription: tfvalue.LadderLevelsDescription},
		Show: func(r *attribute.Resolved[delay.LadderConfig], _ topology.Topology, _ attr.Value) attr.Value {
			return tfvalue.LadderLevelsValue(delay.Ladder(r.Config))
		},
	},
	{
		Name: "dead_letter_routing_key", Alters: true,
		Field: attribute.Text(func(c *delay.LadderConfig) *string { return &c.DeadLetterRoutingKey }, "key~a", ""),
		Doc: "Routing key with which every message gets to the delivery exchange, in the " +
			"place of its own (`x-dead-letter-routing-key`). The delay alone is then enough as " +
			"a key for publishers. A change rebuilds the ladder.",
	},
	{
		Name: "deliver_to_queue", Alters: true,
		Field: attribute.Text(func(c *delay.LadderConfig) *string { return &c.DeliverToQueue }, "work~a", "work~b", "",
			""),
		Doc: "Queue to which every message goes when its delay is over, through the default exchange " +
			"(`x-dead-letter-exchange` is empty, and `x-dead-letter-routing-key` is the queue). It takes the place " +
			"of the delivery exchange. The ladder neither declares nor changes the queue, which may come later. The " +
			"delay alone is enough as a key for publishers. See " +
			"[Ladders](../guides/ladders.md#deliver-to-one-queue). A change rebuilds the ladder.",
	},
	{
		// The delays are labels of routing keys: "60s" and "1m" are two. A single one may be all there is, so that the
		// name of its queue needs no verb.
		Name: "delays", Required: true, InPlace: true,
		Field:  attribute.Texts(func(c *delay.LadderConfig) *[]string { return &c.Delays }).Sampled(4, sampleDelays),
		SameBy: []string{"delays"},
		Same: func(_ *delay.LadderConfig, planned, state attr.Value) bool {
			return slices.Equal(sortedTexts(planned), sortedTexts(state))
		},
		Doc: "The delays, such as `[\"5s\", \"30s\", \"5m\", \"1h\"]`: durations of " +
			"whole milliseconds up to ten years (`87600h`), without a dot. As it is written, a delay is " +
			"the first word of the routing keys that ask for it. So a change from `60s` to `1m` removes " +
			"one delay and adds another. A delay that is added gets its queue in place. One that is " +
			"removed takes no further messages, and its queue is deleted as soon as it is empty. A queue " +
			"that holds messages is guarded as in a destroy. An import and a list write the shortest first. Another " +
			"order is no change.",
	},
	{
		Name: "name", Alters: true,
		Field: attribute.Text(func(c *delay.LadderConfig) *string { return &c.Name }, "name~a", "name~b"),
		Doc: "Beginning of all names that are not given. Required unless " +
			"`entry_exchange`, `queue_name` and `delivery_exchange` are given and `park_unroutable` is " +
			"`false`. A change replaces the ladder if the entry exchange gets another name, and rebuilds " +
			"it if other objects do.",
	},
	{
		Name: "queue_name", Decided: true, Alters: true,
		Field: attribute.Text(func(c *delay.LadderConfig) *delay.LabelFormat { return &c.QueueName }, "queue~a%s",
			"queue~b%s"),
		SameBy: []string{"delays"},
		Same: func(c *delay.LadderConfig, planned, state attr.Value) bool {
			return delay.LabelFormat(format(planned)).Same(delay.LabelFormat(format(state)), c.Delays)
		},
		Doc: "Names of the delay queues, as a format with `%s` in the place of the " +
			"delay; a literal percent sign is `%%`. With a single delay, a name without `%s` will do. " +
			"Default: `<name>.delay-%s`, unless `queue_names` is given. A change rebuilds the ladder.",
	},
	{
		Name: "queue_names", InPlace: true,
		Field: attribute.TextsByKey(func(c *delay.LadderConfig) *map[string]string { return &c.QueueNames }, 4,
			sampleByLabel(func(c *delay.LadderConfig) *map[string]string { return &c.QueueNames }, "queue")),
		Doc: "Names of the delay queues by delay, such as `{ \"7s\" = \"retry-1\", \"70s\" = \"retry-2\" }`, where " +
			"no `queue_name` gives them. Each of the `delays` has one. A change rebuilds the ladder, unless a delay " +
			"is only added or removed.",
	},
	{
		Name: "binding_keys", InPlace: true,
		Field: attribute.TextsByKey(func(c *delay.LadderConfig) *map[string]string { return &c.BindingKeys }, 3,
			sampleByLabel(func(c *delay.LadderConfig) *map[string]string { return &c.BindingKeys }, "key")),
		Doc: "Keys by which messages ask for the delays, as an application uses them, such as " +
			"`{ \"5s\" = \"retry.1\", \"1m\" = \"retry.2\" }`. Each of the `delays` has one. No message may fit two " +
			"of them. A message keeps its key, unless `dead_letter_routing_key` or `deliver_to_queue` is given. No " +
			"[destination](destination.md) can be made for such keys: `levels` is null. Others may bind objects of " +
			"their own to the entry exchange. These bindings are theirs, and a destroy takes them along. Default: " +
			"`<delay>.*.#`, or `<delay>.#` where all messages leave with one key. A change is an update in place. " +
			"Where a delay takes over the key of another one, it rebuilds the ladder. See " +
			"[Keys of its own](../guides/ladders.md#keys-of-its-own).",
	},
}

// sampleDelays goes by the delays that other attributes name, where these are known.
func sampleDelays(c *delay.LadderConfig, which int) {
	more := [][]string{{"11119ms"}, {"22229ms"}, nil, nil}[which]
	c.Delays = slices.Concat(c.Delays, more)
	for _, byLabel := range []map[string]string{c.BindingKeys, c.QueueNames} {
		if byLabel != nil {
			c.Delays = slices.Sorted(maps.Keys(byLabel))
		}
	}
}

// sampleByLabel gives each delay a text of its own. The third sample and those after it are none.
func sampleByLabel(
	of func(*delay.LadderConfig) *map[string]string, what string,
) func(c *delay.LadderConfig, which int) {
	return func(c *delay.LadderConfig, which int) {
		*of(c) = nil
		if which < 2 {
			*of(c) = map[string]string{}
			for _, label := range c.Delays {
				(*of(c))[label] = fmt.Sprintf("%s~%c~%s", what, 'a'+which, label)
			}
		}
	}
}

// twoWays tells whether a message may take two ways while the bindings change: an old one to one queue, and a new one
// to another.
func twoWays(before, after topology.Topology) bool {
	entry := after.Exchanges[after.Entry]
	for old := range before.Bindings {
		for added := range after.Bindings {
			if old.Source == after.Entry && added.Source == after.Entry && old.Destination != added.Destination &&
				delay.KeysMeet(delay.ExchangeType(entry.Type), old.RoutingKey, added.RoutingKey) {
				return true
			}
		}
	}
	return false
}

// sortedTexts are the elements of a list whose order means nothing.
func sortedTexts(value attr.Value) (texts []string) {
	list, _ := value.(types.List)
	for _, element := range list.Elements() {
		text, _ := element.(types.String)
		texts = append(texts, text.ValueString())
	}
	slices.Sort(texts)
	return texts
}
