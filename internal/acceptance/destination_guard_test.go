package acceptance

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// guarded is a vhost with a cascade t of four levels of the resolution, a destination of queue orders there, and
// further queues.
func guarded(
	t *testing.T, queueType, resolution string, further attributes,
) (v *vhost, p *protocol, given attributes) {
	t.Helper()
	v = newVhost(t)
	for _, name := range []string{"orders", "other"} {
		v.declareQueue(name, map[string]any{"x-queue-type": "classic"})
	}
	tasks := attributes{
		"vhost": v.name, "name": "t", "levels": 4, "resolution": resolution, "queue_type": queueType,
	}
	newProtocol(t, v.broker, nil).mustApply(tasks)
	given = attributes{
		"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 4, "address": "orders", "queue": "orders",
	}.with(further)
	p = v.destination()
	p.mustApply(given)
	return v, p, given
}

func (v *vhost) delayed(steps int, address string) {
	v.Helper()
	v.publish("t.delay-03", routingKey(v, time.Duration(steps)*time.Second, 4, time.Second, address), address)
}

// While a message is on its way, to whatever address, no binding is taken away that may be the one for it. Each such
// change and the destroy are refused with queue, count and both ways out, and everything stands. A change that leaves
// the message its way is made.
func TestDestinationOnTheWay(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			guardMessagesOnTheWay(t, queueType)
		})
	}
}

// guardMessagesOnTheWay removes a destination while messages are on their way to it.
func guardMessagesOnTheWay(t *testing.T, queueType string) {
	t.Parallel()
	v, p, given := guarded(t, queueType, "1m", nil) // nobody waits for the message
	elsewhere := newVhost(t)
	elsewhere.declareExchange("t.delivery", "topic")
	elsewhere.declareQueue("orders", nil)
	v.declareExchange("second", "topic")
	v.delayed(15, "somebody")
	v.publish("t.delay-03", "malformed", "") // parked, which does not count
	const stands = "*.*.*.*.orders -> queue orders"
	for name, change := range map[string]attributes{
		"destroyed": nil, "address": {"address": "mails"}, "levels": {"levels": 3},
		"delivery_exchange": {"delivery_exchange": "second"}, "vhost": {"vhost": elsewhere.name},
		"drain_timeout": {"address": "mails", "drain_timeout": "300ms"},
	} {
		var next attributes
		if change != nil {
			next = given.with(change)
		}
		noErrors(t, p.refresh(t.Context()))
		text := errorText(p.apply(t.Context(), p.plan(t.Context(), next)))
		mustSay(t, name+": the error", text, "Messages are on their way", `queue "t.delay-03": 1`, "drain_timeout",
			"force_destroy = true", `queue "orders" with key "*.*.*.*.orders"`)
		if strings.Contains(text, "unroutable\":") {
			t.Errorf("%s: what is parked counts: %s", name, text)
		}
		v.mustBeBound(stands)
		p.mustBeSettled(given)
	}
	if n := len(elsewhere.objects().Bindings); n > 0 {
		t.Errorf("in the other vhost there are %d bindings", n)
	}
	p.mustApply(given.with(attributes{"queue": "other"}))
	v.mustBeBound("*.*.*.*.orders -> queue other")
	p.mustApply(given.with(attributes{"match": "suffix", "levels": nil}))
	v.mustBeBound("#.orders -> queue orders")
	if v.depth("t.delay-03") != 1 {
		t.Error("the message has left its queue: the test was too slow to show anything")
	}
	forced := given.with(attributes{"force_destroy": true, "address": "mails"})
	p.mustApply(forced)
	v.mustBeBound("*.*.*.*.mails -> queue orders")
	p.mustApply(nil)
	v.mustBeBound()
}

