// Package sample keeps what a benchmark measures, one value at a time, and writes it as CSV. It computes
// nothing: medians, ratios and plots are made of the file (internal/tools/benchreport). Call NewRecorder.
package sample

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// A Sample is one measured value.
type Sample struct {
	Broker    string // version of RabbitMQ
	Scenario  string // such as "publish"
	Subject   string // such as "full", compared with "chain"
	Parameter string // names X, such as "levels"
	X         float64
	Metric    string // names Value, such as "rate"
	Unit      string
	Round     int // rounds are interleaved: round 1 of all subjects comes before round 2 of any
	Value     float64
}

var header = []string{"broker", "scenario", "subject", "parameter", "x", "metric", "unit", "round", "value"}

// A Recorder writes samples as they come, and says on a log what they are.
type Recorder struct {
	mutex sync.Mutex
	csv   *csv.Writer
	log   io.Writer
	since time.Time
}

// NewRecorder begins a file.
func NewRecorder(file, log io.Writer) (*Recorder, error) {
	r := &Recorder{csv: csv.NewWriter(file), log: log, since: time.Now()}
	return r, r.csv.Write(header)
}

// Add writes a sample at once, so that an interrupted run leaves what it had measured.
func (r *Recorder) Add(s Sample) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	number := func(f float64) string { return strconv.FormatFloat(f, 'g', 7, 64) }
	err := r.csv.Write([]string{
		s.Broker, s.Scenario, s.Subject, s.Parameter, number(s.X), s.Metric, s.Unit, strconv.Itoa(s.Round),
		number(s.Value),
	})
	r.csv.Flush()
	if err == nil {
		err = r.csv.Error()
	}
	fmt.Fprintf(r.log, "%6.1fs %-7s %-20s %-22s %s=%-8s %s %s %s\n", time.Since(r.since).Seconds(),
		s.Broker, s.Scenario, s.Subject, s.Parameter, number(s.X), s.Metric, number(s.Value), s.Unit)
	return err
}
