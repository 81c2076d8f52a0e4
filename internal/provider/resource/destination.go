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
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/private"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// destinations are the resources rabbitmqdelay_destination: each is a binding alone.
var destinations = &kind[delay.Destination]{
	name: "destination", mutableIdentity: true,
	doc: "Where delayed messages go: binds one queue or exchange to the delivery exchange of a " +
		"cascade, for one address. The address is what publishers write behind the delay in a routing " +
		"key.\n\n" +
		"The binding is the destination's own: it has an argument `x-destination` with a random mark. RabbitMQ keeps " +
		"bindings apart that differ in an argument, and routes a message once to a queue that several lead to. So a " +
		"destination never removes the binding of another resource, of another state or of an application.\n\n" +
		"The key is known in the plan. A binding that is gone is made again by the next apply. Every refresh " +
		"warns of other destinations at the exchange that also take messages for this address, or whose messages " +
		"this one also takes. It also warns of a queue that refuses messages when it is full, or that takes " +
		"none.\n\n" +
		"If it is an exchange, plan and refresh follow the key through it, and warn if no queue gets a message. The " +
		"key that arrives there still has the delay. A binding for the address `order.created` alone takes none, and " +
		"`#.order.created` takes all. Topic, direct and fanout exchanges are followed, with their alternate " +
		"exchanges. The plan of a create says of an exchange of another type that it is not followed.\n\n" +
		"Every attribute but `vhost` changes in place, the new binding first and then the old one is removed, so " +
		"that no message falls in between. While both are there, for some milliseconds, another queue gets " +
		"messages as well as the one before it; the same queue gets each message once.\n\n" +
		"A queue is bound at once, also one that the same apply has made. Messages of the first three seconds of " +
		"a quorum queue are not safe against a kill of its node.\n\n" +
		"A destroy, a replacement, and a change of the key or exchange take a binding away. Before that, nothing " +
		"may wait in the cascades and ladders that end in the delivery exchange: see `drain_timeout` and " +
		"`force_destroy`. Nothing is waited for if another binding takes all of these messages to the same queue or " +
		"exchange. The plan says how many messages wait, and what the apply does. Messages that are still published " +
		"for the address afterwards find nobody. To move " +
		"publishers, add a destination for the new address. Remove the one for the old address when nobody uses " +
		"it any more.\n\n" +
		"A destroy of both removes the destination before the cascade. Give both a `drain_timeout`: the " +
		"destination then waits until its messages have arrived, and the cascade finds nothing left. Without it, " +
		"a destroy while messages wait is refused, and both stay, unless all these messages are in the queue of " +
		"unroutable messages. They are on their way to no destination: the destination goes, and then the " +
		"cascade is refused.\n\n" +
		"An address can pass from one resource to another: in a swap, or under another key of `for_each`. Then the " +
		"queue may get no messages for it between two operations of the apply, and longer if the apply ends there. " +
		"The plan warns. A `moved` block, which changes nothing on the broker, is the right way for a resource with " +
		"another name.\n\n" +
		"A name that leads into a cascade or ladder rather than behind it is an error, in the plan if it is " +
		"known there. Other `levels` than those of the cascade are a warning.",
	Table: attribute.Table[delay.Destination]{
		Attributes: slices.Concat(destinationAttributes, handling[delay.Destination](handlingDocs{
			forceDestroy: "Whether a binding is taken away at once, whatever is on its way. What then " +
				"arrives for the address is unroutable. The cascade's queue of unroutable messages takes it. " +
				"Without one, a quorum queue keeps it and a classic queue loses it. That is for one application " +
				"of many on a cascade that is always busy. Has to be applied before a destroy. Default: `false`.",
			drainTimeout: "How long the provider waits for empty delay queues before it takes a binding " +
				"away, such as `10m`. A destroy, a replacement, and a change of `address`, `levels`, `match` or " +
				"`delivery_exchange` take it away. The delay queues are those of all cascades and ladders that " +
				"end in the delivery exchange. Any message there counts, because nobody can tell whom it is for " +
				"without reading it. Entries stay open. If messages are left, the binding stays and the error " +
				"says where they wait. Has to be applied before a destroy. `timeouts`, if they are given, have " +
				"to be longer. Default: no waiting, a binding that messages may be on their way to is not taken " +
				"away.",
		})),
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
			Description: "Queue that takes the messages. This or exchange is given."},
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
		Field: attribute.Text(func(d *delay.Destination) *string { return &d.Vhost }, "a"),
		Doc:   "Virtual host. Default: `/`. A change replaces the destination.",
	},
	{
		Name: "delivery_exchange", Required: true,
		Field: attribute.Text(func(d *delay.Destination) *string { return &d.DeliveryExchange }, "delivery~a"),
		Doc: "The topic exchange at the end of the cascade, its attribute " +
			"`delivery_exchange`. It has to exist. The messages of a [ladder](ladder.md) can be received in " +
			"the same way, with its `levels`, unless it has a `dead_letter_routing_key`.",
	},
	{
		Name:  "levels",
		Field: attribute.Count(func(d *delay.Destination) *int { return &d.Levels }, 1, 2, 0, 0),
		Doc: fmt.Sprintf("Number of words before the address in a routing key, 1 to %d: `length(<cascade>.units)`, or "+
			"the attribute `levels` of a ladder. Required, unless `match` is `suffix`; then it is left out.",
			delay.MaxLevels),
	},
	{
		Name: "address", Required: true,
		Field: attribute.Text(func(d *delay.Destination) *string { return &d.Address }, "a", "b"),
		Doc: "The address: one word, or several joined by dots, without the wildcards `*` and `#`, and without a " +
			"`~` before another character. With its key it can have as many bytes as AMQP allows, 255 in all: with " +
			"28 levels, 199 remain for it.",
	},
	{
		Name: "match", Default: string(delay.Exact),
		Field: attribute.Choice(func(d *delay.Destination) *delay.Match { return &d.Match }, delay.Exact, delay.Suffix),
		Doc: "`exact` takes the messages for this address. `suffix` binds with " +
			"`#.<address>`, as NServiceBus and Celery do. The address `orders` then also takes the messages " +
			"for `eu.orders`, and for any other address that ends with `.orders`. Default: `exact`.",
	},
	{
		Name:  "queue",
		Field: attribute.Text(func(d *delay.Destination) *string { return &d.Queue }, "", "", "queue~a", "queue~a"),
		Doc: "Queue that takes the messages. It has to exist. Exactly one of `queue` and " +
			"`exchange` is given.",
	},
	{
		Name: "exchange",
		Field: attribute.Text(func(d *delay.Destination) *string { return &d.Exchange }, "", "", "exchange~a",
			"exchange~a"),
		Doc: "Exchange that takes the messages, with the routing key that they have at the " +
			"delivery exchange, the delay included. It has to exist.",
	},
	{
		Name: "triggers",
		Schema: schema.MapAttribute{Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Values of other resources to watch, under names of your choice. When one of them " +
				"changes, the apply binds again if the binding is gone. That is for a cascade with " +
				"`force_destroy` that is replaced: its delivery exchange goes with all that is bound to it. It is " +
				"also for a queue or exchange that another resource replaces under the same name. Otherwise the " +
				"destination does not see that before the next plan. A value that is known in the apply only, and " +
				"equal then, is no change."},
	},
	{
		Name:   routingKey,
		Schema: tfvalue.ComputedText("Routing key of the binding: `*.` for each level, or `#.`, and then the address."),
		Show: func(x *attribute.Resolved[delay.Destination], _ topology.Topology, _ attr.Value) attr.Value {
			return types.StringValue(bindingOf(x.Desired).RoutingKey)
		},
	},
	{
		Name: leftoverBindings,
		Schema: schema.ListAttribute{Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Bindings that an update which broke off has left, or may have left, as import " +
				"IDs. They take messages, too. Null if there are none. A refresh keeps those that are there, and " +
				"the plan shows them. The next apply removes all that the configuration does not ask for, as " +
				"does a destroy. Until then, import none of them elsewhere."},
		Show: showLeftovers,
	},
}

