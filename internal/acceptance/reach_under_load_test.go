package acceptance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
)

// parkedAtEntry makes sure that no parked message has waited before. Each has a number and a delay that may be parked.
func (l *load) parkedAtEntry(may func(number int, asked time.Duration) bool) {
	l.Vhost.T.Helper()
	for _, a := range l.parked.Arrivals() {
		if died := timesDied(a); len(died) > 0 {
			l.Vhost.T.Errorf("message %s is parked after it has waited in %v", a.Body, died)
		}
		if n := l.number(a); !may(n, l.sent[n].delay) {
			l.Vhost.T.Errorf("message %d with a delay of %s is parked", n, l.sent[n].delay)
		}
	}
}

// reachUnderLoad is a cascade with a stream whose max_delay is to change.
type reachUnderLoad struct {
	units       []time.Duration
	short, long time.Duration
	queueType   delay.QueueType
}

func (r reachUnderLoad) attributes(reach time.Duration) harness.Attributes {
	units := make([]string, len(r.units))
	for i, unit := range r.units {
		units[i] = delay.DurationText(unit)
	}
	return harness.Attributes{"units": harness.TextList(units...), "max_delay": delay.DurationText(reach),
		"queue_type": string(r.queueType)}
}

func (r reachUnderLoad) config(reach time.Duration) delay.Config {
	return delay.Config{Units: r.units, MaxDelay: reach, QueueType: r.queueType}
}

// always is the longest delay that has its queues before the change and after it.
func (r reachUnderLoad) always(t *testing.T) time.Duration {
	t.Helper()
	config := r.config(r.short)
	config.Name = "t"
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Scale().Longest
}

// begin is the cascade with this max_delay. The stream has delays up to the long one.
func (r reachUnderLoad) begin(t *testing.T, reach time.Duration) *load {
	t.Helper()
	return newLoadOf(t, r.attributes(reach), r.config(r.long))
}

// The provider ends at a write of a growth, before the broker gets it or after, while a stream with publisher confirms
// runs. The next apply finishes the growth, with adopt where it names new queues. Delays that had their queues before
// arrive once and in time, whatever is half done. Longer ones do too, or are parked at the entry until all is done.
func TestGrowthKilledUnderLoad(t *testing.T) {
	t.Parallel()
	killed := 0
	t.Run("kills", func(t *testing.T) {
		for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
			r := reachUnderLoad{[]time.Duration{time.Second, 200 * time.Millisecond}, 400 * time.Millisecond,
				2 * time.Second, queueType}
			var kills []pointFailure
			for _, at := range r.writes(t) {
				for _, fault := range []harness.Fault{harness.Resets, harness.Loses} {
					kills = append(kills, pointFailure{at, harness.Failure{Fault: fault, Lasts: harness.FromHere}})
				}
			}
			killed += len(kills)
			for _, each := range sampling.Of(t, fmt.Sprintf("kills of a growth of %s queues", queueType), kills) {
				t.Run(fmt.Sprintf("%s, %s, %s", queueType, each.at, each.Fault), func(t *testing.T) {
					t.Parallel()
					r.killGrowth(t, each)
				})
			}
		}
	})
	if !narrowed() {
		figure(t, "growths_killed_under_load", killed)
	}
}

// writes are the requests of the growth that change something.
func (r reachUnderLoad) writes(t *testing.T) (writes []harness.Point) {
	t.Helper()
	v := harness.NewVhost(t)
	cascade := harness.Attributes{"vhost": v.Name, "name": "t"}
	p, proxy := harness.NewProtocol(t, v.Broker, nil), harness.NewFaultProxy(t, v.Broker)
	p.MustApply(cascade.With(r.attributes(r.short)))
	p.With(proxy.Front(), nil).MustApply(cascade.With(r.attributes(r.long)))
	for _, at := range proxy.Points() {
		if at.Method != http.MethodGet {
			at.Path = strings.ReplaceAll(at.Path, v.Name, "{vhost}")
			writes = append(writes, at)
		}
	}
	return writes
}

