package topology

import "maps"

// restore is the plan that brings what is left of a topology back to what it was before, with all bindings.
// What others have bound comes last: if they have removed it meanwhile, or do not let it be bound, the rest
// is there all the same.
func restore(before, left Topology) Plan {
	var plan Plan
	var others []Step
	for _, phase := range Diff(before, left) {
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

// without is what is left of the topology once the steps have removed something.
func (t Topology) without(removed []Step) Topology {
	t.Exchanges, t.Queues, t.Bindings = maps.Clone(t.Exchanges), maps.Clone(t.Queues), maps.Clone(t.Bindings)
	exchanges, queues := map[string]bool{}, map[string]bool{}
	for _, step := range removed {
		switch s := step.(type) {
		case DeleteExchange:
			delete(t.Exchanges, s.Name)
			exchanges[s.Name] = true
		case DeleteQueue:
			delete(t.Queues, s.Queue.Name)
			queues[s.Queue.Name] = true
		case Unbind:
			delete(t.Bindings, s.Binding)
		}
	}
	maps.DeleteFunc(t.Bindings, func(b Binding, _ struct{}) bool {
		if b.DestinationType == ToExchange {
			return exchanges[b.Source] || exchanges[b.Destination]
		}
		return exchanges[b.Source] || queues[b.Destination]
	})
	return t
}
