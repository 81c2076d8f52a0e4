package harness

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// BrokerTime is the present time in the whole milliseconds in which quorum queues count a TTL (system_time in
// rabbit_fifo, 3.10 to 4.3). A message that comes in the middle of one is due at its beginning.
func BrokerTime() time.Time { return time.Now().Truncate(time.Millisecond) }

// Least is the least time that a message with a delay takes. A quorum queue on 3.10 waits by the clock of Erlang. That
// runs up to 1 % faster or slower while it approaches the clock of the machine (Erlang/OTP, Time and Time Correction).
// After a pause of a virtual machine, all messages of a run came 0.4 % early.
func Least(d time.Duration) time.Duration { return d - d/100 }

// Traffic is a stream of messages through a cascade that outlives its connections. Publishers with confirms and
// mandatory repeat each unconfirmed message, over a connection to the next address. It keeps account of each attempt to
// publish until that has been confirmed and has arrived, so that it can run for hours.
type Traffic struct {
	T testing.TB
	TrafficConfig
	Stop    context.CancelFunc
	publish sync.WaitGroup
	consume sync.WaitGroup
	hangUp  context.CancelFunc // of the consumer

	mutex   sync.Mutex
	next    int
	open    map[int]*attempt
	stage   string
	Order   []string
	Stages  map[string]*Account
	suspect map[int]bool // arrived just before a consumer's connection broke
	failing []span       // messages on their way while a node failed, see mayDouble
}

// span are the messages with these numbers, the last one excluded.
type span struct{ from, to int }

// TrafficConfig says what a traffic goes through, and how it publishes.
type TrafficConfig struct {
	URIs       []string      // of AMQP; the broker's nodes
	Through    delay.Cascade // whose delivery exchange and parked messages are its own
	Publishers int
	Pause      time.Duration        // of each publisher between two messages
	Delay      func() time.Duration // of the next message, up to the cascade's longest
}

// attempt is one message published once.
type attempt struct {
	message            *int // arrivals of the message, by any attempt
	delay              time.Duration
	at                 time.Time
	stage              *Account
	confirmed, arrived bool
	returned, unsure   bool
}

// Account counts attempts by the stage in which they were published, and what arrives by the stage in which it does.
type Account struct {
	Confirmed, Delivered, Parked int
	Returned, Unsure             int // returned or nacked; without an answer
	Early, Doubled, redelivered  int
	Twice                        int // messages that were published again and have arrived more than once
	Lost                         []time.Duration
	Late                         lateness
}

// lateness counts by milliseconds.
type lateness struct {
	counts [1 << 16]int32
	n      int32
	Most   time.Duration
}

func (l *lateness) add(d time.Duration) {
	l.counts[min(max(d.Milliseconds(), 0), int64(len(l.counts)-1))]++
	l.n++
	l.Most = max(l.Most, d)
}

// Quantile is exact to the millisecond up to 65 s.
func (l *lateness) Quantile(q float64) time.Duration {
	rank := int32(q * float64(l.n))
	for ms, count := range l.counts {
		if rank -= count; rank < 0 {
			return min(time.Duration(ms)*time.Millisecond, l.Most)
		}
	}
	return l.Most
}

// arrivalQueue is where the traffic's messages arrive: it has to outlive its consumer.
const arrivalQueue = "arrivals"

// TrafficAddress is the address of all messages of a traffic.
const TrafficAddress = "here"

