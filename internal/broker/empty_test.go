package broker_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// noAMQP leaves only the management API, as behind a firewall.
func noAMQP(c *broker.Config) { c.AMQPURI = "amqp://127.0.0.1:1" }

// deadLetter are the arguments of a queue that keeps a message until the exchange has found a way for it.
func deadLetter(exchange string) topology.Arguments {
	return topology.Arguments{"x-queue-type": "quorum", "x-message-ttl": int64(10), "x-dead-letter-exchange": exchange,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
}

// TestNothingIsOverlooked sends a message to where it is hard to see, and asks at once.
func TestNothingIsOverlooked(t *testing.T) {
	plain := func(queueType string) topology.Arguments { return topology.Arguments{"x-queue-type": queueType} }
	takeFirst := func(t *testing.T, channel *amqp.Channel) {
		if _, ok, err := channel.Get("q", false); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	for name, test := range map[string]struct {
		arguments topology.Arguments
		then      func(*testing.T, *amqp.Channel)
		overAMQP  bool // the management API alone does not show it in time
	}{
		"ready, quorum":                        {arguments: plain("quorum")},
		"ready, classic":                       {arguments: plain("classic")},
		"unacknowledged, quorum":               {arguments: plain("quorum"), then: takeFirst, overAMQP: true},
		"unacknowledged, classic":              {arguments: plain("classic"), then: takeFirst},
		"expired, dead-letter exchange absent": {arguments: deadLetter("absent"), then: expire},
		"expired, unroutable":                  {arguments: deadLetter("unbound"), then: expire},
		"expired, refused":                     {arguments: deadLetter("full"), then: expire},
	} {
		for way, config := range map[string]func(*broker.Config){"AMQP": func(*broker.Config) {}, "management API": noAMQP} {
			if test.overAMQP && way != "AMQP" {
				continue
			}
			t.Run(name+" over "+way, func(t *testing.T) {
				t.Parallel()
				b := brokertest.Shared(t)
				client, vhost := connect(t, config), brokertest.Vhost(t, b)
				q := topology.Queue{Name: "q", Durable: true, Arguments: test.arguments}
				run(t, client, vhost, topology.Plan{{Steps: []topology.Step{
					topology.DeclareQueue{Queue: q},
					topology.DeclareExchange{Exchange: topology.Exchange{Name: "unbound", Type: "topic", Durable: true}},
				}}})
				fill(t, client, vhost)
				verify := topology.Plan{{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}, Why: "deleting it"}}}}
				run(t, client, vhost, verify)

				conn, channel := dial(t, vhost)
				publish(t, conn, "", "q")
				if test.then != nil {
					test.then(t, channel)
				}
				_, err := client.Run(t.Context(), vhost, verify)
				var notEmpty *broker.NotEmptyError
				if !errors.As(err, &notEmpty) || len(notEmpty.Queues) != 1 || notEmpty.Queues[0].Name != "q" || notEmpty.Queues[0].Messages != 1 {
					t.Fatalf("the error is %v", err)
				}
				if !strings.Contains(notEmpty.Detail(), `"q": 1`) || !strings.Contains(notEmpty.Detail(), "deleting it") {
					t.Errorf("the detail is %s", notEmpty.Detail())
				}

				if _, err := channel.QueuePurge("q", false); err != nil {
					t.Fatal(err)
				}
				if err := channel.Close(); err != nil { // puts back what it has taken
					t.Fatal(err)
				}
			})
		}
	}
}

