package engine_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// delivered is a cascade of three levels of hours with a message on its way, and bindings behind it.
func (w *world) delivered(bound ...topology.Binding) {
	w.Helper()
	desired := plantest.Expand(w, delay.Config{Name: "t", Levels: 3, Resolution: time.Hour, StrictKeys: true,
		ParkUnroutable: true, CreateDeliveryExchange: true, QueueType: delay.Classic})
	w.create(desired)
	var ends, binds []plan.Step
	for name, arguments := range map[string]topology.Arguments{"orders": nil, "other": nil,
		"quorum":  {"x-queue-type": "quorum"},
		"limited": {"x-max-length": int64(5), "x-overflow": "reject-publish"}} {
		ends = append(ends, plan.DeclareQueue{Queue: topology.Queue{Name: name, Durable: true, Arguments: arguments}})
	}
	for name, kind := range map[string]string{"events": "topic", "by-headers": "headers"} {
		ends = append(ends, plan.DeclareExchange{Exchange: topology.Exchange{Name: name, Type: kind, Durable: true}})
	}
	for _, b := range append(bound, topologytest.ToQueue("by-headers", "", "orders"),
		topologytest.ToQueue("events", "x.*.*.b", "orders")) {
		binds = append(binds, plan.Bind{Binding: b})
	}
	steps := plan.Plan{{Steps: ends}, {Steps: binds}}
	if _, err := engine.Run(w.Context(), w.client.Vhost(w.vhost), steps); err != nil {
		w.Fatal(err)
	}
	w.publish(desired.Entry, "1.0.0.somebody")
}

// through is a client of a gateway before the broker, which answers some requests itself. It tries nothing again.
func (w *world) through(answers func(http.ResponseWriter, *http.Request) bool) *rabbit.Client {
	forward, err := w.broker.Forward()
	if err != nil {
		w.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !answers(rw, r) {
			forward.ServeHTTP(rw, r)
		}
	}))
	w.Cleanup(server.Close)
	client, err := rabbit.New(rabbit.Config{Endpoint: server.URL, Username: w.broker.Username,
		Password: w.broker.Password})
	if err != nil {
		w.Fatal(err)
	}
	return client
}

// answer gives requests with the part this text, and refuses them without one. It leaves all others.
func answer(rw http.ResponseWriter, r *http.Request, part, text string) bool {
	if !strings.Contains(r.URL.Path+"?"+r.URL.RawQuery, part) {
		return false
	}
	rw.Header().Set("Content-Type", "application/json")
	if text == "" {
		rw.WriteHeader(http.StatusBadRequest)
	}
	fmt.Fprint(rw, cmp.Or(text, `{"error":"bad_request","reason":"no more today"}`))
	return true
}

// said are problems in words, the bindings of those that wait included.
func said(problems []engine.Problem) string {
	codes := map[engine.Code]string{engine.Refused: "refused", engine.Other: "may miss",
		engine.Unusable: "unusable"}
	var all []string
	for _, p := range problems {
		text := fmt.Sprintf("%s: %v", codes[p.Code], p.Cause)
		if refusal, is := errors.AsType[*rabbit.Error](p.Cause); is {
			text = fmt.Sprintf("%s: %s", codes[p.Code], refusal.Kind)
		}
		if waiting, is := errors.AsType[*engine.WaitingError](p.Cause); is {
			text = fmt.Sprintf("waits: %d", waiting.Messages)
			if waiting.Uncounted {
				text += " or more"
			}
			for _, b := range waiting.Gone {
				text += fmt.Sprintf(", from %s %s", b.RoutingKey, b.Destination)
			}
			if waiting.To.Source != "" {
				text += fmt.Sprintf(", to %s %s", waiting.To.RoutingKey, waiting.To.Destination)
			}
		}
		all = append(all, strings.ReplaceAll(text, "\n", ", "))
	}
	return strings.Join(all, "; ")
}

