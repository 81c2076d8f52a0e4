package broker_test

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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// link passes AMQP on to the shared broker.
type link struct {
	net.Listener
	connections, ended atomic.Int32
	// worn is closed when a client has sent as much as the link takes.
	worn chan struct{}
}

// newLink takes so many bytes from a client, or any number if that is negative. Then it closes the connection, or keeps
// it and passes nothing on.
func newLink(t *testing.T, limit int64, closes bool) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Listener: listener, worn: make(chan struct{})}
	var connections sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		connections.Wait()
	})
	host := amqpOf(t).Host
	connections.Go(func() {
		for once := sync.OnceFunc(func() { close(l.worn) }); ; {
			client, err := l.Accept()
			if err != nil {
				return
			}
			l.connections.Add(1)
			connections.Go(func() {
				defer l.ended.Add(1)
				defer func() { _ = client.Close() }()
				server, err := net.Dial("tcp", host)
				if err != nil {
					return
				}
				defer func() { _ = server.Close() }()
				if limit != 0 {
					go func() {
						_, _ = io.Copy(client, server)
						_ = client.Close()
					}()
				}
				if limit < 0 {
					_, _ = io.Copy(server, client)
					return
				}
				if _, err := io.CopyN(server, client, limit); err != nil {
					return
				}
				once()
				if !closes {
					_, _ = io.Copy(io.Discard, client)
				}
			})
		}
	})
	return l
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
	if _, err := runner.Run(t.Context(), topology.Plan{
		{Steps: []topology.Step{topology.DeclareQueue{Queue: q}}},
		{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}}}},
	}); err != nil {
		t.Fatal(err)
	}
	return runner
}

// manyBindings is a topology of two exchanges, the queue q, and bindings from one exchange to the others. They take some
// 60,000 bytes on their way.
func manyBindings() topology.Topology {
	want := topology.New()
	for _, name := range []string{"source", "destination"} {
		want.Exchanges[name] = topology.Exchange{Name: name, Type: "topic", Durable: true}
	}
	for i := range 400 {
		b := topology.Binding{Source: "source", RoutingKey: fmt.Sprintf("%0100d", i), DestinationType: topology.ToQueue, Destination: "q"}
		if i%2 == 0 {
			b.DestinationType, b.Destination = topology.ToExchange, "destination"
		}
		want.Bindings.Add(b)
	}
	return want
}

// TestCascadeOverAMQP makes cascades and counts the bindings that are requested over HTTP: of many, none, not even those of the
// entry, which come last and are few; of few, all.
func TestCascadeOverAMQP(t *testing.T) {
	for levels, many := range map[int]bool{28: true, 4: false} {
		t.Run(fmt.Sprintf("%d levels", levels), func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			counted, l := countRequests(t), newLink(t, -1, false)
			client := connect(t, counted.over, l.over(t))
			want := expand(t, cascade.Config{Name: "tasks", Levels: levels, QueueType: cascade.Classic, CreateDeliveryExchange: true, ParkUnroutable: true})
			wanted := len(want.Bindings)
			plan := topology.Diff(want, topology.New())
			var done []topology.Step
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
	want.Queues["q"] = topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
	create(t, client, vhost, want)
	if got := int(bindings.Load()); got < 32 || got == len(want.Bindings) {
		t.Errorf("%d of %d bindings were made over HTTP", got, len(want.Bindings))
	}
}

// TestExchangesDeletedOverAMQP deletes exchanges that are bound to each other, and counts the deletions that are requested over HTTP: all
// where the broker can do several at the same time, none where it does one after the other, and again all when AMQP ends in the middle.
func TestExchangesDeletedOverAMQP(t *testing.T) {
	for name, limit := range map[string]int64{"all": -1, "until AMQP ends": 10_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Shared(t)
			vhost := brokertest.Vhost(t, b)
			counted, l := countRequests(t), newLink(t, limit, true)
			client := connect(t, counted.over, l.over(t))
			want, before := topology.New(), ""
			var deletions []topology.Step
			for i := range 100 {
				e := topology.Exchange{Name: fmt.Sprintf("%0200d", i), Type: "topic", Durable: true}
				want.Exchanges[e.Name] = e
				deletions = append(deletions, topology.DeleteExchange{Name: e.Name})
				if before != "" {
					want.Bindings.Add(topology.Binding{Source: before, RoutingKey: "#", DestinationType: topology.ToExchange, Destination: e.Name})
				}
				before = e.Name
			}
			create(t, connect(t), vhost, want)
			done, err := ready(t, client, vhost).Run(t.Context(), topology.Plan{{Steps: deletions}})
			if err != nil || len(done) != len(deletions) {
				t.Errorf("%d of %d are done: %v", len(done), len(deletions), err)
			}
			if left := read(t, client, vhost, want); len(left.Exchanges)+len(left.Bindings) > 0 {
				t.Errorf("%d exchanges and %d bindings are left", len(left.Exchanges), len(left.Bindings))
			}
			wanted := len(deletions)
			if oneByOne := strings.HasPrefix(b.Version, "3.") || strings.HasPrefix(b.Version, "4.0"); oneByOne && limit < 0 {
				wanted = 0
			}
			if got := int(counted.deletions.Load()); got != wanted {
				t.Errorf("%d exchanges were deleted over HTTP, not %d", got, wanted)
			}
		})
	}
}

