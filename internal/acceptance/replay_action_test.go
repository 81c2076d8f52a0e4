package acceptance

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const replayType = "rabbitmqdelay_replay"

// parked is a cascade of base 2 with three levels of 400 ms, whose queue of unroutable messages gets some.
type parked struct {
	*harness.Vhost
	p     *harness.Protocol
	given harness.Attributes
}

const (
	replayUnit  = 400 * time.Millisecond
	replayEntry = "t.delay-02"
	replayQueue = "t.unroutable"
)

func newParked(t *testing.T, further harness.Attributes) parked {
	t.Helper()
	v := harness.NewVhost(t)
	c := parked{v, harness.NewProtocol(t, v.Broker, nil), harness.Attributes{"vhost": v.Name, "name": "t", "levels": 3,
		"resolution": replayUnit.String()}.With(further)}
	c.p.MustApply(c.given)
	return c
}

// send sends messages, each with its key as body, and waits until they are parked.
func (c parked) send(exchange string, message amqp.Publishing, keys ...string) {
	c.T.Helper()
	before, publisher := c.Depth(replayQueue), c.Publisher()
	for _, key := range keys {
		message.Body, message.DeliveryMode = []byte(key), amqp.Persistent
		if err := publisher.Publish(c.T.Context(), exchange, key, message); err != nil {
			c.T.Fatal(err)
		}
	}
	c.Eventually("the messages are parked", func() bool { return c.Depth(replayQueue) == before+len(keys) })
}

// fill parks many messages for an address, with their numbers as bodies.
func (c parked) fill(n int, address string) {
	c.T.Helper()
	before := c.Depth(replayQueue)
	channel, err := c.Conn.Channel()
	if err != nil {
		c.T.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	for i := range n {
		if err := channel.PublishWithContext(c.T.Context(), "t.delivery", "0.0.0."+address, true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Append(nil, i)}); err != nil {
			c.T.Fatal(err)
		}
	}
	c.Eventually("the messages are parked", func() bool { return c.Depth(replayQueue) == before+n })
}

// receive makes the queue of an address.
func (c parked) receive(address string) {
	c.T.Helper()
	c.DeclareQueue(address, map[string]any{"x-queue-type": "quorum"})
	c.Bind("t.delivery", harness.DestinationKey(3, address), "queue", address)
}

