package acceptance

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// A full queue refuses messages. They are offered again after once to twice the broker's interval, three minutes by
// default. The broker looks once in an interval. It leaves to the next time every message that was refused less than
// one before (deps/rabbit/src/rabbit_fifo_dlx_worker.erl of RabbitMQ 3.10.8, 4.0.5 and 4.3.5).
//
// With the default and max_length = 20, no message was lost, and late ones came
//
//   - after 3 min 0 s: 2 of 343 on 3.10.8, 2 of 245 on 4.3.6;
//   - after 5 min 55 s to 6 min 0 s: 15 and 14 of them.
func TestRefusedMessagesAreOfferedAgain(t *testing.T) {
	t.Parallel()
	const interval, unit = 12 * time.Second, 100 * time.Millisecond
	b := brokertest.Own(t,
		brokertest.WithSetting("dead_letter_worker_publisher_confirm_timeout", int(interval.Milliseconds())))
	v := harness.NewVhostNamed(t, b, "refused")
	harness.NewProtocol(t, b, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "levels": 1,
		"resolution": unit.String()})
	v.DeclareQueue("full", map[string]any{"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"})
	v.Bind("t.delivery", harness.DestinationKey(1, "full"), "queue", "full")
	filler, fill := 0, v.Publisher()
	var err error
	for ; err == nil; filler++ {
		err = fill.Publish(t.Context(), "", "full", amqp.Publishing{Body: []byte("filler")})
	}
	if !errors.Is(err, brokertest.ErrNacked) {
		t.Fatal(err)
	}

	began := time.Now()
	v.Publish("t.delay-00", "1.full", "first")
	time.Sleep(interval / 4) // so that the second one is refused in the middle of the interval
	v.Publish("t.delay-00", "1.full", "second")
	v.Settled("t.delay-00")
	time.Sleep(interval / 4) // by then it has been refused, and the first one has not been offered again
	// The first one begins the intervals. At the end of the first, the second has not waited for one yet.
	due := map[string]time.Duration{"first": interval, "second": 2 * interval}
	for _, a := range v.Arrived(v.Consume("full"), filler-1+2)[filler-1:] {
		after, due := a.At.Sub(began), due[string(a.Body)]
		if after < harness.Least(due) || after > due+mostLateness {
			t.Errorf("the %s one was offered again after %s, not %s", a.Body, after, due)
		}
		t.Logf("the %s one came after %s", a.Body, after)
	}
}