// A plan says of a destination what its apply would meet, and what becomes of messages on their way. It leaves out what
// the plan makes itself, and what a broker cannot tell now.
func TestPreviewOfADestination(t *testing.T) {
	w := newWorld(t)
	const key = "*.*.*.a"
	to := func(key, queue string) topology.Binding { return topologytest.ToQueue("t.delivery", key, queue) }
	toExchange := func(name string) topology.Binding { return topologytest.ToExchange("t.delivery", "*.*.*.b", name) }
	from := func(source string) topology.Binding { return topologytest.ToQueue(source, key, "orders") }
	orders, other, quorum, missing := to(key, "orders"), to(key, "other"), to(key, "quorum"), to(key, "q")
	shorter, doubled := to("*.*.a", "other"), to("*.*.*.c", "orders")
	neither := topologytest.ToQueue("x", key, "q")
	w.delivered(orders, other, shorter, doubled, to("#.c", "orders"))
	of := func(bindings ...topology.Binding) []topology.Binding { return bindings }
	deliveryPlanned, queuePlanned := engine.Options{DeliveryPlanned: true}, engine.Options{DestinationPlanned: true}
	planned := engine.Options{DeliveryPlanned: true, DestinationPlanned: true}
	classic := engine.Options{BehindClassic: true}
	lost := "may miss: " + quorum.Describe() + ": overdue messages get lost"
	for name, test := range map[string]struct {
		before, after []topology.Binding
		options       engine.Options
		// asked is a part of the requests that get the answer instead of the broker's. Without one they are refused.
		asked, answer string
		want          string
	}{
		"a limit": {after: of(to(key, "limited")),
			want: `may miss: queue "limited" is limited: x-max-length = 5`},
		"all is well":          {after: of(to("*.*.*.b", "orders"))},
		"no queue":             {after: of(missing), want: `refused: queue "q" does not exist`},
		"no exchange":          {after: of(toExchange("x")), want: `refused: exchange "x" does not exist`},
		"no delivery exchange": {after: of(from("x")), want: `refused: delivery exchange "x" does not exist`},
		"neither": {after: of(neither),
			want: `refused: delivery exchange "x" does not exist, queue "q" does not exist`},
		"all is planned": {after: of(neither), options: planned},
		"only the delivery exchange is planned": {after: of(neither),
			options: deliveryPlanned, want: `refused: queue "q" does not exist`},
		"only the queue is planned": {after: of(neither),
			options: queuePlanned, want: `refused: delivery exchange "x" does not exist`},
		"planned, and there": {after: of(to(key, "limited")), options: planned,
			want: `may miss: queue "limited" is limited: x-max-length = 5`},
		"another type": {after: of(from("amq.direct")),
			want: `refused: delivery exchange "amq.direct" is of type "direct"`},
		"nowhere": {after: of(toExchange("events")),
			want: "may miss: " + toExchange("events").Describe() + ": messages do not arrive"},
		"not followed": {after: of(toExchange("by-headers")),
			want: `may miss: exchange "by-headers": it is of type headers`},
		"other levels": {after: of(to("*.*.x", "orders")),
			want: "may miss: " + to("*.*.x", "orders").Describe() + ": no cascade has so many levels"},
		"a delay queue": {after: of(to("*.*.*.b", "t.delay-01")),
			want: "refused: " + to("*.*.*.b", "t.delay-01").Describe() + ": the queue is a delay queue"},
		"quorum behind classic": {after: of(quorum), want: lost},

		"it stays":                       {before: of(orders), after: of(orders)},
		"it stays, without a queue":      {before: of(missing), after: of(missing)},
		"it stays before a quorum queue": {before: of(quorum), after: of(quorum)},
		"it stays, and gets classic queues before it": {before: of(quorum), after: of(quorum),
			options: classic, want: lost},

		"destroy": {before: of(orders), want: "waits: 1, from *.*.*.a orders"},
		"destroy of two": {before: of(orders, other),
			want: "waits: 1, from *.*.*.a orders, from *.*.*.a other"},
		"destroy of what is gone":            {before: of(missing)},
		"destroy, of other levels":           {before: of(shorter)},
		"destroy, another one does the same": {before: of(doubled)},
		"another address": {before: of(orders), after: of(to("*.*.*.b", "orders")),
			want: "waits: 1, from *.*.*.a orders"},
		"another queue": {before: of(doubled), after: of(to("*.*.*.c", "other")),
			want: "waits: 1, from *.*.*.c orders, to *.*.*.c other"},
		"more of the address": {before: of(orders), after: of(to("#.a", "orders"))},
		"more of the address, with one from elsewhere": {before: of(orders, other), after: of(to("#.a", "orders")),
			want: "waits: 1, from *.*.*.a other, to #.a orders"},
		"another address, with one from elsewhere": {before: of(orders, other), after: of(to("#.b", "orders")),
			want: "waits: 1, from *.*.*.a orders, from *.*.*.a other"},
		"a delay queue takes its place": {before: of(orders), after: of(to(key, "t.delay-01")),
			want: "refused: " + to(key, "t.delay-01").Describe() + ": the queue is a delay queue; " +
				"waits: 1, from *.*.*.a orders, to *.*.*.a t.delay-01"},
		"another queue, which is missing": {before: of(orders), after: of(missing),
			want: `refused: queue "q" does not exist; waits: 1, from *.*.*.a orders, to *.*.*.a q`},
		"uncounted": {before: of(orders), asked: "enable_queue_totals", answer: "[]",
			want: "waits: 0 or more, from *.*.*.a orders"},
		"the count is refused": {before: of(orders), asked: "enable_queue_totals"},
		"no list of exchanges": {before: of(orders), asked: "/exchanges/" + w.vhost + "?"},

		"its check is refused": {after: of(missing), asked: "/t.delivery/bindings/destination?",
			want: "unusable: request refused"},
		"the delivery exchange is refused": {after: of(orders), asked: "/t.delivery?",
			want: "unusable: request refused"},
		"the destination is refused": {after: of(toExchange("events")), asked: "/events?",
			want: "unusable: request refused"},
		"no permissions": {after: of(missing), asked: "/permissions?", answer: "[]",
			want: "unusable: permission denied"},
		"it stays, and the check is refused": {before: of(quorum), after: of(quorum),
			options: classic, asked: "/quorum?"},
		"a create on LavinMQ": {after: of(orders), asked: "/api/overview?", answer: `{"lavinmq_version":"2.9.1"}`,
			want: "refused: the broker is LavinMQ"},
		"it stays, on LavinMQ": {before: of(quorum), after: of(quorum), options: classic,
			asked: "/api/overview?", answer: `{"lavinmq_version":"2.9.1"}`, want: "refused: the broker is LavinMQ"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var met atomic.Bool
			client := w.through(func(rw http.ResponseWriter, r *http.Request) bool {
				if test.asked == "" || !answer(rw, r, test.asked, test.answer) {
					return false
				}
				met.Store(true)
				return true
			})
			before, after := topology.NewBindings(test.before...), topology.NewBindings(test.after...)
			got := said(engine.New(client).Preview(t.Context(), engine.Change{Kind: "destination", Vhost: w.vhost,
				Before: topology.Topology{Bindings: before}, After: topology.Topology{Bindings: after},
				Options: test.options}))
			if got != test.want {
				t.Errorf("it says %q, not %q", got, test.want)
			}
			if met.Load() != (test.asked != "") {
				t.Error("the request was not made")
			}
		})
	}
}