// TestExpiredRefusedByPolicy has the next queue refuse a message by a policy, which the user may read, as every one may, or something
// on the way keeps from him.
func TestExpiredRefusedByPolicy(t *testing.T) {
	for name, readable := range map[string]bool{"readable": true, "unreadable": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, vhost := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				if !readable && strings.Contains(r.URL.Path, "policies") {
					answer(w, http.StatusForbidden, `{"error":"not_authorized","reason":"not yours"}`)
					return
				}
				forward.ServeHTTP(w, r)
			})), brokertest.Vhost(t, brokertest.Shared(t))
			q := topology.Queue{Name: "q", Durable: true, Arguments: deadLetter("next")}
			next := topology.Queue{Name: "next", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
			run(t, client, vhost, topology.Plan{
				{Steps: []topology.Step{
					topology.DeclareQueue{Queue: q}, topology.DeclareQueue{Queue: next},
					topology.DeclareExchange{Exchange: topology.Exchange{
						Name: "next", Type: "fanout", Durable: true, Arguments: topology.Arguments{"alternate-exchange": "next"},
					}},
				}},
				{Steps: []topology.Step{topology.Bind{Binding: topology.Binding{Source: "next", Destination: "next", DestinationType: topology.ToQueue}}}},
			})
			admin(t, http.MethodPut, []string{"policies", vhost, "limit"}, map[string]any{
				"pattern": "^next$", "apply-to": "queues", "definition": map[string]any{"max-length": 1, "overflow": "reject-publish"},
			})
			conn, channel := dial(t, vhost)
			publisher, err := brokertest.NewPublisher(conn)
			if err != nil {
				t.Fatal(err)
			}
			for !errors.Is(err, brokertest.ErrNacked) { // the policy comes into force in the background
				if err = publisher.Publish(t.Context(), "", "next", amqp.Publishing{}); err != nil && !errors.Is(err, brokertest.ErrNacked) {
					t.Fatal(err)
				}
			}
			publish(t, conn, "", "q")
			expire(t, channel)
			_, err = client.Run(t.Context(), vhost, topology.Plan{{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}, Why: "deleting it"}}}})
			var notEmpty *broker.NotEmptyError
			if !errors.As(err, &notEmpty) || len(notEmpty.Queues) != 1 || notEmpty.Queues[0].Messages != 1 {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// fill declares an exchange "full" that leads every message to a queue, but to one that refuses it.
func fill(t *testing.T, client *broker.Client, vhost string) {
	t.Helper()
	run(t, client, vhost, topology.Plan{
		{Steps: []topology.Step{
			topology.DeclareQueue{Queue: topology.Queue{Name: "full", Durable: true, Arguments: topology.Arguments{
				"x-queue-type": "classic", "x-max-length": int64(1), "x-overflow": "reject-publish",
			}}},
			topology.DeclareQueue{Queue: topology.Queue{Name: "rest", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}},
			topology.DeclareExchange{Exchange: topology.Exchange{Name: "rest", Type: "fanout", Durable: true}},
			topology.DeclareExchange{Exchange: topology.Exchange{
				Name: "full", Type: "topic", Durable: true, Arguments: topology.Arguments{"alternate-exchange": "rest"},
			}},
		}},
		{Steps: []topology.Step{
			topology.Bind{Binding: topology.Binding{Source: "full", Destination: "full", DestinationType: topology.ToQueue, RoutingKey: "#"}},
			topology.Bind{Binding: topology.Binding{Source: "rest", Destination: "rest", DestinationType: topology.ToQueue}},
		}},
	})
	conn, _ := dial(t, vhost)
	publish(t, conn, "", "full")
}

// expire waits until the message is no longer ready.
func expire(t *testing.T, channel *amqp.Channel) {
	for count(t, channel, "q") > 0 {
	}
}

func dial(t testing.TB, vhost string) (*amqp.Connection, *amqp.Channel) {
	t.Helper()
	return dialTo(t, brokertest.Shared(t), vhost)
}

func dialTo(t testing.TB, b *brokertest.Broker, vhost string) (*amqp.Connection, *amqp.Channel) {
	t.Helper()
	conn, err := b.Dial(vhost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return conn, channel
}

func publish(t testing.TB, conn *amqp.Connection, exchange, key string) {
	t.Helper()
	publisher, err := brokertest.NewPublisher(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := publisher.Publish(t.Context(), exchange, key, amqp.Publishing{DeliveryMode: amqp.Persistent}); err != nil {
		t.Fatal(err)
	}
}

// TestMovingMessages asks again and again while one message walks down a cascade: the answer has
// to be that it is there until it has arrived at the end.
func TestMovingMessages(t *testing.T) {
	for _, config := range []cascade.Config{
		{QueueType: cascade.Quorum, Resolution: time.Millisecond, Lookahead: 1},
		{QueueType: cascade.Quorum, Resolution: 3 * time.Millisecond},
		{QueueType: cascade.Classic, Resolution: time.Millisecond, Lookahead: 1},
		{QueueType: cascade.Classic, Resolution: 3 * time.Millisecond},
	} {
		config.Name, config.Levels, config.CreateDeliveryExchange, config.ParkUnroutable = "tasks", 7, true, true
		t.Run(string(config.QueueType)+" "+config.Resolution.String(), func(t *testing.T) {
			client, vhost := connect(t), brokertest.Vhost(t, brokertest.Shared(t))
			want := expand(t, config)
			create(t, client, vhost, want)
			conn, channel := dial(t, vhost)
			if _, err := channel.QueueDeclare("end", true, false, false, false, amqp.Table{"x-queue-type": "classic"}); err != nil {
				t.Fatal(err)
			}
			if err := channel.QueueBind("end", "#", want.Delivery, false, nil); err != nil {
				t.Fatal(err)
			}
			for sent := 1; sent <= 10; sent++ {
				delay := time.Duration(1+rand.IntN(126)) * config.Resolution
				key, err := cascade.RoutingKey(delay, config.Levels, config.Resolution, "end")
				if err != nil {
					t.Fatal(err)
				}
				publish(t, conn, want.Entry, key)
				for {
					_, err := client.Run(t.Context(), vhost, verify(want))
					if err == nil {
						break
					}
					var waiting *broker.NotEmptyError
					if !errors.As(err, &waiting) {
						t.Fatal(err)
					}
				}
				// What was overlooked would turn up in a queue again, sooner or later.
				for arrived := 0; arrived < sent; {
					for name := range want.Queues {
						if q := count(t, channel, name); q > 0 {
							t.Fatalf("the cascade was called empty, but then queue %q had %d messages; the delay was %s", name, q, delay)
						}
					}
					arrived = count(t, channel, "end")
				}
			}
		})
	}
}

func count(t *testing.T, channel *amqp.Channel, queue string) int {
	t.Helper()
	q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// verify is the first phase of a teardown.
func verify(want topology.Topology) topology.Plan {
	return topology.Teardown(want, want, topology.Guard{})[:1]
}

// TestDrain waits for the cascade to run empty, and no longer.
func TestDrain(t *testing.T) {
	client, vhost := connect(t), brokertest.Vhost(t, brokertest.Shared(t))
	want := expand(t, cascade.Config{Name: "tasks", Levels: 3, CreateDeliveryExchange: true, ParkUnroutable: true})
	state := create(t, client, vhost, want)
	conn, _ := dial(t, vhost)
	arrivals, err := brokertest.CollectFrom(conn, want.Delivery, "#")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, conn, want.Entry, "1.0.1.somewhere") // 5 s

	_, err = client.Run(t.Context(), vhost, topology.Teardown(want, state.Topology, topology.Guard{Drain: time.Second}))
	var waiting *broker.NotEmptyError
	if !errors.As(err, &waiting) {
		t.Fatalf("the error is %v", err)
	}
	if plan := topology.Diff(want, read(t, client, vhost, want).Topology); len(plan) > 0 {
		t.Errorf("after the failed teardown these steps are left: %v", plan.Steps())
	}
	publish(t, conn, want.Entry, "0.0.1.somewhere")

	started := time.Now()
	run(t, client, vhost, topology.Teardown(want, state.Topology, topology.Guard{Drain: time.Minute}))
	if took := time.Since(started); took > 6*time.Second {
		t.Errorf("it took %s until the cascade was found empty", took)
	}
	if got := len(arrivals.Arrivals()); got != 2 {
		t.Errorf("%d of 2 messages have arrived", got)
	}
}

// TestLateMessage has a message come in between the first look and the end of the entry. One that is parked does not make a
// drain wait, which could not help.
func TestLateMessage(t *testing.T) {
	for key, late := range map[string]struct {
		guard topology.Guard
		queue string
	}{
		"1.1.1.somewhere": {topology.Guard{}, "tasks.delay-02"},
		"malformed":       {topology.Guard{Drain: time.Hour}, "tasks.unroutable"},
	} {
		t.Run(key, func(t *testing.T) {
			b := brokertest.Shared(t)
			vhost := brokertest.Vhost(t, b)
			want := expand(t, cascade.Config{Name: "tasks", Levels: 3, CreateDeliveryExchange: true, ParkUnroutable: true})
			conn, _ := dial(t, vhost)
			client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/"+want.Entry) {
					publish(t, conn, want.Entry, key)
				}
				forward.ServeHTTP(w, r)
			}))
			state := create(t, client, vhost, want)
			_, err := client.Run(t.Context(), vhost, topology.Teardown(want, state.Topology, late.guard))
			var waiting *broker.NotEmptyError
			if !errors.As(err, &waiting) || waiting.Queues[0].Name != late.queue {
				t.Fatalf("the error is %v", err)
			}
			if plan := topology.Diff(want, read(t, client, vhost, want).Topology); len(plan) > 0 {
				t.Errorf("after the refused teardown these steps are left: %v", plan.Steps())
			}
		})
	}
}

