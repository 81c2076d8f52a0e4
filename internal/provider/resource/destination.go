package resource

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/importid"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// destinations are the resources rabbitmqdelay_destination: each is a binding alone.
var destinations = &kind[delay.Destination]{
	name: "destination", mutableIdentity: true,
	doc: "Binds one queue or exchange to the delivery exchange of a cascade, for one address. Publishers write the " +
		"address behind the delay in a routing key.\n\n" +
		"The binding is the destination's own, because its argument `x-destination` has a random mark. RabbitMQ " +
		"keeps bindings apart that differ in an argument. RabbitMQ routes a message only once to a queue with " +
		"several bindings. So a destination never removes the binding of another resource, of another state or of an " +
		"application.\n\n" +
		"The plan shows the key. The next apply restores a missing binding. Every refresh warns of other " +
		"destinations at the exchange that also take messages for this address, or whose messages this destination " +
		"also takes. A refresh also warns of a queue that refuses messages when the queue is full, or that takes no " +
		"messages.\n\n" +
		"Behind an exchange, plan and refresh follow the key, and warn if no queue gets a message. The key that " +
		"arrives at the exchange still has the delay. A binding for the address `order.created` alone takes no " +
		"messages, and `#.order.created` takes all messages. Plan and refresh follow topic, direct and fanout " +
		"exchanges, with their alternate exchanges. For an exchange of another type, the plan of a create says that " +
		"the provider does not follow the exchange.\n\n" +
		"Every attribute but `vhost` changes in place. The provider makes the new binding before it removes the old " +
		"binding, so no message falls in between. For some milliseconds, both bindings exist: an old and a new queue " +
		"then both get messages, and the same queue gets each message once.\n\n" +
		"The provider binds a queue at once, even a queue that the same apply has made. Messages of the first five " +
		"seconds of a quorum queue are not safe against a kill of its node.\n\n" +
		"A destroy, a replacement, and a change of the key or of `delivery_exchange` remove a binding. Before that, " +
		"no message may wait in the cascades and ladders that end in the delivery exchange: see `drain_timeout` and " +
		"`force_destroy`. The provider does not wait if another binding takes all of these messages to the same " +
		"queue or exchange. The plan shows the number of waiting messages, and the effect of the apply. Later " +
		"messages for the address become unroutable. To move publishers, add a destination for the new address. " +
		"Remove the old destination when no publisher uses the old address any more.\n\n" +
		"A destroy of both removes the destination before the cascade. Give both a `drain_timeout`: the destination " +
		"then waits until its messages have arrived, and the cascade is empty after that. Without `drain_timeout`, a " +
		"destroy while messages wait is refused, and both stay. Messages in the queue of unroutable messages go to " +
		"no destination. If no other message waits, the provider destroys the destination, and then refuses to " +
		"destroy the cascade.\n\n" +
		"An address can pass from one resource to another: in a swap, or under another key of `for_each`. Then the " +
		"queue may get no messages for the address between two operations of the apply, and longer if the apply ends " +
		"there. The plan warns. If you rename a resource or a `for_each` key, add a `moved` block, which changes " +
		"nothing on the broker.\n\n" +
		"A name that leads into a cascade or ladder rather than behind it is an error, in the plan if the name is " +
		"known there. If `levels` differ from the cascade, the plan warns.",
	Table: attribute.Table[delay.Destination]{
		Attributes: slices.Concat(destinationAttributes, handling[delay.Destination](handlingDocs{
			forceDestroy: "Whether the provider removes a binding at once, even while messages are on their way. " +
				"Messages that then arrive for the address are unroutable, and go to the cascade's queue of " +
				"unroutable messages. Without such a queue, a quorum queue keeps the messages and a classic queue " +
				"loses the messages. Use `force_destroy` for one application of many on a cascade that is always " +
				"busy. Apply the value before a destroy. Default: `false`.",
			drainTimeout: "How long the provider waits for empty delay queues before it removes a binding, such as " +
				"`10m`. A destroy, a replacement, and a change of `address`, `levels`, `match` or " +
				"`delivery_exchange` remove a binding. The provider looks at the delay queues of all cascades and " +
				"ladders that end in the delivery exchange. Any message there counts, because the provider cannot " +
				"tell its address without reading the message. Entries stay open. If messages are left, the binding " +
				"stays, and the error says where the messages wait. Apply the value before a destroy. Given " +
				"`timeouts` have to be longer. Default: no waiting, and a binding stays while messages may be on " +
				"their way to it.",
		})),
		StandIn: func(d *delay.Destination, unknown map[string]bool) {
			if unknown["delivery_exchange"] {
				d.DeliveryExchange = "delivery~"
			}
			if unknown["address"] {
				d.Address = "a"
			}
			if unknown["levels"] && d.Match == delay.Exact {
				d.Levels = 1
			}
			if (unknown["queue"] || unknown["exchange"]) && d.Queue == "" && d.Exchange == "" {
				d.Queue = "queue~"
			}
		},
		Resolve: func(given delay.Destination) (x attribute.Resolved[delay.Destination], err error) {
			b, err := given.Binding()
			x.Config, x.Desired.Bindings = given, topology.NewBindings(b)
			return x, err
		},
	},
	identity: map[string]identityschema.Attribute{
		"vhost": identityschema.StringAttribute{RequiredForImport: true, Description: "Virtual host."},
		"delivery_exchange": identityschema.StringAttribute{RequiredForImport: true,
			Description: "Exchange that the messages come from."},
		"queue": identityschema.StringAttribute{OptionalForImport: true,
			Description: "Queue that takes the messages. Give either a queue or an exchange."},
		"exchange": identityschema.StringAttribute{OptionalForImport: true,
			Description: "Exchange that takes the messages."},
		"routing_key": identityschema.StringAttribute{RequiredForImport: true,
			Description: "Routing key of the binding."},
	},
	parseID:       parseDestinationID,
	checkIdentity: checkDestinationIdentity,
	find:          findDestination,
	displayName:   destinationName,
	prepare:       prepareDestination,
	say:           sayOfDestination,
	remember:      rememberOwner,
	read:          readDestination,
	look:          lookAtDestination,
	lookAtDestroy: lookAtDestinationDestroy,
}

