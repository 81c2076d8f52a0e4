package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/control"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/dataplane"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

func TestMain(m *testing.M) { brokertest.Main(m) }

// Every suite that can be short measures something on a real broker. How much is no matter of a test.
func TestSuites(t *testing.T) {
	quorum := []delay.QueueType{delay.Quorum}
	paced := dataplane.PacedOptions{Lookaheads: []int{full}, Rates: []float64{50}, Rounds: 1, Time: time.Second,
		Delays: dataplane.UpTo(3)}
	units := []dataplane.Units{{Units: withTens.Units, Longest: 7 * day}}
	tiny := settings{
		publish: dataplane.PublishOptions{Levels: []int{4}, Lookaheads: []int{1}, QueueTypes: quorum, Together: 2,
			Rounds: 1, Time: 300 * time.Millisecond},
		deadLetter: dataplane.DeadLetterOptions{Lookaheads: []int{full}, QueueTypes: quorum, Messages: 50, Rounds: 1},
		paced:      paced,
		units: dataplane.UnitOptions{Units: units, Rounds: 1, Time: 300 * time.Millisecond, Paced: paced, Random: paced,
			Messages: 50},
		control: control.Options{Levels: []int{4}, Units: units, Steps: true, Rounds: 1},
		// the backlog, the layouts, foreign objects and empty cascades take long
		suites: []string{"publish", "deadletter", "paced", "units-rates", "units", "terraform"},
	}
	ofTerraform := []string{"terraform", "units"}
	b := brokertest.Shared(t)
	out := t.TempDir()
	t.Chdir("../..") // where make runs it
	for _, s := range suites {
		if !tiny.has(s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			if slices.Contains(ofTerraform, s.name) && os.Getenv("TF_ACC_TERRAFORM_PATH") == "" {
				t.Skip("TF_ACC_TERRAFORM_PATH, the executable file of Terraform, is not set")
			}
			if err := s.run(t.Context(), b, tiny, out); err != nil {
				t.Fatal(err)
			}
			checkSamples(t, filepath.Join(out, s.name+"-"+b.Version+".csv"))
		})
	}
}

// checkSamples makes sure that times and rates are there, and that no message got lost.
func checkSamples(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 2 {
		t.Fatal("nothing was measured")
	}
	for _, row := range rows[1:] {
		metric := row[5]
		value, err := strconv.ParseFloat(row[8], 64)
		if err != nil {
			t.Fatal(err)
		}
		if metric == "arrived" && value != 1 || (metric == "rate" || metric == "time") && value <= 0 {
			t.Errorf("%q: %s is %g", row, metric, value)
		}
	}
}
