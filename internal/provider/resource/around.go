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

// around is what cascades and ladders have in common, as places in their configurations.
type around struct {
	vhost, name, delivery  *string
	createsDelivery, parks *bool
	queueType              *delay.QueueType
	queueArguments         *topology.Arguments
	preset                 delay.Preset
	*delay.QuorumOptions
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
			Field: attribute.Text(func(c *C) *string { return of(c).vhost }, "a"),
			Doc:   say("Virtual host. It has to exist. Default: `/`. A change replaces the KIND."),
		},
		{
			Name: "delivery_exchange", Decided: true, Alters: true,
			Field: attribute.Text(func(c *C) *string { return of(c).delivery }, "delivery~a", "delivery~b", ""),
			Check: checkDelivery(words.instead),
			Doc: say("Exchange at the end of the KIND, DELIVERY. Applications bind their queues to " +
				"it; those bindings stay and are never listed. Default: `<name>.delivery`. A change rebuilds the " +
				"KIND; the exchange before is deleted unless others use it."),
		},
		{
			Name: "create_delivery_exchange", Default: true, InPlace: true,
			Field: attribute.Flag(func(c *C) *bool { return of(c).createsDelivery }, nil),
			Doc: say("Whether the KIND declares the delivery exchange if it is missing, and deletes " +
				"it in the end unless others use it. One that exists has to be as the KIND would declare it. If " +
				"`false`, it has to exist. Default: `true`. Changes in place."),
		},
		{
			Name: "queue_type", Decided: true, Alters: true,
			Field: attribute.Choice(func(c *C) *delay.QueueType { return of(c).queueType }, delay.Quorum,
				delay.Classic),
			Doc: say("`quorum` or `classic`. Quorum queues hand a message on at least once: " +
				"`x-dead-letter-strategy` is `at-least-once` and `x-overflow` is `reject-publish`. Classic queues " +
				"dead-letter at most once. Before a quorum queue, they lose some of the messages that fall due " +
				"while a node restarts, at every restart. Default: `quorum`. A change rebuilds the KIND."),
		},
		{
			Name: "max_length", Alters: true,
			Field: attribute.Count(func(c *C) *int64 { return &of(c).MaxLength }, 0, 0, 1),
			Doc: say("Largest number of messages in each delay queue, for quorum queues only. A full " +
				"queue refuses publishers. A message that expires into it waits where it is. The broker offers it " +
				"again three to six minutes later, then every three minutes. Default: no limit. A change rebuilds " +
				"the KIND."),
		},
		{
			Name: "queue_leader_locator", Alters: true,
			Field: attribute.Text(func(c *C) *delay.LeaderLocator { return &of(c).LeaderLocator }, "", "",
				delay.Balanced),
			Doc: say("Node of a cluster on which a quorum queue gets its leader. With `balanced` it " +
				"is a node with few leaders, with `client-local` the node that answers the provider. Default: the " +
				"broker decides, by default `client-local`, so that one node does the work of all. See " +
				"[Clusters](../guides/cluster.md). A change rebuilds the KIND."),
		},
		{
			Name: "quorum_initial_group_size", Alters: true,
			Field: attribute.Count(func(c *C) *int64 { return &of(c).InitialGroupSize }, 0, 0, 1),
			Doc: say("Number of nodes that a quorum queue begins with, all nodes where there are " +
				"fewer. Default: the broker decides. A change rebuilds the KIND."),
		},
		{
			Name: "queue_arguments", Decided: true, Alters: true,
			Field: attribute.Arguments(func(c *C) *topology.Arguments { return of(c).queueArguments }, nil, nil,
				topology.Arguments{"x-sample": "a"}),
			Doc: say("Further arguments of all delay queues, an object such as `{ x-queue-mode = \"lazy\" }`. The " +
				"TTL, the dead-letter exchange, and what has an attribute of its own are not among them. An import " +
				"writes the arguments that the queues have. `{}` is none. The number `1` differs from the text " +
				"`\"1\"`, and `true` from `\"true\"`. Default: with quorum queues, " +
				"`x-dead-letter-strategy = \"at-least-once\"` and `x-overflow = \"reject-publish\"`, with classic " +
				"queues none. Quorum queues without these two lose a message that falls due while the next queue is " +
				"unavailable. A warning names this and what else is weaker than the default. A change rebuilds the " +
				"KIND."),
		},
		{
			Name: "park_unroutable", Decided: true, Alters: true,
			Field: attribute.Flag(func(c *C) *bool { return of(c).parks },
				func(c *C) bool { return of(c).preset == "" }),
			Doc: say("Whether every exchange of the KIND gets an alternate exchange with a queue, " +
				"both named `<name>.unroutable`. The queue keeps messages with a malformed key or without an " +
				"address. Default: `true`. A change rebuilds the KIND, its delivery exchange and the bindings " +
				"there.PARKING"),
		},
		{
			Name: "delivery_exchange_type",
			Schema: tfvalue.ComputedText("Type of the delivery exchange, null if there is none. So a plan shows it " +
				"if somebody has deleted or replaced an exchange that is not declared here."),
			Show: func(_ *attribute.Resolved[C], there topology.Topology, _ attr.Value) attr.Value {
				return tfvalue.TextOrNull(there.DeliveryType)
			},
		},
		{
			Name:   "summary",
			Schema: tfvalue.ComputedText(say("The KIND in one line: what it consists of, and its delays.")),
			Show: func(r *attribute.Resolved[C], _ topology.Topology, _ attr.Value) attr.Value {
				return types.StringValue(r.Summary)
			},
		},
		{
			Name: "exchanges",
			Schema: schema.MapNestedAttribute{Computed: true, NestedObject: tfvalue.ExchangeSchema,
				MarkdownDescription: say("The exchanges of the KIND by name.")},
			Show: func(r *attribute.Resolved[C], there topology.Topology, before attr.Value) attr.Value {
				return r.Exchanges(there, before)
			},
		},
		{
			Name: "queues",
			Schema: schema.MapNestedAttribute{Computed: true, NestedObject: p.QueueSchema(),
				MarkdownDescription: say("The queues of the KIND by name. Usual properties are null, so that a " +
					"plan is short. A property that once differed stays written out.")},
			Show: func(r *attribute.Resolved[C], there topology.Topology, before attr.Value) attr.Value {
				return r.Queues(there, before)
			},
		},
		{
			Name: "bindings",
			Schema: schema.MapAttribute{Computed: true, ElementType: tfvalue.BindingsType,
				MarkdownDescription: say(fmt.Sprintf("The bindings of the KIND by source exchange, and then by "+
					"routing key: `queue <name>` or `exchange <name>`. More than %d equal words of a key are one "+
					"word: `*×5.1.#` is `*.*.*.*.*.1.#`. A binding of somebody else has `<routing key> -> queue "+
					"<name>` in place of the key, and is `%s`.", tfvalue.MostAtAGlance, tfvalue.Foreign))},
			Show: func(r *attribute.Resolved[C], there topology.Topology, _ attr.Value) attr.Value {
				return r.Bindings(there)
			},
		},
		{
			Name: "adopt", Default: false,
			Schema: offByDefault("Whether to go on with exchanges and queues that exist already, whoever has " +
				"declared them, in place of an error. They have to match exactly, and the messages in them stay. " +
				"So it is with objects that another resource owns. A create or an update puts its own owner's mark " +
				"on the entry exchange, and then takes the other marks away. From then on, the other resource " +
				"changes nothing, and its destroy leaves everything. The error names the objects before anything is " +
				"written. Default: `false`."),
		},
	}, handling[C](handlingDocs{
		forceDestroy: fmt.Sprintf("Whether a destroy, a replacement, a rebuild or %s deletes queues with the "+
			"messages that wait in them. Has to be applied before a destroy. Default: `false`.", words.shrinking),
		drainTimeout: fmt.Sprintf("How long a destroy, a replacement, a rebuild or %s waits for empty queues, "+
			"such as `10m`. The entry is closed meanwhile; %[1]s leaves it open. It is opened again if messages are "+
			"left after that time, or if one comes into the queue of unroutable ones and nobody takes it. Then the "+
			"error says what still waits. Has to be applied before a destroy. `timeouts`, if they are given, have "+
			"to be longer. Default: no waiting, a queue that holds messages is not deleted.", words.shrinking),
	}))
}

