package engine

import (
	"context"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/claims"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// begin waits until no other resource works on the objects before and after, nor on the exchanges that they deliver to.
func (o *operation) begin(ctx context.Context, table *claims.Table) (err error) {
	var objects []claims.Object
	for _, t := range []topology.Topology{o.change.Before, o.change.After} {
		names := t.Objects()
		if !t.IsEmpty() {
			names = append(names, topology.ExchangeObject(t.Delivery))
		}
		for _, name := range names {
			objects = append(objects, claims.Object{Vhost: o.change.Vhost, Name: name})
		}
	}
	o.claim, err = table.Begin(ctx, o.change.String(), objects)
	return err
}

// checkOwner refuses to touch what others own, unless the change takes that over. A destroy never does.
func (o *operation) checkOwner(wanted topology.Topology, found *rabbit.State) error {
	switch {
	case o.change.Options.Adopt && !o.change.After.IsEmpty():
	case wanted.IsOfOthers(found.Topology):
		return &OwnerError{}
	case len(found.Owners) > 1:
		o.problems = append(o.problems, Problem{OwnsWithOthers, &SharedError{len(found.Owners)}})
	}
	return nil
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