// TestDeleteIfEmpty is the last guard, behind VerifyEmpty.
func TestDeleteIfEmpty(t *testing.T) {
	client, vhost := connect(t), brokertest.Vhost(t, brokertest.Shared(t))
	conn, channel := dial(t, vhost)
	for _, queueType := range []string{"classic", "quorum"} {
		q := topology.Queue{Name: queueType, Durable: true, Arguments: topology.Arguments{"x-queue-type": queueType}}
		run(t, client, vhost, topology.Plan{{Steps: []topology.Step{topology.DeclareQueue{Queue: q}}}})
		publish(t, conn, "", q.Name)
		deletion := topology.Plan{{Steps: []topology.Step{topology.DeleteQueue{Queue: q, IfEmpty: true}}}}
		done, err := client.Run(t.Context(), vhost, deletion)
		var notEmpty *broker.NotEmptyError
		if !errors.As(err, &notEmpty) || notEmpty.Queues[0].Messages != 1 || len(done) > 0 {
			t.Fatalf("%s: done %v, error %v", queueType, done, err)
		}
		if _, err := channel.QueuePurge(q.Name, false); err != nil {
			t.Fatal(err)
		}
		if done := run(t, client, vhost, deletion); len(done) != 1 {
			t.Errorf("%s: done %v", queueType, done)
		}
		if done := run(t, client, vhost, deletion); len(done) != 0 {
			t.Errorf("%s: deleting it again counts as %v", queueType, done)
		}
	}
}