// bindingOf is what a destination stands for.
func bindingOf(t topology.Topology) (only topology.Binding) {
	for b := range t.Bindings {
		only = b
	}
	return only
}

// showLeftovers shows the other bindings that are there, the newest last.
func showLeftovers(x *attribute.Resolved[delay.Destination], there topology.Topology, before attr.Value) attr.Value {
	left := importid.Bindings(x.Config.Vhost, there.Bindings.Sorted())
	if i := slices.Index(left, importid.Binding(x.Config.Vhost, bindingOf(x.Desired))); i >= 0 {
		left = slices.Delete(left, i, i+1)
	}
	if len(left) == 0 {
		return types.ListNull(types.StringType)
	}
	ordered := slices.DeleteFunc(leftovers(before), func(id string) bool { return !slices.Contains(left, id) })
	left = slices.DeleteFunc(left, func(id string) bool { return slices.Contains(ordered, id) })
	var ids []attr.Value
	for _, id := range slices.Concat(ordered, left) {
		ids = append(ids, types.StringValue(id))
	}
	return types.ListValueMust(types.StringType, ids)
}

// leftovers reads leftover_bindings.
func leftovers(value attr.Value) (ids []string) {
	given, _ := value.(types.List)
	for _, each := range given.Elements() {
		text, _ := each.(types.String)
		ids = append(ids, text.ValueString())
	}
	return ids
}

