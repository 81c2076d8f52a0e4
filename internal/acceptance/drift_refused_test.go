package acceptance

import (
	"maps"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A queue with wrong arguments that holds messages stays as it is, with its messages, and the error says
// what waits. All the rest is repaired, another wrong queue included.
func TestWrongQueueThatHoldsMessages(t *testing.T) {
	t.Parallel()
	for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
		t.Run(string(queueType), func(t *testing.T) {
			t.Parallel()
			r := newRefused(t, queueType)
			wrong := r.wrongQueue("tasks.delay-01", "x-expires")
			r.wrongQueue("tasks.delay-00", "x-max-length")
			r.Do(damageRest...)
			for range 2 {
				r.Publish("tasks.delay-02", harness.RoutingKey(t, 2*time.Hour, 3, time.Hour, "address"), "waits")
			}
			r.Publish("tasks.delay-02", harness.RoutingKey(t, 4*time.Hour, 3, time.Hour, "address"), "waits elsewhere")
			r.applyRefused(func(left *topology.Topology) { left.Queues[wrong.Name] = wrong }, `queue "tasks.delay-01"`,
				`"tasks.delay-01": 2`)
			if n := r.Depth("tasks.delay-01"); n != 2 {
				t.Errorf("%d messages are left of 2", n)
			}
			if n := r.Depth("tasks.delay-02"); n != 1 {
				t.Errorf("%d messages are left of 1 in a queue that was not damaged", n)
			}
			r.Purge("tasks.delay-01")
			r.MustApply(r.given)
			r.MustBeSettled(r.given)
			r.MustExport(r.desired)
			if n := r.Depth("tasks.delay-02"); n != 1 {
				t.Errorf("%d messages are left of 1 in a queue that was not damaged", n)
			}
		})
	}
}

// A change of lookahead beside a queue that cannot be recreated keeps the old way into it, and the error says so.
// Messages that are published then, or on their way, arrive. When the queue is empty, the next apply finishes the
// change.
func TestLookaheadBesideARefusal(t *testing.T) {
	t.Parallel()
	for _, queueType := range []delay.QueueType{delay.Quorum, delay.Classic} {
		t.Run(string(queueType), func(t *testing.T) {
			repairLookaheadBesideARefusal(t, queueType)
		})
	}
}

// repairLookaheadBesideARefusal damages a cascade in two ways, of which one is refused.
func repairLookaheadBesideARefusal(t *testing.T, queueType delay.QueueType) {
	t.Parallel()
	const levels, unit = 3, 3 * time.Second // an apply on a busy machine may take several seconds
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	given := harness.Attributes{"name": "tasks", "vhost": v.Name, "levels": levels, "queue_type": string(queueType),
		"lookahead": 1, "resolution": unit.String()}
	of := func(lookahead int) topology.Topology {
		return harness.Expand(t, delay.Config{
			Name: "tasks", Vhost: v.Name, Levels: levels, QueueType: queueType, Lookahead: lookahead,
			Resolution: unit, CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true,
		})
	}
	p.MustApply(given)
	r := &refused{Vhost: v, Protocol: p, given: given.With(harness.Attributes{"lookahead": levels}), desired: of(1)}
	collector := v.Collect("tasks.delivery", harness.DestinationKey(levels, "here"))
	// Its messages wait for an hour: somebody has set another TTL.
	wrong := r.desired.Queues["tasks.delay-00"]
	wrong.Arguments = maps.Clone(wrong.Arguments)
	wrong.Arguments["x-message-ttl"] = int64(3_600_000)
	r.replaceQueue(wrong)
	send := func(after time.Duration) {
		r.Publish("tasks.delay-02", harness.RoutingKey(t, after, levels, unit, "here"), after.String())
	}
	harness.NoErrors(t, r.Refresh(t.Context()))
	todo := r.Plan(t.Context(), r.given)
	send(1 * unit)
	send(5 * unit) // is on its way into the wrong queue during the apply, which the plan leaves all its time

	text := harness.ErrorText(r.Apply(t.Context(), todo))
	harness.MustSay(t, "the error", text, `"tasks.delay-00": 1`,
		`unbind exchange "tasks.delay-02" to exchange "tasks.delay-01"`, "left to do")
	send(1 * unit)
	send(4 * unit)
	v.Arrived(collector, 1) // that of four seconds
	v.Eventually("three messages wait in the wrong queue", func() bool { return r.Depth("tasks.delay-00") == 3 })
	if n := r.Depth("tasks.unroutable"); n != 0 {
		t.Errorf("%d messages are parked", n)
	}
	if r.Plan(t.Context(), r.given).Replace {
		t.Error("the next plan replaces the cascade")
	}
	r.Purge("tasks.delay-00")
	r.MustApply(r.given)
	r.MustBeSettled(r.given)
	send(1 * unit)
	send(5 * unit)
	v.Arrived(collector, 3)
	left := of(levels)
	have := r.Objects()
	for b := range left.Bindings {
		if !have.Bindings.Has(b) {
			t.Errorf("%v is missing", b)
		}
	}
	for b := range have.Bindings {
		if left.Owns(b.Source) && !left.Bindings.Has(b) {
			t.Errorf("%v is left", b)
		}
	}
}

