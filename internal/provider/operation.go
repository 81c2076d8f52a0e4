package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// operation is one operation on one topology: what is wanted, and the way to the broker.
type operation struct {
	client  *broker.Client
	claims  *claims.Table
	kind    string // what the resource is called in messages
	vhost   string
	desired topology.Topology
	// importable is what an import would make of what the broker has, if it would recognize it.
	importable func(context.Context) (topology.Topology, bool)
}

// String names the resource in messages.
func (o *operation) String() string {
	return fmt.Sprintf("%s with entry exchange %q in vhost %q", o.kind, o.desired.Entry, o.vhost)
}

// ownsDelivery tells whether the delivery exchange is part of the resource.
func (o *operation) ownsDelivery() bool {
	_, owns := o.desired.Exchanges[o.desired.Delivery]
	return owns
}

// part is the operation on a part of what is wanted.
func (o *operation) part(desired topology.Topology) *operation {
	part := *o
	part.desired = desired
	return &part
}

func (o *operation) read(ctx context.Context, done ...topology.Step) (*broker.State, error) {
	return o.client.ReadExisting(ctx, o.vhost, o.desired, done...)
}

// readForChange adds what others have bound to objects that have to be recreated.
func (o *operation) readForChange(ctx context.Context) (*broker.State, error) {
	state, err := o.read(ctx)
	if err != nil {
		return nil, err
	}
	exchanges, queues := topology.Recreated(o.desired, state.Topology)
	inbound, err := o.client.Inbound(ctx, o.vhost, exchanges, queues)
	if err != nil {
		return nil, err
	}
	maps.Copy(state.Bindings, inbound)
	return state, nil
}

// checkDelivery makes sure of a delivery exchange that the resource does not create.
func (o *operation) checkDelivery(state *broker.State) diag.Diagnostics {
	var diags diag.Diagnostics
	if o.ownsDelivery() {
		return diags
	}
	declare := "a durable topic exchange"
	anyType := o.desired.DeliveryType == ""
	if anyType {
		declare = "a durable exchange"
	}
	where := fmt.Sprintf("delivery exchange %q in vhost %q", o.desired.Delivery, o.vhost)
	switch {
	case !state.DeliveryExists:
		diags.AddAttributeError(path.Root("delivery_exchange"), "Delivery exchange does not exist",
			fmt.Sprintf("The %s does not exist, and create_delivery_exchange is false. Declare it first, as %s, or let the %s create it.", where, declare, o.kind))
	case state.DeliveryExchange.Type != o.desired.DeliveryType && !anyType:
		diags.AddAttributeError(path.Root("delivery_exchange"), "Delivery exchange has the wrong type",
			fmt.Sprintf("The %s is of type %q. It has to be a topic exchange: destinations are matched behind the delay in the routing key.", where, state.DeliveryExchange.Type))
	}
	return diags
}

// checkExisting refuses to touch what is there already, unless it is to be adopted and is exactly right.
func (o *operation) checkExisting(ctx context.Context, state *broker.State, adopt bool) diag.Diagnostics {
	var diags diag.Diagnostics
	equal, different := o.sortExisting(state)
	switch {
	case len(different) > 0:
		also := ""
		if len(equal) > 0 {
			also = fmt.Sprintf("Exactly as the %s would declare them:\n\n  %s\n\n", o.kind, strings.Join(equal, "\n  "))
		}
		diags.AddError(fmt.Sprintf("Objects of the %s exist and differ", o.kind), fmt.Sprintf(
			nothingWritten+"In vhost %q these objects exist and are not what the %s would declare:\n\n  %s\n\n%s%s",
			o.vhost, o.kind, strings.Join(different, "\n  "), also,
			o.orImport(ctx, "Use other names or remove these objects", "import the "+o.kind+" and let an apply bring it into line")))
	case len(equal) > 0 && !adopt:
		diags.AddError(fmt.Sprintf("Objects of the %s exist already", o.kind), fmt.Sprintf(
			nothingWritten+"In vhost %q these objects exist, exactly as the %s would declare them:\n\n  %s\n\n%s",
			o.vhost, o.kind, strings.Join(equal, "\n  "),
			o.orImport(ctx, "If nobody else owns them, set adopt = true to take them "+
				"over", "import the "+o.kind)+waysOfOthers))
	}
	return diags
}

// waysOfOthers are the ways out where the objects are those of another resource.
const waysOfOthers = "\n\nIf they are those of a resource that has got another address, a moved block says so. " +
	"If it replaces itself with create_before_destroy, these are its own: remove that, or set adopt = true."

