package rabbit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// deadLetter are the arguments of a queue that keeps a message until the exchange has found a way for it.
func deadLetter(exchange string) topology.Arguments {
	return topology.Arguments{"x-queue-type": "quorum", "x-message-ttl": int64(10), "x-dead-letter-exchange": exchange,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
}

// TestNothingIsOverlooked sends a message to where it is hard to see, and asks at once.
func TestNothingIsOverlooked(t *testing.T) {
	t.Parallel()
	plain := func(queueType string) topology.Arguments { return topology.Arguments{"x-queue-type": queueType} }
	takeFirst := func(t *testing.T, channel *amqp.Channel) {
		if _, ok, err := channel.Get("q", false); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	stays := func(*testing.T, *amqp.Channel) {}
	for name, test := range map[string]hiddenMessage{
		"ready, quorum":                        {arguments: plain("quorum"), then: stays},
		"ready, classic":                       {arguments: plain("classic"), then: stays},
		"unacknowledged, quorum":               {arguments: plain("quorum"), then: takeFirst, overAMQP: true},
		"unacknowledged, classic":              {arguments: plain("classic"), then: takeFirst},
		"expired, dead-letter exchange absent": {arguments: deadLetter("absent"), then: expire},
		"expired, unroutable":                  {arguments: deadLetter("unbound"), then: expire},
		"expired, refused":                     {arguments: deadLetter("full"), then: expire},
	} {
		t.Run(name+" over AMQP", func(t *testing.T) { test.isSeen(t) })
		if !test.overAMQP {
			t.Run(name+" over management API", func(t *testing.T) { test.isSeen(t, noAMQP(t)) })
		}
	}
}

// hiddenMessage is in a queue.
type hiddenMessage struct {
	arguments topology.Arguments // of the queue
	then      func(*testing.T, *amqp.Channel)
	overAMQP  bool // the management API alone does not show it in time
}

func (test hiddenMessage) isSeen(t *testing.T, with ...func(*rabbit.Config)) {
	t.Parallel()
	client, vhost := connect(t, with...), brokertest.Vhost(t, brokertest.Shared(t))
	q := topology.Queue{Name: "q", Durable: true, Arguments: test.arguments}
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{
		plan.DeclareQueue{Queue: q},
		plan.DeclareExchange{Exchange: topology.Exchange{Name: "unbound", Type: "topic", Durable: true}},
	}}})
	fill(t, client, vhost)
	verify := plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}, Why: "deleting it"}}}}
	run(t, client, vhost, verify)

	conn, channel := dial(t, vhost)
	publish(t, conn, "", "q")
	test.then(t, channel)
	_, err := engine.Run(t.Context(), client.Vhost(vhost), verify)
	var notEmpty *drain.NotEmptyError
	if !errors.As(err, &notEmpty) || len(notEmpty.Queues) != 1 || notEmpty.Queues[0].Name != "q" ||
		notEmpty.Queues[0].Messages != 1 {
		t.Fatalf("the error is %v", err)
	}
	if !strings.Contains(notEmpty.Detail(), `"q": 1`) || !strings.Contains(notEmpty.Detail(), "Deleting it") {
		t.Errorf("the detail is %s", notEmpty.Detail())
	}

	if _, err := channel.QueuePurge("q", false); err != nil {
		t.Fatal(err)
	}
	if err := channel.Close(); err != nil { // puts back what it has taken
		t.Fatal(err)
	}
}

