package engine

import (
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

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