// TestConnect opens a connection before there is a plan, and the plan takes that one.
func TestConnect(t *testing.T) {
	t.Parallel()
	vhost, l := brokertest.Vhost(t, brokertest.Shared(t)), newLink(t, -1, false)
	runner := connect(t, l.over(t)).Begin(vhost)
	t.Cleanup(runner.Close)
	runner.Connect(t.Context(), 1)
	for deadline := time.Now().Add(time.Minute); l.connections.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no connection is opened")
		}
	}
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
	if _, err := runner.Run(t.Context(), topology.Plan{{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}}}}}); err != nil {
		t.Fatal(err)
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
			run(t, client, vhost, topology.Plan{{Steps: []topology.Step{topology.DeclareExchange{Exchange: exchange}}}})
			var binds []topology.Step
			for i := range 33 {
				binds = append(binds, topology.Bind{Binding: topology.Binding{Source: "e", RoutingKey: fmt.Sprint(i), DestinationType: topology.ToExchange, Destination: "e"}})
			}
			began := time.Now()
			if done := run(t, client, vhost, topology.Plan{{Steps: binds}}); len(done) != len(binds) {
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
	for name, closes := range map[string]bool{"closed": true, "silent": false} {
		for _, limit := range []int64{5_000, 20_000, 40_000} {
			t.Run(fmt.Sprintf("%s after %d bytes", name, limit), func(t *testing.T) {
				t.Parallel()
				vhost := brokertest.Vhost(t, brokertest.Shared(t))
				l := newLink(t, limit, closes)
				client := connect(t, l.over(t), func(c *broker.Config) { c.RequestTimeout = 2 * time.Second })
				want := manyBindings()
				done, err := ready(t, client, vhost).Run(t.Context(), topology.Diff(want, topology.New()))
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
			run(t, connect(t), vhost, topology.Plan{{Steps: []topology.Step{
				topology.DeclareQueue{Queue: topology.Queue{Name: "forbidden", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}},
			}}})
			user := user(t, "management", vhost, allow("^(q|source|destination|absent)$"))
			want := manyBindings()
			wrong := topology.Binding{Source: "source", RoutingKey: "wrong", DestinationType: topology.ToQueue, Destination: test.destination}
			want.Bindings.Add(wrong)
			failures := map[string]error{}
			for way, config := range map[string]func(*broker.Config){"AMQP": func(*broker.Config) {}, "HTTP": noAMQP} {
				l := newLink(t, -1, false)
				client := connect(t, l.over(t), user, config)
				done, err := ready(t, client, vhost).Run(t.Context(), topology.Diff(want, topology.New()))
				if failures[way] = err; way == "AMQP" && l.connections.Load() == 0 {
					t.Error("there was no connection")
				}
				for b := range read(t, client, vhost, want).Bindings {
					if way == "AMQP" && !slices.Contains(names(done), topology.Bind{Binding: b}.String()) {
						t.Errorf("this is there, but not done: %v", b)
					}
				}
			}
			says(t, failures["AMQP"], test.kind, fmt.Sprintf("to queue %q", test.destination))
			if fmt.Sprint(failures["AMQP"]) != fmt.Sprint(failures["HTTP"]) {
				t.Errorf("over AMQP: %v\nover HTTP: %v", failures["AMQP"], failures["HTTP"])
			}
		})
	}
}

// TestCanceledBinding is canceled while it waits for the broker to bind.
func TestCanceledBinding(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	l := newLink(t, 20_000, false)
	client := connect(t, l.over(t))
	want := manyBindings()
	runner := ready(t, client, vhost)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var canceled time.Time
	go func() {
		<-l.worn
		time.Sleep(100 * time.Millisecond) // everything is sent
		canceled = time.Now()
		cancel()
	}()
	done, err := runner.Run(ctx, topology.Diff(want, topology.New()))
	if took := time.Since(canceled); !broker.IsKind(err, broker.Canceled) || took > 3*time.Second {
		t.Errorf("%s after the end the error is %v", took, err)
	}
	there := read(t, client, vhost, want).Bindings
	if len(there) == 0 || len(there) == len(want.Bindings) {
		t.Errorf("%d of %d bindings are there", len(there), len(want.Bindings))
	}
	for b := range there {
		if !slices.Contains(names(done), topology.Bind{Binding: b}.String()) {
			t.Errorf("this is there, but not done: %v", b)
		}
	}
}
