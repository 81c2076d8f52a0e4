package plan

import "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"

// After is the topology that may exist after the steps, of which some may not have had an effect. It has the objects
// from before, and those that were declared and bound since.
func After(t topology.Topology, done []Step) topology.Topology {
	t = t.Clone()
	for _, step := range done {
		if effect := step.Effect(); effect.Makes {
			effect.change(t)
		}
	}
	return t
}

// afterRemoval is the rest of the topology once the steps have removed something.
func afterRemoval(t topology.Topology, removed []Step) topology.Topology {
	t = t.Clone()
	for _, step := range removed {
		if effect := step.Effect(); effect.change != nil && !effect.Makes {
			effect.change(t)
		}
	}
	return t
}
