package connection

import (
	"slices"
	"sync"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Planned is a cascade or a ladder as one plan has it.
type Planned struct {
	Kind, Vhost string
	topology.Topology
	Scale delay.Scale
	// IsNew tells a create, or the second half of a replacement.
	IsNew bool
}

// Plans are the cascades and ladders of one plan that were planned so far, and whose values are known.
// Terraform plans a resource after those that it refers to.
type Plans struct {
	mutex sync.Mutex
	all   []Planned
	// prior are those that the state has.
	prior []Planned
	// refreshed has the vhost and entry exchange of those that were refreshed.
	refreshed sync.Map
}

// Refresh notes a refresh, and tells whether it is the second one of the same.
func (p *Plans) Refresh(vhost, entry string) (again bool) {
	_, again = p.refreshed.LoadOrStore([2]string{vhost, entry}, true)
	return again
}

// Add notes one more, and returns another one that is new, too, and has objects in common with it, in words.
func (p *Plans) Add(one Planned) (other Planned, common []string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if one.IsNew {
		for _, other = range p.all {
			if common = one.common(other); other.IsNew && len(common) > 0 {
				break
			}
			common = nil
		}
	}
	p.all = append(p.all, one)
	return other, common
}

// common are the objects that both would declare, but for a delivery exchange: two may have the same one.
func (one Planned) common(other Planned) []string {
	if one.Vhost != other.Vhost {
		return nil
	}
	one.Policies = nil // they have the names of their exchanges
	either := []string{topology.ExchangeObject(one.Delivery), topology.ExchangeObject(other.Delivery)}
	others := other.Objects()
	return slices.DeleteFunc(one.Objects(),
		func(object string) bool { return slices.Contains(either, object) || !slices.Contains(others, object) })
}

// AddPrior notes what the state has.
func (p *Plans) AddPrior(one Planned) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.prior = append(p.prior, one)
}

// In are those of a vhost.
func (p *Plans) In(vhost string) []Planned {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return of(vhost, p.all)
}

// PriorIn are those of a vhost that the state has.
func (p *Plans) PriorIn(vhost string) []Planned {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return of(vhost, p.prior)
}

func of(vhost string, all []Planned) []Planned {
	return slices.DeleteFunc(slices.Clone(all), func(one Planned) bool { return one.Vhost != vhost })
}
