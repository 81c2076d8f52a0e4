package acceptance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// traffic is a stream of messages through a cascade that outlives its connections. Publishers with confirms and
// mandatory repeat each unconfirmed message, over a connection to the next address. It keeps account of each attempt to
// publish until that has been confirmed and has arrived, so that it can run for hours.
type traffic struct {
	testing.TB
	trafficConfig
	stop    context.CancelFunc
	publish sync.WaitGroup
	consume sync.WaitGroup
	hangUp  context.CancelFunc // of the consumer

	mutex   sync.Mutex
	next    int
	open    map[int]*attempt
	stage   string
	order   []string
	stages  map[string]*account
	suspect map[int]bool // arrived just before a consumer's connection broke
	failing []span       // messages on their way while a node failed, see mayDouble
}

// span are the messages with these numbers, the last one excluded.
type span struct{ from, to int }

// trafficConfig says what a traffic goes through, and how it publishes.
type trafficConfig struct {
	uris       []string // of AMQP; the broker's nodes
	vhost      string
	name       string // of the cascade, with names by default
	levels     int
	unit       time.Duration
	publishers int
	pause      time.Duration        // of each publisher between two messages
	delay      func() time.Duration // of the next message, up to the cascade's longest
}

// attempt is one message published once.
type attempt struct {
	message            *int // arrivals of the message, by any attempt
	delay              time.Duration
	at                 time.Time
	stage              *account
	confirmed, arrived bool
	returned, unsure   bool
}

// account counts attempts by the stage in which they were published, and what arrives by the stage in which it does.
type account struct {
	confirmed, delivered, parked int
	returned, unsure             int // returned or nacked; without an answer
	early, doubled, redelivered  int
	twice                        int // messages that were published again and have arrived more than once
	lost                         []time.Duration
	late                         lateness
}

// lateness counts by milliseconds.
type lateness struct {
	counts [1 << 16]int32
	n      int32
	most   time.Duration
}

func (l *lateness) add(d time.Duration) {
	l.counts[min(max(d.Milliseconds(), 0), int64(len(l.counts)-1))]++
	l.n++
	l.most = max(l.most, d)
}

// quantile is exact to the millisecond up to 65 s.
func (l *lateness) quantile(q float64) time.Duration {
	rank := int32(q * float64(l.n))
	for ms, count := range l.counts {
		if rank -= count; rank < 0 {
			return min(time.Duration(ms)*time.Millisecond, l.most)
		}
	}
	return l.most
}

// arrivalQueue is where the traffic's messages arrive: it has to outlive its consumer.
const arrivalQueue = "arrivals"

// trafficAddress is the address of all messages of a traffic.
const trafficAddress = "here"

