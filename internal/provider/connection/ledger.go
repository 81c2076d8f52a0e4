package connection

import (
	"slices"
	"sync"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Planned is a cascade or a ladder as one plan has it. It has the owner's mark of its resource if it is in the state.
type Planned struct {
	Kind, Vhost string
	topology.Topology
	Scale delay.Scale
}

// Address is a resource in one plan. Terraform does not tell a provider which one it asks for.
type Address struct {
	// ID tells it from others. It is empty where Terraform asks once.
	ID string
	// Holds is what the state has, nil for a create.
	Holds *Planned
	// Declares is what there is to be, nil if that is not known yet, or if the resource Goes.
	Declares *Planned
	Goes     bool
	// Adopts says that a create takes over what exists.
	Adopts bool
}

// Conflict is about objects that two addresses cannot both have.
type Conflict struct {
	// One and Other declare the objects, or One would delete them.
	One, Other  Planned
	WouldDelete bool
	// MayBeOne says that both are creates, and that it may be one address that is planned twice.
	MayBeOne bool
	Objects  []string
}

// Ledger is what one plan has: the cascades and ladders of all addresses that Terraform has asked for. It also has the
// bindings that destinations make and remove. Terraform plans a resource after those that it refers to.
type Ledger struct {
	mutex     sync.Mutex
	addresses []*Address
	bindings  map[vhostBinding]passing
}

type vhostBinding struct {
	vhost string
	topology.Binding
}

// passing is what destinations are to do about a binding in one plan, in whatever order Terraform asks.
type passing struct{ unbinds, binds bool }

// Note enters an address into the ledger, and returns its conflicts with the others there. Terraform asks twice for a
// replacement: the second time, nothing is in the state. So it does with -minimal-refresh (1.17), for what it has read
// in between. The ID is that of the first time.
func (l *Ledger) Note(a Address) (conflicts []Conflict) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	first := slices.IndexFunc(l.addresses, func(known *Address) bool { return a.ID != "" && known.ID == a.ID })
	if first < 0 {
		l.addresses = append(l.addresses, &a)
		return l.conflicts(&a)
	}
	known := l.addresses[first]
	before, goes := known.Declares, known.Goes
	known.Declares, known.Goes, known.Adopts = a.Declares, a.Goes, a.Adopts
	if before == nil || goes != a.Goes || a.Declares != nil && !before.SameObjects(a.Declares.Topology) {
		return l.conflicts(known)
	}
	return nil
}

// Done notes that the plan for an address has been carried out. What it declares is there then, under this ID.
func (l *Ledger) Done(a Address, id string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.addresses = slices.DeleteFunc(l.addresses, func(known *Address) bool {
		return a.ID != "" && known.ID == a.ID || known.creates() && known.declaresLike(&a)
	})
	if !a.Goes {
		l.addresses = append(l.addresses, &Address{ID: id, Holds: a.Declares, Declares: a.Declares})
	}
}

// creates tells whether nothing is there of what it declares.
func (a *Address) creates() bool { return a.Declares != nil && len(common(a.Holds, a.Declares)) == 0 }

func (a *Address) declaresLike(other *Address) bool {
	return other.Declares != nil && a.Declares.Vhost == other.Declares.Vhost &&
		a.Declares.SameObjects(other.Declares.Topology)
}

// mayBe tells whether two creates may be one address that Terraform plans again, as terraform test does. It does not
// tell. If they are two, the apply refuses the second one, unless that adopts: then they have to declare the same.
func (a *Address) mayBe(other *Address) bool {
	return a.creates() && other.creates() && (!a.Adopts && !other.Adopts || a.declaresLike(other))
}

// Forget takes an address out of the ledger whose objects turn out to be gone: it is planned again, as a create.
func (l *Ledger) Forget(id string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.addresses = slices.DeleteFunc(l.addresses, func(known *Address) bool { return known.ID == id })
}

