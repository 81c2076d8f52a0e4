package plan

import "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"

// Rebind is the plan that turns some bindings, of exchanges and queues that are others', into the desired ones. It
// binds before it unbinds, so that a message always finds one of them; a queue that both lead to gets it once.
func Rebind(desired, actual topology.Bindings) Plan {
	added := desired.Where(func(b topology.Binding) bool { return !actual.Has(b) })
	removed := actual.Where(func(b topology.Binding) bool { return !desired.Has(b) })
	return Plan{}.then(bind(added)...).then(unbind(removed)...)
}
