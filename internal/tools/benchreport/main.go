// Benchreport makes a report of what a benchmark has measured: with -summary the ratios that a change can be judged by,
// on standard output; otherwise the guides, with tables, and plots.
//
// All figures are medians of interleaved rounds with the lowest and the highest beside them.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	summary := flag.Bool("summary", false, "print ratios and write nothing")
	samples := flag.String("samples", "internal/bench/results", "directory of the samples")
	plots := flag.String("plots", "internal/bench/results", "directory for the plots")
	guides := flag.String("guides", "templates/guides", "directory for the guides")
	flag.Parse()
	if err := report(*summary, *samples, *plots, *guides); err != nil {
		fmt.Fprintln(os.Stderr, "benchreport:", err)
		os.Exit(1)
	}
}

func report(summary bool, directory, plots, guides string) error {
	measured, err := read(directory)
	if err != nil {
		return err
	}
	if summary {
		return printSummary(os.Stdout, measured)
	}
	runs, err := readRuns(directory, measured.rounds)
	if err != nil {
		return err
	}
	if err := drawAll(measured, plots); err != nil {
		return err
	}
	return writeGuides(measured, runs, guides)
}