// sortExisting lists what is there of the desired topology, exactly as it is to be or different. A delivery exchange
// that is as it
// is to be does not count: others may use it.
func (o *operation) sortExisting(state *broker.State) (equal, different []string) {
	for _, object := range topology.Existing(o.desired, state.Topology) {
		switch {
		case len(object.Differences) > 0:
			different = append(different, object.String())
		case object.Name != topology.ExchangeObject(o.desired.Delivery):
			equal = append(equal, object.String())
		}
	}
	return equal, different
}

// checkTakeover refuses a delivery exchange that is to become part of the resource and is not what the resource would
// declare.
func (o *operation) checkTakeover(state *broker.State) diag.Diagnostics {
	var diags diag.Diagnostics
	want, have := topology.New(), topology.New()
	want.Exchanges[o.desired.Delivery] = o.desired.Exchanges[o.desired.Delivery]
	if state.DeliveryExists {
		have.Exchanges[o.desired.Delivery] = state.DeliveryExchange
	}
	for _, object := range topology.Existing(want, have) {
		if len(object.Differences) > 0 {
			diags.AddAttributeError(path.Root("create_delivery_exchange"), "Delivery exchange differs", fmt.Sprintf(
				"Nothing was written. In vhost %q the delivery exchange is not what the %s would declare:\n\n  %s\n\n"+
					"Leave create_delivery_exchange at false, or let its owner delete it.", o.vhost, o.kind, object))
		}
	}
	return diags
}

// orImport adds the import as a way out, with its command, if what exists is so much of the resource
// that an import would recognize it, and an apply complete it without replacing anything.
func (o *operation) orImport(ctx context.Context, otherwise, purpose string) string {
	recognized, ok := o.importable(ctx)
	if !ok || !recognized.SameObjects(o.desired) {
		return otherwise + "."
	}
	return fmt.Sprintf("%s, or %s:\n\n  %s", otherwise, purpose, commandToImport(o.kind, o.vhost, o.desired.Entry))
}

// verify makes sure that what was written is there.
func (o *operation) verify(state *broker.State) error {
	missing := topology.Diff(o.desired, state.Topology).Steps()
	if len(missing) == 0 {
		return nil
	}
	texts := make([]string, len(missing))
	for i, step := range missing {
		texts[i] = step.String()
	}
	return fmt.Errorf("somebody else changed the %s meanwhile; still to be done: %s", o.kind, strings.Join(texts, "; "))
}

// change turns what there is into what is wanted, and reads what there is then, nil if that is not known. Done are the steps that may
// have had an effect.
func (o *operation) change(ctx context.Context, state *broker.State) (after *broker.State, done []topology.Step, err error) {
	return o.carryOut(ctx, topology.Diff(o.desired, state.Topology), state)
}

// create does the same for what is to be new. What exists may be taken over if it is adopted.
func (o *operation) create(
	ctx context.Context, state *broker.State, adopt bool,
) (after *broker.State, done []topology.Step, err error) {
	if adopt {
		return o.change(ctx, state)
	}
	return o.carryOut(ctx, topology.Create(o.desired, state.Topology, rand.Text()), state)
}

func (o *operation) carryOut(
	ctx context.Context, plan topology.Plan, state *broker.State,
) (after *broker.State, done []topology.Step, err error) {
	if len(plan) == 0 {
		return state, nil, nil
	}
	runner := o.client.Begin(o.vhost)
	defer runner.Close()
	if done, err = runner.Run(ctx, plan); err != nil {
		return nil, done, err
	}
	runner.Release()
	if after, err = o.read(ctx, done...); err != nil {
		return nil, done, err
	}
	return after, done, o.verify(after)
}

// remove deletes everything, unless messages wait in it. AMQP is opened while the objects are read, and what others have bound to them
// is read between two looks at the queues.
func (o *operation) remove(ctx context.Context, guard topology.Guard) error {
	runner := o.client.Begin(o.vhost)
	defer runner.Close()
	inspected := len(o.desired.Queues)
	if guard.Force {
		inspected = 0
	}
	runner.Connect(ctx, inspected)
	state, err := o.read(ctx)
	if err != nil {
		return err
	}
	if !guard.Force {
		runner.Look(ctx, o.desired.Downstream(state.Queues), state.Topology)
	}
	if topology.NeedsInbound(o.desired, guard) {
		inbound, err := o.client.Inbound(ctx, o.vhost, o.ownedExchanges(state.Topology), slices.Collect(maps.Keys(state.Queues)))
		if err != nil {
			return err
		}
		maps.Copy(state.Bindings, inbound)
	}
	_, err = runner.Run(ctx, topology.Teardown(o.desired, state.Topology, guard))
	return err
}

