package recognize

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Inventory is all that a vhost has. As a Lookup it answers without asking the broker again.
type Inventory struct {
	// There has all exchanges, queues and bindings of the vhost. Where no exchange can be an entry, queues and bindings
	// do not matter.
	There topology.Topology
	vhost string
	from  map[string][]topology.Binding // by source
	bound map[string]bool               // queues that a binding leads to
	once  sync.Once
	all   []Found // once it was asked for
}

// NewInventory is that of what there is in the vhost.
func NewInventory(vhost string, there topology.Topology) *Inventory {
	i := &Inventory{vhost: vhost, There: there, from: map[string][]topology.Binding{},
		bound: map[string]bool{}}
	for _, b := range there.Bindings.Sorted() {
		i.from[b.Source] = append(i.from[b.Source], b)
		if b.DestinationType == topology.ToQueue {
			i.bound[b.Destination] = true
		}
	}
	return i
}

// Found is a cascade or a ladder of an inventory, as it should be.
type Found struct {
	topology.Topology
	Kind string
	// Levels is how many words a key has before the address. It is 1 for a ladder.
	Levels int
}

// All are the cascades and ladders of the vhost, sorted by their entry exchanges, whoever declared them: all that
// Cascade and Ladder understand. A cascade whose entry leads nowhere is not among them.
func (i *Inventory) All(ctx context.Context) []Found {
	i.once.Do(func() {
		o := newObjects(ctx, i, i.vhost)
		for _, name := range slices.Sorted(maps.Keys(i.There.Exchanges)) {
			if c, err := o.cascade(name); err == nil { // otherwise it is something else
				i.all = append(i.all, Found{c.Expand(), KindCascade, c.Levels})
			}
			if l, err := o.ladder(name); err == nil {
				i.all = append(i.all, Found{l.Expand(), KindLadder, 1})
			}
		}
	})
	return i.all
}

// CanBeEntry tells, from a list of exchanges, whether an exchange can be the entry of a cascade or a ladder.
func CanBeEntry(e topology.Exchange) bool {
	isOwn := !delay.IsDefaultExchange(e.Name) && !strings.HasPrefix(e.Name, delay.ReservedPrefix)
	return isOwn && (e.Type == "topic" || e.Type == "direct")
}

// Destinations are the bindings in the vhost that take messages from the end of a cascade or ladder by their own keys,
// sorted. Where messages get another key as they leave, or have one without an address, no destination can be matched.
func (i *Inventory) Destinations(ctx context.Context) []topology.Binding {
	ends := map[string]bool{}
	for _, found := range i.All(ctx) {
		fixed := func(q topology.Queue) bool { return q.Arguments["x-dead-letter-routing-key"] != nil }
		if !found.Shared && !slices.ContainsFunc(slices.Collect(maps.Values(found.Queues)), fixed) {
			ends[found.Delivery] = true
		}
	}
	var bindings []topology.Binding
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		for _, b := range i.from[name] {
			if _, err := Destination(i.vhost, b); err == nil {
				bindings = append(bindings, b)
			}
		}
	}
	return bindings
}

// Exchange looks an exchange up.
func (i *Inventory) Exchange(_ context.Context, name string) (topology.Exchange, bool, error) {
	e, exists := i.There.Exchanges[name]
	return e, exists, nil
}

// Queue looks a queue up.
func (i *Inventory) Queue(_ context.Context, name string) (topology.Queue, bool, error) {
	q, exists := i.There.Queues[name]
	return q, exists, nil
}

// BindingsFrom lists the bindings whose source is the exchange.
func (i *Inventory) BindingsFrom(_ context.Context, exchange string) ([]topology.Binding, error) {
	return i.from[exchange], nil
}

// Policies lists the policies of the vhost.
func (i *Inventory) Policies(context.Context) (policy.Policies, error) {
	policies := policy.Policies{}
	for _, p := range i.There.Policies {
		policies = append(policies, policy.New(p.Name, p.Pattern, p.ApplyTo, p.Priority, p.Definition))
	}
	return policies, nil
}
