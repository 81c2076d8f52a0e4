package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Destination is a binding from an exchange of others to a queue or exchange of others. It says where messages go that
// come out of a cascade or ladder.
type Destination struct {
	Client  *broker.Client
	Claims  *claims.Table
	Vhost   string
	Binding topology.Binding
	// Who names the destination in the errors of others.
	Who string
}

// String names the destination in messages.
func (d *Destination) String() string {
	return fmt.Sprintf("%s in vhost %q", BindingObject(d.Vhost, d.Binding).Name, d.Vhost)
}

// BindingObject is a binding as the table of claims has it.
func BindingObject(vhost string, b topology.Binding) claims.Object {
	return claims.Object{Vhost: vhost, Name: fmt.Sprintf(
		"binding of exchange %q to %s %q with key %q", b.Source, b.DestinationType, b.Destination, b.RoutingKey)}
}

// Found is what a look at the broker has shown of a destination.
type Found struct {
	// Limit makes the queue that is the destination refuse messages. It is empty if there is none.
	Limit string
	// Levels are those of what ends in the delivery exchange, if none of them is that of the binding.
	Levels map[int]bool
	// LosesOverdue is set for a quorum queue behind classic delay queues. Some of the messages that fall due while a
	// node is down are lost when it starts. Of 60, 3 to 10 were (3.10.8, 4.0.5, 4.3.6; down for 15 s after a clean
	// stop).
	LosesOverdue bool
	// There are all bindings of the delivery exchange after an operation that has succeeded.
	There []topology.Binding
}

// Bound is what a destination has.
type Bound struct {
	// Before is its binding before the operation, and Leftovers are those besides, of updates which broke off.
	Before    topology.Binding
	Leftovers []topology.Binding
	// Shared tells that another resource has taken over the binding before, which an update could not leave behind.
	Shared bool
	// IsNew tells that it has got the wanted binding in place of the one before.
	IsNew bool
}

func (b Bound) all() []topology.Binding { return append(Without(b.Leftovers, b.Before), b.Before) }

// Create binds, unless the binding exists already. An error of type *UnfinishedError says whether it may be there.
func (d *Destination) Create(ctx context.Context, adopt bool) (found Found, err error) {
	r, err := d.begin(ctx, d.Binding)
	if err != nil {
		return found, err
	}
	defer r.claim.End()
	if found, err = r.prepare(ctx, adopt, nil); err != nil {
		return found, err
	}
	there, done, err := r.bind(ctx, nil)
	if err == nil {
		r.take()
		found.There = there
		return found, nil
	}
	undo := r.undo(ctx, done)
	if undo != nil {
		r.take()
	}
	return found, &UnfinishedError{failure{err}, undo}
}

// Destroy removes the binding and what updates have left besides, but for what others have taken over.
func (d *Destination) Destroy(ctx context.Context, bound Bound, guard plans.Guard) error {
	own := bound.all()
	r, err := d.begin(ctx, own...)
	if err != nil {
		return err
	}
	defer r.claim.End()
	gone := Without(own, r.among(own, r.claim.Taken)...)
	if bound.Shared {
		gone = Without(gone, bound.Before)
	}
	if err = wanted(r.claim, bindingObjects(r.Vhost, gone)); err == nil {
		err = r.vacate(ctx, gone, guard)
	}
	if err == nil {
		err = r.unbind(ctx, gone)
	}
	if err != nil {
		r.keep(own...)
		return err
	}
	r.claim.LetGo(bindingObjects(r.Vhost, gone))
	return nil
}

// Read lists the bindings of the delivery exchange.
func (d *Destination) Read(ctx context.Context) ([]topology.Binding, error) {
	return d.Client.Lookup(d.Vhost).BindingsFrom(ctx, d.Binding.Source)
}

// Find lists the bindings of the delivery exchange, and which of the leftovers are there. If the binding is not, the
// last of these takes its place: an update got further than it could see.
func (d *Destination) Find(
	ctx context.Context, leftovers []topology.Binding,
) (there, left []topology.Binding, err error) {
	if there, err = d.Read(ctx); err != nil {
		return nil, nil, err
	}
	if left, err = d.present(ctx, leftovers); err != nil {
		return nil, nil, err
	}
	if last := len(left) - 1; !d.isIn(there) && last >= 0 {
		d.Binding, left = left[last], left[:last]
		there, err = d.Read(ctx)
	}
	return there, left, err
}

// Limit is what makes the queue that is the destination refuse messages, and whether the queue exists.
func (d *Destination) Limit(ctx context.Context) (limit string, exists bool, err error) {
	queue, status, exists, err := d.Client.Queue(ctx, d.Vhost, d.Binding.Destination)
	return health.Refuses(queue, status), exists, err
}

