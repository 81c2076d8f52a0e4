package recognize

import (
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize/recognizetest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Without an entry, or with another one than a ladder has, an import is refused. The error says why, and how to go on.
func TestRefusedLadders(t *testing.T) {
	const wait = 5 * time.Second
	for name, test := range map[string]struct {
		declare func(a recognizetest.Application)
		entry   string
		want    string
	}{
		"the default exchange": {func(a recognizetest.Application) { a.Waits("orders.retry.5s", wait, "", "orders") },
			"amq.default", "it is the default exchange, which is no entry. Retry queues that get their messages " +
				"through it cannot be imported"},
		"no name": {func(recognizetest.Application) {}, "", "it is the default exchange"},
		"a queue": {func(a recognizetest.Application) { a.Waits("orders.retry.5s", wait, "", "orders") },
			"orders.retry.5s", "there is no such exchange, but a queue of that name. Give the exchange that leads " +
				"to it. Messages that come through the default exchange have no entry to import"},
		"one exchange for work and retries": {func(a recognizetest.Application) {
			a.Exchange("direct", "orders")
			a.Work("orders")
			a.Bind("orders", "orders", "orders")
			a.Waits("orders.retry.5s", wait, "orders", "orders")
			a.Bind("orders", "retry.5s", "orders.retry.5s")
		}, "orders", `its delay queues, such as queue "orders.retry.5s", lead back to it, and a ladder has another ` +
			"exchange at its end"},
		"such a topic exchange, with labels": {func(a recognizetest.Application) {
			a.Exchange("topic", "orders")
			a.Waits("orders.5s", wait, "orders", "work")
			a.Bind("orders", "5s.#", "orders.5s")
		}, "orders", `its delay queues, such as queue "orders.5s", lead back to it`},
		"a fanout exchange": {func(a recognizetest.Application) {
			a.Exchange("fanout", "e")
			a.Waits("e.5s", wait, "d", "")
			a.Bind("e", "", "e.5s")
		}, "e", "it is a fanout exchange, and the entry of a ladder is a topic or a direct exchange"},
		"bindings with arguments": {func(a recognizetest.Application) {
			a.Exchange("topic", "e")
			a.Waits("e.5s", wait, "d", "")
			a.Bindings.Add(topology.Binding{Source: "e", RoutingKey: "retry.5s", DestinationType: topology.ToQueue,
				Destination: "e.5s", Arguments: `{"foo":"bar"}`})
		}, "e", `the binding with key "retry.5s" to queue "e.5s" has the arguments {"foo":"bar"}, and that of a ` +
			"ladder has none"},
		"the default exchange without a key": {func(a recognizetest.Application) {
			a.Exchange("topic", "e")
			a.Queues["a"] = topology.Queue{Name: "a", Durable: true, Arguments: topology.Arguments{
				"x-message-ttl": int64(5000), "x-dead-letter-exchange": ""}}
			a.Bind("e", "orders", "a")
		}, "e", `queue "a" has an x-dead-letter-exchange, the default exchange, but no x-dead-letter-routing-key`},
		"a TTL by a policy": {func(a recognizetest.Application) {
			a.Exchange("topic", "e")
			a.Queues["a"] = topology.Queue{Name: "a", Durable: true,
				Arguments: topology.Arguments{"x-dead-letter-exchange": "d"}}
			a.Bind("e", "retry", "a")
			a.Policies["ttl"] = topology.Policy{Name: "ttl", Pattern: "^a$", ApplyTo: "queues",
				Definition: topology.Arguments{"message-ttl": int64(5000)}}
		}, "e", `queue "a" has its TTL by the policy "ttl", and a delay queue has it as x-message-ttl`},
		"an end by a policy": {func(a recognizetest.Application) {
			a.Exchange("topic", "e")
			a.Queues["a"] = topology.Queue{Name: "a", Durable: true,
				Arguments: topology.Arguments{"x-message-ttl": int64(5000)}}
			a.Bind("e", "retry", "a")
			a.Policies["dlx"] = topology.Policy{Name: "dlx", Pattern: "^a$", ApplyTo: "queues",
				Definition: topology.Arguments{"dead-letter-exchange": "d"}}
		}, "e", `queue "a" has its dead-letter exchange by the policy "dlx"`},
		"an exchange of RabbitMQ's own": {func(a recognizetest.Application) {
			a.Exchange("direct", "amq.direct")
			a.Waits("e.5s", wait, "", "w")
			a.Bind("amq.direct", "5s", "e.5s")
		}, "amq.direct", "it is one of RabbitMQ's own exchanges, which nobody may declare or delete"},
		"keys of which a message fits both": {func(a recognizetest.Application) {
			a.Exchange("topic", "e")
			a.Waits("a", wait, "d", "")
			a.Waits("b", 2*wait, "d", "")
			a.Bind("e", "#", "a")
			a.Bind("e", "x.#", "b")
		}, "e", `a message can fit both the key "#" to queue "a" and the key "x.#" to queue "b", and comes twice then`},
	} {
		t.Run(name, func(t *testing.T) {
			a := recognizetest.Application{Topology: topology.New()}
			test.declare(a)
			got, err := Ladder(t.Context(), NewInventory("/", a.Topology), "/", test.entry)
			if err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.HasSuffix(err.Error(), sideBySide) {
				t.Errorf("recognized %+v, %v, want %q", got, err, test.want)
			}
			if name != "a queue" && name != "the default exchange" && name != "no name" {
				return
			}
			if _, err := Cascade(t.Context(), NewInventory("/", a.Topology), "/", test.entry); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("as a cascade: %v, want %q", err, test.want)
			}
		})
	}
}

