package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// rebuilt is a cascade among strangers: an application behind it, exchanges that lead into it, and a parked message.
type rebuilt struct {
	*harness.Vhost
	*harness.Protocol
	eitherForm
	given     harness.Attributes
	config    delay.Config
	collector *brokertest.Collector // of the application
}

func newRebuilt(t *testing.T, is ofQueues, resolution time.Duration) *rebuilt {
	t.Helper()
	v := harness.NewVhost(t)
	r := &rebuilt{Vhost: v, Protocol: harness.NewProtocol(t, v.Broker, nil),
		eitherForm: eitherForm{"t", 3, resolution, is.inUnits, severalQueues}}
	r.given = r.eitherForm.given().With(harness.Attributes{"vhost": v.Name, "queue_type": is.queueType})
	r.config = r.eitherForm.config()
	r.config.Vhost, r.config.QueueType = v.Name, delay.QueueType(is.queueType)
	r.MustApply(r.given)
	v.DeclareQueue("application", nil)
	v.Bind("t.delivery", "#.address", "queue", "application")
	r.collector = v.Consume("application")
	v.DeclareExchange("feed", "topic")
	v.Bind("feed", "#", "exchange", r.entry())
	v.Bind("feed", "lowest.#", "exchange", r.exchange(0))
	v.Bind("feed", "end.#", "exchange", "t.delivery")
	harness.NoErrors(t, r.Refresh(t.Context()))
	return r
}

// strangers are what others have, and what they have bound to the cascade.
func (r *rebuilt) strangers() topology.Topology {
	all := r.Objects()
	own := harness.Expand(r.Vhost.T, r.config)
	rest := all.Minus(own)
	maps.DeleteFunc(all.Bindings, func(b topology.Binding, _ struct{}) bool { return own.Owns(b.Source) })
	rest.Bindings = all.Bindings // those of the delivery exchange included
	return rest
}

// arrives sends a message through the feed and the cascade, and checks when it comes.
func (r *rebuilt) arrives() {
	r.Vhost.T.Helper()
	n := len(r.collector.Arrivals()) + 1
	r.inTime(n, r.send("feed", 3))
}

// send sends a message with a delay of so many steps.
func (r *rebuilt) send(exchange string, steps int) (due time.Time) {
	r.Vhost.T.Helper()
	resolved, err := r.config.Resolve()
	if err != nil {
		r.Vhost.T.Fatal(err)
	}
	delay := time.Duration(steps) * resolved.Scale().Resolution()
	due = harness.BrokerTime().Add(harness.Least(delay))
	r.Publish(exchange, harness.KeyOf(r.Vhost.T, resolved.Scale(), delay, "address"), "x")
	return due
}

// inTime waits for the n-th message, which must not be early.
func (r *rebuilt) inTime(n int, due time.Time) {
	r.Vhost.T.Helper()
	if at := r.Arrived(r.collector, n)[n-1].At; at.Before(due) {
		r.Vhost.T.Errorf("message %d was %s early", n, due.Sub(at))
	}
}

