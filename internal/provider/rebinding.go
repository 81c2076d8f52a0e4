package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// rebinding is one operation on one destination: the binding that is wanted, and the way to the broker.
type rebinding struct {
	client  *broker.Client
	claims  *claims.Table
	vhost   string
	binding topology.Binding
	// claim is what the operation has in the table of claims, once it has begun.
	claim *claims.Operation
}

// String names the destination in messages.
func (o *rebinding) String() string {
	return fmt.Sprintf("%s in vhost %q", bindingObject(o.vhost, o.binding).Name, o.vhost)
}

// bindingObject is a binding as the table of claims has it.
func bindingObject(vhost string, b topology.Binding) claims.Object {
	return claims.Object{Vhost: vhost, Name: fmt.Sprintf(
		"binding of exchange %q to %s %q with key %q", b.Source, b.DestinationType, b.Destination, b.RoutingKey)}
}

func bindingObjects(vhost string, bindings []topology.Binding) []claims.Object {
	objects := make([]claims.Object, len(bindings))
	for i, b := range bindings {
		objects[i] = bindingObject(vhost, b)
	}
	return objects
}

func (o *rebinding) failed(verb string, err error) diag.Diagnostic {
	return failed(verb, "destination", o.String(), err)
}

// read lists what is bound to the delivery exchange.
func (o *rebinding) read(ctx context.Context) ([]topology.Binding, error) {
	return o.client.Lookup(o.vhost).BindingsFrom(ctx, o.binding.Source)
}

func (o *rebinding) isIn(there []topology.Binding) bool { return slices.Contains(there, o.binding) }

// existing is the binding, if it is there.
func (o *rebinding) existing(there []topology.Binding) topology.Bindings {
	if o.isIn(there) {
		return bindingSet(o.binding)
	}
	return bindingSet()
}

func bindingSet(bindings ...topology.Binding) topology.Bindings {
	set := topology.Bindings{}
	for _, b := range bindings {
		set.Add(b)
	}
	return set
}

// prepare looks whether the binding can be made, before anything is written. One of its own may be there.
func (o *rebinding) prepare(
	ctx context.Context, verb string, adopt bool, own []topology.Binding,
) ([]topology.Binding, diag.Diagnostics) {
	diags := o.checkNotHeld()
	if diags.HasError() {
		return nil, diags
	}
	diags.Append(o.checkEnds(ctx, verb)...)
	if diags.HasError() {
		return nil, diags
	}
	found := &misnamed{vhost: o.vhost}
	err := o.checkNames(ctx, found)
	if err == nil && !found.HasError() {
		err = o.checkLevels(ctx, found)
	}
	if diags.Append(found.Diagnostics...); err != nil {
		diags.Append(o.failed(verb, err))
	}
	if diags.HasError() {
		return nil, diags
	}
	there, err := o.read(ctx)
	if err != nil {
		diags.Append(o.failed(verb, err))
	} else if o.isIn(there) && !adopt && !o.isIn(own) {
		o.claim.FailFor(bindingObjects(o.vhost, []topology.Binding{o.binding}))
		diags.AddError("Binding exists already", fmt.Sprintf("Nothing was written. There is a %s. If nobody else owns it, set adopt = true to take it over, or import it:\n\n"+
			"  terraform import rabbitmqdelay_destination.<name in your configuration> '%s'\n\n%s",
			o, destinationID(o.vhost, o.binding), ifItMoved))
	}
	return there, diags
}

// checkEnds makes sure of what the binding is to connect.
func (o *rebinding) checkEnds(ctx context.Context, verb string) diag.Diagnostics {
	var diags diag.Diagnostics
	look := o.client.Lookup(o.vhost)
	const first = "Declare it first: refer to the resource that declares it, and Terraform does so."
	source, exists, err := look.Exchange(ctx, o.binding.Source)
	switch {
	case err != nil:
		diags.Append(o.failed(verb, err))
		return diags
	case !exists:
		diags.AddAttributeError(path.Root("delivery_exchange"), "Delivery exchange does not exist", fmt.Sprintf("There is no exchange %q in vhost %q. %s", o.binding.Source, o.vhost, first))
	case source.Type != "topic":
		diags.AddAttributeError(path.Root("delivery_exchange"), "Delivery exchange has the wrong type", fmt.Sprintf(
			"Exchange %q in vhost %q is of type %q. It has to be a topic exchange, such as that of a cascade: destinations are matched behind the digits of the routing key.", o.binding.Source, o.vhost, source.Type))
	}
	var limit string
	if o.binding.DestinationType == topology.ToQueue {
		exists, limit, err = o.queue(ctx)
	} else {
		_, exists, err = look.Exchange(ctx, o.binding.Destination)
	}
	switch kind := string(o.binding.DestinationType); {
	case err != nil:
		diags.Append(o.failed(verb, err))
	case !exists:
		diags.AddAttributeError(path.Root(kind), title(kind)+" does not exist",
			fmt.Sprintf("There is no %s %q in vhost %q. This provider declares none: an application does, or "+
				"rabbitmq_%s of the cyrilgdn/rabbitmq provider, see the guide \"Beside another RabbitMQ provider\". %s",
				kind, o.binding.Destination, o.vhost, kind, first))
	}
	return append(diags, o.limited(limit)...)
}