// received counts the messages in the queue of an address, and takes them.
func (c parked) received(address string) (different, all int) {
	c.T.Helper()
	all = c.Depth(address)
	channel, err := c.Conn.Channel()
	if err != nil {
		c.T.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	arrivals, err := channel.Consume(address, "", true, false, false, false, nil)
	if err != nil {
		c.T.Fatal(err)
	}
	once := map[string]bool{}
	for i := range all {
		select {
		case a := <-arrivals:
			once[string(a.Body)] = true
		case <-time.After(harness.Patience):
			c.T.Fatalf("of %d messages in queue %q, %d have come", all, address, i)
		}
	}
	return len(once), all
}

// through has the action reach AMQP by way of a relay.
func (c parked) through(relay net.Listener) parked {
	c.T.Helper()
	uri, err := url.Parse(c.Broker.AMQPURI)
	if err != nil {
		c.T.Fatal(err)
	}
	uri.Host = relay.Addr().String()
	behind := *c.Broker
	behind.AMQPURI = uri.String()
	c.p = harness.NewProtocol(c.T, &behind, nil)
	return c
}

func (c parked) replay(further harness.Attributes) (says []string, diagnostics []*tfprotov6.Diagnostic) {
	c.T.Helper()
	return c.p.Invoke(c.T.Context(), replayType,
		harness.Attributes{"vhost": c.Name, "entry_exchange": replayEntry}.With(further))
}

// holds waits until so many messages are parked. RabbitMQ 3.10.8 counts late those that were put back.
func (c parked) holds(n int) {
	c.T.Helper()
	c.Eventually(fmt.Sprintf("%d messages are parked", n), func() bool { return c.Depth(replayQueue) == n })
}

// unbind takes away a binding of the cascade that begins with the key.
func (c parked) unbind(source, key, queue string) {
	c.T.Helper()
	c.Do(plan.Unbind{Binding: topology.Binding{Source: source, RoutingKey: key, DestinationType: topology.ToQueue,
		Destination: queue}})
}

func bodies(arrivals []brokertest.Arrival) (all []string) {
	for _, a := range arrivals {
		all = append(all, string(a.Body))
	}
	return all
}

// A message goes on from where it found no way.
func TestReplay(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			c := newParked(t, harness.Attributes{"queue_type": queueType})
			whole := amqp.Publishing{
				Expiration: "60000", UserId: c.Broker.Username, Priority: 4, MessageId: "m", CorrelationId: "c",
				Type: "t", AppId: "a", ReplyTo: "r", ContentType: "text/x-test", ContentEncoding: "e",
				Timestamp: time.Unix(1_700_000_000, 0), Headers: amqp.Table{"n": int64(1)},
			}
			c.send(replayEntry, whole, "0.0.0.here")
			c.send(replayEntry, amqp.Publishing{}, "0.0.1.here", "0.1.0.here", "1.0.0.here")
			c.send(replayEntry, amqp.Publishing{}, "foo", "0.1.0", "0.2.0.here")
			c.unbind("t.delay-01", "*.0.1.#", "t.delay-00")
			c.unbind(replayEntry, "0.1.*.*.#", "t.delay-01")
			c.send(replayEntry, amqp.Publishing{Headers: amqp.Table{"x-death": "from before"}}, "0.1.0.whole")
			c.send(replayEntry, amqp.Publishing{}, "1.0.1.left")
			c.send("t.delay-00", amqp.Publishing{}, "1.0.0.here", "1.0.9.here")
			c.send("t.delay-01", amqp.Publishing{}, "1.0.1.here")
			c.send(replayEntry, amqp.Publishing{Headers: amqp.Table{"CC": []any{"bar"}}}, "0.0.0.here")
			c.Try(c.API.DeclareExchange(c.Name, "others", rabbithole.ExchangeSettings{Type: "topic", Durable: true,
				Arguments: map[string]any{"alternate-exchange": replayQueue}}))
			c.send("others", amqp.Publishing{}, "0.0.0.here")
			c.p.MustApply(c.given)

			arrivals := c.Collect("t.delivery", harness.DestinationKey(3, "here"))
			whole3, left := c.Collect("t.delivery", harness.DestinationKey(3, "whole")),
				c.Collect("t.delivery", harness.DestinationKey(3, "left"))
			began := harness.BrokerTime()
			says, diagnostics := c.replay(nil)
			want := []string{"0.0.0.here", "0.0.1.here", "0.1.0.here", "1.0.0.here"}
			if got := bodies(c.Arrived(arrivals, len(want))); !slices.Equal(got, want) {
				t.Errorf("there arrived %q, not %q", got, want)
			}
			hasItsProperties(t, c.Arrived(arrivals, 1)[0].Delivery, whole)
			if got := c.Arrived(arrivals, 2)[1].Headers["x-death"]; got == nil {
				t.Error("x-death of a message that has waited is gone")
			}
			if took := c.Arrived(whole3, 1)[0].At.Sub(began); took < harness.Least(2*replayUnit) {
				t.Errorf("a message whose delay had not begun arrived after %s", took)
			}
			if took := c.Arrived(left, 1)[0].At.Sub(began); took < harness.Least(replayUnit) {
				t.Errorf("a message in the middle of its delay arrived after %s", took)
			}
			harness.NoErrors(t, diagnostics)
			harness.MustSay(t, "the report", strings.Join(says, " "), "14 of 14 messages handled",
				`4 published again to exchange "t.delivery"`, `1 published again to exchange "t.delay-02"`,
				`1 published again to exchange "t.delay-01"`)
			stays := []string{`Messages stay parked: queue "t.unroutable"`, "4 messages: the key is malformed",
				"2 messages: they are in the middle", "1 message: a header CC",
				"1 message: they were published to an exchange"}
			text := harness.OneLine(harness.WarningText(diagnostics))
			harness.MustSay(t, "the warning", text, stays...)
			c.holds(8)

			_, diagnostics = c.replay(nil)
			harness.NoErrors(t, diagnostics)
			harness.MustSay(t, "the second warning", harness.OneLine(harness.WarningText(diagnostics)), stays[1:]...)
			c.Settled("t.delay-00", "t.delay-01", "t.delay-02")
			c.holds(8)
			if all := len(arrivals.Arrivals()); all != len(want) {
				t.Errorf("after a second replay, %d messages have arrived", all)
			}
		})
	}
}

