package engine

import (
	"context"
	"maps"
	"slices"

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

// checkReached refuses to adopt objects that messages reach from an entry that has an owner and is not that of the
// topology. The mark there would not be taken over, and its owner's destroy would delete them. What leads to the entry
// itself is an ordinary thing.
func (d *deployment) checkReached(ctx context.Context, adopted topology.Topology) error {
	exchanges := slices.DeleteFunc(d.ownedExchanges(adopted),
		func(name string) bool { return name == d.wanted.Entry })
	queues := slices.Collect(maps.Keys(adopted.Queues))
	var objects []string
	for seen := maps.Clone(d.wanted.Exchanges); len(exchanges)+len(queues) > 0; queues = nil {
		inbound, err := d.vhost.Inbound(ctx, exchanges, queues)
		if err != nil {
			return err
		}
		exchanges = nil
		for _, b := range inbound.Sorted() {
			if d.wanted.Has(b.Source) {
				continue
			}
			if d.wanted.Takes(b) {
				objects = append(objects, b.DestinationObject())
			}
			if _, is := seen[b.Source]; is {
				continue
			}
			seen[b.Source] = topology.Exchange{}
			exchanges = append(exchanges, b.Source)
			marks, err := d.vhost.Owners(ctx, b.Source)
			if err != nil {
				return err
			}
			if len(marks) > 0 {
				return &ReachedError{b.Source, slices.Compact(objects)}
			}
		}
	}
	return nil
}
