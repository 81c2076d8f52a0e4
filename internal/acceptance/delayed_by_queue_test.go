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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// A quorum queue of 4.3 delays messages by itself that a client has got and put back, if a policy or an argument says
// so. None of them is ready, and no count shows them before the next tick of the queue.

// retried is a change that would delete the queue, which delays messages.
type retried struct {
	resource string // a cascade, if nothing is said
	provider attributes
	given    attributes
	change   attributes // of the attributes given; nil destroys all
	queue    string
	operator bool // the policy is one of operators
}

const retriedMessages = 3

var (
	retriedTasks  = attributes{"name": "t", "levels": 2, "resolution": "1h"}
	retriedLadder = attributes{"name": "t", "delays": textSet("1h", "2h")}
)

// Each change is refused, at once after messages were put back. The error says how long the queue delays them. All of
// them are there, and so is everything else.
func TestDelayedByTheQueue(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]retried{
		"destroy":                  {given: retriedTasks, queue: "t.delay-00"},
		"destroy, operator policy": {given: retriedTasks, queue: "t.delay-00", operator: true},
		"destroy, without AMQP": {given: retriedTasks, queue: "t.delay-00",
			provider: attributes{"amqp_uri": "amqp://127.0.0.1:1"}},
		"destroy, drain_timeout": {given: retriedTasks.with(attributes{"drain_timeout": "2s"}), queue: "t.delay-00"},
		"destroy, without parking": {given: retriedTasks.with(attributes{"park_unroutable": false}),
			queue: "t.delay-00"},
		"destroy, parked messages": {given: retriedTasks, queue: "t.unroutable"},
		"replacement":              {given: retriedTasks, queue: "t.delay-00", change: attributes{"name": "u"}},
		"rebuild":                  {given: retriedTasks, queue: "t.delay-00", change: attributes{"queue_name": "q%d"}},
		"rebuild, drain_timeout": {given: retriedTasks, queue: "t.delay-00",
			change: attributes{"queue_name": "q%d", "drain_timeout": "2s"}},
		"ladder, destroy": {resource: ladderType, given: retriedLadder, queue: "t.delay-1h"},
		"ladder, a delay taken away": {resource: ladderType, given: retriedLadder, queue: "t.delay-1h",
			change: attributes{"delays": textSet("2h")}},
	} {
		t.Run(name, is.stays)
	}
}

func (is retried) stays(t *testing.T) {
	t.Parallel()
	v := newRetrying(t, time.Hour, is.operator)
	p, given := is.built(v)
	before := v.objects()
	noErrors(t, p.refresh(t.Context()))
	plan := p.plan(t.Context(), given.changed(is.change))
	v.putBack(is.queue)
	text := errorText(p.apply(t.Context(), plan))
	if is.provider == nil { // without AMQP, it may be the count without further figures
		v.mustSayDelayed(text)
	}
	if !strings.Contains(text, fmt.Sprintf("%q: %d", is.queue, retriedMessages)) {
		t.Errorf("the error does not name what waits in %s: %s", is.queue, text)
	}
	v.mustHold(before)
	v.mustHaveRetried(is.queue)
}

// The data source counts the time for which the queue delays messages: the last of them arrives after that.
func TestDelayedArriveLater(t *testing.T) {
	t.Parallel()
	v := newRetrying(t, 10*time.Hour, false)
	p := newProtocol(t, v.broker, nil)
	p.mustApply(retriedTasks.with(attributes{"vhost": v.name}))
	v.putBack("t.delay-00")
	began := time.Now()
	v.eventually("latest_arrival has the delay of the queue", func() bool {
		found, diagnostics := p.observe(t.Context(), cascadeType, attributes{"vhost": v.name,
			"entry_exchange": "t.delay-01"})
		noErrors(t, diagnostics)
		var queues []tftypes.Value
		var latest string
		if err := fields(t, found)["queues"].As(&queues); err != nil {
			t.Fatal(err)
		}
		if err := fields(t, queues[0])["latest_arrival"].As(&latest); err != nil || latest == "" {
			return false
		}
		at, err := time.Parse(time.RFC3339, latest)
		return err == nil && at.After(began.Add(9*time.Hour))
	})
}

// built is the resource as it is given.
func (is retried) built(v *vhost) (p *protocol, given attributes) {
	v.Helper()
	resource := cascadeType
	if is.resource != "" {
		resource = is.resource
	}
	p = newProtocolOf(v, resource, v.broker, is.provider)
	given = is.given.with(attributes{"vhost": v.name})
	p.mustApply(given)
	return p, given
}

// changed is nil if there is no change.
func (a attributes) changed(change attributes) attributes {
	if change == nil {
		return nil
	}
	return a.with(change)
}