// TestExpiredRefusedByPolicy has the next queue refuse a message by a policy. The user may read the policy, as every
// one may, or something on the way keeps it from him.
func TestExpiredRefusedByPolicy(t *testing.T) {
	t.Parallel()
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
			next := topology.Queue{Name: "next", Durable: true,
				Arguments: topology.Arguments{"x-queue-type": "classic"}}
			run(t, client, vhost, plan.Plan{
				{Steps: []plan.Step{
					plan.DeclareQueue{Queue: q}, plan.DeclareQueue{Queue: next},
					plan.DeclareExchange{Exchange: topology.Exchange{
						Name: "next", Type: "fanout", Durable: true,
						Arguments: topology.Arguments{"alternate-exchange": "next"},
					}},
				}},
				{Steps: []plan.Step{plan.Bind{Binding: topology.Binding{Source: "next", Destination: "next",
					DestinationType: topology.ToQueue}}}},
			})
			admin(t, http.MethodPut, []string{"policies", vhost, "limit"}, map[string]any{
				"pattern": "^next$", "apply-to": "queues", "definition": map[string]any{"max-length": 1,
					"overflow": "reject-publish"},
			})
			conn, channel := dial(t, vhost)
			publishUntilRefused(t, conn, "next")
			publish(t, conn, "", "q")
			expire(t, channel)
			_, err := engine.Run(t.Context(), client.Vhost(vhost),
				plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q},
					Why: "deleting it"}}}})
			var notEmpty *drain.NotEmptyError
			if !errors.As(err, &notEmpty) || len(notEmpty.Queues) != 1 || notEmpty.Queues[0].Messages != 1 {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// publishUntilRefused publishes until a policy that limits the queue has come into force, which is in the background.
func publishUntilRefused(t *testing.T, conn *amqp.Connection, queue string) {
	t.Helper()
	publisher, err := brokertest.NewPublisher(conn)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = publisher.Publish(t.Context(), "", queue, amqp.Publishing{})
	}
	if !errors.Is(err, brokertest.ErrNacked) {
		t.Fatal(err)
	}
}