// hasItsProperties checks that a message has all but those that would keep it from its receiver.
func hasItsProperties(t *testing.T, got amqp.Delivery, sent amqp.Publishing) {
	t.Helper()
	for _, each := range [][2]any{{got.Expiration, ""}, {got.UserId, ""}, {got.Priority, sent.Priority},
		{got.MessageId, sent.MessageId}, {got.CorrelationId, sent.CorrelationId}, {got.Type, sent.Type},
		{got.AppId, sent.AppId}, {got.ReplyTo, sent.ReplyTo}, {got.ContentType, sent.ContentType},
		{got.ContentEncoding, sent.ContentEncoding}, {got.DeliveryMode, amqp.Persistent},
		{got.Timestamp.Unix(), sent.Timestamp.Unix()}, {got.Headers, sent.Headers}} {
		if fmt.Sprint(each[0]) != fmt.Sprint(each[1]) {
			t.Errorf("a property is %v, not %v", each[0], each[1])
		}
	}
}

// Whatever ends a replay, no message is lost. Another one brings the rest, and only a broken connection makes doubles.
func TestReplayEndsEarly(t *testing.T) {
	t.Parallel()
	const n, mostDoubles = 4000, 1000
	c := newParked(t, nil)
	relay := harness.NewFrameRelay(t, hostOf(t, c.Broker.AMQPURI))
	c = c.through(relay)
	for _, test := range []struct {
		address string
		end     func(cancel func())
		says    []string
		doubles int
	}{
		{"canceled", func(cancel func()) { cancel() }, []string{"the operation was canceled", "No message is lost",
			"Invoke the action once more"}, 0},
		{"broken", func(func()) { relay.BreakOff() }, []string{"broker not available", "No message is lost",
			"The next replay publishes these twice"}, mostDoubles},
	} {
		c.fill(n, test.address)
		c.receive(test.address)
		ctx, cancel := context.WithCancel(t.Context())
		// More than may be without a confirmation: some have arrived.
		relay.Before(n/2, harness.Publishes, func() { test.end(cancel) })
		_, diagnostics := c.p.Invoke(ctx, replayType,
			harness.Attributes{"vhost": c.Name, "entry_exchange": replayEntry})
		harness.MustSay(t, test.address, harness.OneLine(harness.ErrorText(diagnostics)), test.says...)
		if arrived := c.Depth(test.address); arrived >= n {
			t.Errorf("%s: %d have arrived", test.address, arrived)
		}
		cancel()
		c.Eventually("the messages that were under way are back", func() bool {
			return c.Depth(test.address)+c.Depth(replayQueue) >= n
		})
		_, diagnostics = c.replay(nil)
		harness.NoErrors(t, diagnostics)
		if text := harness.WarningText(diagnostics); text != "" {
			t.Errorf("%s: the second replay says %s", test.address, text)
		}
		once, total := c.received(test.address)
		if left := c.Depth(replayQueue); once != n || total > n+test.doubles || left > 0 {
			t.Errorf("%s: of %d messages, %d have arrived, %d times, and %d are parked", test.address, n, once,
				total, left)
		}
	}
}

// handled reads a message of progress.
func (c parked) handled(message string) (handled, there, published int) {
	c.T.Helper()
	numbers := regexp.MustCompile(`^Queue "t.unroutable": (\d+) of (\d+) messages handled\.` +
		`(?: (\d+) published again to exchange "t.delivery"\.)?$`).FindStringSubmatch(message)
	if numbers == nil {
		c.T.Fatalf("the action says %q", message)
	}
	for i, to := range []*int{&handled, &there, &published} {
		*to, _ = strconv.Atoi(numbers[i+1]) // a number that is left out is 0
	}
	return handled, there, published
}