// queue tells whether the queue that is the destination exists, and which limit makes it refuse messages.
func (o *rebinding) queue(ctx context.Context) (exists bool, limit string, err error) {
	queue, status, exists, err := o.client.Queue(ctx, o.vhost, o.binding.Destination)
	return exists, topology.Refuses(queue, status), err
}

// limited warns of a destination that refuses messages when it is full.
func (o *rebinding) limited(limit string) diag.Diagnostics {
	var diags diag.Diagnostics
	if limit != "" {
		diags.AddAttributeWarning(path.Root("queue"), "Destination refuses messages when it is full", fmt.Sprintf(
			"Queue %q in vhost %q refuses messages when it is full: %s. What it refuses, a cascade of quorum queues offers again three minutes later, and 32 refused messages keep all others from leaving the "+
				"same delay queue, whatever their destination; a cascade of classic queues loses it. Let the queue take what comes, or give it a cascade of its own.", o.binding.Destination, o.vhost, limit))
	}
	return diags
}

// rebind turns the actual bindings into the wanted one, and reads what there is then. Done are the steps that may
// have had an effect.
func (o *rebinding) rebind(ctx context.Context, actual topology.Bindings) (after []topology.Binding, done []topology.Step, err error) {
	done, err = o.client.Run(ctx, o.vhost, topology.Rebind(bindingSet(o.binding), actual))
	if err == nil {
		after, err = o.read(ctx)
	}
	if err == nil && !o.isIn(after) {
		err = errors.New("somebody else removed it meanwhile")
	}
	return after, done, err
}

// undo takes back the binding that was made.
func (o *rebinding) undo(ctx context.Context, done []topology.Step) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	_, err := o.client.Run(ctx, o.vhost, topology.Undo(topology.New(), done))
	return err
}

// present are those of the bindings that are there, in the same order.
func (o *rebinding) present(ctx context.Context, bindings []topology.Binding) ([]topology.Binding, error) {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	from := map[string][]topology.Binding{}
	var present []topology.Binding
	for _, b := range bindings {
		if _, known := from[b.Source]; !known {
			there, err := o.client.Lookup(o.vhost).BindingsFrom(ctx, b.Source)
			if err != nil {
				return nil, err
			}
			from[b.Source] = there
		}
		if slices.Contains(from[b.Source], b) {
			present = append(present, b)
		}
	}
	return present, nil
}

// without is what remains of bindings, as a copy.
func without(bindings []topology.Binding, others ...topology.Binding) []topology.Binding {
	return slices.DeleteFunc(slices.Clone(bindings), func(b topology.Binding) bool { return slices.Contains(others, b) })
}

// leftBehind warns of what updates that broke off have left beside the binding.
func (o *rebinding) leftBehind(leftovers []topology.Binding) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(leftovers) > 0 {
		diags.AddAttributeWarning(path.Root("leftover_bindings"), "Update is not finished", fmt.Sprintf(
			"Besides the %s, an update that broke off has left what gets messages, too:\n\n  %s\n\nThe next apply removes what of it the configuration does not ask for.",
			o, strings.Join(destinationIDs(o.vhost, leftovers), "\n  ")))
	}
	return diags
}

// missing says what is bound to the destination instead.
func (o *rebinding) missing(there []topology.Binding) error {
	keys := map[string]bool{}
	for _, b := range there {
		if b.DestinationType == o.binding.DestinationType && b.Destination == o.binding.Destination {
			keys[fmt.Sprintf("%q", b.RoutingKey)] = true
		}
	}
	if len(keys) == 0 {
		return fmt.Errorf("there is no such binding, nor any other of this exchange to this %s", o.binding.DestinationType)
	}
	return fmt.Errorf("there is no such binding; this exchange is bound to this %s with %s", o.binding.DestinationType, strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
}

// mostOverlaps is how many other destinations a warning names.
const mostOverlaps = 10

// overlaps say who else takes messages of this destination, or which messages of others it takes.
func (o *rebinding) overlaps(there []topology.Binding) diag.Diagnostics {
	var diags diag.Diagnostics
	own, _ := cascade.RecognizeDestination(o.vhost, o.binding)
	var lines []string
	for _, overlap := range cascade.Overlaps(o.binding, bindingSet(there...).Sorted()) {
		other := fmt.Sprintf("%s %q, bound with %q,", overlap.Other.DestinationType, overlap.Other.Destination, overlap.Other.RoutingKey)
		if overlap.Takes {
			lines = append(lines, fmt.Sprintf("%s also takes messages for %q", other, own.Address))
		} else {
			lines = append(lines, fmt.Sprintf("%s is there for %q, whose messages this destination also takes", other, overlap.Address))
		}
	}
	if more := len(lines) - mostOverlaps; more > 0 {
		lines = append(lines[:mostOverlaps], fmt.Sprintf("and %d more", more))
	}
	if len(lines) > 0 {
		diags.AddWarning("Destinations take the same messages", fmt.Sprintf("This concerns the %s. Each of them gets a copy of such a message:\n\n  %s\n\n"+
			"With match = \"exact\" a destination takes the messages for its own address only.", o, strings.Join(lines, "\n  ")))
	}
	return diags
}
