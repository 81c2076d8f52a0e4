package acceptance

import (
	"maps"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A preset is declared, and everything in it declared once more, as the framework does over AMQP when it
// starts. Then it is imported, with and without the preset in the configuration, delivers on time, and goes.
func TestPresets(t *testing.T) {
	t.Parallel()
	for entry, is := range map[string]delay.Config{
		"nsb.v2.delay-level-27":   {Preset: delay.NServiceBus},
		"nsb.delay-level-27":      {Preset: delay.NServiceBusV1},
		"celery_delayed_27":       {Preset: delay.Celery},
		"tasks_celery_delayed_27": {Preset: delay.Celery, Prefix: "tasks"},
		"old_celery_delayed_27":   {Preset: delay.CeleryClassic, Prefix: "old"},
	} {
		t.Run(entry, func(t *testing.T) {
			livePreset(t, is.Preset, is.Prefix, entry)
		})
	}
}

// livePreset takes a cascade of one preset through its life.
func livePreset(t *testing.T, preset delay.Preset, prefix, entry string) {
	t.Parallel()
	v := harness.NewVhost(t)
	given := harness.Attributes{"vhost": v.Name, "preset": string(preset)}
	if prefix != "" {
		given["prefix"] = prefix
	}
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(given)
	p.MustBeSettled(given)
	want := harness.Expand(t, delay.Config{Vhost: v.Name, Preset: preset, Prefix: prefix, CreateDeliveryExchange: true})
	// RabbitMQ adds the type that was left out (4.0).
	if left := plan.Repair(want, v.Exported()).Steps(); len(left) > 0 {
		t.Errorf("what is exported is not the preset: %v", left)
	}
	declareAgain(t, v, want)
	p.MustBeSettled(given)

	imported := harness.NewProtocol(t, v.Broker, nil)
	harness.NoErrors(t, imported.ImportState(t.Context(), v.Name+"/"+entry))
	todo := imported.Plan(t.Context(), given)
	if !onlySettings(t, imported, todo) {
		t.Errorf("after an import there is something to do: %s", todo.State)
	}

	arrivals := v.Collect(want.Delivery, "#.here")
	sent := harness.BrokerTime()
	v.Publish(entry, harness.RoutingKey(t, 3*time.Second, 28, time.Second, "here"), "")
	if after := v.Arrived(arrivals, 1)[0].At.Sub(sent); after < harness.Least(3*time.Second) {
		t.Errorf("the message arrived after %s", after)
	}
	p.MustApply(nil)
}

// declareAgain declares exchanges without arguments, and queues, over AMQP, as a framework does.
func declareAgain(t *testing.T, v *harness.Vhost, want topology.Topology) {
	t.Helper()
	channel, err := v.Conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range want.Exchanges {
		if err := channel.ExchangeDeclare(e.Name, e.Type, true, false, false, false, nil); err != nil {
			t.Fatalf("exchange %q is not taken: %v", e.Name, err)
		}
	}
	for _, q := range want.Queues {
		if _, err := channel.QueueDeclare(q.Name, true, false, false, false,
			amqp.Table(maps.Clone(q.Arguments))); err != nil {
			t.Fatalf("queue %q is not taken: %v", q.Name, err)
		}
	}
}
