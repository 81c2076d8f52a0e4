package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// A ladder hands on to one queue: each message arrives after its delay, with its key changed to the name of the queue.
// A destroy is refused while one waits. What an application has declared like this is imported as it is.
func TestLadderDeliversToAQueue(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "work.retry", "queue_name": "work.retry.%s",
		"delays": harness.TextList("300ms", "900ms", "15s"), "deliver_to_queue": "work"}
	p.MustApply(given) // the queue may come later
	p.MustBeSettled(given)
	missing := findingsOf(p, v, harness.LadderType, "work.retry.entry")
	if len(missing) != 1 || !strings.Contains(missing[0], `missing on queue "work"`) {
		t.Errorf("without the queue, the findings are %q", missing)
	}
	v.DeclareQueue("work", map[string]any{"x-queue-type": "quorum", "x-dead-letter-exchange": "work.retry.entry",
		"x-dead-letter-routing-key": "300ms"})
	p.MustBeSettled(given)
	if found := findingsOf(p, v, harness.LadderType, "work.retry.entry"); len(found) > 0 {
		t.Errorf("the findings are %q", found)
	}
	arrivals := v.Consume("work")
	for i, delay := range []time.Duration{300 * time.Millisecond, 900 * time.Millisecond} {
		sent := harness.BrokerTime()
		v.Publish("work.retry.entry", delay.String(), delay.String())
		a := v.Arrived(arrivals, i+1)[i]
		if took := a.At.Sub(sent); took < harness.Least(delay) || a.RoutingKey != "work" ||
			string(a.Body) != delay.String() {
			t.Errorf("%q arrived after %s with key %q, want %s", a.Body, took, a.RoutingKey, delay)
		}
	}
	v.Publish("work.retry.entry", "15s", "waits")
	v.Eventually("the message waits", func() bool { return v.Depth("work.retry.15s") == 1 })
	if text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil))); !strings.Contains(text,
		`queue "work.retry.15s"`) {
		t.Errorf("a destroy with a message is refused with: %s", text)
	}
	// A change of the queue rebuilds the ladder, as soon as nothing waits.
	v.DeclareQueue("other", nil)
	other := given.With(harness.Attributes{"deliver_to_queue": "other", "drain_timeout": "1m"})
	p.MustApply(other)
	p.MustBeSettled(other)
	if a := v.Arrived(arrivals, 3)[2]; string(a.Body) != "waits" {
		t.Errorf("%q arrived", a.Body)
	}
	v.Publish("work.retry.entry", "300ms.some.address", "again")
	if a := v.Arrived(v.Consume("other"), 1)[0]; string(a.Body) != "again" {
		t.Errorf("%q arrived at the other queue", a.Body)
	}
	p.MustApply(nil)
	p.MustApply(given)

	imported := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	harness.NoErrors(t, imported.ImportIdentity(t.Context(), v.Name, "work.retry.entry"))
	imported.MustBeSettled(given)
	imported.MustApply(nil)
}

// A message that comes straight into a delay queue, through the default exchange, keeps the ladder from its destroy.
// The message arrives.
func TestLadderKeepsStraightMessages(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareQueue("work", map[string]any{"x-queue-type": "quorum"})
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	p.MustApply(harness.Attributes{"vhost": v.Name, "name": "work.retry", "queue_name": "work.retry.%s",
		"delays": harness.TextList("15s"), "deliver_to_queue": "work"})
	v.Publish("", "work.retry.15s", "straight")
	v.Eventually("the message waits", func() bool { return v.Depth("work.retry.15s") == 1 })
	harness.MustSay(t, "the destroy", harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil))),
		`queue "work.retry.15s"`)
	if a := v.Arrived(v.Consume("work"), 1)[0]; string(a.Body) != "straight" {
		t.Errorf("%q arrived", a.Body)
	}
	p.MustApply(nil)
}

// The queue that others declare can have any arguments, and the plan of the import is empty.
func TestLadderToAQueueIsImported(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("retry", "topic")
	for _, delay := range []string{"5s", "30s"} {
		v.DeclareQueue("q.work.retry."+delay, map[string]any{"x-queue-type": "quorum",
			"x-message-ttl": map[string]int{"5s": 5000, "30s": 30000}[delay], "x-dead-letter-exchange": "",
			"x-dead-letter-routing-key": "q.work"})
		v.Bind("retry", delay+".#", "queue", "q.work.retry."+delay)
	}
	before := v.Objects()
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	harness.NoErrors(t, p.ImportIdentity(t.Context(), v.Name, "retry"))
	given := harness.Attributes{"vhost": v.Name, "entry_exchange": "retry", "queue_name": "q.work.retry.%s",
		"delays": harness.TextList("5s", "30s"), "deliver_to_queue": "q.work", "park_unroutable": false,
		"queue_arguments": harness.Arguments(nil)}
	p.MustBeSettled(given)
	v.MustHold(before)
}
