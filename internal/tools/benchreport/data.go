package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
	"gonum.org/v1/gonum/stat"
)

// point names a figure: the metric, the subject and the broker.
type point struct {
	broker, scenario, subject string
	x                         float64
	metric                    string
}

// figure is what the rounds of a point gave.
type figure struct {
	median, low, high float64
	rounds            int
	unit, parameter   string
}

// data are all figures, with the order in which brokers, subjects and so on were measured first.
type data struct {
	figures map[point]figure
	points  []point
	rounds  map[string]int // of each file, by its name without the extension
}

// read computes a figure from the samples of each point in all files of a directory.
func read(directory string) (*data, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.csv"))
	if err != nil {
		return nil, err
	}
	d := &data{figures: map[point]figure{}, rounds: map[string]int{}}
	values := map[point][]float64{}
	for _, file := range files {
		if err := d.add(file, values); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	for p, all := range values {
		slices.Sort(all)
		f := d.figures[p]
		f.low, f.high, f.rounds = all[0], all[len(all)-1], len(all)
		f.median = median(all)
		d.figures[p] = f
	}
	return d, nil
}

// add adds the samples of a file, as internal/bench/sample writes it.
func (d *data) add(file string, values map[point][]float64) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return err
	}
	const broker, scenario, subject, parameter, x, metric, unit, round, value = 0, 1, 2, 3, 4, 5, 6, 7, 8
	for _, row := range rows[min(1, len(rows)):] {
		p := point{broker: row[broker], scenario: row[scenario], subject: row[subject], metric: row[metric]}
		if p.x, err = strconv.ParseFloat(row[x], 64); err != nil {
			return err
		}
		measured, err := strconv.ParseFloat(row[value], 64)
		if err != nil {
			return err
		}
		rounds, err := strconv.Atoi(row[round])
		if err != nil {
			return err
		}
		d.rounds[base(file)] = max(d.rounds[base(file)], rounds)
		// A subject that is compared with something else than the rest of its scenario has a name of its own.
		if row[parameter] == "latency" || row[parameter] == "foreign queues" {
			p.scenario += ", " + row[parameter]
		}
		if _, known := values[p]; !known {
			d.points = append(d.points, p)
		}
		values[p] = append(values[p], measured)
		d.figures[p] = figure{unit: row[unit], parameter: row[parameter]}
	}
	return nil
}

func base(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }

// median is that of sorted values.
func median(sorted []float64) float64 {
	return (stat.Quantile(0.5, stat.Empirical, sorted, nil) + stat.Quantile(0.5+1e-9, stat.Empirical, sorted, nil)) / 2
}

// distinct lists, in the order of measurement, what get says of the points that match.
func distinct[T comparable](d *data, match func(point) bool, get func(point) T) []T {
	var found []T
	for _, p := range d.points {
		if match(p) && !slices.Contains(found, get(p)) {
			found = append(found, get(p))
		}
	}
	return found
}

// brokers are the oldest first.
func (d *data) brokers() []string { return d.brokersOf("") }

// brokersOf are those on which the scenario was measured.
func (d *data) brokersOf(scenario string) []string {
	all := distinct(d, func(p point) bool { return scenario == "" || p.scenario == scenario },
		func(p point) string { return p.broker })
	slices.SortFunc(all, func(a, b string) int { return semver.Compare("v"+a, "v"+b) })
	return all
}

// subjects are the slowest first.
func (d *data) subjects(broker, scenario, metric string) []string {
	all := distinct(d, func(p point) bool { return p.broker == broker && p.scenario == scenario && p.metric == metric },
		func(p point) string { return p.subject })
	slices.SortStableFunc(all, func(a, b string) int { return order(a) - order(b) })
	return all
}

