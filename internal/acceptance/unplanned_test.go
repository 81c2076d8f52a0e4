package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const unplannedSummary = "Damages after the plan: "

// unplanned is a cascade to be damaged after a plan.
type unplanned struct {
	*harness.Vhost
	*harness.Protocol
	given   harness.Attributes
	desired topology.Topology
}

func newUnplanned(t *testing.T) *unplanned {
	t.Helper()
	v := harness.NewVhost(t)
	u := &unplanned{Vhost: v, Protocol: harness.NewProtocol(t, v.Broker, nil),
		// Long enough for a message to wait on while a busy machine deletes its queue.
		given: harness.Attributes{"vhost": v.Name, "name": "t", "levels": 4, "resolution": "10s"},
		desired: harness.Expand(t, delay.Config{Vhost: v.Name, Name: "t", Levels: 4, Resolution: 10 * time.Second,
			CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true})}
	u.MustApply(u.given)
	v.DeclareQueue("audit", map[string]any{"x-queue-type": "classic"})
	return u
}

// bindingInto is the binding of the exchange that leads to a queue of the same name.
func (u *unplanned) bindingInto(name string) topology.Binding {
	return u.desired.Bindings.Where(func(b topology.Binding) bool {
		return b.Source == name && b.LeadsTo(topology.ToQueue, name)
	})[0]
}

func (u *unplanned) noQueue(name string) { u.Do(plan.DeleteQueue{Queue: u.desired.Queues[name]}) }

// An apply names the damages after its plan, and what they did to messages: one that waited, and one that came later.
// What the plan knew is not said again.
func TestDamagesAfterThePlan(t *testing.T) {
	t.Parallel()
	const changed = "changed"
	for name, is := range map[string]struct {
		next harness.Attributes
		// known is damaged before the refresh.
		known bool
	}{
		"a repair":             {nil, true},
		"an update":            {harness.Attributes{"drain_timeout": "1m"}, false},
		"an update and repair": {harness.Attributes{"lookahead": 1}, true},
		"a rebuild":            {harness.Attributes{"queue_type": "classic"}, false},
		"a rebuild and repair": {harness.Attributes{"delivery_exchange": changed}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUnplanned(t)
			next := u.given.With(is.next)
			if is.known {
				u.Do(plan.Unbind{Binding: u.bindingInto("t.delay-02")})
			}
			said := harness.WarningText(u.Refresh(t.Context()))
			if is.known != strings.Contains(said, `The binding of exchange t.delay-02 to queue t.delay-02`) {
				t.Fatalf("the refresh says %q", said)
			}
			todo := u.Plan(t.Context(), next)

			u.Publish("t.delay-03", "0.0.0.1.orders", "waits")
			u.Eventually("the message waits", func() bool { return u.Depth("t.delay-00") == 1 })
			u.noQueue("t.delay-00")
			u.noQueue("t.delay-03")
			u.Publish("t.delay-03", "1.0.0.0.orders", "needs a queue that is gone")
			u.Eventually("the message is parked", func() bool { return u.Depth("t.unroutable") == 1 })
			if is.next != nil { // a rebuild may take the queue of parked messages along
				u.Purge("t.unroutable")
			}
			u.Bind("t.delay-01", "#", "queue", "audit")

			diagnostics := u.Apply(t.Context(), todo)
			harness.NoErrors(t, diagnostics)
			said = harness.WarningText(diagnostics)
			harness.MustSay(t, "the apply", said,
				unplannedSummary+`cascade "t.delay-03" in vhost "`+u.Name+`"`, "The apply has repaired this:",
				"- The queue t.delay-00 is gone. Any messages that waited in it are lost. Messages that need it are "+
					"parked.\n",
				"- The queue t.delay-03 is gone.",
				`- The binding of exchange t.delay-01 to queue audit with key "#" was added. Queue audit gets copies `+
					"of messages with such a key before their time.")
			if strings.Contains(said, "t.delay-02") || strings.Contains(said, "The next apply") {
				t.Errorf("the apply says again what its plan knew, or what is to come: %s", said)
			}
			u.MustBeSettled(next)
			if text := harness.WarningText(u.Apply(t.Context(), u.Plan(t.Context(), u.given))); strings.Contains(text,
				unplannedSummary) {
				t.Errorf("the next apply says it again: %s", text)
			}
		})
	}
}

