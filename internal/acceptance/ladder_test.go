package acceptance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

var usualDelays = []string{"5s", "10s", "30s", "1m", "5m", "10m", "30m", "1h"}

// The eight usual delays through Terraform: all is known in the plan, and then there. Damage is repaired, delays come
// and go in place, and in the end nothing is left.
func TestAccLadder(t *testing.T) {
	v := newVhost(t)
	const address = "rabbitmqdelay_ladder.retry"
	with := func(delays ...string) (string, topology.Topology) {
		return requiring + on(v.broker, "resource \"rabbitmqdelay_ladder\" \"retry\" {\n  vhost  = %q\n  name   = "+
				"\"retry\"\n  delays = [\"%s\"]\n}\n", v.name, strings.Join(delays, `", "`)),
			expandLadder(t, delay.LadderConfig{Vhost: v.name, Name: "retry", Delays: delays,
				CreateDeliveryExchange: true, ParkUnroutable: true})
	}
	usual, expanded := with(usualDelays...)
	fewer, expandedFewer := with("5s", "45s", "1h")
	known := func(attribute, key, inner string, value knownvalue.Check) plancheck.PlanCheck {
		return plancheck.ExpectKnownValue(address, tfjsonpath.New(attribute).AtMapKey(key).AtMapKey(inner), value)
	}
	holds := func(want topology.Topology) resource.TestCheckFunc {
		return func(*terraform.State) error { v.mustExport(want); return nil }
	}
	repaired := resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address,
		plancheck.ResourceActionUpdate)}}
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             holds(topology.New()),
		Steps: []resource.TestStep{
			{
				Config: usual,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					known("queues", "retry.delay-30s", "message_ttl", knownvalue.Int64Exact(30_000)),
					known("queues", "retry.delay-30s", "delay", knownvalue.StringExact("30s")),
					known("queues", "retry.unroutable", "delay", knownvalue.Null()),
					known("exchanges", "retry.entry", "type", knownvalue.StringExact("topic")),
					plancheck.ExpectKnownValue(address, tfjsonpath.New("bindings").AtMapKey("retry.entry"),
						knownvalue.MapSizeExact(8)),
				}},
				Check: holds(expanded),
			},
			{Config: usual,
				ConfigPlanChecks: expectEmptyPlan},
			{Config: usual, ResourceName: address, ImportState: true, ImportStateId: importID(v.name, "retry.entry"),
				ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "entry_exchange"},
			{
				PreConfig: func() {
					v.do(plan.DeleteQueue{Queue: expanded.Queues["retry.delay-10s"]},
						plan.DeleteExchange{Name: "retry.unroutable"})
					v.declareQueue("audit", nil)
					v.bind("retry.entry", "#", "queue", "audit")
				},
				Config: usual, ConfigPlanChecks: repaired,
				Check: func(*terraform.State) error {
					v.do(plan.DeleteQueue{Queue: topology.Queue{Name: "audit"}})
					return holds(expanded)(nil)
				},
			},
			{Config: fewer, ConfigPlanChecks: repaired, Check: holds(expandedFewer)},
			{Config: usual, ConfigPlanChecks: repaired, Check: holds(expanded)},
		},
	})
}

// Messages arrive when the delay is over that they ask for, in the order of their due times. A message that asks for a
// delay that does not exist is kept.
func TestLadderMessages(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			sendThroughLadder(t, queueType)
		})
	}
}

