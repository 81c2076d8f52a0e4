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

// NewInventory takes all exchanges, queues and bindings of the vhost. Where no exchange can be an entry, queues and bindings do
// not matter.
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

// CanBeEntry tells whether an exchange can be the entry of a cascade, by what a list of exchanges shows: it is a topic exchange
// with the number of its level in its name.
func CanBeEntry(e topology.Exchange) bool {
	return e.Type == "topic" && strings.ContainsAny(e.Name, "0123456789")
}

// Cascades are the entry exchanges of the cascades in the vhost, sorted, whoever declared them: all that
// Recognize understands. An entry that leads nowhere is not among them.
func (i *Inventory) Cascades(ctx context.Context) []string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(i.there.Exchanges)) {
		if !CanBeEntry(i.there.Exchanges[name]) {
			continue
		}
		if _, err := (&recognizer{look: i, vhost: i.vhost, hopsOnly: true}).cascade(ctx, name); err == nil {
			entries = append(entries, name)
		}
	}
	return entries
}

// CanBeLadderEntry tells whether an exchange can be the entry of a ladder, which may have any name.
func CanBeLadderEntry(e topology.Exchange) bool {
	return e.Type == "topic" && !strings.HasPrefix(e.Name, reservedPrefix)
}

// Ladders are the entry exchanges of the ladders in the vhost, sorted, whoever declared them: all that RecognizeLadder understands.
func (i *Inventory) Ladders(ctx context.Context) []string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(i.there.Exchanges)) {
		if !CanBeLadderEntry(i.there.Exchanges[name]) {
			continue
		}
		if _, err := RecognizeLadder(ctx, i, i.vhost, name); err == nil {
			entries = append(entries, name)
		}
	}
	return entries
}

// Within is what the vhost has of the wanted topology.
func (i *Inventory) Within(want topology.Topology) topology.Topology { return i.there.Within(want) }
