package rabbit_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// link passes AMQP on to the shared broker.
type link struct {
	net.Listener
	server string // its address
	passes bool
	log    io.Writer

	connections, ended atomic.Int32
}

// newLink passes on what a client sends, or nothing, and keeps the connection. All that a client sends is also written
// to the log, whose error ends the connection.
func newLink(t *testing.T, passes bool, log ...io.Writer) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Listener: listener, server: amqpOf(t).Host, passes: passes, log: io.MultiWriter(log...)}
	var connections sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		connections.Wait()
	})
	connections.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			l.connections.Add(1)
			connections.Go(func() { l.pass(client) })
		}
	})
	return l
}

// pass passes one connection on.
func (l *link) pass(client net.Conn) {
	defer l.ended.Add(1)
	defer func() { _ = client.Close() }()
	sent := io.TeeReader(client, l.log)
	if !l.passes {
		_, _ = io.Copy(io.Discard, sent)
		return
	}
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	_, _ = io.Copy(server, sent)
}

func amqpOf(t testing.TB) *url.URL {
	t.Helper()
	uri, err := url.Parse(brokertest.Shared(t).AMQPURI)
	if err != nil {
		t.Fatal(err)
	}
	return uri
}

// over leads a client through the link.
func (l *link) over(t *testing.T) func(*rabbit.Config) {
	uri := amqpOf(t)
	uri.Host = l.Addr().String()
	return func(c *rabbit.Config) { c.AMQPURI = uri.String() }
}

// requests counts the bindings that a client makes over HTTP, and the exchanges that it deletes.
type requests struct {
	over                func(*rabbit.Config)
	bindings, deletions atomic.Int32
}

func countRequests(t *testing.T) *requests {
	t.Helper()
	counted := &requests{}
	counted.over = gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/api/bindings/") {
			counted.bindings.Add(1)
		}
		if r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/api/exchanges/") {
			counted.deletions.Add(1)
		}
		forward.ServeHTTP(w, r)
	})
	return counted
}

// manyBindings is a topology of two exchanges, the queue q, and bindings from one exchange to the others.
func manyBindings() topology.Topology {
	want := topology.New()
	for _, name := range []string{"source", "destination"} {
		want.Exchanges[name] = topology.Exchange{Name: name, Type: "topic", Durable: true}
	}
	want.Queues["q"] = topology.Queue{Name: "q", Durable: true,
		Arguments: topology.Arguments{"x-queue-type": "classic"}}
	for i := range 400 {
		b := topology.Binding{Source: "source", RoutingKey: fmt.Sprintf("%0100d", i), DestinationType: topology.ToQueue,
			Destination: "q"}
		if i%2 == 0 {
			b.DestinationType, b.Destination = topology.ToExchange, "destination"
		}
		want.Bindings.Add(b)
	}
	return want
}

// TestCreateWithoutAMQP makes cascades, deletes them by force, and counts the requests: each binding and each deletion
// of an exchange is one. No AMQP connection is opened.
func TestCreateWithoutAMQP(t *testing.T) {
	t.Parallel()
	for _, levels := range []int{4, 28} {
		t.Run(fmt.Sprintf("%d levels", levels), func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			counted, l := countRequests(t), newLink(t, true)
			client := connect(t, counted.over, l.over(t))
			want := expand(t, delay.Config{Name: "tasks", Levels: levels, QueueType: delay.Classic,
				CreateDeliveryExchange: true, ParkUnroutable: true})
			todo := plan.Repair(want, topology.New())
			if done := run(t, client, vhost, todo); len(done) != len(todo.Steps()) {
				t.Errorf("%d of %d steps are done", len(done), len(todo.Steps()))
			}
			there := read(t, client, vhost, want)
			if got := there.Bindings; !maps.Equal(got, want.Bindings) {
				t.Errorf("%d of %d bindings are there", len(got), len(want.Bindings))
			}
			if got := int(counted.bindings.Load()); got != len(want.Bindings) {
				t.Errorf("%d bindings were requested, not %d", got, len(want.Bindings))
			}
			teardown := plan.Teardown(want, there.Topology, plan.Guard{Force: true})
			run(t, client, vhost, append(teardown, plan.DeleteShared(want.Delivery, true)...))
			if left := read(t, client, vhost, want); !left.IsEmpty() {
				t.Errorf("these are left: %v", left.Objects())
			}
			if got := int(counted.deletions.Load()); got != len(want.Exchanges) {
				t.Errorf("%d exchanges were deleted, not %d", got, len(want.Exchanges))
			}
			if got := l.connections.Load(); got > 0 {
				t.Errorf("%d AMQP connections were opened", got)
			}
		})
	}
}

