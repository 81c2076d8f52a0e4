package acceptance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// The workers of examples/retry: what fails comes back, each time later; what goes on failing ends where the queue
// dead-letters to.
func TestRetryExample(t *testing.T) {
	t.Parallel()
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		retries(t, docstest.Build(t, "retry"))
	})
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		python := languages["python"].interpreter(t, "import pika")
		retries(t, append(python, filepath.Join(docstest.Examples, "retry", "retry.py"))...)
	})
}

func retries(t *testing.T, program ...string) {
	t.Helper()
	mustSayUsage(t, append(program, "orders")...)
	mustSayUsage(t, append(program, "orders", "true")...) // without PUBLISHER
	v := harness.NewVhost(t)
	publisher := ladderPublisher(v, harness.Attributes{"name": "orders.retry", "deliver_to_queue": "orders",
		"delays": harness.TextList("900ms", "2s", "300ms")}) // as text, 2s comes before 900ms
	v.DeclareQueue("given-up", nil)
	v.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum", "x-dead-letter-exchange": "",
		"x-dead-letter-routing-key": "given-up"})

	directory := t.TempDir()
	attempts := filepath.Join(directory, "attempts")
	// The body says after how many attempts the command succeeds.
	command := filepath.Join(directory, "command")
	script := fmt.Sprintf("#!/bin/sh\nread body\necho \"$(date +%%s%%N) $body\" >> %[1]s\n[ $(grep -c \" $body\\$\" "+
		"%[1]s) -ge $body ]\n", attempts)
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil { //nolint:gosec // it has to be executable
		t.Fatal(err)
	}
	docstest.Run(t, v, slices.Concat([]string{"env", publisher}, program, []string{"orders", command})...)
	givenUp, out := v.Consume("given-up"), v.Publisher()
	for _, body := range []string{"1", "3", "99"} {
		if err := out.Publish(t.Context(), "", "orders", amqp.Publishing{DeliveryMode: amqp.Persistent,
			Headers: amqp.Table{deliveryTime: time.Now().UnixMilli()}, Body: []byte(body + "\n")}); err != nil {
			t.Fatal(err)
		}
	}
	last := v.Arrived(givenUp, 1)[0]
	if deaths := fmt.Sprint(last.Headers["x-death"]); string(last.Body) != "99\n" ||
		!strings.Contains(deaths, "queue:orders.retry.delay-2s") ||
		strings.Contains(deaths, "queue:orders.retry.delay-900ms") {
		t.Errorf("given up was %q with headers %v", last.Body, last.Headers)
	}
	mustDropDeliveryTime(t, last)
	v.Eventually("nothing waits", func() bool { return v.Depth("orders") == 0 })

	times := map[string][]time.Time{}
	file, err := os.Open(attempts) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		nanos, body, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseInt(nanos, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		times[body] = append(times[body], time.Unix(0, n))
	}
	for body, want := range map[string]int{"1": 1, "3": 3, "99": 4} {
		if len(times[body]) != want {
			t.Errorf("%d attempts for %s, want %d", len(times[body]), body, want)
		}
		for i := 1; i < len(times[body]); i++ {
			if after, delay := times[body][i].Sub(times[body][i-1]), []time.Duration{300 * time.Millisecond,
				900 * time.Millisecond, 2 * time.Second}[i-1]; after < harness.Least(delay) {
				t.Errorf("attempt %d for %s came after %s, want %s", i+1, body, after, delay)
			}
		}
	}
}

// ladderPublisher applies a ladder, and assigns its publisher to the variable that programs read.
func ladderPublisher(v *harness.Vhost, ladder harness.Attributes) string {
	v.T.Helper()
	p := harness.NewProtocolOf(v.T, harness.LadderType, v.Broker, nil)
	p.MustApply(harness.Attributes{"vhost": v.Name}.With(ladder))
	publisher := harness.Fields(v.T, harness.Fields(v.T, p.State)["publisher"])
	var entry string
	err := publisher["entry_exchange"].As(&entry)
	delays := map[string]json.Number{}
	for label, value := range harness.Fields(v.T, publisher["delays_ms"]) {
		var ms big.Float
		err = errors.Join(err, value.As(&ms))
		delays[label] = json.Number(ms.Text('f', -1))
	}
	text, wrong := json.Marshal(map[string]any{"entry_exchange": entry, "delays_ms": delays})
	if err := errors.Join(err, wrong); err != nil {
		v.T.Fatal(err)
	}
	return "PUBLISHER=" + string(text)
}

