package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// broker is a model of RabbitMQ: a queue, the fate of each message, and a failure. Every call is a point where it can.
type broker struct {
	queue    []amqp.Delivery // ready
	out      map[uint64]amqp.Delivery
	tag      uint64
	arrivals chan amqp.Delivery
	credit   int
	held     map[uint64]bool // of the present consumer
	consumes bool

	arrived []string
	// fate of a body: "" arrives, "parks", "returns" or "refuses".
	fate    map[string]string
	returns chan amqp.Return

	calls, failsAt int
	dead           bool
	// isLost is set where the failure comes after the deed.
	isLost bool
	// late is how many of the next counts the leader of the queue is too slow for. It hands over nothing meanwhile.
	late int
	// refusesGet is set for a queue with a single active consumer.
	refusesGet bool
}

var errCut = errors.New("the connection ended")

// call counts a call, and fails at one.
func (b *broker) call(do func()) error {
	if b.dead {
		return errCut
	}
	b.calls++
	if b.calls == b.failsAt {
		if b.isLost {
			do()
		}
		b.dead = true
		return errCut
	}
	do()
	b.push()
	return nil
}

func (b *broker) requeue() {
	var back []amqp.Delivery
	for _, tag := range slices.Sorted(maps.Keys(b.out)) {
		back = append(back, b.out[tag])
	}
	b.queue, b.out = append(back, b.queue...), map[uint64]amqp.Delivery{}
}

func (b *broker) push() {
	for b.consumes && b.late == 0 && len(b.held) < b.credit && len(b.queue) > 0 {
		d := b.queue[0]
		b.queue = b.queue[1:]
		b.tag++
		d.DeliveryTag = b.tag
		b.out[b.tag], b.held[b.tag] = d, true
		b.arrivals <- d
	}
}

func (b *broker) Qos(count, _ int, _ bool) error { return b.call(func() { b.credit = count }) }

func (b *broker) Consume(string, string, bool, bool, bool, bool, amqp.Table) (<-chan amqp.Delivery, error) {
	err := b.call(func() {
		b.arrivals, b.held, b.consumes = make(chan amqp.Delivery, window), map[uint64]bool{}, true
	})
	return b.arrivals, err
}

func (b *broker) Cancel(string, bool) error {
	return b.call(func() { b.consumes = false; close(b.arrivals) })
}

func (b *broker) Ack(tag uint64, _ bool) error {
	return b.call(func() { delete(b.out, tag); delete(b.held, tag) })
}

func (b *broker) Nack(tag uint64, multiple, _ bool) error {
	return b.call(func() {
		if multiple {
			b.requeue()
			return
		}
		b.queue = append([]amqp.Delivery{b.out[tag]}, b.queue...)
		delete(b.out, tag)
	})
}

func (b *broker) QueueDeclarePassive(string, bool, bool, bool, bool, amqp.Table) (q amqp.Queue, err error) {
	err = b.call(func() {
		if b.late > 0 {
			b.late--
			time.Sleep(idle / 4)
			return
		}
		q.Messages = len(b.queue)
	})
	return q, err
}

// Get waits for the leader. It hands over to the consumer first.
func (b *broker) Get(string, bool) (d amqp.Delivery, isThere bool, err error) {
	if b.refusesGet {
		return d, false, errors.New("the queue has a single active consumer")
	}
	if b.late > 0 {
		time.Sleep(3 * idle)
		b.late = 0
		b.push()
	}
	err = b.call(func() {
		if isThere = len(b.queue) > 0; !isThere {
			return
		}
		d = b.queue[0]
		b.queue = b.queue[1:]
		b.tag++
		d.DeliveryTag, d.MessageCount = b.tag, uint32(len(b.queue)) //nolint:gosec // a few
		b.out[b.tag] = d
	})
	return d, isThere, err
}

func (b *broker) Confirm(bool) error { return b.call(func() {}) }

func (b *broker) NotifyReturn(c chan amqp.Return) chan amqp.Return {
	b.returns = c
	return c
}

func (b *broker) Send(exchange, key string, m amqp.Publishing) (func() (bool, bool), error) {
	taken := true
	err := b.call(func() {
		switch body := string(m.Body); b.fate[body] {
		case "parks":
			b.queue = append(b.queue, amqp.Delivery{Exchange: exchange, RoutingKey: key, Body: m.Body})
		case "returns":
			b.returns <- amqp.Return{Exchange: exchange, RoutingKey: key, Body: m.Body}
		case "refuses":
			taken = false
		default:
			b.arrived = append(b.arrived, body)
		}
	})
	if err != nil && b.isLost { // the confirmation is lost, and nobody knows that yet
		return func() (bool, bool) { return false, false }, nil
	}
	return func() (bool, bool) { return taken, true }, err
}