// Two replays of one queue at the same time share its messages. None is lost, and none comes twice.
func TestReplayTwiceAtOnce(t *testing.T) {
	t.Parallel()
	const n, malformed, window = 3000, 5, 1000
	c := newParked(t, nil)
	c.fill(n, "here")
	c.send(replayEntry, amqp.Publishing{}, slices.Repeat([]string{"foo"}, malformed)...)
	c.receive("here")
	relay := harness.NewFrameRelay(t, hostOf(t, c.Broker.AMQPURI))
	relay.Before(1, harness.Acknowledges, func() {
		// Without an acknowledgement, one replay alone does not get so far.
		c.Eventually("the other replay publishes", func() bool { return c.Depth("here") > window })
	})
	both := [2]parked{c.through(relay), c.through(relay)}
	both[1].p = harness.NewProtocol(t, c.Broker, nil)
	var published [2]int
	var running sync.WaitGroup
	for i, one := range both {
		running.Go(func() {
			says, diagnostics := one.replay(nil)
			harness.NoErrors(t, diagnostics)
			_, _, published[i] = one.handled(says[len(says)-1])
		})
		c.Eventually("the first replay is under way", func() bool { return c.Depth("here") > 0 })
	}
	running.Wait()
	if published[0] == 0 || published[1] == 0 || published[0]+published[1] != n {
		t.Errorf("the replays have published %v of %d messages", published, n)
	}
	if once, all := c.received("here"); once != n || all != n {
		t.Errorf("of %d messages, %d have arrived, %d times", n, once, all)
	}
	c.holds(malformed)
}

// A replay whose connections end at any place loses nothing. The next one brings the rest, and only those twice that
// RabbitMQ has taken over without an acknowledgement.
func TestReplayIsCutOff(t *testing.T) {
	t.Parallel()
	// The leader of a quorum queue may have 32 commands to answer. The channel keeps further acknowledgements back, and
	// loses those when it ends: measured where 39 had come (4.3.6), see quorum_commands_soft_limit of RabbitMQ.
	const n = 24
	places := []struct {
		where      string
		nth        int
		at         harness.Frame
		comesTwice int // at least
	}{
		{"before the first message", 1, harness.Publishes, 0},
		{"before a message", 10, harness.Publishes, 0},
		{"within a message", 10, harness.Content, 0},
		{"before the first confirmation", 1, harness.Confirms, 1},
		{"before a confirmation", 2, harness.Confirms, 1},
		{"before the first acknowledgement", 1, harness.Acknowledges, 1},
		{"before an acknowledgement", 10, harness.Acknowledges, 1},
		{"before the rest is put back", 1, harness.PutsBack, 0},
	}
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			c := newParked(t, harness.Attributes{"queue_type": queueType})
			relay := harness.NewFrameRelay(t, hostOf(t, c.Broker.AMQPURI))
			c = c.through(relay)
			c.send(replayEntry, amqp.Publishing{}, "foo") // stays
			for i, place := range places {
				address := fmt.Sprint("at", i)
				c.fill(n, address)
				c.receive(address)
				relay.Before(place.nth, place.at, relay.BreakOff)
				_, diagnostics := c.replay(nil)
				published, acknowledged := relay.Passed(harness.Content), relay.Passed(harness.Acknowledges)
				harness.MustSay(t, place.where, harness.OneLine(harness.ErrorText(diagnostics)),
					"No message is lost", "The next replay publishes these twice")
				if !relay.HasBegun() {
					t.Fatalf("%s: the connections were not cut", place.where)
				}
				c.holds(n + 1 - acknowledged)

				_, diagnostics = c.replay(nil)
				harness.NoErrors(t, diagnostics)
				c.holds(1)
				once, all := c.received(address)
				t.Logf("%s: %d published, %d acknowledged, %d come twice", place.where, published, acknowledged, all-n)
				if once != n || all > n+published-acknowledged || all < n+place.comesTwice {
					t.Errorf("%s: of %d messages, %d have arrived, %d times", place.where, n, once, all)
				}
			}
		})
	}
}

