package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// checkOwner refuses to touch what others own, unless the change takes that over. A destroy never does.
func (o *topologyChange) checkOwner(wanted topology.Topology, found *rabbit.State) error {
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
// itself is an ordinary thing. So is a binding that is none of a level or of a ladder's entry, whose keys to its delay
// queues can be any.
func (d *deployment) checkReached(ctx context.Context, adopted topology.Topology) (refusal, err error) {
	exchanges := slices.DeleteFunc(d.wanted.Owned(adopted.Exchanges),
		func(name string) bool { return name == d.wanted.Entry })
	queues := slices.Collect(maps.Keys(adopted.Queues))
	var objects []string
	for seen := map[string]bool{}; len(exchanges)+len(queues) > 0; queues = nil {
		inbound, err := d.vhost.Inbound(ctx, exchanges, queues)
		if err != nil {
			return nil, err
		}
		exchanges = nil
		for _, b := range inbound.Where(func(b topology.Binding) bool {
			toDelay := b.LeadsInto(adopted.Queues) && adopted.Queues[b.Destination].Delays()
			return !d.wanted.Has(b.Source) && (toDelay || recognize.LeadsOn(b))
		}) {
			if adopted.Takes(b) {
				objects = append(objects, b.DestinationObject())
			}
			if !seen[b.Source] {
				seen[b.Source], exchanges = true, append(exchanges, b.Source)
			}
		}
		switch entry, err := d.firstOwned(ctx, exchanges); {
		case err != nil:
			return nil, err
		case entry != "":
			slices.Sort(objects)
			return &ReachedError{entry, slices.Compact(objects)}, nil
		}
	}
	return nil, nil
}

// firstOwned is the first of the exchanges that has the mark of an owner, empty if none has.
func (d *deployment) firstOwned(ctx context.Context, exchanges []string) (string, error) {
	for _, name := range exchanges {
		if marks, err := d.vhost.Owners(ctx, name); err != nil || len(marks) > 0 {
			return name, err
		}
	}
	return "", nil
}