// fill declares an exchange "full" that leads every message to a queue, but to one that refuses it.
func fill(t *testing.T, client *rabbit.Client, vhost string) {
	t.Helper()
	run(t, client, vhost, plan.Plan{
		{Steps: []plan.Step{
			plan.DeclareQueue{Queue: topology.Queue{Name: "full", Durable: true, Arguments: topology.Arguments{
				"x-queue-type": "classic", "x-max-length": int64(1), "x-overflow": "reject-publish",
			}}},
			plan.DeclareQueue{Queue: topology.Queue{Name: "rest", Durable: true,
				Arguments: topology.Arguments{"x-queue-type": "classic"}}},
			plan.DeclareExchange{Exchange: topology.Exchange{Name: "rest", Type: "fanout", Durable: true}},
			plan.DeclareExchange{Exchange: topology.Exchange{
				Name: "full", Type: "topic", Durable: true, Arguments: topology.Arguments{"alternate-exchange": "rest"},
			}},
		}},
		{Steps: []plan.Step{
			plan.Bind{Binding: topology.Binding{Source: "full", Destination: "full",
				DestinationType: topology.ToQueue, RoutingKey: "#"}},
			plan.Bind{Binding: topology.Binding{Source: "rest", Destination: "rest",
				DestinationType: topology.ToQueue}},
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
	if err := publisher.Publish(t.Context(), exchange, key,
		amqp.Publishing{DeliveryMode: amqp.Persistent}); err != nil {
		t.Fatal(err)
	}
}

// TestMovingMessages asks again and again while one message walks down a cascade. The answer has to be that it is there
// until it has arrived at the end.
func TestMovingMessages(t *testing.T) {
	for _, config := range []delay.Config{
		{QueueType: delay.Quorum, Resolution: time.Millisecond, Lookahead: 1},
		{QueueType: delay.Quorum, Resolution: 3 * time.Millisecond},
		{QueueType: delay.Classic, Resolution: time.Millisecond, Lookahead: 1},
		{QueueType: delay.Classic, Resolution: 3 * time.Millisecond},
	} {
		config.Name, config.Levels, config.CreateDeliveryExchange, config.ParkUnroutable = "tasks", 7, true, true
		t.Run(string(config.QueueType)+" "+config.Resolution.String(), func(t *testing.T) {
			client, vhost := connect(t), brokertest.Vhost(t, brokertest.Shared(t))
			want := expand(t, config)
			create(t, client, vhost, want)
			conn, channel := dial(t, vhost)
			if _, err := channel.QueueDeclare("end", true, false, false, false,
				amqp.Table{"x-queue-type": "classic"}); err != nil {
				t.Fatal(err)
			}
			if err := channel.QueueBind("end", "#", want.Delivery, false, nil); err != nil {
				t.Fatal(err)
			}
			for sent := 1; sent <= 10; sent++ {
				wait := time.Duration(1+rand.IntN(126)) * config.Resolution
				scale := delay.Uniform{Base: 2, Levels: config.Levels, Resolution: config.Resolution}
				key, err := scale.Scale().RoutingKey(wait, "end")
				if err != nil {
					t.Fatal(err)
				}
				publish(t, conn, want.Entry, key)
				lookUntilEmpty(t, client, vhost, want)
				// An overlooked message would turn up in a queue again, sooner or later.
				for arrived := 0; arrived < sent; arrived = count(t, channel, "end") {
					staysEmpty(t, channel, want, wait)
				}
			}
		})
	}
}

// lookUntilEmpty looks into the cascade until it is called empty.
func lookUntilEmpty(t *testing.T, client *rabbit.Client, vhost string, want topology.Topology) {
	t.Helper()
	for {
		_, err := engine.Run(t.Context(), client.Vhost(vhost), verify(want))
		if err == nil {
			return
		}
		var waiting *drain.NotEmptyError
		if !errors.As(err, &waiting) {
			t.Fatal(err)
		}
	}
}

// staysEmpty counts the messages in the queues of a cascade that was called empty.
func staysEmpty(t *testing.T, channel *amqp.Channel, want topology.Topology, delay time.Duration) {
	t.Helper()
	for name := range want.Queues {
		if q := count(t, channel, name); q > 0 {
			t.Fatalf("the cascade was called empty, but then queue %q had %d messages; the delay was %s", name, q,
				delay)
		}
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

// verify is the phase of a teardown behind the end of the entry.
func verify(want topology.Topology) plan.Plan {
	todo := plan.Teardown(want, want, plan.Guard{})
	i := slices.IndexFunc(todo, func(phase plan.Phase) bool {
		step, ok := phase.Steps[0].(plan.VerifyEmpty)
		return ok && !step.FirstLook
	})
	return todo[i : i+1]
}

// TestDrain waits for the cascade to run empty, and no longer.
func TestDrain(t *testing.T) {
	client, vhost := connect(t), brokertest.Vhost(t, brokertest.Shared(t))
	want := expand(t, delay.Config{Name: "tasks", Levels: 3, CreateDeliveryExchange: true, ParkUnroutable: true})
	state := create(t, client, vhost, want)
	conn, _ := dial(t, vhost)
	arrivals, err := brokertest.CollectFrom(conn, want.Delivery, "#")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, conn, want.Entry, "1.1.1.somewhere") // 7 s, so that it waits also where the machine is busy

	_, err = engine.Run(t.Context(), client.Vhost(vhost),
		plan.Teardown(want, state.Topology, plan.Guard{Drain: time.Second}))
	var waiting *drain.NotEmptyError
	if !errors.As(err, &waiting) {
		t.Fatalf("the error is %v", err)
	}
	if todo := plan.Repair(want, read(t, client, vhost, want).Topology); len(todo) > 0 {
		t.Errorf("after the failed teardown these steps are left: %v", todo.Steps())
	}

	sent := 1
	err = upToThreeTimes(func() error {
		state := create(t, client, vhost, want) // once more, the second time
		publish(t, conn, want.Entry, "0.0.1.somewhere")
		sent++
		run(t, client, vhost, plan.Teardown(want, state.Topology, plan.Guard{Drain: time.Minute}))
		found := time.Now()
		last := lastOf(t, arrivals, sent)
		if late := found.Sub(last); late > 5*time.Second {
			return fmt.Errorf("after the last message it took %s until the cascade was found empty", late)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// lastOf is when the last of so many messages arrived.
func lastOf(t *testing.T, arrivals *brokertest.Collector, sent int) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	all, err := arrivals.Wait(ctx, sent)
	if err != nil || len(all) != sent {
		t.Fatalf("%d of %d messages have arrived: %v", len(all), sent, err)
	}
	return all[sent-1].At
}

// TestLateMessage has a message come in between the first look and the end of the entry. One that is parked does not
// make a drain wait, which could not help.
func TestLateMessage(t *testing.T) {
	for key, late := range map[string]struct {
		guard plan.Guard
		queue string
	}{
		"1.1.1.somewhere": {plan.Guard{}, "tasks.delay-02"},
		"malformed":       {plan.Guard{Drain: time.Hour}, "tasks.unroutable"},
	} {
		t.Run(key, func(t *testing.T) {
			b := brokertest.Shared(t)
			vhost := brokertest.Vhost(t, b)
			// The message does not leave its first queue before it is seen.
			want := expand(t, delay.Config{Name: "tasks", Levels: 3, Resolution: time.Minute,
				CreateDeliveryExchange: true, ParkUnroutable: true})
			conn, _ := dial(t, vhost)
			client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/"+want.Entry) {
					publish(t, conn, want.Entry, key)
				}
				forward.ServeHTTP(w, r)
			}))
			state := create(t, client, vhost, want)
			_, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Teardown(want, state.Topology, late.guard))
			var waiting *drain.NotEmptyError
			if !errors.As(err, &waiting) || waiting.Queues[0].Name != late.queue {
				t.Fatalf("the error is %v", err)
			}
			if todo := plan.Repair(want, read(t, client, vhost, want).Topology); len(todo) > 0 {
				t.Errorf("after the refused teardown these steps are left: %v", todo.Steps())
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
		run(t, client, vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
		publish(t, conn, "", q.Name)
		deletion := plan.Plan{{Steps: []plan.Step{plan.DeleteQueue{Queue: q, IfEmpty: true}}}}
		done, err := engine.Run(t.Context(), client.Vhost(vhost), deletion)
		var notEmpty *drain.NotEmptyError
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

// TestMessageOnItsWay has a message get into its queue a moment after the last way there was closed, as one that a
// channel has routed before.
func TestMessageOnItsWay(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": queueType,
			"x-message-ttl": int64(3_600_000)}}
		bound := topology.Binding{Source: "x", DestinationType: topology.ToQueue, Destination: "q"}
		verify := plan.Phase{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}}}}
		deletion := plan.Phase{Steps: []plan.Step{plan.DeleteQueue{Queue: q, IfEmpty: true}}}
		fromX := plan.Phase{Steps: []plan.Step{plan.DeleteQueue{Queue: q, IfEmpty: true,
			Sources: []string{"x"}}}}
		declare := plan.Plan{
			{Steps: []plan.Step{plan.DeclareQueue{Queue: q},
				plan.DeclareExchange{Exchange: topology.Exchange{Name: "x", Type: "topic", Durable: true}}}},
			{Steps: []plan.Step{plan.Bind{Binding: bound}}},
		}
		for name, todo := range map[string]plan.Plan{
			"exchange": {verify, {Steps: []plan.Step{plan.DeleteExchange{Name: "x"}}}, verify, deletion},
			"source":   {{Steps: []plan.Step{plan.DeleteExchange{Name: "x"}}}, fromX},
			"binding":  {verify, {Steps: []plan.Step{plan.Unbind{Binding: bound}}}, deletion},
		} {
			t.Run(queueType+" "+name, func(t *testing.T) {
				t.Parallel()
				waitsForMessage(t, declare, todo)
			})
		}
	}
}

// waitsForMessage runs a plan that deletes the queue, which a message is on its way to. On a busy machine the message
// of the test may come later than anybody waits for: it is sent once more then.
func waitsForMessage(t *testing.T, declare, todo plan.Plan) {
	for range 30 {
		if wasInTime(t, declare, todo) {
			return
		}
	}
	t.Error("no message came in time")
}

// wasInTime tells whether the message came in time to be waited for, or was waited for.
func wasInTime(t *testing.T, declare, todo plan.Plan) bool {
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	conn, channel := dial(t, vhost)
	publisher, err := brokertest.NewPublisher(conn)
	if err != nil {
		t.Fatal(err)
	}
	type publication struct {
		took time.Duration
		err  error
	}
	published := make(chan publication, 1)
	client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		forward.ServeHTTP(w, r)
		if r.Method == http.MethodDelete && !strings.HasPrefix(r.URL.Path, "/api/queues/") {
			closed := time.Now()
			time.AfterFunc(25*time.Millisecond, func() {
				err := publisher.Publish(t.Context(), "", "q", amqp.Publishing{})
				published <- publication{time.Since(closed), err}
			})
		}
	}))
	run(t, client, vhost, declare)
	_, err = engine.Run(t.Context(), client.Vhost(vhost), todo)
	message := <-published
	const waitedFor = 100 * time.Millisecond // at least, see drain.Settling
	if err == nil && message.took >= waitedFor {
		return false
	}
	var notEmpty *drain.NotEmptyError
	if !errors.As(err, &notEmpty) {
		t.Errorf("the error is %v", err)
	}
	if message.err != nil {
		t.Errorf("the message was not confirmed: %v", message.err)
	} else if n := count(t, channel, "q"); n != 1 {
		t.Errorf("%d messages are left of one that was confirmed", n)
	}
	return true
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
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
	_, err := engine.Run(t.Context(), client.Vhost(vhost),
		plan.Plan{{Steps: []plan.Step{plan.DeleteQueue{Queue: q, IfEmpty: true}}}})
	var notEmpty *drain.NotEmptyError
	if !errors.As(err, &notEmpty) || attempts.Load() != 1 {
		t.Errorf("after %d attempts the error is %v", attempts.Load(), err)
	}
}

