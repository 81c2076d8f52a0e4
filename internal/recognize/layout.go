package recognize

import (
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// layout is what the name of an entry shows of a cascade: how many levels it has, and how its exchanges are called. It
// has units, unless it is of the uniform form.
type layout struct {
	levels    int
	units     []time.Duration
	exchanges delay.Format
}

// isUniform tells whether it has no units.
func (l layout) isUniform() bool { return len(l.units) == 0 }

// layouts are those that give the entry its name, the likeliest first: those with units.
func layouts(entry string) []layout {
	all := unitLayouts(entry)
	for levels := delay.MaxLevels; levels > 0; levels-- {
		for _, format := range exchangeFormats(entry, levels-1) {
			all = append(all, layout{levels: levels, exchanges: format})
		}
	}
	return all
}

// unitLayouts are those with units that give the entry its name, those with the most units first.
func unitLayouts(entry string) (all []layout) {
	for at := range entry {
		units := delay.UnitsIn(entry[at:])
		for n := len(units); n > 0; n-- {
			text := delay.UnitsLabel(units[:n])
			all = append(all, layout{n, units[:n],
				delay.Format(delay.Escape(entry[:at]) + "%s" + delay.Escape(entry[at+len(text):]))})
		}
	}
	slices.SortStableFunc(all, func(x, y layout) int { return y.levels - x.levels })
	return all
}

// exchange is that of a level.
func (l layout) exchange(level int) string {
	return delay.Cascade{Units: l.units, Levels: l.levels, ExchangeName: l.exchanges}.Exchange(level)
}

// same tells whether both call all exchanges alike.
func (l layout) same(other layout) bool {
	if l.levels != other.levels {
		return false
	}
	for level := range l.levels {
		if l.exchange(level) != other.exchange(level) {
			return false
		}
	}
	return true
}

// ttl is how long a message waits at a place, with units.
func (l layout) ttl(at place) time.Duration {
	return time.Duration(at.number) * l.units[l.levels-1-at.level]
}

// extended are the layouts with so many common units above.
func (l layout) extended(above int) (all []layout) {
	if above == 0 {
		return []layout{l}
	}
	for _, unit := range delay.CommonUnits() {
		if unit > l.units[0] && unit%l.units[0] == 0 {
			longer := layout{l.levels + 1, append([]time.Duration{unit}, l.units...), l.exchanges}
			all = append(all, longer.extended(above-1)...)
		}
	}
	return all
}
