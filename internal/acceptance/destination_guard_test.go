package acceptance

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// guarded is a vhost with a cascade t of four levels of the resolution, a destination of queue orders there, and
// further queues.
func guarded(
	t *testing.T, queueType, resolution string, further harness.Attributes,
) (v *harness.Vhost, p *harness.Protocol, given harness.Attributes) {
	t.Helper()
	return guardedOf(t, harness.Attributes{"name": "t", "levels": 4, "resolution": resolution, "queue_type": queueType},
		further)
}

// guardedOf is that with another cascade of four levels.
func guardedOf(t *testing.T, cascade, further harness.Attributes) (v *harness.Vhost, p *harness.Protocol,
	given harness.Attributes) {
	t.Helper()
	v = harness.NewVhost(t)
	for _, name := range []string{"orders", "other"} {
		v.DeclareQueue(name, map[string]any{"x-queue-type": "classic"})
	}
	harness.NewProtocol(t, v.Broker, nil).MustApply(cascade.With(harness.Attributes{"vhost": v.Name}))
	given = harness.Attributes{
		"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 4, "address": "orders", "queue": "orders",
	}.With(further)
	p = v.Destination()
	p.MustApply(given)
	return v, p, given
}

func delayed(v *harness.Vhost, steps int, address string) {
	v.T.Helper()
	v.Publish("t.delay-03", harness.RoutingKey(v.T, time.Duration(steps)*time.Second, 4, time.Second, address), address)
}

// While a message is on its way, to whatever address, no binding is taken away that may be the one for it. Each such
// change and the destroy are refused with queue, count and both ways out, and everything stands. A change that leaves
// the message its way is made.
func TestDestinationOnTheWay(t *testing.T) {
	t.Parallel()
	for name, is := range queueForms {
		t.Run(name, func(t *testing.T) {
			guardMessagesOnTheWay(t, is)
		})
	}
}

// guardMessagesOnTheWay removes a destination while messages are on their way to it.
func guardMessagesOnTheWay(t *testing.T, is ofQueues) {
	t.Parallel()
	cascade := eitherForm{"t", 4, time.Minute, is.inUnits, severalQueues} // nobody waits for the message
	longest := cascade.queue(3)
	v, p, given := guardedOf(t, cascade.given().With(harness.Attributes{"queue_type": is.queueType}), nil)
	elsewhere := harness.NewVhost(t)
	elsewhere.DeclareExchange("t.delivery", "topic")
	elsewhere.DeclareQueue("orders", nil)
	v.DeclareExchange("second", "topic")
	v.Publish(cascade.entry(), "1.1.1.1.somebody", "")
	v.Publish(cascade.entry(), "malformed", "") // parked, which does not count
	const stands = "*.*.*.*.orders -> queue orders"
	for name, change := range map[string]harness.Attributes{
		"destroyed": nil, "address": {"address": "mails"}, "levels": {"levels": 3},
		"delivery_exchange": {"delivery_exchange": "second"}, "vhost": {"vhost": elsewhere.Name},
		"drain_timeout": {"address": "mails", "drain_timeout": "300ms"},
	} {
		var next harness.Attributes
		if change != nil {
			next = given.With(change)
		}
		harness.NoErrors(t, p.Refresh(t.Context()))
		text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), next)))
		harness.MustSay(t, name+": the error", text, "Messages are on their way",
			fmt.Sprintf("queue %q: 1", longest), "drain_timeout", "force_destroy = true",
			`queue "orders" with key "*.*.*.*.orders"`)
		if strings.Contains(text, "unroutable\":") {
			t.Errorf("%s: what is parked counts: %s", name, text)
		}
		v.MustBeBound(stands)
		p.MustBeSettled(given)
	}
	if n := len(elsewhere.Objects().Bindings); n > 0 {
		t.Errorf("in the other vhost there are %d bindings", n)
	}
	p.MustApply(given.With(harness.Attributes{"queue": "other"}))
	v.MustBeBound("*.*.*.*.orders -> queue other")
	p.MustApply(given.With(harness.Attributes{"match": "suffix", "levels": nil}))
	v.MustBeBound("#.orders -> queue orders")
	if v.Depth(longest) != 1 {
		t.Error("the message has left its queue: the test was too slow to show anything")
	}
	forced := given.With(harness.Attributes{"force_destroy": true, "address": "mails"})
	p.MustApply(forced)
	v.MustBeBound("*.*.*.*.mails -> queue orders")
	p.MustApply(nil)
	v.MustBeBound()
}