// start is a run over n messages, each with its number as body.
func start(n int, fate map[string]string) (*run, *broker) {
	b := &broker{out: map[uint64]amqp.Delivery{}, fate: fate}
	for i := range n {
		b.queue = append(b.queue, amqp.Delivery{Exchange: "end", RoutingKey: "k", Body: []byte(strconv.Itoa(i))})
	}
	end := topology.New()
	end.Delivery = "end"
	rule := Rule{Queue: "q", Topology: end, within: func(Message) Verdict { return Verdict{Stays: Foreign} }}
	return &run{rule: rule, consumer: b, publisher: b, alive: func() {}, progress: func(Report) {}}, b
}

// all are the bodies that are in the queue or have arrived, with how often they are there.
func (b *broker) all() map[string]int {
	count := map[string]int{}
	b.requeue()
	for _, d := range b.queue {
		count[string(d.Body)]++
	}
	for _, body := range b.arrived {
		count[body]++
	}
	return count
}

// count tells which messages are nowhere, and how many are there twice.
func (b *broker) count(n int) (lost []int, doubles int) {
	all := b.all()
	for i := range n {
		switch times := all[strconv.Itoa(i)]; {
		case times == 0:
			lost = append(lost, i)
		case times > 1:
			doubles++
		}
	}
	return lost, doubles
}

func TestRun(t *testing.T) {
	const n = 2500
	fate := map[string]string{"3": "parks", "5": "returns", "7": "refuses"}
	r, b := start(n, fate)
	for i := 100; i < 1900; i++ { // more than a consumer can hold
		b.queue[i].Exchange = "others"
	}
	if err := r.through(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	got := r.report
	if got.There != n || got.Handled != n || got.Sum() != n-1802 || got.Published["end"] != n-1802 ||
		got.CameBack != 1 || got.Returned != 1 || got.Refused != 1 || got.Stays[Foreign] != 1800 || got.BrokeOff {
		t.Errorf("the report is %+v", got)
	}
	if len(b.arrived) != n-1803 || len(b.queue) != 1803 || !slices.IsSortedFunc(b.arrived, byNumber) {
		t.Errorf("%d have arrived, %d are left", len(b.arrived), len(b.queue))
	}
}

func byNumber(x, y string) int {
	a, _ := strconv.Atoi(x)
	b, _ := strconv.Atoi(y)
	return a - b
}

// A run handles no message twice, although all come back.
func TestRunWhereAllComeBack(t *testing.T) {
	fate := map[string]string{}
	for i := range 50 {
		fate[strconv.Itoa(i)] = "parks"
	}
	r, b := start(50, fate)
	if err := r.through(t.Context(), 0); err != nil || r.report.CameBack != 50 || len(b.queue) != 50 {
		t.Errorf("%v: %+v, %d in the queue", err, r.report, len(b.queue))
	}
	r, b = start(50, fate)
	if err := r.through(t.Context(), 20); err != nil || r.report.CameBack != 20 || r.report.There != 20 ||
		len(b.queue) != 50 {
		t.Errorf("%v: %+v, %d in the queue", err, r.report, len(b.queue))
	}
}

// Whatever call fails, before or after it is done, no message is lost. One is there twice only if the confirmation or
// the acknowledgement after it got lost.
func TestRunFailsAtEachCall(t *testing.T) {
	const n = 30
	fate := map[string]string{"3": "parks", "5": "returns", "7": "refuses"}
	r, whole := start(n, fate)
	if err := r.through(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, isLost := range []bool{false, true} {
		for at := 1; at <= whole.calls; at++ {
			r, b := start(n, fate)
			b.queue[9].Exchange = "others"
			b.failsAt, b.isLost = at, isLost
			if err := r.through(t.Context(), 0); err == nil && b.dead {
				t.Errorf("call %d fails, and the run does not", at)
			}
			if !b.dead {
				continue
			}
			lost, doubles := b.count(n)
			if len(lost) > 0 {
				t.Errorf("call %d, done %t: messages %v are lost", at, isLost, lost)
			}
			if doubles > window || doubles > 0 && !r.report.BrokeOff {
				t.Errorf("call %d, done %t: %d messages are there twice: %+v", at, isLost, doubles, r.report)
			}
		}
	}
}

// A run that is canceled waits for the messages that are under way.
func TestRunIsCanceled(t *testing.T) {
	r, b := start(100, nil)
	ctx, cancel := context.WithCancel(t.Context())
	published := 0
	r.alive = func() {
		if published++; published == 10 {
			cancel()
		}
	}
	err := r.through(ctx, 0)
	if !errors.Is(err, context.Canceled) || r.report.BrokeOff || r.report.Sum() != len(b.arrived) ||
		len(b.arrived) == 0 || len(b.arrived)+len(b.queue) != 100 || len(b.out) > 0 {
		t.Errorf("%v: %+v, %d have arrived, %d are left", err, r.report, len(b.arrived), len(b.queue))
	}
}

// Every few seconds, a run shows how far it has come.
func TestRunShowsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, least = 200, 5
		r, b := start(n, nil)
		r.alive = func() { time.Sleep(100 * time.Millisecond) }
		var shown []string
		last := time.Now()
		r.progress = func(now Report) {
			acknowledged := n - len(b.queue) - len(b.out)
			if now.There != n || now.Handled != len(b.arrived) || now.Sum() != acknowledged || !now.BrokeOff {
				t.Errorf("where %d are published and %d acknowledged, it shows %+v", len(b.arrived), acknowledged, now)
			}
			if since := time.Since(last); since < showEach {
				t.Errorf("it shows something after %s", since)
			}
			shown, last = append(shown, fmt.Sprint(now)), time.Now()
		}
		if err := r.through(t.Context(), 0); err != nil || r.report.Sum() != n {
			t.Errorf("%v: %+v", err, r.report)
		}
		slices.Sort(shown)
		if different := len(slices.Compact(shown)); different < least {
			t.Errorf("it shows %d different reports: %q", different, shown)
		}
	})
}