// With drain_timeout, what would delete the queue waits until it no longer delays the messages, and they are delivered.
func TestDelayedByTheQueueDrains(t *testing.T) {
	t.Parallel()
	drains := attributes{"drain_timeout": "1m"}
	for name, is := range map[string]retried{
		"destroy": {given: retriedTasks.with(drains).with(attributes{"resolution": "10s"}), queue: "t.delay-00"},
		"rebuild": {given: retriedTasks.with(attributes{"resolution": "10s"}), queue: "t.delay-00",
			change: drains.with(attributes{"queue_name": "q%d"})},
		"ladder, a delay taken away": {resource: ladderType, queue: "t.delay-10s",
			given:  retriedLadder.with(attributes{"delays": textSet("10s", "1h")}),
			change: drains.with(attributes{"delays": textSet("1h")})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newRetrying(t, 15*time.Second, false) // by then, their time in the queue is over
			p, given := is.built(v)
			v.declareQueue("application", nil)
			v.bind("t.delivery", "#", "queue", "application")
			noErrors(t, p.refresh(t.Context()))
			plan := p.plan(t.Context(), given.changed(is.change))
			v.putBack(is.queue)
			noErrors(t, p.apply(t.Context(), plan))
			if n := v.depth("application"); n != retriedMessages {
				t.Errorf("%d of %d messages have arrived", n, retriedMessages)
			}
			if _, isThere := v.objects().Queues[is.queue]; isThere {
				t.Errorf("%s is still there", is.queue)
			}
		})
	}
}

// A repair does not recreate a queue that delays messages, here by its own argument.
func TestDelayedByAWrongQueue(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	v.knowsRetries()
	p, given := retried{given: retriedTasks}.built(v)
	wrong := v.objects().Queues["t.delay-00"]
	wrong.Arguments = maps.Clone(wrong.Arguments)
	maps.Copy(wrong.Arguments, topology.Arguments{"x-delayed-retry-type": "failed",
		"x-delayed-retry-min": time.Hour.Milliseconds()})
	into := v.objects().Bindings.Where(func(b topology.Binding) bool {
		return b.LeadsTo(topology.ToQueue, "t.delay-00")
	})
	v.do(plan.DeleteQueue{Queue: wrong}, plan.DeclareQueue{Queue: wrong})
	for _, b := range into {
		v.do(plan.Bind{Binding: b})
	}
	before := v.objects()
	noErrors(t, p.refresh(t.Context()))
	plan := p.plan(t.Context(), given)
	v.putBack("t.delay-00")
	v.mustSayDelayed(errorText(p.apply(t.Context(), plan)))
	v.mustHold(before)
	v.mustHaveRetried("t.delay-00")
}

// A destination stays while a queue before it delays messages, which may be for it.
func TestDelayedBeforeADestination(t *testing.T) {
	t.Parallel()
	v := newRetrying(t, time.Hour, false)
	retried{given: retriedTasks}.built(v)
	v.declareQueue("application", nil)
	p, given := retried{resource: destinationType, given: attributes{"delivery_exchange": "t.delivery", "levels": 2,
		"address": "address", "queue": "application"}}.built(v)
	before := v.objects()
	for name, change := range map[string]attributes{"destroy": nil, "address": {"address": "other"}} {
		noErrors(t, p.refresh(t.Context()))
		plan := p.plan(t.Context(), given.changed(change))
		v.putBack("t.delay-00")
		text := errorText(p.apply(t.Context(), plan))
		v.mustSayDelayed(text)
		if !strings.Contains(text, "Messages are on their way") {
			t.Errorf("%s: %s", name, text)
		}
		v.mustHold(before)
		v.mustHaveRetried("t.delay-00")
	}
}

// A create that fails leaves a new queue that delays messages by then.
func TestDelayedInAFailedCreate(t *testing.T) {
	t.Parallel()
	v := newRetrying(t, time.Hour, false)
	through := *v.broker
	var fails sync.Once
	through.Endpoint = newGateway(t, v.broker, nil, func(w http.ResponseWriter, r *http.Request) (failed bool) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/e/t.delay-01/q/t.delay-01") {
			failed = true
			fails.Do(func() { v.putBack("t.delay-00") })
			w.WriteHeader(http.StatusForbidden)
		}
		return failed
	}).URL
	p := newProtocol(t, &through, nil)
	text := errorText(p.apply(t.Context(), p.plan(t.Context(), retriedTasks.with(attributes{"vhost": v.name}))))
	v.mustSayDelayed(text)
	v.mustHaveRetried("t.delay-00")
}

