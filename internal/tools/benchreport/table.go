package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table is a scenario on one broker, with a row for each subject and a column for each x.
func (d *data) table(broker, scenario, metric string) (string, error) {
	xs := d.xs(broker, scenario, metric)
	if len(xs) == 0 {
		return "", fmt.Errorf("nothing was measured of %q, %q on %q", scenario, metric, broker)
	}
	var s strings.Builder
	parameter, unit := "", ""
	var rows []string
	for _, subject := range d.subjects(broker, scenario, metric) {
		cells := []string{subject}
		for _, x := range xs {
			f, ok := d.figure(broker, scenario, subject, x, metric)
			if !ok {
				cells = append(cells, "")
				continue
			}
			parameter, unit = f.parameter, f.unit
			cell := f.String()
			if d.censored(broker, scenario, subject, x, metric) {
				cell = "> " + cell
			}
			cells = append(cells, cell)
		}
		rows = append(rows, row(cells))
	}
	head := []string{fmt.Sprintf("%s, %s, against %s", metric, unit, parameter)}
	for _, x := range xs {
		head = append(head, short(x))
	}
	s.WriteString(row(head) + row(alignment(len(xs))) + strings.Join(rows, ""))
	return s.String(), nil
}

// across is one x and metric of a scenario, with a row for each subject and a column for each broker.
func (d *data) across(scenario, metric string, x float64) (string, error) {
	brokers := d.brokersOf(scenario)
	var subjects []string
	for _, broker := range brokers {
		for _, subject := range d.subjects(broker, scenario, metric) {
			if _, ok := d.figure(broker, scenario, subject, x, metric); ok && !slices.Contains(subjects, subject) {
				subjects = append(subjects, subject)
			}
		}
	}
	if len(subjects) == 0 {
		return "", fmt.Errorf("nothing was measured of %q, %q at %g", scenario, metric, x)
	}
	unit := ""
	var rows []string
	for _, subject := range subjects {
		cells := []string{subject}
		for _, broker := range brokers {
			f, ok := d.figure(broker, scenario, subject, x, metric)
			if ok {
				unit = f.unit
				cells = append(cells, f.String())
			} else {
				cells = append(cells, "")
			}
		}
		rows = append(rows, row(cells))
	}
	head := []string{metric}
	if unit != "" {
		head[0] += ", " + unit
	}
	for _, broker := range brokers {
		head = append(head, "RabbitMQ "+broker)
	}
	return row(head) + row(alignment(len(brokers))) + strings.Join(rows, ""), nil
}