// TestOneConnection runs several plans over one connection.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	vhost, l := brokertest.Vhost(t, brokertest.Shared(t)), newLink(t, true)
	v := engine.OnBroker(connect(t, l.over(t)).Vhost(vhost))
	t.Cleanup(v.Close)
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
	for range 2 {
		if _, err := v.Run(t.Context(),
			plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.connections.Load(); got != 1 {
		t.Errorf("%d connections were opened", got)
	}
}

// TestNoAMQP looks into a queue where AMQP cannot be reached or does not answer, and does not wait for it for long.
func TestNoAMQP(t *testing.T) {
	hangs := newLink(t, false)
	_, port, _ := net.SplitHostPort(hangs.Addr().String())
	for name, config := range map[string]func(*rabbit.Config){"closed": noAMQP(t), "hangs": derived(t, port, "")} {
		t.Run(name, func(t *testing.T) {
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			client := connect(t, config)
			q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
			run(t, client, vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
			err := upToThreeTimes(func() error {
				began := time.Now()
				run(t, client, vhost,
					plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}}}}})
				if took := time.Since(began); took > 6*time.Second {
					return fmt.Errorf("it took %s", took)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(2 * time.Second); hangs.ended.Load() != hangs.connections.Load(); {
		if time.Now().After(deadline) {
			t.Fatal("the attempt to open a connection goes on after the run")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestRefusedBinding has one of many bindings fail: all that are there are reported as done.
func TestRefusedBinding(t *testing.T) {
	b := brokertest.Shared(t)
	for name, test := range map[string]struct {
		destination string
		kind        rabbit.Kind
	}{
		"missing":   {"absent", rabbit.NotFound},
		"forbidden": {"forbidden", rabbit.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			vhost := brokertest.Vhost(t, b)
			run(t, connect(t), vhost, plan.Plan{{Steps: []plan.Step{
				plan.DeclareQueue{Queue: topology.Queue{Name: "forbidden", Durable: true,
					Arguments: topology.Arguments{"x-queue-type": "classic"}}},
			}}})
			user := user(t, "management", vhost, allow("^(q|source|destination|absent)$"))
			want := manyBindings()
			want.Bindings.Add(topology.Binding{Source: "source", RoutingKey: "wrong", DestinationType: topology.ToQueue,
				Destination: test.destination})
			client := connect(t, user)
			done, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Repair(want, topology.New()))
			areDone(t, read(t, client, vhost, want).Bindings, done)
			says(t, err, test.kind, fmt.Sprintf("to queue %q", test.destination))
		})
	}
}

// areDone makes sure that the bindings that are there were reported as done.
func areDone(t *testing.T, there topology.Bindings, done []plan.Step) {
	t.Helper()
	for b := range there {
		if !slices.Contains(names(done), plan.Bind{Binding: b}.String()) {
			t.Errorf("this is there, but not done: %v", b)
		}
	}
}

// TestCanceledBinding is canceled in the middle of many bindings.
func TestCanceledBinding(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := manyBindings()
	var bindings atomic.Int32
	client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if r.Method == http.MethodPost && bindings.Add(1) == 200 {
			cancel()
		}
		forward.ServeHTTP(w, r)
	}))
	done, err := engine.Run(ctx, client.Vhost(vhost), plan.Repair(want, topology.New()))
	if !rabbit.IsKind(err, rabbit.Canceled) {
		t.Errorf("the error is %v", err)
	}
	there := read(t, client, vhost, want).Bindings
	if len(there) == 0 || len(there) == len(want.Bindings) {
		t.Errorf("%d of %d bindings are there", len(there), len(want.Bindings))
	}
	areDone(t, there, done)
}
