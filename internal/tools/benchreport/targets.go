package main

import (
	"fmt"

	"golang.org/x/mod/semver"
)

// target is what was to be reached, with full lookahead on 28 levels unless the title has another base.
type target struct {
	title, wanted string
	// measure is what was reached on a broker, and whether that is what was wanted.
	measure func(broker string) (reached string, met, measured bool)
}

// targets were set before anything of this was built.
func (d *data) targets() []target {
	against := func(scenario, metric string, x float64, with string, atLeast float64) func(string) (string, bool,
		bool) {
		return func(broker string) (string, bool, bool) {
			r, ok := d.ratio(broker, scenario, metric, x, "full", with)
			return short(r), r >= atLeast, ok
		}
	}
	all := []target{
		{"publish rate, a delay of one step, against the chain", "≥ 12",
			against("publish quorum", "rate", 28, "chain", 12)},
		{"publish rate, the same, against a single queue, from 4.3 on", "≥ 0.4",
			func(broker string) (string, bool, bool) {
				reached, met, measured := against("publish quorum", "rate", 28, "limit", 0.4)(broker)
				return reached, met || semver.Compare("v"+broker, "v4.3") < 0, measured
			}},
		{"highest even rate with little lateness, against the chain", "≥ 4",
			against("highest paced rate", "rate", 28, "chain", 4)},
		{"moving on after a round delay, quorum queues, against the chain", "≥ 4",
			against("dead-letter round quorum", "rate", 10_000, "chain", 4)},
		{"moving on after a round delay, classic queues, against the chain", "≥ 4",
			against("dead-letter round classic", "rate", 10_000, "chain", 4)},
	}
	for _, each := range []struct {
		more, title string
		x, atMost   float64
	}{{"", "", 28, 0.5}, {", latency", ", 20 ms more per round trip", 20, 1.0 / 3}} {
		for _, of := range operations {
			all = append(all, target{
				fmt.Sprintf("%s, time against single resources%s", of.title, each.title), "≤ " + short(each.atMost),
				func(broker string) (string, bool, bool) {
					f, ok := d.share(broker, of, each.more, each.x)
					return short(f.median), f.median <= each.atMost, ok
				},
			})
		}
	}
	all = append(
		all,
		target{"requests of a plan that finds nothing to do", "≤ 60", func(broker string) (string, bool, bool) {
			f, ok := d.figure(broker, "terraform plan", mostLevels, 28, "requests")
			return short(f.high), f.high <= 60, ok
		}},
		target{"peak memory of the provider, MiB", "< 60", func(broker string) (string, bool, bool) {
			most, measured := 0.0, false
			for _, name := range []string{"plan", "apply", "import", "destroy"} {
				f, ok := d.figure(broker, "terraform "+name, mostLevels, 28, "peak memory")
				most, measured = max(most, f.high), measured || ok
			}
			return short(most), most < 60, measured
		}},
	)
	for _, of := range operations {
		all = append(all, target{of.title + " beside 50,000 foreign queues and bindings, against none", "no more",
			func(broker string) (string, bool, bool) {
				scenario := "terraform " + of.name + ", foreign queues"
				beside, ok := d.figure(broker, scenario, of.subject, 50_000, "time")
				alone, also := d.figure(broker, scenario, of.subject, 0, "time")
				return short(beside.median / alone.median), beside.low <= alone.high, ok && also
			}})
	}
	return append(all, d.targetsOfBase()...)
}

// The subjects of what is compared by base, see internal/bench/dataplane, have a range of as many binary digits.
const (
	binary       = "base 2, 28 levels"
	decimal      = "base 10, 8 levels"
	binaryDigits = 28
)

// targetsOfBase are those of eight levels in base 10.
func (d *data) targetsOfBase() []target {
	var all []target
	for _, each := range []struct {
		title, scenario, with string
		before, since         float64 // 4.3
	}{
		{"publish rate, a delay of one step, against base 2", "publish quorum", binary, 2, 1.25},
		{"publish rate, the same, against a single queue", "publish quorum", "limit", 0.4, 0.7},
		{"highest even rate with little lateness, against base 2", "highest paced rate", binary, 1.8, 1.5},
	} {
		wanted := fmt.Sprintf("≥ %s, from 4.3 on %s", short(each.before), short(each.since))
		all = append(all, target{"base 10: " + each.title, wanted, func(broker string) (string, bool, bool) {
			r, ok := d.ratio(broker, each.scenario+", by base", "rate", binaryDigits, decimal, each.with)
			atLeast := each.before
			if semver.Compare("v"+broker, "v4.3") >= 0 {
				atLeast = each.since
			}
			return short(r), r >= atLeast, ok
		}})
	}
	for _, operation := range []string{"plan", "apply", "destroy"} {
		title := fmt.Sprintf("base 10: %s, time against base 2", operation)
		all = append(all, target{title, "≤ 1.2", func(broker string) (string, bool, bool) {
			r, ok := d.ratio(broker, "terraform "+operation+", by base", "time", binaryDigits, decimal, binary)
			return short(r), r <= 1.2, ok
		}})
	}
	return all
}

// reached is a table of the targets.
func (d *data) reached() string {
	brokers := d.brokersOf("publish quorum")
	head := []string{"", "target"}
	for _, broker := range brokers {
		head = append(head, "RabbitMQ "+broker)
	}
	s := row(head) + row(append([]string{"---"}, alignment(len(brokers))...))
	for _, t := range d.targets() {
		cells, some := []string{t.title, t.wanted}, false
		for _, broker := range brokers {
			reached, met, measured := t.measure(broker)
			switch {
			case !measured:
				reached = ""
			case !met:
				reached = "**" + reached + "**, missed"
			}
			cells, some = append(cells, reached), some || measured
		}
		if some {
			s += row(cells)
		}
	}
	return s
}
