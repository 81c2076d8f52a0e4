package main

import (
	"fmt"
	"slices"
)

// The subjects of comparisons by units, see internal/bench.
const (
	binary        = "base 2, 28 levels"
	decimal       = "base 10, 8 levels"
	daysToSeconds = "d.h.m.s"
)

// comparison is a row of the table of ratios.
type comparison struct {
	of, pair string
	ratio    func(broker string) (float64, bool)
}

// ratios is a table with a column for each broker. A subject that was measured on none has no row.
func (d *data) ratios() string {
	brokers := d.brokersOf("publish quorum")
	s := row(slices.Concat([]string{"", "compared"}, brokers)) +
		row(append([]string{"---"}, alignment(len(brokers))...))
	for _, c := range slices.Concat(d.rates(), d.times()) {
		cells, some := []string{c.of, c.pair}, false
		for _, broker := range brokers {
			r, ok := c.ratio(broker)
			if !ok {
				cells = append(cells, "")
				continue
			}
			cells, some = append(cells, short(r)), true
		}
		if some {
			s += row(cells)
		}
	}
	return s
}

// rates are the better, the higher they are.
func (d *data) rates() []comparison {
	const chosen = "publish as people choose, by units"
	var all []comparison
	for _, each := range []struct {
		of, pair, scenario string
		x                  float64
		subject, with      string
	}{
		{"publish rate", "full / chain", "publish quorum", 28, "full", "chain"},
		{"publish rate", "full / one queue", "publish quorum", 28, "full", "limit"},
		{"publish rate, as people choose", "d.h.m.s / base 10", chosen, 7, daysToSeconds, decimal},
		{"publish rate, as people choose", "d.h.m.s / base 2", chosen, 7, daysToSeconds, binary},
		{"publish rate, as people choose", "d.h.m.s / a queue for each delay", chosen, 7, daysToSeconds, "limit"},
		{"publish rate, to the second", "d.h.m.s / base 10", "publish to the second, by units", 7200, daysToSeconds,
			decimal},
		{"even rate", "full / chain", "highest paced rate", 28, "full", "chain"},
		{"even rate, as people choose", "d.h.m.s / base 10", "highest paced rate, by units", 5, daysToSeconds, decimal},
		{"rate of a burst", "full / chain", burst, 10_000, "full", "chain"},
		{"rate of a burst, one hour", "d.h.m.s / base 10", "burst, by units", 10_000, daysToSeconds, decimal},
		{"rate of a burst, classic queues", "full / chain", "dead-letter round classic", 10_000, "full", "chain"},
	} {
		all = append(all, comparison{each.of, each.pair, func(broker string) (float64, bool) {
			return d.ratio(broker, each.scenario, "rate", each.x, each.subject, each.with)
		}})
	}
	return all
}

// times are the better, the lower they are.
func (d *data) times() []comparison {
	var all []comparison
	for _, of := range operations {
		title := of.title
		if of.name == "apply" {
			title += ", without the wait of 5 s" // for new quorum queues, which came after the runs
		}
		share := func(more string, x float64) func(string) (float64, bool) {
			return func(broker string) (float64, bool) {
				f, ok := d.share(broker, of, more, x)
				return f.median, ok
			}
		}
		all = append(
			all,
			comparison{title, "cascade / single resources", share("", 28)},
			comparison{title, "the same, 20 ms more", share(", latency", 20)},
			comparison{title, "50,000 foreign queues / none", func(broker string) (float64, bool) {
				scenario := "terraform " + of.name + ", foreign queues"
				beside, ok := d.figure(broker, scenario, of.subject, 50_000, "time")
				alone, also := d.figure(broker, scenario, of.subject, 0, "time")
				return beside.median / alone.median, ok && also
			}},
		)
		if of.subject == mostLevels {
			all = append(all, comparison{of.title, "d.h.m.s / base 10", func(broker string) (float64, bool) {
				return d.ratio(broker, "terraform "+of.name+", by units", "time", 1, daysToSeconds, decimal)
			}})
		}
	}
	return all
}

// placements compares leaders on all nodes of a cluster with leaders on one.
func (d *data) placements() string {
	const published, late = "publish quorum, in a cluster", "lateness, in a cluster"
	brokers := d.brokersOf(published)
	s := row(slices.Concat([]string{"balanced / one node"}, brokers)) + row(alignment(len(brokers)))
	compare := func(title, base, scenario, metric string, x float64) {
		cells := []string{title + ", " + base}
		for _, broker := range brokers {
			r, ok := d.ratio(broker, scenario, metric, x, base+", balanced", base+", one node")
			if !ok {
				cells = append(cells, "")
				continue
			}
			cells = append(cells, short(r))
		}
		s += row(cells)
	}
	for _, base := range []string{binary, decimal} {
		compare("publish rate", base, published, "rate", 3)
		for _, x := range d.xs("", late, "p99") {
			compare("lateness of 99 of 100 at "+short(x)+" msg/s", base, late, "p99", x)
		}
	}
	return s
}

// gains is the least and the greatest ratio of two subjects on any broker.
func (d *data) gains(scenario, metric string, x float64, subject, with string) (string, error) {
	var all []float64
	for _, broker := range d.brokersOf(scenario) {
		if r, ok := d.ratio(broker, scenario, metric, x, subject, with); ok {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return "", fmt.Errorf("%s and %s were measured together nowhere in %q", subject, with, scenario)
	}
	return fmt.Sprintf("%.1f to %.1f", slices.Min(all), slices.Max(all)), nil
}