// Each of these is an update that keeps the bindings of others, also on a delivery exchange that gets other arguments.
// It keeps parked messages where the queue for them stays. Its plan says what happens.
func TestRebuild(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		other := map[string]delay.QueueType{"quorum": delay.Classic, "classic": delay.Quorum}[queueType]
		for name, is := range map[string]struct {
			change  harness.Attributes
			config  func(*delay.Config)
			parks   bool // keeps parked messages
			inUnits bool
		}{
			"resolution": {harness.Attributes{"resolution": "250ms"}, func(c *delay.Config) { c.Resolution /= 2 },
				true, false},
			"queue_type": {harness.Attributes{"queue_type": string(other)},
				func(c *delay.Config) { c.QueueType = other }, false, false},
			"queue_name": {harness.Attributes{"queue_name": "q%d"}, func(c *delay.Config) { c.QueueName = "q%d" },
				true, false},
			"delivery_exchange": {harness.Attributes{"delivery_exchange": "e"},
				func(c *delay.Config) { c.DeliveryExchange = "e" }, true, false},
			"internal_levels": {harness.Attributes{"internal_levels": true},
				func(c *delay.Config) { c.InternalLevels = true }, true, false},
			"park_unroutable": {harness.Attributes{"park_unroutable": false},
				func(c *delay.Config) { c.ParkUnroutable = false }, false, false},
			"base": {harness.Attributes{"base": 3}, func(c *delay.Config) { c.Base = 3 }, true, false},
			"base, queue_name, park_unroutable": {
				harness.Attributes{"base": 10, "queue_name": "q%d-%d", "park_unroutable": false},
				func(c *delay.Config) { c.Base, c.QueueName, c.ParkUnroutable = 10, "q%d-%d", false }, false, false,
			},
			"queue_name, resolution": {
				harness.Attributes{"queue_name": "q%d", "resolution": "250ms"},
				func(c *delay.Config) { c.QueueName, c.Resolution = "q%d", c.Resolution/2 }, true, false,
			},
			"queue_name, lookahead, park_unroutable": {
				harness.Attributes{"queue_name": "q%d", "lookahead": 1, "park_unroutable": false},
				func(c *delay.Config) { c.QueueName, c.Lookahead, c.ParkUnroutable = "q%d", 1, false }, false, false,
			},
			"units, queue_name": {harness.Attributes{"queue_name": "q.%s"},
				func(c *delay.Config) { c.QueueName = "q.%s" }, true, true},
			"units, queue_type, park_unroutable": {
				harness.Attributes{"queue_type": string(other), "park_unroutable": false},
				func(c *delay.Config) { c.QueueType, c.ParkUnroutable = other, false }, false, true,
			},
		} {
			t.Run(fmt.Sprintf("%s, %s", queueType, name), func(t *testing.T) {
				t.Parallel()
				r := newRebuilt(t, ofQueues{queueType, is.inUnits}, 500*time.Millisecond)
				if is.parks {
					r.Publish(r.entry(), "malformed", "parked")
				}
				want := r.strangers()
				before := harness.Expand(t, r.config)
				is.config(&r.config)
				r.rebuild(is.change, want, before)
				if is.parks && r.Depth("t.unroutable") != 1 {
					t.Error("what was parked is gone")
				}
				if r.config.DeliveryExchange == "" {
					r.arrives()
				}
				if !r.config.ParkUnroutable {
					// And back again: the delivery exchange gets other arguments once more.
					want, before = r.strangers(), harness.Expand(t, r.config)
					r.config.ParkUnroutable = true
					r.given = r.given.With(is.change)
					r.rebuild(harness.Attributes{"park_unroutable": true}, want, before)
					r.arrives()
				}
			})
		}
	}
}

// rebuild applies a change, after which there is the cascade, and of others the objects from before.
func (r *rebuilt) rebuild(change harness.Attributes, others, before topology.Topology) {
	r.Vhost.T.Helper()
	changed := r.given.With(change)
	harness.NoErrors(r.Vhost.T, r.Refresh(r.Vhost.T.Context()))
	plan := r.Plan(r.Vhost.T.Context(), changed)
	if plan.Replace {
		r.Vhost.T.Error("it is a replacement")
	}
	text := harness.WarningText(plan.Diagnostics)
	harness.MustSay(r.Vhost.T, "the plan", text, "Update in place recreates all ",
		fmt.Sprintf("entry exchange %q", r.entry()),
		"Publishers get an error and have to try again", "is rebuilt, because ", wouldFail)
	for attribute := range change {
		if attribute != "lookahead" && !strings.Contains(text, attribute) {
			r.Vhost.T.Errorf("the plan does not name %s: %s", attribute, text)
		}
	}
	diagnostics := r.Apply(r.Vhost.T.Context(), plan)
	harness.NoErrors(r.Vhost.T, diagnostics)
	want := harness.Expand(r.Vhost.T, r.config)
	if before.Delivery != want.Delivery { // an application is bound to it
		others.Exchanges[before.Delivery] = before.Exchanges[before.Delivery]
		if text := harness.WarningText(diagnostics); !strings.Contains(text, "Delivery exchange left standing") {
			r.Vhost.T.Errorf("the apply does not say that the delivery exchange stays: %s", text)
		}
	}
	r.MustHold(others.Union(want))
	r.MustBeSettled(changed)
}

