package acceptance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A message is published just before a destroy or at a random moment of it. If the broker has confirmed it, the destroy
// is refused, and the message is there. So is everything else, including the bindings of others into the entry.
func TestDestroyBesidesAPublisher(t *testing.T) {
	t.Parallel()
	var count atomic.Int64
	var tried, refused sync.Map
	t.Run("types", func(t *testing.T) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				rounds := sampling.Of(t, "destroys beside a publisher", upTo(destroyRounds))
				count.Add(destroyRounds)
				var workers sync.WaitGroup
				for worker := range min(destroyWorkers, len(rounds)) {
					d := newDestroyed(t, queueType, harness.Attributes{"resolution": "1h"})
					workers.Go(func() {
						for i := worker; i < len(rounds); i += destroyWorkers {
							round := rounds[i]
							name := fmt.Sprintf("%s %d", queueType, round)
							t.Run(name, func(t *testing.T) {
								destroyBesidesAPublisher(t, &tried, name, d, round, &refused)
							})
						}
					})
				}
				workers.Wait()
			})
		}
	})
	t.Logf("%d destroys, %d of them refused", size(&tried), size(&refused))
	if !narrowed() {
		figure(t, "destroys_beside_a_publisher", int(count.Load()))
	}
}

// destroyBesidesAPublisher publishes at one point of a destroy.
func destroyBesidesAPublisher(t *testing.T, tried *sync.Map, name string, d *destroyed, round int, refused *sync.Map) {
	tried.Store(name, true)
	if d.round(t, round) {
		refused.Store(name, true)
	}
}

const (
	destroyRounds  = 32
	destroyWorkers = 4
)

// upTo are the numbers from 0 to below n.
func upTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// destroyed is a cascade that is to be destroyed, an application behind it and a gateway before it.
type destroyed struct {
	*harness.Vhost
	*harness.Protocol
	eitherForm
	given  harness.Attributes
	before topology.Topology
}

const destroyLevels = 3

func newDestroyed(t *testing.T, queueType string, further harness.Attributes) *destroyed {
	t.Helper()
	return newDestroyedOf(t, eitherForm{"t", destroyLevels, time.Second, false, severalQueues}, queueType, further)
}

// newDestroyedOf is that with a cascade of another unit or form.
func newDestroyedOf(t *testing.T, cascade eitherForm, queueType string, further harness.Attributes) *destroyed {
	t.Helper()
	v := harness.NewVhost(t)
	d := &destroyed{Vhost: v, Protocol: harness.NewProtocol(t, v.Broker, nil), eitherForm: cascade,
		given: cascade.given().With(harness.Attributes{"vhost": v.Name, "queue_type": queueType})}
	for name, value := range further {
		d.given[name] = value
	}
	v.DeclareQueue("application", map[string]any{"x-queue-type": "classic"})
	v.DeclareExchange("gateway", "topic")
	d.build()
	return d
}

func (d *destroyed) build() {
	d.Vhost.T.Helper()
	d.MustApply(d.given)
	d.Bind("t.delivery", "#", "queue", "application")
	d.Bind("gateway", "#", "exchange", d.entry())
	d.before = d.Objects()
}

// round destroys the cascade while a message is published, and tells whether that was refused.
func (d *destroyed) round(t *testing.T, number int) (refused bool) {
	d.Vhost.T, d.Vhost.T = t, t
	if d.Protocol.State.IsNull() {
		d.build()
	}
	harness.NoErrors(t, d.Refresh(t.Context()))
	publisher := d.Publisher()
	exchange, key := "t.delay-02", harness.RoutingKey(t, time.Duration(1+number%7)*time.Hour, destroyLevels, time.Hour,
		"address")
	switch number % 4 {
	case 1:
		exchange = "gateway"
	case 2:
		exchange, key = "t.delay-00", "0.0.1.address" // past the entry
	case 3:
		key = "malformed" // and parked
	}
	published := make(chan error, 1)
	publish := func() {
		published <- publisher.Publish(t.Context(), exchange, key, amqp.Publishing{DeliveryMode: amqp.Persistent,
			Body: []byte("x")})
	}
	if number < 8 {
		publish()
	} else {
		time.AfterFunc(time.Duration(rand.IntN(1500))*time.Millisecond, publish)
	}
	text := harness.ErrorText(d.Apply(t.Context(), d.Plan(t.Context(), nil)))
	err := <-published
	if text == "" {
		if err == nil {
			// It came through when everything was gone? No queue can have taken it.
			t.Error("the destroy succeeded, and a confirmed message is gone")
		}
		d.MustHold(afterDestroy(d.before))
		return false
	}
	d.MustHold(d.before)
	waiting := 0
	for _, queue := range []string{"t.delay-00", "t.delay-01", "t.delay-02", "t.unroutable"} {
		n := d.Depth(queue)
		waiting += n
		if n > 0 && !strings.Contains(text, fmt.Sprintf("queue %q: %d", queue, n)) &&
			!strings.Contains(text, fmt.Sprintf("%q: %d", queue, n)) {
			t.Errorf("the error does not name what waits in %s: %s", queue, text)
		}
		d.Purge(queue)
	}
	if err == nil && waiting != 1 {
		t.Errorf("%d messages are left of one that was confirmed", waiting)
	} else if err != nil && !errors.Is(err, brokertest.ErrReturned) && waiting == 0 {
		t.Logf("the message was not confirmed: %v", err)
	}
	return true
}

