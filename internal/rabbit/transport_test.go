package rabbit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflogtest"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const secret = "s3cret-password"

// onceMore is the time for a second attempt, and for no third.
const onceMore = 200 * time.Millisecond

// serve is a client of a server that answers in place of a broker.
func serve(t *testing.T, handler http.HandlerFunc, with ...func(*rabbit.Config)) *rabbit.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return client(t, server.URL, with...)
}

// asRabbitMQ answers who the broker is, which a client asks once, and leaves all else to the handler.
func asRabbitMQ(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/api/overview") {
			answer(w, http.StatusOK, `{"rabbitmq_version":"4.3.6"}`)
			return
		}
		handler(w, r)
	}
}

func client(t *testing.T, endpoint string, with ...func(*rabbit.Config)) *rabbit.Client {
	t.Helper()
	config := rabbit.Config{Endpoint: endpoint, Username: "terraform", Password: secret,
		RetryTimeout: rabbit.DefaultRetryTimeout, BindsAtOnce: true}
	for _, change := range with {
		change(&config)
	}
	c, err := rabbit.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// abort ends the connection in the middle of an answer.
func abort(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"na`)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// TestRetry has every request fail in one way before it succeeds.
func TestRetry(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]http.HandlerFunc{
		"unavailable":    func(w http.ResponseWriter, _ *http.Request) { answer(w, 503, "busy") },
		"internal error": func(w http.ResponseWriter, _ *http.Request) { answer(w, 500, `{"error":"timeout"}`) },
		"too many requests": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			answer(w, 429, "")
		},
		"truncated answer": func(w http.ResponseWriter, _ *http.Request) { abort(w) },
		"no answer":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"hang": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			retry(t, failure)
		})
	}
}

// retry reads and runs steps where the first attempt of each request fails.
func retry(t *testing.T, failure http.HandlerFunc) {
	var first sync.Map
	var bodies sync.Map
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, seen := first.LoadOrStore(r.Method+r.URL.Path, true); !seen {
			failure(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		bodies.Store(r.Method, string(body))
		switch r.Method {
		case http.MethodGet:
			answer(w, 200, `{"name":"e","type":"topic","durable":true}`)
		default:
			answer(w, 204, "")
		}
	}, func(c *rabbit.Config) { c.RequestTimeout = 200 * time.Millisecond })

	want := topology.Exchange{Name: "e", Type: "topic", Durable: true}
	got, exists, err := c.Vhost("/").Exchange(t.Context(), "e")
	if err != nil || !exists || !got.Equal(want) {
		t.Errorf("read %v %v %v", got, exists, err)
	}
	steps := []plan.Step{
		plan.DeclareExchange{Exchange: want},
		plan.Bind{Binding: topology.Binding{Source: "e", DestinationType: topology.ToQueue, Destination: "q"}},
		plan.DeleteExchange{Name: "f"},
	}
	done, err := engine.Run(t.Context(), c.Vhost("/"), plan.Plan{{Steps: steps}})
	if err != nil {
		t.Fatal(err)
	}
	// The answer 204 to a second attempt does not tell that the exchange existed before.
	if !slices.Equal(names(done), names(steps)) {
		t.Errorf("done are %v", names(done))
	}
	if body, _ := bodies.Load(http.MethodPut); !strings.Contains(fmt.Sprint(body), `"auto_delete":false`) {
		t.Errorf("the second attempt sent %v", body)
	}
}

func names(steps []plan.Step) []string {
	texts := make([]string, len(steps))
	for i, s := range steps {
		texts[i] = s.String()
	}
	return texts
}