// destinationAttributes are all but those that say how operations go.
var destinationAttributes = []attribute.Attribute[delay.Destination]{
	{
		Name: "vhost", Default: tfvalue.DefaultVhost, Alters: true,
		Field: attribute.Text(func(d *delay.Destination) *string { return &d.Vhost }),
		Doc:   "Virtual host. Default: `/`. A change replaces the destination.",
	},
	{
		Name: "delivery_exchange", Required: true,
		Field: attribute.Text(func(d *delay.Destination) *string { return &d.DeliveryExchange }),
		Doc: "The topic exchange at the end of the cascade, its attribute `delivery_exchange`. The exchange has to " +
			"exist. A destination can also receive the messages of a [ladder](ladder.md), with the ladder's " +
			"`levels`, unless the ladder has a `dead_letter_routing_key` or `binding_keys`.",
	},
	{
		Name: "levels", CheckedBy: []string{"match"},
		Field: attribute.Count(func(d *delay.Destination) *int { return &d.Levels }),
		Doc: fmt.Sprintf("Number of words before the address in a routing key, 1 to %d: `length(<cascade>.units)`, "+
			"or the attribute `levels` of a ladder. Required, unless `match` is `suffix`: then leave `levels` out.",
			delay.MaxLevels),
	},
	{
		Name: "address", Required: true,
		Field: attribute.Text(func(d *delay.Destination) *string { return &d.Address }),
		Doc: "The address: one word, or several joined by dots, without the wildcards `*` and `#`, and without a `~` " +
			"before another character. AMQP allows 255 bytes for the whole key: with 28 levels, 199 bytes remain for " +
			"the address.",
	},
	{
		Name: "match", Default: string(delay.Exact),
		Field: attribute.Text(func(d *delay.Destination) *delay.Match { return &d.Match }),
		Doc: "`exact` takes the messages for this address. `suffix` binds with " +
			"`#.<address>`, as NServiceBus and Celery do. The address `orders` then also takes the messages " +
			"for `eu.orders`, and for any other address that ends with `.orders`. Default: `exact`.",
	},
	{
		Name: "queue", CheckedBy: []string{"exchange"},
		Field: attribute.Text(func(d *delay.Destination) *string { return &d.Queue }),
		Doc:   "Queue that takes the messages. The queue has to exist. Give either `queue` or `exchange`.",
	},
	{
		Name: "exchange", CheckedBy: []string{"queue", "delivery_exchange"},
		Field: attribute.Text(func(d *delay.Destination) *string { return &d.Exchange }),
		Doc: "Exchange that takes the messages, with the routing key that they have at the delivery exchange, the " +
			"delay included. The exchange has to exist.",
	},
	{
		Name: "triggers",
		Schema: schema.MapAttribute{Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Values of other resources to watch, under names of your choice. When one of them " +
				"changes, the apply binds again if the binding is gone. Use `triggers` for a cascade with " +
				"`force_destroy`, whose replacement removes the delivery exchange with all its bindings. Use " +
				"`triggers` also for a queue or exchange that another resource replaces under the same name. " +
				"Otherwise, the destination does not see the replacement before the next plan. A value that is known " +
				"in the apply only, and equal then, is no change."},
	},
	{
		Name: routingKey, From: []string{"levels", "address", "match"},
		Schema: tfvalue.ComputedText("Routing key of the binding: `*.` for each level, or `#.`, and then the address."),
		Show: func(x *attribute.Resolved[delay.Destination], _ topology.Topology, _ attr.Value) attr.Value {
			return types.StringValue(bindingOf(x.Desired).RoutingKey)
		},
	},
	{
		Name: leftoverBindings,
		Schema: schema.ListAttribute{Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Bindings that an interrupted update has left, or may have left, as import IDs. " +
				"These bindings take messages, too. Null if there are none. A refresh keeps existing bindings in " +
				"this list, and the plan shows them. The next apply removes all bindings that the configuration does " +
				"not ask for, as does a destroy. Until then, do not import these bindings elsewhere."},
		Show: showLeftovers,
	},
}

