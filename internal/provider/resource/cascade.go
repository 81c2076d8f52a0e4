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
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// cascades are the resources rabbitmqdelay_cascade.
var cascades = &kind[delay.Config]{
	name: recognize.KindCascade, identity: entryIdentity,
	doc: "A delay cascade: queues, joined by dead-letter exchanges and topic bindings. An application publishes to " +
		"the entry exchange with a routing key that carries the delay word by word. The words are days, hours, " +
		"minutes and seconds, other units, or the digits of a number. The message arrives at the delivery exchange " +
		"when the delay is over.\n\n" +
		"The plan shows every exchange, queue, argument and binding. The state holds the objects that the broker " +
		"has. So a plan shows every deviation as a difference, and one apply repairs all of them.\n\n" +
		ownerDescription("cascade") + "\n\n" + rebuildDescription("cascade"),
	Table: attribute.Table[delay.Config]{
		Attributes: slices.Concat(cascadeAttributes, aroundAttributes(aroundWords{
			kind: "cascade", delivery: "a topic exchange", shrinking: "a shorter `max_delay`",
			parking: " With a `preset`, the default is `false`, and a change is made in place. A policy then sets " +
				"the alternate exchange, for which the provider's user needs the tag `policymaker`. See [Celery " +
				"and NServiceBus](../guides/frameworks.md#parking).",
		}, tfvalue.LevelPosition, aroundCascade)),
		StandIn: standInForCascade,
		Resolve: func(given delay.Config) (attribute.Resolved[delay.Config], error) {
			if given.Levels != 0 { // units beside it follow from it, such as those that ignore_changes keeps
				given.Base = cmp.Or(given.Base, delay.DefaultBase)
			}
			c, err := given.Resolve()
			if err != nil {
				return attribute.Resolved[delay.Config]{}, err
			}
			return attribute.Resolved[delay.Config]{Config: configOf(c), ObjectMaps: tfvalue.OfCascade(c),
				Scale: c.Scale()}, nil
		},
	},
	recognize: func(ctx context.Context, look recognize.Lookup, vhost, entry string) (delay.Config, error) {
		c, err := recognize.Cascade(ctx, look, vhost, entry)
		return configOf(c), err
	},
	displayName: func(x attribute.Resolved[delay.Config]) string {
		name := cmp.Or(string(x.Config.Preset), x.Config.Name, x.Desired.Entry)
		words := plaintext.Count(x.Config.Levels, "level")
		if !isUniform(&x.Config) {
			words = delay.UnitsInWords(x.Config.Units)
		}
		return fmt.Sprintf("%s (%s, up to %s)", name, words, plaintext.Duration(x.Config.MaxDelay))
	},
	parseID: parseEntryID("orders.d.h.m.s"), checkIdentity: checkEntryIdentity, find: findTopology[delay.Config],
	prepare: prepareTopology[delay.Config], say: sayOfTopology[delay.Config],
	remember: rememberTopology[delay.Config], read: readTopology[delay.Config],
	complete: planDeliveryType,
	look:     lookAtTopology[delay.Config], lookAtDestroy: lookAtTopologyDestroy[delay.Config],
}

// aroundCascade is the part of a cascade that ladders have, too.
func aroundCascade(c *delay.Config) around {
	return around{&c.Vhost, &c.Name, &c.DeliveryExchange, &c.CreateDeliveryExchange, &c.ParkUnroutable, &c.QueueType,
		&c.QueueArguments, c.Preset, &c.QuorumOptions}
}

// standInForCascade takes out what depends on the number of words of a delay, where that is not known. Then units count
// as unknown. The name form counts as unknown if there may be units or a base. The name entry
// counts as unknown if the name of the entry has the name or the prefix in it.
func standInForCascade(c *delay.Config, unknown map[string]bool) {
	aroundCascade(c).standIn(unknown, c.Preset == "")
	if unknown["units"] {
		c.Units = nil // one of which may be known
	}
	unknown["entry"] = c.Preset != "" && unknown["prefix"] ||
		c.Preset == "" && c.ExchangeName == "" && unknown["name"]
	isUniform := c.Base != 0
	switch {
	case !unknown["preset"] && (c.Preset != "" || c.Levels != 0): // which say how many
	case unknown["preset"], unknown["levels"], unknown["base"], unknown["units"],
		isUniform && (unknown["max_delay"] || unknown["resolution"]):
		unknown["units"] = true
		unknown["form"] = unknown["preset"] || !isUniform && (unknown["levels"] || unknown["base"])
		unknown["levels"] = isUniform || unknown["form"]
		c.Units, c.Levels, c.MaxDelay, c.Resolution, c.Lookahead = nil, 0, 0, 0, 0
		c.ExchangeName, c.QueueName = "", ""
		if isUniform {
			c.Levels = 1
		}
	case unknown["max_delay"] && len(c.Units) > 0:
		c.MaxDelay = c.Units[len(c.Units)-1] // the default may be too long
	}
}