// destroy removes everything, and then the delivery exchange, unless others use it: it tells who does.
func (o *operation) destroy(ctx context.Context, guard topology.Guard) (users []string, err error) {
	if err := o.remove(ctx, guard); err != nil {
		return nil, err
	}
	return o.letGo(ctx, guard.Force)
}

// ownedExchanges are those of the exchanges whose bindings belong to the resource.
func (o *operation) ownedExchanges(t topology.Topology) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t.Exchanges)), func(name string) bool { return !o.desired.Owns(name) })
}

// letGo deletes the delivery exchange if it belongs to the resource, unless others use it: it tells who does.
func (o *operation) letGo(ctx context.Context, force bool) (users []string, err error) {
	if !o.ownsDelivery() {
		return nil, nil
	}
	name := o.desired.Delivery
	if !force {
		if users, err = o.client.Users(ctx, o.vhost, name); err != nil || len(users) > 0 {
			return users, err
		}
	}
	if _, err = o.client.Run(ctx, o.vhost, topology.LetGo(name, force)); broker.IsKind(err, broker.InUse) {
		users, err = o.client.Bound(ctx, o.vhost, name)
	}
	return users, err
}

// leftStanding says why the delivery exchange is still there.
func (o *operation) leftStanding(users []string) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(users) > 0 {
		diags.AddWarning("Delivery exchange left standing", fmt.Sprintf(
			"Exchange %q in vhost %q is still there, because others use it:\n\n  %s\n\nforce_destroy = true deletes "+
				"it all the same.",
			o.desired.Delivery, o.vhost, strings.Join(atMost(users), "\n  ")))
	}
	return diags
}

// undo takes back what a create made. It returns what is left of it, nil for nothing.
func (o *operation) undo(ctx context.Context, done []topology.Step) (*topology.Topology, error) {
	if len(done) == 0 {
		return nil, nil
	}
	_, err := o.client.Run(ctx, o.vhost, topology.Undo(o.desired, done))
	if broker.IsKind(err, broker.InUse) {
		err = nil // another create has declared it at the same moment, and goes on
	}
	if err == nil && o.declaresDelivery(done) {
		_, err = o.letGo(ctx, false)
	}
	if err == nil {
		return nil, nil
	}
	state, readErr := o.read(ctx)
	if readErr != nil {
		// Nobody can say what exists: the state names all that may.
		return &o.desired, errors.Join(err, readErr)
	}
	if len(state.Exchanges)+len(state.Queues) == 0 {
		return nil, nil
	}
	return &state.Topology, err
}

// notCreated says why a create failed. What others have declared meanwhile is listed, and was asked for in vain.
func (o *operation) notCreated(ctx context.Context, claim *claims.Operation, err error) diag.Diagnostics {
	diags := diag.Diagnostics{o.failed("create", err)}
	if !broker.IsKind(err, broker.Exists) {
		return diags
	}
	state, err := o.client.Read(ctx, o.vhost, o.desired)
	if err != nil {
		return append(diags, o.failed("create", err))
	}
	claim.FailFor(o.existing(state.Topology))
	equal, different := o.sortExisting(state)
	if there := slices.Concat(equal, different); len(there) > 0 {
		diags.AddError(fmt.Sprintf("Objects of the %s were declared meanwhile", o.kind), fmt.Sprintf(
			"What this create made is removed again. In vhost %q, somebody else has these objects now:\n\n  "+
				"%s\n\nUse other names, or see who declares them.",
			o.vhost, strings.Join(there, "\n  ")))
	}
	return diags
}

// declaresDelivery tells whether the delivery exchange is, or may be, one of the things that have been declared.
func (o *operation) declaresDelivery(done []topology.Step) bool {
	return slices.ContainsFunc(done, func(step topology.Step) bool {
		declared, ok := step.(topology.DeclareExchange)
		return ok && declared.Exchange.Name == o.desired.Delivery
	})
}

// inFlight is the number of messages that wait, by the broker's lagging count.
func inFlight(state *broker.State) int64 {
	var sum int64
	for _, status := range state.Status {
		sum += status.Messages
	}
	return sum
}

// inFlightKey is where the private state keeps what Read counted, for the warning of a replacement.
const inFlightKey = "in_flight"