// sendThroughLadder sends messages through every queue of a ladder.
func sendThroughLadder(t *testing.T, queueType string) {
	t.Parallel()
	v := newVhost(t)
	p := newProtocolOf(t, ladderType, v.broker, nil)
	delays := []string{"1200ms", "100ms", "3s", "600ms"}
	p.mustApply(attributes{"vhost": v.name, "name": "t", "delays": textSet(delays...), "queue_type": queueType})
	arrivals, parked := v.collect("t.delivery", "*.here"), v.consume("t.unroutable")
	sent := map[string]time.Time{}
	for _, delay := range delays {
		sent[delay] = brokerTime()
		v.publish("t.entry", delay+".here", delay)
	}
	for _, wrong := range []string{"3s", "4s.here", "here", "0.1.here"} {
		v.publish("t.entry", wrong, wrong)
	}
	var order []string
	for _, a := range v.arrived(arrivals, len(delays)) {
		body := string(a.Body)
		order = append(order, body)
		ttl, err := delay.ParseLabel(body)
		if err != nil {
			t.Fatal(err)
		}
		if took := a.At.Sub(sent[body]); took < ttl || took > ttl+mostLateness || a.RoutingKey != body+".here" {
			t.Errorf("%s arrived after %s with key %q", body, took, a.RoutingKey)
		}
	}
	if want := []string{"100ms", "600ms", "1200ms", "3s"}; !slices.Equal(order, want) {
		t.Errorf("arrived in the order %q, want %q", order, want)
	}
	v.arrived(parked, 4)
}

// The single rung of half an hour, here of half a second, stands before an existing direct exchange. Whatever the key,
// the message leaves with the fixed one.
func TestLadderWithAFixedKey(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	p := newProtocolOf(t, ladderType, v.broker, nil)
	given := attributes{
		"vhost": v.name, "name": "order", "delays": textSet("500ms"), "queue_name": "order.delay.queue",
		"delivery_exchange":        "order.close.exchange",
		"create_delivery_exchange": false, "dead_letter_routing_key": "order.close.queue", "park_unroutable": false,
	}
	if text := errorText(p.apply(t.Context(), p.plan(t.Context(), given))); !strings.Contains(text,
		"does not exist, and create_delivery_exchange is false. Declare it first, as a durable exchange, or let the "+
			"ladder create it") {
		t.Fatalf("without the delivery exchange: %q", text)
	}
	v.declareExchange("order.close.exchange", "direct")
	p.mustApply(given)
	p.mustBeSettled(given)
	arrivals := v.collect("order.close.exchange", "order.close.queue")
	for i, key := range []string{"500ms", "500ms.order.17"} {
		sent := brokerTime()
		v.publish("order.entry", key, key)
		a := v.arrived(arrivals, i+1)[i]
		if took := a.At.Sub(sent); took < 500*time.Millisecond || a.RoutingKey != "order.close.queue" {
			t.Errorf("%s arrived after %s with key %q", key, took, a.RoutingKey)
		}
	}

	imported := newProtocolOf(t, ladderType, v.broker, nil)
	noErrors(t, imported.importIdentity(t.Context(), v.name, "order.entry"))
	imported.mustBeSettled(given)

	// Without the fixed key, a direct exchange could not deliver.
	noErrors(t, p.refresh(t.Context()))
	noErrors(t, p.apply(t.Context(), p.plan(t.Context(), nil)))
	delete(given, "dead_letter_routing_key")
	if text := errorText(p.apply(t.Context(), p.plan(t.Context(), given))); !strings.Contains(text,
		`is of type "direct"`) {
		t.Errorf("before a direct exchange: %q", text)
	}
}

