package plans

import "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"

// Rebind is the plan that turns some bindings, of exchanges and queues that are others', into the desired ones. It
// binds before it unbinds, so that a message always finds one of them; a queue that both lead to gets it once.
func Rebind(desired, actual topology.Bindings) Plan {
	var bind, unbind []Step
	for _, b := range desired.Sorted() {
		if !actual.Has(b) {
			bind = append(bind, Bind{b})
		}
	}
	for _, b := range actual.Sorted() {
		if !desired.Has(b) {
			unbind = append(unbind, Unbind{b})
		}
	}
	return Plan{}.then(bind...).then(unbind...)
}
