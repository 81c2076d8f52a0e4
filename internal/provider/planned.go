package provider

import (
	"slices"
	"sync"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// planned is a cascade or a ladder as one plan has it.
type planned struct {
	kind, vhost string
	topology.Topology
	// levels is how many digits there are before the address, 1 for a ladder.
	levels int
	// isNew tells a create, or the second half of a replacement.
	isNew bool
}

// plannedTopologies are all cascades and ladders of one plan that were planned so far, and whose values are known. A resource is
// planned after those that it refers to.
type plannedTopologies struct {
	mutex sync.Mutex
	all   []planned
}

// add notes one more.
func (p *plannedTopologies) add(one planned) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.all = append(p.all, one)
}

// in are those of a vhost.
func (p *plannedTopologies) in(vhost string) []planned {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.DeleteFunc(slices.Clone(p.all), func(one planned) bool { return one.vhost != vhost })
}