func destinationName(x attribute.Resolved[delay.Destination]) string {
	to := fmt.Sprintf("queue %q", x.Config.Queue)
	if x.Config.Queue == "" {
		to = fmt.Sprintf("exchange %q", x.Config.Exchange)
	}
	address := x.Config.Address
	if x.Config.Match == delay.Suffix {
		address += " and all that ends with ." + address
	}
	return fmt.Sprintf("%s, from %s to %s", address, x.Config.DeliveryExchange, to)
}

// owner is what the private state keeps of a destination: which bindings are its own.
type owner struct {
	// Mark is that of all bindings that it has made.
	Mark string `json:"mark"`
	// Plain is the import ID of a binding without a mark that it has imported, and not replaced so far.
	Plain string `json:"plain,omitempty"`
}

// own are the bindings of a destination that may be there, the one that its state names first. Terraform loses the
// private state if the provider's process ends in the middle of an apply (Terraform 1.11.4). The binding is then the
// only one with a mark, if there is one alone.
func own(
	ctx context.Context, r *managed[delay.Destination], kept private.State, x attribute.Resolved[delay.Destination],
	state attribute.Values,
) (all []topology.Binding, mark string, diags diag.Diagnostics) {
	o := owner{Mark: rand.Text()}
	isKept, diags := private.Get(ctx, kept, ownerKey, &o)
	if b := bindingOf(x.Desired); !isKept && r.Connection.IsKnown() {
		there, err := r.Connection.Client.Vhost(x.Config.Vhost).BindingsFrom(ctx, b.Source)
		marked := topology.NewBindings(there...).Where(
			func(other topology.Binding) bool { return other.Plain() == b && other.DestinationMark() != "" })
		if err == nil && len(marked) == 1 {
			o.Mark = marked[0].DestinationMark()
		}
	}
	left := leftovers(state[leftoverBindings])
	for _, id := range append([]string{importid.Binding(x.Config.Vhost, bindingOf(x.Desired))}, left...) {
		_, b, err := importid.ParseBinding(id)
		if err != nil {
			diags.Append(diagnose.Error("Unreadable state", "leftover_bindings: %s", err))
		}
		if id == o.Plain {
			all = append(all, b)
		}
		all = append(all, b.OfDestination(o.Mark))
	}
	return all, o.Mark, diags
}

// keepOwner notes which of the bindings that are there are the destination's own.
func keepOwner(
	ctx context.Context, kept private.State, vhost, mark string, there topology.Bindings,
) diag.Diagnostics {
	o := owner{Mark: mark}
	for b := range there {
		if b.DestinationMark() == "" {
			o.Plain = importid.Binding(vhost, b)
		}
	}
	return private.Set(ctx, kept, ownerKey, o)
}