// newTraffic binds the queue of arrivals, and begins to publish and to consume.
func newTraffic(t testing.TB, config trafficConfig) *traffic {
	t.Helper()
	f := &traffic{TB: t, trafficConfig: config, open: map[int]*attempt{}, stages: map[string]*account{},
		suspect: map[int]bool{}}
	f.enter("start")
	ctx, stop := context.WithCancel(t.Context())
	consuming, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	f.stop, f.hangUp = stop, hangUp
	connection, err := f.dial(0)
	if err != nil {
		t.Fatal(err)
	}
	channel, err := connection.Channel()
	if err == nil {
		_, err = channel.QueueDeclare(f.arrivals(), true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	}
	if err == nil {
		err = channel.QueueBind(f.arrivals(), destination(f.levels, trafficAddress), f.name+".delivery", false, nil)
	}
	if err := errors.Join(err, connection.Close()); err != nil {
		t.Fatal(err)
	}
	f.consume.Go(func() { f.receive(consuming, f.arrivals(), false) })
	f.consume.Go(func() { f.receive(consuming, f.name+".unroutable", true) })
	for i := range f.publishers {
		f.publish.Go(func() { f.send(ctx, i) })
	}
	t.Cleanup(func() { stop(); f.publish.Wait(); hangUp(); f.consume.Wait() })
	return f
}

// arrivals is the name of the queue in which the messages arrive.
func (f *traffic) arrivals() string { return f.name + "." + arrivalQueue }

func (f *traffic) dial(i int) (*amqp.Connection, error) {
	return amqp.DialConfig(f.uris[i%len(f.uris)], amqp.Config{Vhost: f.trafficConfig.vhost,
		Dial: amqp.DefaultDial(5 * time.Second)})
}

// enter counts the messages from now on under another name.
func (f *traffic) enter(stage string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.stages[stage] == nil {
		f.order = append(f.order, stage)
		f.stages[stage] = &account{}
	}
	f.stage = stage
}

// send publishes one message after the other. Its first address is the one of its number.
func (f *traffic) send(ctx context.Context, address int) {
	var connection *amqp.Connection
	var publisher *brokertest.Publisher
	hangUp := func() {
		if connection != nil {
			_ = connection.CloseDeadline(time.Now().Add(time.Second)) // it may be gone
		}
		connection, publisher = nil, nil
	}
	defer hangUp()
	var again *attempt
	for ctx.Err() == nil {
		if publisher == nil {
			var err error
			if connection, err = f.dial(address); err == nil {
				publisher, err = brokertest.NewPublisher(connection)
			}
			if err != nil {
				hangUp()
				address++
				sleep(ctx, 200*time.Millisecond)
				continue
			}
		}
		delay, message := f.trafficConfig.delay(), new(int)
		if again != nil {
			delay, message = again.delay, again.message
		}
		key, err := binary(f.levels, f.unit).RoutingKey(delay, trafficAddress)
		if err != nil {
			f.Error(err)
			return
		}
		a := &attempt{message: message, delay: delay, at: brokerTime()}
		f.mutex.Lock()
		number := f.next
		f.next++
		a.stage = f.stages[f.stage]
		f.open[number] = a
		f.mutex.Unlock()
		confirm, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		err = publisher.Publish(confirm, fmt.Sprintf("%s.delay-%02d", f.name, f.levels-1), key,
			amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: strconv.Itoa(number),
				Body: []byte(strconv.Itoa(number))})
		cancel()
		again = f.answered(number, err)
		switch {
		case again == nil:
			sleep(ctx, f.pause)
		case a.unsure:
			hangUp()
			address++
			sleep(ctx, 100*time.Millisecond)
		default:
			sleep(ctx, 100*time.Millisecond)
		}
	}
}

// answered notes the broker's answer and returns the attempt if it has to be made again.
func (f *traffic) answered(number int, err error) (again *attempt) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	a := f.open[number]
	switch {
	case err == nil:
		a.confirmed = true
		a.stage.confirmed++
		if a.arrived {
			delete(f.open, number)
		}
		return nil
	case errors.Is(err, brokertest.ErrReturned):
		a.returned = true
		a.stage.returned++
	default:
		a.unsure = true // a nack says no more than no answer: one of the queues may have the message
		a.stage.unsure++
		if a.arrived {
			delete(f.open, number)
		}
	}
	return a
}

// sleep sleeps until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// receive consumes a queue, over another connection when one breaks.
func (f *traffic) receive(ctx context.Context, queue string, parked bool) {
	const prefetch = 100
	recent := make([]int, 0, prefetch)
	for address := 0; ctx.Err() == nil; address++ {
		connection, err := f.dial(address)
		if err != nil {
			sleep(ctx, 200*time.Millisecond)
			continue
		}
		var deliveries <-chan amqp.Delivery
		channel, err := connection.Channel()
		if err == nil {
			err = channel.Qos(prefetch, 0, false)
		}
		if err == nil {
			deliveries, err = channel.Consume(queue, "", false, false, false, false, nil)
		}
		for open := err == nil; open; {
			var d amqp.Delivery
			select {
			case <-ctx.Done():
				open = false
				continue
			case d, open = <-deliveries:
				if !open {
					continue
				}
			}
			recent = append(recent, f.take(d, parked))
			recent = recent[max(0, len(recent)-prefetch):]
		}
		f.mutex.Lock()
		for _, number := range recent {
			f.suspect[number] = true
		}
		f.mutex.Unlock()
		_ = connection.CloseDeadline(time.Now().Add(time.Second)) // it may be gone
		sleep(ctx, 200*time.Millisecond)
	}
}

