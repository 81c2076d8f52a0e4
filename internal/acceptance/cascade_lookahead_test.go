package acceptance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// A stream of messages runs while lookahead and strict_keys change: none is lost, doubled or early.
func TestAccChangesUnderARunningStream(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		for _, parked := range []bool{true, false} {
			for _, scale := range []delay.Scale{binary(6, 20*time.Millisecond),
				{Base: 10, Levels: 3, Resolution: 2 * time.Millisecond}} {
				t.Run(fmt.Sprintf("%s, park_unroutable %t, base %d", queueType, parked, scale.Base),
					func(t *testing.T) {
						t.Parallel()
						changesUnderStream(newVhost(t), scale, attributes{"queue_type": queueType,
							"park_unroutable": parked})
					})
			}
		}
	}
}

func changesUnderStream(v *vhost, scale delay.Scale, further attributes) {
	v.Helper()
	p := newProtocol(v, v.broker, nil)
	configuration := attributes{"vhost": v.name, "name": "t", "base": scale.Base, "levels": scale.Levels,
		"resolution": scale.Resolution.String()}.with(further)
	p.mustApply(configuration)

	s := v.stream(scale)
	for _, change := range []attributes{
		{"lookahead": 1},
		{"lookahead": (scale.Levels + 1) / 2},
		{"strict_keys": false},
		{"lookahead": scale.Levels},
		{"lookahead": 1, "strict_keys": true},
		{"lookahead": scale.Levels, "strict_keys": false},
		{"lookahead": 2, "strict_keys": true},
	} {
		configuration = configuration.with(change)
		more := s.sent.Load() + 20
		if p.plan(v.Context(), configuration).replace {
			v.Fatalf("%v replaces the cascade", change)
		}
		p.mustApply(configuration)
		v.eventually("the stream goes on", func() bool { return s.sent.Load() > more || s.failed.Load() })
	}
	s.finish()
	p.mustApply(nil)
}

// The same through Terraform: the change is an update in place.
func TestAccLookaheadUpdatesInPlace(t *testing.T) {
	v := newVhost(t)
	const levels, unit = 6, 20 * time.Millisecond
	step := func(arguments string, action plancheck.ResourceActionType, check func()) resource.TestStep {
		return resource.TestStep{
			Config: on(v.broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost      = %q
  name       = "t"
  levels     = %d
  resolution = "%s"
  %s
}
`, v.name, levels, unit, arguments),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(
				"rabbitmqdelay_cascade.t", action), nothingUnknown("rabbitmqdelay_cascade.t")}},
			Check: func(*terraform.State) error { check(); return nil },
		}
	}
	var s *stream
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		Steps: []resource.TestStep{
			step("", plancheck.ResourceActionCreate, func() { s = v.stream(binary(levels, unit)) }),
			step("lookahead = 1", plancheck.ResourceActionUpdate, func() {}),
			step("lookahead = 4\n  strict_keys = false", plancheck.ResourceActionUpdate, func() { s.finish() }),
		},
	})
}

// stream sends messages one after the other, each with a random delay, and waits for a confirmation of
// each before the next.
type stream struct {
	*vhost
	scale     delay.Scale
	collector *brokertest.Collector
	stop      context.CancelFunc
	done      chan error
	sent      atomic.Int64
	failed    atomic.Bool
	messages  []sentMessage
}

type sentMessage struct {
	delay time.Duration
	at    time.Time
}

func (v *vhost) stream(scale delay.Scale) *stream {
	v.Helper()
	ctx, stop := context.WithCancel(v.Context())
	s := &stream{vhost: v, scale: scale, stop: stop, done: make(chan error, 1)}
	s.collector = v.collect("t.delivery", destination(scale.Levels, "here"))
	publisher := v.publisher()
	go func() {
		err := s.run(ctx, publisher)
		s.failed.Store(err != nil)
		s.done <- err
	}()
	v.eventually("the stream runs", func() bool { return s.sent.Load() > 10 || s.failed.Load() })
	return s
}

func (s *stream) run(ctx context.Context, publisher *brokertest.Publisher) error {
	for ctx.Err() == nil {
		delay := rand.N(s.scale.Longest() + s.scale.Resolution).Truncate(s.scale.Resolution)
		key, err := s.scale.RoutingKey(delay, "here")
		if err != nil {
			return err
		}
		s.messages = append(s.messages, sentMessage{delay, brokerTime()})
		err = publisher.Publish(s.Context(), fmt.Sprintf("t.delay-%02d", s.scale.Levels-1), key,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Append(nil, len(s.messages)-1)})
		if err != nil {
			return errors.Join(fmt.Errorf("message %d with a delay of %s", len(s.messages)-1, delay), err)
		}
		s.sent.Add(1)
	}
	return nil
}

// finish ends the stream and checks that each message has arrived, once, and not too early.
func (s *stream) finish() {
	s.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		s.Error(err)
	}
	sent := int(s.sent.Load())
	s.arrived(s.collector, sent)
	for name := range s.objects().Queues {
		if strings.HasPrefix(name, "t.delay-") {
			s.settled(name)
		}
	}
	arrivals := s.collector.Arrivals()
	latest := time.Duration(0)
	seen := map[string]int{}
	for _, a := range arrivals {
		seen[string(a.Body)]++
		var i int
		if _, err := fmt.Sscan(string(a.Body), &i); err != nil {
			s.Fatal(err)
		}
		took := a.At.Sub(s.messages[i].at)
		if took < s.messages[i].delay {
			s.Errorf("message %d took %s, asked was %s", i, took, s.messages[i].delay)
		}
		latest = max(latest, took-s.messages[i].delay)
	}
	for body, n := range seen {
		if n > 1 {
			s.Errorf("message %s arrived %d times", body, n)
		}
	}
	if len(seen) != sent {
		s.Errorf("%d different messages arrived of %d", len(seen), sent)
	}
	s.Logf("%d messages, the latest %s behind its time", sent, latest.Round(time.Millisecond))
}
