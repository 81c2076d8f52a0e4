package acceptance

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	amqp10 "github.com/Azure/go-amqp"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// A quorum queue of 4.3 delays messages by itself that a client has got and put back, if a policy or an argument says
// so. None of them is ready, and no count shows them before the next tick of the queue.

// retried is a change that would delete the queue, which delays messages.
type retried struct {
	resource string // a cascade, if nothing is said
	given    harness.Attributes
	change   harness.Attributes // of the attributes given; nil destroys all
	queue    string
	operator bool // the policy is one of operators
	overHTTP bool // without AMQP
}

const retriedMessages = 3

var (
	retriedTasks  = harness.Attributes{"name": "t", "levels": 2, "resolution": "1h"}
	retriedLadder = harness.Attributes{"name": "t", "delays": harness.TextList("1h", "2h")}
)

// Each change is refused, at once after messages were put back. The error says how long the queue delays them. All of
// them are there, and so is everything else.
func TestDelayedByTheQueue(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]retried{
		"destroy":                  {given: retriedTasks, queue: "t.delay-00"},
		"destroy, operator policy": {given: retriedTasks, queue: "t.delay-00", operator: true},
		"destroy, without AMQP": {given: retriedTasks, queue: "t.delay-00",
			overHTTP: true},
		"destroy, drain_timeout": {given: retriedTasks.With(harness.Attributes{"drain_timeout": "2s"}),
			queue: "t.delay-00"},
		"destroy, without parking": {given: retriedTasks.With(harness.Attributes{"park_unroutable": false}),
			queue: "t.delay-00"},
		"destroy, parked messages": {given: retriedTasks, queue: "t.unroutable"},
		"replacement":              {given: retriedTasks, queue: "t.delay-00", change: harness.Attributes{"name": "u"}},
		"rebuild": {given: retriedTasks, queue: "t.delay-00",
			change: harness.Attributes{"queue_name": "q%d"}},
		"rebuild, drain_timeout": {given: retriedTasks, queue: "t.delay-00",
			change: harness.Attributes{"queue_name": "q%d", "drain_timeout": "2s"}},
		"ladder, destroy": {resource: harness.LadderType, given: retriedLadder, queue: "t.delay-1h"},
		"ladder, a delay taken away": {resource: harness.LadderType, given: retriedLadder, queue: "t.delay-1h",
			change: harness.Attributes{"delays": harness.TextList("2h")}},
	} {
		t.Run(name, is.stays)
	}
}

func (is retried) stays(t *testing.T) {
	t.Parallel()
	v := newRetrying(t, time.Hour, is.operator)
	p, given := is.built(v)
	before := v.Objects()
	harness.NoErrors(t, p.Refresh(t.Context()))
	plan := p.Plan(t.Context(), changedBy(given, is.change))
	putBack(v, is.queue)
	apply := func() string { return harness.ErrorText(p.Apply(t.Context(), plan)) }
	waits := fmt.Sprintf("%q: %d", is.queue, retriedMessages)
	text := untilCounted(apply(), apply, func(text string) bool { return strings.Contains(text, waits) })
	if !is.overHTTP { // where it may be the count without further figures
		text = mustSayDelayed(v, text, apply)
	}
	if !strings.Contains(text, waits) {
		t.Errorf("the error does not name what waits in %s: %s", is.queue, text)
	}
	v.MustHold(before)
	mustHaveRetried(v, is.queue)
}

// The data source counts the time for which the queue delays messages: the last of them arrives after that.
func TestDelayedArriveLater(t *testing.T) {
	t.Parallel()
	v := newRetrying(t, 10*time.Hour, false)
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(retriedTasks.With(harness.Attributes{"vhost": v.Name}))
	putBack(v, "t.delay-00")
	began := time.Now()
	v.Eventually("latest_arrival has the delay of the queue", func() bool {
		found, diagnostics := p.Observe(t.Context(), harness.CascadeType, harness.Attributes{"vhost": v.Name,
			"entry_exchange": "t.delay-01"})
		harness.NoErrors(t, diagnostics)
		var queues []tftypes.Value
		var latest string
		if err := harness.Fields(t, found)["queues"].As(&queues); err != nil {
			t.Fatal(err)
		}
		if err := harness.Fields(t, queues[0])["latest_arrival"].As(&latest); err != nil || latest == "" {
			return false
		}
		at, err := time.Parse(time.RFC3339, latest)
		return err == nil && at.After(began.Add(9*time.Hour))
	})
}

