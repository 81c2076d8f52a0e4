package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ordersReaching is the cascade of days to seconds with a max_delay. Its queues are classic: hundreds of quorum queues
// would slow down the tests beside this one.
func ordersReaching(v *harness.Vhost, reach time.Duration) topology.Topology {
	v.T.Helper()
	return ordersExpanded(v, func(c *delay.Config) { c.MaxDelay, c.QueueType = reach, delay.Classic })
}

// A longer or shorter max_delay is an update in place. The plan has the queues and bindings that come or go. It has
// nothing of the entry and of the others.
func TestAccMaxDelayChangesInPlace(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := harness.NewVhost(t)
	tf := v.CommandLine()
	const day = 24 * time.Hour
	reaching := func(reach time.Duration) string {
		return ordersOf(fmt.Sprintf("max_delay = %q", delay.DurationText(reach)), `queue_type = "classic"`)
	}
	before := topology.New()
	for _, reach := range []time.Duration{2 * time.Hour, 30 * day, 40 * day, 2 * time.Hour} {
		after := ordersReaching(v, reach)
		text := planText(tf, reaching(reach))
		if !before.IsEmpty() {
			planChangesOnly(t, text, before, after)
		}
		tf.MustRun("apply", "-input=false", "plan")
		v.MustHold(after)
		tf.MustRun("plan", "-input=false", "-detailed-exitcode")
		before = after
	}
	planReads(v, tf, "grow-max-delay.txt", reaching(3*time.Hour))
	tf.MustRun("apply", "-input=false", "plan")
	v.Publish(unitsEntry, "0.3.0.0.later", "")
	waits(v, "orders.3h", 1)
	planText(tf, reaching(2*time.Hour))
	compareOutput(v, filepath.Join(plansDirectory, "shrink-max-delay.txt"),
		repeatable(tf.MustRun("plan", "-input=false"), v.Name))
}

// planChangesOnly checks that the plan has a line for each queue and binding that comes or goes, and none of another.
func planChangesOnly(t *testing.T, text string, before, after topology.Topology) {
	t.Helper()
	if !strings.Contains(text, "Plan: 0 to add, 1 to change, 0 to destroy.") {
		t.Errorf("the plan is no update:\n%s", text)
	}
	var want []string
	for _, change := range []struct {
		sign string
		of   topology.Topology
		not  topology.Topology
	}{{"+", after, before}, {"-", before, after}} {
		for name := range change.of.Queues {
			if _, stays := change.not.Queues[name]; !stays {
				want = append(want, fmt.Sprintf("%s %q", change.sign, name))
			}
		}
		for b := range change.of.Bindings {
			if change.of.Owns(b.Source) && !change.not.Bindings.Has(b) {
				want = append(want, fmt.Sprintf("%s %q", change.sign, b.RoutingKey))
			}
		}
	}
	var have []string
	for _, line := range regexp.MustCompile(`(?m)^ {10,}([-+~]) ("[^"]+") +=`).FindAllStringSubmatch(text, -1) {
		if isExchange := line[1] == "~" && strings.HasPrefix(line[2], `"orders.`); !isExchange {
			have = append(have, line[1]+" "+line[2])
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("the plan changes\n%s\nand not\n%s", have, want)
	}
	if strings.Contains(text, "entry_exchange") {
		t.Errorf("the plan changes the entry:\n%s", text)
	}
}

// A shorter max_delay is refused while a message waits in a queue that goes. The plan says so, and everything is there
// again.
func TestShorterMaxDelayIsRefused(t *testing.T) {
	t.Parallel()
	for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
		t.Run(string(queueType), func(t *testing.T) {
			t.Parallel()
			v, p, given := newOrders(t, harness.Attributes{"units": harness.TextList("1d", "1h"), "max_delay": "7d",
				"queue_type": string(queueType)})
			reaching := func(reach time.Duration) topology.Topology {
				return ordersExpanded(v, func(c *delay.Config) {
					c.Units, c.MaxDelay, c.QueueType = []time.Duration{24 * time.Hour, time.Hour}, reach, queueType
				})
			}
			v.Publish("orders.d.h", "5.0.later", "")
			v.Publish("orders.d.h", "0.2.later", "") // this queue stays
			waits(v, "orders.5d", 1)
			waits(v, "orders.2h", 1)
			harness.NoErrors(t, p.Refresh(t.Context()))
			for name, is := range map[string]struct {
				further   harness.Attributes
				foretells string
			}{
				"at once": {nil, wouldFail},
				"after some time": {harness.Attributes{"drain_timeout": "2s"},
					"The apply unbinds these queues and waits up to 2 s until all are delivered. If some are not, " +
						"it binds the queues again and fails."},
			} {
				shorter := given.With(is.further).With(harness.Attributes{"max_delay": "2h"})
				todo := p.Plan(t.Context(), shorter)
				said := harness.WarningText(todo.Diagnostics)
				harness.MustSay(t, name+": the plan", said, inFlightSummary, `queue "orders.5d": 1`, is.foretells,
					`Long delays are removed`, "The apply deletes 28 delay queues",
					"A message with a key for more than 2 h is parked from then on.")
				if strings.Contains(said, "orders.2h") || todo.Replace {
					t.Errorf("%s: the plan says %s", name, said)
				}
				harness.MustSay(t, name+": the error", harness.ErrorText(p.Apply(t.Context(), todo)),
					`queue "orders.5d"`)
				v.MustHold(reaching(7 * 24 * time.Hour))
				p.MustBeSettled(given) // as before
			}
			p.MustApply(given.With(harness.Attributes{"force_destroy": true}))
			p.MustApply(given.With(harness.Attributes{"force_destroy": true, "max_delay": "2h"}))
			v.MustHold(reaching(2 * time.Hour))
			if n := v.Depth("orders.2h"); n != 1 {
				t.Errorf("%d messages are in a queue that stays", n)
			}
		})
	}
}

