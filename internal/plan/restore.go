package plan

import (
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// restore is the plan that brings the rest of a topology back to its state before, with all bindings. The entry comes
// after the objects behind it, and stays closed if any of them cannot be restored: a message would get into a gap. The
// bindings of others come last, because the entry does not need them.
func restore(before, left topology.Topology) Plan {
	var plan Plan
	var others []topology.Binding
	closed := before.Has(before.Entry) && !left.Has(before.Entry)
	for _, phase := range Repair(before, left) {
		var own, fromEntry []Step
		for _, step := range phase.Steps {
			one, binds := step.(Bind)
			switch {
			case binds && !before.Has(one.Binding.Source):
				others = append(others, one.Binding)
			case declaresEntry(before, step):
				plan = append(plan, Phase{Steps: []Step{step}, Needs: behind(before, before.Entry,
					topology.ToExchange)})
			case binds && one.Binding.Source == before.Entry && closed:
				fromEntry = append(fromEntry, step)
			case binds && one.Binding.Source == before.Entry:
				plan = append(plan, Phase{Steps: []Step{step}, Needs: behind(before, one.Binding.Destination,
					one.Binding.DestinationType)})
			default:
				own = append(own, step)
			}
		}
		plan = plan.then(own...)
		if len(fromEntry) > 0 {
			plan = append(plan, Phase{Steps: fromEntry, Needs: behind(before, before.Entry, topology.ToExchange),
				Undo: func([]Step) Plan {
					return Plan{}.then(DeleteExchange{Name: before.Entry}) // rather no entry than one with a gap
				}})
		}
	}
	if before.IsWhole() {
		return plan.then(bind(others)...)
	}
	made := func(step Step) string { return step.Effect().Object }
	for _, group := range upwards(before, others) {
		plan = append(plan, Phase{Steps: bind(group), Needs: plaintext.Texts(plan.Steps(), made)})
	}
	return plan
}

// atOnce is the plan without a wait for durable queues.
func (p Plan) atOnce() Plan {
	return slices.DeleteFunc(p, func(phase Phase) bool { return slices.Contains(phase.Steps, Step(AwaitDurable{})) })
}

// behind are the objects of the topology that a message may get to that comes to an object, and this itself.
func behind(t topology.Topology, name string, kind topology.DestinationType) []string {
	var found []string
	var visit func(name string, kind topology.DestinationType)
	visit = func(name string, kind topology.DestinationType) {
		_, isQueue := t.Queues[name]
		switch {
		case kind == topology.ToQueue && isQueue && !slices.Contains(found, topology.QueueObject(name)):
			found = append(found, topology.QueueObject(name))
			visit(t.Queues[name].DeadLetterExchange(), topology.ToExchange)
		case kind == topology.ToExchange && t.Has(name) && !slices.Contains(found, topology.ExchangeObject(name)):
			found = append(found, topology.ExchangeObject(name))
			visit(t.AlternateOf(name), topology.ToExchange)
			for b := range t.Bindings {
				if b.Source == name {
					visit(b.Destination, b.DestinationType)
				}
			}
		}
	}
	visit(name, kind)
	return found
}
