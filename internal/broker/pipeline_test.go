package broker_test

import (
	"bytes"
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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// link passes AMQP on to the shared broker.
type link struct {
	net.Listener
	server string // its address
	limit  int64
	closes bool
	log    io.Writer

	connections, ended atomic.Int32
	// lost is set when the broker ends a connection that the client has not.
	lost atomic.Bool
	// worn is closed when a client has sent as much as the link takes.
	worn chan struct{}
	wear func()
}

// newLink takes so many bytes from a client, or any number if that is negative. Then it closes the connection, or keeps
// it and passes nothing on. All that a client sends, passed on or not, is also written to the log.
func newLink(t *testing.T, limit int64, closes bool, log ...io.Writer) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Listener: listener, server: amqpOf(t).Host, limit: limit, closes: closes, log: io.MultiWriter(log...),
		worn: make(chan struct{})}
	l.wear = sync.OnceFunc(func() { close(l.worn) })
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
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	sent := io.TeeReader(client, l.log)
	var left atomic.Bool
	defer left.Store(true)
	if l.limit != 0 {
		go func() {
			_, _ = io.Copy(client, server)
			if !left.Load() {
				l.lost.Store(true)
			}
			_ = client.Close()
		}()
	}
	if l.limit < 0 {
		_, _ = io.Copy(server, sent)
		return
	}
	if _, err := io.CopyN(server, sent, l.limit); err != nil {
		return
	}
	l.wear()
	if !l.closes {
		_, _ = io.Copy(io.Discard, sent)
	}
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
func (l *link) over(t *testing.T) func(*broker.Config) {
	uri := amqpOf(t)
	uri.Host = l.Addr().String()
	return func(c *broker.Config) { c.AMQPURI = uri.String() }
}

// requests counts the bindings that a client makes over HTTP, and the exchanges that it deletes.
type requests struct {
	over                func(*broker.Config)
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

// ready is a runner that has its AMQP connection, if it can have one.
func ready(t *testing.T, client *broker.Client, vhost string) *broker.Runner {
	t.Helper()
	runner := client.Begin(vhost)
	t.Cleanup(runner.Close)
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
	if _, err := runner.Run(t.Context(), plans.Plan{
		{Steps: []plans.Step{plans.DeclareQueue{Queue: q}}},
		{Steps: []plans.Step{plans.VerifyEmpty{Queues: []topology.Queue{q}}}},
	}); err != nil {
		t.Fatal(err)
	}
	return runner
}

// manyBindings is a topology of two exchanges, the queue q, and bindings from one exchange to the others. They take
// some 60,000 bytes on their way.
func manyBindings() topology.Topology {
	want := topology.New()
	for _, name := range []string{"source", "destination"} {
		want.Exchanges[name] = topology.Exchange{Name: name, Type: "topic", Durable: true}
	}
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

// TestCascadeOverAMQP makes cascades and counts the bindings that are requested over HTTP. Of many, none is, not even
// those of the entry, which come last and are few. Of few, all are.
func TestCascadeOverAMQP(t *testing.T) {
	t.Parallel()
	for levels, many := range map[int]bool{28: true, 4: false} {
		t.Run(fmt.Sprintf("%d levels", levels), func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			counted, l := countRequests(t), newLink(t, -1, false)
			client := connect(t, counted.over, l.over(t))
			want := expand(t, cascade.Config{Name: "tasks", Levels: levels, QueueType: cascade.Classic,
				CreateDeliveryExchange: true, ParkUnroutable: true})
			wanted := len(want.Bindings)
			plan := plans.Repair(want, topology.New())
			var done []plans.Step
			if many {
				wanted = 0
				done, _ = ready(t, client, vhost).Run(t.Context(), plan)
			} else {
				done = run(t, client, vhost, plan)
			}
			if len(done) != len(plan.Steps()) {
				t.Errorf("%d of %d steps are done", len(done), len(plan.Steps()))
			}
			if got := read(t, client, vhost, want).Bindings; !maps.Equal(got, want.Bindings) {
				t.Errorf("%d of %d bindings are there", len(got), len(want.Bindings))
			}
			if got := int(counted.bindings.Load()); got != wanted {
				t.Errorf("%d bindings were made over HTTP, not %d", got, wanted)
			}
			if got := int(l.connections.Load()); got > 0 != many {
				t.Errorf("%d AMQP connections were opened", got)
			}
		})
	}
}

// TestAMQPWhileBinding begins to bind over HTTP, and goes on over AMQP as soon as it is open.
func TestAMQPWhileBinding(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	var bindings atomic.Int32
	client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/api/bindings/") && bindings.Add(1) > 32 {
			time.Sleep(10 * time.Millisecond) // all of them would take a second
		}
		for strings.HasPrefix(r.URL.Path, "/api/cluster-name") && bindings.Load() < 32 {
			time.Sleep(time.Millisecond)
		}
		forward.ServeHTTP(w, r)
	}))
	want := manyBindings()
	want.Queues["q"] = topology.Queue{Name: "q", Durable: true,
		Arguments: topology.Arguments{"x-queue-type": "classic"}}
	create(t, client, vhost, want)
	if got := int(bindings.Load()); got < 32 || got == len(want.Bindings) {
		t.Errorf("%d of %d bindings were made over HTTP", got, len(want.Bindings))
	}
}