// A replay says every few seconds how far it has come.
func TestReplayShowsProgress(t *testing.T) {
	t.Parallel()
	const n = 2500 // of which the confirmations before the third can cover 1000, so that 2000 are handled
	c := newParked(t, nil)
	c.fill(n, "here")
	c.receive("here")
	relay := harness.NewFrameRelay(t, hostOf(t, c.Broker.AMQPURI))
	c = c.through(relay)
	goOn := make(chan struct{})
	relay.Before(3, harness.Confirms, func() { <-goOn })
	var says []string
	waits := true // for the third confirmation
	_, diagnostics := c.p.InvokeAndWatch(t.Context(), replayType, harness.Attributes{"vhost": c.Name,
		"entry_exchange": replayEntry}, func(message string) {
		says = append(says, message)
		if last := len(says) - 1; last == 0 || message != says[last-1] || !waits {
			return // it goes on still, or again
		}
		waits = false
		handled, there, published := c.handled(message)
		c.Eventually("what was handled has arrived", func() bool { return c.Depth("here") == handled })
		if confirmed := relay.Passed(harness.Acknowledges); published == 0 || published != confirmed || there != n ||
			handled == n {
			t.Errorf("where %d of %d messages are confirmed, the action says %q", confirmed, n, message)
		}
		close(goOn)
	})
	harness.NoErrors(t, diagnostics)
	if len(says) < 2 {
		t.Fatalf("the action says only %q", says)
	}
	if handled, there, published := c.handled(says[len(says)-1]); handled != n || there != n || published != n {
		t.Errorf("at its end, the action says %q", says[len(says)-1])
	}
	if once, all := c.received("here"); once != n || all != n {
		t.Errorf("of %d messages, %d have arrived, %d times", n, once, all)
	}
}

// What keeps messages from being replayed is told, and they stay.
func TestReplayInVain(t *testing.T) {
	t.Parallel()
	c := newParked(t, nil)
	c.send("t.delivery", amqp.Publishing{}, "0.0.0.a", "0.0.0.full", "0.0.0.full", "0.0.0.full", "0.0.0.b",
		"0.0.0.nobody")
	c.DeclareQueue("full", map[string]any{"x-queue-type": "classic", "x-max-length": 1, "x-overflow": "reject-publish"})
	c.DeclareQueue("rest", nil)
	for _, bound := range [][2]string{{"full", "full"}, {"a", "rest"}, {"b", "rest"}} {
		c.Bind("t.delivery", harness.DestinationKey(3, bound[0]), "queue", bound[1])
	}
	says, diagnostics := c.replay(nil)
	t.Logf("the replay says %q", says)
	harness.NoErrors(t, diagnostics)
	harness.MustSay(t, "a full queue", harness.OneLine(harness.WarningText(diagnostics)), "Of 6 messages",
		"4 were published again", "1 message: no binding took them", "2 messages: a queue refused them")
	c.holds(3)
	if full, rest := c.Depth("full"), c.Depth("rest"); full != 1 || rest != 2 {
		t.Errorf("%d and %d messages have arrived", full, rest)
	}

	// Nothing parks what the delivery exchange does not take.
	c.Purge("full")
	c.Do(plan.DeleteExchange{Name: "t.delivery"})
	_, diagnostics = c.replay(nil)
	harness.MustSay(t, "no delivery exchange", harness.OneLine(harness.ErrorText(diagnostics)), "object not found",
		"no exchange 't.delivery'", "All other messages are still in the queue")
	c.DeclareExchange("t.delivery", "topic")
	c.Bind("t.delivery", harness.DestinationKey(3, "full"), "queue", "full")
	_, diagnostics = c.replay(harness.Attributes{"limit": 3})
	harness.NoErrors(t, diagnostics)
	harness.MustSay(t, "no alternate exchange", harness.OneLine(harness.WarningText(diagnostics)),
		"1 were published again", "1 message: no binding took them, and they stay as they are",
		"1 message: a queue refused them")
	c.holds(2)
	c.Purge("full")

	u := harness.NewUser(t, c.Broker, c.Name)
	for _, may := range []struct {
		permissions [3]string
		says        []string
	}{
		{[3]string{"^$", "^t\\.delivery$", "^$"}, []string{"permission denied", "permission to read this queue",
			"queue 't.unroutable'"}},
		{[3]string{"^$", "^$", "^t\\.unroutable$"}, []string{"permission denied",
			"permission to write to this exchange", "exchange 't.delivery'", "Of 2 messages, 0 were published again"}},
	} {
		u.Grant(may.permissions)
		of := parked{c.Vhost, harness.NewProtocol(t, u.Broker(), nil), nil}
		_, diagnostics = of.replay(nil)
		harness.MustSay(t, "a user who may not", harness.OneLine(harness.ErrorText(diagnostics)), may.says...)
	}

	c.Policy("limit", 1, rabbithole.PolicyDefinition{"delivery-limit": 20})("^t\\.unroutable$")
	_, diagnostics = c.replay(nil)
	harness.MustSay(t, "a delivery limit", harness.OneLine(harness.ErrorText(diagnostics)), "may drop messages",
		"delivery limit of 20", "Nothing was replayed")
	c.holds(2)
	c.Try(c.API.DeletePolicy(c.Name, "limit"))

	c.Purge(replayQueue)
	c.Do(plan.DeleteQueue{Queue: topology.Queue{Name: replayQueue}})
	_, diagnostics = c.replay(nil)
	harness.MustSay(t, "no queue", harness.OneLine(harness.ErrorText(diagnostics)),
		"queue of unroutable messages is missing")
	c.Do(plan.DeleteExchange{Name: "t.delivery"})
	c.p.MustApply(c.given)
	c.p.MustApply(c.given.With(harness.Attributes{"park_unroutable": false}))
	for _, test := range []struct {
		given harness.Attributes
		says  []string
	}{
		{nil, []string{"Nothing is parked there"}},
		{harness.Attributes{"entry_exchange": "t.delay-00"},
			[]string{`the entry of the cascade there is exchange "t.delay-02"`}},
		{harness.Attributes{"entry_exchange": "nothing"}, []string{"there is no such exchange"}},
		{harness.Attributes{"delay": "later"}, []string{`AttributeName("delay")`, `"keep" "skip"`}},
		{harness.Attributes{"limit": 0}, []string{`AttributeName("limit")`}},
		{harness.Attributes{"entry_exchange": ""}, []string{`AttributeName("entry_exchange")`}},
		{harness.Attributes{"vhost": ""}, []string{`AttributeName("vhost")`}},
	} {
		_, diagnostics := c.replay(test.given)
		harness.MustSay(t, "an action that is wrong", harness.OneLine(harness.ErrorText(diagnostics)), test.says...)
	}
}

