package acceptance

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
)

// What the retry policy of 4.3 does to a cascade and to its receivers.

// retryUnit is the shortest delay in these tests. While a message waits for two of it, a busy machine has time for a
// look. retryAfter is the time of a retry. No message is so late without one.
const (
	retryUnit  = 2 * time.Second
	retryAfter = 9 * time.Second
)

// retrying is a cascade of two levels, and one quorum queue that gets all of its messages.
type retrying struct {
	*harness.Vhost
	*harness.Protocol
	given harness.Attributes
}

const retryReceiver = "receiver"

// newRetryPolicy sets a policy that delays retries on the queues whose names begin so, and waits until it is in force.
func newRetryPolicy(t *testing.T, v *harness.Vhost, kind, begin string, receiver map[string]any) retrying {
	t.Helper()
	knowsRetries(t, v.Broker)
	v.Policy("retries", 0, rabbithole.PolicyDefinition{"delayed-retry-type": kind,
		"delayed-retry-min": retryAfter.Milliseconds()})("^" + begin)
	r := retrying{v, harness.NewProtocol(t, v.Broker, nil), harness.Attributes{"vhost": v.Name, "name": "t",
		"levels": 2, "resolution": retryUnit.String()}}
	r.MustApply(r.given)
	receiver["x-queue-type"] = "quorum"
	v.DeclareQueue(retryReceiver, receiver)
	v.Bind("t.delivery", harness.DestinationKey(2, retryReceiver), "queue", retryReceiver)
	v.Eventually("the policy is in force", func() bool {
		var queues []struct {
			Name  string
			Retry string `json:"delayed_retry"`
		}
		v.Get(&queues, "queues", v.Name)
		inForce := 0
		for _, q := range queues {
			if strings.HasPrefix(q.Name, begin) && strings.HasPrefix(q.Retry, kind) {
				inForce++
			}
		}
		return inForce == 3 || inForce == 1 && begin == retryReceiver
	})
	return r
}

// publish sends a message for so many units, with the number as its body.
func (r retrying) publish(units int) (sent time.Time) {
	r.Vhost.T.Helper()
	sent = harness.BrokerTime()
	r.Publish("t.delay-01", harness.RoutingKey(r.Vhost.T, time.Duration(units)*retryUnit, 2, retryUnit,
		retryReceiver), fmt.Sprint(units))
	return sent
}

// channel is closed with the test.
func (r retrying) channel() *amqp.Channel {
	r.Vhost.T.Helper()
	channel, err := r.Conn.Channel()
	if err != nil {
		r.Vhost.T.Fatal(err)
	}
	r.Vhost.T.Cleanup(func() { _ = channel.Close() })
	return channel
}

// Nobody takes messages from delay queues, so the policy does nothing to those that wait. A message that somebody has
// looked at is late. A refresh says so, and of nothing else.
func TestRetriesMakeMessagesLate(t *testing.T) {
	t.Parallel()
	for kind, late := range map[string]map[string]bool{
		"all":      {"reject": true, "nack": true},
		"failed":   {"reject": true},
		"returned": {"nack": true},
		"disabled": {},
	} {
		for verb, put := range putBackBy {
			t.Run(kind+", "+verb, func(t *testing.T) {
				t.Parallel()
				r := newRetryPolicy(t, harness.NewVhost(t), kind, "t.", map[string]any{})
				r.mustWarn(kind)
				arrivals := r.Consume(retryReceiver)
				sent := map[string]time.Time{}
				for units := range 4 {
					sent[fmt.Sprint(units)] = r.publish(units)
				}
				r.mustBeOnTime(r.Arrived(arrivals, 4), sent)

				at := r.publish(2)
				got := r.get("t.delay-01")
				back := harness.BrokerTime()
				if err := put(got); err != nil {
					t.Fatal(err)
				}
				took := r.Arrived(arrivals, 5)[4].At
				if due := at.Add(harness.Least(2 * retryUnit)); took.Before(due) {
					t.Errorf("the message is early by %s", due.Sub(took))
				}
				if after := took.Sub(back); late[verb] != (after >= harness.Least(retryAfter)) {
					t.Errorf("the message came %s after it was put back, and a retry comes after %s", after, retryAfter)
				}
			})
		}
	}
}

// putBackBy are the ways to put a message back.
var putBackBy = map[string]func(amqp.Delivery) error{
	"reject": func(d amqp.Delivery) error { return d.Reject(true) },
	"nack":   func(d amqp.Delivery) error { return d.Nack(false, true) },
}

// mustWarn makes sure that a refresh says what the policy does, or nothing if that is nothing.
func (r retrying) mustWarn(kind string) {
	r.Vhost.T.Helper()
	text := harness.WarningText(r.Refresh(r.Vhost.T.Context()))
	if kind == "disabled" {
		if text != "" {
			r.Vhost.T.Errorf("the refresh warns: %s", text)
		}
		return
	}
	harness.MustSay(r.Vhost.T, "the refresh", text,
		`policy "retries" on queue "t.delay-00", queue "t.delay-01": a message in it that is got and put back is late`,
		`policy "retries" on queue "t.unroutable": a message in it that is got and put back, as a replay does`)
}