// TestExchangesDeletedOverAMQP deletes exchanges that are bound to each other, and counts the deletions over HTTP. All
// go over HTTP where the broker can do several at the same time, and none where it does one after the other. All do
// again when AMQP ends in the middle.
func TestExchangesDeletedOverAMQP(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int64{"all": -1, "until AMQP ends": 10_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Shared(t)
			vhost := brokertest.Vhost(t, b)
			counted, l := countRequests(t), newLink(t, limit, true)
			client := connect(t, counted.over, l.over(t))
			want := chainOfExchanges(100)
			create(t, connect(t), vhost, want)
			var deletions []plans.Step
			for _, name := range slices.Sorted(maps.Keys(want.Exchanges)) {
				deletions = append(deletions, plans.DeleteExchange{Name: name})
			}
			done, err := ready(t, client, vhost).Run(t.Context(), plans.Plan{{Steps: deletions}})
			if err != nil || len(done) != len(deletions) {
				t.Errorf("%d of %d are done: %v", len(done), len(deletions), err)
			}
			if left := read(t, client, vhost, want); len(left.Exchanges)+len(left.Bindings) > 0 {
				t.Errorf("%d exchanges and %d bindings are left", len(left.Exchanges), len(left.Bindings))
			}
			wanted := len(deletions)
			if oneByOne := strings.HasPrefix(b.Version, "3.") || strings.HasPrefix(b.Version, "4.0"); oneByOne &&
				limit < 0 {
				wanted = 0
			}
			if got := int(counted.deletions.Load()); got != wanted {
				t.Errorf("%d exchanges were deleted over HTTP, not %d", got, wanted)
			}
		})
	}
}

// chainOfExchanges is n exchanges, each bound to the one before, in the order of their names, which are long.
func chainOfExchanges(n int) topology.Topology {
	chain, before := topology.New(), ""
	for i := range n {
		e := topology.Exchange{Name: fmt.Sprintf("%0200d", i), Type: "topic", Durable: true}
		chain.Exchanges[e.Name] = e
		if before != "" {
			chain.Bindings.Add(topology.Binding{Source: before, RoutingKey: "#",
				DestinationType: topology.ToExchange, Destination: e.Name})
		}
		before = e.Name
	}
	return chain
}