// built is the resource as it is given.
func (is retried) built(v *harness.Vhost) (p *harness.Protocol, given harness.Attributes) {
	v.T.Helper()
	resource := harness.CascadeType
	if is.resource != "" {
		resource = is.resource
	}
	broker := v.Broker
	if is.overHTTP {
		broker = harness.WithoutAMQP(v.T, broker)
	}
	p = harness.NewProtocolOf(v.T, resource, broker, nil)
	given = is.given.With(harness.Attributes{"vhost": v.Name})
	p.MustApply(given)
	return p, given
}

// changedBy is nil if there is no change.
func changedBy(a harness.Attributes, change harness.Attributes) harness.Attributes {
	if change == nil {
		return nil
	}
	return a.With(change)
}

// With drain_timeout, what would delete the queue waits until it no longer delays the messages, and they are delivered.
func TestDelayedByTheQueueDrains(t *testing.T) {
	t.Parallel()
	drains := harness.Attributes{"drain_timeout": "1m"}
	for name, is := range map[string]retried{
		"destroy": {given: retriedTasks.With(drains).With(harness.Attributes{"resolution": "10s"}),
			queue: "t.delay-00"},
		"rebuild": {given: retriedTasks.With(harness.Attributes{"resolution": "10s"}), queue: "t.delay-00",
			change: drains.With(harness.Attributes{"queue_name": "q%d"})},
		"ladder, a delay taken away": {resource: harness.LadderType, queue: "t.delay-10s",
			given:  retriedLadder.With(harness.Attributes{"delays": harness.TextList("10s", "1h")}),
			change: drains.With(harness.Attributes{"delays": harness.TextList("1h")})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newRetrying(t, 15*time.Second, false) // by then, their time in the queue is over
			p, given := is.built(v)
			v.DeclareQueue("application", nil)
			v.Bind("t.delivery", "#", "queue", "application")
			harness.NoErrors(t, p.Refresh(t.Context()))
			plan := p.Plan(t.Context(), changedBy(given, is.change))
			putBack(v, is.queue)
			harness.NoErrors(t, p.Apply(t.Context(), plan))
			if n := v.Depth("application"); n != retriedMessages {
				t.Errorf("%d of %d messages have arrived", n, retriedMessages)
			}
			if _, isThere := v.Objects().Queues[is.queue]; isThere {
				t.Errorf("%s is still there", is.queue)
			}
		})
	}
}

// A repair does not recreate a queue that delays messages, here by its own argument.
func TestDelayedByAWrongQueue(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	knowsRetries(t, v.Broker)
	p, given := retried{given: retriedTasks}.built(v)
	wrong := v.Objects().Queues["t.delay-00"]
	wrong.Arguments = maps.Clone(wrong.Arguments)
	maps.Copy(wrong.Arguments, topology.Arguments{"x-delayed-retry-type": "failed",
		"x-delayed-retry-min": time.Hour.Milliseconds()})
	into := v.Objects().Bindings.Where(func(b topology.Binding) bool {
		return b.LeadsTo(topology.ToQueue, "t.delay-00")
	})
	v.Do(plan.DeleteQueue{Queue: wrong}, plan.DeclareQueue{Queue: wrong})
	for _, b := range into {
		v.Do(plan.Bind{Binding: b})
	}
	before := v.Objects()
	harness.NoErrors(t, p.Refresh(t.Context()))
	plan := p.Plan(t.Context(), given)
	putBack(v, "t.delay-00")
	apply := func() string { return harness.ErrorText(p.Apply(t.Context(), plan)) }
	mustSayDelayed(v, apply(), apply)
	v.MustHold(before)
	mustHaveRetried(v, "t.delay-00")
}