// afterDestroy is what a destroy leaves of what there was: all but the cascade, and its delivery exchange, to which the
// application is bound.
func afterDestroy(all topology.Topology) topology.Topology {
	const prefix, delivery = "t.", "t.delivery"
	rest := topology.New()
	rest.Exchanges[delivery] = all.Exchanges[delivery]
	for name, e := range all.Exchanges {
		if !strings.HasPrefix(name, prefix) {
			rest.Exchanges[name] = e
		}
	}
	for name, q := range all.Queues {
		if !strings.HasPrefix(name, prefix) {
			rest.Queues[name] = q
		}
	}
	for b := range all.Bindings {
		if (b.Source == delivery || !strings.HasPrefix(b.Source, prefix)) && !strings.HasPrefix(b.Destination, prefix) {
			rest.Bindings.Add(b)
		}
	}
	return rest
}

// With drain_timeout, a destroy closes the entry, waits until everything is delivered, and goes on. While a stream runs
// into it, each confirmed message arrives. RabbitMQ (3.10.8, 4.3.6) does not remove an exchange and its bindings in one
// go. Messages that come just then may be parked, which refuses the destroy at once, until somebody takes them.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, is := range queueForms {
		t.Run(name, func(t *testing.T) {
			drainThenDestroy(t, is)
		})
	}
}

// drainThenDestroy destroys a cascade in which messages wait.
func drainThenDestroy(t *testing.T, is ofQueues) {
	t.Parallel()
	d := newDestroyedOf(t, eitherForm{"t", destroyLevels, 200 * time.Millisecond, is.inUnits, severalQueues},
		is.queueType, harness.Attributes{"drain_timeout": "1m"})
	harness.NoErrors(t, d.Refresh(t.Context()))
	collector := d.Consume("application")
	ctx, stop := context.WithCancel(t.Context())
	sent := make(chan map[string]bool)
	go func() { sent <- d.confirmed(ctx) }()
	d.Eventually("the stream runs", func() bool { return len(collector.Arrivals()) > 10 })
	parked := map[string]int{}
	diagnostics := d.Apply(t.Context(), d.Plan(t.Context(), nil))
	for tries := 0; tries < 10 && strings.Contains(harness.ErrorText(diagnostics), `queue "t.unroutable"`); tries++ {
		d.MustHold(d.before)
		for d.Depth("t.unroutable") > 0 {
			parked[d.Take("t.unroutable")]++
		}
		harness.NoErrors(t, d.Refresh(t.Context()))
		diagnostics = d.Apply(t.Context(), d.Plan(t.Context(), nil))
	}
	harness.NoErrors(t, diagnostics)
	stop()
	confirmed := <-sent
	d.MustHold(afterDestroy(d.before))
	d.Eventually("all confirmed messages have arrived", func() bool {
		seen := maps.Clone(parked)
		for _, a := range collector.Arrivals() {
			seen[string(a.Body)]++
		}
		for body := range confirmed {
			if seen[body] != 1 {
				return false
			}
		}
		return true
	})
	t.Logf("%d messages were confirmed, %d of them parked", len(confirmed), len(parked))
}