// TestOneConnection runs several plans over one connection.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	vhost, l := brokertest.Vhost(t, brokertest.Shared(t)), newLink(t, -1, false)
	runner := connect(t, l.over(t)).Begin(vhost)
	t.Cleanup(runner.Close)
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
	for range 2 {
		if _, err := runner.Run(t.Context(),
			plans.Plan{{Steps: []plans.Step{plans.VerifyEmpty{Queues: []topology.Queue{q}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.connections.Load(); got != 1 {
		t.Errorf("%d connections were opened", got)
	}
}

// TestNoAMQP binds where AMQP cannot be reached or does not answer, and does not wait for it.
func TestNoAMQP(t *testing.T) {
	hangs := newLink(t, 0, false)
	for name, config := range map[string]func(*broker.Config){"closed": noAMQP, "hangs": hangs.over(t)} {
		t.Run(name, func(t *testing.T) {
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			counted := countRequests(t)
			client := connect(t, counted.over, config)
			exchange := topology.Exchange{Name: "e", Type: "topic", Durable: true}
			run(t, client, vhost, plans.Plan{{Steps: []plans.Step{plans.DeclareExchange{Exchange: exchange}}}})
			var binds []plans.Step
			for i := range 33 {
				binds = append(binds, plans.Bind{Binding: topology.Binding{Source: "e", RoutingKey: fmt.Sprint(i),
					DestinationType: topology.ToExchange, Destination: "e"}})
			}
			began := time.Now()
			if done := run(t, client, vhost, plans.Plan{{Steps: binds}}); len(done) != len(binds) {
				t.Errorf("done are %v", names(done))
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %s", took)
			}
			if got := int(counted.bindings.Load()); got != len(binds) {
				t.Errorf("%d of %d bindings were made over HTTP", got, len(binds))
			}
		})
	}
	for deadline := time.Now().Add(time.Second); hangs.ended.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the attempt to open a connection goes on after the run")
		}
	}
}

// TestAMQPEndsWhileBinding has the connection break or fall silent in the middle of the bindings.
func TestAMQPEndsWhileBinding(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]bool{"closed": true, "silent": false} {
		for _, limit := range []int64{5_000, 20_000, 40_000} {
			t.Run(fmt.Sprintf("%s after %d bytes", name, limit), func(t *testing.T) {
				t.Parallel()
				vhost := brokertest.Vhost(t, brokertest.Shared(t))
				l := newLink(t, limit, closes)
				client := connect(t, l.over(t), func(c *broker.Config) { c.RequestTimeout = 2 * time.Second })
				want := manyBindings()
				done, err := ready(t, client, vhost).Run(t.Context(), plans.Repair(want, topology.New()))
				if err != nil {
					t.Fatal(err)
				}
				select {
				case <-l.worn:
				default:
					t.Error("the connection did not end")
				}
				if len(done) != len(want.Exchanges)+len(want.Bindings) {
					t.Errorf("%d steps are done", len(done))
				}
				if got := read(t, client, vhost, want).Bindings; !maps.Equal(got, want.Bindings) {
					t.Errorf("%d of %d bindings are there", len(got), len(want.Bindings))
				}
			})
		}
	}
}

// TestRefusedOverAMQP has one of many bindings fail: the error is that of the management API.
func TestRefusedOverAMQP(t *testing.T) {
	b := brokertest.Shared(t)
	for name, test := range map[string]struct {
		destination string
		kind        broker.Kind
	}{
		"missing":   {"absent", broker.NotFound},
		"forbidden": {"forbidden", broker.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			vhost := brokertest.Vhost(t, b)
			run(t, connect(t), vhost, plans.Plan{{Steps: []plans.Step{
				plans.DeclareQueue{Queue: topology.Queue{Name: "forbidden", Durable: true,
					Arguments: topology.Arguments{"x-queue-type": "classic"}}},
			}}})
			user := user(t, "management", vhost, allow("^(q|source|destination|absent)$"))
			want := manyBindings()
			wrong := topology.Binding{Source: "source", RoutingKey: "wrong", DestinationType: topology.ToQueue,
				Destination: test.destination}
			want.Bindings.Add(wrong)
			failures := map[string]error{}
			for way, config := range map[string]func(*broker.Config){"AMQP": func(*broker.Config) {}, "HTTP": noAMQP} {
				l := newLink(t, -1, false)
				client := connect(t, l.over(t), user, config)
				done, err := ready(t, client, vhost).Run(t.Context(), plans.Repair(want, topology.New()))
				failures[way] = err
				if way != "AMQP" {
					continue
				}
				if l.connections.Load() == 0 {
					t.Error("there was no connection")
				}
				areDone(t, read(t, client, vhost, want).Bindings, done)
			}
			says(t, failures["AMQP"], test.kind, fmt.Sprintf("to queue %q", test.destination))
			if fmt.Sprint(failures["AMQP"]) != fmt.Sprint(failures["HTTP"]) {
				t.Errorf("over AMQP: %v\nover HTTP: %v", failures["AMQP"], failures["HTTP"])
			}
		})
	}
}

// areDone makes sure that the bindings that are there were reported as done.
func areDone(t *testing.T, there topology.Bindings, done []plans.Step) {
	t.Helper()
	for b := range there {
		if !slices.Contains(names(done), plans.Bind{Binding: b}.String()) {
			t.Errorf("this is there, but not done: %v", b)
		}
	}
}

// TestCanceledBinding is canceled while it waits for the broker to bind: all is sent, and a part of that never gets
// there. The cancellation ends the wait, not the broker, which misses the client's heartbeats some time later.
func TestCanceledBinding(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := manyBindings()
	l := newLink(t, 20_000, false, &keyCounter{n: len(want.Bindings), counted: cancel})
	client := connect(t, l.over(t), func(c *broker.Config) { c.RequestTimeout = time.Hour })
	done, err := ready(t, client, vhost).Run(ctx, plans.Repair(want, topology.New()))
	if !broker.IsKind(err, broker.Canceled) || l.lost.Load() {
		t.Errorf("the broker has ended the connection: %t; the error is %v", l.lost.Load(), err)
	}
	there := read(t, client, vhost, want).Bindings
	for len(there) == 0 { // what has got there will be done
		there = read(t, client, vhost, want).Bindings
	}
	if len(there) == len(want.Bindings) {
		t.Errorf("%d of %d bindings are there", len(there), len(want.Bindings))
	}
	areDone(t, there, done)
}

// keyCounter is a log of sent keys. It calls counted when n keys of manyBindings are in it.
type keyCounter struct {
	sent    bytes.Buffer
	n       int
	counted func()
}

func (c *keyCounter) Write(p []byte) (int, error) {
	c.sent.Write(p)
	if bytes.Count(c.sent.Bytes(), bytes.Repeat([]byte("0"), 97)) >= c.n {
		c.counted()
	}
	return len(p), nil
}