// TestAnotherBrokersAMQP finds an AMQP port that belongs to another cluster than the management API.
func TestAnotherBrokersAMQP(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	var counted atomic.Bool
	client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if strings.Contains(r.URL.RawQuery, "reductions") { // which are only needed without AMQP
			counted.Store(true)
		}
		forward.ServeHTTP(w, r)
	}), derived(t, amqpOf(t).Port(), "another"))
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum"}}
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}},
		{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}}}}})
	if !counted.Load() {
		t.Error("the queue of the other broker was asked")
	}
}

// TestBrokersDisagree has AMQP say that nothing is ready, and the management API that much is. AMQP may be that of
// another broker with the same cluster name. A count that the management API gives only at first is out of date.
func TestBrokersDisagree(t *testing.T) {
	t.Parallel()
	deletion := func(q topology.Queue) plan.Step { return plan.DeleteQueue{Queue: q, IfEmpty: true} }
	verification := func(q topology.Queue) plan.Step { return plan.VerifyEmpty{Queues: []topology.Queue{q}} }
	for name, test := range map[string]claimOfMessages{
		"verify quorum": {"quorum", verification, time.Hour, "amqp_uri"},
		// of these the management API knows at once
		"verify classic":         {"classic", verification, time.Hour, "messages wait"},
		"delete quorum":          {"quorum", deletion, time.Hour, "amqp_uri"},
		"verify quorum, for 3 s": {"quorum", verification, 3 * time.Second, ""},
		"delete quorum, for 3 s": {"quorum", deletion, 3 * time.Second, ""},
	} {
		t.Run(name, test.run)
	}
}