// A drain that does not end in time opens the entry again and says what waits.
func TestDrainThatTakesTooLong(t *testing.T) {
	t.Parallel()
	for name, is := range queueForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDestroyedOf(t, eitherForm{"t", destroyLevels, time.Hour, is.inUnits, severalQueues}, is.queueType,
				harness.Attributes{"drain_timeout": "2s"})
			shortest := d.queue(0)
			d.Publish(d.entry(), harness.RoutingKey(t, time.Hour, destroyLevels, time.Hour, "address"), "x")
			began := time.Now()
			text := harness.ErrorText(d.Apply(t.Context(), d.Plan(t.Context(), nil)))
			if took := time.Since(began); took < 2*time.Second {
				t.Errorf("it gave up after %s", took)
			}
			if !strings.Contains(text, fmt.Sprintf("%q: 1", shortest)) {
				t.Errorf("got %s", text)
			}
			d.MustHold(d.before)
			d.Publish("gateway", harness.RoutingKey(t, time.Hour, destroyLevels, time.Hour, "address"),
				"the entry is open")
			if n := d.Depth(shortest); n != 2 {
				t.Errorf("%d messages wait of 2", n)
			}
			d.MustBeSettled(d.given)
			// Parked messages do not leave while one waits: the destroy is refused at once.
			d.Purge(shortest)
			d.Publish(d.entry(), "malformed", "x")
			began = time.Now()
			text = harness.ErrorText(d.Apply(t.Context(), d.Plan(t.Context(), nil)))
			if took := time.Since(began); took > 2*time.Second+harness.Patience/3 ||
				!strings.Contains(text, `"t.unroutable": 1`) {
				t.Errorf("after %s: %s", took, text)
			}
			d.MustHold(d.before)
		})
	}
}

// A message whose time is over, and that the application's queue refuses because it is full, is in no count that is up
// to date.
func TestDestroyWhileReceiverIsFull(t *testing.T) {
	t.Parallel()
	full := map[string]any{"x-max-length": 1, "x-overflow": "reject-publish"}
	for name, build := range map[string]func(v *harness.Vhost){
		"by its arguments": func(v *harness.Vhost) {
			v.DeclareQueue("full", full)
			v.Bind("t.delivery", "#", "queue", "full")
		},
		"by a policy": func(v *harness.Vhost) {
			v.Try(v.API.PutPolicy(v.Name, "full", rabbithole.Policy{
				Pattern: "^full$", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"max-length": 1,
					"overflow": "reject-publish"},
			}))
			v.DeclareQueue("full", nil)
			v.Bind("t.delivery", "#", "queue", "full")
		},
		"behind another exchange": func(v *harness.Vhost) {
			v.DeclareQueue("full", full)
			v.DeclareExchange("behind", "fanout")
			v.Bind("behind", "", "queue", "full")
			v.Bind("t.delivery", "#", "exchange", "behind")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			p := harness.NewProtocol(t, v.Broker, nil)
			p.MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "levels": 3, "resolution": "100ms"})
			build(v)
			before := v.Objects()
			v.Publish("", "full", "in the way")
			v.Publish("t.delay-02", harness.RoutingKey(t, 100*time.Millisecond, 3, 100*time.Millisecond, "address"),
				"x")
			v.Eventually("the message has left", func() bool { return v.Depth("t.delay-00") == 0 })
			text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil)))
			if !strings.Contains(text, `"t.delay-00": 1`) || !strings.Contains(text, "overdue") {
				t.Errorf("got %s", text)
			}
			v.MustHold(before)
		})
	}
}

// Somebody's exchange leads into a queue, past the entry. When the queue is deleted, no message from there reaches it
// any more. So the broker confirms nothing that then goes with the queue.
func TestDestroyWhileOthersPublishIntoAQueue(t *testing.T) {
	t.Parallel()
	for _, queue := range []string{"t.delay-00", "t.unroutable"} {
		t.Run(queue, func(t *testing.T) {
			t.Parallel()
			d := newDestroyed(t, "quorum", nil)
			d.Bind("gateway", "theirs", "queue", queue)
			d.Do(plan.Unbind{Binding: topology.Binding{Source: "gateway", RoutingKey: "#",
				DestinationType: topology.ToExchange, Destination: "t.delay-02"}})
			published := d.publishAtDeletion(queue, "gateway", "theirs")
			harness.NoErrors(t, d.Apply(t.Context(), d.Plan(t.Context(), nil)))
			if err := <-published; !errors.Is(err, brokertest.ErrReturned) {
				t.Errorf("a message that was published when the queue was deleted: %v", err)
			}
			d.MustHold(afterDestroy(d.before))
		})
	}
}

// The same in a create that adopts a cascade that is in use, adds a queue to it, fails, and takes the queue back.
func TestAdoptTakenBackUnderTraffic(t *testing.T) {
	t.Parallel()
	d := newDestroyed(t, "quorum", nil)
	missing := topology.Binding{Source: "t.delay-02", RoutingKey: "1.*.*.*.#", DestinationType: topology.ToQueue,
		Destination: "t.delay-02"}
	d.Do(plan.DeleteQueue{Queue: d.before.Queues["t.delay-01"]}, plan.Unbind{Binding: missing})
	before := d.Objects()
	d.Protocol = harness.NewProtocol(t, d.Broker, nil)
	published := d.publishAtDeletion("t.delay-01", "t.delay-01", "0.1.0.address",
		func(w http.ResponseWriter, r *http.Request) bool {
			fails := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/e/t.delay-02/q/t.delay-02")
			if fails {
				w.WriteHeader(http.StatusForbidden)
			}
			return fails
		})
	if text := harness.ErrorText(d.Apply(t.Context(), d.Plan(t.Context(),
		d.given.With(harness.Attributes{"adopt": true})))); text == "" {
		t.Error("the create succeeded")
	}
	if err := <-published; err != nil {
		t.Error(err)
	}
	d.MustHold(before)
	if n := d.Depth("t.unroutable"); n != 1 {
		t.Errorf("of the confirmed message %d are there", n)
	}
}

