package resource

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// declaredAttributes adds those that every resource has which stands for a topology. Kind is what it is called,
// delivery of which type its delivery exchange is, and removal what deletes queues of it.
func declaredAttributes(
	ctx context.Context, kind, delivery, removal string, p tfvalue.Position, further map[string]schema.Attribute,
) map[string]schema.Attribute {
	parking := ""
	if kind == "cascade" {
		parking = " With a `preset`, the default is `false`, a policy makes it the alternate exchange, which takes " +
			"the tag `policymaker`, and a change is made in place. See [With Celery or NServiceBus]" +
			"(../guides/frameworks.md#parking)."
	}
	say := strings.NewReplacer("PARKING", parking, "KIND", kind, "DELIVERY", delivery, "REMOVAL", removal).Replace
	attributes := map[string]schema.Attribute{
		"vhost": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(tfvalue.DefaultVhost),
			MarkdownDescription: say("Virtual host. It has to exist. Default: `/`. A change replaces the KIND."),
		},
		"delivery_exchange": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: say("Exchange at the end of the KIND, DELIVERY. Applications bind their queues to " +
				"it; those bindings stay and are never listed. Default: `<name>.delivery`. A change rebuilds the " +
				"KIND; the exchange before is deleted unless others use it."),
		},
		"delivery_exchange_type": schema.StringAttribute{
			Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			MarkdownDescription: "Type of the delivery exchange, null if there is none. So a plan shows it if " +
				"somebody has deleted or replaced an exchange that is not declared here.",
		},
		"create_delivery_exchange": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: say("Whether the KIND declares the delivery exchange if it is missing, and deletes " +
				"it in the end unless others use it. One that exists has to be as the KIND would declare it. If " +
				"`false`, it has to exist. Default: `true`. Changes in place."),
		},
		"queue_type": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: say("`quorum` or `classic`. Quorum queues hand a message on at least once: " +
				"`x-dead-letter-strategy` is `at-least-once` and `x-overflow` is `reject-publish`. Classic queues " +
				"dead-letter at most once. Before a quorum queue, they lose some of the messages that fall due " +
				"while a node restarts, at every restart. Default: `quorum`. A change rebuilds the KIND."),
		},
		"max_length": schema.Int64Attribute{
			CustomType: tfvalue.WholeNumber{}, Optional: true,
			MarkdownDescription: say("Largest number of messages in each delay queue, for quorum queues only. A full " +
				"queue refuses publishers. A message that expires into it waits where it is. The broker offers it " +
				"again three to six minutes later, then every three minutes. Default: no limit. A change rebuilds " +
				"the KIND."),
		},
		"queue_leader_locator": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: say("Node of a cluster on which a quorum queue gets its leader. With `balanced` it " +
				"is a node with few leaders, with `client-local` the node that answers the provider. Default: the " +
				"broker decides, by default `client-local`, so that one node does the work of all. See " +
				"[Clusters](../guides/cluster.md). A change rebuilds the KIND."),
		},
		"quorum_initial_group_size": schema.Int64Attribute{
			CustomType: tfvalue.WholeNumber{}, Optional: true,
			MarkdownDescription: say("Number of nodes that a quorum queue begins with, all nodes where there are " +
				"fewer. Default: the broker decides. A change rebuilds the KIND."),
		},
		"park_unroutable": schema.BoolAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: say("Whether every exchange of the KIND gets an alternate exchange with a queue, " +
				"both named `<name>.unroutable`. The queue keeps messages with a malformed key or without an " +
				"address. Default: `true`. A change rebuilds the KIND, its delivery exchange and the bindings " +
				"there.PARKING"),
		},
		"adopt": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Whether to take over objects that exist already and match exactly. Otherwise " +
				"existing objects are an error that names them, before anything is written. Default: `false`.",
		},
		"force_destroy": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: say("Whether REMOVAL deletes queues with the messages that wait in them. Has to be " +
				"applied before a destroy. Default: `false`."),
		},
		"drain_timeout": schema.StringAttribute{
			Optional: true, CustomType: tfvalue.Duration{},
			MarkdownDescription: say("How long REMOVAL waits for empty queues, such as `10m`. The entry is closed " +
				"meanwhile. It is opened again if messages are left after that time, or if one comes into the queue " +
				"of unroutable ones and nobody takes it. Then the error says what still waits. Has to be applied " +
				"before a destroy. `timeouts`, if they are given, have to be longer. Default: no waiting, a queue " +
				"that holds messages is not deleted."),
		},
		"timeouts": timeoutsAttribute(ctx, " plus `drain_timeout`"),
		"summary":  tfvalue.ComputedText(say("The KIND in one line: what it consists of, and its delays.")),
		"exchanges": schema.MapNestedAttribute{
			Computed:            true,
			MarkdownDescription: say("The exchanges of the KIND by name."),
			NestedObject:        tfvalue.ExchangeSchema,
		},
		"queue_arguments": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: say("Arguments that all delay queues of the KIND have, beside those that `queues` " +
				"has. Values other than text are JSON."),
		},
		"queues": schema.MapNestedAttribute{
			Computed: true,
			MarkdownDescription: say("The queues of the KIND by name. Usual properties are null, so that a plan is " +
				"short. A property that once differed stays written out."),
			NestedObject: p.QueueSchema(),
		},
		"bindings": schema.MapAttribute{
			Computed: true, ElementType: tfvalue.BindingsType,
			MarkdownDescription: say(fmt.Sprintf("The bindings of the KIND by source exchange, and then by routing "+
				"key: `queue <name>` or `exchange <name>`. More than %d equal words of a key are one word: "+
				"`*×5.1.#` is `*.*.*.*.*.1.#`. A binding of somebody else has `<routing key> -> queue <name>` in "+
				"place of the key, and is `%s`.", tfvalue.MostAtAGlance, tfvalue.Foreign)),
		},
	}
	maps.Copy(attributes, further)
	return attributes
}

// rebuildDescription says what a change means that rebuilds.
func rebuildDescription(kind string) string {
	return fmt.Sprintf("A change that gives exchanges or queues other arguments or names *rebuilds* the %s, if the "+
		"entry exchange keeps its name. One update closes the entry, so that publishers get an error and try again. "+
		"It waits for messages on their way (`drain_timeout`), or is refused. Then it makes the objects and the "+
		"bindings of others anew, and opens the entry. A step that fails is undone. See [Resizing a "+
		"cascade](../guides/resizing.md).", kind)
}
