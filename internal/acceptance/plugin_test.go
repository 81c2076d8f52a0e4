package acceptance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// pageOfPlugin is the guide with the section on the delayed-message plugin.
const pageOfPlugin = "templates/guides/choosing.md.tmpl"

// Users of the plugin bind with wildcards. Behind the default cascade, each of the guide's bindings takes the messages
// that the guide says, after their delay. All others are parked.
func TestBindingsWithWildcards(t *testing.T) {
	t.Parallel()
	v, p, given := newOrders(t, harness.Attributes{"queue_type": "classic"})
	v.Try(v.API.DeclareExchange(v.Name, "own", rabbithole.ExchangeSettings{Type: "topic", Durable: true,
		Arguments: map[string]any{"alternate-exchange": "orders.unroutable"}}))
	collectors := map[string]*brokertest.Collector{}
	for queue, bound := range map[string]struct{ exchange, key string }{
		"any levels": {"orders.delivery", "#.order.*"}, "four levels": {"orders.delivery", "*.*.*.*.order.*"},
		"behind own": {"own", "#.order.*"},
	} {
		v.DeclareQueue(queue, map[string]any{"x-queue-type": "classic"})
		v.Bind(bound.exchange, bound.key, "queue", queue)
		collectors[queue] = v.Consume(queue)
	}
	v.Bind("orders.delivery", "#.order.#", "exchange", "own")

	sent := map[string]time.Time{}
	for _, address := range []string{"order.created", "order.paid", "eu.order.created", "order.created.eu", "order",
		"orders.created"} {
		sent[address] = harness.BrokerTime()
		v.Publish(unitsEntry, "0.0.0.2."+address, address)
	}
	wanted := map[string][]string{
		"any levels":  {"eu.order.created", "order.created", "order.paid"},
		"four levels": {"order.created", "order.paid"},
		"behind own":  {"eu.order.created", "order.created", "order.paid"},
	}
	for queue, want := range wanted {
		v.Arrived(collectors[queue], len(want))
	}
	// What the delivery exchange does not lead on, it parks, and so does the exchange behind it.
	v.Eventually("the others are parked", func() bool { return v.Depth("orders.unroutable") == 3 })
	for queue, want := range wanted {
		var got []string
		for _, a := range collectors[queue].Arrivals() {
			got = append(got, string(a.Body))
			if took := a.At.Sub(sent[string(a.Body)]); took < harness.Least(2*time.Second) ||
				took > 2*time.Second+mostLateness {
				t.Errorf("%s: the message for %s came after %s", queue, a.Body, took)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", queue, got, want)
		}
	}
	p.MustBeSettled(given)
}

// What the guide says of clients that ask for small frames.
const (
	narrow          = 4096
	smallestFrom4_1 = 8192
	breaksAtNarrow  = 20  // Waits behind the levels of a preset.
	longestAtNarrow = 200 // Bytes of each name and key behind the default cascade.
	bytesOfWait     = 101 // Beside the names of queue and exchange, and the key.
)

// Each wait adds to the headers of a message as much as the guide says. The connection of a client with small frames
// breaks at a message that has waited often enough. RabbitMQ 4.1 and later refuses that client. A client with larger
// frames takes each message.
func TestHeadersGrow(t *testing.T) {
	t.Parallel()
	const levels, entry = 28, "celery_delayed_27"
	v := harness.NewVhost(t)
	declareQuick(v, harness.Attributes{"preset": "celery_classic"}, "^celery", "celery_delayed_delivery")
	sizes := make([]int, levels+1)
	key := func(waits int) string {
		return strings.Repeat("0.", levels-waits) + strings.Repeat("1.", waits) + "billing"
	}
	for waits := range sizes {
		sizes[waits] = sizeOfHeaders(v, entry, key(waits))
	}
	for waits := 3; waits < len(sizes); waits++ { // RabbitMQ also names the last queue, which is other at first
		name := len(fmt.Sprintf("celery_delayed_%d", waits-1))
		if grows := sizes[waits] - sizes[waits-1]; grows != bytesOfWait+2*name+len(key(waits)) {
			t.Errorf("wait %d adds %d bytes", waits, grows)
		}
	}
	breaks := slices.IndexFunc(sizes, func(size int) bool { return size > narrow })
	if says := fmt.Sprintf("at a message that has waited %d times", breaks); breaks != breaksAtNarrow ||
		!strings.Contains(docstest.ReadPage(t, pageOfPlugin), says) {
		t.Errorf("the guide does not say %q. The sizes are %v", says, sizes)
	}
	mustTake(v, narrow, entry, key(breaks-1), true)
	mustTake(v, narrow, entry, key(breaks), false)
	mustTake(v, smallestFrom4_1, entry, key(levels), true)
}

// With small frames, a message of the default cascade arrives after its most waits. Its names are as long as the guide
// allows.
func TestHeadersOfUnits(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	name := strings.Repeat("n", longestAtNarrow-len(".d.h.m.s"))
	const most = "30.23.59.59."
	address := strings.Repeat("a", longestAtNarrow-len(most)-len(".billing")) + ".billing"
	declareQuick(v, harness.Attributes{"name": name, "queue_type": "classic"}, "^n+", name+".delivery")
	size := sizeOfHeaders(v, name+".d.h.m.s", most+address)
	mustTake(v, narrow, name+".d.h.m.s", most+address, true)
	says := fmt.Sprintf("up to %d bytes", longestAtNarrow)
	if size > narrow || !strings.Contains(docstest.ReadPage(t, pageOfPlugin), says) {
		t.Errorf("the headers have %d bytes, and the guide has to say %q", size, says)
	}
}

// declareQuick declares a cascade whose messages wait a millisecond in each queue. A queue gets all messages
// for billing.
func declareQuick(v *harness.Vhost, given harness.Attributes, queues, delivery string) {
	v.T.Helper()
	v.Policy("quick", 0, rabbithole.PolicyDefinition{"message-ttl": 1})(queues)
	harness.NewProtocol(v.T, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name}.With(given))
	v.DeclareQueue("billing", map[string]any{"x-queue-type": "classic"})
	v.Bind(delivery, "#.billing", "queue", "billing")
}