// A message whose delay has not begun arrives at once, if that is asked for. From a ladder, it has the key of the end.
// A framework's cascade parks by a policy.
func TestReplayOfEachKind(t *testing.T) {
	t.Parallel()
	inLevel27 := "1" + strings.Repeat(".0", 27) + ".here"
	for _, test := range []struct {
		what, typeName, entry, delivery, queue, key, arrives string
		given                                                harness.Attributes
	}{
		{"units", harness.CascadeType, "t.h.m", "t.delivery", replayQueue, "1.0.here", "1.0.here",
			harness.Attributes{"name": "t", "units": harness.TextList("1h", "1m"), "max_delay": "1h"}},
		{"internal levels", harness.CascadeType, "t.delay-01", "t.delivery", replayQueue, "1.0.here", "1.0.here",
			harness.Attributes{"name": "t", "levels": 2, "resolution": "1h", "internal_levels": true}},
		{"preset", harness.CascadeType, "nsb.v2.delay-level-27", "nsb.v2.delay-delivery", "nsb.v2.unroutable",
			inLevel27, inLevel27, harness.Attributes{"preset": "nservicebus", "park_unroutable": true}},
		{"ladder", harness.LadderType, "t.entry", "t.delivery", replayQueue, "1h.here", "1h.here",
			harness.Attributes{"name": "t", "delays": harness.TextList("1h")}},
		{"ladder with a fixed key", harness.LadderType, "t.entry", "t.delivery", replayQueue, "1h", "here",
			harness.Attributes{"name": "t", "delays": harness.TextList("1h"), "dead_letter_routing_key": "here"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			p := harness.NewProtocolOf(t, test.typeName, v.Broker, nil)
			given := test.given.With(harness.Attributes{"vhost": v.Name})
			p.MustApply(given)
			v.Publish(test.delivery, "0.late", "late") // its delay is over
			for b := range v.Objects().Bindings {
				if b.Source == test.entry && b.DestinationType == topology.ToQueue {
					v.Do(plan.Unbind{Binding: b})
				}
			}
			v.Publish(test.entry, test.key, "not begun")
			v.Eventually("both are parked", func() bool { return v.Depth(test.queue) == 2 })
			p.MustApply(given)
			arrivals := v.Collect(test.delivery, "#")
			_, diagnostics := p.Invoke(t.Context(), replayType, harness.Attributes{"vhost": v.Name,
				"entry_exchange": test.entry, "delay": "skip"})
			harness.NoErrors(t, diagnostics)
			if text := harness.WarningText(diagnostics); text != "" {
				t.Error(text)
			}
			got := v.Arrived(arrivals, 2)
			if !slices.Equal(bodies(got), []string{"late", "not begun"}) || got[1].RoutingKey != test.arrives {
				t.Errorf("there arrived %q, the last one with the key %q", bodies(got), got[1].RoutingKey)
			}
		})
	}
}

