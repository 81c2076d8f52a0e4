package topology

import (
	"maps"
	"slices"
)

// restore is the plan that brings objects back as they were before, with all their bindings. It
// leaves alone what is still there.
func restore(before Topology, exchanges, queues []string, bindings ...Binding) Plan {
	without := before
	without.Exchanges, without.Queues, without.Bindings = maps.Clone(before.Exchanges), maps.Clone(before.Queues), maps.Clone(before.Bindings)
	for _, name := range exchanges {
		delete(without.Exchanges, name)
	}
	for _, name := range queues {
		delete(without.Queues, name)
	}
	maps.DeleteFunc(without.Bindings, func(b Binding, _ struct{}) bool {
		if slices.Contains(exchanges, b.Source) {
			return true
		}
		if b.DestinationType == ToExchange {
			return slices.Contains(exchanges, b.Destination)
		}
		return slices.Contains(queues, b.Destination)
	})
	for _, b := range bindings {
		delete(without.Bindings, b)
	}
	return Diff(before, without)
}
