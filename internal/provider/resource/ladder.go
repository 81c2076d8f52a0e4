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
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ladders are the resources rabbitmqdelay_ladder.
var ladders = &kind[delay.LadderConfig]{
	name: recognize.KindLadder, identity: entryIdentity,
	doc: "A few fixed delays, each with a queue of its own, for retries with backoff and the like. An application " +
		"publishes to the entry exchange with the routing key `<delay>.<address>`, such as `30s.orders`. The message " +
		"arrives at the delivery exchange, with that key, when the delay is over. Where any delay has to be " +
		"possible, take a [cascade](cascade.md).\n\n" +
		"The plan shows every exchange, queue, argument and binding. The state holds the objects that the broker " +
		"has. So a plan shows every deviation as a difference, and one apply repairs all of them. Delays are added " +
		"and removed in place.\n\n" +
		ownerDescription("ladder") + "\n\n" + rebuildDescription("ladder"),
	Table: attribute.Table[delay.LadderConfig]{
		Attributes: slices.Concat(ladderAttributes, aroundAttributes(aroundWords{
			kind: "ladder", delivery: "a topic exchange. With `dead_letter_routing_key`, an exchange that the ladder " +
				"does not create may have any type",
			shrinking: "the removal of a delay", instead: ", or give deliver_to_queue",
		}, tfvalue.DelayPosition, aroundLadder)),
		StandIn: standInForLadder,
		Resolve: func(given delay.LadderConfig) (attribute.Resolved[delay.LadderConfig], error) {
			l, err := given.Resolve()
			if err != nil {
				return attribute.Resolved[delay.LadderConfig]{}, err
			}
			return attribute.Resolved[delay.LadderConfig]{Config: delay.LadderConfig(l),
				ObjectMaps: tfvalue.OfLadder(l), Scale: ladderScale}, nil
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
	beside: besideLadder, complete: planDeliveryType, twoWays: takesTwoWays, checkTogether: checkDeliversToQueue,
	keys: func(c delay.LadderConfig) map[string]string { return delay.Ladder(c).Keys() },
	look: func(ctx context.Context, r *managed[delay.LadderConfig], p planning[delay.LadderConfig]) {
		lookAtTopology(ctx, r, p)
		p.resp.Diagnostics.Append(warnLiteral(p)...)
	},
	lookAtDestroy: lookAtTopologyDestroy[delay.LadderConfig],
}

// aroundLadder is the part of a ladder that cascades have, too.
func aroundLadder(c *delay.LadderConfig) around {
	return around{&c.Vhost, &c.Name, &c.DeliveryExchange, &c.CreateDeliveryExchange, &c.ParkUnroutable, &c.QueueType,
		&c.QueueArguments, "", &c.QuorumOptions}
}

// standInForLadder has the delays that other attributes name, and a key for each.
func standInForLadder(c *delay.LadderConfig, unknown map[string]bool) {
	aroundLadder(c).standIn(unknown, c.DeliverToQueue == "")
	if unknown["delays"] {
		c.Delays = []string{"1s"}
		for _, byLabel := range []map[string]string{c.BindingKeys, c.QueueNames} {
			if byLabel != nil {
				c.Delays = slices.Sorted(maps.Keys(byLabel))
			}
		}
	}
	if unknown["binding_keys"] {
		c.BindingKeys = map[string]string{}
		for _, label := range c.Delays {
			c.BindingKeys[label] = label
		}
	}
}

// besideLadder names the queues that an import leaves out: a damaged delay queue is one of these. Where a missing
// delivery exchange is taken for a topic exchange, it says so.
func besideLadder(
	ctx context.Context, there *recognize.Inventory, vhost string, config delay.LadderConfig,
) (diags diag.Diagnostics) {
	l := delay.Ladder(config)
	s := diagnose.OfEntry(recognize.KindLadder, vhost, l.EntryExchange)
	leftOut, err := recognize.LeftOut(ctx, there, l.Expand())
	if err != nil {
		return diag.Diagnostics{s.Failed("import", err)}
	}
	diags.Append(s.LeavesOut(leftOut)...)
	diags.Append(s.Unbound(there.Unbound(l.Expand()))...)
	if there.AssumesTopic(l) {
		diags.Append(s.AssumesTopic(l.DeliveryExchange))
	}
	return diags
}

// checkDeliversToQueue refuses to say of a delivery exchange who creates it where there is none.
func checkDeliversToQueue(config attribute.Values) delay.Errors {
	const name = "create_delivery_exchange"
	queue := config.Text("deliver_to_queue")
	if queue == "" || !tfvalue.IsGiven(config[name]) || config.IsTrue(name) { // an import writes that it is true
		return nil
	}
	return delay.Errors{{Attribute: name, Message: fmt.Sprintf("is false beside deliver_to_queue, %q, with which "+
		"there is no delivery exchange; leave one of the two out", queue)}}
}

// warnLiteral says of new keys of a direct exchange that they look like patterns.
func warnLiteral(p planning[delay.LadderConfig]) diag.Diagnostics {
	isSame := func(name string) bool { return p.state != nil && p.state[name].Equal(p.plan[name]) }
	const kind, keys = "entry_exchange_type", "binding_keys"
	if p.plan.Text(kind) != string(delay.Direct) || isSame(kind) && isSame(keys) {
		return nil
	}
	var patterns []string
	given, _ := p.plan[keys].(types.Map)
	for _, element := range given.Elements() {
		if key := tfvalue.TextIn(element); topology.ParseTopicKey(key).IsPattern() {
			patterns = append(patterns, key)
		}
	}
	slices.Sort(patterns)
	s := diagnose.OfEntry(recognize.KindLadder, p.plan.Text("vhost"), p.plan.Text("entry_exchange"))
	return s.LiteralKeys(patterns)
}

// ladderScale is what the delays of a ladder are written in: the label of one stands before the address.
var ladderScale = delay.Scale{Units: []time.Duration{0}}

// ladderAttributes are those that only ladders have.
var ladderAttributes = []attribute.Attribute[delay.LadderConfig]{
	{
		Name: "entry_exchange", Decided: true, From: []string{"name"}, CheckedBy: namesBy, Alters: true,
		Field: attribute.Text(func(c *delay.LadderConfig) *string { return &c.EntryExchange }),
		Doc:   "The exchange to publish to. Default: `<name>.entry`. A change replaces the ladder.",
	},
	{
		Name: "entry_exchange_type", Default: string(delay.Topic), CheckedBy: []string{"binding_keys"}, Alters: true,
		Field: attribute.Text(func(c *delay.LadderConfig) *delay.ExchangeType { return &c.EntryExchangeType }),
		Doc: "Type of the entry exchange: `topic`, or with `binding_keys` also `direct`. A direct exchange takes " +
			"the keys as they are. Default: `topic`. A change rebuilds the ladder.",
	},
	{
		Name: "publisher", From: slices.Concat(entryBy, []string{"delays", "binding_keys"}),
		Schema: schema.ObjectAttribute{Computed: true, AttributeTypes: tfvalue.LadderPublisherTypes,
			MarkdownDescription: tfvalue.LadderPublisherDescription + " An output of this attribute has its planned " +
				"value, even if the apply is refused. Hand over the object of the [data " +
				"source](../data-sources/ladder.md)."},
		Show: func(r *attribute.Resolved[delay.LadderConfig], _ topology.Topology, _ attr.Value) attr.Value {
			return tfvalue.LadderPublisherValue(delay.Ladder(r.Config))
		},
	},
	{
		Name: "levels", From: []string{"dead_letter_routing_key", "deliver_to_queue", "binding_keys"},
		Schema: schema.Int64Attribute{Computed: true, MarkdownDescription: tfvalue.LadderLevelsDescription},
		Show: func(r *attribute.Resolved[delay.LadderConfig], _ topology.Topology, _ attr.Value) attr.Value {
			return tfvalue.NumberOrNull(delay.Ladder(r.Config).Levels())
		},
	},
	{
		Name: "dead_letter_routing_key", CheckedBy: []string{"deliver_to_queue"}, Alters: true,
		Field: attribute.Text(func(c *delay.LadderConfig) *string { return &c.DeadLetterRoutingKey }),
		Doc: "Routing key with which every message gets to the delivery exchange, in place of its own key " +
			"(`x-dead-letter-routing-key`). The delay alone is then enough as a key for publishers. A change " +
			"rebuilds the ladder.",
	},
	{
		Name: "deliver_to_queue", CheckedBy: namesBy, Alters: true,
		Field: attribute.Text(func(c *delay.LadderConfig) *string { return &c.DeliverToQueue }),
		Doc: "Queue to which every message goes when its delay is over, through the default exchange " +
			"(`x-dead-letter-exchange` is empty, and `x-dead-letter-routing-key` is the queue). This queue takes the " +
			"place of the delivery exchange. The ladder neither declares nor changes the queue, which may come " +
			"later. The delay alone is enough as a key for publishers. See " +
			"[Deliver to one queue](../guides/ladders.md#deliver-to-one-queue). A change rebuilds the ladder.",
	},
	{
		// The delays are labels of routing keys: "60s" and "1m" are two. A single one may be all there is, so that the
		// name of its queue needs no verb.
		Name: "delays", Required: true, InPlace: true,
		Field:  attribute.Texts(func(c *delay.LadderConfig) *[]string { return &c.Delays }),
		SameBy: []string{"delays"},
		Same: func(_ *delay.LadderConfig, planned, state attr.Value) bool {
			sorted := func(list attr.Value) []string { return slices.Sorted(slices.Values(tfvalue.TextsIn(list))) }
			return slices.Equal(sorted(planned), sorted(state))
		},
		Doc: "The delays, such as `[\"5s\", \"30s\", \"5m\", \"1h\"]`: durations of whole milliseconds up to ten " +
			"years (`87600h`), without a dot. A delay, exactly as written, is the first word of the routing keys " +
			"that ask for this delay. So a change from `60s` to `1m` removes one delay and adds another. An added " +
			"delay gets its queue in place. A removed delay takes no further messages, and its queue is deleted as " +
			"soon as the queue is empty. A queue that holds messages is guarded as in a destroy. An import and a " +
			"list write the shortest first. Another order is no change.",
	},
	{
		Name: "name", CheckedBy: namesBy, Alters: true,
		Field: attribute.Text(func(c *delay.LadderConfig) *string { return &c.Name }),
		Doc: "Beginning of all names that are not given. Required unless " +
			"`entry_exchange`, `queue_name` and `delivery_exchange` are given and `park_unroutable` is " +
			"`false`. A change replaces the ladder if the entry exchange gets another name, and rebuilds " +
			"it if other objects do.",
	},
	{
		Name: "queue_name", Decided: true, From: []string{"name", "queue_names"}, CheckedBy: namesBy, Alters: true,
		Field:  attribute.Text(func(c *delay.LadderConfig) *delay.Format { return &c.QueueName }),
		SameBy: []string{"delays"},
		Same: func(c *delay.LadderConfig, planned, state attr.Value) bool {
			return format(planned).SameLabelled(format(state), c.Delays)
		},
		Doc: "Names of the delay queues, as a format with `%s` in the place of the delay; a literal percent sign is " +
			"`%%`. With a single delay, a name without `%s` is enough. Default: `<name>.delay-%s`, unless " +
			"`queue_names` is given. A change rebuilds the ladder.",
	},
	{
		Name: "queue_names", CheckedBy: namesBy, InPlace: true,
		Field: attribute.TextsByKey(func(c *delay.LadderConfig) *map[string]string { return &c.QueueNames }),
		Doc: "Names of the delay queues by delay, such as `{ \"7s\" = \"retry-1\", \"70s\" = \"retry-2\" }`, where " +
			"no `queue_name` gives them. Each of the `delays` has one. A change rebuilds the ladder, unless a delay " +
			"is only added or removed.",
	},
	{
		Name: "binding_keys", CheckedBy: []string{"delays", "entry_exchange_type"}, InPlace: true,
		Field: attribute.TextsByKey(func(c *delay.LadderConfig) *map[string]string { return &c.BindingKeys }),
		Doc: "Keys by which messages ask for the delays, as an application uses them, such as `{ \"5s\" = " +
			"\"retry.1\", \"1m\" = \"retry.2\" }`. Each of the `delays` has one. No message may fit two keys. A " +
			"message keeps its key, unless `dead_letter_routing_key` or `deliver_to_queue` is given. No " +
			"[destination](destination.md) can be made for such keys: `levels` is null. Other applications may bind " +
			"their own objects to the entry exchange. The ladder leaves these bindings alone, but a destroy removes " +
			"them with the exchange. Default: `<delay>.*.#`, or `<delay>.#` where all messages leave with one key. A " +
			"change is an update in place, and the plan names the keys that go. A change by which a delay takes over " +
			"the key of another delay rebuilds the ladder. See [Keys of its " +
			"own](../guides/ladders.md#keys-of-its-own).",
	},
}

// takesTwoWays tells whether a message may take two ways while the bindings change: an old one to one queue, and a new
// one to another.
func takesTwoWays(before, after topology.Topology) bool {
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

// FindLadders are the ladders of a vhost.
func FindLadders(ctx context.Context, vhost string, in *recognize.Inventory) ([]Found, error) {
	return findAll(ctx, ladders, vhost, in)
}
