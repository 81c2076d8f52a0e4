package resource

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What values follow from, in a cascade or a ladder. Those that only the other one has are never unknown.
var (
	scaleBy     = []string{"units", "base", "resolution", "max_delay", "delays"}
	entryBy     = []string{"units", "prefix", "name", "exchange_name", "entry_exchange"}
	exchangesBy = slices.Concat(entryBy, []string{"entry_exchange_type", "delivery_exchange", "deliver_to_queue",
		"create_delivery_exchange", "park_unroutable", "internal_levels"})
	objectsBy = slices.Concat(entryBy, scaleBy, []string{"queue_name", "queue_names", "delivery_exchange",
		"deliver_to_queue", "park_unroutable"})
	namesBy   = slices.Concat(objectsBy, []string{"queue_type"})
	optionsBy = delay.QuorumAttributes()
)

// around is what cascades and ladders have in common, as places in their configurations.
type around struct {
	vhost, name, delivery  *string
	createsDelivery, parks *bool
	queueType              *delay.QueueType
	queueArguments         *topology.Arguments
	preset                 delay.Preset
	*delay.QuorumOptions
}

// standIn writes something valid in place of unknown values. It names a delivery exchange where one may be given.
func (a around) standIn(unknown map[string]bool, hasDelivery bool) {
	if unknown["name"] {
		*a.name = "name~"
	}
	if unknown["delivery_exchange"] && hasDelivery {
		*a.delivery = "delivery~"
	}
	if unknown["queue_type"] {
		*a.queueArguments = nil // which may be those of one type
	}
}

// aroundWords are the words in which their descriptions differ.
type aroundWords struct {
	// Kind is what the resource is called, and delivery of which type its delivery exchange is. Shrinking is the
	// change in place that deletes queues of it, and parking has more words for parking. Instead is what else to give
	// in place of the default exchange.
	kind, delivery, shrinking, parking, instead string
}

