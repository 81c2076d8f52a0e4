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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// A stream of messages runs while lookahead and strict_keys change: none is lost, doubled or early.
func TestAccChangesUnderARunningStream(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		for _, parked := range []bool{true, false} {
			for _, scale := range []delay.Uniform{harness.BinaryScale(6, 20*time.Millisecond),
				{Base: 10, Levels: 3, Resolution: 2 * time.Millisecond}} {
				t.Run(fmt.Sprintf("%s, park_unroutable %t, base %d", queueType, parked, scale.Base),
					func(t *testing.T) {
						t.Parallel()
						changesUnderStream(harness.NewVhost(t), scale, harness.Attributes{"queue_type": queueType,
							"park_unroutable": parked})
					})
			}
		}
	}
}

func changesUnderStream(v *harness.Vhost, scale delay.Uniform, further harness.Attributes) {
	v.T.Helper()
	p := harness.NewProtocol(v.T, v.Broker, nil)
	configuration := harness.Attributes{"vhost": v.Name, "name": "t", "base": scale.Base, "levels": scale.Levels,
		"resolution": scale.Resolution.String()}.With(further)
	p.MustApply(configuration)

	s := newStream(v, scale)
	for _, change := range []harness.Attributes{
		{"lookahead": 1},
		{"lookahead": (scale.Levels + 1) / 2},
		{"strict_keys": false},
		{"lookahead": scale.Levels},
		{"lookahead": 1, "strict_keys": true},
		{"lookahead": scale.Levels, "strict_keys": false},
		{"lookahead": 2, "strict_keys": true},
	} {
		configuration = configuration.With(change)
		more := s.sent.Load() + 20
		if p.Plan(v.T.Context(), configuration).Replace {
			v.T.Fatalf("%v replaces the cascade", change)
		}
		p.MustApply(configuration)
		v.Eventually("the stream goes on", func() bool { return s.sent.Load() > more || s.failed.Load() })
	}
	s.finish()
	p.MustApply(nil)
}

// The same through Terraform: the change is an update in place.
func TestAccLookaheadUpdatesInPlace(t *testing.T) {
	v := harness.NewVhost(t)
	const levels, unit = 6, 20 * time.Millisecond
	step := func(arguments string, action plancheck.ResourceActionType, check func()) resource.TestStep {
		return resource.TestStep{
			Config: harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost      = %q
  name       = "t"
  levels     = %d
  resolution = "%s"
  %s
}
`, v.Name, levels, unit, arguments),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(
				"rabbitmqdelay_cascade.t", action), nothingUnknown("rabbitmqdelay_cascade.t")}},
			Check: func(*terraform.State) error { check(); return nil },
		}
	}
	var s *stream
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{
			step("", plancheck.ResourceActionCreate, func() { s = newStream(v, harness.BinaryScale(levels, unit)) }),
			step("lookahead = 1", plancheck.ResourceActionUpdate, func() {}),
			step("lookahead = 4\n  strict_keys = false", plancheck.ResourceActionUpdate, func() { s.finish() }),
		},
	})
}

// stream sends messages one after the other, each with a random delay, and waits for a confirmation of
// each before the next.
type stream struct {
	*harness.Vhost
	scale     delay.Uniform
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

func newStream(v *harness.Vhost, scale delay.Uniform) *stream {
	v.T.Helper()
	ctx, stop := context.WithCancel(v.T.Context())
	s := &stream{Vhost: v, scale: scale, stop: stop, done: make(chan error, 1)}
	s.collector = v.Collect("t.delivery", harness.DestinationKey(scale.Levels, "here"))
	publisher := v.Publisher()
	go func() {
		err := s.run(ctx, publisher)
		s.failed.Store(err != nil)
		s.done <- err
	}()
	v.Eventually("the stream runs", func() bool { return s.sent.Load() > 10 || s.failed.Load() })
	return s
}

func (s *stream) run(ctx context.Context, publisher *brokertest.Publisher) error {
	for ctx.Err() == nil {
		delay := rand.N(s.scale.Scale().Longest + s.scale.Resolution).Truncate(s.scale.Resolution)
		key, err := s.scale.Scale().RoutingKey(delay, "here")
		if err != nil {
			return err
		}
		s.messages = append(s.messages, sentMessage{delay, harness.BrokerTime()})
		err = publisher.Publish(s.T.Context(), fmt.Sprintf("t.delay-%02d", s.scale.Levels-1), key,
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
	s.T.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		s.T.Error(err)
	}
	sent := int(s.sent.Load())
	s.Arrived(s.collector, sent)
	for name := range s.Objects().Queues {
		if strings.HasPrefix(name, "t.delay-") {
			s.Settled(name)
		}
	}
	arrivals := s.collector.Arrivals()
	latest := time.Duration(0)
	seen := map[string]int{}
	for _, a := range arrivals {
		seen[string(a.Body)]++
		var i int
		if _, err := fmt.Sscan(string(a.Body), &i); err != nil {
			s.T.Fatal(err)
		}
		took := a.At.Sub(s.messages[i].at)
		if took < harness.Least(s.messages[i].delay) {
			s.T.Errorf("message %d took %s, asked was %s", i, took, s.messages[i].delay)
		}
		latest = max(latest, took-s.messages[i].delay)
	}
	for body, n := range seen {
		if n > 1 {
			s.T.Errorf("message %s arrived %d times", body, n)
		}
	}
	if len(seen) != sent {
		s.T.Errorf("%d different messages arrived of %d", len(seen), sent)
	}
	s.T.Logf("%d messages, the latest %s behind its time", sent, latest.Round(time.Millisecond))
}
