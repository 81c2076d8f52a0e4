package acceptance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A stream with publisher confirms and mandatory runs through a cascade. Meanwhile the cascade is damaged and repaired,
// and its lookahead changes. The provider is stopped in the middle of a repair and runs again. Whatever the broker has
// confirmed arrives once and not too early, or is parked once.
//
// RabbitMQ itself cannot give that in some cases, which are tried for what can be had:
//   - A queue that is deleted takes its messages along. All that did not have to pass it arrive.
//   - While an exchange is missing, classic queues lose what they dead-letter into it. Quorum queues keep
//     it, and try again within three minutes. An exchange that exists is not recreated while classic
//     queues that dead-letter into it hold messages, so under load it is only deleted here.
//   - Two damages at once, a missing binding and no way into the parking queue, are not tried.
func TestRepairUnderLoad(t *testing.T) {
	t.Parallel()
	var rounds atomic.Int64
	t.Run("damages", func(t *testing.T) {
		for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
			for name, test := range map[string]struct {
				damage func(*load, int)
				left   whatIsLeft
			}{
				"bindings": {(*load).damageBindings, whatIsLeft{}},
				"exchanges": {(*load).damageExchange, whatIsLeft{held: queueType == delay.Quorum,
					lost: queueType == delay.Classic, passes: func(sentMessage) bool { return true }}},
				"queues": {(*load).damageQueue,
					whatIsLeft{lost: true, passes: func(m sentMessage) bool {
						return m.delay/loadUnit&(1<<loadVictim) > 0
					}}},
			} {
				t.Run(fmt.Sprintf("%s, %s", queueType, name), func(t *testing.T) {
					t.Parallel()
					l := newLoad(t, queueType)
					rounds.Add(loadRounds)
					for _, round := range sampling.Of(t, "repairs", upTo(loadRounds)) {
						test.damage(l, round)
						l.repair(round)
						l.change(round)
					}
					l.finish(test.left)
				})
			}
		}
	})
	if !narrowed() {
		figure(t, "repairs_under_load", int(rounds.Load()))
	}
}

const (
	loadRounds     = 8
	loadPublishers = 2
	loadLevels     = 4
	loadUnit       = 40 * time.Millisecond
	// loadVictim is the level whose queue is deleted.
	loadVictim = 1
)

// whatIsLeft is what need not arrive: of the messages that pass the damage, some may be lost or held back.
type whatIsLeft struct {
	lost, held bool
	passes     func(sentMessage) bool
}

// load is a cascade with a stream of messages.
type load struct {
	*harness.Vhost
	*harness.Protocol
	given     harness.Attributes
	desired   topology.Topology
	scale     delay.Scale
	collector *brokertest.Collector
	parked    *brokertest.Collector // once the stream has ended
	random    *rand.Rand

	stop       context.CancelFunc
	publishers sync.WaitGroup
	mutex      sync.Mutex
	// sent has a number of units as the delay. What became of a message is in one of the others.
	sent                        []sentMessage
	confirmed, returned, unsure []int
}

func newLoad(t *testing.T, queueType delay.QueueType) *load {
	t.Helper()
	return newLoadOf(t, harness.Attributes{"levels": loadLevels, "resolution": loadUnit.String(),
		"queue_type": string(queueType), "lookahead": loadLevels},
		delay.Config{Levels: loadLevels, Resolution: loadUnit, QueueType: queueType})
}

// newLoadOf takes the attributes of a cascade, but for its name, and the configuration of which it knows the keys.
func newLoadOf(t *testing.T, further harness.Attributes, config delay.Config) *load {
	t.Helper()
	v := harness.NewVhost(t)
	config.Name, config.Vhost = "t", v.Name
	config.CreateDeliveryExchange, config.StrictKeys, config.ParkUnroutable = true, true, true
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	l := &load{
		Vhost: v, Protocol: harness.NewProtocol(t, v.Broker, nil), stop: stop,
		given:   harness.Attributes{"vhost": v.Name, "name": "t"}.With(further),
		desired: resolved.Expand(), scale: resolved.Scale(),
		random: rand.New(rand.NewPCG(3, uint64(len(config.QueueType)))), //nolint:gosec // to be repeatable
	}
	l.MustApply(l.given)
	l.collector = l.Collect("t.delivery", harness.DestinationKey(l.scale.Levels(), "here"))
	for range loadPublishers {
		l.publishers.Go(func() { l.publish(ctx) })
	}
	t.Cleanup(func() { stop(); l.publishers.Wait() })
	l.goesOn()
	return l
}