// checkDelivery refuses the default exchange, and says what else to do instead.
func checkDelivery(instead string) func(value attr.Value) string {
	return func(value attr.Value) string {
		name, _ := value.(types.String)
		if !delay.IsDefaultExchange(name.ValueString()) {
			return ""
		}
		return fmt.Sprintf("is %q, the default exchange, which takes no bindings; leave it out, and bind the "+
			"queue with a rabbitmqdelay_destination%s", name.ValueString(), instead)
	}
}

// ownerDescription says who may change and destroy it.
func ownerDescription(kind string) string {
	return fmt.Sprintf("The entry exchange has an *owner's mark*: a binding to itself with the argument `x-owner`, by "+
		"which no message goes. Only the resource whose mark that is changes or destroys the %s. The mark is in no "+
		"attribute. A missing mark is no difference, and the next write sets it. An import takes the mark "+
		"that is there. So an import into a second state makes a second owner, as does a copy of a state. The "+
		"destroy of one then deletes the %[1]s for both.", kind)
}

// rebuildDescription says what a change means that rebuilds.
func rebuildDescription(kind string) string {
	return fmt.Sprintf("A change that gives exchanges or queues other arguments or names *rebuilds* the %s, if the "+
		"entry exchange keeps its name. One update closes the entry, so that publishers get an error and try again. "+
		"It waits for messages on their way (`drain_timeout`), or is refused. Then it makes the objects and the "+
		"bindings of others anew, and opens the entry. A step that fails is undone. See [Resizing a "+
		"cascade](../guides/resizing.md).", kind)
}