// The shovel of the guide moves each message once, also one that is early or has no way. Then it is gone.
func TestReplayShovel(t *testing.T) {
	t.Parallel()
	command := regexp.MustCompile(`(?s)\nrabbitmqctl (set_parameter shovel replay) '(.*?)'\n`).
		FindStringSubmatch(docstest.ReadPage(t, "templates/guides/troubleshooting.md.tmpl"))
	if command == nil {
		t.Fatal("the page has no shovel")
	}
	shovel := append(strings.Fields(command[1]), command[2])
	b := brokertest.Own(t, likeThat(brokertest.Shared(t)), brokertest.InMemory(),
		brokertest.WithPlugins("rabbitmq_shovel"))
	c := parked{Vhost: harness.OpenVhost(t, b, "/"), p: harness.NewProtocol(t, b, nil),
		given: harness.Attributes{"name": "orders", "levels": 3, "resolution": replayUnit.String()}}
	c.p.MustApply(c.given)
	const entry, delivery, queue = "orders.delay-02", "orders.delivery", "orders.unroutable"
	c.unbind(entry, "0.1.*.*.#", "orders.delay-01")
	sent := []string{"0.0.0.here", "1.0.0.here", "0.1.0.here", "foo", "0.0.0.nobody"}
	for i, key := range sent {
		c.Publish(entry, key, key)
		c.Eventually("the message is parked", func() bool { return c.Depth(queue) == i+1 })
	}
	c.p.MustApply(c.given)
	arrivals := c.Collect(delivery, harness.DestinationKey(3, "here"))
	if _, err := b.CLI(t.Context(), "rabbitmqctl", shovel...); err != nil {
		t.Fatal(err)
	}
	for i, a := range c.Arrived(arrivals, 3) {
		if string(a.Body) != sent[i] || a.RoutingKey != sent[i] || a.Exchange != delivery {
			t.Errorf("there arrived %q with the key %q from exchange %q", a.Body, a.RoutingKey, a.Exchange)
		}
	}
	c.Eventually("the shovel has deleted itself", func() bool {
		answer, _ := c.Ask(http.MethodGet, nil, "parameters", "shovel", "/")
		return string(answer) == "[]"
	})
	c.Eventually("the others are parked again", func() bool { return c.Depth(queue) == 2 })
	for _, want := range sent[3:] {
		if body := c.Take(queue); body != want {
			t.Errorf("%q is parked, not %q", body, want)
		}
	}
	if all := len(arrivals.Arrivals()); all != 3 {
		t.Errorf("%d messages have arrived", all)
	}
}

// TestAccReplay invokes the action as a user does.
func TestAccReplay(t *testing.T) {
	t.Parallel()
	w := harness.NewWorkspace(t, harness.NewVhost(t))
	w.CommandLine.Needs("1.14.0")
	w.MustApply(`
resource "rabbitmqdelay_cascade" "t" {
  VHOST
  name       = "t"
  levels     = 3
  resolution = "400ms"
}

action "rabbitmqdelay_replay" "t" {
  config {
    VHOST
    entry_exchange = rabbitmqdelay_cascade.t.entry_exchange
  }
}
`)
	c := parked{Vhost: w.Vhost}
	c.send(replayEntry, amqp.Publishing{}, "0.0.1.here", "0.1.0.here", "0.0.1.there")
	arrivals := c.Collect("t.delivery", harness.DestinationKey(3, "here"))
	const invoke = "-invoke=action.rabbitmqdelay_replay.t"
	output, err := w.Apply(invoke)
	if err != nil {
		t.Fatal(output)
	}
	harness.MustSay(t, "the output", output, "3 of 3 messages handled", "Messages stay parked",
		"1 message: no binding took them", "Actions: 1 invoked")
	if got := bodies(c.Arrived(arrivals, 2)); !slices.Equal(got, []string{"0.0.1.here", "0.1.0.here"}) {
		t.Errorf("there arrived %q", got)
	}
	c.holds(1)
	w.MustBeSettled()
}
