package acceptance

import (
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// replayed is a cascade for the program of the guide, and the keys of messages in it.
type replayed struct {
	given  harness.Attributes
	levels []string // exchanges, the entry first
	// over are keys of messages whose delay is over or none. Whole asks for a delay, of which middle has more.
	over                  []string
	whole, middle, nobody string
	delay                 time.Duration // of whole
}

// runReplay runs the program of the guide.
func (c parked) runReplay(python []string, arguments ...string) (says string) {
	c.T.Helper()
	return docstest.RunIn(c.T, docstest.Examples, c.Environ(), "",
		slices.Concat(python, []string{"replay/replay.py", replayQueue, "t.delivery"}, arguments)...)
}

// unbindQueues takes away what leads from an exchange to delay queues.
func (c parked) unbindQueues(exchange string) {
	c.T.Helper()
	for b := range c.Objects().Bindings {
		if b.Source == exchange && b.DestinationType == topology.ToQueue {
			c.Do(plan.Unbind{Binding: b})
		}
	}
}

// The program of the guide replays what the action does, but for messages in the middle of their delay.
func TestReplayProgram(t *testing.T) {
	t.Parallel()
	python := languages["python"].interpreter(t, "import pika")
	for what, of := range map[string]replayed{
		"base 2": {harness.Attributes{"name": "t", "levels": 3, "resolution": replayUnit.String()},
			[]string{"t.delay-02", "t.delay-01", "t.delay-00"}, []string{"0.0.0.here", "0.0.1.here", "0.1.0.here"},
			"0.1.0.whole", "1.0.1.middle", "0.0.0.nobody", 2 * replayUnit},
		"units": {harness.Attributes{"name": "t", "units": harness.TextList("2s", "400ms"), "max_delay": "4s"},
			[]string{"t.2s.400ms", "t.400ms"}, []string{"0.0.here", "0.4.here", "1.0.here"}, "1.0.whole", "1.3.middle",
			"0.0.nobody", 2 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			c := parked{v, harness.NewProtocol(t, v.Broker, nil), of.given.With(harness.Attributes{"vhost": v.Name})}
			c.p.MustApply(c.given)
			c.isReplayed(python, of)
		})
	}
}

func (c parked) isReplayed(python []string, of replayed) {
	t := c.T
	t.Helper()
	entry, second := of.levels[0], of.levels[1]
	for _, key := range of.over { // in this order
		c.send(entry, amqp.Publishing{Expiration: "60000", UserId: c.Broker.Username}, key)
	}
	malformed := []string{"foo", strings.TrimSuffix(of.whole, ".whole")}
	c.send(entry, amqp.Publishing{}, append(malformed, of.nobody)...)
	c.send(entry, amqp.Publishing{Headers: amqp.Table{"CC": []any{"bar"}}}, of.over[0])
	c.send(second, amqp.Publishing{}, of.over[0]) // without the entry
	c.unbindQueues(second)
	c.send(entry, amqp.Publishing{}, of.middle)
	c.unbindQueues(entry)
	c.send(entry, amqp.Publishing{}, of.whole)
	c.p.MustApply(c.given)

	count := len(of.levels)
	arrivals := c.Collect("t.delivery", harness.DestinationKey(count, "here"))
	whole := c.Collect("t.delivery", harness.DestinationKey(count, "whole"))
	began := harness.BrokerTime()
	for _, want := range []string{"5 published again, 5 left\n", "1 published again, 5 left\n"} {
		if got := c.runReplay(python, of.levels...); got != want {
			t.Errorf("the program says %q, not %q", got, want)
		}
		c.holds(6)
	}
	if took := c.Arrived(whole, 1)[0].At.Sub(began); took < harness.Least(of.delay) {
		t.Errorf("a message whose delay had not begun arrived after %s", took)
	}
	if got := bodies(c.Arrived(arrivals, len(of.over))); !slices.Equal(got, of.over) {
		t.Errorf("there arrived %q, not %q", got, of.over)
	}
}

// Without the exchanges of a cascade, the program leaves all messages that had not come to the delivery exchange. So it
// serves a ladder.
func TestReplayProgramOfALadder(t *testing.T) {
	t.Parallel()
	python := languages["python"].interpreter(t, "import pika")
	v := harness.NewVhost(t)
	c := parked{v, harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil), harness.Attributes{"vhost": v.Name,
		"name": "t", "delays": harness.TextList("400ms", "1h")}}
	c.p.MustApply(c.given)
	c.send("t.entry", amqp.Publishing{}, "400ms.here", "2h.here")
	c.unbindQueues("t.entry")
	c.send("t.entry", amqp.Publishing{}, "1h.here")
	c.p.MustApply(c.given)
	arrivals := c.Collect("t.delivery", "#")
	for _, want := range []string{"1 published again, 2 left\n", "0 published again, 2 left\n"} {
		if got := c.runReplay(python); got != want {
			t.Errorf("the program says %q, not %q", got, want)
		}
		c.holds(2)
	}
	if got := bodies(c.Arrived(arrivals, 1)); !slices.Equal(got, []string{"400ms.here"}) {
		t.Errorf("there arrived %q", got)
	}
}