// A destroy is refused late, and meanwhile one of those who lead into the cascade has gone. The cascade is open again
// for all others, and the error names the leftovers.
func TestUndoWithoutAStranger(t *testing.T) {
	t.Parallel()
	d := newDestroyed(t, "classic", harness.Attributes{"resolution": "1h"})
	d.DeclareExchange("another", "topic")
	d.DeclareExchange("gone", "topic")
	d.Bind("another", "#", "exchange", "t.delay-00")
	d.Bind("gone", "#", "exchange", "t.delay-00")
	d.Bind("gone", "#", "exchange", "t.delay-02")
	var leaves sync.Once
	published := d.publishAtDeletion("t.delay-01", "", "t.delay-01", func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/api/queues/"+d.Name+"/t.delay-01") {
			leaves.Do(func() { d.Try(d.API.DeleteExchange(d.Name, "gone")) })
		}
		return false
	})
	text := harness.ErrorText(d.Apply(t.Context(), d.Plan(t.Context(), nil)))
	if err := <-published; err != nil {
		t.Error(err)
	}
	harness.MustSay(t, "the error", text, `"t.delay-01": 1`, `bind exchange "gone" to exchange "t.delay-00"`,
		`bind exchange "gone" to exchange "t.delay-02"`)
	if strings.Contains(text, `bind exchange "another"`) {
		t.Errorf("the error says that something else is left: %s", text)
	}
	d.before.Exchanges["another"] = topology.Exchange{Name: "another", Type: "topic", Durable: true}
	d.before.Bindings.Add(topology.Binding{Source: "another", RoutingKey: "#", DestinationType: topology.ToExchange,
		Destination: "t.delay-00"})
	d.MustHold(d.before)
	d.Publish("t.delay-02", harness.RoutingKey(t, time.Hour, destroyLevels, time.Hour, "address"), "x")
	if n := d.Depth("t.delay-00"); n != 1 {
		t.Errorf("%d messages wait where one should", n)
	}
}

// publishAtDeletion publishes a message in the moment between the last look into a queue and its deletion.
func (d *destroyed) publishAtDeletion(
	queue, exchange, key string, others ...func(http.ResponseWriter, *http.Request) bool,
) (published <-chan error) {
	d.Vhost.T.Helper()
	publisher, result := d.Publisher(), make(chan error, 1)
	var once sync.Once
	through := *d.Broker
	through.Endpoint = harness.NewGateway(d.Vhost.T, d.Broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/api/queues/"+d.Name+"/"+queue) {
			once.Do(func() {
				result <- publisher.Publish(d.Vhost.T.Context(), exchange, key,
					amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")})
			})
		}
		return slices.ContainsFunc(others, func(other func(http.ResponseWriter,
			*http.Request) bool) bool {
			return other(w, r)
		})
	}).URL
	d.Protocol = d.With(&through, nil)
	return result
}

// confirmed publishes until the context ends and returns the bodies that the broker has confirmed. Where
// there is no exchange any more, the channel is closed and another one is opened.
func (d *destroyed) confirmed(ctx context.Context) map[string]bool {
	bodies := map[string]bool{}
	var publisher *brokertest.Publisher
	for n := 0; ctx.Err() == nil; n++ {
		if publisher == nil {
			var err error
			if publisher, err = brokertest.NewPublisher(d.Conn); err != nil {
				d.Vhost.T.Errorf("open a channel: %v", err)
				return bodies
			}
		}
		key, body := fmt.Sprintf("%d.%d.%d.address", n&1, n>>1&1, n>>2&1), fmt.Sprint(n)
		err := publisher.Publish(d.Vhost.T.Context(), d.entry(), key, amqp.Publishing{DeliveryMode: amqp.Persistent,
			Body: []byte(body)})
		switch {
		case err == nil:
			bodies[body] = true
		case errors.Is(err, brokertest.ErrReturned), errors.Is(err, brokertest.ErrNacked):
		default:
			publisher = nil
		}
	}
	return bodies
}