// With drain_timeout a message arrives before its binding goes, whatever is done, and entries stay open.
func TestDestinationDrains(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		for name, change := range map[string]attributes{"destroyed": nil, "address": {"address": "mails"}} {
			t.Run(queueType+", "+name, func(t *testing.T) {
				t.Parallel()
				v, p, given := guarded(t, queueType, "1s", attributes{"drain_timeout": "1m"})
				var next attributes
				if change != nil {
					next = given.with(change)
				}
				orders := v.consume("orders")
				v.delayed(3, "orders")
				sent := time.Now()
				p.mustApply(next)
				arrivals := v.arrived(orders, 1)
				if took := arrivals[0].At.Sub(sent); took < 2900*time.Millisecond {
					t.Errorf("the message took %s", took)
				}
				if n := v.depth("t.unroutable"); n > 0 {
					t.Errorf("%d are parked", n)
				}
				if next == nil {
					v.mustBeBound()
				} else {
					v.mustBeBound("*.*.*.*.mails -> queue orders")
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
	v := newVhost(t)
	v.declareQueue("orders", nil)
	v.declareExchange("d", "topic")
	classic := attributes{"vhost": v.name, "queue_type": "classic", "delivery_exchange": "d",
		"create_delivery_exchange": false}
	newProtocol(t, v.broker, nil).mustApply(classic.with(attributes{"name": "one", "levels": 4}))
	newProtocol(t, v.broker, nil).mustApply(classic.with(attributes{"name": "other", "levels": 5}))
	elsewhere := attributes{"vhost": v.name, "name": "elsewhere", "levels": 4, "queue_type": "classic"}
	newProtocol(t, v.broker, nil).mustApply(elsewhere)
	ladder := classic.with(attributes{"name": "ladder", "delays": textSet("1h")})
	newProtocolOf(t, ladderType, v.broker, nil).mustApply(ladder)
	newProtocol(t, v.broker, nil).mustApply(classic.with(attributes{"name": "cut", "levels": 4}))
	v.do(plan.DeleteExchange{Name: "cut.delay-03"})
	v.declareQueue("retries", map[string]any{"x-message-ttl": 3600000, "x-dead-letter-exchange": "one.delay-03"})
	v.declareQueue("alone", map[string]any{"x-message-ttl": 3600000, "x-dead-letter-exchange": "d"})
	v.declareQueue("another", map[string]any{"x-message-ttl": 3600000, "x-dead-letter-exchange": "amq.topic"})
	given := attributes{"vhost": v.name, "delivery_exchange": "d", "levels": 4, "address": "orders", "queue": "orders"}
	for queue, counts := range map[string]bool{
		"one.delay-02": true, "one.delay-03": true, "ladder.delay-1h": true, "alone": true,
		"cut.delay-03": true, "retries": false,
		"other.delay-04": false, "elsewhere.delay-03": false, "another": false, "orders": false,
		"one.unroutable": false,
	} {
		p := v.destination()
		p.mustApply(given)
		v.publish("", queue, "") // by the default exchange, to wait there alone
		text := errorText(p.apply(t.Context(), p.plan(t.Context(), nil)))
		if counts != strings.Contains(text, fmt.Sprintf("queue %q: 1", queue)) || !counts && text != "" {
			t.Errorf("a message in %s: %s", queue, text)
		}
		v.purge(queue)
		p.mustApply(nil)
	}
	p := v.destination()
	p.mustApply(given)
	v.publish("one.delay-03", "1.0.0.0.orders", "")
	v.do(plan.Unbind{Binding: topology.Binding{
		Source: "d", RoutingKey: "*.*.*.*.orders", DestinationType: topology.ToQueue, Destination: "orders",
	}})
	noErrors(t, p.apply(t.Context(), p.plan(t.Context(), nil)))
}

// cascadeAndDestination go together.
const cascadeAndDestination = requiring + `
variable "vhost" {}
variable "queue_type" {}
variable "drain_timeout" { default = null }

resource "rabbitmqdelay_cascade" "t" {
  vhost         = var.vhost
  name          = "t"
  levels        = 4
  queue_type    = var.queue_type
  drain_timeout = var.drain_timeout
}

resource "rabbitmqdelay_destination" "orders" {
  vhost             = var.vhost
  delivery_exchange = rabbitmqdelay_cascade.t.delivery_exchange
  levels            = rabbitmqdelay_cascade.t.levels
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
	v := newVhost(t)
	v.declareQueue("orders", nil)
	variables := map[string]string{"vhost": v.name, "queue_type": queueType}
	delay := 12
	if drain {
		variables["drain_timeout"] = "1m"
		delay = 5
	}
	tf := newCommandLine(t, "", cascadeAndDestination, variables)
	tf.environ = append(tf.environ, v.broker.Environ()...)
	if output, err := tf.run("apply", "-auto-approve"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	there := v.objects()
	orders := v.consume("orders")
	v.delayed(delay, "orders")
	sent := time.Now()
	output, err := tf.run("destroy", "-auto-approve")
	if drain {
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		want := topology.New()
		want.Queues["orders"] = there.Queues["orders"]
		v.mustHold(want)
	} else {
		if err == nil || !strings.Contains(oneLine(output), "Messages are on their way") ||
			strings.Contains(output, "Cascade holds messages") {
			t.Errorf("%v\n%s", err, output)
		}
		v.mustHold(there)
		if n := v.depth("t.unroutable"); n > 0 {
			t.Errorf("%d are parked", n)
		}
	}
	took := v.arrived(orders, 1)[0].At.Sub(sent)
	if took < time.Duration(delay)*time.Second-100*time.Millisecond {
		t.Errorf("the message took %s", took)
	}
}

// An operation that is to wait needs the time for it.
func TestDestinationDrainTimeoutFits(t *testing.T) {
	p := newServerOf(t, destinationType)
	typ, ok := p.resource.AttributeTypes["timeouts"].(tftypes.Object)
	if !ok {
		t.Fatalf("timeouts are of type %s", p.resource.AttributeTypes["timeouts"])
	}
	given := attributes{"delivery_exchange": "d", "levels": 4, "address": "orders", "queue": "orders",
		"drain_timeout": "10m"}
	noErrors(t, p.plan(t.Context(), given).diagnostics)
	for _, operation := range []string{"delete", "update"} {
		timeouts := object(t, typ, attributes{operation: "10m"})
		diagnostics := p.plan(t.Context(), given.with(attributes{"timeouts": timeouts})).diagnostics
		says := "drain_timeout is 10m, which does not fit into timeouts." + operation
		if text := errorText(diagnostics); len(diagnostics) != 1 || !strings.Contains(text, says) {
			t.Errorf("%s: %s", operation, text)
		}
	}
}