func TestNoRetry(t *testing.T) {
	for status, kind := range map[int]rabbit.Kind{
		400: rabbit.Refused, 401: rabbit.Unauthorized, 403: rabbit.Forbidden, 501: rabbit.Unavailable,
		302: rabbit.NotManagementAPI,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var requests atomic.Int32
			c := serve(t, asRabbitMQ(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Location", "https://u:"+secret+"@elsewhere/")
				answer(w, status, `{"error":"x","reason":"the reason"}`)
			}))
			_, _, err := c.Vhost("/").Exchange(t.Context(), "e")
			if !rabbit.IsKind(err, kind) || requests.Load() != 1 {
				t.Errorf("%d requests, %v", requests.Load(), err)
			}
			if strings.Contains(fmt.Sprint(err), secret) {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

// TestDone tells what a step did from how it was answered.
func TestDone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		done    bool
		fails   bool
	}{
		"created": {func(w http.ResponseWriter, _ *http.Request) { answer(w, 201, "") }, true, false},
		"existed": {func(w http.ResponseWriter, _ *http.Request) { answer(w, 204, "") }, false, false},
		"refused": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 400,
				`{"reason":"inequivalent arg"}`)
		}, false, true},
		"answer always lost": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true, true},
		"internal error":     {func(w http.ResponseWriter, _ *http.Request) { answer(w, 500, "") }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, test.handler, func(c *rabbit.Config) { c.RetryTimeout = onceMore })
			step := plan.DeclareExchange{Exchange: topology.Exchange{Name: "e", Type: "topic"}}
			done, err := engine.Run(t.Context(), c.Vhost("/"), plan.Plan{{Steps: []plan.Step{step}}})
			if (len(done) == 1) != test.done || (err != nil) != test.fails {
				t.Errorf("done %v, error %v", done, err)
			}
		})
	}
	t.Run("never sent", func(t *testing.T) {
		c := client(t, closedPort(t), func(c *rabbit.Config) { c.RetryTimeout = 0 })
		step := plan.DeclareExchange{Exchange: topology.Exchange{Name: "e", Type: "topic"}}
		done, err := engine.Run(t.Context(), c.Vhost("/"), plan.Plan{{Steps: []plan.Step{step}}})
		if len(done) != 0 || !rabbit.IsKind(err, rabbit.Unreachable) {
			t.Errorf("done %v, error %v", done, err)
		}
	})
}

// closedPort is where nobody listens. A port that was free a moment ago may be that of another test by now.
func closedPort(t *testing.T) string {
	t.Helper()
	return "http://127.0.0.1:1"
}

