package recognize

import (
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// layouts are the cascades whose entry has the name, the likeliest first: those with units. They have what the name
// shows: units or a number of levels, and how exchanges are called.
func layouts(entry string) []delay.Cascade {
	all := unitLayouts(entry)
	for levels := delay.MaxLevels; levels > 0; levels-- {
		for _, format := range exchangeFormats(entry, levels-1) {
			all = append(all, delay.Cascade{Levels: levels, ExchangeName: format})
		}
	}
	return all
}

// unitLayouts are those with units that give the entry its name, those with the most units first.
func unitLayouts(entry string) (all []delay.Cascade) {
	for at := range entry {
		units := delay.UnitsIn(entry[at:])
		for n := len(units); n > 0; n-- {
			text := delay.UnitsLabel(units[:n])
			all = append(all, delay.Cascade{Levels: n, Units: units[:n],
				ExchangeName: delay.Format(delay.Escape(entry[:at]) + "%s" + delay.Escape(entry[at+len(text):]))})
		}
	}
	slices.SortStableFunc(all, func(x, y delay.Cascade) int { return y.Levels - x.Levels })
	return all
}

// sameExchanges tells whether both call all exchanges alike.
func sameExchanges(c, other delay.Cascade) bool {
	return slices.Equal(exchangesOf(c), exchangesOf(other))
}

// exchangesOf are the names of all exchanges, that of the lowest level first.
func exchangesOf(c delay.Cascade) []string {
	names := make([]string, c.Levels)
	for level := range names {
		names[level] = c.Exchange(level)
	}
	return names
}

// extended are the cascades that have so many common units above those of one.
func extended(c delay.Cascade, above int) (all []delay.Cascade) {
	if above == 0 {
		return []delay.Cascade{c}
	}
	for _, unit := range delay.CommonUnits() {
		if unit > c.Units[0] && unit%c.Units[0] == 0 {
			longer := delay.Cascade{Levels: c.Levels + 1, Units: append([]time.Duration{unit}, c.Units...),
				ExchangeName: c.ExchangeName}
			all = append(all, extended(longer, above-1)...)
		}
	}
	return all
}
