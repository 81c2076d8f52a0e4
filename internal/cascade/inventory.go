package cascade

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Inventory is all that a vhost has. As a Lookup it answers without asking the broker again.
type Inventory struct {
	vhost string
	there topology.Topology
	from  map[string][]topology.Binding // by source
}

// NewInventory takes all exchanges, queues and bindings of the vhost. Where no exchange can be an entry, queues and
// bindings do not matter.
func NewInventory(vhost string, there topology.Topology) *Inventory {
	i := &Inventory{vhost: vhost, there: there, from: map[string][]topology.Binding{}}
	for _, b := range there.Bindings.Sorted() {
		i.from[b.Source] = append(i.from[b.Source], b)
	}
	return i
}

// Exchange looks an exchange up.
func (i *Inventory) Exchange(_ context.Context, name string) (topology.Exchange, bool, error) {
	e, exists := i.there.Exchanges[name]
	return e, exists, nil
}

// Queue looks a queue up.
func (i *Inventory) Queue(_ context.Context, name string) (topology.Queue, bool, error) {
	q, exists := i.there.Queues[name]
	return q, exists, nil
}

// BindingsFrom lists the bindings whose source is the exchange.
func (i *Inventory) BindingsFrom(_ context.Context, exchange string) ([]topology.Binding, error) {
	return i.from[exchange], nil
}

// Policies lists the policies of the vhost.
func (i *Inventory) Policies(context.Context) ([]topology.Policy, error) {
	return slices.Collect(maps.Values(i.there.Policies)), nil
}

// Found is a cascade or a ladder of an inventory, as it should be.
type Found struct {
	topology.Topology
	Kind string
	// Levels is how many digits a key has before the address. It is 1 for a ladder.
	Levels int
}

// All are the cascades and ladders of the vhost, sorted by their entry exchanges, whoever declared them: all that
// Recognize and RecognizeLadder understand. A cascade whose entry leads nowhere is not among them.
func (i *Inventory) All(ctx context.Context) []Found {
	var all []Found
	for _, name := range slices.Sorted(maps.Keys(i.there.Exchanges)) {
		r := &recognizer{look: i, vhost: i.vhost, hopsOnly: true}
		if c, err := r.cascade(ctx, name); err == nil { // otherwise it is something else
			all = append(all, Found{c.Expand(), KindCascade, c.Levels})
		}
		if l, err := r.recognizeLadder(ctx, name); err == nil {
			all = append(all, Found{l.Expand(), KindLadder, 1})
		}
	}
	return all
}

// Cascades are the entry exchanges of the cascades in the vhost, sorted.
func (i *Inventory) Cascades(ctx context.Context) []string { return i.entries(ctx, KindCascade) }

// Ladders are the entry exchanges of the ladders in the vhost, sorted.
func (i *Inventory) Ladders(ctx context.Context) []string { return i.entries(ctx, KindLadder) }

func (i *Inventory) entries(ctx context.Context, kind string) []string {
	var entries []string
	for _, found := range i.All(ctx) {
		if found.Kind == kind {
			entries = append(entries, found.Entry)
		}
	}
	return entries
}

// CanBeEntry tells, from a list of exchanges, whether an exchange can be the entry of a cascade. It is then a topic
// exchange with the number of its level in its name.
func CanBeEntry(e topology.Exchange) bool {
	return e.Type == "topic" && strings.ContainsAny(e.Name, "0123456789")
}

// CanBeLadderEntry tells whether an exchange can be the entry of a ladder, which may have any name.
func CanBeLadderEntry(e topology.Exchange) bool {
	return e.Type == "topic" && !strings.HasPrefix(e.Name, reservedPrefix)
}

// Destinations are the bindings in the vhost that take messages from the end of a cascade or ladder by their own keys,
// sorted.
func (i *Inventory) Destinations(ctx context.Context) []topology.Binding {
	ends := map[string]bool{}
	for _, found := range i.All(ctx) {
		if !found.fixedKey() {
			ends[found.Delivery] = true
		}
	}
	var bindings []topology.Binding
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		for _, b := range i.from[name] {
			if _, err := RecognizeDestination(i.vhost, b); err == nil {
				bindings = append(bindings, b)
			}
		}
	}
	return bindings
}

// fixedKey tells whether messages get another key where they leave it, so that no destination can be matched.
func (f Found) fixedKey() bool {
	for _, q := range f.Queues {
		if q.Arguments["x-dead-letter-routing-key"] != nil {
			return true
		}
	}
	return false
}

// Within is what the vhost has of the wanted topology.
func (i *Inventory) Within(want topology.Topology) topology.Topology { return i.there.Within(want) }
