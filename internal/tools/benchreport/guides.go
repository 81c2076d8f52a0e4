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

// writeGuides fills the figures into the guides. What a guide wants and what was not measured is an error.
func writeGuides(d *data, runs []run, directory string) error {
	all, err := template.New("").Funcs(guideFuncs(d)).ParseFS(texts, "*.md.tmpl")
	if err != nil {
		return err
	}
	for _, t := range all.Templates() {
		if t.Name() == "" {
			continue
		}
		var s strings.Builder
		if err := t.Execute(&s, runs); err != nil {
			return err
		}
		file := filepath.Join(directory, strings.TrimSuffix(t.Name(), ".tmpl"))
		if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// guideFuncs are what a guide can call.
func guideFuncs(d *data) template.FuncMap {
	return template.FuncMap{
		"brokers": d.brokersOf,
		"table":   d.table,
		"across":  d.across,
		"short":   short,
		"plot":    plotMarkdown,
		// cell is a median, empty where it was not measured.
		"cell": func(broker, scenario, subject string, x float64, metric string) string {
			f, ok := d.figure(broker, scenario, subject, x, metric)
			if !ok {
				return ""
			}
			return short(f.median)
		},
		"ratio": func(broker, scenario, metric string, x float64, subject, with string) (string, error) {
			r, ok := d.ratio(broker, scenario, metric, x, subject, with)
			if !ok {
				return "", fmt.Errorf("cannot compare %q with %q of %q, %q at %g on %s", subject, with, scenario,
					metric, x, broker)
			}
			return short(r), nil
		},
		"controls": d.controls,
		"shares":   d.shares,
		"reached":  d.reached,
		"word":     d.word,
		"trips":    d.trips,
		"ofApply":  d.ofApply,
		// maybe is full lookahead against the chain, empty where that was not measured.
		"maybe": func(broker, scenario, metric string, x float64) string {
			r, ok := d.ratio(broker, scenario, metric, x, "full", "chain")
			if !ok {
				return ""
			}
			return short(r) + " ×"
		},
		"hop":       d.hop,
		"handingOn": d.handingOn,
		"passing":   d.passing,
		"list":      func(all ...string) []string { return all },
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
			f, ok := d.figure(broker, movingOn, "full", 10_000, "rate")
			if !ok {
				return "", fmt.Errorf("moving on was not measured on %s", broker)
			}
			million, err := d.only(broker, "backlog quorum", "rate when due")
			return fmt.Sprintf("%.0f to %.0f", 1e5/f.median, 1e5/million), err
		},
	}
}

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
