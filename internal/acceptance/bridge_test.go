package acceptance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// The bridge of examples/bridge is killed again and again while it moves messages: none is lost and none is early. With
// each kill, a message comes back to the queue once at most, and so far from the limit that RabbitMQ 4.0 sets to that.
func TestBridgeExample(t *testing.T) {
	t.Parallel()
	program := docstest.Build(t, "bridge")
	for _, arguments := range [][]string{{program}, {program, bridged}} { // the second without PUBLISHER
		mustSayUsage(t, arguments...)
	}
	inEachForm(t, func(c *exampleCascade) { c.killsBridges(program) })
}

func (c *exampleCascade) killsBridges(program string) {
	const messages, kills = 400, 5
	v, t, bridge := c.Vhost, c.t, c.bridge(program)
	v.Policy("limit", 0, rabbithole.PolicyDefinition{"delivery-limit": kills})(bridged)
	stop := docstest.Run(t, v, bridge...)
	arrivals := v.Collect("tasks.delivery", c.destination("billing.#"))

	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // to be repeatable
	due, out := map[string]time.Time{}, v.Publisher()
	send := func(id string, headers amqp.Table) {
		if err := out.Publish(t.Context(), "delayed", "billing.invoices", amqp.Publishing{MessageId: id,
			DeliveryMode: amqp.Persistent, Headers: headers, Type: "invoice", Body: []byte("work")}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range messages {
		id, delay := strconv.Itoa(i), random.Int32N(5000)
		headers := amqp.Table{"x-delay": delay}
		if i%10 == 0 {
			delay, headers = 0, nil
		}
		due[id] = harness.BrokerTime().Add(harness.Least(time.Duration(delay) * time.Millisecond))
		send(id, headers)
		if i%(messages/kills) == 0 {
			stop()
			stop = docstest.Run(t, v, bridge...)
		}
	}

	v.Eventually("the bridge has moved all", func() bool { return v.Depth(bridged) == 0 })
	if n := v.Depth("delayed.rejected"); n > 0 {
		t.Fatalf("rejected are %d messages", n)
	}
	delivered(v, arrivals, messages)
	for _, a := range arrivals.Arrivals() {
		if early := due[a.MessageId].Sub(a.At); early > 0 {
			t.Errorf("message %s arrived %s early", a.MessageId, early)
		}
		if !strings.HasSuffix(a.RoutingKey, ".billing.invoices") || a.Type != "invoice" || string(a.Body) != "work" {
			t.Errorf("message %s arrived with key %q, type %q and body %q", a.MessageId, a.RoutingKey, a.Type, a.Body)
		}
	}
}

// bridged is the queue that the bridge of examples/bridge consumes.
const bridged = "delayed.bridge"

// consumers is how many consumers a queue has, by AMQP, which counts at once.
func consumers(v *harness.Vhost, queue string) int {
	v.T.Helper()
	channel, err := v.Conn.Channel()
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		v.T.Fatal(err)
	}
	return q.Consumers
}

// bridge declares what the guide declares for the bridge. It returns the command that runs the bridge.
func (c *exampleCascade) bridge(program string) (command []string) {
	c.t.Helper()
	c.Request(http.MethodPost, []byte(docstest.ReadExample(c.t, "bridge", "definitions.json")), "definitions", c.Name)
	return c.run(program, bridged)
}

// The bridge reads a delay of every type as the plugin does, and a receiver sees the header that the plugin shows. What
// cannot be delayed is kept, with its routing key and its header.
func TestBridgeExampleReadsDelays(t *testing.T) {
	t.Parallel()
	program := docstest.Build(t, "bridge")
	inEachForm(t, func(c *exampleCascade) { c.readsDelays(program) })
}

func (c *exampleCascade) readsDelays(program string) {
	v, t := c.Vhost, c.t
	docstest.Run(t, v, c.bridge(program)...)
	v.Eventually("the bridge runs", func() bool { return consumers(v, bridged) == 1 })
	arrivals, rejected, out := v.Collect("tasks.delivery", "#"), v.Consume("delayed.rejected"), v.Publisher()
	type fate struct {
		key   string // as it arrives
		delay time.Duration
		asks  any // the header as it arrives
	}
	sent, confirmed := map[string]time.Time{}, map[string]time.Time{}
	arrives, isRejected := map[string]fate{}, map[string]fate{}
	key := func(delay time.Duration, address string) string { return harness.KeyOf(t, c.scale, delay, address) }
	send := func(id, key string, headers amqp.Table) {
		t.Helper()
		sent[id] = harness.BrokerTime()
		if err := out.Publish(t.Context(), "delayed", key, amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent,
			Headers: headers}); err != nil {
			t.Fatal(err)
		}
		confirmed[id] = time.Now()
	}
	for _, is := range []struct {
		asks  any
		means int // milliseconds
	}{
		{uint8(200), 200}, {int8(100), 100}, {uint16(1500), 1500}, {int16(1500), 1500}, {uint32(1500), 1500},
		{int32(1500), 1500}, {int64(1500), 1500}, {float32(1500.5), 1500}, {1500.0, 1500}, {2000.9, 2000},
		{amqp.Decimal{Scale: 1, Value: 20009}, 2000}, {"1500", 1500}, {"2000.9", 2000}, {[]byte("1500"), 1500},
		{int32(1501), 1501}, {int32(9900), 9900}, {int32(0), 0}, {int32(-5000), 0}, {-5000.5, 0}, {"-5000", 0},
		{0.9, 0},
	} {
		id, says := fmt.Sprintf("%T %v", is.asks, is.asks), is.asks
		if is.means > 0 {
			says = int64(-is.means)
		}
		delay := time.Duration((is.means+99)/100) * 100 * time.Millisecond
		arrives[id] = fate{key(delay, "billing.invoices"), delay, says}
		send(id, "billing.invoices", amqp.Table{"x-delay": is.asks})
	}
	arrives["no header"] = fate{key(0, "billing"), 0, nil}
	send("no header", "billing", nil)
	arrives["time of delivery"] = fate{key(100*time.Millisecond, "billing"), 100 * time.Millisecond, int64(-100)}
	send("time of delivery", "billing", amqp.Table{"x-delay": int32(100), deliveryTime: time.Now().UnixMilli()})
	arrives["no key"] = fate{key(1500*time.Millisecond, "no-key"), 1500 * time.Millisecond, int64(-1500)}
	send("no key", "", amqp.Table{"x-delay": int32(1500)})
	longest := strings.Repeat("k", 255-c.scale.Levels()*len("0."))
	arrives["longest key"] = fate{key(0, longest), 0, nil}
	send("longest key", longest, nil)

	isRejected["key too long"] = fate{longest + "k", 0, nil}
	send("key too long", longest+"k", nil)
	for _, asks := range []any{"soon", "", "NaN", "Inf", true, nil, amqp.Table{"a": "b"},
		int32(c.scale.Longest.Milliseconds() + 1), 1e300} {
		id := fmt.Sprintf("%T %v", asks, asks)
		isRejected[id] = fate{"billing", 0, asks}
		send(id, "billing", amqp.Table{"x-delay": asks})
	}

	for from, expected := range map[*brokertest.Collector]map[string]fate{arrivals: arrives, rejected: isRejected} {
		for _, a := range v.Arrived(from, len(expected)) {
			want, ok := expected[a.MessageId]
			if !ok || a.RoutingKey != want.key || !reflect.DeepEqual(a.Headers["x-delay"], want.asks) {
				t.Errorf("message %q arrived with key %q and delay %#v, want %v", a.MessageId, a.RoutingKey,
					a.Headers["x-delay"], want)
			}
			if from == arrivals {
				mustDropDeliveryTime(t, a)
			}
			// A slow publisher is no lateness of the bridge.
			if took := a.At.Sub(sent[a.MessageId]); took < harness.Least(want.delay) ||
				a.At.Sub(confirmed[a.MessageId]) > want.delay+mostLateness {
				t.Errorf("message %q arrived after %s, want %s", a.MessageId, took, want.delay)
			}
		}
	}
}

