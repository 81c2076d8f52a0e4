package acceptance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

const (
	inFlightSummary = "Messages in flight: "
	aboutOrders     = `address "orders" from exchange "t.delivery" to queue "orders" in vhost "`
	wouldFail       = "The apply will fail if one waits by then; drain_timeout makes it wait."
)

// foretells plans, and checks what the plan says of messages in flight: nothing if there is nothing to say.
func foretells(v *harness.Vhost, p *harness.Protocol, next harness.Attributes, says ...string) harness.PlannedChange {
	v.T.Helper()
	todo := p.Plan(v.T.Context(), next)
	harness.NoErrors(v.T, todo.Diagnostics)
	said := harness.WarningText(todo.Diagnostics)
	harness.MustSay(v.T, "the plan", said, says...)
	if len(says) == 0 && strings.Contains(said, inFlightSummary) {
		v.T.Errorf("the plan says %s", said)
	}
	return todo
}

// waits waits until the management API counts so many messages in a queue.
func waits(v *harness.Vhost, queue string, n int) {
	v.T.Helper()
	v.Eventually("the messages are counted", func() bool { return v.Counted(queue) == n })
}

// The plan of a change that takes a destination's binding away says how many messages are on their way. It says that
// the apply fails, and that is so.
func TestDestinationRemovalIsRefusedAsPlanned(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			v, p, given := guarded(t, queueType, "1m", nil) // nobody waits for the messages
			elsewhere := harness.NewVhost(t)
			elsewhere.DeclareExchange("t.delivery", "topic")
			elsewhere.DeclareQueue("orders", nil)
			v.DeclareExchange("second", "topic")
			foretells(v, p, nil)
			for range 3 {
				delayed(v, 15, "somebody")
			}
			waits(v, "t.delay-03", 3)
			for name, change := range map[string]harness.Attributes{
				"destroyed": nil, "address": {"address": "mails"}, "levels": {"levels": 3},
				"delivery_exchange": {"delivery_exchange": "second"}, "vhost": {"vhost": elsewhere.Name},
			} {
				next := given.With(change)
				if name == "destroyed" {
					next = nil
				}
				todo := foretells(v, p, next,
					inFlightSummary+aboutOrders+v.Name+`"`, `with key "*.*.*.*.orders"`,
					`3 messages are on the way to exchange "t.delivery" in vhost "`+v.Name,
					wouldFail)
				text := harness.ErrorText(p.Apply(t.Context(), todo))
				harness.MustSay(t, name+": the error", text, "Messages are on their way", `queue "t.delay-03": 3`)
			}
			foretells(v, p, given.With(harness.Attributes{"match": "suffix", "levels": nil}))
			foretells(v, p, given)
			v.Bind("t.delivery", "#", "queue", "orders")
			foretells(v, p, given.With(harness.Attributes{"drain_timeout": "1m"}))
		})
	}
}

// What a plan says of messages that are on their way comes true: they arrive in another queue, are waited for, or find
// nobody.
func TestMessagesFareAsPlanned(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		further, change harness.Attributes
		says            string
		ends            string // the queue in which the message is then
		fails           bool
	}{
		"another queue": {nil, harness.Attributes{"queue": "other"},
			`Messages that arrive after the apply get to queue "other".`, "other", false},
		"waits": {harness.Attributes{"drain_timeout": "1m"}, nil,
			"The apply waits up to 1 min until all are delivered. If some are not, it unbinds nothing and fails.",
			"orders", false},
		"does not wait for long": {harness.Attributes{"drain_timeout": "300ms"}, nil,
			"The apply waits up to 300 ms until all are delivered. If some are not, it unbinds nothing and fails.",
			"orders", true},
		"forced": {harness.Attributes{"force_destroy": true}, nil,
			"The apply unbinds at once, because force_destroy is true. Messages for the address then become " +
				"unroutable.", "t.unroutable", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The message is in its first queue for 16 s, so that a busy broker counts it there.
			v, p, given := guarded(t, "classic", "2s", is.further)
			delayed(v, 14, "orders")
			waits(v, "t.delay-03", 1)
			var next harness.Attributes
			if is.change != nil {
				next = given.With(is.change)
			}
			todo := foretells(v, p, next, inFlightSummary,
				`1 message is on the way to exchange "t.delivery" in vhost "`+v.Name+`" now`, is.says)
			if failed := harness.HasErrors(p.Apply(t.Context(), todo)); failed != is.fails {
				t.Errorf("the apply fails: %t", failed)
			}
			v.Eventually("the message is where the plan said", func() bool { return v.Depth(is.ends) == 1 })
		})
	}
}

// However many destinations a plan destroys, it looks into the vhost once, by five requests. A provider makes two more
// to know the broker.
func TestPlansOfRemovalsLookOnce(t *testing.T) {
	t.Parallel()
	const requests = 5 + 2
	v, _, given := guarded(t, "classic", "1m", nil)
	counted := harness.NewGateway(t, v.Broker, nil, nil)
	through := *v.Broker
	through.Endpoint = counted.URL
	first := harness.NewProtocolOf(t, harness.DestinationType, &through, nil)
	all := []*harness.Protocol{first, first.Of(harness.DestinationType), first.Of(harness.DestinationType)}
	for i, address := range []string{"a", "b", "c"} {
		all[i].MustApply(given.With(harness.Attributes{"address": address}))
	}
	delayed(v, 15, "somebody")
	waits(v, "t.delay-03", 1)
	first.NewRun()
	before := counted.Requests.Load()
	for _, p := range all {
		said := harness.WarningText(p.PlanWithin(t.Context(), nil).Diagnostics)
		harness.MustSay(t, "the plan", said, inFlightSummary)
	}
	if made := counted.Requests.Load() - before; made > requests {
		t.Errorf("three plans make %d requests, the limit is %d", made, requests)
	}
}