// rebinding is an operation on a destination that has a claim on all bindings.
type rebinding struct {
	*Destination
	claim *claims.Operation
	// isThere tells whether the wanted binding was there before anything was written.
	isThere bool
}

// begin waits until no other resource works on any of the bindings.
func (d *Destination) begin(ctx context.Context, bindings ...topology.Binding) (*rebinding, error) {
	claim, err := d.Claims.Begin(ctx, d.Who, bindingObjects(d.Vhost, bindings))
	return &rebinding{Destination: d, claim: claim}, err
}

// prepare looks whether the binding can be made, before anything is written. One of its own may be there.
func (r *rebinding) prepare(ctx context.Context, adopt bool, own []topology.Binding) (found Found, err error) {
	object := bindingObjects(r.Vhost, []topology.Binding{r.Binding})
	if err := held(r.claim, object); err != nil {
		return found, err
	}
	if found.Limit, err = r.checkEnds(ctx); err != nil {
		return found, err
	}
	if err := r.CheckNames(ctx); err != nil {
		return found, err
	}
	if found.Levels, err = r.OtherLevels(ctx); err != nil {
		return found, err
	}
	if found.LosesOverdue, err = r.LosesOverdue(ctx); err != nil {
		return found, err
	}
	there, err := r.Read(ctx)
	if err != nil {
		return found, err
	}
	r.isThere = r.isIn(there)
	if r.isThere && !adopt && !r.isIn(own) {
		r.claim.FailFor(object)
		return found, &ExistsError{Equal: []string{r.String()}}
	}
	return found, nil
}

// bind makes the wanted binding, unless it is there, then removes those that are to go, and reads what there is then.
// Done are the steps that may have had an effect.
func (r *rebinding) bind(
	ctx context.Context, gone []topology.Binding,
) (there []topology.Binding, done []plans.Step, err error) {
	actual := topology.NewBindings(gone...)
	if r.isThere {
		actual.Add(r.Binding)
	}
	done, err = r.Client.Run(ctx, r.Vhost, plans.Rebind(topology.NewBindings(r.Binding), actual))
	if err == nil {
		there, err = r.Read(ctx)
	}
	if err == nil && !r.isIn(there) {
		err = errors.New("somebody else removed it meanwhile")
	}
	return there, done, err
}

// undo takes back the binding that was made.
func (r *rebinding) undo(ctx context.Context, done []plans.Step) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	_, err := r.Client.Run(ctx, r.Vhost, plans.Undo(topology.New(), done))
	if broker.IsKind(err, broker.VhostNotFound) {
		return nil
	}
	return err
}

func (r *rebinding) unbind(ctx context.Context, gone []topology.Binding) error {
	_, err := r.Client.Run(ctx, r.Vhost, plans.Rebind(topology.Bindings{}, topology.NewBindings(gone...)))
	if broker.IsKind(err, broker.VhostNotFound) {
		return nil
	}
	return err
}

// present are those of the bindings that are there, in the same order.
func (d *Destination) present(ctx context.Context, bindings []topology.Binding) ([]topology.Binding, error) {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	from := map[string][]topology.Binding{}
	var present []topology.Binding
	for _, b := range bindings {
		if _, known := from[b.Source]; !known {
			there, err := d.Client.Lookup(d.Vhost).BindingsFrom(ctx, b.Source)
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

// among are those of the bindings which others have such a claim on.
func (r *rebinding) among(
	bindings []topology.Binding, claimed func([]claims.Object) map[claims.Object]string,
) []topology.Binding {
	found := claimed(bindingObjects(r.Vhost, bindings))
	return slices.DeleteFunc(slices.Clone(bindings), func(b topology.Binding) bool {
		_, is := found[BindingObject(r.Vhost, b)]
		return !is
	})
}

// take notes what the destination has, and no longer has.
func (r *rebinding) take(gone ...topology.Binding) {
	r.claim.LetGo(bindingObjects(r.Vhost, gone))
	r.claim.Take(bindingObjects(r.Vhost, []topology.Binding{r.Binding}))
}

// keep notes what the destination still has, but for what others have taken over.
func (r *rebinding) keep(bindings ...topology.Binding) {
	r.claim.Keep(bindingObjects(r.Vhost, bindings))
}

func (d *Destination) isIn(there []topology.Binding) bool { return slices.Contains(there, d.Binding) }

// Without is the rest of bindings without others, as a copy.
func Without(bindings []topology.Binding, others ...topology.Binding) []topology.Binding {
	return slices.DeleteFunc(slices.Clone(bindings),
		func(b topology.Binding) bool { return slices.Contains(others, b) })
}

func bindingObjects(vhost string, bindings []topology.Binding) []claims.Object {
	objects := make([]claims.Object, len(bindings))
	for i, b := range bindings {
		objects[i] = BindingObject(vhost, b)
	}
	return objects
}