func destinationName(x attribute.Resolved[delay.Destination]) string {
	address := x.Config.Address
	if x.Config.Match == delay.Suffix {
		address += " and all that ends with ." + address
	}
	return fmt.Sprintf("%s, from %s to %s", address, x.Config.DeliveryExchange,
		bindingOf(x.Desired).DestinationObject())
}

// sayOfDestination has the words for what came of a change.
func sayOfDestination(
	_ context.Context, r *managed[delay.Destination], c *change[delay.Destination], result engine.Result, err error,
) (diags diag.Diagnostics) {
	_, has := c.stateAfter(result)
	d := diagnose.Destination{Vhost: c.engine.Vhost, Binding: bindingOf(c.is.Desired), Options: c.engine.Options}
	stays := d
	stays.Binding = bindingOf(has.Desired)
	var unfinished *engine.UnfinishedError
	if c.state != nil && errors.As(err, &unfinished) && unfinished.Undo == nil && result.There != nil {
		left := showLeftovers(&has, *result.There, c.state[leftoverBindings])
		diags.Append(stays.LeftBehind(tfvalue.TextsIn(left))...)
	}
	if c.state != nil && c.plan != nil && !c.state["triggers"].Equal(c.plan["triggers"]) {
		expected := func(p engine.Problem) bool { return p.Code == engine.Unplanned }
		result.Problems = slices.DeleteFunc(result.Problems, expected) // triggers are for a binding that goes
	}
	diags.Append(d.Explain(c.verb(), err)...)
	for _, problem := range result.Problems {
		diags.Append(d.Explain(c.verb(), problem.Cause)...)
	}
	switch {
	case result.State == nil:
	case c.plan == nil:
		diags.Append(d.StillBound(result.State.Bindings)...)
	default:
		r.Connection.Ledger.Bound(d.Vhost, d.Binding)
		diags.Append(d.Overlaps(result.State.Bindings.Sorted())...)
	}
	return diags
}