// The controller of examples/wheel is killed again and again while messages go round: each is delivered, and none
// early. One whose destination nobody has bound is kept.
func TestWheelExample(t *testing.T) {
	t.Parallel()
	const (
		messages = 400
		kills    = 8
	)
	v := harness.NewVhost(t)
	program := docstest.Build(t, "wheel")
	mustSayUsage(t, program) // without PUBLISHER
	wheel := []string{"env", ladderPublisher(v, harness.Attributes{"name": "wheel",
		"delays": harness.TextList("100ms", "200ms", "400ms", "800ms")}), program}
	stop := docstest.Run(t, v, wheel...)
	control := topology.Binding{Source: "wheel.delivery", RoutingKey: "#", DestinationType: topology.ToQueue,
		Destination: "wheel.control"}
	v.Eventually("the controller has bound its queue", func() bool { return v.Exported().Bindings.Has(control) })
	arrivals, kept := v.Collect("wheel.due", "here.#"), v.Consume("wheel.unroutable")

	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // to be repeatable
	due, out := map[string]time.Time{}, v.Publisher()
	send := func(id, key string, at time.Time) {
		if err := out.Publish(t.Context(), "wheel.delivery", key, amqp.Publishing{
			DeliveryMode: amqp.Persistent, MessageId: id, Body: []byte("work"),
			Headers: amqp.Table{"due": at.UnixMilli(), deliveryTime: time.Now().UnixMilli()},
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range messages {
		id := strconv.Itoa(i)
		due[id] = harness.BrokerTime().Add(time.Duration(random.IntN(8000)) * time.Millisecond)
		send(id, "new.here."+id, due[id])
	}
	send("nowhere", "new.nowhere", time.Now().Add(300*time.Millisecond))
	for range kills {
		time.Sleep(time.Duration(100+random.IntN(700)) * time.Millisecond) // to be killed at any moment
		stop()
		stop = docstest.Run(t, v, wheel...)
	}

	delivered := delivered(v, arrivals, messages)
	doubled, latest := 0, time.Duration(0)
	for _, a := range arrivals.Arrivals() {
		mustDropDeliveryTime(t, a)
		late := a.At.Sub(due[a.MessageId])
		if latest = max(latest, late); late < 0 {
			t.Errorf("message %s arrived %s early", a.MessageId, -late)
		}
		if a.RoutingKey != "here."+a.MessageId || string(a.Body) != "work" {
			t.Errorf("message %s arrived with key %q and body %q", a.MessageId, a.RoutingKey, a.Body)
		}
	}
	for _, times := range delivered {
		doubled += times - 1
	}
	t.Logf("%d messages and %d kills: %d came twice, the latest %s late", messages, kills, doubled, latest)
	for _, a := range v.Arrived(kept, 1) {
		if a.MessageId != "nowhere" {
			t.Errorf("kept was %q", a.MessageId)
		}
	}
}

// The controller of examples/wheel asks a command after every wait. One message is cancelled, another one is delivered
// sooner, one later, and one at its time. The command has its answers long before those times, on a busy machine too.
func TestWheelExampleAsks(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	publisher := ladderPublisher(v, harness.Attributes{"name": "wheel",
		"delays": harness.TextList("100ms", "200ms", "400ms")})
	answers := t.TempDir()
	command := filepath.Join(answers, "command")
	script := fmt.Sprintf("#!/bin/sh\ncat %s/$2 2>/dev/null || true\n", answers)
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil { //nolint:gosec // it has to be executable
		t.Fatal(err)
	}
	docstest.Run(t, v, "env", publisher, docstest.Build(t, "wheel"), command)
	control := topology.Binding{Source: "wheel.delivery", RoutingKey: "#", DestinationType: topology.ToQueue,
		Destination: "wheel.control"}
	v.Eventually("the controller has bound its queue", func() bool { return v.Exported().Bindings.Has(control) })
	arrivals, out := v.Collect("wheel.due", "here"), v.Publisher()

	now := harness.BrokerTime()
	due := map[string]time.Time{"cancelled": now.Add(8 * time.Second), "same": now.Add(8 * time.Second),
		"later": now.Add(8 * time.Second), "sooner": now.Add(time.Hour)}
	for id, at := range due {
		if err := out.Publish(t.Context(), "wheel.delivery", "new.here", amqp.Publishing{DeliveryMode: amqp.Persistent,
			MessageId: id, Headers: amqp.Table{"due": at.UnixMilli()}}); err != nil {
			t.Fatal(err)
		}
	}
	due["later"], due["sooner"] = now.Add(14*time.Second), now.Add(11*time.Second)
	for id, answer := range map[string]string{"cancelled": "cancel", "later": fmt.Sprint(due["later"].UnixMilli()),
		"sooner": fmt.Sprint(due["sooner"].UnixMilli())} {
		docstest.WriteExample(t, answers, id+".new", answer)
		if err := os.Rename(filepath.Join(answers, id+".new"), filepath.Join(answers, id)); err != nil {
			t.Fatal(err)
		}
	}
	var delivered []string
	for _, a := range v.Arrived(arrivals, 3) {
		delivered = append(delivered, a.MessageId)
		if late := a.At.Sub(due[a.MessageId]); late < 0 || late > mostLateness {
			t.Errorf("message %s arrived %s late", a.MessageId, late)
		}
	}
	// Not in order: each has its own time.
	if slices.Sort(delivered); !slices.Equal(delivered, []string{"later", "same", "sooner"}) {
		t.Errorf("delivered are %q", delivered)
	}
	v.Eventually("nothing goes round", func() bool { return v.Depth("wheel.control") == 0 })
	if n := len(arrivals.Arrivals()); n != 3 {
		t.Errorf("%d messages were delivered", n)
	}
}

// offeredAgain is the longest time after which RabbitMQ offers a message again that a queue has refused. A quorum queue
// does that also where its leader does not answer a publisher's first message in time (rabbit_fifo_client, 4.3).
const offeredAgain = 6 * time.Minute

// delivered waits for messages with so many IDs, and counts those of each. It gives up when none could come any more.
func delivered(v *harness.Vhost, arrivals *brokertest.Collector, messages int) map[string]int {
	v.T.Helper()
	for {
		seen := arrivals.Arrivals()
		delivered := map[string]int{}
		for _, a := range seen {
			delivered[a.MessageId]++
		}
		if len(delivered) == messages {
			return delivered
		}
		ctx, cancel := context.WithTimeout(v.T.Context(), offeredAgain+harness.Patience)
		_, err := arrivals.Wait(ctx, len(seen)+1)
		cancel()
		if err != nil {
			for name := range v.Exported().Queues {
				v.T.Logf("queue %q holds %d", name, v.Depth(name))
			}
			v.T.Fatalf("%d of %d messages were delivered, then none for %s: %v", len(delivered), messages,
				offeredAgain+harness.Patience, err)
		}
	}
}
