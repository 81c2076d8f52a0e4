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
	name: "cascade", identity: entryIdentity,
	doc: "A delay cascade: queues, joined by dead-letter exchanges and topic bindings. An application publishes to " +
		"the entry exchange with a routing key that carries the delay word by word. The words are days, hours, " +
		"minutes and seconds, other units, or the digits of a number. The message arrives at the delivery exchange " +
		"when the delay is over.\n\n" +
		"Every exchange, queue, argument and binding is known in the plan. The state holds the objects that the " +
		"broker has. So every deviation shows as a difference, and one apply repairs it.\n\n" +
		ownerDescription("cascade") + "\n\n" + rebuildDescription("cascade"),
	Table: attribute.Table[delay.Config]{
		Attributes: slices.Concat(cascadeAttributes, aroundAttributes(aroundWords{
			kind: "cascade", delivery: "a topic exchange", shrinking: "a shorter `max_delay`",
			parking: " With a `preset`, the default is `false`, a policy makes it the alternate exchange, which " +
				"takes the tag `policymaker`, and a change is made in place. See [With Celery or NServiceBus]" +
				"(../guides/frameworks.md#parking).",
		}, tfvalue.LevelPosition, func(c *delay.Config) around {
			return around{&c.Vhost, &c.Name, &c.DeliveryExchange, &c.CreateDeliveryExchange, &c.ParkUnroutable,
				&c.QueueType, &c.QueueArguments, c.Preset, &c.QuorumOptions}
		})),
		Together: []string{"units", "max_delay", "levels", "base", "resolution", "exchange_name"},
		Resolve: func(given delay.Config) (attribute.Resolved[delay.Config], error) {
			if given.Levels != 0 { // units beside it follow from it, such as those that ignore_changes keeps
				given.Base = cmp.Or(given.Base, delay.DefaultBase)
			}
			c, err := given.Resolve()
			if err != nil {
				return attribute.Resolved[delay.Config]{}, err
			}
			return attribute.Resolved[delay.Config]{Config: configOf(c), Depiction: tfvalue.OfCascade(c),
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
	complete: keepDeliveryType,
	look:     lookAtTopology[delay.Config], lookAtDestroy: lookAtDestroy[delay.Config],
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

// withoutPreset tells whether no preset says what the value is.
func withoutPreset(c *delay.Config) bool { return c.Preset == "" }

// cascadeAttributes are those that only cascades have. The preset is first: it is known when defaults are chosen.
var cascadeAttributes = []attribute.Attribute[delay.Config]{
	{
		Name: "preset", Alters: true,
		Field: attribute.Text(func(c *delay.Config) *delay.Preset { return &c.Preset }, "", "", delay.NServiceBusV1,
			delay.Celery),
		Doc: "A cascade exactly as a framework declares it when it starts. Values are " +
			"`nservicebus` (7 and later), `nservicebus_v1` (4.3 to 6), `celery` (5.5 and later, quorum " +
			"queues) and `celery_classic`. `celery_classic` loses some of the tasks that fall due while " +
			"a node restarts, at every restart, see `queue_type`. A preset fixes everything but `vhost`, `prefix`, " +
			"`create_delivery_exchange`, `park_unroutable` and what concerns Terraform alone. A change " +
			"replaces the cascade if the entry exchange gets another name, and rebuilds it if other " +
			"objects change.",
	},
	{
		Name: "prefix", Alters: true,
		Field: attribute.Text(func(c *delay.Config) *string { return &c.Prefix }, "", "", "prefix~a", "prefix~b"),
		Doc: "What Celery puts before all names, beside one of its presets: with `tasks` the entry exchange is " +
			"`tasks_celery_delayed_27`. Default: none. A change replaces the cascade.",
	},
	{
		Name: "max_delay", Decided: true, InPlace: true,
		Field: attribute.Duration(func(c *delay.Config) *time.Duration { return &c.MaxDelay }).Sampled(6,
			sampleMaxDelay),
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
		Doc: "Longest delay that has to be possible, such as `90d`. With units it says which queues there are, `30d` " +
			"unless given. It grows and shrinks in place then: queues and bindings come and go while messages flow. " +
			"A queue that goes is guarded as in a destroy, and takes no further messages while it runs empty. Keys " +
			"reach to the end of the last unit that is needed: `30d` gives 30 days 23:59:59. With `base`, the " +
			"cascade gets the smallest number of levels that reaches it, and another number replaces the cascade. " +
			"With `levels`, it is computed. The same duration in other words is no change.",
	},
	{
		Name: "levels", Decided: true, Alters: true,
		Field: attribute.Count(func(c *delay.Config) *int { return &c.Levels }, 17, 1, 2, 8, delay.MaxLevels, 0, 0),
		Doc: fmt.Sprintf("Number of words of a delay in the uniform form, 1 to %d, in which each unit is `base` times "+
			"the next. With n levels any delay up to baseⁿ-1 times the resolution is possible. RabbitMQ accepts no "+
			"TTL over ten years. So at a resolution of one second, at most 29 levels are possible in base 2, and 8 in "+
			"base 10. Computed with `base` and `max_delay`, and none with units. A change replaces the "+
			"cascade.", delay.MaxLevels),
	},
	{
		Name: "base", Decided: true, Alters: true,
		Field: attribute.Count(func(c *delay.Config) *int { return &c.Base }, 2, 3, 10, 0, 0),
		Check: func(value attr.Value) string {
			if value.Equal(types.Int64Value(0)) { // which would stand for the default
				return fmt.Sprintf("is 0; it can be %d to %d", delay.MinBase, delay.MaxBase)
			}
			return ""
		},
		Doc: fmt.Sprintf("Base of the uniform form, %d to %d, beside `levels` or `max_delay`. Each level has a queue "+
			"for each digit but 0. In base 10 and at a resolution of one second, an hour on eight levels is "+
			"`0.0.0.0.3.6.0.0`. Frameworks and their publishers have base 2. Default: `2` with `levels`, and none "+
			"with units. A change rebuilds the cascade, and replaces it if the entry exchange gets another name. "+
			"After a rebuild, keys of the old base are other delays.", delay.MinBase, delay.MaxBase),
	},
	{
		Name: "resolution", Decided: true, Alters: true,
		Field: attribute.Duration(func(c *delay.Config) *time.Duration { return &c.Resolution }, time.Second,
			time.Millisecond, time.Hour, 0, 0),
		Doc: "Step of all delays and shortest TTL of the uniform form, `1ms` or a multiple of it. Default: `1s` with " +
			"`levels` or `base`, and none with units, the last of which it is. A change rebuilds the cascade.",
	},
	{
		Name: "units", Decided: true, Alters: true,
		Field: attribute.Durations(func(c *delay.Config) *[]time.Duration { return &c.Units },
			func(c *delay.Config) []time.Duration { return delay.Cascade(*c).Scale().Units }).Sampled(4, sampleUnits),
		Doc: "What a 1 stands for in each word of a routing key, the largest first, each a multiple of the next. " +
			"With `[\"1d\", \"1h\", \"1m\", \"1s\"]`, the key `0.1.30.0.billing` waits an hour and a half. Each " +
			"level has a queue for each multiple of its unit below the unit before, and none over `max_delay`. There " +
			"can be 1 to 12 units, from `1ms` on, and 1,024 queues. See [Choosing units](../guides/units.md). " +
			"Default: days, hours, minutes and seconds, unless `levels`, `base` or `preset` is given. Otherwise " +
			"computed. A change replaces the cascade.",
	},
	{
		Name: "exchange_name", Decided: true, Alters: true,
		Field: attribute.Text(func(c *delay.Config) *delay.Format { return &c.ExchangeName }, "exchange~a%d",
			"exchange~b%d", "exchange~a%s", "exchange~b%s"),
		SameBy: []string{"base", "levels"},
		Same: func(c *delay.Config, planned, state attr.Value) bool {
			return isUniform(c) && format(planned).Same(format(state), c.Levels)
		},
		Doc: "Names of the level exchanges, as a format. With units it has one `%s` for the units from a level on: " +
			"`d.h.m.s`, `h.m.s`. Otherwise it has one integer verb for the level, such as `%d` or `%02d`. A literal " +
			"percent sign is `%%`. Default: `<name>.%s` with units, otherwise `<name>.delay-%02d`. A change replaces " +
			"the cascade, or rebuilds it if the entry exchange keeps its name.",
	},
	{
		Name: "lookahead", Decided: true,
		Field: attribute.Count(func(c *delay.Config) *int { return &c.Lookahead }, 1, 1, 2),
		Doc: "How many words of a routing key an exchange looks at, 1 to the number of words of a delay. So a " +
			"message skips the levels at which it need not wait. With all, the entry takes a message of 30 s " +
			"straight to the queue of 30 s. With 1, the classic chain, it first passes the exchanges of days, hours " +
			"and minutes. Default: all, the fastest. Changes in place, without losing or doubling a message.",
	},
	{
		Name: "strict_keys", Decided: true,
		Field: attribute.Flag(func(c *delay.Config) *bool { return &c.StrictKeys }, withoutPreset),
		Doc: "Whether the entry exchange sorts out malformed routing keys at once: those with too few words for a " +
			"delay and an address. Such messages are parked, see `park_unroutable`. Otherwise they may wait for most " +
			"of the range before they go astray. The entry looks at the words up to the first that is not 0, and " +
			"counts those behind it. A wrong word among these is parked by the exchange that has to look at it, " +
			"which may be after a wait. Default: `true`. Changes in place.",
	},
	{
		Name: "internal_levels", Default: false, Alters: true,
		Field: attribute.Flag(func(c *delay.Config) *bool { return &c.InternalLevels }, nil),
		Doc: "Whether the exchanges below the entry are internal: they take messages from the cascade alone, and the " +
			"broker refuses those of publishers. After a change of `levels`, an old entry does so, too. RabbitMQ " +
			"leaves internal exchanges out of exported definitions, so a backup does not restore them, see " +
			"[the limits](../guides/guarantees.md#where-the-limits-are). Default: `false`. A change rebuilds the " +
			"cascade.",
	},
	{
		Name:   "entry_exchange",
		Schema: tfvalue.ComputedText("The exchange to publish to: that of the highest level."),
		Show: func(_ *attribute.Resolved[delay.Config], there topology.Topology, _ attr.Value) attr.Value {
			return types.StringValue(there.Entry)
		},
	},
	{
		Name: "publisher",
		Schema: schema.ObjectAttribute{Computed: true, AttributeTypes: tfvalue.PublisherTypes,
			MarkdownDescription: tfvalue.PublisherDescription + " An output of this attribute has its planned value, " +
				"even if the apply is refused. Hand over that of the " +
				"[data source](../data-sources/cascade.md)."},
		Show: func(r *attribute.Resolved[delay.Config], _ topology.Topology, _ attr.Value) attr.Value {
			return tfvalue.PublisherValue(delay.Cascade(r.Config))
		},
	},
	{
		Name: "policies", Schema: tfvalue.PoliciesAttribute,
		Show: func(r *attribute.Resolved[delay.Config], there topology.Topology, _ attr.Value) attr.Value {
			return tfvalue.PoliciesValue(r.Desired, there)
		},
	},
	{
		Name: "name", Alters: true,
		Field: attribute.Text(func(c *delay.Config) *string { return &c.Name }, "name~a", "name~b"),
		Doc: "Beginning of all names that are not given. Required unless there is a " +
			"`preset`, or `exchange_name`, `queue_name` and `delivery_exchange` are given and " +
			"`park_unroutable` is `false`. A change replaces the cascade if the entry exchange gets " +
			"another name, and rebuilds it if other objects do.",
	},
	{
		Name: "queue_name", Decided: true, Alters: true,
		Field: attribute.Text(func(c *delay.Config) *delay.Format { return &c.QueueName }, "queue~a%d", "queue~b%d",
			"queue~a%d-%x", "queue~b%d-%x", "queue~a%s", "queue~b%s"),
		SameBy: []string{"base", "levels"},
		Same: func(c *delay.Config, planned, state attr.Value) bool {
			return isUniform(c) && format(planned).SameQueues(format(state), c.Base, c.Levels)
		},
		Doc: "Names of the delay queues, likewise. With units, `%s` is the delay: `7d`, `1h30m`. With a `base` over " +
			"2 it has a second integer verb, for the digit. Default: `<name>.%s` with units, otherwise " +
			"`<name>.delay-%02d`, or `<name>.delay-%02d-%x` with a `base` over 2. A change rebuilds the cascade.",
	},
}

// sampleMaxDelay is none, one for some levels of the uniform form, or that with the fewest queues of units, or a few
// for each unit.
func sampleMaxDelay(c *delay.Config, which int) {
	c.MaxDelay = []time.Duration{0, 0, time.Hour, time.Millisecond, time.Second, 0}[which]
	if which > 3 && len(c.Units) > 0 {
		c.MaxDelay = []time.Duration{c.Units[len(c.Units)-1], 2 * c.Units[0]}[which-4]
	}
}

// sampleUnits are none, or such as agree with what else is given.
func sampleUnits(c *delay.Config, which int) {
	c.Units = nil
	if which < 2 {
		return
	}
	u := delay.Uniform{Base: cmp.Or(c.Base, which), Levels: cmp.Or(c.Levels, 2), Resolution: c.Resolution}
	reach := cmp.Or(c.MaxDelay, delay.DefaultMaxDelay).Truncate(time.Millisecond)
	switch {
	case u.Resolution > 0:
	case which == 2: // few queues
		u.Resolution = time.Millisecond
		const queues = 100
		u.Resolution = max(time.Millisecond,
			(reach / (queues * u.Scale().Units[0] / time.Millisecond)).Truncate(time.Millisecond))
	default: // one
		u.Resolution = max(reach, time.Millisecond)
	}
	c.Units = u.Scale().Units
}

func format(value attr.Value) delay.Format {
	given, _ := value.(types.String)
	return delay.Format(given.ValueString())
}