// A delay that is to go while messages wait for it stays, with its binding, and the messages arrive. With drain_timeout
// the apply waits for them, takes no further ones, and then removes it.
func TestLadderLosesNoMessageWithADelay(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			p := newProtocolOf(t, ladderType, v.broker, nil)
			before := attributes{"vhost": v.name, "name": "t", "delays": textSet("1s", "4s"), "queue_type": queueType}
			after := before.with(attributes{"delays": textSet("1s", "2s")})
			p.mustApply(before)
			there := v.objects()
			arrivals := v.collect("t.delivery", "*.here")
			v.publish("t.entry", "4s.here", "a")

			noErrors(t, p.refresh(t.Context()))
			text := errorText(p.apply(t.Context(), p.plan(t.Context(), after)))
			if !strings.Contains(text, "was not changed, and nothing of it is gone") ||
				!strings.Contains(text, `queue "t.delay-4s": 1`) || !strings.Contains(text, "drain_timeout") {
				t.Fatalf("got %q", text)
			}
			v.mustHold(there)
			p.mustBeSettled(before)

			v.publish("t.entry", "4s.here", "b")
			started := time.Now()
			p.mustApply(after.with(attributes{"drain_timeout": "1m"}))
			if waited := time.Since(started); waited < 3*time.Second {
				t.Errorf("the apply took %s, less than the message had to wait", waited)
			}
			v.arrived(arrivals, 2)
			p.mustBeSettled(after.with(attributes{"drain_timeout": "1m"}))
			v.mustHold(expandLadder(t, delay.LadderConfig{Vhost: v.name, Name: "t", Delays: []string{"1s", "2s"},
				QueueType: delay.QueueType(queueType), CreateDeliveryExchange: true, ParkUnroutable: true}))
		})
	}
}

// A binding too many, to the queue of another ladder, does not hide a ladder. It shows as drift after the import, and
// an apply removes it and nothing else.
func TestImportLadderWithForeignBinding(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	retry := attributes{"vhost": v.name, "name": "retry", "delays": textSet("5s", "30s")}
	newProtocolOf(t, ladderType, v.broker, nil).mustApply(retry)
	newProtocolOf(t, ladderType, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "jobs",
		"delays": textSet("1m", "5s")})
	there := v.exported()
	v.bind("retry.entry", "1m.*.#", "queue", "jobs.delay-1m")
	v.bind("retry.entry", "5s.*.#", "queue", "jobs.delay-5s")

	p := newProtocolOf(t, ladderType, v.broker, nil)
	noErrors(t, p.importState(t.Context(), importID(v.name, "retry.entry")))
	noErrors(t, p.refresh(t.Context()))
	todo := p.plan(t.Context(), retry)
	noErrors(t, todo.diagnostics)
	if todo.replace || todo.isEmpty(p.state) {
		t.Fatalf("the foreign bindings are no drift: replaced %t, %s", todo.replace, warningText(todo.diagnostics))
	}
	noErrors(t, p.apply(t.Context(), todo))
	p.mustBeSettled(retry)
	v.mustExport(there)
}

// What a change of the ladder means: another entry is a new ladder, all else changes in place.
func TestLadderReplacement(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	p := newProtocolOf(t, ladderType, v.broker, nil)
	given := attributes{"vhost": v.name, "name": "t", "delays": textSet("1h")}
	p.mustApply(given)
	for name, test := range map[string]struct {
		change  attributes
		replace bool
	}{
		"another delay":           {attributes{"delays": textSet("2h")}, false},
		"a further delay":         {attributes{"delays": textSet("1h", "2h")}, false},
		"the same under its name": {attributes{"queue_name": "t.delay-%s"}, false},
		"other settings":          {attributes{"adopt": true, "force_destroy": true, "drain_timeout": "1m"}, false},
		"the delivery exchange":   {attributes{"create_delivery_exchange": false}, false},
		"other names":             {attributes{"queue_name": "t.rung-%s"}, false},
		"another entry":           {attributes{"entry_exchange": "t.in"}, true},
		"another delivery":        {attributes{"delivery_exchange": "t.out"}, false},
		"a fixed key":             {attributes{"dead_letter_routing_key": "k"}, false},
		"another type":            {attributes{"queue_type": "classic"}, false},
		"a limit":                 {attributes{"max_length": 5}, false},
		"a leader locator":        {attributes{"queue_leader_locator": "balanced"}, false},
		"a group size":            {attributes{"quorum_initial_group_size": 3}, false},
		"no parking":              {attributes{"park_unroutable": false}, false},
		"a new name":              {attributes{"name": "u"}, true},
		"names and a delay":       {attributes{"queue_name": "t.rung-%s", "delays": textSet("2h")}, false},
	} {
		todo := p.plan(t.Context(), given.with(test.change))
		if noErrors(t, todo.diagnostics); todo.replace != test.replace {
			t.Errorf("%s: replace is %t", name, todo.replace)
		}
	}
	without := given.with(attributes{"create_delivery_exchange": false})
	p.mustApply(without)
	p.mustApply(given)
	fixed := given.with(attributes{"queue_name": "t.delay-1h"})
	p.mustBeSettled(given)
	other := fixed.with(attributes{"delays": textSet("2h")})
	todo := p.plan(t.Context(), other)
	text := warningText(todo.diagnostics)
	if todo.replace || !strings.Contains(text, `because delays changes from ["1h"] to ["2h"]`) {
		t.Errorf("a queue with a fixed name gets another TTL: replaced %t, %s", todo.replace, text)
	}
	p.mustApply(other)
	p.mustBeSettled(other)
}

