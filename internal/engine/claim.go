package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// begin waits until no other resource works on the objects before and after, nor on the exchanges that they deliver to.
func (o *operation) begin(ctx context.Context, table *claims.Table) (err error) {
	var objects []claims.Object
	for _, d := range []*deployment{o.before, o.after} {
		objects = append(objects, d.own()...)
		if !d.wanted.IsEmpty() {
			objects = append(objects, d.claimed(topology.ExchangeObject(d.wanted.Delivery)))
		}
	}
	o.claim, err = table.Begin(ctx, o.change.String(), objects)
	return err
}

// checkOwners refuses what another resource of this run has, and to delete what another one has asked for in vain. It
// leaves what others have taken over out of the topology before.
func (o *operation) checkOwners() error {
	own := o.after.own()
	retired := slices.DeleteFunc(o.before.own(),
		func(object claims.Object) bool { return slices.Contains(own, object) })
	if err := allErrors(held(o.claim, own), wanted(o.claim, retired)); err != nil {
		return err
	}
	o.before.wanted = unclaimed(o.before.wanted, o.change.Vhost, o.claim.Taken(retired))
	return nil
}

// end notes the objects that the resource has from now on.
func (o *operation) end(err error) {
	defer o.claim.End()
	before := o.before.of(o.change.Before).own()
	if err != nil {
		o.claim.Keep(before)
		return
	}
	o.claim.Release(before)
	o.claim.Take(o.after.own())
}

// own are the objects of the topology that no other resource can have: all but the delivery exchange, which is shared.
func (d *deployment) own() []claims.Object {
	var own []claims.Object
	for _, object := range d.wanted.Objects() {
		if object != topology.ExchangeObject(d.wanted.Delivery) {
			own = append(own, d.claimed(object))
		}
	}
	return own
}

func (d *deployment) claimed(object string) claims.Object {
	return claims.Object{Vhost: d.vhost.Name(), Name: object}
}

// present are the objects of the topology that are there.
func (d *deployment) present(actual topology.Topology) []claims.Object {
	return d.of(actual.Part(d.wanted)).own()
}

// held refuses what another resource of this run has.
func held(claim *claims.Operation, objects []claims.Object) error {
	if by := claim.Held(objects); len(by) > 0 {
		return &HeldError{by}
	}
	return nil
}

// wanted refuses to delete what another resource of this run has asked for in vain.
func wanted(claim *claims.Operation, objects []claims.Object) error {
	if by := claim.AskedInVain(objects); len(by) > 0 {
		return &WantedError{by}
	}
	return nil
}

// unclaimed is the rest of a topology without some of its objects.
func unclaimed(t topology.Topology, vhost string, objects Claimed) topology.Topology {
	is := func(object string) bool {
		_, is := objects[claims.Object{Vhost: vhost, Name: object}]
		return is
	}
	t = t.Clone()
	maps.DeleteFunc(t.Exchanges, func(n string, _ topology.Exchange) bool { return is(topology.ExchangeObject(n)) })
	maps.DeleteFunc(t.Queues, func(n string, _ topology.Queue) bool { return is(topology.QueueObject(n)) })
	maps.DeleteFunc(t.Policies, func(n string, _ topology.Policy) bool { return is(topology.PolicyObject(n)) })
	return t
}