// sends sends a message through the cascade, and waits for it.
func sends(v *harness.Vhost, entry, key string) {
	v.T.Helper()
	v.Publish(entry, key, "")
	v.Eventually("the message is there", func() bool { return v.Depth("billing") == 1 })
}

// sizeOfHeaders is the size of the frame with the headers of a message that has come through the cascade.
func sizeOfHeaders(v *harness.Vhost, entry, key string) int {
	v.T.Helper()
	sends(v, entry, key)
	var wire *recordedWire
	connection, err := amqp.DialConfig(v.Broker.AMQPURI, amqp.Config{Vhost: v.Name,
		Dial: func(network, address string) (net.Conn, error) {
			c, err := amqp.DefaultDial(harness.Patience)(network, address)
			wire = &recordedWire{Conn: c}
			return wire, err
		}})
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if err := takeOne(connection); err != nil {
		v.T.Fatal(err)
	}
	return wire.headerFrame()
}

// mustTake makes sure that a client with such frames gets a message, or that its connection breaks instead. Where the
// broker refuses the client, no message is sent.
func mustTake(v *harness.Vhost, frame int, entry, key string, takes bool) {
	v.T.Helper()
	connection, err := amqp.DialConfig(v.Broker.AMQPURI, amqp.Config{Vhost: v.Name, FrameSize: frame})
	if refuses := version.AtLeast(v.Broker.Version, 4, 1) && frame < smallestFrom4_1; refuses != (err != nil) {
		v.T.Fatalf("RabbitMQ %s and frames of %d bytes: %v", v.Broker.Version, frame, err)
	} else if refuses {
		return
	}
	defer func() { _ = connection.Close() }() // it may be closed
	sends(v, entry, key)
	broken := connection.NotifyClose(make(chan *amqp.Error, 1))
	if err := takeOne(connection); (err == nil) != takes {
		v.T.Errorf("with frames of %d bytes, the message with key %s: %v", frame, key, err)
	}
	if takes {
		return
	}
	if why := <-broken; why == nil || why.Code != amqp.FrameError {
		v.T.Errorf("the connection ends with %v", why)
	}
	v.Eventually("the message is back", func() bool { return v.Depth("billing") == 1 })
	v.Purge("billing")
}

// errNothing says that the queue was empty.
var errNothing = errors.New("no message")

// takeOne takes a message, and acknowledges it.
func takeOne(connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	message, ok, err := channel.Get("billing", false)
	if err != nil {
		return err
	}
	if !ok {
		return errNothing
	}
	return message.Ack(false)
}

// recordedWire keeps what a broker sends.
type recordedWire struct {
	net.Conn
	mutex sync.Mutex
	read  bytes.Buffer
}

func (w *recordedWire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.read.Write(p[:n])
	return n, err
}

// headerFrame is the size of the last frame with the headers of a message. A frame has its type, its channel, the size
// of what follows, that, and one byte at its end.
func (w *recordedWire) headerFrame() (size int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	const header, start, end = 2, 7, 1
	for rest := w.read.Bytes(); len(rest) > start; {
		whole := start + int(binary.BigEndian.Uint32(rest[3:start])) + end
		if rest[0] == header {
			size = whole
		}
		rest = rest[min(whole, len(rest)):]
	}
	return size
}
