package cascade

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Found is a cascade or a ladder of an inventory, as it should be.
type Found struct {
	topology.Topology
	Ladder bool
	// Levels is how many digits a key has before the address. It is 1 for a ladder.
	Levels int
}

// All are the cascades and ladders that Cascades and Ladders find.
func (i *Inventory) All(ctx context.Context) []Found {
	var all []Found
	add := func(f Found, err error) {
		if err == nil { // otherwise it is something else
			all = append(all, f)
		}
	}
	for _, entry := range i.Cascades(ctx) {
		c, err := Recognize(ctx, i, i.vhost, entry)
		if err == nil {
			t, err := Expand(c)
			add(Found{Topology: t, Levels: c.Levels}, err)
		}
	}
	for _, entry := range i.Ladders(ctx) {
		l, err := RecognizeLadder(ctx, i, i.vhost, entry)
		if err == nil {
			t, err := l.Expand()
			add(Found{Topology: t, Ladder: true, Levels: 1}, err)
		}
	}
	return all
}

// Upstream are the delay queues in which a message may wait that one of the bindings will take, in the direction in
// which messages move. Of bindings that are not there they are none. The keys for another number of levels match no
// message of a cascade, so its queues are not among them.
func (i *Inventory) Upstream(ctx context.Context, bindings []topology.Binding) []topology.Queue {
	all := i.All(ctx)
	upstream := map[string]topology.Queue{}
	for _, b := range bindings {
		if !i.there.Bindings.Has(b) {
			continue
		}
		key, _ := parseDestinationKey(b.RoutingKey)
		known := map[string]bool{}
		for _, found := range all {
			ends := found.Delivery == b.Source && (found.Ladder || key.Match != Exact || key.Levels == found.Levels)
			for name, want := range found.Queues {
				q, exists := i.there.Queues[name]
				if known[name] = true; ends && exists && want.Delays() {
					upstream[name] = q
				}
			}
		}
		// What nobody recognizes may be all that is left of a cascade.
		for name, q := range i.there.Queues {
			if !known[name] && q.Delays() && i.handsOn(ctx, q.DeadLetterExchange(), b.Source) {
				upstream[name] = q
			}
		}
	}
	return topology.Topology{Queues: upstream}.Downstream(upstream)
}

// handsOn tells whether a delay queue that dead-letters into the exchange can be one of a cascade or ladder that ends
// in another one. The queues of applications may dead-letter into an entry, those of a cascade do not.
func (i *Inventory) handsOn(ctx context.Context, exchange, end string) bool {
	isLower := slices.ContainsFunc(i.from[exchange], func(b topology.Binding) bool {
		return LeadsOn(b) && strings.HasPrefix(b.RoutingKey, "*.")
	})
	leads, err := LeadsTo(ctx, i, exchange, end)
	return exchange == end || isLower && leads && err == nil
}

// delayKey is a key under which the exchange of a level leads on, with all words up to the last digit in front.
var delayKey = regexp.MustCompile(`^((?:\*\.)*[0-9a-f](?:\.[0-9a-f])*)(?:\.\*)*\.#$`)

// LevelsOf is the number of levels that the binding of a level's exchange to the delivery exchange shows. Not ok is any
// other binding.
func LevelsOf(b topology.Binding) (levels int, ok bool) {
	words := delayKey.FindStringSubmatch(b.RoutingKey)
	if words == nil || b.DestinationType != topology.ToExchange || b.Arguments != "" {
		return 0, false
	}
	return strings.Count(words[1], ".") + 1, true
}

// LeadsOn tells whether a binding has a key like those of a level's exchange or of a ladder's entry.
func LeadsOn(b topology.Binding) bool {
	label, isLabel := strings.CutSuffix(b.RoutingKey, ".#")
	_, err := ParseLabel(strings.TrimSuffix(label, ".*"))
	return b.Arguments == "" && (delayKey.MatchString(b.RoutingKey) || isLabel && err == nil)
}

// Delays tells whether an exchange leads into delay queues: that of a level, or the entry of a ladder. Its name says
// nothing.
func Delays(ctx context.Context, look Lookup, exchange string) (bool, error) {
	delays, _, err := next(ctx, look, exchange)
	return delays, err
}

// LeadsTo tells whether what an exchange leads into delay queues ends in another exchange.
func LeadsTo(ctx context.Context, look Lookup, exchange, end string) (bool, error) {
	seen := map[string]bool{exchange: true}
	for todo := []string{exchange}; len(todo) > 0; todo = todo[1:] {
		delays, exchanges, err := next(ctx, look, todo[0])
		if err != nil {
			return false, err
		}
		for _, name := range exchanges {
			if delays && name == end {
				return true, nil
			}
			if delays && !seen[name] {
				seen[name] = true
				todo = append(todo, name)
			}
		}
	}
	return false, nil
}

// next tells whether an exchange leads into delay queues, and to which exchanges messages get from it and from them.
func next(ctx context.Context, look Lookup, exchange string) (delays bool, exchanges []string, err error) {
	bindings, err := look.BindingsFrom(ctx, exchange)
	for _, b := range bindings {
		switch {
		case !LeadsOn(b):
		case b.DestinationType == topology.ToExchange:
			exchanges = append(exchanges, b.Destination)
		default:
			q, _, err := look.Queue(ctx, b.Destination)
			if err != nil {
				return false, nil, err
			}
			if q.Delays() {
				delays = true
				exchanges = append(exchanges, q.DeadLetterExchange())
			}
		}
	}
	return delays, exchanges, err
}