// The message of a repaired cascade arrives, and its apply has said that all of it was gone.
func TestGoneAfterThePlan(t *testing.T) {
	t.Parallel()
	u := newUnplanned(t)
	next := u.given.With(harness.Attributes{"drain_timeout": "1m"})
	todo := u.Plan(t.Context(), next)
	for name := range u.desired.Exchanges {
		u.Do(plan.DeleteExchange{Name: name})
	}
	for name := range u.desired.Queues {
		u.noQueue(name)
	}
	diagnostics := u.Apply(t.Context(), todo)
	harness.NoErrors(t, diagnostics)
	harness.MustSay(t, "the apply", harness.WarningText(diagnostics), unplannedSummary,
		"- The cascade is gone. Publishers get an error. Any messages that waited in it are lost.")
	arrivals := u.Collect("t.delivery", "#")
	u.Publish("t.delay-03", "0.0.0.1.orders", "x")
	u.Arrived(arrivals, 1)
}

// An apply that is refused for a message in a wrong queue says what else it has found.
func TestRefusedRepairOfDamagesAfterThePlan(t *testing.T) {
	t.Parallel()
	r := newRefused(t, delay.Quorum)
	todo := r.Plan(t.Context(), r.given.With(harness.Attributes{"drain_timeout": "1m"}))
	r.wrongQueue("tasks.delay-01", "x-expires")
	r.Publish("tasks.delay-02", harness.RoutingKey(t, 2*time.Hour, 3, time.Hour, "address"), "waits")
	r.Eventually("the message waits", func() bool { return r.Depth("tasks.delay-01") == 1 })
	r.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "tasks.unroutable"}})
	diagnostics := r.Apply(t.Context(), todo)
	harness.MustSay(t, "the error", harness.ErrorText(diagnostics), `"tasks.delay-01": 1`)
	harness.MustSay(t, "the apply", harness.WarningText(diagnostics), unplannedSummary, "The apply broke off.",
		"- The queue tasks.delay-01 has x-expires 3600000", "- The queue tasks.unroutable is gone.")
	if r.Depth("tasks.delay-01") != 1 {
		t.Error("the message is gone")
	}
	// The state has the wrong queue now: the next apply knows, without a refresh.
	said := harness.WarningText(r.Apply(t.Context(), r.Plan(t.Context(), r.given)))
	if strings.Contains(said, unplannedSummary) {
		t.Errorf("the next apply says %s", said)
	}
}

// An adoption says in what the cascade is damaged that it takes over. A create that finds nothing says nothing.
func TestAdoptionOfDamaged(t *testing.T) {
	t.Parallel()
	u := newUnplanned(t)
	u.noQueue("t.delay-01")
	adopted := u.given.With(harness.Attributes{"adopt": true})
	p := harness.NewProtocol(t, u.Broker, nil)
	diagnostics := p.Apply(t.Context(), p.Plan(t.Context(), adopted))
	harness.NoErrors(t, diagnostics)
	harness.MustSay(t, "the apply", harness.WarningText(diagnostics), unplannedSummary,
		"- The queue t.delay-01 is gone. Any messages that waited in it are lost.")
	p.MustApply(nil)
	diagnostics = p.Apply(t.Context(), p.Plan(t.Context(), adopted))
	harness.NoErrors(t, diagnostics)
	if said := harness.WarningText(diagnostics); said != "" {
		t.Errorf("a create says %s", said)
	}
}

// A destination whose binding goes after the plan says so, and has made it again: a message arrives.
func TestDestinationIsGoneAfterThePlan(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]harness.Attributes{
		"another queue": {"queue": "other"}, "no other binding": {"drain_timeout": "1m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewDestinations(t, 4, "orders", "other")
			p := v.Destination()
			given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 4,
				"address": "orders", "queue": "orders"}
			p.MustApply(given)
			todo := p.Plan(t.Context(), given.With(next))
			v.LoseDestinations()
			v.Publish("t.delay-03", "0.0.0.1.orders", "is parked")
			v.Eventually("the message is parked", func() bool { return v.Depth("t.unroutable") == 1 })
			diagnostics := p.Apply(t.Context(), todo)
			harness.NoErrors(t, diagnostics)
			harness.MustSay(t, "the apply", harness.WarningText(diagnostics),
				unplannedSummary+aboutOrders+v.Name+`"`, "The apply has repaired this:",
				`to queue "orders" with key "*.*.*.*.orders" in vhost "`+v.Name+`" is gone. Messages for the address `+
					`"orders" do not get to queue "orders".`)
			v.Publish("t.delay-03", "0.0.0.1.orders", "arrives")
			queue := "orders"
			if next["queue"] != nil {
				queue = "other"
			}
			v.Eventually("the message arrives", func() bool { return v.Depth(queue) == 1 })
			diagnostics = p.Apply(t.Context(), p.Plan(t.Context(), given))
			if said := harness.WarningText(diagnostics); strings.Contains(said, unplannedSummary) {
				t.Errorf("the next apply says it again: %s", said)
			}
		})
	}
}