// claimOfMessages has the management API claim for some time that 1000 messages are in a queue.
type claimOfMessages struct {
	queueType string
	step      func(topology.Queue) plan.Step
	lasts     time.Duration
	says      string // the error, if it is refused
}

func (test claimOfMessages) run(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	var since atomic.Pointer[time.Time]
	var deleted atomic.Bool
	client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if r.Method == http.MethodDelete {
			deleted.Store(true)
		}
		if strings.Contains(r.URL.RawQuery, "messages") {
			now := time.Now()
			since.CompareAndSwap(nil, &now)
			if now.Sub(*since.Load()) < test.lasts {
				claim(t, w, r, forward, 1000)
				return
			}
		}
		forward.ServeHTTP(w, r)
	}))
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": test.queueType}}
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
	began := time.Now()
	_, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Plan{{Steps: []plan.Step{test.step(q)}}})
	took := time.Since(began)
	switch {
	case test.says == "" && err != nil:
		t.Error(err)
	case test.says == "" && took < test.lasts:
		t.Errorf("it took %s", took)
	case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) ||
		!strings.Contains(err.Error(), "1000")):
		t.Errorf("the error is %v", err)
	case test.says != "" && deleted.Load():
		t.Error("it is deleted")
	}
}

// claim forwards a request, and has the answer say that so many messages are ready.
func claim(t *testing.T, w http.ResponseWriter, r *http.Request, forward http.Handler, messages int) {
	answered := httptest.NewRecorder()
	forward.ServeHTTP(answered, r)
	var all []map[string]any
	var one map[string]any
	var answer any = &all
	if json.Unmarshal(answered.Body.Bytes(), &all) != nil {
		answer = &one
		if err := json.Unmarshal(answered.Body.Bytes(), &one); err != nil {
			t.Error(err)
		}
		all = []map[string]any{one}
	}
	for _, q := range all {
		q["messages"], q["messages_ready"] = messages, messages
	}
	w.WriteHeader(answered.Code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		t.Error(err)
	}
}

