package drain

import (
	"fmt"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// NotEmptyError says which queues hold messages.
type NotEmptyError struct {
	Vhost string
	// Why is what the messages are in the way of.
	Why    string
	Queues []QueueDepth
}

// QueueDepth is what a queue holds.
type QueueDepth struct {
	Name string
	// Messages are ready, unacknowledged, delayed by the queue, or expired and waiting to be dead-lettered.
	Messages  int64
	Consumers int64
	// Delayed is how many the queue delays by itself. It delays the first until NextDelayed, the last until
	// LastDelayed.
	Delayed                  int64
	NextDelayed, LastDelayed time.Time
	// Overdue is set for messages whose time is over, and which no queue has taken yet.
	Overdue bool
}

func (e *NotEmptyError) Error() string {
	var total int64
	for _, q := range e.Queues {
		total += q.Messages
	}
	return fmt.Sprintf("%s in vhost %q is not possible while messages wait: %d in %s", e.Why, e.Vhost, total,
		plaintext.Join(e.Queues, ", ", QueueDepth.String))
}

func (q QueueDepth) String() string {
	return fmt.Sprintf("queue %q (%s)", q.Name, q.Text())
}

// Text is what the queue holds, in words.
func (q QueueDepth) Text() string {
	text := fmt.Sprint(q.Messages)
	if q.Delayed > 0 {
		if q.Delayed < q.Messages {
			text += fmt.Sprintf(", %d of them", q.Delayed)
		} else {
			text += ","
		}
		next, last := wholeSecond(q.NextDelayed), wholeSecond(q.LastDelayed)
		text += " delayed by the queue until " + next.Format(time.RFC3339)
		if last.After(next) {
			text += ", the last until " + last.Format(time.RFC3339)
		}
	}
	if q.Overdue {
		text += ", overdue"
	}
	if q.Consumers > 0 {
		text += fmt.Sprintf(", consumers: %d", q.Consumers)
	}
	return text
}

// wholeSecond is not before the time.
func wholeSecond(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second).UTC() }

// Summary is the error in a few words.
func (e *NotEmptyError) Summary() string { return "RabbitMQ: messages are waiting" }

// Detail is the error with all that is known.
func (e *NotEmptyError) Detail() string {
	line := func(q QueueDepth) string { return fmt.Sprintf("  %q: %s", q.Name, q.Text()) }
	return rabbit.Sentence(fmt.Sprintf("%s in vhost %q is not possible while queues hold messages, which would be "+
		"lost:\n\n%s\n\nTry again when they are delivered or consumed", e.Why, e.Vhost,
		plaintext.Join(e.Queues, "\n", line)))
}