// While a message is on its way, a rebuild is refused, and the cascade works on. With drain_timeout it waits, and
// messages that are too long on their way open the old cascade again.
func TestRebuildWithMessagesOnTheirWay(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			rebuildWithMessages(t, ofQueues{queueType, false}, harness.Attributes{"resolution": "100ms"},
				func(c *delay.Config) { c.Resolution = 100 * time.Millisecond })
		})
		t.Run(queueType+", base", func(t *testing.T) {
			rebuildWithMessages(t, ofQueues{queueType, false}, harness.Attributes{"base": 3},
				func(c *delay.Config) { c.Base = 3 })
		})
		t.Run(queueType+", units", func(t *testing.T) {
			rebuildWithMessages(t, ofQueues{queueType, true}, harness.Attributes{"queue_name": "q.%s"},
				func(c *delay.Config) { c.QueueName = "q.%s" })
		})
	}
}

// rebuildWithMessages rebuilds while messages wait.
func rebuildWithMessages(t *testing.T, is ofQueues, change harness.Attributes, config func(*delay.Config)) {
	t.Parallel()
	// Messages take 12 s: a busy machine takes seconds for a plan and an apply.
	r := newRebuilt(t, is, 2*time.Second)
	before := r.Objects()
	apply := func(further harness.Attributes) string {
		harness.NoErrors(t, r.Refresh(t.Context()))
		return harness.ErrorText(r.Apply(t.Context(), r.Plan(t.Context(), r.given.With(change).With(further))))
	}
	send := func() time.Time { return r.send(r.entry(), 6) }
	var due []time.Time
	due = append(due, send())
	text := apply(nil)
	harness.MustSay(t, "without drain_timeout it", text, "was not updated, and nothing of it is gone",
		"makes the apply wait for them")
	r.MustHold(before)
	due = append(due, send())
	text = apply(harness.Attributes{"drain_timeout": "200ms"})
	if !strings.Contains(text, "These messages wait after 200 ms") {
		t.Errorf("with a short drain_timeout: %s", text)
	}
	r.MustHold(before)
	due = append(due, send())
	if text := apply(harness.Attributes{"drain_timeout": "1m"}); text != "" {
		t.Error(text)
	}
	for i, at := range due {
		r.inTime(i+1, at)
	}
	config(&r.config)
	r.arrives()
	if n := len(r.collector.Arrivals()); n != 4 {
		t.Errorf("%d messages have arrived, not 4", n)
	}
}

// Publishers with confirms try again while the entry is closed. Whatever is confirmed arrives once and not early, or is
// parked once.
func TestRebuildBesidesPublishers(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			const levels, unit = 4, 100 * time.Millisecond
			v := harness.NewVhost(t)
			p := harness.NewProtocol(t, v.Broker, nil)
			given := harness.Attributes{
				"vhost": v.Name, "name": "t", "levels": levels, "resolution": "100ms", "queue_type": queueType,
				"drain_timeout": "1m",
			}
			p.MustApply(given)
			f := harness.NewTraffic(t, harness.TrafficConfig{
				URIs: []string{v.Broker.AMQPURI}, Publishers: 3,
				Through: harness.Resolve(t, delay.Config{Vhost: v.Name, Name: "t", Levels: levels, Resolution: unit,
					CreateDeliveryExchange: true}),
				Pause: 5 * time.Millisecond, Delay: harness.AnyDelay(levels, unit),
			})
			for _, change := range []harness.Attributes{
				{"queue_name": "t.wait-%d"}, {"queue_name": "t.rung-%d", "lookahead": 2}, {"queue_name": nil},
			} {
				f.GoesOn()
				p.MustApply(given.With(change))
				f.GoesOn()
			}
			f.Finish(time.Minute)
			sum := f.Sum()
			if sum.Twice > 0 || sum.Delivered == 0 {
				t.Errorf("%d messages were delivered, %d of them twice", sum.Delivered, sum.Twice)
			}
			t.Logf("%d confirmed, %d delivered, %d parked, %d returned, %d without an answer",
				sum.Confirmed, sum.Delivered, sum.Parked, sum.Returned, sum.Unsure)
			p.MustBeSettled(given.With(harness.Attributes{"queue_name": nil}))
		})
	}
}