// aroundAttributes are the attributes of what they have in common, and all that shows the objects.
func aroundAttributes[C any](words aroundWords, p tfvalue.Position, of func(*C) around) []attribute.Attribute[C] {
	say := strings.NewReplacer("PARKING", words.parking, "KIND", words.kind, "DELIVERY", words.delivery).Replace
	return slices.Concat([]attribute.Attribute[C]{
		{
			Name: "vhost", Default: tfvalue.DefaultVhost, Alters: true,
			Field: attribute.Text(func(c *C) *string { return of(c).vhost }),
			Doc:   say("Virtual host, which has to exist. Default: `/`. A change replaces the KIND."),
		},
		{
			Name: "delivery_exchange", Decided: true, From: []string{"preset", "prefix", "name", "deliver_to_queue"},
			CheckedBy: namesBy, Alters: true,
			Field: attribute.Text(func(c *C) *string { return of(c).delivery }),
			Check: checkDelivery(words.instead),
			Doc: say("Exchange at the end of the KIND, DELIVERY. Applications bind their queues to this exchange. " +
				"The provider leaves these bindings alone and never lists them. Default: `<name>.delivery`. A change " +
				"rebuilds the KIND, and deletes the old exchange unless other objects use it."),
		},
		{
			Name: "create_delivery_exchange", Default: true, InPlace: true,
			Field: attribute.Flag(func(c *C) *bool { return of(c).createsDelivery }, nil),
			Doc: say("Whether the KIND declares the delivery exchange if it is missing, and deletes it in the end " +
				"unless other objects use it. An existing exchange has to be as the KIND would declare it. If " +
				"`false`, the exchange has to exist. Default: `true`. Changes in place."),
		},
		{
			Name: "queue_type", Decided: true, From: []string{"preset"}, Alters: true,
			Field: attribute.Text(func(c *C) *delay.QueueType { return of(c).queueType }),
			Doc: say("`quorum` or `classic`. Quorum queues hand a message on at least once: `x-dead-letter-strategy` " +
				"is `at-least-once` and `x-overflow` is `reject-publish`. Classic queues dead-letter at most once. " +
				"In front of a quorum queue, classic queues lose some of the messages that fall due while a node " +
				"restarts, at every restart. Default: `quorum`. A change rebuilds the KIND."),
		},
		{
			Name: "max_length", CheckedBy: []string{"preset", "queue_type"}, Alters: true,
			Field: attribute.Count(func(c *C) *int64 { return &of(c).MaxLength }),
			Doc: say("Largest number of messages in each delay queue, for quorum queues only. A full queue refuses " +
				"publishers. A message that expires into a full queue stays in the queue before. The broker offers " +
				"the message again three to six minutes later, then every three minutes. Default: no limit. A change " +
				"rebuilds the KIND."),
		},
		{
			Name: "queue_leader_locator", CheckedBy: []string{"preset", "queue_type"}, Alters: true,
			Field: attribute.Text(func(c *C) *delay.LeaderLocator { return &of(c).LeaderLocator }),
			Doc: say("Node of a cluster on which a quorum queue gets its leader. With `balanced`, RabbitMQ chooses a " +
				"node with few leaders. With `client-local`, RabbitMQ chooses the node that answers the provider. " +
				"Default: the broker decides, by default `client-local`, so that one node does the work of all. See " +
				"[Clusters](../guides/cluster.md). A change rebuilds the KIND."),
		},
		{
			Name: "quorum_initial_group_size", CheckedBy: []string{"preset", "queue_type"}, Alters: true,
			Field: attribute.Count(func(c *C) *int64 { return &of(c).InitialGroupSize }),
			Doc: say("Number of nodes that a quorum queue begins with, or all nodes of a smaller cluster. Default: " +
				"the broker decides. A change rebuilds the KIND."),
		},
		{
			Name: "queue_arguments", Decided: true, From: []string{"preset", "queue_type"}, CheckedBy: optionsBy,
			Alters: true,
			Field:  attribute.Arguments(func(c *C) *topology.Arguments { return of(c).queueArguments }),
			Doc: say("Further arguments of all delay queues, an object such as `{ x-queue-mode = \"lazy\" }`. Leave " +
				"out the TTL, the dead-letter exchange, and every argument with an attribute of its own. An import " +
				"writes the arguments that the queues have. `{}` means no arguments. The number `1` differs from the " +
				"text `\"1\"`, and `true` from `\"true\"`. Default: with quorum queues, `x-dead-letter-strategy = " +
				"\"at-least-once\"` and `x-overflow = \"reject-publish\"`, with classic queues none. Quorum queues " +
				"without these two lose a message that falls due while the next queue is unavailable. A warning " +
				"names this and every other argument that is weaker than the default. A change rebuilds the KIND."),
		},
		{
			Name: "park_unroutable", Decided: true, From: []string{"preset"}, Alters: true,
			Field: attribute.Flag(func(c *C) *bool { return of(c).parks },
				func(c *C) bool { return of(c).preset == "" }),
			Doc: say("Whether every exchange of the KIND gets an alternate exchange with a queue, " +
				"both named `<name>.unroutable`. The queue keeps messages with a malformed key or without an " +
				"address. Default: `true`. A change rebuilds the KIND, its delivery exchange and the bindings " +
				"there.PARKING"),
		},
		{
			Name: "delivery_exchange_type",
			From: []string{"create_delivery_exchange", "deliver_to_queue", "dead_letter_routing_key", "binding_keys"},
			Schema: tfvalue.ComputedText("Type of the delivery exchange, null if there is no such exchange. A plan " +
				"thus also shows the loss or replacement of an exchange that is not declared here."),
			Show: func(_ *attribute.Resolved[C], there topology.Topology, _ attr.Value) attr.Value {
				return tfvalue.TextOrNull(there.DeliveryType)
			},
		},
		{
			Name: "summary", From: slices.Concat(scaleBy, []string{"create_delivery_exchange", "deliver_to_queue",
				"park_unroutable", "lookahead"}),
			Schema: tfvalue.ComputedText(say("The KIND in one line: its parts and its delays.")),
			Show: func(r *attribute.Resolved[C], _ topology.Topology, _ attr.Value) attr.Value {
				return types.StringValue(r.Summary)
			},
		},
		{
			Name: "exchanges", From: exchangesBy,
			Schema: schema.MapNestedAttribute{Computed: true, NestedObject: tfvalue.ExchangeSchema,
				MarkdownDescription: say("The exchanges of the KIND by name.")},
			Show: func(r *attribute.Resolved[C], there topology.Topology, before attr.Value) attr.Value {
				return r.Exchanges(there, before)
			},
		},
		{
			Name: "queues", From: slices.Concat(namesBy, optionsBy, []string{"queue_arguments",
				"dead_letter_routing_key"}),
			Schema: schema.MapNestedAttribute{Computed: true, NestedObject: p.QueueSchema(),
				MarkdownDescription: say("The queues of the KIND by name. Usual properties are null, so that a " +
					"plan is short. A property that once differed stays written out.")},
			Show: func(r *attribute.Resolved[C], there topology.Topology, before attr.Value) attr.Value {
				return r.Queues(there, before)
			},
		},
		{
			Name: "bindings", From: slices.Concat(objectsBy, []string{"dead_letter_routing_key", "binding_keys",
				"lookahead", "strict_keys"}),
			Schema: schema.MapAttribute{Computed: true, ElementType: tfvalue.BindingsType,
				MarkdownDescription: say(fmt.Sprintf("The bindings of the KIND by source exchange, and then by "+
					"routing key: `queue <name>` or `exchange <name>`. More than %d equal words of a key are one "+
					"word: `*×5.1.#` is `*.*.*.*.*.1.#`. A binding that the KIND does not declare has `<routing key> "+
					"-> queue <name>` in place of the key, and is `%s`.", tfvalue.MostEqualWords, tfvalue.Foreign))},
			Show: func(r *attribute.Resolved[C], there topology.Topology, _ attr.Value) attr.Value {
				return r.Bindings(there)
			},
		},
		{
			Name: "adopt", Default: false,
			Schema: offByDefault("Whether to take over exchanges and queues that exist already, whoever declared " +
				"them, in place of an error. The objects have to match exactly, and their messages stay. The same " +
				"holds for objects that another resource owns. A create or an update puts its own owner's mark on " +
				"the entry exchange, and then removes the other marks. From then on, the other resource changes " +
				"nothing, and its destroy leaves everything. The error names the objects before anything is written. " +
				"Default: `false`."),
		},
	}, handling[C](handlingDocs{
		forceDestroy: fmt.Sprintf("Whether a destroy, a replacement, a rebuild or %s deletes queues with the "+
			"messages that wait in them. Apply the value before a destroy. Default: `false`.", words.shrinking),
		drainTimeout: fmt.Sprintf("How long a destroy, a replacement, a rebuild or %s waits for empty queues, such "+
			"as `10m`. The entry is closed meanwhile; %[1]s leaves the entry open. The provider opens the entry "+
			"again if messages are left after that time, or if a message stays in the queue of unroutable messages. "+
			"The error then says where messages still wait. Apply the value before a destroy. Given `timeouts` have "+
			"to be longer. Default: no waiting, and a queue that holds messages is not deleted.", words.shrinking),
	}))
}

