package rabbit_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
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

// cut is a log of a link. Once it is set, the next that a client sends ends the connection, and does not reach the
// broker. The connection after that is left alone.
type cut struct {
	atomic.Bool
	done atomic.Bool
}

func (c *cut) Write(p []byte) (int, error) {
	if c.Load() && c.done.CompareAndSwap(false, true) {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// cutAt is a log of a link. A client that sends these bytes has its connection ended.
type cutAt string

func (c cutAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c)) {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// TestAMQPEndsInTheHandshake tells a connection that ends from a user that is refused.
func TestAMQPEndsInTheHandshake(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	refused := amqpOf(t)
	refused.User = url.UserPassword(b.Username, "not the password")
	missing := brokertest.Vhost(t, b) + "-missing"
	for name, test := range map[string]struct {
		over    func(*rabbit.Config)
		vhost   string
		refuses bool
		kind    rabbit.Kind
	}{
		"ends at the login": {newLink(t, true, cutAt("PLAIN")).over(t), vhost, false, rabbit.Unreachable},
		"ends at the vhost": {newLink(t, true, cutAt(vhost)).over(t), vhost, false, rabbit.Unreachable},
		"refuses the password": {func(c *rabbit.Config) { c.AMQPURI = refused.String() }, vhost, true,
			rabbit.Unauthorized},
		"refuses another vhost": {func(*rabbit.Config) {}, missing, true, rabbit.VhostNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := connect(t, test.over).Vhost(test.vhost)
			err := refusal(t, v)
			for try := 1; try < 3 && test.refuses && !rabbit.RefusesAMQP(err); try++ {
				err = refusal(t, v) // a busy broker may say so too late
			}
			if refuses, passes := rabbit.RefusesAMQP(err), rabbit.MayPass(err); refuses != test.refuses ||
				passes == test.refuses {
				t.Errorf("refuses %t, may pass %t: %v", refuses, passes, err)
			}
			if err = v.NotUsable(t.Context(), err); !rabbit.IsKind(err, test.kind) {
				t.Errorf("want %s, got %v", test.kind, err)
			}
		})
	}
}

// refusal is why no connection is opened.
func refusal(t *testing.T, v *rabbit.Vhost) error {
	t.Helper()
	conn, err := v.Connect(t.Context())
	if err == nil {
		conn.Close()
		t.Fatal("it connects")
	}
	return err
}

// A connection may end while it is opened, too. The library says then that it is not open.
func TestAMQPIsNotOpen(t *testing.T) {
	err := fmt.Errorf("open an AMQP connection: %w", amqp.ErrClosed)
	if !rabbit.MayPass(err) || rabbit.RefusesAMQP(err) {
		t.Errorf("this is for good: %v", err)
	}
}

func readsTick(r *http.Request) bool { return strings.Contains(r.URL.RawQuery, "reductions") }

func deletesExchange(r *http.Request) bool {
	return r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/api/exchanges/")
}

// keeps fails unless the error says that the queue holds one message.
func keeps(t *testing.T, err error, queue string) {
	t.Helper()
	var notEmpty *drain.NotEmptyError
	if !errors.As(err, &notEmpty) || len(notEmpty.Queues) != 1 || notEmpty.Queues[0].Name != queue ||
		notEmpty.Queues[0].Messages != 1 {
		t.Errorf("the error is %v", err)
	}
	var undo *engine.UndoError
	if errors.As(err, &undo) {
		t.Errorf("not all is restored: %v", undo.Left)
	}
}

// isThere fails unless the queue is there.
func isThere(t *testing.T, channel *amqp.Channel, queue string) {
	t.Helper()
	if _, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil {
		t.Errorf("the queue is gone, with its message: %v", err)
	}
}

// rabbitmqctl runs a command on the broker's node.
func rabbitmqctl(t *testing.T, b *brokertest.Broker, arguments ...string) error {
	t.Helper()
	out, err := b.CLI(t.Context(), "rabbitmqctl", arguments...)
	if err != nil {
		return fmt.Errorf("rabbitmqctl %q: %w: %s", arguments, err, out)
	}
	return nil
}

// TestAMQPEndsWhileLooking has the connection end at the first question of a look, while the management API goes on.
// Its counts are as old as the last tick, so a message that has come since is not in them.
func TestAMQPEndsWhileLooking(t *testing.T) {
	t.Parallel()
	hour := deadLetter("x")
	hour["x-message-ttl"] = int64(3_600_000)
	for name, test := range map[string]endOfAMQP{
		"first look":                      {deadLetter("x"), readsTick, false},
		"first look, a message expires":   {deadLetter("x"), readsTick, true},
		"second look":                     {hour, deletesExchange, false},
		"second look, a message has come": {hour, deletesExchange, true},
	} {
		t.Run(name, test.run)
	}
}

// endOfAMQP ends the connection after a request.
type endOfAMQP struct {
	arguments topology.Arguments // of the queue
	at        func(*http.Request) bool
	comes     bool // a message
}

func (test endOfAMQP) run(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	conn, channel := dial(t, vhost)
	var once sync.Once
	var ends cut
	l := newLink(t, true, &ends)
	client := connect(t, l.over(t), gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		forward.ServeHTTP(w, r)
		if test.at(r) {
			once.Do(func() {
				ends.Store(true)
				if test.comes {
					publish(t, conn, "", "q")
				}
			})
		}
	}))
	q := topology.Queue{Name: "q", Durable: true, Arguments: test.arguments}
	run(t, connect(t), vhost, plan.Plan{{Steps: []plan.Step{
		plan.DeclareQueue{Queue: q},
		plan.DeclareExchange{Exchange: topology.Exchange{Name: "x", Type: "topic", Durable: true}},
	}}})
	verify := plan.VerifyEmpty{Queues: []topology.Queue{q}, Why: "deleting it"}
	again := verify
	again.NothingMoves = true
	done, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Plan{
		{Steps: []plan.Step{verify}},
		{Steps: []plan.Step{plan.DeleteExchange{Name: "x"}}},
		{Steps: []plan.Step{again}},
		{Steps: []plan.Step{plan.DeleteQueue{Queue: q, IfEmpty: true}}},
	})
	if !ends.Load() || l.ended.Load() == 0 {
		t.Error("the connection has not ended")
	}
	if test.comes {
		keeps(t, err, "q")
		isThere(t, channel, "q")
	} else if err != nil {
		t.Errorf("done are %v, the error is %v", names(done), err)
	}
}

