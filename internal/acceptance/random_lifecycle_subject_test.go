package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// subject is what a random lifecycle runs on: Terraform with its state, and a vhost.
type subject interface {
	plan(configuration, schedule) (p *walk, refusal string)
	apply(*walk, schedule) (refusal string)
	inState() map[string]tftypes.Value
	objects() topology.Topology
	do(...plan.Step)
	publish(exchange, key, body string) bool // whether a queue has it by now
	take(queue string) (bodies []string)     // the ready messages of a queue
	arrivals() map[string][]brokertest.Arrival
}

// What every vhost has by itself: an exchange and queues with a consumer.
const events = "events"

var receivers = []string{"r0", "r1"}

// deadLetterRetry is when a quorum queue offers a message again that found no way.
const deadLetterRetry = 5 * time.Second

// realSubject goes through the plugin protocol to a broker.
type realSubject struct {
	*walker
	*vhost
	proxy    *brittle
	arriving map[string]*brokertest.Collector
}

func newRealSubject(t testing.TB, b *brokertest.Broker) *realSubject {
	forward, err := b.Forward()
	if err != nil {
		t.Fatal(err)
	}
	r := &realSubject{vhost: openVhost(t, b, brokertest.Vhost(t, b)), proxy: &brittle{forward: forward},
		arriving: map[string]*brokertest.Collector{}}
	server := httptest.NewUnstartedServer(r.proxy)
	server.Config.ErrorLog = quietLog
	server.Start()
	t.Cleanup(server.Close)
	front := *b
	front.Endpoint = server.URL
	r.walker = newWalker(t, &front, r.vhost.name)
	r.declareExchange(events, "topic")
	for _, queue := range receivers {
		r.declareQueue(queue, nil)
		r.arriving[queue] = r.consume(queue)
	}
	return r
}

func (r *realSubject) apply(p *walk, how schedule) string {
	r.proxy.breakAfter(how.Fails)
	defer r.proxy.breakAfter(0)
	return r.walker.apply(p, how)
}

func (r *realSubject) inState() map[string]tftypes.Value {
	all := map[string]tftypes.Value{}
	for key, h := range r.state {
		all[key] = h.state
	}
	return all
}

func (r *realSubject) publish(exchange, key, body string) bool {
	if r.out == nil {
		r.out = r.publisher()
	}
	return r.out.Publish(r.vhost.Context(), exchange, key,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}) == nil
}

func (r *realSubject) take(queue string) (bodies []string) {
	channel, err := r.conn.Channel()
	if err != nil {
		r.vhost.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	for {
		delivery, ok, err := channel.Get(queue, true)
		if err != nil {
			r.vhost.Fatal(err)
		}
		if !ok {
			return bodies
		}
		bodies = append(bodies, string(delivery.Body))
	}
}

func (r *realSubject) arrivals() map[string][]brokertest.Arrival {
	all := map[string][]brokertest.Arrival{}
	for queue, c := range r.arriving {
		all[queue] = c.Arrivals()
	}
	return all
}

// brittle is a way to a management API that breaks after some writes.
type brittle struct {
	forward *httputil.ReverseProxy
	breaks  atomic.Bool
	left    atomic.Int64
}

func (b *brittle) breakAfter(writes int) {
	b.left.Store(int64(writes))
	b.breaks.Store(writes > 0)
}

func (b *brittle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	left := b.left.Load()
	if r.Method != http.MethodGet {
		left = b.left.Add(-1)
	}
	if b.breaks.Load() && left < 0 {
		http.Error(w, "no server is available to handle this request", http.StatusServiceUnavailable)
		return
	}
	b.forward.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
}

// recorder takes the failures of a test in its stead.
type recorder struct {
	testing.TB
	mutex    sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Error(args ...any)                 { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Cleanup(f func())                  { r.cleanups = append(r.cleanups, f) }

// run runs a test to its end, and what it has to clean up.
func (r *recorder) run(test func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, f := range slices.Backward(r.cleanups) {
				f()
			}
		}()
		test()
	}()
	<-done
}