// TestCanceledWait ends a wait at once.
func TestCanceledWait(t *testing.T) {
	client, vhost := connect(t), brokertest.Vhost(t, brokertest.Shared(t))
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic",
		"x-message-ttl": int64(3_600_000)}}
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
	conn, _ := dial(t, vhost)
	publish(t, conn, "", "q")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := engine.Run(ctx, client.Vhost(vhost),
		plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}, Wait: time.Hour}}}})
	if !rabbit.IsKind(err, rabbit.Timeout) {
		t.Errorf("the error is %v", err)
	}
}

// TestDrainLeavesMessagesAlone waits in vain for a message to leave, without AMQP. RabbitMQ 4.0 drops a message that
// somebody has got and put back 20 times.
func TestDrainLeavesMessagesAlone(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	client := connect(t, noAMQP(t))
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum",
		"x-message-ttl": int64(3_600_000)}}
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
	conn, channel := dial(t, vhost)
	publish(t, conn, "", "q")
	_, err := engine.Run(t.Context(), client.Vhost(vhost),
		plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q},
			Wait: 8 * time.Second}}}})
	var waits *drain.NotEmptyError
	if !errors.As(err, &waits) {
		t.Errorf("the error is %v", err)
	}
	// it is being put back
	for deadline := time.Now().Add(10 * time.Second); count(t, channel, "q") != 1; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the message is gone")
		}
	}
}

// TestRefusalsLeaveMessagesAlone tries again and again to delete a queue that holds a message, without AMQP: it stays
// there for its time.
func TestRefusalsLeaveMessagesAlone(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	var gets atomic.Int32
	client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/tasks.delay-00/get") {
			gets.Add(1)
		}
		forward.ServeHTTP(w, r)
	}), noAMQP(t))
	const ttl = 90 * time.Second // more than all the tries take on a busy machine
	want := expand(t, delay.Config{Name: "tasks", Levels: 1, Resolution: ttl, CreateDeliveryExchange: true,
		ParkUnroutable: true})
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
		_, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Teardown(want, state.Topology, plan.Guard{}))
		var waits *drain.NotEmptyError
		if !errors.As(err, &waits) || waits.Queues[0].Messages != 1 {
			t.Fatalf("the error is %v", err)
		}
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
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum",
		"x-message-ttl": int64(5_000)}}
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
	drain := plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q},
		Wait: time.Minute}}}}
	requests.Store(0)
	run(t, client, vhost, drain)
	empty := requests.Swap(0)
	conn, _ := dial(t, vhost)
	began := time.Now()
	publish(t, conn, "", "q")
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
	t.Parallel()
	b := brokertest.Own(t)
	conn, channel := dialTo(t, b, "/")
	// Without a delivery limit, because it is looked into more often than any Terraform does.
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum",
		"x-delivery-limit": int64(math.MaxInt32)}}
	for way, config := range map[string]func(*rabbit.Config){"AMQP": func(*rabbit.Config) {},
		"management API": noAMQP(t)} {
		t.Run(way, func(t *testing.T) {
			client := clientFor(t, b, config, func(c *rabbit.Config) { c.RetryTimeout = 0 })
			run(t, client, "/", plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
			publish(t, conn, "", "q")
			staysWithoutLeader(t, b, client, q)
			for count(t, channel, "q") == 0 {
				if t.Context().Err() != nil {
					t.Fatal("the queue has not come back")
				}
			}
			for range 4 {
				staysWhileLeaderRestarts(t, b, client, q)
			}
		})
	}
}