// A stream in the place of a delay queue hands nothing on, and its messages are in no count but the
// offsets.
func TestStreamThatHoldsMessages(t *testing.T) {
	t.Parallel()
	r := newRefused(t, delay.Quorum)
	stream := topology.Queue{Name: "tasks.delay-01", Durable: true,
		Arguments: topology.Arguments{"x-queue-type": "stream"}}
	r.replaceQueue(stream)
	r.Publish("tasks.delay-02", harness.RoutingKey(t, 2*time.Hour, 3, time.Hour, "address"), "waits")
	r.applyRefused(func(left *topology.Topology) { left.Queues[stream.Name] = stream }, `"tasks.delay-01": 1`)
}

// An exclusive queue of another connection cannot be removed by anybody else.
func TestExclusiveQueueInTheWay(t *testing.T) {
	t.Parallel()
	r := newRefused(t, delay.Classic)
	r.Do(plan.DeleteQueue{Queue: r.desired.Queues["tasks.delay-01"]})
	connection, err := r.Broker.Dial(r.Name)
	if err != nil {
		t.Fatal(err)
	}
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	const durable, autoDelete, exclusive, noWait = false, false, true, false
	if _, err := channel.QueueDeclare("tasks.delay-01", durable, autoDelete, exclusive, noWait,
		amqp.Table{"x-message-ttl": 10}); err != nil {
		t.Fatal(err)
	}
	harness.NoErrors(t, r.Refresh(t.Context()))
	if shown, ok := elements(t, r.Protocol.State)["queues tasks.delay-01"].(map[string]any); !ok ||
		shown["exclusive"] != true {
		t.Errorf("the state shows %v", shown)
	}
	text := harness.ErrorText(r.Apply(t.Context(), r.Plan(t.Context(), r.given)))
	if !strings.Contains(text, `"tasks.delay-01"`) || !strings.Contains(text, "exclusive") {
		t.Errorf("got %s", text)
	}
	if err := connection.Close(); err != nil {
		t.Fatal(err)
	}
	r.MustApply(r.given)
	r.MustBeSettled(r.given)
	r.MustExport(r.desired)
}

