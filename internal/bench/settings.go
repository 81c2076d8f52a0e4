package main

import (
	"os"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/control"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/dataplane"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// settings are what each suite compares.
type settings struct {
	publish    dataplane.PublishOptions
	deadLetter dataplane.DeadLetterOptions
	layouts    dataplane.LayoutOptions
	paced      dataplane.PacedOptions
	backlog    dataplane.BacklogOptions
	bases      dataplane.BaseOptions
	cluster    dataplane.ClusterOptions
	control    control.Options
	suites     []string
}

func (s settings) has(suite string) bool { return slices.Contains(s.suites, suite) }

// full is the lookahead of all levels.
const full = 0

// bases have, each, so many digits for an equal range: 28 binary ones. The report compares the others with base 2.
var bases = []dataplane.Digits{{Base: 2, Levels: dataplane.BinaryDigits}, {Base: 4, Levels: 14}, {Base: 10, Levels: 8}}

// brief takes two minutes, the start of a broker included, but half a minute more beside another provider.
func brief() settings {
	twoAndTen := []dataplane.Digits{bases[0], bases[2]}
	return settings{
		suites: []string{"publish", "deadletter", "publish-bases", "bases", "terraform", "terraform-bases"},
		publish: dataplane.PublishOptions{
			Levels: []int{28}, Lookaheads: []int{1, full}, QueueTypes: []delay.QueueType{delay.Quorum}, Rounds: 3,
			Time: 1500 * time.Millisecond,
		},
		deadLetter: dataplane.DeadLetterOptions{
			Lookaheads: []int{1, full}, QueueTypes: []delay.QueueType{delay.Classic}, Messages: 5000, Rounds: 1,
		},
		bases: dataplane.BaseOptions{
			Digits: twoAndTen, Rounds: 2, Time: time.Second,
			Paced: dataplane.PacedOptions{Search: true, Rounds: 1, Time: time.Second, MaxSteps: 100},
		},
		control: control.Options{Levels: []int{28}, Latency: []time.Duration{20 * time.Millisecond},
			Bases: twoAndTen, Rounds: 2, Other: other()},
	}
}

// long is for the report. The rounds of each suite are its own, unless their number is given.
func long(messages, given int) settings {
	rounds := func(usual int) int {
		if given > 0 {
			return given
		}
		return usual
	}
	both := []delay.QueueType{delay.Quorum, delay.Classic}
	return settings{
		suites: names(),
		publish: dataplane.PublishOptions{
			Levels: []int{4, 8, 16, 28}, Lookaheads: []int{1, 2, 4, 8, full}, QueueTypes: both,
			Lax: true, Day: true, Together: 4, Rounds: rounds(3), Time: 1200 * time.Millisecond,
		},
		deadLetter: dataplane.DeadLetterOptions{
			Lookaheads: []int{1, 4, full}, QueueTypes: both, Random: true, Limit: true, Messages: 10_000,
			Rounds: rounds(2),
		},
		layouts: dataplane.LayoutOptions{Time: 1200 * time.Millisecond, Messages: 10_000, Rounds: rounds(3)},
		paced: dataplane.PacedOptions{
			Lookaheads: []int{1, full}, Rates: []float64{300, 1000, 2000, 5000, 10_000}, Search: true,
			Rounds: rounds(2), Time: 4 * time.Second, MaxSteps: 31,
		},
		backlog: dataplane.BacklogOptions{
			QueueTypes: both, Messages: messages, Wait: time.Minute + time.Duration(messages)*120*time.Microsecond,
			Paced: dataplane.PacedOptions{Rates: []float64{1000}, Time: 5 * time.Second, MaxSteps: 31},
		},
		bases: dataplane.BaseOptions{
			Digits: bases, Rounds: rounds(3), Time: time.Second, Idle: 5,
			Paced: dataplane.PacedOptions{Rates: []float64{1000, 2000, 4000}, Search: true, Rounds: rounds(2),
				Time: 2 * time.Second, MaxSteps: 200},
		},
		cluster: dataplane.ClusterOptions{
			Digits: []dataplane.Digits{bases[0], bases[2]}, Rounds: rounds(3), Time: 6 * time.Second,
			Paced: dataplane.PacedOptions{Rates: []float64{100, 200}, Rounds: rounds(3), Time: 3 * time.Second,
				MaxSteps: 200},
			Failovers: rounds(3), Rate: 20,
		},
		control: control.Options{
			Levels: []int{4, 17, 28}, Latency: []time.Duration{20 * time.Millisecond, 100 * time.Millisecond},
			Foreign: []int{0, 5000, 50_000}, Bases: bases,
			Ten: true, Import: true, Steps: true, Settle: true, Rounds: rounds(5), Other: other(),
		},
	}
}

// other is the executable file of the provider cyrilgdn/rabbitmq, to compare with.
func other() string { return os.Getenv("RABBITMQ_PROVIDER") }
