package broker_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Whatever answers in the place of a broker, an operation ends at once: with an error that says what to
// do, or with what can be true of the topology that was asked for.
func FuzzAnswer(f *testing.F) {
	const (
		exchanges = `[{"name":"amq.direct","type":"direct","durable":true,"auto_delete":false,"internal":false,"arguments":{}},` +
			`{"name":"t.delay-00","type":7,"durable":"yes","arguments":[]},{"name":"t.delivery","type":"topic"}]`
		queue = `{"name":"t.delay-00","durable":true,"arguments":{"x-message-ttl":1e300,"x-dead-letter-exchange":{"a":[1]}},"messages":"undefined",` +
			`"policy":null,"effective_policy_definition":{"message-ttl":"10"}}`
		bindings = `[{"source":"t.delay-00","destination":"t.delay-00","destination_type":"queue","routing_key":"1.#","arguments":{}},` +
			`{"source":"elsewhere","destination":"q","destination_type":"pipe","routing_key":"#","arguments":{"a":[null,1e20]}}]`
	)
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `[{}]`, `[null]`, `"x"`, `1e999`, `<html>Sign in</html>`, `{"error":"Object Not Found","reason":"Not Found"}`,
		`{"error":"bad_request","reason":"inequivalent arg 'x-message-ttl' for queue"}`, `{"error":["no_such_exchange","x"],"reason":["no_such_exchange","x"]}`,
		`{"error":"not_authorised","reason":"Access refused."}`, `{"name":"amq.direct"}`, `{"rabbitmq_version":"4.3.6","cluster_name":7,"listeners":{}}`,
		`[{"source":"t.delay-00","destination":"t.delay-00","destination_type":"queue","routing_key":"1.#","arguments":{"a":1e400}}]`,
	} {
		for _, status := range []int{200, 204, 302, 400, 401, 403, 404, 407, 500} {
			f.Add(status, body, status, body, body)
			f.Add(200, exchanges, status, body, bindings)
		}
		f.Add(200, body, 200, queue, bindings)
		f.Add(200, exchanges, 200, queue, body)
	}
	type answers struct {
		status, statusOfLists  int
		list, object, bindings string
	}
	var current atomic.Pointer[answers]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := current.Load()
		status, body := a.status, a.object
		switch {
		case strings.Contains(r.URL.Path, "bindings"):
			body = a.bindings
		case r.URL.Path == "/api/exchanges/v":
			status, body = a.statusOfLists, a.list
		}
		if !strings.ContainsFunc(body, unicode.IsControl) { // which Go's server would send and Go's client refuse
			w.Header().Set("Location", body)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	f.Cleanup(server.Close)
	client, err := broker.New(broker.Config{Endpoint: server.URL, Username: "u", Password: "a long secret", AMQPURI: "amqp://127.0.0.1:1"})
	if err != nil {
		f.Fatal(err)
	}
	want := expand(f, cascade.Config{Name: "t", Levels: 1, CreateDeliveryExchange: true, ParkUnroutable: true})
	steps := map[string]topology.Step{} // one of each kind
	for _, step := range append(topology.Diff(want, topology.New()).Steps(), topology.Teardown(want, want, topology.Guard{Force: true}).Steps()...) {
		if _, waits := step.(topology.VerifyEmpty); !waits {
			steps[fmt.Sprintf("%T", step)] = step
		}
	}

	f.Fuzz(func(t *testing.T, statusOfLists int, list string, status int, object, bindings string) {
		for _, s := range []int{statusOfLists, status} {
			if s < 200 || s > 599 {
				t.Skip("no status of an answer")
			}
		}
		current.Store(&answers{status, statusOfLists, list, object, bindings})
		began := time.Now()
		check := func(what string, err error) {
			t.Helper()
			var described broker.Described
			if err == nil {
				return
			}
			if !errors.As(err, &described) || described.Summary() == "" || described.Detail() == "" {
				t.Fatalf("%s: %T %v", what, err, err)
			}
			for _, kind := range []broker.Kind{broker.Unreachable, broker.Timeout, broker.Canceled} {
				if broker.IsKind(err, kind) && status != http.StatusProxyAuthRequired && statusOfLists != http.StatusProxyAuthRequired {
					t.Fatalf("%s was answered: %v", what, err)
				}
			}
		}

		state, err := client.Read(t.Context(), "v", want)
		check("read", err)
		if err == nil {
			for name, e := range state.Exchanges {
				if _, wanted := want.Exchanges[name]; !wanted || e.Name != name {
					t.Fatalf("read exchange %q: %v", name, e)
				}
			}
			for name, q := range state.Queues {
				if _, wanted := want.Queues[name]; !wanted || q.Name != name {
					t.Fatalf("read queue %q: %v", name, q)
				}
			}
			for b := range state.Bindings {
				if !want.Owns(b.Source) {
					t.Fatalf("read binding %v", b)
				}
			}
			topology.Findings(state.Queues, state.Status)
			topology.Existing(want, state.Topology)
			topology.Diff(want, state.Topology)
			if len(state.Exchanges)+len(state.Queues) == 0 && !strings.Contains(list+object, "amq.direct") {
				t.Fatal("everything was deleted, says an answer that is not a broker's")
			}
		}
		inbound, err := client.Inbound(t.Context(), "v", []string{"t.delay-00"}, []string{"t.delay-00"})
		check("inbound", err)
		for b := range inbound {
			if b.Destination != "t.delay-00" {
				t.Fatalf("inbound binding %v", b)
			}
		}
		_, err = client.Vhosts(t.Context())
		check("list vhosts", err)
		inventory, err := client.Inventory(t.Context(), "v", cascade.CanBeEntry)
		check("inventory", err)
		if err == nil {
			inventory.Cascades(t.Context())
		}
		lookup := client.Lookup("v")
		_, exists, err := lookup.Exchange(t.Context(), "t.delay-00")
		check("look up the exchange", err)
		if exists && status >= 300 {
			t.Fatal("an exchange in a refusal")
		}
		_, _, err = lookup.Queue(t.Context(), "t.delay-00")
		check("look up the queue", err)
		_, err = lookup.BindingsFrom(t.Context(), "t.delay-00")
		check("look up bindings", err)
		for _, step := range steps {
			_, err := client.Run(t.Context(), "v", topology.Plan{{Steps: []topology.Step{step}}})
			check(step.String(), err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("after %s", took)
		}
	})
}

// TestEndlessAnswer has an answer that does not end.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, err := w.Write(nil); err == nil; _, err = w.Write(make([]byte, 1<<20)) {
		}
	}))
	t.Cleanup(server.Close)
	client, err := broker.New(broker.Config{Endpoint: server.URL, Username: "u", Password: "p", MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Read(t.Context(), "v", expand(t, cascade.Config{Name: "t", Levels: 1, CreateDeliveryExchange: true}))
	if !broker.IsKind(err, broker.NotManagementAPI) || !strings.Contains(err.Error(), "longer than 64 MiB") {
		t.Error(err)
	}
}