// TestMessageOnItsWay has a message get into its queue a moment after the last way there was closed, as one that a channel has routed before.
func TestMessageOnItsWay(t *testing.T) {
	for _, queueType := range []string{"quorum", "classic"} {
		q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": queueType, "x-message-ttl": int64(3_600_000)}}
		bound := topology.Binding{Source: "x", DestinationType: topology.ToQueue, Destination: "q"}
		verify := topology.Phase{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}}}}
		deletion := topology.Phase{Steps: []topology.Step{topology.DeleteQueue{Queue: q, IfEmpty: true}}}
		fromX := topology.Phase{Steps: []topology.Step{topology.DeleteQueue{Queue: q, IfEmpty: true, Sources: []string{"x"}}}}
		for name, plan := range map[string]topology.Plan{
			"exchange": {verify, {Steps: []topology.Step{topology.DeleteExchange{Name: "x"}}}, verify, deletion},
			"source":   {{Steps: []topology.Step{topology.DeleteExchange{Name: "x"}}}, fromX},
			"binding":  {verify, {Steps: []topology.Step{topology.Unbind{Binding: bound}}}, deletion},
		} {
			t.Run(queueType+" "+name, func(t *testing.T) {
				t.Parallel()
				vhost := brokertest.Vhost(t, brokertest.Shared(t))
				conn, channel := dial(t, vhost)
				publisher, err := brokertest.NewPublisher(conn)
				if err != nil {
					t.Fatal(err)
				}
				published := make(chan error, 1)
				client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
					forward.ServeHTTP(w, r)
					if r.Method == http.MethodDelete && !strings.HasPrefix(r.URL.Path, "/api/queues/") {
						time.AfterFunc(60*time.Millisecond, func() { published <- publisher.Publish(t.Context(), "", "q", amqp.Publishing{}) })
					}
				}))
				run(t, client, vhost, topology.Plan{
					{Steps: []topology.Step{topology.DeclareQueue{Queue: q}, topology.DeclareExchange{Exchange: topology.Exchange{Name: "x", Type: "topic", Durable: true}}}},
					{Steps: []topology.Step{topology.Bind{Binding: bound}}},
				})
				_, err = client.Run(t.Context(), vhost, plan)
				var notEmpty *broker.NotEmptyError
				if !errors.As(err, &notEmpty) {
					t.Errorf("the error is %v", err)
				}
				if err := <-published; err != nil {
					t.Errorf("the message was not confirmed: %v", err)
				} else if n := count(t, channel, "q"); n != 1 {
					t.Errorf("%d messages are left of one that was confirmed", n)
				}
			})
		}
	}
}