// NewTraffic binds the queue of arrivals, and begins to publish and to consume.
func NewTraffic(t testing.TB, config TrafficConfig) *Traffic {
	t.Helper()
	f := &Traffic{T: t, TrafficConfig: config, open: map[int]*attempt{}, Stages: map[string]*Account{},
		suspect: map[int]bool{}}
	f.Enter("start")
	ctx, stop := context.WithCancel(t.Context())
	consuming, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	f.Stop, f.hangUp = stop, hangUp
	connection, err := f.dial(0)
	if err != nil {
		t.Fatal(err)
	}
	channel, err := connection.Channel()
	if err == nil {
		_, err = channel.QueueDeclare(f.Arrivals(), true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	}
	if err == nil {
		err = channel.QueueBind(f.Arrivals(), DestinationKey(f.Through.Levels, TrafficAddress),
			f.Through.DeliveryExchange, false, nil)
	}
	if err := errors.Join(err, connection.Close()); err != nil {
		t.Fatal(err)
	}
	f.consume.Go(func() { f.receive(consuming, f.Arrivals(), false) })
	f.consume.Go(func() { f.receive(consuming, f.Through.Name+".unroutable", true) })
	for i := range f.Publishers {
		f.publish.Go(func() { f.send(ctx, i) })
	}
	t.Cleanup(func() { stop(); f.publish.Wait(); hangUp(); f.consume.Wait() })
	return f
}

// Arrivals is the name of the queue in which the messages arrive.
func (f *Traffic) Arrivals() string { return f.Through.Name + "." + arrivalQueue }

func (f *Traffic) dial(i int) (*amqp.Connection, error) {
	return amqp.DialConfig(f.URIs[i%len(f.URIs)], amqp.Config{Vhost: f.Through.Vhost,
		Dial: amqp.DefaultDial(5 * time.Second)})
}

// Enter counts the messages from now on under another name.
func (f *Traffic) Enter(stage string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.Stages[stage] == nil {
		f.Order = append(f.Order, stage)
		f.Stages[stage] = &Account{}
	}
	f.stage = stage
}

// send publishes one message after the other. Its first address is the one of its number.
func (f *Traffic) send(ctx context.Context, address int) {
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
				Sleep(ctx, 200*time.Millisecond)
				continue
			}
		}
		delay, message := f.TrafficConfig.Delay(), new(int)
		if again != nil {
			delay, message = again.delay, again.message
		}
		key, err := f.Through.Scale().RoutingKey(delay, TrafficAddress)
		if err != nil {
			f.T.Error(err)
			return
		}
		a := &attempt{message: message, delay: delay, at: BrokerTime()}
		f.mutex.Lock()
		number := f.next
		f.next++
		a.stage = f.Stages[f.stage]
		f.open[number] = a
		f.mutex.Unlock()
		confirm, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		err = publisher.Publish(confirm, f.Through.Exchange(f.Through.Levels-1), key,
			amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: strconv.Itoa(number),
				Body: []byte(strconv.Itoa(number))})
		cancel()
		again = f.answered(number, err)
		switch {
		case again == nil:
			Sleep(ctx, f.Pause)
		case a.unsure:
			hangUp()
			address++
			Sleep(ctx, 100*time.Millisecond)
		default:
			Sleep(ctx, 100*time.Millisecond)
		}
	}
}

// answered notes the broker's answer and returns the attempt if it has to be made again.
func (f *Traffic) answered(number int, err error) (again *attempt) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	a := f.open[number]
	switch {
	case err == nil:
		a.confirmed = true
		a.stage.Confirmed++
		if a.arrived {
			delete(f.open, number)
		}
		return nil
	case errors.Is(err, brokertest.ErrReturned):
		a.returned = true
		a.stage.Returned++
	default:
		a.unsure = true // a nack says no more than no answer: one of the queues may have the message
		a.stage.Unsure++
		if a.arrived {
			delete(f.open, number)
		}
	}
	return a
}

