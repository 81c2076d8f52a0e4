package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// printSummary prints what a change can be judged by.
func printSummary(w io.Writer, d *data) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, broker := range d.brokers() {
		fmt.Fprintf(table, "RabbitMQ %s\n", broker)
		for _, metric := range []string{"rate", "time", "memory", "disk"} {
			measured := func(p point) bool { return p.broker == broker && p.metric == metric }
			for _, scenario := range distinct(d, measured, func(p point) string { return p.scenario }) {
				printRatios(table, d, broker, scenario, metric)
			}
		}
		ofTerraform := func(p point) bool {
			return p.broker == broker && strings.HasPrefix(p.scenario, "terraform ") && p.metric == "time"
		}
		for _, scenario := range distinct(d, ofTerraform, func(p point) string { return p.scenario }) {
			printFloors(table, d, broker, scenario)
		}
	}
	return table.Flush()
}

// printRatios prints a metric of a scenario, such as the rate, each against the chain, the bases and the limit.
func printRatios(table io.Writer, d *data, broker, scenario, metric string) {
	for _, x := range d.xs(broker, scenario, metric) {
		for _, subject := range d.subjects(broker, scenario, metric) {
			for _, with := range []string{"chain", binary, decimal, "limit"} {
				r, ok := d.ratio(broker, scenario, metric, x, subject, with)
				if !ok || subject == with || subject == "limit" || subject == "floor" {
					continue
				}
				f, _ := d.figure(broker, scenario, subject, x, metric)
				fmt.Fprintf(table, "  %s, %s %s\t%s\t%s × %s\t(%s %s %s)\n", scenario, f.parameter, short(x),
					subject, short(r), with, metric, f.plain(), f.unit)
			}
		}
	}
}

// printFloors prints what Terraform takes in a scenario above the floor.
func printFloors(table io.Writer, d *data, broker, scenario string) {
	for _, subject := range d.subjects(broker, scenario, "time") {
		for _, x := range d.xs(broker, scenario, "time") {
			f, ok := d.figure(broker, scenario, subject, x, "time")
			floor, known := d.floor(broker, scenario, x)
			if !ok || !known || subject == "floor" || subject == "terraform alone" {
				continue
			}
			requests, _ := d.figure(broker, scenario, subject, x, "requests")
			memory, _ := d.figure(broker, scenario, subject, x, "peak memory")
			fmt.Fprintf(table, "  %s, %s %s\t%s\t%s s above the floor = %s floors\t%s requests, %s MiB\n",
				scenario, f.parameter, short(x), subject,
				short(f.median-floor), short((f.median-floor)/floor), requests.plain(), memory.plain())
		}
	}
}

// floor is the time that Terraform takes for next to nothing. Where it was measured beside the queues of others, it is
// that time; otherwise that alone and without latency.
func (d *data) floor(broker, scenario string, x float64) (float64, bool) {
	if f, ok := d.figure(broker, scenario, "floor", x, "time"); ok {
		return f.median, true
	}
	operation, _, _ := strings.Cut(scenario, ",")
	for _, x := range d.xs(broker, operation, "time") {
		if f, ok := d.figure(broker, operation, "floor", x, "time"); ok {
			return f.median, true
		}
	}
	return 0, false
}

// plain is a figure without markup.
func (f figure) plain() string { return strings.ReplaceAll(f.String(), "**", "") }