// An exchange of the type fanout or headers behind the delivery exchange routes as the plugin's did, as the guide says.
// What its bindings do not take is parked.
func TestBridgeExampleExchangeTypes(t *testing.T) {
	t.Parallel()
	c := newExampleCascade(t, exampleForms["units"])
	v := c.Vhost
	docstest.Run(t, v, c.bridge(docstest.Build(t, "bridge"))...)
	collectors := map[string]*brokertest.Collector{"parked": v.Consume("tasks.unroutable")}
	for _, exchangeType := range []string{"fanout", "headers"} {
		v.Try(v.API.DeclareExchange(v.Name, exchangeType, rabbithole.ExchangeSettings{Type: exchangeType, Durable: true,
			Arguments: map[string]any{"alternate-exchange": "tasks.unroutable"}}))
		v.DeclareQueue(exchangeType, map[string]any{"x-queue-type": "quorum"})
		v.Try(v.API.DeclareBinding(v.Name, rabbithole.BindingInfo{Source: exchangeType, DestinationType: "queue",
			Destination: exchangeType, Arguments: map[string]any{"region": "eu"}}))
		v.Bind("tasks.delivery", "#", "exchange", exchangeType)
		collectors[exchangeType] = v.Consume(exchangeType)
	}
	out := v.Publisher()
	for _, region := range []string{"eu", "us"} {
		for _, key := range []string{"", "billing.invoices"} {
			if err := out.Publish(t.Context(), "delayed", key, amqp.Publishing{MessageId: region + " " + key,
				DeliveryMode: amqp.Persistent, Headers: amqp.Table{"x-delay": 1500.5, "region": region}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range map[string][]string{
		"fanout":  {"eu ", "eu billing.invoices", "us ", "us billing.invoices"},
		"headers": {"eu ", "eu billing.invoices"},
		"parked":  {"us ", "us billing.invoices"},
	} {
		var ids []string
		for _, a := range v.Arrived(collectors[name], len(want)) {
			ids = append(ids, a.MessageId)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, want) {
			t.Errorf("%s got %q, want %q", name, ids, want)
		}
	}
}

// deliveryTime is the header by which a quorum queue of RabbitMQ 4.4 holds a message. 4.3 ignores it.
const deliveryTime = "x-opt-delivery-time"

// mustDropDeliveryTime has a program publish a message again without that header.
func mustDropDeliveryTime(t *testing.T, a brokertest.Arrival) {
	t.Helper()
	if _, kept := a.Headers[deliveryTime]; kept {
		t.Errorf("message %q arrived with the header %s", a.MessageId, deliveryTime)
	}
}

// mustSayUsage has a program end with exit code 2 and one line.
func mustSayUsage(t *testing.T, program ...string) {
	t.Helper()
	_, says, err := docstest.TryIn(t, ".", nil, "", program...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || strings.Count(says, "\n") != 1 {
		t.Errorf("%q ended with %v and %q", program, err, says)
	}
}