// configOf has no levels beside units, as the attributes have none.
func configOf(c delay.Cascade) delay.Config {
	if !c.IsUniform() {
		c.Levels = 0
	}
	return delay.Config(c)
}

// isUniform tells it of a plan or a state. These have units of the uniform form, too.
func isUniform(c *delay.Config) bool { return delay.Cascade(*c).IsUniform() }

// cascadeAttributes are those that only cascades have. The preset is first: it is known when defaults are chosen.
var cascadeAttributes = []attribute.Attribute[delay.Config]{
	{
		Name: "preset", Alters: true,
		Field: attribute.Text(func(c *delay.Config) *delay.Preset { return &c.Preset }),
		Doc: "Framework whose cascade to declare, exactly as the framework declares the cascade at its start. Values " +
			"are `nservicebus` (7 and later), `nservicebus_v1` (4.3 to 6), `celery` (5.5 and later, quorum queues) " +
			"and `celery_classic`. `celery_classic` loses some of the tasks that fall due while a node restarts, at " +
			"every restart, see `queue_type`. A preset fixes all attributes but `vhost`, `prefix`, " +
			"`create_delivery_exchange`, `park_unroutable` and the attributes that concern Terraform alone. A change " +
			"replaces the cascade if the entry exchange gets another name, and rebuilds it if other objects change.",
	},
	{
		Name: "prefix", Alters: true, CheckedBy: namesBy,
		Field: attribute.Text(func(c *delay.Config) *string { return &c.Prefix }),
		Doc: "Prefix that Celery puts before all names, for a preset of Celery: with `tasks`, the entry exchange is " +
			"`tasks_celery_delayed_27`. Default: none. A change replaces the cascade.",
	},
	{
		Name: "max_delay", Decided: true, From: []string{"form", "levels", "base", "resolution"}, InPlace: true,
		Field: attribute.Duration(func(c *delay.Config) *time.Duration { return &c.MaxDelay }),
		// An import takes the longest delay of the uniform form, and the longest TTL with units. Another value for
		// which it takes the same queues is no difference.
		SameBy: []string{"units", "base", "levels", "resolution"},
		Same: func(c *delay.Config, planned, state attr.Value) bool {
			longest := func(value attr.Value) time.Duration {
				of := delay.Cascade(*c)
				of.MaxDelay = attribute.Values{"max_delay": value}.Duration("max_delay")
				return of.Scale().Longest
			}
			if !isUniform(c) {
				return longest(planned) == longest(state)
			}
			return tfvalue.SameDuration(tfvalue.DurationValue(longest(planned)), state)
		},
		Doc: "Longest delay that has to be possible, such as `90d`. With units, `max_delay` decides which queues the " +
			"cascade has, and the default is `30d`. A change is then made in place: the provider adds or removes " +
			"queues and bindings while messages flow. A queue that goes is guarded as in a destroy, and takes no " +
			"further messages while it runs empty. Keys reach to the end of the last unit that is needed: `30d` " +
			"gives 30 days 23:59:59. With `base`, the cascade gets the smallest number of levels for this delay, and " +
			"another number replaces the cascade. With `levels`, the provider computes `max_delay`. The same " +
			"duration in other words is no change.",
	},
	{
		Name: "levels", Decided: true, From: []string{"form"}, CheckedBy: scaleBy, Alters: true,
		Field: attribute.Count(func(c *delay.Config) *int { return &c.Levels }),
		Doc: fmt.Sprintf("Number of words of a delay in the uniform form, 1 to %d, in which each unit is `base` "+
			"times the next. With n levels any delay up to baseⁿ-1 times the resolution is possible. RabbitMQ "+
			"accepts no TTL over ten years. So at a resolution of one second, at most 29 levels are possible in base "+
			"2, and 8 in base 10. Default: computed with `base` and `max_delay`, none with units. A change replaces "+
			"the cascade.", delay.MaxLevels),
	},
	{
		Name: "base", Decided: true, From: []string{"form"}, Alters: true,
		Field: attribute.Count(func(c *delay.Config) *int { return &c.Base }),
		Check: func(value attr.Value) string {
			if value.Equal(types.Int64Value(0)) { // which would stand for the default
				return fmt.Sprintf("is 0; it can be %d to %d", delay.MinBase, delay.MaxBase)
			}
			return ""
		},
		Doc: fmt.Sprintf("Base of the uniform form, %d to %d, beside `levels` or `max_delay`. Each level has a queue "+
			"for each digit but 0. In base 10 and at a resolution of one second, an hour on eight levels is "+
			"`0.0.0.0.3.6.0.0`. Frameworks and their publishers use base 2. Default: `2` with `levels`, none with "+
			"units. A change rebuilds the cascade, and replaces it if the entry exchange gets another name. After a "+
			"rebuild, keys of the old base mean other delays.", delay.MinBase, delay.MaxBase),
	},
	{
		Name: "resolution", Decided: true, From: []string{"form"}, CheckedBy: scaleBy, Alters: true,
		Field: attribute.Duration(func(c *delay.Config) *time.Duration { return &c.Resolution }),
		Doc: "Step of all delays and shortest TTL of the uniform form, `1ms` or a multiple of it. Default: `1s` with " +
			"`levels` or `base`, none with units, whose last unit is the resolution. A change rebuilds the cascade, " +
			"and replaces it if the entry exchange gets another name.",
	},
	{
		Name: "units", Decided: true, From: []string{"form", "base", "resolution"}, CheckedBy: scaleBy, Alters: true,
		Field: attribute.Durations(func(c *delay.Config) *[]time.Duration { return &c.Units },
			func(c *delay.Config) []time.Duration { return delay.Cascade(*c).Scale().Units }),
		Doc: "Duration that a 1 stands for in each word of a routing key. The largest unit is first, and each unit " +
			"is a multiple of the next. With `[\"1d\", \"1h\", \"1m\", \"1s\"]`, the key `0.1.30.0.billing` waits an " +
			"hour and a half. Each level has a queue for each multiple of its unit below the unit before, and none " +
			"over `max_delay`. A cascade can have 1 to 12 units, each of `1ms` or more, and up to 1,024 queues. See " +
			"[Choosing units](../guides/units.md). Default: days, hours, minutes and seconds, unless `levels`, " +
			"`base` or `preset` is given. Otherwise, the provider computes `units`. A change replaces the cascade.",
	},
	{
		Name: "exchange_name", Decided: true, From: []string{"form", "prefix", "name"}, CheckedBy: namesBy,
		Alters: true,
		Field:  attribute.Text(func(c *delay.Config) *delay.Format { return &c.ExchangeName }),
		SameBy: []string{"base", "levels"},
		Same: func(c *delay.Config, planned, state attr.Value) bool {
			return isUniform(c) && format(planned).Same(format(state), c.Levels)
		},
		Doc: "Names of the level exchanges, as a format. With units, the format has one `%s` for the units from a " +
			"level on: `d.h.m.s`, `h.m.s`. Otherwise, the format has one integer verb for the level, such as `%d` or " +
			"`%02d`. A literal percent sign is `%%`. Default: `<name>.%s` with units, otherwise `<name>.delay-%02d`. " +
			"A change replaces the cascade, or rebuilds it if the entry exchange keeps its name.",
	},
	{
		Name: "lookahead", Decided: true, From: []string{"units"},
		Field: attribute.Count(func(c *delay.Config) *int { return &c.Lookahead }),
		Doc: "How many words of a routing key an exchange looks at, 1 to the number of words of a delay. So a " +
			"message skips the levels at which it need not wait. With all words, the entry routes a message of 30 s " +
			"straight to the queue of 30 s. With 1, the classic chain, the message first passes the exchanges of " +
			"days, hours and minutes. Default: all, the fastest. Changes in place, without losing or doubling a " +
			"message.",
	},
	{
		Name: "strict_keys", Decided: true, From: []string{"preset"},
		Field: attribute.Flag(func(c *delay.Config) *bool { return &c.StrictKeys },
			func(c *delay.Config) bool { return c.Preset == "" }),
		Doc: "Whether the entry exchange sorts out malformed routing keys at once: keys with too few words for a " +
			"delay and an address. Messages with such keys are parked, see `park_unroutable`. Otherwise, the " +
			"messages may wait for most of the range before they go astray. The entry looks at the words up to the " +
			"first that is not 0, and counts the words behind it. A message with a wrong word among those is parked, " +
			"possibly after part of the delay. Default: `true`. Changes in place.",
	},
	{
		Name: "internal_levels", Default: false, CheckedBy: []string{"preset"}, Alters: true,
		Field: attribute.Flag(func(c *delay.Config) *bool { return &c.InternalLevels }, nil),
		Doc: "Whether the exchanges below the entry are internal. Internal exchanges take messages from the cascade " +
			"alone: the broker refuses the messages of publishers. After a change of `levels`, an old entry refuses " +
			"publishers, too. RabbitMQ leaves internal exchanges out of exported definitions, so a backup does not " +
			"restore them, see [the limits](../guides/guarantees.md#where-the-limits-are). Default: `false`. A " +
			"change rebuilds the cascade.",
	},
	{
		Name: "entry_exchange", From: []string{"units", "exchange_name", "entry"},
		Schema: tfvalue.ComputedText("The exchange to publish to: the exchange of the highest level."),
		Show: func(_ *attribute.Resolved[delay.Config], there topology.Topology, _ attr.Value) attr.Value {
			return types.StringValue(there.Entry)
		},
	},
	{
		Name: "publisher", From: slices.Concat(entryBy, scaleBy),
		Schema: schema.ObjectAttribute{Computed: true, AttributeTypes: tfvalue.PublisherTypes,
			MarkdownDescription: tfvalue.PublisherDescription + " An output of this attribute has its planned value, " +
				"even if the apply is refused. Hand over the object of the [data source](../data-sources/cascade.md)."},
		Show: func(r *attribute.Resolved[delay.Config], _ topology.Topology, _ attr.Value) attr.Value {
			return tfvalue.PublisherValue(r.Desired.Entry, r.Scale)
		},
	},
	{
		Name: "policies", Schema: tfvalue.PoliciesAttribute,
		From: []string{"preset", "prefix", "name", "park_unroutable", "create_delivery_exchange"},
		Show: func(r *attribute.Resolved[delay.Config], there topology.Topology, _ attr.Value) attr.Value {
			return tfvalue.PoliciesValue(r.Desired, there)
		},
	},
	{
		Name: "name", CheckedBy: namesBy, Alters: true,
		Field: attribute.Text(func(c *delay.Config) *string { return &c.Name }),
		Doc: "Beginning of all names that are not given. Required unless there is a " +
			"`preset`, or `exchange_name`, `queue_name` and `delivery_exchange` are given and " +
			"`park_unroutable` is `false`. A change replaces the cascade if the entry exchange gets " +
			"another name, and rebuilds it if other objects do.",
	},
	{
		Name: "queue_name", Decided: true, From: []string{"form", "prefix", "name", "base"}, CheckedBy: namesBy,
		Alters: true,
		Field:  attribute.Text(func(c *delay.Config) *delay.Format { return &c.QueueName }),
		SameBy: []string{"base", "levels"},
		Same: func(c *delay.Config, planned, state attr.Value) bool {
			return isUniform(c) && format(planned).SameQueues(format(state), c.Base, c.Levels)
		},
		Doc: "Names of the delay queues, as a format like `exchange_name`. With units, `%s` is the delay: `7d`, " +
			"`1h30m`. With a `base` over 2, the format has a second integer verb, for the digit. Default: " +
			"`<name>.%s` with units, otherwise `<name>.delay-%02d`, or `<name>.delay-%02d-%x` with a `base` over 2. " +
			"A change rebuilds the cascade.",
	},
}

func format(value attr.Value) delay.Format { return delay.Format(tfvalue.TextIn(value)) }

// FindCascades are the cascades of a vhost.
func FindCascades(ctx context.Context, vhost string, in *recognize.Inventory) ([]Found, error) {
	return findAll(ctx, cascades, vhost, in)
}