// A rebuild that may not bind again what others have bound is refused before anything is closed. One that fails later
// is undone.
func TestRebuildThatIsRefused(t *testing.T) {
	t.Parallel()
	request := func(method, path string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == method && strings.HasSuffix(r.URL.Path, path) }
	}
	for name, refuses := range map[string]func(r *http.Request) bool{
		"a binding of others":   request(http.MethodPost, "/q/application"),
		"a permission":          request(http.MethodPut, "/t.delay-01"),
		"a queue":               request(http.MethodPut, "/t.delay-01"),
		"the delivery exchange": request(http.MethodPut, "/t.delivery"),
		"the entry":             request(http.MethodPost, "/e/t.delay-02/q/t.delay-00"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRebuilt(t, ofQueues{"quorum", false}, 500*time.Millisecond)
			before := r.Objects()
			through := harness.WithoutAMQP(t, r.Vhost.Broker)
			var mutex sync.Mutex
			var struck, closed bool
			early := name == "a binding of others" || name == "a permission"
			check := func(w http.ResponseWriter, request *http.Request) bool {
				mutex.Lock()
				defer mutex.Unlock()
				closed = closed || request.Method == http.MethodDelete && !struck
				refused := !struck && refuses(request) && (early || closed)
				if refused {
					w.WriteHeader(http.StatusForbidden)
					struck = true
				}
				return refused
			}
			through.Endpoint = harness.NewGateway(t, through, nil, check).URL
			failing := r.With(through, harness.Attributes{"max_parallel_requests": 1})
			plan := failing.Plan(t.Context(), r.given.With(harness.Attributes{"park_unroutable": false,
				"resolution": "1s"}))
			text := harness.ErrorText(failing.Apply(t.Context(), plan))
			mutex.Lock()
			defer mutex.Unlock()
			if !struck || !strings.Contains(text, "403") {
				t.Errorf("got %s", text)
			}
			if closed == early {
				t.Errorf("something was deleted before: %t", closed)
			}
			r.MustHold(before)
			r.Protocol = failing.With(r.Vhost.Broker, nil)
			r.MustBeSettled(r.given)
			r.arrives()
		})
	}
}

// An application binds its queue while a rebuild is about to recreate the delivery exchange. The rebuild brings all
// back and says so. The next one goes through, and the queue gets its messages.
func TestRebuildMeetsANewBinding(t *testing.T) {
	t.Parallel()
	r := newRebuilt(t, ofQueues{"quorum", false}, 500*time.Millisecond)
	r.DeclareQueue("late", nil)
	before := r.Objects()
	var once sync.Once
	through := harness.WithoutAMQP(t, r.Vhost.Broker)
	through.Endpoint = harness.NewGateway(t, through, nil, func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodDelete {
			once.Do(func() { r.Bind("t.delivery", "#.late", "queue", "late") })
		}
		return false
	}).URL
	failing := r.With(through, nil)
	given := r.given.With(harness.Attributes{"park_unroutable": false})
	text := harness.ErrorText(failing.Apply(t.Context(), failing.Plan(t.Context(), given)))
	harness.MustSay(t, "the error", text, `Could not delete exchange "t.delivery"`, "Something is bound to it",
		"If that came while this ran, try again")
	before.Bind(topologytest.ToQueue("t.delivery", "#.late", "late"))
	r.MustHold(before)
	r.arrives()
	r.Protocol = failing.With(r.Vhost.Broker, nil)
	r.MustApply(given)
	r.MustBeSettled(given)
	r.Publish("t.delivery", "0.late", "x")
	r.Eventually("the late queue gets its message", func() bool { return r.Depth("late") == 1 })
}