// A delivery exchange with the wrong type, to which applications have bound, stays with their bindings.
func TestWrongDeliveryExchangeInUse(t *testing.T) {
	t.Parallel()
	r := newRefused(t, delay.Quorum)
	wrong := r.desired.Exchanges["tasks.delivery"]
	wrong.Type = "fanout"
	theirs := topology.Binding{Source: "tasks.delivery", RoutingKey: "#.application", DestinationType: topology.ToQueue,
		Destination: "application"}
	r.Do(plan.DeleteExchange{Name: wrong.Name}, plan.DeclareExchange{Exchange: wrong})
	for _, b := range r.desired.Bindings.Sorted() {
		if b.Destination == wrong.Name {
			r.Do(plan.Bind{Binding: b})
		}
	}
	r.DeclareQueue(theirs.Destination, nil)
	r.Do(plan.Bind{Binding: theirs})
	r.Do(damageRest...)
	r.applyRefused(func(left *topology.Topology) {
		left.Exchanges[wrong.Name] = wrong
		left.Queues[theirs.Destination] = r.Objects().Queues[theirs.Destination]
		left.Bindings.Add(theirs)
	}, `delete exchange "tasks.delivery"`, "in use")
	r.Do(plan.Unbind{Binding: theirs}, plan.DeleteQueue{Queue: topology.Queue{Name: theirs.Destination}})
	r.MustApply(r.given)
	r.MustBeSettled(r.given)
	r.MustExport(r.desired)
}

// refused is a cascade with a damage that cannot be repaired without a loss.
type refused struct {
	*harness.Vhost
	*harness.Protocol
	given   harness.Attributes
	desired topology.Topology
}

func newRefused(t *testing.T, queueType delay.QueueType) *refused {
	t.Helper()
	v := harness.NewVhost(t)
	r := &refused{
		Vhost:    v,
		Protocol: harness.NewProtocol(t, v.Broker, nil),
		given: harness.Attributes{"name": "tasks", "vhost": v.Name, "levels": 3, "resolution": "1h",
			"queue_type": string(queueType)},
		desired: harness.Expand(t, delay.Config{
			Name: "tasks", Vhost: v.Name, Levels: 3, Resolution: time.Hour, QueueType: queueType,
			CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true,
		}),
	}
	r.MustApply(r.given)
	return r
}

// damageRest is repaired beside the refused part.
var damageRest = []plan.Step{
	plan.Bind{Binding: topology.Binding{Source: "tasks.delay-02", RoutingKey: "foreign",
		DestinationType: topology.ToExchange, Destination: "tasks.delay-00"}},
	plan.Unbind{Binding: topology.Binding{Source: "tasks.delay-01", RoutingKey: "*.*.1.#",
		DestinationType: topology.ToQueue, Destination: "tasks.delay-00"}},
	plan.DeleteQueue{Queue: topology.Queue{Name: "tasks.unroutable"}},
}

// wrongQueue recreates a queue with one argument more, and its bindings.
func (r *refused) wrongQueue(name, argument string) topology.Queue {
	r.Vhost.T.Helper()
	q := r.desired.Queues[name]
	q.Arguments = maps.Clone(q.Arguments)
	q.Arguments[argument] = int64(3_600_000)
	r.replaceQueue(q)
	return q
}

func (r *refused) replaceQueue(q topology.Queue) {
	r.Vhost.T.Helper()
	r.Do(plan.DeleteQueue{Queue: q}, plan.DeclareQueue{Queue: q})
	for _, b := range r.desired.Bindings.Sorted() {
		if b.DestinationType == topology.ToQueue && b.Destination == q.Name {
			r.Do(plan.Bind{Binding: b})
		}
	}
}

// applyRefused applies, which has to fail and say why, and to repair everything but the exceptions.
func (r *refused) applyRefused(leave func(*topology.Topology), says ...string) {
	r.Vhost.T.Helper()
	harness.NoErrors(r.Vhost.T, r.Refresh(r.Vhost.T.Context()))
	text := harness.ErrorText(r.Apply(r.Vhost.T.Context(), r.Plan(r.Vhost.T.Context(), r.given)))
	harness.MustSay(r.Vhost.T, "the error", text, says...)
	left := topology.New()
	left.Delivery = r.desired.Delivery
	maps.Copy(left.Exchanges, r.desired.Exchanges)
	maps.Copy(left.Queues, r.desired.Queues)
	maps.Copy(left.Bindings, r.desired.Bindings)
	leave(&left)
	r.MustHold(left)
	have := elements(r.Vhost.T, r.Protocol.State)
	for _, name := range differing(have, elementsOf(left, r.desired)) {
		r.Vhost.T.Errorf("the state after the refusal shows %s as %v", name, have[name])
	}
}
