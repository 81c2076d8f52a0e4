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
	units      dataplane.UnitOptions
	cluster    dataplane.ClusterOptions
	control    control.Options
	suites     []string
}

func (s settings) has(suite string) bool { return slices.Contains(s.suites, suite) }

// full is the lookahead of all levels.
const full = 0

const day = 24 * time.Hour

// These are compared: base 2 and base 10, the default, and two with fewer queues than that.
var (
	binary         = dataplane.Units{Base: 2, Levels: 28}
	decimal        = dataplane.Units{Base: 10, Levels: 8}
	daysToSeconds  = dataplane.Units{Units: delay.CommonUnits()[:4], Longest: delay.DefaultMaxDelay}
	hoursToSeconds = dataplane.Units{Units: delay.CommonUnits()[1:4], Longest: day}
	withTens       = dataplane.Units{Units: []time.Duration{day, time.Hour, 10 * time.Minute, time.Minute,
		10 * time.Second, time.Second}, Longest: delay.DefaultMaxDelay}

	layouts = []dataplane.Units{binary, decimal, withTens, hoursToSeconds, daysToSeconds}
)

// brief takes two minutes, the start of a broker included, but half a minute more beside another provider.
func brief() settings {
	return settings{
		suites: []string{"publish", "deadletter", "units-rates", "terraform"},
		publish: dataplane.PublishOptions{
			Levels: []int{28}, Lookaheads: []int{1, full}, QueueTypes: []delay.QueueType{delay.Quorum}, Rounds: 3,
			Time: 1500 * time.Millisecond,
		},
		deadLetter: dataplane.DeadLetterOptions{
			Lookaheads: []int{1, full}, QueueTypes: []delay.QueueType{delay.Classic}, Messages: 5000, Rounds: 1,
		},
		units: dataplane.UnitOptions{
			Units: []dataplane.Units{decimal, daysToSeconds}, Rounds: 3, Time: 2 * time.Second,
		},
		control: control.Options{Levels: []int{28}, Latency: []time.Duration{20 * time.Millisecond},
			Rounds: 2, Other: other()},
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
	compared := []dataplane.Units{binary, decimal, daysToSeconds}
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
			Rounds: rounds(2), Time: 4 * time.Second, Delays: dataplane.UpTo(31),
		},
		backlog: dataplane.BacklogOptions{
			QueueTypes: both, Messages: messages, Wait: time.Minute + time.Duration(messages)*120*time.Microsecond,
			Paced: dataplane.PacedOptions{Rates: []float64{1000}, Time: 5 * time.Second, Delays: dataplane.UpTo(31)},
		},
		units: dataplane.UnitOptions{
			Units: compared, Rounds: rounds(3), Time: 3 * time.Second, Messages: 10_000, Idle: layouts,
			// a minute to two hours, in milliseconds; in one round, because a search takes minutes
			Paced: dataplane.PacedOptions{Delays: []int64{60, 300, 1800, 3600, 7200}, Search: true, Rounds: 1,
				Rates: []float64{1000, 2000, 4000}, Time: 2 * time.Second},
			Random: dataplane.PacedOptions{Delays: dataplane.UpTo(7200), Rates: []float64{1000}, Rounds: 1,
				Time: 2 * time.Second},
		},
		cluster: dataplane.ClusterOptions{
			Units: []dataplane.Units{binary, decimal}, Layouts: layouts, Rounds: rounds(3), Time: 6 * time.Second,
			Paced: dataplane.PacedOptions{Rates: []float64{100, 200}, Rounds: rounds(3), Time: 3 * time.Second,
				Delays: dataplane.UpTo(200)},
			Failovers: rounds(3), Rate: 20,
		},
		control: control.Options{
			Levels: []int{4, 17, 28}, Latency: []time.Duration{20 * time.Millisecond, 100 * time.Millisecond},
			Foreign: []int{0, 5000, 50_000}, Units: compared,
			Ten: true, Import: true, Steps: true, Settle: true, Rounds: rounds(5), Other: other(),
		},
	}
}

// other is the executable file of the provider cyrilgdn/rabbitmq, to compare with.
func other() string { return os.Getenv("RABBITMQ_PROVIDER") }