// TestOutage has a broker that does not answer. All requests wait for it together, one line of the log says so, and
// one error comes of it.
func TestOutage(t *testing.T) {
	t.Setenv("TF_LOG", "info")
	var log lockedBuffer
	ctx := tflogtest.RootLogger(t.Context(), &log)
	// The waits are 0.1, 0.4, 1.6 and 3 s. The third is over in time also where the machine is busy.
	const patience = 4 * time.Second
	c := client(t, closedPort(t), func(c *rabbit.Config) { c.RetryTimeout = patience })
	want := expand(t, delay.Config{Name: "tasks", Levels: 28, CreateDeliveryExchange: true})
	// Tries are counted where time is no measure: a busy machine makes fewer of them. Two requests run side by side.
	const atOnce = 2
	read := func(ctx context.Context) (tries int32, took time.Duration, err error) {
		var count atomic.Int32
		started := time.Now()
		_, err = c.Vhost("/").Read(httptrace.WithClientTrace(ctx,
			&httptrace.ClientTrace{GetConn: func(string) { count.Add(1) }}), want)
		return count.Load(), time.Since(started), err
	}

	interrupted, interrupt := context.WithCancel(ctx)
	time.AfterFunc(time.Second, interrupt)
	if tries, took, err := read(interrupted); tries > 3*atOnce ||
		!rabbit.IsKind(err, rabbit.Canceled) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("after %d tries and %s, the interrupt gives %v", tries, took, err)
	}
	if tries, _, err := read(ctx); tries > atOnce || !rabbit.IsKind(err, rabbit.Unreachable) {
		t.Errorf("what is to be taken back is tried %d times, and gives %v", tries, err)
	}

	c = client(t, closedPort(t), func(c *rabbit.Config) { c.RetryTimeout = patience })
	limited, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
	defer cancel()
	if tries, took, err := read(limited); tries > 3*atOnce || !rabbit.IsKind(err, rabbit.Timeout) ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("after %d tries and %s, the operation's timeout gives %v", tries, took, err)
	}
	if tries, took, err := read(ctx); took < patience/2 || tries > 4*atOnce ||
		!rabbit.IsKind(err, rabbit.Unreachable) || strings.Count(err.Error(), "refused") != 1 {
		t.Errorf("after %d tries and %s, 28 failures in parallel give %v", tries, took, err)
	}
	if tries, took, err := read(ctx); tries > 3*atOnce || !rabbit.IsKind(err, rabbit.Unreachable) {
		t.Errorf("once it was waited for, it takes %d tries and %s to give %v", tries, took, err)
	}
	if lines := strings.Count(log.String(), "tried again for up to 4 s"); lines != 2 {
		t.Errorf("for two outages, the log says %d times that it waits:\n%s", lines, &log)
	}
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := c.Vhost("/").Read(ctx, expand(t, delay.Config{Name: "tasks", Levels: 5})); !rabbit.IsKind(err,
		rabbit.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// TestCanceledWrite is canceled in the middle of a write: RabbitMQ is not left in it, and no other begins.
func TestCanceledWrite(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var writes, left atomic.Int32
	c := serve(t, asRabbitMQ(func(w http.ResponseWriter, r *http.Request) {
		writes.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see the client leave
		cancel()
		select {
		case <-r.Context().Done():
			left.Add(1)
		case <-time.After(300 * time.Millisecond):
			answer(w, 201, "")
		}
	}))
	phase := func(name string) plan.Phase {
		return plan.Phase{Steps: []plan.Step{plan.DeclareExchange{Exchange: topology.Exchange{Name: name,
			Type: "topic"}}}}
	}
	done, err := engine.Run(ctx, c.Vhost("/"), plan.Plan{phase("first"), phase("second")})
	if !rabbit.IsKind(err, rabbit.Canceled) || !slices.Equal(names(done), []string{`declare exchange "first"`}) {
		t.Errorf("done is %s, the error %v", names(done), err)
	}
	if writes.Load() != 1 || left.Load() != 0 {
		t.Errorf("%d writes, of which %d were left", writes.Load(), left.Load())
	}
}

// TestParallel counts how many requests are under way at the same time, and how many connections
// they take.
func TestParallel(t *testing.T) {
	const limit = 4
	var running, most, connections, requests atomic.Int32
	full := make(chan struct{}) // closed once as many requests are under way as may be, or never will be
	goOn := sync.OnceFunc(func() { close(full) })
	server := httptest.NewUnstartedServer(asRabbitMQ(func(w http.ResponseWriter, _ *http.Request) {
		now := running.Add(1)
		defer running.Add(-1)
		requests.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		if now == limit {
			goOn()
		}
		select {
		case <-full:
		case <-time.After(30 * time.Second):
			goOn()
		}
		time.Sleep(2 * time.Millisecond) // so that one more would overlap
		answer(w, 201, "")
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := client(t, server.URL, patient, func(c *rabbit.Config) { c.MaxParallelRequests = limit })

	// So few bindings that nobody asks for AMQP.
	todo := plan.Repair(expand(t, delay.Config{Name: "tasks", Levels: 10, Lookahead: 1}), topology.New())
	var runs sync.WaitGroup
	for range 3 { // resources of one provider share its limit
		runs.Go(func() {
			if _, err := engine.Run(t.Context(), c.Vhost("/"), todo); err != nil {
				t.Error(err)
			}
		})
	}
	runs.Wait()
	if most.Load() != limit {
		t.Errorf("%d requests at the same time, the limit is %d", most.Load(), limit)
	}
	steps := slices.DeleteFunc(todo.Steps(),
		func(step plan.Step) bool { return step == plan.Step(plan.AwaitDurable{}) })
	if got, want := int(requests.Load()), 3*len(steps); got != want {
		t.Errorf("%d requests for %d steps", got, want)
	}
	if connections.Load() > limit {
		t.Errorf("%d connections for at most %d requests at a time", connections.Load(), limit)
	}
}

// TestUndo fails in a phase whose undo fails as well, after the operation has been canceled.
func TestUndo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var asked sync.Map
	oneByOne := func(config *rabbit.Config) { config.MaxParallelRequests = 1 }
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method+" "+r.URL.Path, true)
		switch r.URL.Path {
		case "/api/exchanges/v/fails":
			cancel()
			answer(w, 400, `{"error":"bad_request","reason":"inequivalent arg 'type'"}`)
		case "/api/exchanges/v/restored", "/api/exchanges/v/restored too", "/api/exchanges/v/restored later":
			answer(w, 201, "")
		default:
			answer(w, 403, `{"error":"not_authorized","reason":"access refused"}`)
		}
	}, oneByOne)
	declare := func(name string) plan.Step {
		return plan.DeclareExchange{Exchange: topology.Exchange{Name: name, Type: "topic"}}
	}
	_, err := engine.Run(ctx, c.Vhost("v"), plan.Plan{
		{Steps: []plan.Step{declare("fails")}, Undo: func([]plan.Step) plan.Plan {
			return plan.Plan{
				{Steps: []plan.Step{declare("restored")}},
				{Steps: []plan.Step{declare("lost"), declare("restored too")}},
				{Steps: []plan.Step{declare("leads to what is lost")},
					Needs: []string{topology.ExchangeObject("lost")}},
				{Steps: []plan.Step{declare("restored later")}},
			}
		}},
		{Steps: []plan.Step{declare("never")}},
	})
	if !rabbit.IsKind(err, rabbit.Canceled) {
		t.Fatalf("the error is %v", err)
	}
	var undo *engine.UndoError
	if !errors.As(err, &undo) || !slices.Equal(names(undo.Left), []string{`declare exchange "lost"`,
		`declare exchange "leads to what is lost"`}) {
		t.Errorf("the error is %#v", err)
	}
	for _, says := range []string{
		`this is there again: exchange "restored", exchange "restored too", exchange "restored later"`,
		"steps are left to do:\n\n  declare exchange \"lost\"\n  declare exchange \"leads to what is lost\"\n",
		"access refused",
	} {
		if !strings.Contains(undo.Detail(), says) {
			t.Errorf("the detail does not say %q: %s", says, undo.Detail())
		}
	}
	for path, want := range map[string]bool{"restored": true, "restored too": true, "restored later": true,
		"leads to what is lost": false, "never": false} {
		if _, got := asked.Load("PUT /api/exchanges/v/" + path); got != want {
			t.Errorf("declared %s: %v", path, got)
		}
	}
}

