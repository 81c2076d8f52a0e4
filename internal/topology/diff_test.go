package topology_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// Each object that exists is listed, with both values of whatever differs.
func TestExisting(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true,
		ParkUnroutable: true})
	actual := topology.New()
	if found := topology.Existing(desired, actual); len(found) > 0 {
		t.Errorf("on an empty broker: %v", found)
	}
	actual.Exchanges["t.delay-00"] = desired.Exchanges["t.delay-00"]
	actual.Exchanges["t.delay-01"] = topology.Exchange{Name: "t.delay-01", Type: "direct", AutoDelete: true,
		Internal: true}
	actual.Queues["t.delay-00"] = desired.Queues["t.delay-00"]
	actual.Queues["t.delay-01"] = topology.Queue{Name: "t.delay-01", Exclusive: true, Arguments: topology.Arguments{
		"x-message-ttl": "2000", "x-dead-letter-exchange": "t.delay-00", "x-max-length": int64(5),
	}}
	actual.Bindings.Add(topologytest.ToQueue("t.delay-00", "#", plantest.Audit))
	actual.Bindings.Add(topologytest.ToQueue("t.delivery", "#", plantest.Application))
	want := []string{
		`exchange "t.delay-00"`,
		`exchange "t.delay-01": type is direct, not topic; durable is false, not true; auto_delete is true, not ` +
			`false; internal is true, not false; alternate-exchange is absent, not t.unroutable`,
		`queue "t.delay-00"`,
		`queue "t.delay-01": type is classic, not quorum; durable is false, not true; exclusive is true, not false; ` +
			`x-dead-letter-strategy is absent, not at-least-once; x-max-length is 5, not absent; x-message-ttl is ` +
			`"2000", not 2000; x-overflow is absent, not reject-publish`,
		`binding of exchange "t.delay-00" to queue "audit" with key "#": it is another application's, ` +
			`not one of its own`,
	}
	var got []string
	for _, object := range topology.Existing(desired, actual) {
		got = append(got, object.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

// What RabbitMQ takes for the same has no differences, and what it does not has some.
func TestExistingListsDifferencesExactlyIfThereAreSome(t *testing.T) {
	flag := rapid.Bool()
	arguments := rapid.MapOf(rapid.SampledFrom([]string{"x-queue-type", "x-message-ttl", "alternate-exchange"}),
		rapid.SampledFrom([]any{"quorum", "classic", "absent", "5", int64(5), 5.5, true, nil, []any{int64(1)},
			map[string]any{"a": "b"}}))
	exchange := rapid.Custom(func(t *rapid.T) topology.Exchange {
		return topology.Exchange{
			Name: "x", Type: rapid.SampledFrom([]string{"topic", "direct"}).Draw(t, "type"),
			Durable:    flag.Draw(t, "durable"),
			AutoDelete: flag.Draw(t, "auto-delete"), Internal: flag.Draw(t, "internal"), Arguments: arguments.Draw(t,
				"arguments"),
		}
	})
	queue := rapid.Custom(func(t *rapid.T) topology.Queue {
		return topology.Queue{
			Name: "q", Durable: flag.Draw(t, "durable"), AutoDelete: flag.Draw(t, "auto-delete"),
			Exclusive: flag.Draw(t, "exclusive"), Arguments: arguments.Draw(t, "arguments"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		desired, actual := topology.New(), topology.New()
		desired.Exchanges["x"], actual.Exchanges["x"] = exchange.Draw(t, "desired"), exchange.Draw(t, "actual")
		desired.Queues["q"], actual.Queues["q"] = queue.Draw(t, "desired"), queue.Draw(t, "actual")
		objects := topology.Existing(desired, actual)
		if len(objects) != 2 {
			t.Fatalf("got %v", objects)
		}
		if same := desired.Exchanges["x"].Equal(actual.Exchanges["x"]); same != (len(objects[0].Differences) == 0) {
			t.Fatalf("equal: %t, but %s", same, objects[0])
		}
		if same := desired.Queues["q"].Equal(actual.Queues["q"]); same != (len(objects[1].Differences) == 0) {
			t.Fatalf("equal: %t, but %s", same, objects[1])
		}
	})
}