// TestDeleteAgain has a message come in when the first attempt to delete its queue has failed.
func TestDeleteAgain(t *testing.T) {
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	conn, _ := dial(t, vhost)
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum"}}
	var attempts atomic.Int32
	client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if r.Method == http.MethodDelete && attempts.Add(1) == 1 {
			publish(t, conn, "", q.Name)
			answer(w, http.StatusServiceUnavailable, `{}`)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	run(t, client, vhost, topology.Plan{{Steps: []topology.Step{topology.DeclareQueue{Queue: q}}}})
	_, err := client.Run(t.Context(), vhost, topology.Plan{{Steps: []topology.Step{topology.DeleteQueue{Queue: q, IfEmpty: true}}}})
	var notEmpty *broker.NotEmptyError
	if !errors.As(err, &notEmpty) || attempts.Load() != 1 {
		t.Errorf("after %d attempts the error is %v", attempts.Load(), err)
	}
}

// TestAnotherBrokersAMQP has an AMQP port that belongs to another cluster than the management API.
func TestAnotherBrokersAMQP(t *testing.T) {
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	var lookedInto atomic.Bool
	client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/api/cluster-name") {
			answer(w, 200, `{"name":"another"}`)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/get") {
			lookedInto.Store(true)
		}
		forward.ServeHTTP(w, r)
	}))
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
	run(t, client, vhost, topology.Plan{{Steps: []topology.Step{topology.DeclareQueue{Queue: q}}},
		{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}}}}})
	if !lookedInto.Load() {
		t.Error("the queue of the other broker was asked")
	}
}

// TestBrokersDisagree has AMQP say that nothing is ready, and the management API that much is: AMQP may be that of another broker with
// the same cluster name. What the management API says only at first is out of date.
func TestBrokersDisagree(t *testing.T) {
	deletion := func(q topology.Queue) topology.Step { return topology.DeleteQueue{Queue: q, IfEmpty: true} }
	verification := func(q topology.Queue) topology.Step { return topology.VerifyEmpty{Queues: []topology.Queue{q}} }
	for name, test := range map[string]struct {
		queueType string
		step      func(topology.Queue) topology.Step
		lasts     time.Duration
		refused   bool
	}{
		"verify quorum":           {"quorum", verification, time.Hour, true},
		"verify classic":          {"classic", verification, time.Hour, true},
		"delete quorum":           {"quorum", deletion, time.Hour, true},
		"verify quorum, for 3 s":  {"quorum", verification, 3 * time.Second, false},
		"verify classic, for 1 s": {"classic", verification, time.Second, false},
		"delete quorum, for 3 s":  {"quorum", deletion, 3 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			var since atomic.Pointer[time.Time]
			var deleted atomic.Bool
			client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				if r.Method == http.MethodDelete {
					deleted.Store(true)
				}
				if strings.Contains(r.URL.RawQuery, "enable_queue_totals") {
					now := time.Now()
					since.CompareAndSwap(nil, &now)
					if now.Sub(*since.Load()) < test.lasts {
						totals := `{"name":"q","messages":1000,"messages_ready":1000}`
						if strings.HasSuffix(r.URL.Path, "/q") {
							answer(w, http.StatusOK, totals)
						} else {
							answer(w, http.StatusOK, "["+totals+"]")
						}
						return
					}
				}
				forward.ServeHTTP(w, r)
			}))
			q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": test.queueType}}
			run(t, client, vhost, topology.Plan{{Steps: []topology.Step{topology.DeclareQueue{Queue: q}}}})
			began := time.Now()
			_, err := client.Run(t.Context(), vhost, topology.Plan{{Steps: []topology.Step{test.step(q)}}})
			took := time.Since(began)
			switch {
			case !test.refused && err != nil:
				t.Error(err)
			case test.refused && (!broker.IsKind(err, broker.Unavailable) || !strings.Contains(err.Error(), "amqp_uri") || !strings.Contains(err.Error(), "1000")):
				t.Errorf("the error is %v", err)
			case test.refused && deleted.Load():
				t.Error("it is deleted")
			case took < min(test.lasts, 5*time.Second):
				t.Errorf("it took %s", took)
			case took > 12*time.Second:
				t.Errorf("it took %s", took)
			}
		})
	}
}