// A destination stays while a queue before it delays messages, which may be for it.
func TestDelayedBeforeADestination(t *testing.T) {
	t.Parallel()
	v := newRetrying(t, time.Hour, false)
	retried{given: retriedTasks}.built(v)
	v.DeclareQueue("application", nil)
	p, given := retried{resource: harness.DestinationType, given: harness.Attributes{"delivery_exchange": "t.delivery",
		"levels": 2, "address": "address", "queue": "application"}}.built(v)
	before := v.Objects()
	for name, change := range map[string]harness.Attributes{"destroy": nil, "address": {"address": "other"}} {
		harness.NoErrors(t, p.Refresh(t.Context()))
		plan := p.Plan(t.Context(), changedBy(given, change))
		putBack(v, "t.delay-00")
		apply := func() string { return harness.ErrorText(p.Apply(t.Context(), plan)) }
		text := mustSayDelayed(v, apply(), apply)
		if !strings.Contains(text, "Messages are on their way") {
			t.Errorf("%s: %s", name, text)
		}
		v.MustHold(before)
		mustHaveRetried(v, "t.delay-00")
	}
}

// A create that fails leaves a new queue that delays messages by then.
func TestDelayedInAFailedCreate(t *testing.T) {
	t.Parallel()
	v := newRetrying(t, time.Hour, false)
	through := *v.Broker
	var fails sync.Once
	through.Endpoint = harness.NewGateway(t, v.Broker, nil, func(w http.ResponseWriter, r *http.Request) (failed bool) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/e/t.delay-01/q/t.delay-01") {
			failed = true
			fails.Do(func() { putBack(v, "t.delay-00") })
			w.WriteHeader(http.StatusForbidden)
		}
		return failed
	}).URL
	p := harness.NewProtocol(t, &through, nil)
	text := harness.ErrorText(p.Apply(t.Context(),
		p.Plan(t.Context(), retriedTasks.With(harness.Attributes{"vhost": v.Name}))))
	mustSayDelayed(v, text, func() string { return harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil))) })
	mustHaveRetried(v, "t.delay-00")
}

// Messages that the queue has counted are refused with the same words, also where no policy says that it delays. A
// client of AMQP 1.0 can ask for that, for a message that it puts back.
func TestDelayedByAClient(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	knowsRetries(t, v.Broker)
	p, _ := retried{given: retriedTasks}.built(v)
	before := v.Objects()
	due := time.Now().Add(time.Hour)
	putBackUntil(v, "t.delay-00", due)
	// A count of the messages may be from before they were put back.
	v.Eventually("the queue has counted what it delays", func() bool {
		var counts struct {
			Delayed int `json:"messages_delayed"`
		}
		v.Get(&counts, "queues", v.Name, "t.delay-00")
		return counts.Delayed == retriedMessages
	})
	text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil)))
	mustSayDelayed(v, text, nil)
	if !strings.Contains(text, due.UTC().Format("2006-01-02T15:")) {
		t.Errorf("the messages are delayed until %s: %s", due, text)
	}
	v.MustHold(before)
	mustHaveRetried(v, "t.delay-00")
}

// newRetrying is a vhost whose quorum queues delay for so long a message that is put back.
func newRetrying(t *testing.T, delay time.Duration, operator bool) *harness.Vhost {
	t.Helper()
	v := harness.NewVhost(t)
	knowsRetries(t, v.Broker)
	definition := rabbithole.PolicyDefinition{"delayed-retry-type": "all", "delayed-retry-min": delay.Milliseconds()}
	if operator {
		v.OperatorPolicy("retries", definition)(".*")
	} else {
		v.Policy("retries", 0, definition)(".*")
	}
	return v
}

// knowsRetries skips a test where queues delay nothing by themselves.
func knowsRetries(t testing.TB, b *brokertest.Broker) {
	t.Helper()
	if !version.AtLeast(b.Version, 4, 3) {
		t.Skipf("quorum queues of RabbitMQ %s delay nothing by themselves: that came with 4.3", b.Version)
	}
}

