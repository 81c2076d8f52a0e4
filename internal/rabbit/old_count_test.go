package rabbit_test

import (
	"errors"
	"net/http"
	"os"
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
)

// ticks are the intervals at which quorum queues count themselves. TICKS="1s 5s 20s 60s" tries others.
func ticks(t *testing.T) []time.Duration {
	text := os.Getenv("TICKS")
	if text == "" {
		text = "15s"
	}
	var all []time.Duration
	for _, each := range strings.Fields(text) {
		tick, err := time.ParseDuration(each)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tick)
	}
	return all
}

// TestOldCounts has a quorum queue keep a message after its time, because no queue takes it. Only the queue's next tick
// shows that. A teardown that believed the count before would delete the message.
func TestOldCounts(t *testing.T) {
	t.Parallel()
	for _, tick := range ticks(t) {
		t.Run(tick.String(), func(t *testing.T) {
			t.Parallel()
			b := brokertest.Own(t, brokertest.WithSetting("quorum_tick_interval", int(tick.Milliseconds())))
			for name, test := range map[string]oldCount{
				"no receiver":                       {withAMQP: true},
				"no receiver, late":                 {withAMQP: true, late: true},
				"no receiver, without AMQP":         {},
				"full receiver":                     {withAMQP: true, full: true},
				"full receiver, late":               {withAMQP: true, full: true, late: true},
				"full receiver and parking":         {withAMQP: true, full: true, parked: true},
				"full receiver, late, without AMQP": {full: true, late: true},
			} {
				t.Run(name, func(t *testing.T) { test.run(t, b) })
			}
		})
	}
}

// oldCount is a count that does not know yet that a message is kept.
type oldCount struct {
	full     bool // the receiver; else there is none
	late     bool // the message comes when the entry is about to be closed; else before
	parked   bool
	withAMQP bool
}

func (test oldCount) run(t *testing.T, b *brokertest.Broker) {
	t.Parallel()
	vhost := brokertest.Vhost(t, b)
	want := expand(t, delay.Config{
		Name: "tasks", Levels: 2, Resolution: 100 * time.Millisecond, CreateDeliveryExchange: true,
		ParkUnroutable: test.parked,
	})
	conn, channel := dialTo(t, b, vhost)
	client := clientFor(t, b, gatewayTo(t, b, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if test.late && r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/"+want.Entry) {
			publish(t, conn, want.Entry, "1.0.somewhere")
		}
		forward.ServeHTTP(w, r)
	}), patient, func(c *rabbit.Config) {
		if !test.withAMQP {
			noAMQP(t)(c)
		}
	})
	state := create(t, client, vhost, want)
	if test.full {
		bindFull(t, conn, channel, want.Delivery)
	}
	awaitTick(t, b, vhost, "tasks.delay-01")
	guard := plan.Guard{Drain: 5 * time.Second}
	if !test.late {
		guard = plan.Guard{}
		publish(t, conn, want.Entry, "1.0.somewhere")
		for count(t, channel, "tasks.delay-01") > 0 {
		}
	}
	_, err := engine.Run(t.Context(), client.Vhost(vhost),
		plan.Teardown(want, state.Topology, guard))
	var waiting *drain.NotEmptyError
	if !errors.As(err, &waiting) || waiting.Queues[0].Name != "tasks.delay-01" || waiting.Queues[0].Messages != 1 {
		t.Fatalf("the error is %v", err)
	}
	if todo := plan.Repair(want, read(t, client, vhost, want).Topology); len(todo) > 0 {
		t.Errorf("after the refused teardown these steps are left: %v", todo.Steps())
	}
}

// bindFull binds a queue that holds all that it can.
func bindFull(t *testing.T, conn *amqp.Connection, channel *amqp.Channel, exchange string) {
	t.Helper()
	arguments := amqp.Table{"x-queue-type": "classic", "x-max-length": 1, "x-overflow": "reject-publish"}
	if _, err := channel.QueueDeclare("full", true, false, false, false, arguments); err != nil {
		t.Fatal(err)
	}
	publish(t, conn, "", "full")
	if err := channel.QueueBind("full", "#", exchange, false, nil); err != nil {
		t.Fatal(err)
	}
}