// TestCanceledWait ends a wait at once.
func TestCanceledWait(t *testing.T) {
	client, vhost := connect(t), brokertest.Vhost(t, brokertest.Shared(t))
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic", "x-message-ttl": int64(3_600_000)}}
	run(t, client, vhost, topology.Plan{{Steps: []topology.Step{topology.DeclareQueue{Queue: q}}}})
	conn, _ := dial(t, vhost)
	publish(t, conn, "", "q")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := client.Run(ctx, vhost, topology.Plan{{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}, Wait: time.Hour}}}})
	if !broker.IsKind(err, broker.Timeout) {
		t.Errorf("the error is %v", err)
	}
}

// TestDrainLeavesMessagesAlone waits in vain for a message to leave, without AMQP. RabbitMQ 4.0 lets go what has been got and
// put back 20 times.
func TestDrainLeavesMessagesAlone(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	client := connect(t, noAMQP)
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum", "x-message-ttl": int64(3_600_000)}}
	run(t, client, vhost, topology.Plan{{Steps: []topology.Step{topology.DeclareQueue{Queue: q}}}})
	conn, channel := dial(t, vhost)
	publish(t, conn, "", "q")
	_, err := client.Run(t.Context(), vhost, topology.Plan{{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}, Wait: 8 * time.Second}}}})
	var waits *broker.NotEmptyError
	if !errors.As(err, &waits) {
		t.Errorf("the error is %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); count(t, channel, "q") != 1; time.Sleep(50 * time.Millisecond) { // it is being put back
		if time.Now().After(deadline) {
			t.Fatal("the message is gone")
		}
	}
}

// TestRefusalsLeaveMessagesAlone tries again and again to delete a queue that holds a message, without AMQP: it stays there for its time.
func TestRefusalsLeaveMessagesAlone(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	var gets atomic.Int32
	client := connect(t, noAMQP, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/tasks.delay-00/get") {
			gets.Add(1)
		}
		forward.ServeHTTP(w, r)
	}))
	const ttl = 30 * time.Second
	want := expand(t, cascade.Config{Name: "tasks", Levels: 1, Resolution: ttl, CreateDeliveryExchange: true, ParkUnroutable: true})
	state := create(t, client, vhost, want)
	conn, _ := dial(t, vhost)
	arrivals, err := brokertest.CollectFrom(conn, want.Delivery, "#")
	if err != nil {
		t.Fatal(err)
	}
	published := time.Now()
	publish(t, conn, want.Entry, "1.somewhere")
	refuse := func() {
		t.Helper()
		_, err := client.Run(t.Context(), vhost, topology.Teardown(want, state.Topology, topology.Guard{}))
		var waits *broker.NotEmptyError
		if !errors.As(err, &waits) || waits.Queues[0].Messages != 1 {
			t.Fatalf("the error is %v", err)
		}
	}
	for refuse(); gets.Swap(0) > 0 && time.Since(published) < 12*time.Second; refuse() { // until the totals show it (3.10 has them from its statistics)
		time.Sleep(time.Second)
	}
	for range 25 {
		refuse()
	}
	if n := gets.Load(); n > 0 {
		t.Errorf("the message was got and put back %d times", n)
	}
	if all, err := arrivals.Wait(t.Context(), 1); err != nil || all[0].At.Sub(published) < ttl {
		t.Errorf("the message arrived after %s: %v", time.Since(published), err)
	}
}

