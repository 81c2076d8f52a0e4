package main

import (
	"embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed *.md.tmpl
var texts embed.FS

// writePages fills the figures into the guides and the page of all tables. A figure that a page wants and nobody
// measured is an error.
func writePages(d *data, runs []run, results, guides string) error {
	all, err := template.New("").Funcs(pageFuncs(d, runs)).ParseFS(texts, "*.md.tmpl")
	if err != nil {
		return err
	}
	for page, directory := range map[string]string{
		"units.md": guides, "cluster.md": guides, "README.md": results,
	} {
		var s strings.Builder
		if err := all.ExecuteTemplate(&s, page+".tmpl", runs); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(directory, page), []byte(s.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pageFuncs are what a page can call.
func pageFuncs(d *data, runs []run) template.FuncMap {
	return template.FuncMap{
		"brokers":    d.brokersOf,
		"table":      d.table,
		"across":     d.across,
		"short":      short,
		"plot":       plotMarkdown,
		"controls":   d.controls,
		"shares":     d.shares,
		"ratios":     d.ratios,
		"gains":      d.gains,
		"placements": d.placements,
		"trips":      d.trips,
		// cell is a median, empty where it was not measured.
		"cell": func(broker, scenario, subject string, x float64, metric string) string {
			f, ok := d.figure(broker, scenario, subject, x, metric)
			if !ok {
				return ""
			}
			return short(f.median)
		},
		"ran":  func(suite string) (string, error) { return ran(runs, suite) },
		"list": func(all ...string) []string { return all },
		"layouts": func() []string {
			return []string{binary, decimal, "d.h.10m.m.10s.s", "h.m.s", daysToSeconds}
		},
		"newest": func(scenario string) (string, error) {
			all := d.brokersOf(scenario)
			if len(all) == 0 {
				return "", fmt.Errorf("nothing was measured of %q", scenario)
			}
			return all[len(all)-1], nil
		},
		// first is the only x of a scenario.
		"first": func(broker, scenario string) (float64, error) {
			for _, p := range d.points {
				if p.broker == broker && p.scenario == scenario {
					return p.x, nil
				}
			}
			return 0, fmt.Errorf("nothing was measured of %q on %s", scenario, broker)
		},
		"at": func(broker, scenario, metric string) (string, error) {
			v, err := d.only(broker, scenario, metric)
			return short(v), err
		},
		// cost is for each message, of which parts of a byte cannot be told from none.
		"cost": func(broker, scenario, metric string) (string, error) {
			v, err := d.only(broker, scenario, metric)
			if v < 1 {
				return "< 1", err
			}
			return short(v), err
		},
		"million": func(broker, scenario, metric string) (string, error) {
			v, err := d.only(broker, scenario, metric)
			const gigabyte = 1e9
			return short(math.Round(1e6*v/gigabyte*10) / 10), err
		},
		// hundredThousand is how many seconds so many messages take that are due at once, by the rate of fewer and by
		// that of more.
		"hundredThousand": func(broker string) (string, error) {
			f, ok := d.figure(broker, burst, "full", 10_000, "rate")
			if !ok {
				return "", fmt.Errorf("a burst was not measured on %s", broker)
			}
			million, err := d.only(broker, "backlog quorum", "rate when due")
			return fmt.Sprintf("%.0f to %.0f", 1e5/f.median, 1e5/million), err
		},
	}
}

// burst is how fast one queue moves messages on that are due at once.
const burst = "dead-letter round quorum"

// plotMarkdown shows a plot by its address in the repository: the registry has no place for images.
func plotMarkdown(file, broker string) (string, error) {
	for _, each := range drawings {
		if each.file == file {
			const where = "https://raw.githubusercontent.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/" +
				"main/internal/bench/results/"
			return fmt.Sprintf("![%s, RabbitMQ %s](%s)", each.title, broker, where+each.name(broker)), nil
		}
	}
	return "", fmt.Errorf("there is no plot %q", file)
}
