package topology

import (
	"maps"
	"slices"
)

// restore is the plan that brings objects back as they were before, with all their bindings. It
// leaves alone what is still there. What others have bound comes last: if they have removed it meanwhile, or do not
// let it be bound, the rest is there all the same.
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
	var plan Plan
	var others []Step
	for _, phase := range Diff(before, without) {
		var own []Step
		for _, step := range phase.Steps {
			if bind, ok := step.(Bind); ok && !before.has(bind.Binding.Source) {
				others = append(others, step)
			} else {
				own = append(own, step)
			}
		}
		plan = plan.then(own...)
	}
	return plan.then(others...)
}