func TestSecretsInLog(t *testing.T) {
	t.Setenv("TF_LOG", "trace")
	var log lockedBuffer
	ctx := tflogtest.RootLogger(t.Context(), &log)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			answer(w, 500, `{"reason":"do not repeat `+secret+`"}`)
			return
		}
		answer(w, 201, "")
	}, func(c *rabbit.Config) {
		c.RetryTimeout = 0
		c.Headers = map[string]string{"X-Api-Key": secret}
		c.AMQPURI = "amqp://u:" + secret + "@127.0.0.1:1"
	})
	_, _, _ = c.Vhost("/").Exchange(ctx, "e")
	_, _ = engine.Run(ctx, c.Vhost("a vhost"), plan.Plan{{Steps: []plan.Step{
		plan.DeclareExchange{Exchange: topology.Exchange{Name: "e/e", Type: "topic"}}}}})
	if strings.Contains(log.String(), secret) {
		t.Errorf("the log contains a secret:\n%s", &log)
	}
	for _, want := range []string{`"@module":"provider.rabbitmq"`, `"method":"PUT"`,
		`"path":"/api/exchanges/a%20vhost/e%2Fe"`, `"status":201`, `"duration_ms"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &log)
		}
	}
}

// TestRequests looks at what goes over the wire.
func TestRequests(t *testing.T) {
	type request struct{ method, uri, body string }
	var mutex sync.Mutex
	var got []request
	c := serve(t, asRabbitMQ(func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		var body bytes.Buffer
		if text, _ := io.ReadAll(r.Body); len(text) > 0 {
			if err := json.Compact(&body, text); err != nil {
				t.Error(err)
			}
		}
		got = append(got, request{r.Method, r.RequestURI, body.String()})
		if user, password, _ := r.BasicAuth(); user != "terraform" || password != secret ||
			r.Header.Get("X-Tenant") != "a" || r.UserAgent() != "agent" {
			t.Errorf("the headers are %v", r.Header)
		}
		if r.Method == http.MethodGet {
			answer(w, 200,
				`[{"source":"a/b","routing_key":"k","destination":"q?","destination_type":"queue",`+
					`"arguments":{"x":1},"properties_key":"k~h%20h"}]`)
			return
		}
		answer(w, 201, "")
	}), func(c *rabbit.Config) {
		c.Endpoint += "/rabbit//"
		c.Headers = map[string]string{"x-tenant": "a"}
		c.UserAgent = "agent"
	})
	for _, test := range []struct {
		step plan.Step
		want []request
	}{
		{
			plan.DeclareExchange{Exchange: topology.Exchange{Name: "a/b %#", Type: "topic", Internal: true}},
			[]request{{"PUT", "/rabbit/api/exchanges/v%2F%C3%A9/a%2Fb%20%25%23",
				`{"type":"topic","durable":false,"auto_delete":false,"internal":true,"arguments":{}}`}},
		},
		{
			plan.DeclareQueue{Queue: topology.Queue{Name: "q?", Durable: true,
				Arguments: topology.Arguments{"x-message-ttl": int64(134217728000)}}},
			[]request{{"PUT", "/rabbit/api/queues/v%2F%C3%A9/q%3F",
				`{"durable":true,"auto_delete":false,"arguments":{"x-message-ttl":134217728000}}`}},
		},
		{
			plan.Unbind{Binding: topology.Binding{Source: "a/b", RoutingKey: "*.1~ #",
				DestinationType: topology.ToQueue, Destination: "q?"}},
			[]request{{"DELETE", "/rabbit/api/bindings/v%2F%C3%A9/e/a%2Fb/q/q%3F/%252A.1%257E+%2523", ""}},
		},
		{
			plan.Unbind{Binding: topology.Binding{Source: "a/b", DestinationType: topology.ToExchange,
				Destination: "c"}},
			[]request{{"DELETE", "/rabbit/api/bindings/v%2F%C3%A9/e/a%2Fb/e/c/~", ""}},
		},
		{
			plan.Unbind{Binding: topology.Binding{Source: "a/b", RoutingKey: "k", DestinationType: topology.ToQueue,
				Destination: "q?", Arguments: `{"x":1}`}},
			[]request{
				{"GET", "/rabbit/api/bindings/v%2F%C3%A9/e/a%2Fb/q/q%3F", ""},
				{"DELETE", "/rabbit/api/bindings/v%2F%C3%A9/e/a%2Fb/q/q%3F/k~h%2520h", ""},
			},
		},
		{
			plan.DeleteExchange{Name: "a/b", IfUnused: true},
			[]request{{"DELETE", "/rabbit/api/exchanges/v%2F%C3%A9/a%2Fb?if-unused=true", ""}},
		},
	} {
		got = nil
		if _, err := engine.Run(t.Context(), c.Vhost("v/é"), plan.Plan{{Steps: []plan.Step{test.step}}}); err != nil {
			t.Errorf("%s: %v", test.step, err)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: sent\n%v, want\n%v", test.step, got, test.want)
		}
	}
}

// TestOddJSON reads what unhealthy and old queues are described with.
func TestOddJSON(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/queues/v/tasks.delay-00":
			answer(w, 200, `{"name":"tasks.delay-00","durable":true,"auto_delete":"undefined","exclusive":null,
				"arguments":[],"messages":null,"consumers":"","policy":null,"operator_policy":"",
				"effective_policy_definition":[],"garbage_collection":"what"}`)
		case "/api/exchanges/v":
			answer(w, 200,
				`[{"name":"amq.direct"},{"name":"tasks.delay-00","type":"topic","durable":true,"arguments":[]}]`)
		default:
			answer(w, 200, `[]`)
		}
	})
	state, err := c.Vhost("v").Read(t.Context(), expand(t, delay.Config{Name: "tasks", Levels: 1}))
	if err != nil {
		t.Fatal(err)
	}
	if want := (topology.Queue{Name: "tasks.delay-00", Durable: true}); !state.Queues["tasks.delay-00"].Equal(want) {
		t.Errorf("the queue is read as %v", state.Queues)
	}
	if !state.Exchanges["tasks.delay-00"].Equal(topology.Exchange{Name: "tasks.delay-00", Type: "topic",
		Durable: true}) {
		t.Errorf("the exchange is read as %v", state.Exchanges)
	}
}

// TestNotManagementAPI has endpoints that answer, but not as RabbitMQ does.
func TestNotManagementAPI(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"404 for everything": http.NotFound,
		"a page":             func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, "<html>") },
		"an empty page":      func(http.ResponseWriter, *http.Request) {},
		"an empty list":      func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, "[]") },
		"an object":          func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, "{}") },
		"404 as RabbitMQ has": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 404, `{"error":"Object Not Found","reason":"Not Found"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, handler, func(c *rabbit.Config) { c.RetryTimeout = onceMore })
			_, err := c.Vhost("/").Read(t.Context(), expand(t, delay.Config{Name: "tasks", Levels: 3}))
			if !rabbit.IsKind(err, rabbit.NotManagementAPI) {
				t.Errorf("Read gives %v", err)
			}
			if _, _, err := c.Vhost("/").Queue(t.Context(), "q"); !rabbit.IsKind(err, rabbit.NotManagementAPI) {
				t.Errorf("Lookup gives %v", err)
			}
		})
	}
}