// TestSlowLeader has a leader that does not answer in time. RabbitMQ says then that nothing is ready.
func TestSlowLeader(t *testing.T) {
	t.Parallel()
	b := brokertest.Own(t)
	conn, _ := dialTo(t, b, "/")
	client := clientFor(t, b)
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum"}}
	run(t, client, "/", plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
	publish(t, conn, "", "q")
	for { // until the queue has counted itself
		counted, err := client.Vhost("/").Count(t.Context(), "q", rabbit.CountedLast)
		if err != nil {
			t.Fatal(err)
		}
		if counted.Messages == 1 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	asks, err := client.Vhost("/").Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer asks.Close()
	for _, is := range []struct {
		done string
		want rabbit.ReadyCount
	}{{"suspend", rabbit.ReadyCount{IsLate: true}}, {"resume", rabbit.ReadyCount{Messages: 1}}} {
		if err := rabbitmqctl(t, b, "eval", "sys:"+is.done+"(whereis('%2F_q'))."); err != nil {
			t.Fatal(err)
		}
		got, exists, err := asks.Depth(t.Context(), "q")
		for !is.want.IsLate && got.IsLate { // a busy machine
			got, exists, err = asks.Depth(t.Context(), "q")
		}
		if got != is.want || !exists || err != nil {
			t.Errorf("%s: the answer is %+v, %t, %v", is.done, got, exists, err)
		}
		done, err := engine.Run(t.Context(), client.Vhost("/"),
			plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}}}}})
		if _, isNotEmpty := errors.AsType[*drain.NotEmptyError](err); !isNotEmpty || len(done) > 0 {
			t.Errorf("%s: done %v, error %v", is.done, done, err)
		}
	}
}

// staysWithoutLeader stops the queue's process, looks into the queue, tries to delete it, and starts the process again.
func staysWithoutLeader(t *testing.T, b *brokertest.Broker, client *rabbit.Client, q topology.Queue) {
	t.Helper()
	if err := rabbitmqctl(t, b, "eval", `ra:stop_server(quorum_queues, {'%2F_q', node()}).`); err != nil {
		t.Fatal(err)
	}
	for _, step := range []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}},
		plan.DeleteQueue{Queue: q, IfEmpty: true}} {
		// Without AMQP nothing tells that no count will come.
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		done, err := engine.Run(ctx, client.Vhost("/"), plan.Plan{{Steps: []plan.Step{step}}})
		cancel()
		if err == nil || len(done) > 0 {
			t.Errorf("%s: done %v, error %v", step, done, err)
		}
	}
	if err := rabbitmqctl(t, b, "eval", `ra:restart_server(quorum_queues, {'%2F_q', node()}).`); err != nil {
		t.Fatal(err)
	}
}

