package acceptance

import (
	"slices"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// warnings are those of a replay without errors.
func (c parked) warnings() string {
	c.T.Helper()
	_, diagnostics := c.replay(nil)
	harness.NoErrors(c.T, diagnostics)
	return harness.OneLine(harness.WarningText(diagnostics))
}

// A replay gives up after a minute without a confirmation, such as in an alarm. The next one brings all messages, and
// those twice that were under way.
func TestReplayGivesUp(t *testing.T) {
	t.Parallel()
	const n, window = 3000, 1000
	b := brokertest.Own(t, likeThat(brokertest.Shared(t)), brokertest.InMemory())
	c := parked{Vhost: harness.OpenVhost(t, b, "/"), p: harness.NewProtocol(t, b, nil),
		given: harness.Attributes{"name": "t", "levels": 3, "resolution": replayUnit.String()}}
	c.p.MustApply(c.given)
	c.fill(n, "here")
	c.receive("here")
	mayHave := func(memory string) {
		t.Helper()
		if _, err := b.CLI(t.Context(), "rabbitmqctl", "set_vm_memory_high_watermark", memory); err != nil {
			t.Fatal(err)
		}
	}
	mayHave("0.00001")
	began := time.Now()
	_, diagnostics := c.replay(harness.Attributes{"vhost": "/"})
	if took := time.Since(began); took < time.Minute {
		t.Errorf("the replay gives up after %s", took)
	}
	harness.MustSay(t, "the error", harness.OneLine(harness.ErrorText(diagnostics)),
		"for 1 min, RabbitMQ has neither handed over nor confirmed a message", "the broker has an alarm",
		"No message is lost", "The next replay publishes these twice")
	mayHave("0.6")
	c.Eventually("no message is under way", func() bool { return c.Depth(replayQueue)+c.Depth("here") >= n })
	if warnings := c.warnings(); warnings != "" {
		t.Errorf("the second replay says %s", warnings)
	}
	once, all := c.received("here")
	t.Logf("%d come twice", all-n)
	if once != n || all > n+window {
		t.Errorf("of %d messages, %d have arrived, %d times", n, once, all)
	}
	c.holds(0)
}

// Another consumer of the queue keeps what it has. The replay takes the rest, unless the other one has the queue alone.
func TestReplayBesideAConsumer(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			c := newParked(t, harness.Attributes{"queue_type": queueType})
			c.receive("here")
			for _, exclusive := range []bool{false, true} {
				c.besideAConsumer(exclusive, queueType == "classic" && exclusive)
			}
		})
	}
}

func (c parked) besideAConsumer(exclusive, isRefused bool) {
	c.T.Helper()
	const n, holds = 20, 5
	c.unbind("t.delivery", harness.DestinationKey(3, "here"), "here")
	c.fill(n, "here")
	c.Bind("t.delivery", harness.DestinationKey(3, "here"), "queue", "here")
	other, err := c.Conn.Channel()
	if err == nil {
		err = other.Qos(holds, 0, false)
	}
	if err == nil {
		_, err = other.Consume(replayQueue, "", false, exclusive, false, false, nil)
	}
	if err != nil {
		c.T.Fatal(err)
	}
	c.holds(n - holds)
	says, diagnostics := c.replay(nil)
	if text := harness.OneLine(harness.ErrorText(diagnostics)); isRefused {
		harness.MustSay(c.T, "the error", text, "in exclusive use", "nobody else may have it alone",
			"No message is lost")
		harness.MustNotSay(c.T, "the error", text, "twice")
	} else {
		harness.NoErrors(c.T, diagnostics)
		if handled, _, published := c.handled(says[len(says)-1]); handled != n-holds || published != n-holds {
			c.T.Errorf("beside a consumer, the action says %q", says)
		}
	}
	if err := other.Close(); err != nil {
		c.T.Fatal(err)
	}
	c.Eventually("all messages are back", func() bool { return c.Depth(replayQueue)+c.Depth("here") == n })
	if warnings := c.warnings(); warnings != "" {
		c.T.Errorf("the second replay says %s", warnings)
	}
	if once, all := c.received("here"); once != n || all != n {
		c.T.Errorf("of %d messages, %d have arrived, %d times", n, once, all)
	}
	c.holds(0)
}

// RabbitMQ takes the header BCC away. Each copy of such a message goes to the receiver of its routing key alone.
func TestReplayOfCopies(t *testing.T) {
	t.Parallel()
	c := newParked(t, nil)
	if err := c.Publisher().Publish(t.Context(), replayEntry, "0.1.0.here", amqp.Publishing{
		Headers: amqp.Table{"BCC": []any{"0.0.1.there"}}}); err != nil {
		t.Fatal(err)
	}
	const copies = 3
	c.holds(copies)
	c.receive("here")
	c.receive("there")
	if warnings := c.warnings(); warnings != "" {
		t.Errorf("the replay says %s", warnings)
	}
	if here, there := c.Depth("here"), c.Depth("there"); here != copies || there != 0 {
		t.Errorf("%d copies have arrived at the receiver of the routing key, %d at the other one", here, there)
	}
}

// An exchange of headers behind the delivery exchange takes what it has a binding for. The rest comes back, and stays.
// What came to the entry by such an exchange stays, too.
func TestReplayThroughHeaders(t *testing.T) {
	t.Parallel()
	c := newParked(t, nil)
	for _, kind := range []string{"taken", "left"} {
		c.send("t.delivery", amqp.Publishing{Headers: amqp.Table{"kind": kind}}, "0.0.0."+kind)
	}
	c.DeclareExchange("before", "headers")
	c.Bind("before", "", "exchange", replayEntry)
	c.send("before", amqp.Publishing{}, "0.0.0.here")
	c.DeclareExchange("behind", "headers")
	c.Bind("t.delivery", "#", "exchange", "behind")
	c.DeclareQueue("taken", nil)
	c.Try(c.API.DeclareBinding(c.Name, rabbithole.BindingInfo{Source: "behind", DestinationType: "queue",
		Destination: "taken", Arguments: map[string]any{"x-match": "all", "kind": "taken"}}))
	for range 2 {
		warnings := c.warnings()
		harness.MustSay(t, "the warning", warnings, "1 message: no binding took them, and they stay as they are",
			"1 message: they were published to an exchange that is no part of this")
		c.holds(2)
	}
	if once, all := c.received("taken"); once != 1 || all != 1 {
		t.Errorf("%d messages have arrived, %d times", once, all)
	}
}

// From RabbitMQ 4 on, a copy with a high priority comes before messages that the replay has not come to. Further
// replays come to those.
func TestReplayOfPriorities(t *testing.T) {
	t.Parallel()
	const n, nobodys, tries = 500, 50, 10
	c := newParked(t, nil)
	c.fill(n, "here")
	c.send("t.delivery", amqp.Publishing{Priority: 9}, slices.Repeat([]string{"0.0.0.nobody"}, nobodys)...)
	c.receive("here")
	var warnings string
	for try := 1; c.Depth("here") < n && try <= tries; try++ {
		warnings = c.warnings()
	}
	harness.MustSay(t, "the warning", warnings, "no binding took them, and they were parked again")
	if once, all := c.received("here"); once != n || all != n {
		t.Errorf("of %d messages, %d have arrived, %d times", n, once, all)
	}
	c.holds(nobodys)
}