// TestStartingBroker answers 404 to writes for a while, as RabbitMQ does when it starts, and loses the answer of one
// before.
func TestStartingBroker(t *testing.T) {
	for name, step := range map[string]plan.Step{
		"declaration": plan.DeclareExchange{Exchange: topology.Exchange{Name: "e", Type: "topic",
			Durable: true}},
		"binding to an exchange": plan.Bind{Binding: topology.Binding{Source: "e", RoutingKey: "k",
			DestinationType: topology.ToExchange, Destination: "e"}},
		"binding to a queue": plan.Bind{Binding: topology.Binding{Source: "e", RoutingKey: "k",
			DestinationType: topology.ToQueue, Destination: "q"}},
	} {
		t.Run(name, func(t *testing.T) {
			var writes atomic.Int32
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodGet:
					answer(w, 200, fmt.Sprintf(`{"name":%q}`, path.Base(r.URL.Path)))
				case writes.Add(1) == 1:
					abort(w)
				case writes.Load() < 4:
					answer(w, 404, `{"error":"Object Not Found","reason":"Not Found"}`)
				default:
					w.WriteHeader(http.StatusNoContent) // it is there already
				}
			})
			done, err := engine.Run(t.Context(), c.Vhost("v"), plan.Plan{{Steps: []plan.Step{step}}})
			if err != nil || len(done) != 1 {
				t.Errorf("done %v, error %v; the first attempt may have had an effect", done, err)
			}
		})
	}
}