// With drain_timeout a message arrives before its binding goes, whatever is done, and entries stay open.
func TestDestinationDrains(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		for name, change := range map[string]harness.Attributes{"destroyed": nil, "address": {"address": "mails"}} {
			t.Run(queueType+", "+name, func(t *testing.T) {
				t.Parallel()
				v, p, given := guarded(t, queueType, "1s", harness.Attributes{"drain_timeout": "1m"})
				var next harness.Attributes
				if change != nil {
					next = given.With(change)
				}
				orders := v.Consume("orders")
				sent := harness.BrokerTime()
				delayed(v, 3, "orders")
				p.MustApply(next)
				arrivals := v.Arrived(orders, 1)
				if took := arrivals[0].At.Sub(sent); took < harness.Least(3*time.Second) {
					t.Errorf("the message took %s", took)
				}
				if n := v.Depth("t.unroutable"); n > 0 {
					t.Errorf("%d are parked", n)
				}
				if next == nil {
					v.MustBeBound()
				} else {
					v.MustBeBound("*.*.*.*.mails -> queue orders")
				}
			})
		}
	}
}

// Whatever ends in the delivery exchange counts: ladders, a cascade without its entry, and a queue that nobody knows.
// Cascades that end elsewhere or have another number of levels do not count. Nor do they where the binding is gone
// already.
func TestDestinationUpstream(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareQueue("orders", nil)
	v.DeclareExchange("d", "topic")
	classic := harness.Attributes{"vhost": v.Name, "queue_type": "classic", "delivery_exchange": "d",
		"create_delivery_exchange": false}
	cascade := classic.With(harness.Attributes{"resolution": "90m"}) // no message is due before a slow destroy looks
	harness.NewProtocol(t, v.Broker, nil).MustApply(cascade.With(harness.Attributes{"name": "one", "levels": 4}))
	harness.NewProtocol(t, v.Broker, nil).MustApply(cascade.With(harness.Attributes{"name": "other", "levels": 5}))
	elsewhere := harness.Attributes{"vhost": v.Name, "name": "elsewhere", "levels": 4, "queue_type": "classic"}
	harness.NewProtocol(t, v.Broker, nil).MustApply(elsewhere)
	ladder := classic.With(harness.Attributes{"name": "ladder", "delays": harness.TextList("1h")})
	harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).MustApply(ladder)
	harness.NewProtocol(t, v.Broker, nil).MustApply(cascade.With(harness.Attributes{"name": "cut", "levels": 4}))
	v.Do(plan.DeleteExchange{Name: "cut.delay-03"})
	for name, units := range map[string]tftypes.Value{"units": harness.TextList("9h", "3h", "90m", "45m"),
		"fewer": harness.TextList("9h", "3h", "90m")} {
		harness.NewProtocol(t, v.Broker, nil).MustApply(classic.With(harness.Attributes{"name": name, "units": units,
			"max_delay": "9h"}))
	}
	v.DeclareQueue("retries", map[string]any{"x-message-ttl": 3600000, "x-dead-letter-exchange": "one.delay-03"})
	v.DeclareQueue("alone", map[string]any{"x-message-ttl": 3600000, "x-dead-letter-exchange": "d"})
	v.DeclareQueue("another", map[string]any{"x-message-ttl": 3600000, "x-dead-letter-exchange": "amq.topic"})
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "d", "levels": 4, "address": "orders",
		"queue": "orders"}
	for queue, counts := range map[string]bool{
		"one.delay-02": true, "one.delay-03": true, "ladder.delay-1h": true, "alone": true,
		"units.45m": true, "units.9h": true, "fewer.9h": false,
		"cut.delay-03": true, "retries": false,
		"other.delay-04": false, "elsewhere.delay-03": false, "another": false, "orders": false,
		"one.unroutable": false,
	} {
		p := v.Destination()
		p.MustApply(given)
		v.Publish("", queue, "") // by the default exchange, to wait there alone
		text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), nil)))
		if counts != strings.Contains(text, fmt.Sprintf("queue %q: 1", queue)) || !counts && text != "" {
			t.Errorf("a message in %s: %s", queue, text)
		}
		v.Purge(queue)
		p.MustApply(nil)
	}
	p := v.Destination()
	p.MustApply(given)
	v.Publish("one.delay-03", "1.0.0.0.orders", "")
	v.LoseDestinations()
	harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), nil)))
}