// prepareDestination has all bindings of the destination before the change, and marks the one after it.
func prepareDestination(
	ctx context.Context, r *managed[delay.Destination], c *change[delay.Destination],
) (diags diag.Diagnostics) {
	mark := rand.Text()
	if c.before != nil {
		var all []topology.Binding
		all, mark, diags = own(ctx, r, c.private, c.had, c.before)
		c.engine.Before.Bindings, c.engine.Options.Named = topology.NewBindings(all...), all[0]
	}
	if c.after != nil {
		c.engine.After.Bindings = topology.NewBindings(bindingOf(c.gets.Desired).OfDestination(mark))
	}
	if c.before != nil && c.after != nil {
		c.after[leftoverBindings] = c.before[leftoverBindings] // the order of those that are left
	}
	return diags
}

const leftoverBindings = "leftover_bindings"

// rememberOwner is what the private state keeps after a create or an update.
func rememberOwner(ctx context.Context, c *change[delay.Destination], result engine.Result) diag.Diagnostics {
	return keepOwner(ctx, c.private, c.engine.Vhost, bindingOf(c.engine.After).DestinationMark(),
		result.There.Bindings)
}

// sayOfDestination has the words for what came of a change.
func sayOfDestination(
	_ context.Context, r *managed[delay.Destination], c *change[delay.Destination], result engine.Result, err error,
) (diags diag.Diagnostics) {
	x, has := c.gets, c.gets
	if c.after == nil {
		x = c.had
	}
	if c.before != nil && !result.IsNew {
		has = c.had
	}
	d := diagnose.Destination{Vhost: c.engine.Vhost, Binding: bindingOf(x.Desired), Options: c.engine.Options}
	stays := d
	stays.Binding = bindingOf(has.Desired)
	var unfinished *engine.UnfinishedError
	if c.before != nil && errors.As(err, &unfinished) && unfinished.Undo == nil && result.There != nil {
		diags.Append(stays.LeftBehind(leftovers(showLeftovers(&has, *result.There, c.before[leftoverBindings])))...)
	}
	if c.before != nil && c.after != nil && !c.before["triggers"].Equal(c.after["triggers"]) {
		expected := func(p engine.Problem) bool { return p.Code == engine.Unplanned }
		result.Problems = slices.DeleteFunc(result.Problems, expected) // triggers are for a binding that goes
	}
	diags.Append(d.ExplainAll(c.verb, result.Problems, err)...)
	switch {
	case result.State == nil:
	case c.after == nil:
		diags.Append(d.StillBound(result.State.Bindings)...)
	default:
		r.Connection.Handovers.Made(d.Vhost, d.Binding)
		diags.Append(d.Overlaps(result.State.Bindings.Sorted())...)
	}
	return diags
}

// readDestination looks whether the binding is there, and who else takes its messages. An update that broke off may
// have got further than the state says.
func readDestination(
	ctx context.Context, r *managed[delay.Destination], x attribute.Resolved[delay.Destination], state attribute.Values,
	kept private.State,
) (there *topology.Topology, diags diag.Diagnostics) {
	all, mark, diags := own(ctx, r, kept, x, state)
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
	diags.Append(keepOwner(ctx, kept, d.Vhost, mark, there.Bindings)...)
	diags.Append(d.LeftBehind(importid.Bindings(d.Vhost, found[1:]))...)
	diags.Append(d.Overlaps(bound.Where(func(b topology.Binding) bool { return !slices.Contains(found[1:], b) }))...)
	beyond, err := engine.LookBeyond(ctx, vhost, d.Binding, bound.Sorted())
	if err != nil {
		return nil, append(diags, d.Failed("read", err))
	}
	diags.Append(d.Limited(beyond.Limit)...)
	diags.Append(d.Behind(beyond.Findings)...)
	return there, diags
}

// FindDestinations are the destinations among the bindings of a vhost. Others are left out. Bindings that differ only
// in their marks have one identity.
func FindDestinations(vhost string, bindings []topology.Binding) []Found {
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

const routingKey = "routing_key"

func checkDestinationIdentity(id attribute.Values) string {
	if (id.Text("queue") == "") == (id.Text("exchange") == "") {
		return "The identity has to have either queue or exchange."
	}
	return ""
}

// findDestination looks for a binding, whoever made it: the plain one if there is one, else the only one with a mark.
func findDestination(
	ctx context.Context, r *managed[delay.Destination], id attribute.Values, kept private.State,
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
	diags.Append(keepOwner(ctx, kept, d.Vhost, taken[0].DestinationMark(), topology.NewBindings(taken...))...)
	return found, diags
}