// publish sends messages one after the other, each with a random delay. It replaces a connection of which the broker
// closes the channel, as it does where there is no exchange. 3.10 closes the connection when a quorum queue goes while
// something is published into it.
func (l *load) publish(ctx context.Context) {
	var publisher *brokertest.Publisher
	var connection *amqp.Connection
	hangUp := func() {
		if connection != nil {
			_ = connection.Close() // it may be closed already
		}
		publisher, connection = nil, nil
	}
	defer hangUp()
	for ctx.Err() == nil {
		if publisher == nil {
			var err error
			if connection, err = l.Broker.Dial(l.Vhost.Name); err == nil {
				publisher, err = brokertest.NewPublisher(connection)
			}
			if err != nil {
				l.Vhost.T.Errorf("connect: %v", err)
				return
			}
		}
		delay := rand.N(l.scale.Longest + l.scale.Resolution()).Truncate(l.scale.Resolution())
		key, err := l.scale.RoutingKey(delay, "here")
		if err != nil {
			l.Vhost.T.Error(err)
			return
		}
		l.mutex.Lock()
		number := len(l.sent)
		l.sent = append(l.sent, sentMessage{delay, harness.BrokerTime()})
		l.mutex.Unlock()
		err = publisher.Publish(l.Vhost.T.Context(), l.desired.Entry, key,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: strconv.AppendInt(nil, int64(number), 10)})
		l.mutex.Lock()
		switch {
		case err == nil:
			l.confirmed = append(l.confirmed, number)
		case errors.Is(err, brokertest.ErrReturned), errors.Is(err, brokertest.ErrNacked):
			l.returned = append(l.returned, number)
		default:
			l.unsure = append(l.unsure, number)
			hangUp()
		}
		l.mutex.Unlock()
	}
}

// goesOn waits until some messages more are confirmed.
func (l *load) goesOn() {
	l.Vhost.T.Helper()
	more := l.count() + 20
	l.Eventually("the stream goes on", func() bool { return l.count() > more })
}

func (l *load) count() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.confirmed)
}

func (l *load) damageBindings(round int) {
	have := l.Objects().Bindings
	bindings := slices.DeleteFunc(l.desired.Bindings.Sorted(), func(b topology.Binding) bool {
		return !have.Has(b) || b.Source == "t.unroutable"
	})
	for range 1 + round%3 {
		b := bindings[l.random.IntN(len(bindings))]
		l.Do(plan.Unbind{Binding: b})
		if round%2 == 0 {
			b.RoutingKey += ".foreign"
			l.Do(plan.Bind{Binding: b})
		}
	}
}

// damageExchange deletes a level exchange, or puts one without an alternate exchange in its place.
func (l *load) damageExchange(round int) {
	name := fmt.Sprintf("t.delay-%02d", l.random.IntN(loadLevels))
	l.Do(plan.DeleteExchange{Name: name})
	if round%2 == 0 && l.given["queue_type"] == "quorum" {
		wrong := l.desired.Exchanges[name]
		wrong.Arguments = nil
		l.Do(plan.DeclareExchange{Exchange: wrong})
	}
}

func (l *load) damageQueue(int) {
	l.Do(plan.DeleteQueue{Queue: l.desired.Queues[fmt.Sprintf("t.delay-%02d", loadVictim)]})
}

// repair applies until there is nothing to do. In every other round the first attempt is stopped in the
// middle. A repair that would lose something is refused until the stream has left a gap for it.
func (l *load) repair(round int) {
	l.Vhost.T.Helper()
	if round%2 == 1 {
		harness.NoErrors(l.Vhost.T, l.Refresh(l.Vhost.T.Context()))
		todo := l.Plan(l.Vhost.T.Context(), l.given)
		ctx, cancel := context.WithTimeout(l.Vhost.T.Context(), time.Duration(l.random.IntN(60))*time.Millisecond)
		l.Apply(ctx, todo)
		cancel()
	}
	var text string
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); {
		harness.NoErrors(l.Vhost.T, l.Refresh(l.Vhost.T.Context()))
		if text = harness.ErrorText(l.Apply(l.Vhost.T.Context(), l.Plan(l.Vhost.T.Context(), l.given))); text == "" {
			l.MustBeSettled(l.given)
			l.goesOn()
			return
		}
	}
	l.Vhost.T.Fatalf("the cascade cannot be repaired: %s", text)
}