// readDestination looks whether the binding is there, and who else takes its messages. An update that broke off may
// have got further than the state says.
func readDestination(
	ctx context.Context, r *managed[delay.Destination], x attribute.Resolved[delay.Destination], state attribute.Values,
	private privateState,
) (there *topology.Topology, diags diag.Diagnostics) {
	all, mark, diags := own(ctx, r, private, x, state)
	if diags.HasError() {
		return nil, diags
	}
	vhost := r.Connection.Client.Vhost(x.Config.Vhost)
	d := diagnose.Destination{Vhost: x.Config.Vhost, Binding: bindingOf(x.Desired)}
	bound, found, err := engine.FindBindings(ctx, vhost, all, mark)
	if err == nil && len(found) > 0 && found[0].Plain() != d.Binding {
		d.Binding = found[0].Plain()
		x.Config, err = recognize.Destination(d.Vhost, d.Binding)
		maps.Copy(state, r.kind.Values(&x.Config))
		state[routingKey] = types.StringValue(d.Binding.RoutingKey)
	}
	switch {
	case err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound):
		return nil, append(diags, d.Failed("read", err))
	case len(found) == 0:
		return nil, d.Gone(bound)
	}
	there = &topology.Topology{Bindings: topology.NewBindings(found...)}
	diags.Append(saveOwner(ctx, private, d.Vhost, mark, there.Bindings)...)
	diags.Append(d.LeftBehind(importid.Bindings(d.Vhost, found[1:]))...)
	diags.Append(d.Overlaps(bound.Where(func(b topology.Binding) bool { return !slices.Contains(found[1:], b) }))...)
	beyond, err := engine.LookBeyond(ctx, vhost, d.Binding, bound.Sorted())
	if err != nil {
		return nil, append(diags, d.Failed("read", err))
	}
	for _, problem := range beyond {
		if _, isUnknown := errors.AsType[*engine.NotFollowedError](problem.Cause); !isUnknown { // which a plan says
			diags.Append(d.Explain("read", problem.Cause)...)
		}
	}
	return there, diags
}

// FindDestinations are the destinations of the cascades and ladders of a vhost.
func FindDestinations(ctx context.Context, vhost string, in *recognize.Inventory) ([]Found, error) {
	return DestinationsAmong(vhost, in.Destinations(ctx)), nil
}

// DestinationsAmong are the destinations among the bindings of a vhost. Others are left out. Bindings that differ only
// in their marks have one identity.
func DestinationsAmong(vhost string, bindings []topology.Binding) []Found {
	var all []Found
	for _, b := range topology.Plain(bindings) {
		d, err := recognize.Destination(vhost, b)
		if err != nil {
			continue
		}
		if state, err := destinations.Imported(d); err == nil {
			x, diags := destinations.Of(state)
			all = append(all, Found{destinationName(x), destinations.identityOf(state), state.Object(), diags})
		}
	}
	return all
}

func parseDestinationID(id string) (attribute.Values, error) {
	vhost, b, err := importid.ParseBinding(id)
	if err != nil {
		return nil, err
	}
	place := attribute.Values{"vhost": types.StringValue(vhost), "delivery_exchange": types.StringValue(b.Source),
		routingKey: types.StringValue(b.RoutingKey)}
	place[string(b.DestinationType)] = types.StringValue(b.Destination)
	return place, nil
}

func checkDestinationIdentity(id attribute.Values) string {
	if (id.Text("queue") == "") == (id.Text("exchange") == "") {
		return "The identity has to have either queue or exchange."
	}
	return ""
}

// findDestination looks for a binding, whoever made it: the plain one if there is one, else the only one with a mark.
func findDestination(
	ctx context.Context, r *managed[delay.Destination], id attribute.Values, private privateState,
) (found delay.Destination, diags diag.Diagnostics) {
	b := place(id)
	d := diagnose.Destination{Vhost: id.Text("vhost"), Binding: b}
	there, err := r.Connection.Client.Vhost(d.Vhost).BindingsFrom(ctx, b.Source)
	all := topology.NewBindings(there...)
	marked := all.Where(func(other topology.Binding) bool { return other.Plain() == b && other != b })
	taken := marked
	switch {
	case err != nil:
	case all.Has(b):
		taken = []topology.Binding{b.OfDestination(rand.Text()), b}
		diags.Append(d.Unmarked(marked))
	case len(marked) == 0:
		err = d.NotFound(there)
	case len(marked) > 1:
		err = d.Ambiguous(marked)
	}
	if err == nil {
		found, err = recognize.Destination(d.Vhost, b)
	}
	if err != nil {
		return found, diag.Diagnostics{d.Failed("import", err)}
	}
	diags.Append(saveOwner(ctx, private, d.Vhost, taken[0].DestinationMark(), topology.NewBindings(taken...))...)
	return found, diags
}