// staysWhileLeaderRestarts tries to delete the queue while its process ends and comes back: for moments there is a
// replica online, but no leader.
func staysWhileLeaderRestarts(t *testing.T, b *brokertest.Broker, client *rabbit.Client, q topology.Queue) {
	t.Helper()
	back := make(chan error)
	go func() {
		back <- rabbitmqctl(t, b, "eval", `exit(whereis('%2F_q'), kill), timer:sleep(100), `+
			`catch ra:restart_server(quorum_queues, {'%2F_q', node()}), timer:sleep(500).`)
	}()
	for {
		done, err := engine.Run(t.Context(), client.Vhost("/"),
			plan.Plan{{Steps: []plan.Step{plan.DeleteQueue{Queue: q, IfEmpty: true}}}})
		if err == nil || len(done) > 0 {
			t.Fatalf("it is deleted: done %v, error %v", done, err)
		}
		select {
		case err := <-back:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

// TestCountsLeftOut has RabbitMQ leave out how many messages a queue holds, as 4.3.0 to 4.3.3 do after an upgrade, or
// say it in another type. A message that somebody has got is in no other count. The queue is not called empty by that,
// and stays.
func TestCountsLeftOut(t *testing.T) {
	t.Parallel()
	leftOut := func(q map[string]any, field string) { delete(q, field) }
	otherType := func(q map[string]any, field string) { q[field] = "undefined" }
	for name, is := range map[string]struct {
		queueType string
		change    func(map[string]any, string)
	}{
		"classic": {"classic", leftOut}, "quorum": {"quorum", leftOut}, "stream": {"stream", leftOut},
		"classic, another type": {"classic", otherType}, "quorum, another type": {"quorum", otherType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": is.queueType}}
			run(t, connect(t), vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
			conn, channel := dial(t, vhost)
			publish(t, conn, "", "q")
			if is.queueType != "stream" { // where nobody can get a message
				if _, ok, err := channel.Get("q", false); err != nil || !ok {
					t.Fatal(ok, err)
				}
			}
			client := connect(t, gateway(t, withoutCounts(is.change)))
			glance := plan.VerifyEmpty{Queues: []topology.Queue{q}, FirstLook: true}
			_, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Plan{{Steps: []plan.Step{glance}}})
			if !rabbit.IsKind(err, rabbit.Unavailable) ||
				!strings.Contains(err.Error(), "does not say how many there") ||
				!strings.Contains(err.Error(), "4.3.4 has them") {
				t.Errorf("the error is %v", err)
			}
			if is.queueType == "classic" { // of which RabbitMQ itself says whether messages are ready
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			deletion := plan.DeleteQueue{Queue: q, IfEmpty: true}
			done, err := engine.Run(ctx, client.Vhost(vhost), plan.Plan{{Steps: []plan.Step{deletion}}})
			if err == nil || len(done) > 0 {
				t.Errorf("done %v, the error is %v", done, err)
			}
		})
	}
}

// withoutCounts passes requests on, and changes how RabbitMQ says how much is in queues.
func withoutCounts(change func(queue map[string]any, field string)) func(http.ResponseWriter, *http.Request,
	http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/queues/") {
			forward.ServeHTTP(w, r)
			return
		}
		answered := httptest.NewRecorder()
		forward.ServeHTTP(answered, r)
		var body any
		_ = json.Unmarshal(answered.Body.Bytes(), &body)
		list, isList := body.([]any)
		if !isList {
			list = []any{body}
		}
		for _, each := range list {
			if queue, is := each.(map[string]any); is && queue["name"] != nil {
				for _, field := range []string{"messages", "messages_ready", "messages_unacknowledged", "reductions"} {
					change(queue, field)
				}
			}
		}
		w.WriteHeader(answered.Code)
		_ = json.NewEncoder(w).Encode(body)
	}
}

// TestMajorityComesBack has a queue that lacks most of its members for longer than its count may be missing.
func TestMajorityComesBack(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "quorum"}}
	run(t, connect(t), vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
	const away = 13 * time.Second
	began := time.Now()
	client := connect(t, gateway(t, withoutCounts(func(queue map[string]any, _ string) {
		if time.Since(began) < away {
			queue["members"], queue["online"] = []string{"a", "b", "c"}, []string{"a"}
		}
	})))
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}}}}})
	if took := time.Since(began); took < away {
		t.Errorf("without a majority, the queue was found empty after %s", took)
	}
}

// TestCountOfAnother has a gateway answer with what another queue holds, or with nothing at all. A queue is not called
// empty by that.
func TestCountOfAnother(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"classic", "quorum"} {
		for name, says := range map[string]string{
			"of another": `{"name":"other","messages":0,"messages_ready":0,"consumers":0,"reductions":1}`,
			"nothing":    `{}`, "null": `null`,
		} {
			t.Run(queueType+", "+name, func(t *testing.T) {
				t.Parallel()
				vhost := brokertest.Vhost(t, brokertest.Shared(t))
				q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": queueType}}
				run(t, connect(t), vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
				conn, _ := dial(t, vhost)
				publish(t, conn, "", "q")
				client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
					if strings.HasSuffix(r.URL.Path, "/q") {
						answer(w, http.StatusOK, says)
						return
					}
					forward.ServeHTTP(w, r)
				}), noAMQP(t))
				verify := plan.VerifyEmpty{Queues: []topology.Queue{q}, FirstLook: true}
				_, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Plan{{Steps: []plan.Step{verify}}})
				if !rabbit.IsKind(err, rabbit.NotManagementAPI) {
					t.Errorf("the error is %v", err)
				}
			})
		}
	}
}