func (r reachUnderLoad) killGrowth(t *testing.T, each pointFailure) {
	t.Helper()
	l, always := r.begin(t, r.short), r.always(t)
	l.given = l.given.With(r.attributes(r.long))
	proxy := harness.NewFaultProxy(t, l.Broker)
	proxy.At, proxy.Failure = each.at, each.Failure
	proxy.At.Path = strings.ReplaceAll(each.at.Path, "{vhost}", l.Name)
	killed := l.With(proxy.Front(), harness.Attributes{"retry_timeout": harness.OnceMore})
	before := inventoryNames(l.Objects())
	// What it leaves as its state dies with the process.
	if said := harness.ErrorText(killed.Apply(t.Context(), killed.Plan(t.Context(), l.given))); said == "" ||
		!proxy.HasStruck() {
		t.Fatalf("the growth is not killed: %s", said)
	}
	l.goesOn()
	time.Sleep(l.scale.Longest) // so that messages come through a half growth to its end
	l.adoptWhatIsNew(before)
	l.MustApply(l.given)
	whole := l.published()
	l.MustHold(l.desired)
	l.MustBeSettled(l.given)
	l.goesOn()
	l.finish(whatIsLeft{})
	l.checkLateness()
	l.parkedAtEntry(func(number int, asked time.Duration) bool { return number < whole && asked > always })
	l.entryStayedOpen()
}

// adoptWhatIsNew adopts the objects that a killed apply has made, once an error has named them.
func (l *load) adoptWhatIsNew(before []string) {
	l.Vhost.T.Helper()
	left := slices.DeleteFunc(inventoryNames(l.Objects()), func(object string) bool {
		return slices.Contains(before, object)
	})
	if len(left) == 0 {
		return
	}
	harness.NoErrors(l.Vhost.T, l.Refresh(l.Vhost.T.Context()))
	said := harness.ErrorText(l.Apply(l.Vhost.T.Context(), l.Plan(l.Vhost.T.Context(), l.given)))
	harness.MustSay(l.Vhost.T, "the error", said, append(left, "adopt = true")...)
	l.given = l.given.With(harness.Attributes{"adopt": true})
}

// entryStayedOpen makes sure that each message was confirmed.
func (l *load) entryStayedOpen() {
	l.Vhost.T.Helper()
	if len(l.returned) > 0 || len(l.unsure) > 0 {
		l.Vhost.T.Errorf("the broker has returned %d messages, and has not confirmed %d", len(l.returned),
			len(l.unsure))
	}
}

// A shorter max_delay is refused while a stream with publisher confirms keeps the queues filled that would go. Nothing
// has changed after that. At once, all messages arrive in time. With drain_timeout, those are parked at the entry that
// come for these queues meanwhile.
func TestShorterMaxDelayIsRefusedUnderLoad(t *testing.T) {
	t.Parallel()
	for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
		for name, further := range map[string]harness.Attributes{
			"at once":         nil,
			"after some time": {"drain_timeout": "500ms"}, // the messages have up to six seconds left
		} {
			t.Run(fmt.Sprintf("%s, %s", queueType, name), func(t *testing.T) {
				t.Parallel()
				r := reachUnderLoad{[]time.Duration{3 * time.Second, 500 * time.Millisecond}, 2 * time.Second,
					6 * time.Second, queueType}
				r.refuseShrinks(t, further)
			})
		}
	}
}

func (r reachUnderLoad) refuseShrinks(t *testing.T, further harness.Attributes) {
	t.Helper()
	const times = 2
	l, always := r.begin(t, r.long), r.always(t)
	var from, to [times]int
	for i := range times {
		l.Eventually("messages wait", func() bool { return l.Depth("t.6s") > 0 && l.Depth("t.2s500ms") > 0 })
		from[i] = l.published()
		harness.NoErrors(t, l.Refresh(t.Context()))
		todo := l.Plan(t.Context(), l.given.With(further).With(r.attributes(r.short)))
		harness.NoErrors(t, todo.Diagnostics)
		harness.MustSay(t, "the error", harness.ErrorText(l.Apply(t.Context(), todo)), `queue "t.6s"`)
		to[i] = l.published()
		l.MustHold(l.desired)
		l.MustBeSettled(l.given)
		l.goesOn()
	}
	l.finish(whatIsLeft{})
	l.checkLateness()
	l.parkedAtEntry(func(number int, asked time.Duration) bool {
		for i := range times {
			// Each of the publishers may have had a number before, and not published yet.
			if further != nil && asked > always && number >= from[i]-loadPublishers && number < to[i] {
				return true
			}
		}
		return false
	})
	l.entryStayedOpen()
}
