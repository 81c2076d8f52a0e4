package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// In each base, every delay of a small cascade arrives once and on time. With internal levels, those below the entry
// refuse publishers.
func TestEveryDelay(t *testing.T) {
	t.Parallel()
	for _, s := range []delay.Uniform{harness.BinaryScale(3, 200*time.Millisecond),
		{Base: 3, Levels: 3, Resolution: 100e6},
		{Base: 10, Levels: 2, Resolution: 20e6}, {Base: 8, Levels: 2, Resolution: 10e6}} {
		for _, queueType := range []string{"quorum", "classic"} {
			for _, lookahead := range []int{1, s.Levels} {
				t.Run(fmt.Sprintf("base %d, %s, lookahead %d", s.Base, queueType, lookahead), func(t *testing.T) {
					t.Parallel()
					v := harness.NewVhost(t)
					p := harness.NewProtocol(t, v.Broker, nil)
					p.MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "base": s.Base, "levels": s.Levels,
						"resolution": s.Resolution.String(), "queue_type": queueType, "lookahead": lookahead,
						"internal_levels": true})
					for level := range s.Levels - 1 {
						refusesPublishers(v, fmt.Sprintf("t.delay-%02d", level), "1.1.1.here")
					}
					deliversEvery(v, s)
					p.MustApply(nil)
				})
			}
		}
	}
}

// A cascade with internal levels gets more levels, so that its entry is an inner level. Publishers that do not know of
// it get an error and no confirmation, and nothing of theirs stays anywhere.
func TestOldPublishersAfterResize(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			const before, after, unit = 3, 5, 100 * time.Millisecond
			p := harness.NewProtocol(t, v.Broker, nil)
			given := harness.Attributes{
				"vhost": v.Name, "name": "t", "levels": before, "resolution": unit.String(), "queue_type": queueType,
				"internal_levels": true,
			}
			p.MustApply(given)
			deliversEvery(v, harness.BinaryScale(before, unit))
			p.MustApply(given.With(harness.Attributes{"levels": after}))

			const old = "t.delay-02"
			for step := range 1 << before {
				delay := time.Duration(step) * unit
				refusesPublishers(v, old, harness.RoutingKey(t, delay, before, unit, "here"))
			}
			deliversEvery(v, harness.BinaryScale(after, unit))
			for name := range v.Objects().Queues {
				if n := v.Depth(name); n != 0 {
					t.Errorf("%d messages are in queue %q", n, name)
				}
			}
			p.MustBeSettled(given.With(harness.Attributes{"levels": after}))
		})
	}
}

// refusesPublishers publishes with confirms and mandatory, and wants the channel to be closed by the broker.
func refusesPublishers(v *harness.Vhost, exchange, key string) {
	v.T.Helper()
	channel, err := v.Conn.Channel()
	if err != nil {
		v.T.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		v.T.Fatal(err)
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	const mandatory, immediate = true, false
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(v.T.Context(), exchange, key, mandatory,
		immediate, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("astray")})
	if err != nil {
		v.T.Fatal(err)
	}
	select {
	case reason := <-closed:
		if reason == nil || reason.Code != amqp.AccessRefused || !strings.Contains(reason.Reason, "internal exchange") {
			v.T.Errorf("exchange %q closes the channel with: %v", exchange, reason)
		}
	case <-confirmation.Done():
		v.T.Errorf("exchange %q confirms (%t) a message with key %q", exchange, confirmation.Acked(), key)
	case <-time.After(harness.Patience):
		v.T.Errorf("exchange %q does nothing about a message with key %q", exchange, key)
	}
}

// deliversEvery sends a message for each delay there is, the longest first, and nothing else may arrive.
func deliversEvery(v *harness.Vhost, s delay.Uniform) {
	v.T.Helper()
	entry := fmt.Sprintf("t.delay-%02d", s.Levels-1)
	collector := v.Collect("t.delivery", "#")
	sent := map[string]time.Time{}
	for delay := s.Scale().Longest; delay >= 0; delay -= s.Resolution {
		sent[delay.String()] = harness.BrokerTime()
		v.Publish(entry, harness.KeyOf(v.T, s.Scale(), delay, "here"), delay.String())
	}
	arrivals := v.Arrived(collector, len(sent))
	latest := time.Duration(0)
	for _, a := range arrivals {
		body := string(a.Body)
		delay, err := time.ParseDuration(body)
		if err != nil {
			v.T.Fatalf("what arrives is %q", body)
		}
		began, asked := sent[body]
		delete(sent, body)
		if took := a.At.Sub(began); !asked || took < harness.Least(delay) || took > delay+mostLateness {
			v.T.Errorf("a message with a delay of %s took %s", delay, took)
		} else {
			latest = max(latest, took-delay)
		}
	}
	if len(sent) > 0 || len(collector.Arrivals()) > len(arrivals) {
		v.T.Errorf("missing are %v, and %d arrived", sent, len(collector.Arrivals()))
	}
	v.T.Logf("%d delays, the latest %s behind its time", len(arrivals), latest.Round(time.Millisecond))
}

// A level that somebody declared anew, open to publishers, is in the plan and repaired. So is one that is internal and
// is not to be.
func TestInternalLevelsDrift(t *testing.T) {
	t.Parallel()
	for _, internal := range []bool{true, false} {
		t.Run(fmt.Sprint(internal), func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			p := harness.NewProtocol(t, v.Broker, nil)
			given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 3, "internal_levels": internal}
			p.MustApply(given)
			want := v.Objects()

			wrong := want.Exchanges["t.delay-01"]
			wrong.Internal = !internal
			v.Do(plan.DeleteExchange{Name: wrong.Name}, plan.DeclareExchange{Exchange: wrong})
			for b := range want.Bindings {
				if b.Source == wrong.Name || b.DestinationType == topology.ToExchange && b.Destination == wrong.Name {
					v.Do(plan.Bind{Binding: b})
				}
			}
			harness.NoErrors(t, p.Refresh(t.Context()))
			todo := p.Plan(t.Context(), given)
			harness.NoErrors(t, todo.Diagnostics)
			shown, planned := elements(t, p.State), elements(t, todo.State)
			if differ := differing(shown, planned); len(differ) != 1 || differ[0] != "exchanges "+wrong.Name ||
				todo.Replace {
				t.Errorf("the plan replaces (%t) or changes %v", todo.Replace, differ)
			}
			harness.NoErrors(t, p.Apply(t.Context(), todo))
			v.MustHold(want)
			p.MustBeSettled(given)
		})
	}
}