// Somebody else takes messages of the same queue.
func TestRunBesideAnotherConsumer(t *testing.T) {
	r, b := start(2*window, nil)
	once := false
	r.alive = func() {
		if !once {
			b.queue, once = nil, true
		}
	}
	if err := r.through(t.Context(), 0); err != nil || r.report.Handled >= r.report.There || r.report.CameBack > 0 {
		t.Errorf("%v: %+v", err, r.report)
	}
}

// The leader of the queue is slow, and RabbitMQ says in its place that there are no messages.
func TestRunWithASlowLeader(t *testing.T) {
	const n = 2 * window
	for name, is := range map[string]func(r *run, b *broker){
		"of one consumer":  func(r *run, b *broker) { r.isForOne, b.refusesGet = true, true },
		"at the beginning": func(_ *run, b *broker) { b.late = 3 },
		"in between": func(r *run, b *broker) {
			once := false
			r.alive = func() {
				if !once && len(b.arrived) == window/2 {
					b.late, once = 2, true
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, b := start(n, nil)
				is(r, b)
				if err := r.through(t.Context(), 0); err != nil || r.report.There != n || r.report.Sum() != n ||
					len(b.arrived) != n {
					t.Errorf("%v: %+v, %d have arrived", err, r.report, len(b.arrived))
				}
			})
		})
	}
}

// What a return says decides which message it was. Equal ones are one as good as the other.
func TestReturned(t *testing.T) {
	r := &run{pending: map[uint64]*pending{}}
	for i, m := range []amqp.Publishing{{Body: []byte("x"), Headers: amqp.Table{"n": int64(1)}},
		{Body: []byte("x"), Headers: amqp.Table{"n": int64(2)}}, {Body: []byte("x"), MessageId: "3"}, {},
		{Body: []byte("x"), MessageId: "3"}} {
		r.pending[uint64(i+1)] = &pending{to: Verdict{Exchange: "e", Key: "k"}, message: m}
	}
	for _, test := range []struct {
		back amqp.Return
		want string
	}{
		{amqp.Return{Exchange: "e", RoutingKey: "k", Body: []byte("x"), Headers: amqp.Table{"n": int64(2)}}, "2"},
		{amqp.Return{Exchange: "e", RoutingKey: "k", Body: []byte("x"), MessageId: "3"}, "2 3"},
		{amqp.Return{Exchange: "e", RoutingKey: "k", Body: []byte("x"), MessageId: "3"}, "2 3 5"},
		{amqp.Return{Exchange: "e", RoutingKey: "k", Body: []byte{}}, "2 3 4 5"},
	} {
		if err := r.returned(test.back); err != nil {
			t.Error(err)
		}
		var marked []string
		for _, number := range slices.Sorted(maps.Keys(r.pending)) {
			if r.pending[number].isReturned {
				marked = append(marked, fmt.Sprint(number))
			}
		}
		if got := strings.Join(marked, " "); got != test.want {
			t.Errorf("%s are returned, not %s", got, test.want)
		}
	}
	if err := r.returned(amqp.Return{Exchange: "e", RoutingKey: "other", Body: []byte("x")}); err == nil {
		t.Error("an unknown message is no error")
	}
}