// TestDrainCounts waits for a message to leave, with AMQP: as long as it is ready, the management API is not asked.
func TestDrainCounts(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	var requests atomic.Int32
	client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		requests.Add(1)
		forward.ServeHTTP(w, r)
	}))
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum", "x-message-ttl": int64(5_000)}}
	run(t, client, vhost, topology.Plan{{Steps: []topology.Step{topology.DeclareQueue{Queue: q}}}})
	drain := topology.Plan{{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}, Wait: time.Minute}}}}
	requests.Store(0)
	run(t, client, vhost, drain)
	empty := requests.Swap(0)
	conn, _ := dial(t, vhost)
	publish(t, conn, "", "q")
	began := time.Now()
	run(t, client, vhost, drain)
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("it waited for %s", took)
	}
	if n := requests.Load(); n > 3*empty {
		t.Errorf("%d requests, and %d where nothing waits", n, empty)
	}
}

// TestQueueWithoutLeader holds messages, but RabbitMQ answers that nothing is in it.
func TestQueueWithoutLeader(t *testing.T) {
	b, err := brokertest.Start(t.Context(), t.Output(), brokertest.WithConfig("heartbeat = 60"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Stop() })
	// Without a delivery limit, because it is looked into more often than any Terraform does.
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum", "x-delivery-limit": int64(math.MaxInt32)}}
	conn, channel := dialTo(t, b, "/")
	for way, amqpURI := range map[string]string{"AMQP": b.AMQPURI, "management API": "amqp://127.0.0.1:1"} {
		t.Run(way, func(t *testing.T) {
			client, err := broker.New(broker.Config{Endpoint: b.Endpoint, AMQPURI: amqpURI, Username: b.Username, Password: b.Password})
			if err != nil {
				t.Fatal(err)
			}
			run(t, client, "/", topology.Plan{{Steps: []topology.Step{topology.DeclareQueue{Queue: q}}}})
			publish(t, conn, "", "q")
			if out, err := b.CLI(t.Context(), "rabbitmqctl", "eval", `ra:stop_server(quorum_queues, {'%2F_q', node()}).`); err != nil {
				t.Fatal(err, string(out))
			}
			for _, step := range []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}}, topology.DeleteQueue{Queue: q, IfEmpty: true}} {
				done, err := client.Run(t.Context(), "/", topology.Plan{{Steps: []topology.Step{step}}})
				if err == nil || len(done) > 0 {
					t.Errorf("%s: done %v, error %v", step, done, err)
				}
			}
			if out, err := b.CLI(t.Context(), "rabbitmqctl", "eval", `ra:restart_server(quorum_queues, {'%2F_q', node()}).`); err != nil {
				t.Fatal(err, string(out))
			}
			for count(t, channel, "q") == 0 {
				if t.Context().Err() != nil {
					t.Fatal("the queue has not come back")
				}
			}

			// Its process ends and comes back, and for moments there is a replica online, but no leader.
			back := make(chan error)
			for range 4 {
				go func() {
					_, err := b.CLI(t.Context(), "rabbitmqctl", "eval",
						`exit(whereis('%2F_q'), kill), timer:sleep(100), catch ra:restart_server(quorum_queues, {'%2F_q', node()}), timer:sleep(500).`)
					back <- err
				}()
				for waiting := true; waiting; {
					done, err := client.Run(t.Context(), "/", topology.Plan{{Steps: []topology.Step{topology.DeleteQueue{Queue: q, IfEmpty: true}}}})
					if err == nil || len(done) > 0 {
						t.Fatalf("it is deleted: done %v, error %v", done, err)
					}
					select {
					case err := <-back:
						if waiting = false; err != nil {
							t.Fatal(err)
						}
					default:
					}
				}
			}
		})
	}
}