// A queue of somebody else has the name of an added delay. The apply refuses it before anything is written, or adopts
// it if it is exactly right.
func TestLadderAddsNoDelayThatExists(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	p := newProtocolOf(t, ladderType, v.broker, nil)
	given := attributes{"vhost": v.name, "name": "t", "delays": textSet("1h")}
	p.mustApply(given)
	both := expandLadder(t, delay.LadderConfig{Vhost: v.name, Name: "t", Delays: []string{"1h", "2h"},
		CreateDeliveryExchange: true, ParkUnroutable: true})
	v.do(plan.DeclareQueue{Queue: both.Queues["t.delay-2h"]})
	there := v.objects()
	more := given.with(attributes{"delays": textSet("1h", "2h")})
	apply := func(given attributes) []*tfprotov6.Diagnostic {
		noErrors(t, p.refresh(t.Context()))
		return p.apply(t.Context(), p.plan(t.Context(), given))
	}
	if text := errorText(apply(more)); !strings.Contains(text, "Objects of the ladder exist already") ||
		!strings.Contains(text, `queue "t.delay-2h"`) || !strings.Contains(text, "adopt = true") {
		t.Errorf("got %q", text)
	}
	v.mustHold(there)
	noErrors(t, apply(more.with(attributes{"adopt": true})))
	v.mustHold(both)
}

// Rejected messages come back: the queue of the consumer dead-letters to the entry, with a key that asks for a delay.
// RabbitMQ drops a message that runs in a circle without ever being rejected; these are.
func TestLadderBringsRejectedMessagesBack(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			bringRejectedMessagesBack(t, queueType)
		})
	}
}

