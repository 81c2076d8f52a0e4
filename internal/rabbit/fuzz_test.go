package rabbit_test

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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Whatever answers in the place of a broker, an operation ends at once. It ends with an error that says what to do, or
// with a possible state of the topology that it asked for.
func FuzzAnswer(f *testing.F) {
	addAnswers(f)
	var current atomic.Pointer[answers]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		current.Load().answer(w, r)
	}))
	f.Cleanup(server.Close)
	client, err := rabbit.New(rabbit.Config{Endpoint: server.URL, Username: "u", Password: "a long secret",
		AMQPURI: "amqp://127.0.0.1:1", BindsAtOnce: true})
	if err != nil {
		f.Fatal(err)
	}
	want := expand(f, delay.Config{Name: "t", Levels: 1, CreateDeliveryExchange: true, ParkUnroutable: true})
	steps := stepOfEachKind(want)

	f.Fuzz(func(t *testing.T, statusOfLists int, list string, status int, object, bindings string) {
		for _, s := range []int{statusOfLists, status} {
			if s < 200 || s > 599 {
				t.Skip("no status of an answer")
			}
		}
		a := &answers{status, statusOfLists, list, object, bindings}
		current.Store(a)
		err := upToThreeTimes(func() error {
			began := time.Now()
			a.read(t, client, want)
			a.list(t, client)
			a.lookUp(t, client)
			for _, step := range steps {
				v := engine.OnBroker(client.Vhost("v")) // its Run would refuse the given address for AMQP
				err := v.Undo(t.Context(), plan.Plan{{Steps: []plan.Step{step}}})
				v.Close()
				a.check(t, step.String(), err)
			}
			if took := time.Since(began); took > 5*time.Second {
				return fmt.Errorf("after %s", took)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// addAnswers adds what brokers answer, and what others do.
func addAnswers(f *testing.F) {
	const (
		exchanges = `[{"name":"amq.direct","type":"direct","durable":true,"auto_delete":false,"internal":false,` +
			`"arguments":{}},` +
			`{"name":"t.delay-00","type":7,"durable":"yes","arguments":[]},{"name":"t.delivery","type":"topic"}]`
		queue = `{"name":"t.delay-00","durable":true,"arguments":{"x-message-ttl":1e300,` +
			`"x-dead-letter-exchange":{"a":[1]}},"messages":"undefined","policy":null,` +
			`"effective_policy_definition":{"message-ttl":"10"}}`
		bindings = `[{"source":"t.delay-00","destination":"t.delay-00","destination_type":"queue",` +
			`"routing_key":"1.#","arguments":{}},` +
			`{"source":"elsewhere","destination":"q","destination_type":"pipe","routing_key":"#",` +
			`"arguments":{"a":[null,1e20]}}]`
	)
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `[{}]`, `[null]`, `"x"`, `1e999`, `<html>Sign in</html>`, `{"error":"Object Not ` +
			`Found","reason":"Not Found"}`,
		`{"error":"bad_request","reason":"inequivalent arg 'x-message-ttl' for queue"}`,
		`{"error":["no_such_exchange","x"],"reason":["no_such_exchange","x"]}`,
		`{"error":"not_authorised","reason":"Access refused."}`, `{"name":"amq.direct"}`,
		`{"rabbitmq_version":"4.3.6","cluster_name":7,"listeners":{}}`,
		`[{"source":"t.delay-00","destination":"t.delay-00","destination_type":"queue",` +
			`"routing_key":"1.#","arguments":{"a":1e400}}]`,
	} {
		for _, status := range []int{200, 204, 302, 400, 401, 403, 404, 407, 500} {
			f.Add(status, body, status, body, body)
			f.Add(200, exchanges, status, body, bindings)
		}
		f.Add(200, body, 200, queue, bindings)
		f.Add(200, exchanges, 200, queue, body)
	}
}

// stepOfEachKind are steps that a plan may have for the topology, by their types. A wait for messages is none of them.
func stepOfEachKind(want topology.Topology) map[string]plan.Step {
	steps := map[string]plan.Step{}
	for _, step := range append(plan.Repair(want, topology.New()).Steps(), plan.Teardown(want, want,
		plan.Guard{Force: true}).Steps()...) {
		if _, waits := step.(plan.VerifyEmpty); !waits {
			steps[fmt.Sprintf("%T", step)] = step
		}
	}
	return steps
}

// answers are given in the place of a broker.
type answers struct {
	status, statusOfLists      int
	exchanges, other, bindings string
}

func (a *answers) answer(w http.ResponseWriter, r *http.Request) {
	status, body := a.status, a.other
	switch {
	case strings.Contains(r.URL.Path, "bindings"):
		body = a.bindings
	case r.URL.Path == "/api/exchanges/v":
		status, body = a.statusOfLists, a.exchanges
	}
	if !strings.ContainsFunc(body, unicode.IsControl) { // which Go's server would send and Go's client refuse
		w.Header().Set("Location", body)
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// check makes sure that an error says what to do, and not that there was no answer.
func (a *answers) check(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var described rabbit.Described
	if !errors.As(err, &described) || described.Summary() == "" || described.Detail() == "" {
		t.Fatalf("%s: %T %v", what, err, err)
	}
	if a.status == http.StatusProxyAuthRequired || a.statusOfLists == http.StatusProxyAuthRequired {
		return
	}
	for _, kind := range []rabbit.Kind{rabbit.Unreachable, rabbit.Timeout, rabbit.Canceled} {
		if rabbit.IsKind(err, kind) {
			t.Fatalf("%s was answered: %v", what, err)
		}
	}
}

// read reads a topology, and makes sure that nothing else is read.
func (a *answers) read(t *testing.T, client *rabbit.Client, want topology.Topology) {
	state, err := client.Vhost("v").Read(t.Context(), want)
	a.check(t, "read", err)
	if err != nil {
		return
	}
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
	health.Findings("/", state.Queues, state.Status)
	topology.Existing(want, state.Topology)
	plan.Repair(want, state.Topology)
	if len(state.Exchanges)+len(state.Queues) == 0 && !strings.Contains(a.exchanges+a.other, "amq.direct") {
		t.Fatal("everything was deleted, says an answer that is not a broker's")
	}
}

// list asks for all that is of a kind.
func (a *answers) list(t *testing.T, client *rabbit.Client) {
	inbound, err := client.Vhost("v").Inbound(t.Context(), []string{"t.delay-00"}, []string{"t.delay-00"})
	a.check(t, "inbound", err)
	for b := range inbound {
		if b.Destination != "t.delay-00" {
			t.Fatalf("inbound binding %v", b)
		}
	}
	_, err = client.Vhosts(t.Context())
	a.check(t, "list vhosts", err)
	there, err := client.Vhost("v").Inventory(t.Context(), recognize.CanBeEntry)
	a.check(t, "inventory", err)
	if err == nil {
		recognize.NewInventory("v", there).All(t.Context())
	}
}

// lookUp asks for one object after the other.
func (a *answers) lookUp(t *testing.T, client *rabbit.Client) {
	lookup := client.Vhost("v")
	_, exists, err := lookup.Exchange(t.Context(), "t.delay-00")
	a.check(t, "look up the exchange", err)
	if exists && a.status >= 300 {
		t.Fatal("an exchange in a refusal")
	}
	_, _, err = lookup.Queue(t.Context(), "t.delay-00")
	a.check(t, "look up the queue", err)
	_, err = lookup.BindingsFrom(t.Context(), "t.delay-00")
	a.check(t, "look up bindings", err)
}
