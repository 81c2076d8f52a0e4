package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// claim waits until no other resource works on the objects of the topologies, nor on the exchange that they deliver to.
func (d *Deployment) claim(ctx context.Context, topologies ...topology.Topology) (*claims.Operation, error) {
	var objects []claims.Object
	for _, t := range topologies {
		objects = append(objects, d.own(t)...)
		objects = append(objects, claims.Object{Vhost: d.Vhost, Name: topology.ExchangeObject(t.Delivery)})
	}
	return d.Claims.Begin(ctx, d.String(), objects)
}

// own are the objects of a topology that no other resource can have: all but the delivery exchange, which is shared.
func (d *Deployment) own(t topology.Topology) []claims.Object {
	var own []claims.Object
	for _, object := range t.Objects() {
		if object != topology.ExchangeObject(t.Delivery) {
			own = append(own, claims.Object{Vhost: d.Vhost, Name: object})
		}
	}
	return own
}

// present are the objects of the desired topology that are there.
func (d *Deployment) present(actual topology.Topology) []claims.Object {
	return d.own(actual.Within(d.Desired))
}

// endUpdate notes the objects that a resource has after an update of the topology before.
func (d *Deployment) endUpdate(claim *claims.Operation, before topology.Topology, err error) {
	if err != nil {
		claim.Keep(d.own(before))
	} else {
		claim.LetGo(d.own(before))
		claim.Take(d.own(d.Desired))
	}
	claim.End()
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

// spare is the rest of a topology without some of its objects.
func (d *Deployment) spare(t topology.Topology, spared Claimed) topology.Topology {
	is := func(object string) bool {
		_, is := spared[claims.Object{Vhost: d.Vhost, Name: object}]
		return is
	}
	t = t.Clone()
	maps.DeleteFunc(t.Exchanges, func(n string, _ topology.Exchange) bool { return is(topology.ExchangeObject(n)) })
	maps.DeleteFunc(t.Queues, func(n string, _ topology.Queue) bool { return is(topology.QueueObject(n)) })
	maps.DeleteFunc(t.Policies, func(n string, _ topology.Policy) bool { return is(topology.PolicyObject(n)) })
	return t
}

// notAmong are the objects that are not among others.
func notAmong(objects, others []claims.Object) []claims.Object {
	return slices.DeleteFunc(objects, func(object claims.Object) bool { return slices.Contains(others, object) })
}