// An application binds something while a rebuild waits for empty queues. That is its exchange, below the entry, or its
// queue, where the delivery exchange is to be recreated. The rebuild is undone and says so, and the message on its way
// arrives. The next one goes through, and the binding is still there.
func TestRebuildMeetsANewBindingAfterItsWait(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		change harness.Attributes
		late   func(r *rebuilt) topology.Binding
	}{
		"below the entry": {harness.Attributes{"max_length": 1000}, func(r *rebuilt) topology.Binding {
			return topologytest.ToExchange("feed", "late.#", r.exchange(0))
		}},
		"behind the cascade": {harness.Attributes{"park_unroutable": false}, func(*rebuilt) topology.Binding {
			return topologytest.ToQueue("t.delivery", "late.#", "application")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRebuilt(t, ofQueues{"quorum", false}, time.Second)
			before, late := r.Objects(), is.late(r)
			due := r.send("feed", 6)
			given := r.given.With(is.change).With(harness.Attributes{"drain_timeout": "1m"})
			todo, outcome := r.Plan(t.Context(), given), make(chan string, 1)
			go func() { outcome <- harness.ErrorText(r.Apply(t.Context(), todo)) }()
			r.Eventually("the entry is closed", func() bool { return !r.Objects().Has(r.entry()) })
			r.Bind(late.Source, late.RoutingKey, string(late.DestinationType), late.Destination)
			harness.MustSay(t, "the error", <-outcome, "Bindings have changed meanwhile", "made from "+late.Describe(),
				"All is as it was before, and exchange", "Apply again.")
			before.Bind(late)
			r.MustHold(before)
			r.inTime(1, due)
			r.MustApply(given)
			if !r.Objects().Bindings.Has(late) {
				t.Error("the rebuild lost the binding")
			}
			r.MustBeSettled(given)
		})
	}
}

// A rebuild may not bind to the new entry what others had bound to the old one. It does all else, and names that
// binding: no later plan knows of it.
func TestRebuildNamesWhatItCannotBind(t *testing.T) {
	t.Parallel()
	r := newRebuilt(t, ofQueues{"quorum", false}, 500*time.Millisecond)
	r.Bind("feed", "more.#", "exchange", r.entry())
	var mutex sync.Mutex
	var closed bool
	through := harness.WithoutAMQP(t, r.Vhost.Broker)
	through.Endpoint = harness.NewGateway(t, through, nil, func(w http.ResponseWriter, request *http.Request) bool {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		mutex.Lock()
		defer mutex.Unlock()
		closed = closed || request.Method == http.MethodDelete
		refused := closed && request.Method == http.MethodPost && bytes.Contains(body, []byte(`"more.#"`)) &&
			strings.HasSuffix(request.URL.Path, "/e/feed/e/"+r.entry())
		if refused {
			w.WriteHeader(http.StatusForbidden)
		}
		return refused
	}).URL
	failing := r.With(through, harness.Attributes{"max_parallel_requests": 1})
	given := r.given.With(harness.Attributes{"park_unroutable": false})
	text := harness.ErrorText(failing.Apply(t.Context(), failing.Plan(t.Context(), given)))
	harness.MustSay(t, "the error", text, "These steps are left to do", "make them by hand", "the entry, is open",
		`bind exchange "feed" to exchange "`+r.entry()+`" with key "more.#"`)
	if r.Objects().Bindings.Has(topologytest.ToExchange("feed", "more.#", r.entry())) {
		t.Error("the binding is there")
	}
	r.Protocol = failing.With(r.Vhost.Broker, nil)
	r.MustApply(given)
	r.MustBeSettled(given)
	r.config.ParkUnroutable = false
	r.arrives()
	want := r.Objects()
	want.Bind(topologytest.ToExchange("feed", "more.#", r.entry()))
	r.Bind("feed", "more.#", "exchange", r.entry())
	r.MustHold(want)
}

// An update to another delivery exchange breaks off at the deletion of the old one. No later apply knows of that, so
// the error names it.
func TestOldDeliveryExchangeIsNamed(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "queue_type": "classic"}
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(given)
	front := *v.Broker
	front.Endpoint = harness.NewGateway(t, v.Broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
		refused := r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/t.delivery")
		if refused {
			http.Error(w, "not now", http.StatusServiceUnavailable)
		}
		return refused
	}).URL
	faulty := p.With(&front, harness.Attributes{"retry_timeout": harness.OnceMore})
	other := given.With(harness.Attributes{"delivery_exchange": "other"})
	text := harness.ErrorText(faulty.Apply(t.Context(), faulty.Plan(t.Context(), other)))
	harness.MustSay(t, "the error", text, `The old delivery exchange "t.delivery" may still be there`)
	p.State, p.Private = faulty.State, faulty.Private
	p.MustApply(other)
	p.MustBeSettled(other)
	if _, exists := v.Objects().Exchanges["t.delivery"]; !exists {
		t.Error("the exchange is gone: the error need not name it")
	}
}