// take counts a message as arrived and returns its number.
func (f *traffic) take(d amqp.Delivery, parked bool) int {
	number, err := strconv.Atoi(string(d.Body))
	if err != nil || d.MessageId != string(d.Body) {
		f.Errorf("the message %q has the ID %q", d.Body, d.MessageId)
	}
	f.arrive(number, time.Now(), parked, d.Redelivered)
	_ = d.Ack(false) // where that does not reach the broker, the message comes once more
	return number
}

func (f *traffic) arrive(number int, at time.Time, parked, redelivered bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	a, now := f.open[number], f.stages[f.stage]
	if a == nil || a.arrived {
		if redelivered || f.suspect[number] {
			now.redelivered++
			return
		}
		now.doubled++
		if !slices.ContainsFunc(f.failing, func(s span) bool { return s.from <= number && number < s.to }) {
			f.Errorf("message %d arrived again", number)
		}
		return
	}
	a.arrived = true
	*a.message++
	if *a.message > 1 {
		now.twice++
	}
	switch {
	case parked:
		now.parked++
	case a.returned:
		f.Errorf("message %d was returned and has arrived", number)
	default:
		now.delivered++
		late := at.Sub(a.at) - a.delay
		now.late.add(late)
		if late < 0 {
			now.early++
			f.Errorf("message %d was early by %s: it was to take %s", number, -late, a.delay)
		}
	}
	if a.confirmed || a.unsure {
		delete(f.open, number)
	}
}

// confirmed is how many messages have been confirmed so far.
func (f *traffic) confirmed() (sum int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, s := range f.stages {
		sum += s.confirmed
	}
	return sum
}

// mayDouble runs what makes a queue's leader stop or move. Messages that are on their way then may arrive twice. A
// queue hands over each dead-lettered message until it knows that the next queue has it, and may not learn it of the
// first time.
func (f *traffic) mayDouble(run func()) {
	f.mutex.Lock()
	from := f.next
	for number := range f.open {
		from = min(from, number)
	}
	now := len(f.failing)
	f.failing = append(f.failing, span{from, math.MaxInt})
	f.mutex.Unlock()
	run()
	f.mutex.Lock()
	f.failing[now].to = f.next
	f.mutex.Unlock()
}

// goesOn waits until more messages are confirmed.
func (f *traffic) goesOn() {
	f.Helper()
	const most = time.Minute
	more := f.confirmed() + 20
	for deadline := time.Now().Add(most); f.confirmed() < more; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("nothing is confirmed for %s", most)
		}
	}
}

// underWay is how many attempts are confirmed and have not arrived.
func (f *traffic) underWay() (n int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, a := range f.open {
		if a.confirmed && !a.arrived {
			n++
		}
	}
	return n
}

// finish ends the stream and waits for the messages under way. A lost message is an error.
func (f *traffic) finish(most time.Duration) {
	f.Helper()
	f.stop()
	f.publish.Wait()
	f.enter("afterwards")
	for deadline := time.Now().Add(most); f.underWay() > 0 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second) // for what arrives twice
	f.hangUp()
	f.consume.Wait()
	for number, a := range f.open {
		if a.confirmed && !a.arrived {
			a.stage.lost = append(a.stage.lost, a.delay)
			f.Errorf("message %d, confirmed %s after its start, is missing: its delay is %s", number,
				a.at.Format(time.TimeOnly), a.delay)
		}
	}
}

// sum adds up the stages.
func (f *traffic) sum() *account {
	all := &account{}
	for _, s := range f.stages {
		all.confirmed += s.confirmed
		all.delivered += s.delivered
		all.parked += s.parked
		all.returned += s.returned
		all.unsure += s.unsure
		all.early += s.early
		all.doubled += s.doubled
		all.redelivered += s.redelivered
		all.twice += s.twice
		all.lost = append(all.lost, s.lost...)
		for ms, count := range s.late.counts {
			all.late.counts[ms] += count
		}
		all.late.n += s.late.n
		all.late.most = max(all.late.most, s.late.most)
	}
	return all
}

// anyDelay is as often below as above any power of two, so that all levels have their share.
func anyDelay(levels int, unit time.Duration) func() time.Duration {
	return func() time.Duration {
		return time.Duration(rand.IntN(1<<rand.IntN(levels+1))) * unit //nolint:gosec // of a test
	}
}
