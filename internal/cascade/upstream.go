package cascade

import (
	"context"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Upstream are the delay queues in which a message may wait that one of the bindings will take, in the direction in
// which messages move. Of bindings that are not there they are none.
func (i *Inventory) Upstream(ctx context.Context, bindings []topology.Binding) []topology.Queue {
	all := i.All(ctx)
	upstream := map[string]topology.Queue{}
	for _, b := range bindings {
		if i.there.Bindings.Has(b) {
			i.addUpstream(ctx, upstream, all, b)
		}
	}
	return topology.Topology{Queues: upstream}.Downstream(upstream)
}

// addUpstream adds the delay queues of one binding. A key for another number of levels matches no message of a
// cascade, so its queues are not among them.
func (i *Inventory) addUpstream(
	ctx context.Context, upstream map[string]topology.Queue, all []Found, b topology.Binding,
) {
	key, _ := parseDestinationKey(b.RoutingKey)
	known := map[string]bool{}
	for _, found := range all {
		ends := found.Delivery == b.Source &&
			(found.Kind == KindLadder || key.Match != Exact || key.Levels == found.Levels)
		for name, want := range found.Queues {
			q, exists := i.there.Queues[name]
			if known[name] = true; ends && exists && want.Delays() {
				upstream[name] = q
			}
		}
	}
	// What nobody recognizes may be all that is left of a cascade.
	for name, q := range i.there.Queues {
		if !known[name] && q.Delays() && i.handsOn(ctx, q.DeadLetterExchange(), b.Source) {
			upstream[name] = q
		}
	}
}

// handsOn tells whether a delay queue that dead-letters into the exchange can be one of a cascade or ladder that ends
// in another one. The queues of applications may dead-letter into an entry, those of a cascade do not.
func (i *Inventory) handsOn(ctx context.Context, exchange, end string) bool {
	isLower := slices.ContainsFunc(i.from[exchange], func(b topology.Binding) bool {
		return LeadsOn(b) && strings.HasPrefix(b.RoutingKey, "*.")
	})
	leads, err := LeadsTo(ctx, i, exchange, end)
	return exchange == end || isLower && leads && err == nil
}