// cascadeAndDestination go together.
const cascadeAndDestination = harness.RequiredProviders + `
variable "vhost" {}
variable "queue_type" {}
variable "drain_timeout" { default = null }
variable "resolution" {}

resource "rabbitmqdelay_cascade" "t" {
  vhost         = var.vhost
  name          = "t"
  levels        = 4
  resolution    = var.resolution
  queue_type    = var.queue_type
  drain_timeout = var.drain_timeout
}

resource "rabbitmqdelay_destination" "orders" {
  vhost             = var.vhost
  delivery_exchange = rabbitmqdelay_cascade.t.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.t.units)
  address           = "orders"
  queue             = "orders"
  drain_timeout     = var.drain_timeout
}
`

// A cascade goes together with its destination while a message is on its way. With drain_timeout it arrives and both
// go; without it both stay as they are, and nothing is parked.
func TestAccDestinationGoesWithItsCascade(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		for _, drain := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, drain %t", queueType, drain), func(t *testing.T) {
				destroyTogether(t, queueType, drain)
			})
		}
	}
}

// destroyTogether destroys a cascade and its destination while a message is on its way.
func destroyTogether(t *testing.T, queueType string, drain bool) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareQueue("orders", nil)
	variables := map[string]string{"vhost": v.Name, "queue_type": queueType}
	steps, resolution := 12, 3*time.Second // so long that a slow Terraform sees it waiting
	if drain {
		variables["drain_timeout"] = "1m"
		steps, resolution = 5, time.Second
	}
	variables["resolution"] = resolution.String()
	tf := harness.NewCommandLine(t, "", cascadeAndDestination, variables)
	tf.Environ = append(tf.Environ, v.Broker.Environ()...)
	if output, err := tf.Run("apply", "-auto-approve"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	there := v.Objects()
	orders := v.Consume("orders")
	sent := harness.BrokerTime()
	delayed(v, steps, "orders")
	output, err := tf.Run("destroy", "-auto-approve")
	if drain {
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		want := topology.New()
		want.Queues["orders"] = there.Queues["orders"]
		v.MustHold(want)
	} else {
		if err == nil || !strings.Contains(harness.OneLine(output), "Messages are on their way") ||
			strings.Contains(output, "Cascade holds messages") {
			t.Errorf("%v\n%s", err, output)
		}
		v.MustHold(there)
		if n := v.Depth("t.unroutable"); n > 0 {
			t.Errorf("%d are parked", n)
		}
	}
	took := v.Arrived(orders, 1)[0].At.Sub(sent)
	if took < harness.Least(time.Duration(steps)*resolution) {
		t.Errorf("the message took %s", took)
	}
}

// An operation that is to wait needs the time for it.
func TestDestinationDrainTimeoutFits(t *testing.T) {
	p := harness.NewServerOf(t, harness.DestinationType)
	typ, ok := p.Resource.AttributeTypes["timeouts"].(tftypes.Object)
	if !ok {
		t.Fatalf("timeouts are of type %s", p.Resource.AttributeTypes["timeouts"])
	}
	given := harness.Attributes{"delivery_exchange": "d", "levels": 4, "address": "orders", "queue": "orders",
		"drain_timeout": "10m"}
	harness.NoErrors(t, p.Plan(t.Context(), given).Diagnostics)
	for _, operation := range []string{"delete", "update"} {
		timeouts := harness.NewObject(t, typ, harness.Attributes{operation: "10m"})
		diagnostics := p.Plan(t.Context(), given.With(harness.Attributes{"timeouts": timeouts})).Diagnostics
		says := "drain_timeout is 10m, which does not fit into timeouts." + operation
		if text := harness.ErrorText(diagnostics); len(diagnostics) != 1 || !strings.Contains(text, says) {
			t.Errorf("%s: %s", operation, text)
		}
	}
}
