package acceptance

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// A queue for each delay, as frameworks make it: it is declared before each message, and x-expires removes it when it
// is no longer used. Declaring a classic queue again begins that time anew. It does not for a quorum queue, which goes
// with the messages in it (3.10.8, 4.0.5, 4.3.6). The guide to choosing says so.
func TestExpiringQueueTakesItsMessages(t *testing.T) {
	t.Parallel()
	// Messages come more often than the queue expires, also where a busy machine pauses for seconds.
	const expires, pause = 7 * time.Second, 250 * time.Millisecond
	// A queue that begins its time anew has to live for longer than that. Quorum queues look every 5 s, or later.
	long := map[bool]time.Duration{false: 2 * expires, true: harness.Patience}
	for queueType, loses := range map[string]bool{"classic": false, "quorum": true} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			channel, err := v.Conn.Channel()
			if err != nil {
				t.Fatal(err)
			}
			arguments := amqp.Table{"x-queue-type": queueType, "x-expires": expires.Milliseconds()}
			const durable, autoDelete, exclusive, noWait = true, false, false, false
			lost, out := false, v.Publisher()
			for n, began := 0, time.Now(); time.Since(began) < long[loses] && !lost; n++ {
				q, err := channel.QueueDeclare("delay.10000", durable, autoDelete, exclusive, noWait, arguments)
				if err != nil {
					t.Fatal(err)
				}
				err = out.Publish(t.Context(), "", "delay.10000", amqp.Publishing{DeliveryMode: amqp.Persistent})
				lost = q.Messages < n || err != nil // it may be gone by now
				time.Sleep(pause)
			}
			if lost != loses {
				t.Errorf("messages are lost: %t", lost)
			}
		})
	}
}