func row(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

func alignment(columns int) []string {
	cells := []string{"---"}
	for range columns {
		cells = append(cells, "---:")
	}
	return cells
}

// String is the median with the lowest and highest value, if there is more than one.
func (f figure) String() string {
	if f.rounds == 1 || f.low == f.high {
		return short(f.median)
	}
	return fmt.Sprintf("**%s** (%s–%s)", short(f.median), short(f.low), short(f.high))
}

// short has at most three significant digits, and commas between thousands.
func short(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	scale := math.Pow(10, float64(digits))
	v = math.Round(v*scale) / scale
	if math.Abs(v) < 1000 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// controls is a table of what Terraform takes on one broker for each operation and configuration.
func (d *data) controls(broker string) (string, error) {
	var s strings.Builder
	s.WriteString(row([]string{"operation", "configuration", "time, s", "above the floor, s", "processor time, s",
		"requests", "connections", "of them AMQP", "peak memory, MiB"}))
	s.WriteString(row([]string{"---", "---", "---:", "---:", "---:", "---:", "---:", "---:", "---:"}))
	var rows []string
	for _, operation := range []string{"plan", "apply", "import", "destroy"} {
		for _, more := range []string{"", ", latency", ", foreign queues"} {
			rows = append(rows, d.controlsOf(broker, operation, more)...)
		}
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("nothing was measured of Terraform on %s", broker)
	}
	return s.String() + strings.Join(rows, ""), nil
}

// controlsOf are the rows of one operation, with more latency or queues of others, or neither.
func (d *data) controlsOf(broker, operation, more string) (rows []string) {
	scenario := "terraform " + operation + more
	for _, x := range d.xs(broker, scenario, "time") {
		for _, subject := range d.subjects(broker, scenario, "time") {
			time, ok := d.figure(broker, scenario, subject, x, "time")
			if !ok {
				continue
			}
			cells := []string{operation, subject + condition(more, x), time.String(), ""}
			if floor, ok := d.floor(broker, scenario, x); ok && subject != "floor" && subject != "terraform alone" {
				cells[3] = short(time.median - floor)
			}
			for _, metric := range []string{"processor time", "requests", "connections", "AMQP connections",
				"peak memory"} {
				f, _ := d.figure(broker, scenario, subject, x, metric)
				cells = append(cells, short(f.median))
			}
			rows = append(rows, row(cells))
		}
	}
	return rows
}

// shares compares the cascade with single resources: their times above the floor, for each operation.
func (d *data) shares() (string, error) {
	var s strings.Builder
	head := []string{""}
	for _, column := range operations {
		head = append(head, column.title)
	}
	s.WriteString(row(head) + row(alignment(len(operations))))
	compared := false
	for _, broker := range d.brokersOf("terraform plan") {
		for _, more := range []string{"", ", latency"} {
			for _, x := range d.xs(broker, "terraform plan"+more, "time") {
				cells, some := d.sharesAt(broker, more, x)
				if some {
					s.WriteString(row(cells))
					compared = true
				}
			}
		}
	}
	if !compared {
		return "", errors.New("the cascade was not compared with single resources")
	}
	return s.String(), nil
}

// sharesAt is a row of the table, and whether any operation was compared.
func (d *data) sharesAt(broker, more string, x float64) (cells []string, some bool) {
	cells = []string{"RabbitMQ " + broker + condition(more, x)}
	for _, column := range operations {
		f, ok := d.share(broker, column, more, x)
		if !ok {
			cells = append(cells, "")
			continue
		}
		cells, some = append(cells, f.String()), true
	}
	return cells, some
}

// operation is one that the cascade is compared in with single resources.
type operation struct{ title, name, subject string }

const mostLevels = "28 levels"

var operations = []operation{
	{"plan", "plan", mostLevels}, {"apply", "apply", mostLevels}, {"destroy", "destroy", mostLevels},
	{"destroy with `force_destroy`", "destroy", mostLevels + ", force_destroy"},
}

// share is what the cascade takes above the floor of what single resources take above it. Its range is that of the
// quickest cascade against the slowest single resources, and the other way round.
func (d *data) share(broker string, of operation, more string, x float64) (figure, bool) {
	scenario := "terraform " + of.name + more
	floor, known := d.floor(broker, scenario, x)
	ours, measured := d.figure(broker, scenario, of.subject, x, "time")
	theirs, beside := d.figure(broker, scenario, mostLevels+", single resources", x, "time")
	return figure{
		median: (ours.median - floor) / (theirs.median - floor),
		low:    (ours.low - floor) / (theirs.high - floor),
		high:   (ours.high - floor) / (theirs.low - floor),
		rounds: min(ours.rounds, theirs.rounds),
	}, known && measured && beside
}

// condition names the special circumstance of a scenario.
func condition(more string, x float64) string {
	switch more {
	case ", latency":
		return fmt.Sprintf(", %s ms more per round trip", short(x))
	case ", foreign queues":
		return fmt.Sprintf(", %s foreign queues", short(x))
	}
	return ""
}

// ratio compares two subjects inside one run on one broker.
func (d *data) ratio(broker, scenario, metric string, x float64, subject, with string) (float64, bool) {
	a, ok := d.figure(broker, scenario, subject, x, metric)
	b, also := d.figure(broker, scenario, with, x, metric)
	return a.median / b.median, ok && also && b.median != 0
}

// trips is a table of the round trips that an operation makes one after the other, by what 100 ms more for each adds.
func (d *data) trips() (string, error) {
	const more = 100 // ms
	brokers := d.brokersOf("terraform plan, latency")
	head := []string{"round trips in a row"}
	for _, broker := range brokers {
		head = append(head, "RabbitMQ "+broker)
	}
	s := row(head) + row(alignment(len(brokers)))
	for _, of := range append([]operation{{"import", "import", mostLevels}}, operations...) {
		cells := []string{of.title}
		for _, broker := range brokers {
			near, ok := d.figure(broker, "terraform "+of.name, of.subject, 28, "time")
			far, also := d.figure(broker, "terraform "+of.name+", latency", of.subject, more, "time")
			if !ok || !also {
				return "", fmt.Errorf("%s with and without latency was not measured on %s", of.title, broker)
			}
			cells = append(cells, fmt.Sprintf("%.0f", (far.median-near.median)/(more/1000.0)))
		}
		s += row(cells)
	}
	return s, nil
}