func (l *load) change(round int) {
	l.Vhost.T.Helper()
	l.given["lookahead"] = 1 + (round+1)%loadLevels
	l.MustApply(l.given)
	l.goesOn()
}

// finish ends the stream and accounts for every message.
func (l *load) finish(left whatIsLeft) {
	l.Vhost.T.Helper()
	l.stop()
	l.publishers.Wait()
	l.parked = l.Consume("t.unroutable")
	missing := func() []int {
		seen := map[int]bool{}
		for _, a := range slices.Concat(l.collector.Arrivals(), l.parked.Arrivals()) {
			seen[l.number(a)] = true
		}
		return slices.DeleteFunc(slices.Clone(l.confirmed), func(n int) bool { return seen[n] })
	}
	if left.lost || left.held {
		l.Eventually("all that did not pass the damage has arrived", func() bool {
			return !slices.ContainsFunc(missing(), func(n int) bool { return !left.passes(l.sent[n]) })
		})
		// Everything that is on its way has arrived after the longest delay, and the rest stays where it is.
		last := -1
		l.Eventually("nothing moves any more", func() bool {
			time.Sleep(l.scale.Longest)
			before := last
			last = len(missing())
			return last == before
		})
	} else {
		l.Eventually("everything has arrived", func() bool { return len(missing()) == 0 })
	}

	l.checkArrivals()
	gone := missing()
	for _, n := range gone {
		if (!left.lost && !left.held) || !left.passes(l.sent[n]) {
			l.Vhost.T.Errorf("message %d with a delay of %s is missing", n, l.sent[n].delay)
		}
	}
	held := 0
	if left.held {
		l.Eventually("what is missing is held in the cascade", func() bool {
			gone, held = missing(), l.held() // it may go on, and no message is missing then
			return held >= len(gone)
		})
	}
	l.Vhost.T.Logf("confirmed %d, delivered %d, parked %d, returned %d, missing %d, of these held %d; not confirmed %d",
		len(l.confirmed), len(l.collector.Arrivals()), len(l.parked.Arrivals()), len(l.returned), len(gone), held,
		len(l.unsure))
}

// checkArrivals makes sure that no message was early, that none came twice, and none that was returned.
func (l *load) checkArrivals() {
	l.Vhost.T.Helper()
	times := map[int]int{}
	for _, a := range l.collector.Arrivals() {
		n := l.number(a)
		times[n]++
		if took, asked := a.At.Sub(l.sent[n].at), l.sent[n].delay; took < harness.Least(asked) {
			l.Vhost.T.Errorf("message %d took %s, asked was %s", n, took, asked)
		}
	}
	for _, a := range l.parked.Arrivals() {
		times[l.number(a)]++
	}
	for _, n := range slices.Sorted(maps.Keys(times)) {
		if times[n] > 1 {
			l.Vhost.T.Errorf("message %d arrived %d times", n, times[n])
		}
	}
	for _, n := range l.returned {
		if times[n] > 0 {
			l.Vhost.T.Errorf("message %d was returned and has arrived", n)
		}
	}
}

// checkLateness makes sure that no message was late. That holds where no exchange of the cascade was missing.
func (l *load) checkLateness() {
	l.Vhost.T.Helper()
	var most time.Duration
	for _, a := range l.collector.Arrivals() {
		n := l.number(a)
		late := a.At.Sub(l.sent[n].at) - l.sent[n].delay
		if most = max(most, late); late > mostLateness {
			l.Vhost.T.Errorf("message %d with a delay of %s is %s late", n, l.sent[n].delay, late)
		}
	}
	l.Vhost.T.Logf("the latest message is %s late", most)
}

// published is how many messages have been published, or are about to be.
func (l *load) published() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.sent)
}

// held counts what the queues hold, expired messages included that nobody has taken over yet.
func (l *load) held() (sum int) {
	l.Vhost.T.Helper()
	var queues []struct {
		Name     string
		Messages int
	}
	l.Get(&queues, "queues", l.Vhost.Name)
	for _, q := range queues {
		if q.Name != "t.unroutable" {
			sum += q.Messages
		}
	}
	return sum
}

func (l *load) number(a brokertest.Arrival) int {
	n, err := strconv.Atoi(string(a.Body))
	if err != nil {
		l.Vhost.T.Fatal(err)
	}
	return n
}