// Sleep sleeps until the context ends.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// receive consumes a queue, over another connection when one breaks.
func (f *Traffic) receive(ctx context.Context, queue string, parked bool) {
	const prefetch = 100
	recent := make([]int, 0, prefetch)
	for address := 0; ctx.Err() == nil; address++ {
		connection, err := f.dial(address)
		if err != nil {
			Sleep(ctx, 200*time.Millisecond)
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
		Sleep(ctx, 200*time.Millisecond)
	}
}

// take counts a message as arrived and returns its number.
func (f *Traffic) take(d amqp.Delivery, parked bool) int {
	number, err := strconv.Atoi(string(d.Body))
	if err != nil || d.MessageId != string(d.Body) {
		f.T.Errorf("the message %q has the ID %q", d.Body, d.MessageId)
	}
	f.arrive(number, time.Now(), parked, d.Redelivered)
	_ = d.Ack(false) // where that does not reach the broker, the message comes once more
	return number
}

func (f *Traffic) arrive(number int, at time.Time, parked, redelivered bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	a, now := f.open[number], f.Stages[f.stage]
	if a == nil || a.arrived {
		if redelivered || f.suspect[number] {
			now.redelivered++
			return
		}
		now.Doubled++
		if !slices.ContainsFunc(f.failing, func(s span) bool { return s.from <= number && number < s.to }) {
			f.T.Errorf("message %d arrived again", number)
		}
		return
	}
	a.arrived = true
	*a.message++
	if *a.message > 1 {
		now.Twice++
	}
	switch {
	case parked:
		now.Parked++
	case a.returned:
		f.T.Errorf("message %d was returned and has arrived", number)
	default:
		now.Delivered++
		took := at.Sub(a.at)
		now.Late.add(took - a.delay)
		if took < Least(a.delay) {
			now.Early++
			f.T.Errorf("message %d was early: it took %s, not %s", number, took, a.delay)
		}
	}
	if a.confirmed || a.unsure {
		delete(f.open, number)
	}
}

// confirmed is how many messages have been confirmed so far.
func (f *Traffic) confirmed() (sum int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, s := range f.Stages {
		sum += s.Confirmed
	}
	return sum
}

// MayDouble runs what makes a queue's leader stop or move. Messages that are on their way then may arrive twice. A
// queue hands over each dead-lettered message until it knows that the next queue has it, and may not learn it of the
// first time.
func (f *Traffic) MayDouble(run func()) {
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

// GoesOn waits until more messages are confirmed.
func (f *Traffic) GoesOn() {
	f.T.Helper()
	more := f.confirmed() + 20
	for deadline := time.Now().Add(Patience); f.confirmed() < more; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.T.Fatalf("nothing is confirmed for %s", Patience)
		}
	}
}

// underWay is how many attempts are confirmed and have not arrived.
func (f *Traffic) underWay() (n int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, a := range f.open {
		if a.confirmed && !a.arrived {
			n++
		}
	}
	return n
}

// Finish ends the stream and waits for the messages under way. A lost message is an error.
func (f *Traffic) Finish(most time.Duration) {
	f.T.Helper()
	f.Stop()
	f.publish.Wait()
	f.Enter("afterwards")
	for deadline := time.Now().Add(most); f.underWay() > 0 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second) // for what arrives twice
	f.hangUp()
	f.consume.Wait()
	for number, a := range f.open {
		if a.confirmed && !a.arrived {
			a.stage.Lost = append(a.stage.Lost, a.delay)
			f.T.Errorf("message %d, confirmed %s after its start, is missing: its delay is %s", number,
				a.at.Format(time.TimeOnly), a.delay)
		}
	}
}

// Sum adds up the stages.
func (f *Traffic) Sum() *Account {
	all := &Account{}
	for _, s := range f.Stages {
		all.Confirmed += s.Confirmed
		all.Delivered += s.Delivered
		all.Parked += s.Parked
		all.Returned += s.Returned
		all.Unsure += s.Unsure
		all.Early += s.Early
		all.Doubled += s.Doubled
		all.redelivered += s.redelivered
		all.Twice += s.Twice
		all.Lost = append(all.Lost, s.Lost...)
		for ms, count := range s.Late.counts {
			all.Late.counts[ms] += count
		}
		all.Late.n += s.Late.n
		all.Late.Most = max(all.Late.Most, s.Late.Most)
	}
	return all
}

// AnyDelay is as often below as above any power of two, so that all levels have their share.
func AnyDelay(levels int, unit time.Duration) func() time.Duration {
	return func() time.Duration {
		return time.Duration(rand.IntN(1<<rand.IntN(levels+1))) * unit //nolint:gosec // of a test
	}
}