// TestRestartWhileDestroying stops the broker for some seconds in the middle of a destroy, after a message has come in
// by the entry.
func TestRestartWhileDestroying(t *testing.T) {
	t.Parallel()
	b := brokertest.Own(t)
	for _, test := range []struct {
		name    string
		restart restart
	}{
		{"a message waits", restart{time.Hour, true, true, deletesExchange}},
		{"a message has expired, and no queue takes it", restart{10 * time.Millisecond, false, true, deletesExchange}},
		{"nothing comes", restart{10 * time.Millisecond, false, false, readsTick}},
	} {
		t.Run(test.name, func(t *testing.T) { test.restart.run(t, b) })
	}
}

// restart stops the broker at a request, and starts it again.
type restart struct {
	resolution time.Duration
	parks      bool
	comes      bool // a message
	at         func(*http.Request) bool
}

func (test restart) run(t *testing.T, b *brokertest.Broker) {
	vhost := brokertest.Vhost(t, b)
	want := expand(t, delay.Config{
		Name: "tasks", Levels: 2, Resolution: test.resolution, QueueType: delay.Quorum,
		CreateDeliveryExchange: true, ParkUnroutable: test.parks,
	})
	state := create(t, clientFor(t, b), vhost, want)
	scale := delay.Uniform{Base: 2, Levels: 2, Resolution: test.resolution}.Scale()
	key, err := scale.RoutingKey(test.resolution, "end")
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	var back comeback
	struck := atomic.Bool{}
	conn, _ := dialTo(t, b, vhost)
	client := clientFor(t, b, gatewayTo(t, b, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if test.at(r) {
			once.Do(func() {
				struck.Store(true)
				if test.comes {
					publish(t, conn, want.Entry, key)
					time.Sleep(200 * time.Millisecond)
				}
				stopForSeconds(t, b, &back)
			})
		}
		forward.ServeHTTP(w, r)
	}), outlasting)
	done, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Teardown(want, state.Topology, plan.Guard{}))
	ended := time.Now()
	back.Wait()
	late := ended.Sub(back.at)
	t.Logf("it ended %s after the broker was back, with %v", late, err)
	if !struck.Load() {
		t.Fatal("the broker was not stopped")
	}
	if late > 2*time.Minute {
		t.Errorf("it ended %s after the broker was back", late)
	}
	left := read(t, clientFor(t, b), vhost, want)
	if test.comes {
		test.isRestored(t, b, vhost, want, key, left, err)
	} else if err != nil || len(left.Queues) > 0 {
		t.Errorf("done are %v, left are %v, the error is %v", names(done), left.Queues, err)
	}
}

// outlasting has a client try again for longer than a busy machine takes to start a broker.
func outlasting(c *rabbit.Config) { c.RetryTimeout = 5 * time.Minute }

// comeback waits for a broker that starts, and knows afterwards when it was back.
type comeback struct {
	sync.WaitGroup
	at time.Time
}

// stopForSeconds stops the broker, and has it start again in the background.
func stopForSeconds(t *testing.T, b *brokertest.Broker, back *comeback) {
	if err := rabbitmqctl(t, b, "stop_app"); err != nil {
		t.Error(err)
	}
	back.Go(func() {
		time.Sleep(2 * time.Second)
		if err := rabbitmqctl(t, b, "start_app"); err != nil {
			t.Error(err)
		}
		back.at = time.Now()
	})
}