// bringRejectedMessagesBack rejects messages, which come back after the delay.
func bringRejectedMessagesBack(t *testing.T, queueType string) {
	t.Parallel()
	v := newVhost(t)
	newProtocolOf(t, ladderType, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "retry",
		"delays": textSet("300ms", "5s"), "queue_type": queueType})
	v.declareQueue("orders", map[string]any{"x-queue-type": queueType, "x-dead-letter-exchange": "retry.entry",
		"x-dead-letter-routing-key": "300ms.orders"})
	v.bind("retry.delivery", "*.orders", "queue", "orders")
	channel, err := v.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := channel.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := time.Now()
	v.publish("", "orders", "fails three times")
	for attempt := range 4 {
		d, took := next(v, deliveries), time.Duration(0)
		took, last = time.Since(last), time.Now()
		if attempt > 0 && took < 300*time.Millisecond {
			t.Errorf("attempt %d came after %s", attempt, took)
		}
		if waited := timesExpired(d); waited != int64(attempt) {
			t.Errorf("attempt %d says that it waited %d times: %v", attempt, waited, d.Headers)
		}
		if attempt < 3 {
			err = d.Reject(false)
		} else {
			err = d.Ack(false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func next(v *vhost, deliveries <-chan amqp.Delivery) amqp.Delivery {
	v.Helper()
	select {
	case d := <-deliveries:
		return d
	case <-time.After(patience):
		v.Fatal("the message does not come back")
		panic("unreachable")
	}
}

// timesExpired is how often the message has left a queue because its time was over, by its header x-death.
func timesExpired(d amqp.Delivery) (times int64) {
	deaths, _ := d.Headers["x-death"].([]any)
	for _, death := range deaths {
		if of, ok := death.(amqp.Table); ok && fmt.Sprint(of["reason"]) == "expired" {
			count, _ := of["count"].(int64)
			times += count
		}
	}
	return times
}

// Removing a delay waits in an update, which has to have the time.
func TestDrainFitsIntoUpdate(t *testing.T) {
	for timeout, fits := range map[string]bool{"10m": false, "11m": true} {
		p := newServerOf(t, ladderType)
		typ, ok := p.resource.AttributeTypes["timeouts"].(tftypes.Object)
		if !ok {
			t.Fatalf("timeouts are of type %s", p.resource.AttributeTypes["timeouts"])
		}
		todo := p.plan(t.Context(), attributes{
			"name": "t", "delays": textSet("1s"), "drain_timeout": "10m",
			"timeouts": object(t, typ, attributes{"update": timeout}),
		})
		if got := errorText(todo.diagnostics); (got == "") != fits || !fits &&
			!strings.Contains(got, "does not fit into timeouts.update") {
			t.Errorf("with timeouts.update = %s: %q", timeout, got)
		}
	}
}

// The life of a ladder as a user with the permissions that the page gives for it.
func TestLadderPermissions(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	u := newUser(t, v.broker, v.name)
	u.grant(permissionsOf(t, "ladders"))
	p := newProtocolOf(t, ladderType, u.broker(), nil)
	before := attributes{"vhost": v.name, "name": "retry", "delays": textSet("5s", "1h30m")}
	p.mustApply(before)
	p.mustBeSettled(before)
	v.do(plan.DeleteQueue{Queue: topology.Queue{Name: "retry.delay-5s"}}, plan.DeleteExchange{Name: "retry.entry"})
	p.mustApply(before)
	after := before.with(attributes{"delays": textSet("5s", "200ms")})
	p.mustApply(after)
	p.mustBeSettled(after)
	imported := newProtocolOf(t, ladderType, u.broker(), nil)
	noErrors(t, imported.importState(t.Context(), importID(v.name, "retry.entry")))
	imported.mustBeSettled(after)
	p.mustApply(nil)
	v.mustHold(topology.New())
}

// The eighteen delay levels of RocketMQ, as the example has them.
func TestLadderOfEighteen(t *testing.T) {
	t.Parallel()
	example := regexp.MustCompile(`(?s)"rocketmq" \{.*?delays = \[(.*?)\]`).FindStringSubmatch(
		readExample(t, "resources/rabbitmqdelay_ladder", "resource.tf"))
	if example == nil {
		t.Fatal("the example is gone")
	}
	var delays []string
	for _, quoted := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(example[1], -1) {
		delays = append(delays, quoted[1])
	}
	if want := strings.Fields("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"); !slices.Equal(delays,
		want) {
		t.Fatalf("the example has %q, want %q", delays, want)
	}
	v := newVhost(t)
	p := newProtocolOf(t, ladderType, v.broker, nil)
	given := attributes{"vhost": v.name, "name": "rocketmq", "delays": textSet(delays...)}
	p.mustApply(given)
	p.mustBeSettled(given)
	v.mustExport(expandLadder(t, delay.LadderConfig{Vhost: v.name, Name: "rocketmq", Delays: delays,
		CreateDeliveryExchange: true, ParkUnroutable: true}))
	arrivals := v.collect("rocketmq.delivery", "*.here")
	sent := brokerTime()
	v.publish("rocketmq.entry", "1s.here", "")
	if after := v.arrived(arrivals, 1)[0].At.Sub(sent); after < time.Second {
		t.Errorf("the message arrived after %s", after)
	}
	p.mustApply(nil)
}