// get gets a message and does not acknowledge it.
func (r retrying) get(queue string) (got amqp.Delivery) {
	r.Vhost.T.Helper()
	channel := r.channel()
	got, found, err := channel.Get(queue, false)
	if err != nil || !found {
		r.Vhost.T.Fatalf("get from queue %s: %t, %v", queue, found, err)
	}
	return got
}

// mustBeOnTime makes sure that messages have waited for their units, and that none has waited for a retry.
func (r retrying) mustBeOnTime(arrivals []brokertest.Arrival, sent map[string]time.Time) {
	r.Vhost.T.Helper()
	for _, a := range arrivals {
		var units int
		if _, err := fmt.Sscan(string(a.Body), &units); err != nil {
			r.Vhost.T.Fatal(err)
		}
		took, asked := a.At.Sub(sent[string(a.Body)]), time.Duration(units)*retryUnit
		if took < harness.Least(asked) || took > asked+retryAfter {
			r.Vhost.T.Errorf("a message for %d units has a lateness of %s", units, took-asked)
		}
	}
}

// A receiver's queue may delay what its consumer returns. That begins when the cascade's delay is over: a message comes
// on time first, and again after its retry. The refresh of the cascade says nothing of it.
func TestRetriesOfAReceiver(t *testing.T) {
	t.Parallel()
	for _, kind := range policy.Retries {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			r := newRetryPolicy(t, v, kind, retryReceiver, map[string]any{})
			if text := harness.WarningText(r.Refresh(t.Context())); text != "" {
				t.Errorf("the refresh warns: %s", text)
			}
			next := r.consume()
			sent := r.publish(3)
			first := next()
			r.mustBeOnTime([]brokertest.Arrival{first}, map[string]time.Time{"3": sent})
			back := harness.BrokerTime()
			verb := "reject"
			if kind == "returned" {
				verb = "nack"
			}
			if err := putBackBy[verb](first.Delivery); err != nil {
				t.Fatal(err)
			}
			again := next()
			if wait := again.At.Sub(back); wait < harness.Least(retryAfter) || wait > 3*retryAfter {
				t.Errorf("the message came again after %s, and not %s", wait, retryAfter)
			}
			if string(again.Body) != "3" || again.Ack(false) != nil {
				t.Errorf("another message came: %q", again.Body)
			}
		})
	}
}

// consume consumes the receiver's queue, one message after the other, and acknowledges nothing.
func (r retrying) consume() (next func() brokertest.Arrival) {
	r.Vhost.T.Helper()
	deliveries, err := r.channel().Consume(retryReceiver, "", false, false, false, false, nil)
	if err != nil {
		r.Vhost.T.Fatal(err)
	}
	return func() brokertest.Arrival {
		select {
		case d := <-deliveries:
			return brokertest.Arrival{Delivery: d, At: time.Now()}
		case <-time.After(harness.Patience):
			r.Vhost.T.Fatal("no message comes")
			return brokertest.Arrival{}
		}
	}
}

// At-least-once dead-lettering goes on under the policy: what a full receiver refuses comes when there is room. That is
// after the time after which RabbitMQ tries again, which is shorter here, and not after that of a retry.
func TestRetriesLeaveDeadLetteringAlone(t *testing.T) {
	t.Parallel()
	knowsRetries(t, brokertest.Shared(t))
	const again = 2 * time.Second
	b := brokertest.Own(t, brokertest.WithSetting("dead_letter_worker_publisher_confirm_timeout",
		int(again.Milliseconds())))
	v := harness.OpenVhost(t, b, "/")
	r := newRetryPolicy(t, v, "all", "t.", map[string]any{"x-max-length": 1, "x-overflow": "reject-publish"})
	var err error
	for filler := v.Publisher(); err == nil; {
		err = filler.Publish(t.Context(), "", retryReceiver, amqp.Publishing{Body: []byte("filler")})
	}
	if !errors.Is(err, brokertest.ErrNacked) {
		t.Fatal(err)
	}
	const n = 10
	for range n {
		r.publish(3)
	}
	v.Eventually("the messages are overdue", func() bool {
		return strings.Contains(harness.WarningText(r.Refresh(t.Context())), fmt.Sprintf("%d overdue messages", n))
	})
	came := map[string]int{}
	v.Eventually("all messages have come", func() bool {
		if v.Depth(retryReceiver) > 0 {
			came[v.Take(retryReceiver)]++
		}
		return came["3"] >= n
	})
	if came["3"] != n {
		t.Errorf("%d of %d messages came", came["3"], n)
	}
}
