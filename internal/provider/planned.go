package provider

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// planned is a cascade or a ladder as one plan has it.
type planned struct {
	kind, vhost string
	topology.Topology
	scale delay.Scale
	// isNew tells a create, or the second half of a replacement.
	isNew bool
}

// plannedTopologies are the cascades and ladders of one plan that were planned so far, and whose values are known.
// Terraform plans a resource after those that it refers to.
type plannedTopologies struct {
	mutex sync.Mutex
	all   []planned
	// prior are those that the state has.
	prior []planned
	// refreshed has the vhost and entry exchange of those that were refreshed.
	refreshed sync.Map
}

// refresh notes a refresh, and tells whether it is the second one of the same.
func (p *plannedTopologies) refresh(vhost, entry string) (again bool) {
	_, again = p.refreshed.LoadOrStore([2]string{vhost, entry}, true)
	return again
}

// add notes one more, and returns another one that is new, too, and has objects in common with it, in words.
func (p *plannedTopologies) add(one planned) (other planned, common []string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if one.isNew {
		for _, other = range p.all {
			if common = one.common(other); other.isNew && len(common) > 0 {
				break
			}
			common = nil
		}
	}
	p.all = append(p.all, one)
	return other, common
}

// common are the objects that both would declare, but for a delivery exchange: two may have the same one.
func (one planned) common(other planned) []string {
	if one.vhost != other.vhost {
		return nil
	}
	one.Policies = nil // they have the names of their exchanges
	either := []string{topology.ExchangeObject(one.Delivery), topology.ExchangeObject(other.Delivery)}
	others := other.Objects()
	return slices.DeleteFunc(one.Objects(),
		func(object string) bool { return slices.Contains(either, object) || !slices.Contains(others, object) })
}

// addPrior notes what the state has.
func (p *plannedTopologies) addPrior(one planned) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.prior = append(p.prior, one)
}

// in are those of a vhost.
func (p *plannedTopologies) in(vhost string) []planned {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return of(vhost, p.all)
}

// priorIn are those of a vhost that the state has.
func (p *plannedTopologies) priorIn(vhost string) []planned {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return of(vhost, p.prior)
}

func of(vhost string, all []planned) []planned {
	return slices.DeleteFunc(slices.Clone(all), func(one planned) bool { return one.vhost != vhost })
}

// checkPlannedOnce refuses a second new destination with the binding of another one in the same plan. It notes the
// binding among those that are planned.
func (m *destinationModel) checkPlannedOnce(planned *sync.Map) diag.Diagnostics {
	b, diags := m.binding()
	if diags.HasError() {
		return diags
	}
	object := engine.BindingObject(m.Vhost.ValueString(), b)
	if _, twice := planned.LoadOrStore(object, true); twice {
		diags.AddError("Binding is planned twice", fmt.Sprintf(
			"The %s in vhost %q is planned twice: another resource of this configuration is to make it, too. "+
				"Two destinations cannot have one binding: change or remove one of them.", object.Name, object.Vhost))
	}
	return diags
}