// TestStartedJustNow answers 404 to the first question, as a broker that starts does, and then to no other. Where
// nothing is tried again, either, nothing is missing.
func TestStartedJustNow(t *testing.T) {
	t.Parallel()
	for name, exists := range map[string]func(context.Context, *rabbit.Vhost) (bool, error){
		"queue": func(ctx context.Context, v *rabbit.Vhost) (bool, error) {
			_, exists, err := v.Queue(ctx, "x")
			return exists, err
		},
		"exchange": func(ctx context.Context, v *rabbit.Vhost) (bool, error) {
			_, exists, err := v.Exchange(ctx, "x")
			return exists, err
		},
		"count": func(ctx context.Context, v *rabbit.Vhost) (bool, error) {
			count, err := v.Count(ctx, "x", rabbit.CountedNow)
			return count != nil, err
		},
		"bindings": func(ctx context.Context, v *rabbit.Vhost) (bool, error) {
			bindings, err := v.BindingsFrom(ctx, "x")
			return len(bindings) > 0, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var starts atomic.Bool
			c := serve(t, asRabbitMQ(func(w http.ResponseWriter, r *http.Request) {
				switch name := path.Base(r.URL.Path); {
				case !starts.Swap(true):
					answer(w, 404, `{"error":"Object Not Found","reason":"Not Found"}`)
				case name == "source":
					answer(w, 200, `[{"source":"x","destination":"q","destination_type":"queue","routing_key":"k"}]`)
				default:
					answer(w, 200, fmt.Sprintf(`{"name":%q,"messages":1}`, name))
				}
			}), func(c *rabbit.Config) { c.RetryTimeout = 0 })
			if there, err := exists(t.Context(), c.Vhost("v")); err != nil || !there {
				t.Errorf("it is there: %t, error %v", there, err)
			}
		})
	}
}

// endsOnDemand is a context whose time is over when the test says so.
type endsOnDemand struct {
	context.Context
	over chan struct{}
}

func (c endsOnDemand) Done() <-chan struct{} { return c.over }

func (c endsOnDemand) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestQueueWithoutReplicas has a queue whose deletion was cut off, as RabbitMQ 4.0.5 shows it: nobody counts it. The
// operation's time is over while it asks for the count again and again.
func TestQueueWithoutReplicas(t *testing.T) {
	ctx := endsOnDemand{t.Context(), make(chan struct{})}
	var questions atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if readsTick(r) && questions.Add(1) == 3 {
			close(ctx.over)
		}
		switch name := path.Base(r.URL.Path); {
		case strings.Contains(r.URL.Path, "/queues/"):
			answer(w, 200, fmt.Sprintf(`{"name":%q,"messages":0,"messages_ready":0,"members":["a"],"online":["a"]}`,
				name))
		case strings.Contains(r.URL.Path, "/exchanges/"):
			answer(w, 200, `[{"name":"amq.direct","type":"direct"}]`)
		case name == "overview":
			answer(w, 200, `{"rabbitmq_version":"3.10.8"}`)
		default:
			answer(w, 200, `[]`)
		}
	})
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum"}}
	done, err := engine.Run(ctx, c.Vhost("v"),
		plan.Plan{{Steps: []plan.Step{plan.DeleteQueue{Queue: q, IfEmpty: true}}}})
	if len(done) > 0 || !rabbit.IsKind(err, rabbit.Unavailable) || !strings.Contains(err.Error(), "has not counted") ||
		!strings.Contains(err.Error(), "rabbitmqctl delete_queue") {
		t.Errorf("done %v, the error is %v", done, err)
	}
}

