package cascade

import (
	"context"
	"regexp"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

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

// Delays tells whether an exchange leads into delay queues: that of a level, or the entry of a ladder. Its name says
// nothing.
func Delays(ctx context.Context, look Lookup, exchange string) (bool, error) {
	delays, _, err := next(ctx, look, exchange)
	return delays, err
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

// LeadsOn tells whether a binding has a key like those of a level's exchange or of a ladder's entry.
func LeadsOn(b topology.Binding) bool {
	label, isLabel := strings.CutSuffix(b.RoutingKey, ".#")
	_, err := ParseLabel(strings.TrimSuffix(label, ".*"))
	return b.Arguments == "" && (delayKey.MatchString(b.RoutingKey) || isLabel && err == nil)
}

// delayKey is a key under which the exchange of a level leads on, with all words up to the last digit in front.
var delayKey = regexp.MustCompile(`^((?:\*\.)*[0-9](?:\.[0-9])*)(?:\.\*)*\.#$`)

// LevelsOf is the number of levels that the binding of a level's exchange to the delivery exchange shows. Not ok is any
// other binding.
func LevelsOf(b topology.Binding) (levels int, ok bool) {
	words := delayKey.FindStringSubmatch(b.RoutingKey)
	if words == nil || b.DestinationType != topology.ToExchange || b.Arguments != "" {
		return 0, false
	}
	return strings.Count(words[1], ".") + 1, true
}

// LowestOf is LevelsOf for the binding of the lowest level alone. Each cascade that ends in the delivery exchange has
// one of these.
func LowestOf(b topology.Binding) (levels int, ok bool) {
	levels, ok = LevelsOf(b)
	return levels, ok && strings.HasPrefix(b.RoutingKey, strings.Repeat("*.", levels-1))
}
