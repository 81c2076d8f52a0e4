// Benchreport makes a report of a benchmark's measurements. With -summary it writes the ratios that a change can be
// judged by to standard output. Otherwise it writes the guides with figures, plots, and a page of all tables.
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
	results := flag.String("results", "internal/bench/results", "directory for the plots and the page of all tables")
	guides := flag.String("guides", "templates/guides", "directory for the guides")
	flag.Parse()
	if err := report(*summary, *samples, *results, *guides); err != nil {
		fmt.Fprintln(os.Stderr, "benchreport:", err)
		os.Exit(1)
	}
}

func report(summary bool, directory, results, guides string) error {
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
	if err := drawAll(measured, results); err != nil {
		return err
	}
	return writePages(measured, runs, results, guides)
}