// Messages that the queue has counted are refused with the same words, also where no policy says that it delays. A
// client of AMQP 1.0 can ask for that, for a message that it puts back.
func TestDelayedByAClient(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	v.knowsRetries()
	p, _ := retried{given: retriedTasks}.built(v)
	before := v.objects()
	due := time.Now().Add(time.Hour)
	v.putBackUntil("t.delay-00", due)
	v.eventually("the queue has counted itself", func() bool { return v.counted("t.delay-00") == retriedMessages })
	text := errorText(p.apply(t.Context(), p.plan(t.Context(), nil)))
	v.mustSayDelayed(text)
	if !strings.Contains(text, due.UTC().Format("2006-01-02T15:")) {
		t.Errorf("the messages are delayed until %s: %s", due, text)
	}
	v.mustHold(before)
	v.mustHaveRetried("t.delay-00")
}

// newRetrying is a vhost whose quorum queues delay for so long a message that is put back.
func newRetrying(t *testing.T, delay time.Duration, operator bool) *vhost {
	t.Helper()
	v := newVhost(t)
	v.knowsRetries()
	definition := rabbithole.PolicyDefinition{"delayed-retry-type": "all", "delayed-retry-min": delay.Milliseconds()}
	if operator {
		v.operatorPolicy("retries", definition)(".*")
	} else {
		v.policy("retries", 0, definition)(".*")
	}
	return v
}

// knowsRetries skips a test where queues delay nothing by themselves.
func (v *vhost) knowsRetries() {
	v.Helper()
	if !version.AtLeast(v.broker.Version, 4, 3) {
		v.Skipf("quorum queues of RabbitMQ %s delay nothing by themselves: that came with 4.3", v.broker.Version)
	}
}

// putBack publishes messages into a queue and gets each, before its time is over. Then it puts them back, until the
// queue delays all of them: RabbitMQ may apply a policy a moment after the declaration of a queue.
func (v *vhost) putBack(queue string) {
	v.Helper()
	channel, err := v.conn.Channel()
	if err != nil {
		v.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	var got []amqp.Delivery
	get := func() bool {
		message, found, err := channel.Get(queue, false)
		if err != nil {
			v.Fatalf("get from queue %s: %v", queue, err)
		}
		if found {
			got = append(got, message)
		}
		return found
	}
	for n := range retriedMessages {
		v.publish("", queue, fmt.Sprint(n))
		if !get() {
			v.Fatalf("queue %s has not got message %d", queue, n)
		}
	}
	v.eventually("the queue delays what is put back", func() bool {
		for _, message := range got {
			if err := message.Reject(true); err != nil {
				v.Fatal(err)
			}
		}
		got = nil
		for get() {
		}
		return len(got) == 0
	})
}

// putBackUntil does the same over AMQP 1.0, with a time until which the queue is to delay each message.
func (v *vhost) putBackUntil(queue string, due time.Time) {
	v.Helper()
	for n := range retriedMessages {
		v.publish("", queue, fmt.Sprint(n))
	}
	uri, err := url.Parse(v.broker.AMQPURI)
	if err != nil {
		v.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(v.Context(), patience)
	defer cancel()
	conn, err := amqp10.Dial(ctx, "amqp://"+uri.Host, &amqp10.ConnOptions{HostName: "vhost:" + v.name,
		SASLType: amqp10.SASLTypePlain(v.broker.Username, v.broker.Password)})
	if err != nil {
		v.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		v.Fatal(err)
	}
	receiver, err := session.NewReceiver(ctx, "/queues/"+queue, nil)
	if err != nil {
		v.Fatal(err)
	}
	for range retriedMessages {
		message, err := receiver.Receive(ctx, nil)
		if err == nil {
			err = receiver.ModifyMessage(ctx, message, &amqp10.ModifyMessageOptions{
				Annotations: amqp10.Annotations{"x-opt-delivery-time": due.UnixMilli()}})
		}
		if err != nil {
			v.Fatal(err)
		}
	}
}

// mustSayDelayed makes sure that an error says what a queue delays by itself.
func (v *vhost) mustSayDelayed(text string) {
	v.Helper()
	if !strings.Contains(text, "delayed by the queue until 2") || strings.Contains(text, "overdue") {
		v.Errorf("the error does not say that the queue delays messages: %s", text)
	}
}

// mustHaveRetried makes sure that a queue has all messages, and removes them.
func (v *vhost) mustHaveRetried(queue string) {
	v.Helper()
	channel, err := v.conn.Channel()
	if err != nil {
		v.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	// That of 4.3 counts the delayed ones, too.
	if n, err := channel.QueuePurge(queue, false); n != retriedMessages || err != nil {
		v.Errorf("of %d messages in queue %s %d are there: %v", retriedMessages, queue, n, err)
	}
}
