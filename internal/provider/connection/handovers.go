package connection

import (
	"sync"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Handovers are the bindings that destinations let go of, or newly take, in one plan, in whatever order Terraform asks.
type Handovers struct{ released, taken sync.Map }

type vhostBinding struct {
	vhost string
	topology.Binding
}

// Release notes that a destination lets go of a binding, and tells whether another one takes it.
func (h *Handovers) Release(vhost string, b topology.Binding) (taken bool) {
	h.released.Store(vhostBinding{vhost, b}, true)
	_, taken = h.taken.Load(vhostBinding{vhost, b})
	return taken
}

// Take notes that a destination newly takes a binding, and tells whether another one lets go of it.
func (h *Handovers) Take(vhost string, b topology.Binding) (released bool) {
	h.taken.Store(vhostBinding{vhost, b}, true)
	_, released = h.released.Load(vhostBinding{vhost, b})
	return released
}

// Made notes that the binding is there. Terraform plans the end of an object within the apply, after its successor was
// made, if that is created before the destroy. Then nothing is missing in between.
func (h *Handovers) Made(vhost string, b topology.Binding) { h.taken.Delete(vhostBinding{vhost, b}) }