// checkDelivery refuses the default exchange, and says what else to do instead.
func checkDelivery(instead string) func(value attr.Value) string {
	return func(value attr.Value) string {
		name := tfvalue.TextIn(value)
		if !delay.IsDefaultExchange(name) {
			return ""
		}
		return fmt.Sprintf("is %q, the default exchange, which takes no bindings; leave it out, and bind the "+
			"queue with a rabbitmqdelay_destination%s", name, instead)
	}
}

// ownerDescription says who may change and destroy it.
func ownerDescription(kind string) string {
	return fmt.Sprintf("The entry exchange has an *owner's mark*: a binding to itself with the argument `x-owner`, "+
		"which routes no message. Only the resource with this mark changes or destroys the %s. No attribute shows "+
		"the mark. A missing mark is no difference, and the next write sets the mark. An import takes the existing "+
		"mark. So an import into a second state makes a second owner, as does a copy of a state. The destroy of one "+
		"owner then deletes the %[1]s for both.", kind)
}

// rebuildDescription says what a change means that rebuilds.
func rebuildDescription(kind string) string {
	return fmt.Sprintf("A change that gives exchanges or queues other arguments or names *rebuilds* the %s, if the "+
		"entry exchange keeps its name. The update closes the entry, so that publishers get an error and try again. "+
		"The update then waits for messages on their way (`drain_timeout`), or is refused. At the end, the update "+
		"makes the objects and other applications' bindings anew, and opens the entry. The provider undoes a step "+
		"that fails. See [Changing, moving and removing](../guides/changing.md).", kind)
}