// An import of a chain that is no cascade says why, also where it is imported as a ladder.
func TestRefusedChains(t *testing.T) {
	chain := func(a recognizetest.Application, arguments string) {
		a.Exchange("topic", "d0", "d1")
		a.Waits("d0", time.Second, "", "work")
		a.Waits("d1", 2*time.Second, "d0", "")
		for _, b := range []topology.Binding{
			{Source: "d1", RoutingKey: "1.#", DestinationType: topology.ToQueue, Destination: "d1"},
			{Source: "d1", RoutingKey: "0.#", DestinationType: topology.ToExchange, Destination: "d0"},
			{Source: "d0", RoutingKey: "*.1.#", DestinationType: topology.ToQueue, Destination: "d0"},
			{Source: "d0", RoutingKey: "*.0.#", DestinationType: topology.ToQueue, Destination: "work"},
		} {
			b.Arguments = arguments
			a.Bindings.Add(b)
		}
	}
	for name, test := range map[string]struct{ arguments, cascade, ladder string }{
		"through the default exchange": {"", `queue "d0" hands messages on through the default exchange, and a ` +
			"cascade has a delivery exchange" + seeGuide, `its keys, such as "`},
		"bindings with arguments": {`{"x":"y"}`, `has the arguments {"x":"y"}, and that of a cascade has none` +
			seeGuide, `has the arguments {"x":"y"}, and that of a ladder has none` + seeGuide},
	} {
		t.Run(name, func(t *testing.T) {
			a := recognizetest.Application{Topology: topology.New()}
			a.Work("work")
			chain(a, test.arguments)
			look := NewInventory("/", a.Topology)
			_, noCascade := Cascade(t.Context(), look, "/", "d1")
			_, noLadder := Ladder(t.Context(), look, "/", "d1")
			if noCascade == nil || !strings.Contains(noCascade.Error(), test.cascade) {
				t.Errorf("as a cascade: %v, want %q", noCascade, test.cascade)
			}
			if noLadder == nil || !strings.Contains(noLadder.Error(), test.ladder) {
				t.Errorf("as a ladder: %v, want %q", noLadder, test.ladder)
			}
		})
	}
}