// isRestored makes sure that the destroy was refused because of the message, and that the cascade goes on as before.
func (test restart) isRestored(
	t *testing.T, b *brokertest.Broker, vhost string, want topology.Topology, key string, left *rabbit.State, err error,
) {
	t.Helper()
	var notEmpty *drain.NotEmptyError
	if !errors.As(err, &notEmpty) || len(notEmpty.Queues) != 1 {
		t.Fatalf("the error is %v", err)
	}
	keeps(t, err, notEmpty.Queues[0].Name)
	if todo := plan.Repair(want, left.Topology); len(todo) > 0 {
		t.Errorf("after the refusal these steps are left: %v", names(todo.Steps()))
	}
	conn, channel := dialTo(t, b, vhost)
	publish(t, conn, want.Entry, key) // the entry is open
	_, err = channel.QueueDeclare("end", true, false, false, false, map[string]any{"x-queue-type": "classic"})
	if err != nil {
		t.Fatal(err)
	}
	if test.parks {
		if got := count(t, channel, notEmpty.Queues[0].Name); got != 2 {
			t.Errorf("%d of 2 messages wait", got)
		}
	}
}

// TestLeaderRestartsWhileLooking ends the process of a quorum queue between two looks, just after a message has come
// and expired. The process that comes after it counts its reductions from the beginning. No message comes after the
// tick, because the proof may rest on that tick. Only who publishes by the queue's name gets a message in so late.
func TestLeaderRestartsWhileLooking(t *testing.T) {
	t.Parallel()
	b := brokertest.Own(t)
	for way, config := range map[string]func(*rabbit.Config){"amqp": func(*rabbit.Config) {}, "http": noAMQP(t)} {
		for _, comes := range []bool{false, true} {
			for _, when := range []string{"first", "third", "ticked"} {
				if comes && when == "ticked" {
					continue
				}
				test := restartOfLeader{fmt.Sprintf("%s_%t_%s", way, comes, when), config, comes, when}
				t.Run(test.queue, func(t *testing.T) { test.run(t, b) })
			}
		}
	}
}

// restartOfLeader ends the process of a queue when it is read.
type restartOfLeader struct {
	queue  string
	config func(*rabbit.Config)
	comes  bool // a message
	// when is the read before which that happens: the first, the third, or the one after the first tick.
	when string
}

func (test restartOfLeader) run(t *testing.T, b *brokertest.Broker) {
	t.Parallel()
	q := topology.Queue{Name: test.queue, Durable: true, Arguments: deadLetter("absent")}
	run(t, clientFor(t, b), "/", plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
	conn, channel := dialTo(t, b, "/")
	var mutex sync.Mutex
	var ticks []string // the reductions of each read
	isDue := func() bool {
		last := len(ticks) - 1
		return test.when == "first" && last == -1 || test.when == "third" && last == 1 ||
			test.when == "ticked" && last > 0 && ticks[last] != ticks[0]
	}
	restarted := false
	client := clientFor(t, b, patient, gatewayTo(t, b, func(w http.ResponseWriter, r *http.Request,
		forward http.Handler) {
		if !readsTick(r) {
			forward.ServeHTTP(w, r)
			return
		}
		mutex.Lock()
		defer mutex.Unlock()
		if !restarted && isDue() {
			restarted = true
			if test.comes {
				publish(t, conn, "", test.queue)
			}
			endProcess(t, b, test.queue)
		}
		answer := httptest.NewRecorder()
		forward.ServeHTTP(answer, r)
		if shown := reductions.FindString(answer.Body.String()); shown != "" {
			ticks = append(ticks, shown)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}), test.config)
	done, err := engine.Run(t.Context(), client.Vhost("/"), plan.Plan{
		{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}, Why: "deleting it"}}},
		{Steps: []plan.Step{plan.DeleteQueue{Queue: q, IfEmpty: true}}},
	})
	mutex.Lock()
	defer mutex.Unlock()
	if !restarted {
		t.Errorf("the process was not ended, after %d reads: %v", len(ticks), err)
	}
	if test.comes {
		keeps(t, err, test.queue)
		isThere(t, channel, test.queue)
	} else if err != nil {
		t.Errorf("done are %v, the error is %v", names(done), err)
	}
}

// endProcess ends the process of a quorum queue, and has it come back.
func endProcess(t *testing.T, b *brokertest.Broker, queue string) {
	t.Helper()
	if err := rabbitmqctl(t, b, "eval", fmt.Sprintf(
		`exit(whereis('%%2F_%[1]s'), kill), timer:sleep(100), catch `+
			`ra:restart_server(quorum_queues, {'%%2F_%[1]s', node()}).`, queue,
	)); err != nil {
		t.Error(err)
	}
}

var reductions = regexp.MustCompile(`"reductions":\d+`)