// TestStatisticsOff has a broker that does not say when it has counted: nothing is closed, where a queue may keep a
// message.
func TestStatisticsOff(t *testing.T) {
	t.Parallel()
	b := brokertest.Own(t, brokertest.WithConfig("management_agent.disable_metrics_collector = true"))
	for name, parked := range map[string]bool{"no parking": false, "parking": true} {
		t.Run(name, func(t *testing.T) {
			vhost := brokertest.Vhost(t, b)
			var deleted atomic.Bool
			// A receiver that is not served yet would be a reason to ask for statistics, too.
			served := func(c *rabbit.Config) { c.BindsAtOnce = false }
			client := clientFor(t, b, served, gatewayTo(t, b, func(w http.ResponseWriter, r *http.Request,
				forward http.Handler) {
				if r.Method == http.MethodDelete {
					deleted.Store(true)
				}
				forward.ServeHTTP(w, r)
			}))
			want := expand(t, delay.Config{Name: "tasks", Levels: 2, CreateDeliveryExchange: true,
				ParkUnroutable: parked})
			state := create(t, client, vhost, want)
			teardown := func() error {
				_, err := engine.Run(t.Context(), client.Vhost(vhost),
					plan.Teardown(want, state.Topology, plan.Guard{}))
				return err
			}
			err := teardown()
			if parked && err != nil {
				err = upToThreeTimes(teardown) // on a busy machine the receiver may not be served yet
			}
			if parked && err != nil {
				t.Error(err)
			}
			if !parked && (!rabbit.IsKind(err, rabbit.Unavailable) || !strings.Contains(err.Error(),
				"disable_metrics_collector") || deleted.Load()) {
				t.Errorf("deleted %v, the error is %v", deleted.Load(), err)
			}
		})
	}
}

// TestLooksDoNotHarm refuses to delete queues, again and again, that let go of a message which was delivered once: no
// look is a delivery.
func TestLooksDoNotHarm(t *testing.T) {
	t.Parallel()
	for way, config := range map[string]func(*rabbit.Config){"AMQP": func(*rabbit.Config) {},
		"management API": noAMQP(t)} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			admin(t, http.MethodPut, []string{"operator-policies", vhost, "once"}, map[string]any{
				"pattern": ".*", "apply-to": "queues", "definition": map[string]any{"delivery-limit": 0},
			})
			client := connect(t, config)
			want := expand(t, delay.Config{Name: "tasks", Levels: 1, Resolution: time.Hour,
				CreateDeliveryExchange: true, ParkUnroutable: true})
			state := create(t, client, vhost, want)
			conn, channel := dial(t, vhost)
			publish(t, conn, want.Entry, "1.somewhere")
			publish(t, conn, want.Entry, "malformed")
			for range 4 {
				_, err := engine.Run(t.Context(), client.Vhost(vhost),
					plan.Teardown(want, state.Topology, plan.Guard{}))
				var waiting *drain.NotEmptyError
				if !errors.As(err, &waiting) { // over the management API it names the queues that have counted them
					t.Fatalf("the error is %v", err)
				}
			}
			for name := range want.Queues {
				if n := count(t, channel, name); n != 1 {
					t.Errorf("queue %q holds %d messages", name, n)
				}
			}
		})
	}
}

// awaitTick waits until a quorum queue has just counted itself, by its statistics: for as long as possible, the next
// count is old.
func awaitTick(t *testing.T, b *brokertest.Broker, vhost, queue string) {
	t.Helper()
	var first, reductions int64
	for ; first == 0 || reductions == first; time.Sleep(100 * time.Millisecond) {
		var answer struct{ Reductions int64 }
		getFrom(t, b, []string{"queues", vhost, queue}, &answer)
		if reductions = answer.Reductions; first == 0 {
			first = reductions
		}
	}
}
