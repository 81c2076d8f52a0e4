package acceptance

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The bridge of examples/bridge is killed again and again while it moves messages: none is lost and none is early. It
// rejects one whose delay it cannot read or that is too long.
func TestBridgeExample(t *testing.T) {
	t.Parallel()
	const messages, kills, bridged = 400, 5, "bridged"
	program := build(t, "bridge")
	for _, arguments := range [][]string{{program}, {program, bridged}} { // the second without PUBLISHER
		mustSayUsage(t, arguments...)
	}
	v := newVhost(t)
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "tasks", "base": 10, "levels": 2,
		"resolution": "100ms"})
	v.declareExchange("delayed", "topic")
	v.declareQueue("rejected", nil)
	v.declareQueue(bridged, map[string]any{"x-queue-type": "quorum", "x-dead-letter-exchange": "",
		"x-dead-letter-routing-key": "rejected"})
	v.bind("delayed", "#", "queue", bridged)
	publisher, err := json.Marshal(map[string]any{"entry_exchange": "tasks.delay-01", "base": 10, "levels": 2,
		"resolution_ms": 100, "max_delay_ms": 9900})
	if err != nil {
		t.Fatal(err)
	}
	bridge := []string{"env", "PUBLISHER=" + string(publisher), program, bridged}
	stop := run(t, v, bridge...)
	arrivals, rejected := v.collect("tasks.delivery", "*.*.billing.#"), v.consume("rejected")

	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // to be repeatable
	due, out := map[string]time.Time{}, v.publisher()
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
		due[id] = time.Now().Add(time.Duration(delay) * time.Millisecond)
		send(id, headers)
		if i%(messages/kills) == 0 {
			stop()
			stop = run(t, v, bridge...)
		}
	}
	send("unreadable", amqp.Table{"x-delay": "soon"})
	send("too long", amqp.Table{"x-delay": int32(9901)})

	v.delivered(arrivals, messages)
	for _, a := range arrivals.Arrivals() {
		if early := due[a.MessageId].Sub(a.At); early > time.Millisecond {
			t.Errorf("message %s arrived %s early", a.MessageId, early)
		}
		if !strings.HasSuffix(a.RoutingKey, ".billing.invoices") || a.Type != "invoice" || string(a.Body) != "work" {
			t.Errorf("message %s arrived with key %q, type %q and body %q", a.MessageId, a.RoutingKey, a.Type, a.Body)
		}
	}
	for _, a := range v.arrived(rejected, 2) {
		if a.MessageId != "unreadable" && a.MessageId != "too long" {
			t.Errorf("rejected was %q", a.MessageId)
		}
	}
}

// mustSayUsage has a program end with exit code 2 and one line.
func mustSayUsage(t *testing.T, program ...string) {
	t.Helper()
	_, says, err := tryIn(t, ".", nil, "", program...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || strings.Count(says, "\n") != 1 {
		t.Errorf("%q ended with %v and %q", program, err, says)
	}
}