// TestQuotedSecret asks for a queue, and what answers names the request instead, secrets and all.
func TestQuotedSecret(t *testing.T) {
	t.Parallel()
	const token = `token "with\quotes`
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"name": "a request with " + r.Header.Get("X-Token")})
	}))
	t.Cleanup(gateway.Close)
	client, err := rabbit.New(rabbit.Config{Endpoint: gateway.URL, Username: "guest", Password: "guest",
		Headers: map[string]string{"X-Token": token}})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = client.Vhost("/").Queue(t.Context(), "q")
	if err == nil || !strings.Contains(err.Error(), "a request with ***") || strings.Contains(err.Error(), "quotes") {
		t.Errorf("the error is: %v", err)
	}
}

// TestLeftOut has two recreations that are refused, and a phase that needs the first of them, or both. Each error names
// the parts left out for its sake, and no other.
func TestLeftOut(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 400, `{"error":"bad_request","reason":"exchange in use"}`)
	})
	recreates := func(name string) plan.Phase {
		return plan.Phase{Steps: []plan.Step{plan.DeleteExchange{Name: name, IfUnused: true}},
			Recreates: topology.ExchangeObject(name)}
	}
	later := []plan.Step{plan.DeleteExchange{Name: "later"}}
	for name, needs := range map[string][]string{"the first": {"a"}, "both": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			objects := make([]string, len(needs))
			for i, n := range needs {
				objects[i] = topology.ExchangeObject(n)
			}
			_, err := engine.Run(t.Context(), c.Vhost("v"), plan.Plan{recreates("a"), recreates("b"),
				{Steps: later, Needs: objects}})
			var leftOut *engine.LeftOutError
			if !errors.As(err, &leftOut) || !slices.Equal(names(leftOut.Left), names(later)) {
				t.Fatalf("the error is %v", err)
			}
			for _, n := range []string{"a", "b"} {
				object := topology.ExchangeObject(n)
				if blamed := strings.Contains(leftOut.Err.Error(), object); blamed != slices.Contains(objects,
					object) || strings.Count(err.Error(), object) != 1 {
					t.Errorf("%s is blamed: %t: %s", object, blamed, err)
				}
			}
		})
	}
}

// TestWriteThatNobodyMade has a gateway answer writes in RabbitMQ's place, with a success that is not one of
// RabbitMQ's.
func TestWriteThatNobodyMade(t *testing.T) {
	t.Parallel()
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
	b := topology.Binding{Source: "e", RoutingKey: "k", DestinationType: topology.ToQueue, Destination: "q"}
	for _, step := range []plan.Step{
		plan.DeclareExchange{Exchange: topology.Exchange{Name: "e", Type: "topic"}},
		plan.DeclareQueue{Queue: q},
		plan.Bind{Binding: b}, plan.Unbind{Binding: b}, plan.DeleteExchange{Name: "e"},
		plan.DeleteQueue{Queue: q},
	} {
		for _, status := range []int{http.StatusOK, http.StatusAccepted, http.StatusResetContent} {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				answer(w, status, "<html>Sign in</html>")
			})
			_, err := engine.Run(t.Context(), client.Vhost("v"), plan.Plan{{Steps: []plan.Step{step}}})
			if !rabbit.IsKind(err, rabbit.NotManagementAPI) {
				t.Errorf("%s, answered %d: %v", step, status, err)
			}
		}
	}
}

// lockedBuffer takes the lines of several loggers: each subsystem of a request has a lock of its own.
type lockedBuffer struct {
	mutex sync.Mutex
	lines bytes.Buffer
}

func (b *lockedBuffer) Write(line []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.lines.Write(line)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.lines.String()
}