// putBack publishes messages into a queue and gets each, before its time is over. Then it puts them back, until the
// queue delays all of them: RabbitMQ may apply a policy a moment after the declaration of a queue.
func putBack(v *harness.Vhost, queue string) {
	v.T.Helper()
	channel, err := v.Conn.Channel()
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	var got []amqp.Delivery
	get := func() bool {
		message, found, err := channel.Get(queue, false)
		if err != nil {
			v.T.Fatalf("get from queue %s: %v", queue, err)
		}
		if found {
			got = append(got, message)
		}
		return found
	}
	for n := range retriedMessages {
		v.Publish("", queue, fmt.Sprint(n))
		if !get() {
			v.T.Fatalf("queue %s has not got message %d", queue, n)
		}
	}
	v.Eventually("the queue delays what is put back", func() bool {
		for _, message := range got {
			if err := message.Reject(true); err != nil {
				v.T.Fatal(err)
			}
		}
		got = nil
		for get() {
		}
		return len(got) == 0
	})
}

// putBackUntil does the same over AMQP 1.0, with a time until which the queue is to delay each message.
func putBackUntil(v *harness.Vhost, queue string, due time.Time) {
	v.T.Helper()
	for n := range retriedMessages {
		v.Publish("", queue, fmt.Sprint(n))
	}
	uri, err := url.Parse(v.Broker.AMQPURI)
	if err != nil {
		v.T.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(v.T.Context(), harness.Patience)
	defer cancel()
	conn, err := amqp10.Dial(ctx, "amqp://"+uri.Host, &amqp10.ConnOptions{HostName: "vhost:" + v.Name,
		SASLType: amqp10.SASLTypePlain(v.Broker.Username, v.Broker.Password)})
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		v.T.Fatal(err)
	}
	receiver, err := session.NewReceiver(ctx, "/queues/"+queue, nil)
	if err != nil {
		v.T.Fatal(err)
	}
	for range retriedMessages {
		message, err := receiver.Receive(ctx, nil)
		if err == nil {
			err = receiver.ModifyMessage(ctx, message, &amqp10.ModifyMessageOptions{
				Annotations: amqp10.Annotations{"x-opt-delivery-time": due.UnixMilli()}})
		}
		if err != nil {
			v.T.Fatal(err)
		}
	}
}

// untilCounted repeats a refused operation, until the error is as it has to be. The queue may have counted its messages
// while the test put them back. Then they are the reason, and the next count has the rest. A count comes every five
// seconds.
func untilCounted(text string, again func() string, is func(text string) bool) string {
	isWrong := func() bool { return strings.Contains(text, "overdue") } // which no later count mends
	for began := time.Now(); text != "" && !is(text) && !isWrong() && time.Since(began) < harness.Patience/3; {
		time.Sleep(time.Second)
		text = again()
	}
	return text
}

// mustSayDelayed makes sure that an error says what a queue delays by itself. Again has the error of another try;
// without it, the first one has to say it.
func mustSayDelayed(v *harness.Vhost, text string, again func() string) string {
	v.T.Helper()
	isSaid := func(text string) bool {
		return strings.Contains(text, "delayed by the queue until 2") && !strings.Contains(text, "overdue")
	}
	if again != nil {
		text = untilCounted(text, again, isSaid)
	}
	if !isSaid(text) {
		v.T.Errorf("the error does not say that the queue delays messages: %s", text)
	}
	return text
}

// mustHaveRetried makes sure that a queue has all messages, and removes them.
func mustHaveRetried(v *harness.Vhost, queue string) {
	v.T.Helper()
	channel, err := v.Conn.Channel()
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	// That of 4.3 counts the delayed ones, too.
	if n, err := channel.QueuePurge(queue, false); n != retriedMessages || err != nil {
		v.T.Errorf("of %d messages in queue %s %d are there: %v", retriedMessages, queue, n, err)
	}
}
