// Benchreport makes a report of what a benchmark has measured: with -summary the ratios that a change can be judged by, on
// standard output; otherwise the guides, with tables, and plots.
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
	samples := flag.String("samples", "internal/bench/results", "directory of the samples, and for the plots")
	guides := flag.String("guides", "templates/guides", "directory for the guides")
	flag.Parse()
	if err := report(*summary, *samples, *guides); err != nil {
		fmt.Fprintln(os.Stderr, "benchreport:", err)
		os.Exit(1)
	}
}

func report(summary bool, directory, guides string) error {
	measured, err := read(directory)
	if err != nil {
		return err
	}
	if summary {
		return printSummary(os.Stdout, measured)
	}
	runs, err := readRuns(directory)
	if err != nil {
		return err
	}
	if err := drawAll(measured, directory); err != nil {
		return err
	}
	return writeGuides(measured, runs, guides)
}