func (l *Ledger) conflicts(a *Address) (all []Conflict) {
	for _, other := range l.addresses {
		if other == a {
			continue
		}
		if objects := common(a.willHave(), other.willHave()); len(objects) > 0 {
			all = append(all, Conflict{One: *a.willHave(), Other: *other.willHave(), MayBeOne: a.mayBe(other),
				Objects: objects})
		}
		all = append(all, a.deletionsOf(other)...)
		all = append(all, other.deletionsOf(a)...)
	}
	return all
}

// willHave is what there is to be, as far as it is known.
func (a *Address) willHave() *Planned {
	if a.Declares == nil && !a.Goes {
		return a.Holds
	}
	return a.Declares
}

// deletionsOf has the objects that the state has here, and that only the other one declares.
func (a *Address) deletionsOf(other *Address) []Conflict {
	kept := common(a.Holds, a.willHave())
	objects := slices.DeleteFunc(common(a.Holds, other.willHave()),
		func(object string) bool { return slices.Contains(kept, object) })
	if len(objects) == 0 {
		return nil
	}
	return []Conflict{{One: *a.Holds, Other: *other.willHave(), WouldDelete: true, Objects: objects}}
}

// common are the objects that both have, but for a delivery exchange: two may have the same one.
func common(one, other *Planned) []string {
	if one == nil || other == nil || one.Vhost != other.Vhost {
		return nil
	}
	own, others := *one, other.Objects()
	own.Policies = nil // they have the names of their exchanges
	either := []string{topology.ExchangeObject(one.Delivery), topology.ExchangeObject(other.Delivery)}
	return slices.DeleteFunc(own.Objects(),
		func(object string) bool { return slices.Contains(either, object) || !slices.Contains(others, object) })
}

// In are those of a vhost that there are to be.
func (l *Ledger) In(vhost string) []Planned {
	return l.of(vhost, func(a *Address) *Planned { return a.Declares })
}

// HeldIn are those of a vhost that the state has.
func (l *Ledger) HeldIn(vhost string) []Planned {
	return l.of(vhost, func(a *Address) *Planned { return a.Holds })
}

// GivesUp tells whether an address lets go of an exchange that the state has.
func (l *Ledger) GivesUp(vhost, exchange string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	has := func(one *Planned) bool { return one != nil && one.Vhost == vhost && one.Has(exchange) }
	return slices.ContainsFunc(l.addresses, func(a *Address) bool { return has(a.Holds) && !has(a.willHave()) })
}

func (l *Ledger) of(vhost string, get func(*Address) *Planned) (all []Planned) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, a := range l.addresses {
		if one := get(a); one != nil && one.Vhost == vhost {
			all = append(all, *one)
		}
	}
	return all
}

// NoteUnbind notes that a destination removes a binding, and tells whether another one makes it.
func (l *Ledger) NoteUnbind(vhost string, b topology.Binding) (otherBinds bool) {
	return l.pass(vhost, b, func(p *passing) { p.unbinds = true }).binds
}

// NoteBind notes that a destination makes a binding, and tells whether another one removes it.
func (l *Ledger) NoteBind(vhost string, b topology.Binding) (otherUnbinds bool) {
	return l.pass(vhost, b, func(p *passing) { p.binds = true }).unbinds
}

// Bound notes that the binding is there, and no longer to be made. Terraform plans the end of an object within the
// apply, after its successor was made, if that is created before the destroy. Then nothing is missing in between.
func (l *Ledger) Bound(vhost string, b topology.Binding) {
	l.pass(vhost, b, func(p *passing) { p.binds = false })
}

func (l *Ledger) pass(vhost string, b topology.Binding, note func(*passing)) passing {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.bindings == nil {
		l.bindings = map[vhostBinding]passing{}
	}
	of := vhostBinding{vhost, b}
	p := l.bindings[of]
	note(&p)
	l.bindings[of] = p
	return p
}
