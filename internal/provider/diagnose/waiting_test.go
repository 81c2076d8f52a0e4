package diagnose

import (
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
)

// Each kind of messages has its way out, and force_destroy is the last one. A drain that has not begun, because
// messages are parked, has not waited.
func TestStillWait(t *testing.T) {
	const (
		wait    = "Wait until the delayed messages are delivered, and try again. Or first apply "
		drains  = "drain_timeout, which makes the apply wait for them. "
		overdue = "Overdue messages find no queue, or a full one: bind a queue, or make room. RabbitMQ tries again " +
			"within three minutes, or six if a queue was full. "
		parked = "Parked messages do not leave the queue of unroutable messages by themselves: consume or purge it, " +
			"and try again. While publishers go on, a message may get there in the moment in which the entry closes. "
		force = "To go on at once, first apply force_destroy = true, which deletes the messages."
	)
	one, late := drain.QueueDepth{Name: "1s", Messages: 2}, drain.QueueDepth{Name: "2s", Messages: 1, Overdue: true}
	apart := drain.QueueDepth{Name: "parked", Messages: 3}
	for name, is := range map[string]struct {
		queues []drain.QueueDepth
		guard  plan.Guard
		want   string
	}{
		"delayed": {[]drain.QueueDepth{one}, plan.Guard{}, "These messages wait:\n\n  queue \"1s\": 2\n\n" + wait +
			drains + force},
		"delayed, after a drain": {[]drain.QueueDepth{one}, plan.Guard{Drain: time.Minute},
			"These messages wait after 1 min:\n\n  queue \"1s\": 2\n\n" + wait + "a longer " + drains + force},
		"overdue": {[]drain.QueueDepth{late}, plan.Guard{}, "These messages wait:\n\n  queue \"2s\": 1, overdue\n\n" +
			overdue + force},
		"parked, with a drain": {[]drain.QueueDepth{one, apart}, plan.Guard{Drain: time.Minute},
			"These messages wait:\n\n  queue \"1s\": 2\n  queue \"parked\": 3\n\n" + wait + drains + parked + force},
	} {
		parks := func(queue string) bool { return queue == apart.Name }
		err := &drain.NotEmptyError{Queues: is.queues}
		if got := waitingText(err, is.guard, parks, "deletes the messages."); got != is.want {
			t.Errorf("%s: it says\n%s\nand not\n%s", name, got, is.want)
		}
	}
}