// The plan that removes a delay of a ladder says what waits in its queue, and no other, and what the apply does.
func TestRemovedDelaysFareAsPlanned(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
			given := harness.Attributes{"vhost": v.Name, "name": "m", "queue_type": queueType,
				"delays": harness.TextList("20s", "10m", "1h")}
			rest := given.With(harness.Attributes{"delays": harness.TextList("20s", "1h")})
			p.MustApply(given)
			v.DeclareQueue("orders", nil)
			v.Bind("m.delivery", "*.orders", "queue", "orders")
			for _, key := range []string{"10m.orders", "10m.orders", "10m.orders", "1h.orders", "1h.orders"} {
				v.Publish("m.entry", key, "")
			}
			v.Publish("m.entry", "malformed", "")
			waits(v, "m.delay-10m", 3)
			waits(v, "m.delay-1h", 2)
			waits(v, "m.unroutable", 1)
			refreshed := func(next harness.Attributes, says ...string) harness.PlannedChange {
				t.Helper()
				v.Eventually("the refresh counts them", func() bool {
					harness.NoErrors(t, p.Refresh(t.Context()))
					text := harness.WarningText(p.Plan(t.Context(), nil).Diagnostics)
					planned := harness.WarningText(p.Plan(t.Context(), next).Diagnostics)
					missing := func(said string) bool { return !strings.Contains(planned, said) }
					return strings.Contains(text, "messages are on the way through it now, and 1 parked") &&
						!slices.ContainsFunc(says, missing)
				})
				return foretells(v, p, next, says...)
			}

			todo := refreshed(rest, inFlightSummary+`ladder "m.entry" in vhost "`+v.Name+`"`,
				"some seconds old:\n\n  queue \"m.delay-10m\": 3\n\n", wouldFail)
			text := harness.ErrorText(p.Apply(t.Context(), todo))
			harness.MustSay(t, "the error", text, `queue "m.delay-10m": 3`)
			refreshed(given.With(harness.Attributes{"delays": harness.TextList("10m", "1h")})) // 20s is empty

			// The options are those of the plan, not of the state.
			todo = refreshed(rest.With(harness.Attributes{"drain_timeout": "1s"}), `queue "m.delay-10m": 3`,
				"The apply unbinds these queues and waits up to 1 s until all are delivered. If some are not, it "+
					"binds the queues again and fails.")
			harness.MustSay(t, "the error", harness.ErrorText(p.Apply(t.Context(), todo)), `queue "m.delay-10m": 3`)
			v.Publish("m.entry", "10m.orders", "the queue is bound again")
			v.Eventually("the message waits", func() bool { return v.Depth("m.delay-10m") == 4 })

			todo = refreshed(rest.With(harness.Attributes{"force_destroy": true}), inFlightSummary,
				"The apply deletes waiting messages, because force_destroy is true.")
			harness.NoErrors(t, p.Apply(t.Context(), todo))

			p.MustApply(rest)
			due := harness.BrokerTime().Add(harness.Least(20 * time.Second))
			v.Publish("m.entry", "20s.orders", "")
			waits(v, "m.delay-20s", 1)
			todo = refreshed(given.With(harness.Attributes{"drain_timeout": "1m", "delays": harness.TextList("1h")}),
				`queue "m.delay-20s": 1`, "waits up to 1 min until all are delivered")
			harness.NoErrors(t, p.Apply(t.Context(), todo))
			if early := time.Until(due); early > 0 {
				t.Errorf("the apply ended %s before the message had waited", early)
			}
			v.Eventually("the message has arrived", func() bool { return v.Depth("orders") == 1 })
		})
	}
}

// The plan of a destroy says nothing of the messages in what another resource has taken over: the apply leaves all.
func TestNothingIsInTheWayOfLeaving(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 4, "resolution": "1m"}
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(given)
	v.Publish("t.delay-03", "1.0.0.0.orders", "")
	v.Eventually("the refresh counts it", func() bool {
		harness.NoErrors(t, p.Refresh(t.Context()))
		return strings.Contains(harness.WarningText(p.Plan(t.Context(), nil).Diagnostics), inFlightSummary)
	})
	harness.NewProtocol(t, v.Broker, nil).MustApply(given.With(harness.Attributes{"adopt": true}))
	there := v.Objects()
	harness.NoErrors(t, p.Refresh(t.Context()))
	diagnostics := p.Apply(t.Context(), foretells(v, p, nil))
	harness.NoErrors(t, diagnostics)
	v.MustHold(there)
	if n := v.Depth("t.delay-03"); n != 1 {
		t.Errorf("%d messages wait, want 1", n)
	}
}