// order is that in which a reader expects subjects.
func order(subject string) int {
	switch subject {
	case "terraform alone":
		return 0
	case "floor":
		return 1
	case "chain":
		return 10
	case "chain, lax keys":
		return 11
	case "chain, entered at the first set bit":
		return 12
	case "full at the entry only":
		return 80
	case "full at the entry, lookahead 4 below":
		return 81
	case "full, bound in the opposite order":
		return 101
	case "full, direct exchanges for round delays":
		return 102
	case "full":
		return 100
	case "full, lax keys":
		return 103
	case "d.h.10m.m.10s.s":
		return 30
	case "h.m.s":
		return 31
	case daysToSeconds:
		return 32
	case "limit":
		return 1000
	}
	var n int
	if _, err := fmt.Sscanf(subject, "lookahead %d", &n); err == nil {
		return 10 + 2*n
	}
	if _, err := fmt.Sscanf(subject, "base %d,", &n); err == nil {
		return 10 + n
	}
	if _, err := fmt.Sscanf(subject, "%d levels", &n); err == nil {
		return 10 + 10*n + len(subject)/10
	}
	return 2000
}

func (d *data) xs(broker, scenario, metric string) []float64 {
	all := distinct(d, func(p point) bool {
		return (broker == "" || p.broker == broker) && p.scenario == scenario && p.metric == metric
	}, func(p point) float64 { return p.x })
	slices.Sort(all)
	return all
}

// figure is that of a point, if it was measured.
func (d *data) figure(broker, scenario, subject string, x float64, metric string) (figure, bool) {
	f, ok := d.figures[point{broker, scenario, subject, x, metric}]
	return f, ok
}

// censored tells whether a percentile is only a lower bound, because some messages did not arrive in time to be
// measured.
func (d *data) censored(broker, scenario, subject string, x float64, metric string) bool {
	arrived, ok := d.figure(broker, scenario, subject, x, "arrived")
	return ok && arrived.low < 1 && metric != "arrived"
}

// only is the median of a metric of full lookahead that was measured at a single x.
func (d *data) only(broker, scenario, metric string) (float64, error) {
	for _, p := range d.points {
		if p.broker == broker && p.scenario == scenario && p.metric == metric && p.subject == "full" {
			return d.figures[p].median, nil
		}
	}
	return 0, fmt.Errorf("nothing was measured of %q, %q on %s", scenario, metric, broker)
}

// run is what internal/bench says of where and when it measured.
type run struct {
	Suite, Broker, Erlang         string
	Date                          time.Time
	Took, Commit, Processor       string
	Cores                         int
	Memory, System, Go, Terraform string
	LoadBefore                    string `json:"load_before"`
	LoadAfter                     string `json:"load_after"`
	Rounds                        int    `json:"-"` // what its samples say
}

// Machine is what it ran on, in short.
func (r run) Machine() (string, error) {
	var kB float64
	if _, err := fmt.Sscanf(r.Memory, "%f kB", &kB); err != nil {
		return "", fmt.Errorf("memory %q: %w", r.Memory, err)
	}
	return fmt.Sprintf("%s, %d cores, %.0f GiB, %s", r.Processor, r.Cores, kB/(1<<20), release.FindString(r.System)),
		nil
}

// release is the system without what the builder of its kernel adds.
var release = regexp.MustCompile(`^[^-]*[0-9]`)

// ran says of a suite when and where it measured each version, the newest version first.
func ran(runs []run, suite string) (string, error) {
	of := map[string]string{} // by version
	for _, r := range runs {
		if r.Suite == suite {
			version, _, _ := strings.Cut(r.Broker, " ")
			of[version] = fmt.Sprintf("%s (%s, %s, %d cores)", version, r.Date.Format(time.DateOnly), r.Processor,
				r.Cores)
		}
	}
	if len(of) == 0 {
		return "", fmt.Errorf("there is no run of %q", suite)
	}
	var all []string
	for _, version := range slices.Backward(slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return semver.Compare("v"+a, "v"+b)
	})) {
		all = append(all, of[version])
	}
	return "Runs: " + strings.Join(all, ", ") + ".", nil
}

func readRuns(directory string, rounds map[string]int) ([]run, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return nil, err
	}
	runs := make([]run, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &runs[i])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		runs[i].Rounds = rounds[base(file)]
	}
	return runs, nil
}