// With drain_timeout, what waits in queues that go has its way on, also through others that go.
func TestShorterMaxDelayWaits(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			v, p, given := newOrders(t, harness.Attributes{"units": harness.TextList("1s", "100ms"), "max_delay": "5s",
				"queue_type": queueType, "drain_timeout": "1m"})
			collector := v.Collect("orders.delivery", "*.*.here")
			sent := map[string]time.Time{}
			delays := map[string]time.Duration{"4.8.here": 4800 * time.Millisecond, "2.0.here": 2 * time.Second,
				"0.7.here": 700 * time.Millisecond, "0.3.here": 300 * time.Millisecond}
			for key := range delays {
				sent[key] = harness.BrokerTime()
				v.Publish("orders.s.100ms", key, key)
			}
			shorter := given.With(harness.Attributes{"max_delay": "500ms"})
			p.MustApply(shorter)
			p.MustBeSettled(shorter)
			for _, a := range v.Arrived(collector, len(delays)) {
				key := string(a.Body)
				if took := a.At.Sub(sent[key]); took < harness.Least(delays[key]) || took > delays[key]+mostLateness {
					t.Errorf("the message with key %s took %s", key, took)
				}
			}
			v.Publish("orders.s.100ms", "2.0.here", "")
			v.Eventually("what is longer is parked", func() bool { return v.Depth("orders.unroutable") == 1 })
			v.MustHold(ordersExpanded(v, func(c *delay.Config) {
				c.Units, c.MaxDelay = []time.Duration{time.Second, 100 * time.Millisecond}, 500*time.Millisecond
				c.QueueType = delay.QueueType(queueType)
			}))
		})
	}
}

// A stream with publisher confirms and mandatory runs while max_delay grows and shrinks, every other time with an apply
// that is stopped. The entry stays open. What has its queues all the time arrives once and in time. The rest is parked
// at the entry, or does so too.
func TestMaxDelayUnderLoad(t *testing.T) {
	t.Parallel()
	var rounds atomic.Int64
	t.Run("changes", func(t *testing.T) {
		for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
			for _, lookahead := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s, lookahead %d", queueType, lookahead), func(t *testing.T) {
					t.Parallel()
					rounds.Add(reachRounds)
					changeReachUnderLoad(t, queueType, lookahead)
				})
			}
		}
	})
	if !narrowed() {
		figure(t, "max_delays_under_load", int(rounds.Load()))
	}
}

const reachRounds = 12

func changeReachUnderLoad(t *testing.T, queueType delay.QueueType, lookahead int) {
	t.Helper()
	const longest = 4 * time.Second
	units := []time.Duration{time.Second, 200 * time.Millisecond, 40 * time.Millisecond}
	l := newLoadOf(t, harness.Attributes{"units": harness.TextList("1s", "200ms", "40ms"),
		"max_delay": longest.String(), "queue_type": string(queueType), "lookahead": lookahead, "drain_timeout": "1m"},
		delay.Config{Units: units, MaxDelay: longest, QueueType: queueType, Lookahead: lookahead})
	reaches := []reach{{longest: reachUnderLoad{units: units, short: longest, queueType: queueType}.always(t)}}
	for _, round := range sampling.Of(t, "changes of max_delay", upTo(reachRounds)) {
		unit := units[l.random.IntN(len(units))]
		next := unit * time.Duration(1+l.random.IntN(4))
		if round%4 == 3 {
			next = longest
		}
		before := reaches[len(reaches)-1].longest
		after := reachUnderLoad{units: units, short: next, queueType: queueType}.always(t)
		reaches = append(reaches, reach{l.published(), min(before, after)})
		l.given["max_delay"] = next.String()
		l.repair(round)
		reaches = append(reaches, reach{l.published(), after})
	}
	l.finish(whatIsLeft{})
	l.checkLateness()
	l.parkedAtEntry(func(number int, asked time.Duration) bool { return asked > shortest(reaches, number) })
	l.entryStayedOpen()
}

// reach is the longest delay that has its queues for sure, from the message of a number on.
type reach struct {
	from    int
	longest time.Duration
}

// shortest is that for one message. Each of the publishers may have had a number before, and not published yet.
func shortest(reaches []reach, number int) time.Duration {
	var of []time.Duration
	for i, r := range reaches {
		if number >= r.from-loadPublishers && (i+1 == len(reaches) || number < reaches[i+1].from) {
			of = append(of, r.longest)
		}
	}
	return slices.Min(of)
}
