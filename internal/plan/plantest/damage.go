package plantest

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// ErrLost is the failure of a step in a test, of which only the answer is lost.
var ErrLost error = &rabbit.Error{Kind: rabbit.Unavailable, Op: "do a step", Reason: "the answer is lost"}

// ErrInjected is the failure of a step in a test.
var ErrInjected error = &rabbit.Error{Kind: rabbit.Refused, Op: "do a step", Reason: "injected"}

// AnyDamage does to the cascade what people do.
func AnyDamage(t *rapid.T, b *Broker, desired topology.Topology) {
	if rapid.Bool().Draw(t, "loss") {
		AnyLoss(t, b, desired)
		return
	}
	exchange := rapid.SampledFrom(slices.Sorted(maps.Keys(desired.Exchanges))).Draw(t, "exchange")
	queue := rapid.SampledFrom(slices.Sorted(maps.Keys(desired.Queues))).Draw(t, "queue")
	_, exchangeExists := b.Exchanges[exchange]
	_, queueExists := b.Queues[queue]
	kind := rapid.SampledFrom([]string{"exchange type", "alternate exchange", "TTL", "queue type",
		"foreign binding"}).Draw(t, "damage")
	switch {
	case kind == "exchange type" && exchangeExists && exchange != desired.Delivery:
		SetType(b, exchange, "direct")
	case kind == "alternate exchange" && exchangeExists && exchange != desired.Delivery:
		e := b.Exchanges[exchange]
		e.Arguments = topology.Arguments{"alternate-exchange": Feed}
		b.Exchanges[exchange] = e
	case kind == "TTL" && queueExists:
		ShortenTTL(b, queue)
	case kind == "queue type" && queueExists:
		q := b.Queues[queue]
		q.Arguments = maps.Clone(q.Arguments)
		q.Arguments["x-queue-type"] = "stream"
		b.Queues[queue] = q
	case kind == "foreign binding" && exchangeExists && desired.Owns(exchange):
		foreign := topologytest.ToQueue(exchange, rapid.SampledFrom([]string{"1.#", "#", "x"}).Draw(t, "key"),
			Audit)
		switch to := rapid.SampledFrom([]string{"audit", "feed", "queue", "entry"}).Draw(t, "to"); {
		case to == "feed":
			foreign.DestinationType, foreign.Destination = topology.ToExchange, Feed
		case to == "queue" && queueExists:
			foreign.Destination = queue
		case to == "entry" && b.Exchanges[desired.Entry].Name != "":
			foreign.DestinationType, foreign.Destination = topology.ToExchange, desired.Entry
		}
		if rapid.Bool().Draw(t, "arguments") {
			foreign.Arguments = `{"x":1}`
		}
		b.Bindings.Add(foreign)
	}
}

// AnyLoss deletes something that belongs to the cascade.
func AnyLoss(t *rapid.T, b *Broker, desired topology.Topology) {
	var step plan.Step
	switch rapid.SampledFrom([]string{"exchange", "queue", "binding"}).Draw(t, "lost") {
	case "exchange":
		step = plan.DeleteExchange{Name: rapid.SampledFrom(slices.Sorted(maps.Keys(desired.Exchanges))).Draw(t,
			"exchange")}
	case "queue":
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(desired.Queues))).Draw(t, "queue")
		step = plan.DeleteQueue{Queue: desired.Queues[name]}
	default:
		step = plan.Unbind{Binding: rapid.SampledFrom(desired.Bindings.Sorted()).Draw(t, "binding")}
	}
	if err := b.Run(plan.Plan{{Steps: []plan.Step{step}}}); err != nil {
		t.Fatal(err)
	}
}

// SetType gives an exchange another type.
func SetType(b *Broker, exchange, to string) {
	e := b.Exchanges[exchange]
	e.Type = to
	b.Exchanges[exchange] = e
}

// ShortenTTL gives a queue another TTL.
func ShortenTTL(b *Broker, queue string) {
	q := b.Queues[queue]
	q.Arguments = maps.Clone(q.Arguments)
	q.Arguments["x-message-ttl"] = int64(5)
	b.Queues[queue] = q
}