// Once nobody has answered a preview, the others of the run do not ask: each would take its time.
func TestPreviewOfADestinationAsksNobodyTwice(t *testing.T) {
	w := newWorld(t)
	w.delivered()
	to := func(queue string) topology.Topology {
		return topology.Topology{Bindings: topology.NewBindings(topologytest.ToQueue("t.delivery", "*.*.*.a", queue))}
	}
	missing := w.change(nothing, to("q"), engine.Options{})
	for name, first := range map[string]engine.Change{
		"a limit":  missing,
		"it stays": w.change(to("quorum"), to("quorum"), engine.Options{BehindClassic: true}),
	} {
		var isThere atomic.Bool
		run := engine.New(w.through(func(http.ResponseWriter, *http.Request) bool {
			if !isThere.Load() {
				panic(http.ErrAbortHandler)
			}
			return false
		}))
		if text := said(run.Preview(t.Context(), first)); text != "" {
			t.Errorf("%s: without an answer it says %q", name, text)
		}
		isThere.Store(true)
		if text := said(run.Preview(t.Context(), missing)); text != "" {
			t.Errorf("%s: the next one says %q", name, text)
		}
	}
}

// A look at a topology looks behind its delivery exchange, or at the one queue that takes all messages.
func TestObserveBehind(t *testing.T) {
	w := newWorld(t)
	nowhere := topologytest.ToExchange("t.delivery", "*.*.*.b", "events")
	w.delivered(nowhere)
	of := func(delivery, key string) topology.Topology {
		wanted := topology.New()
		wanted.Delivery = delivery
		wanted.Queues["q"] = topology.Queue{Name: "q", Arguments: topology.Arguments{"x-dead-letter-routing-key": key}}
		return wanted
	}
	for name, test := range map[string]struct {
		wanted topology.Topology
		asked  string // which is refused
		want   string // the findings, or the error
	}{
		"nowhere": {of("t.delivery", ""), "",
			topology.BindingObject(nowhere) + `: exchange "events" is bound for "x.*.*.b"`},
		"one key for all": {of("events", "k"), "",
			`exchange "events": exchange "events" is bound for "x.*.*.b"`},
		"no delivery exchange":     {of("x", ""), "", ""},
		"a queue takes all":        {of("", "orders"), "", ""},
		"the queue is missing":     {of("", "gone"), "", `queue "gone": missing`},
		"the exchange is refused":  {of("t.delivery", ""), "/t.delivery?", "request refused"},
		"the bindings are refused": {of("t.delivery", ""), "/bindings/source?", "request refused"},
		"an exchange behind it":    {of("t.delivery", ""), "/events?", "request refused"},
		"the one queue is refused": {of("", "orders"), "/orders?", "request refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := w.through(func(rw http.ResponseWriter, r *http.Request) bool {
				return test.asked != "" && answer(rw, r, test.asked, "")
			})
			o, err := engine.Observe(t.Context(), client.Vhost(w.vhost), test.wanted)
			var all []string
			for _, f := range o.Findings {
				all = append(all, f.Object+": "+f.Cause)
			}
			if refusal, is := errors.AsType[*rabbit.Error](err); is {
				all = []string{string(refusal.Kind)}
			} else if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(all, "; "); got != test.want {
				t.Errorf("it has %q, not %q", got, test.want)
			}
		})
	}
	beyond, err := engine.LookBeyond(t.Context(), w.client.Vhost(w.vhost),
		topologytest.ToExchange("t.delivery", "*.*.*.a", "x"), nil)
	if err != nil || len(beyond) > 0 {
		t.Errorf("an exchange that does not exist has %v: %v", beyond, err)
	}
}
