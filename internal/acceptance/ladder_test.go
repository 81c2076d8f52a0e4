package acceptance

import (
	"fmt"
	"maps"
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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

var usualDelays = []string{"5s", "10s", "30s", "1m", "5m", "10m", "30m", "1h"}

// The eight usual delays through Terraform: all is known in the plan, and then there. Damage is repaired, delays come
// and go in place, and in the end nothing is left.
func TestAccLadder(t *testing.T) {
	v := harness.NewVhost(t)
	const address = "rabbitmqdelay_ladder.retry"
	with := func(delays ...string) (string, topology.Topology) {
		return harness.RequiredProviders + harness.WithProvider(v.Broker,
				"resource \"rabbitmqdelay_ladder\" \"retry\" {\n  vhost  = %q\n  name   = "+
					"\"retry\"\n  delays = [\"%s\"]\n}\n", v.Name, strings.Join(delays, `", "`)),
			harness.ExpandLadder(t, delay.LadderConfig{Vhost: v.Name, Name: "retry", Delays: delays,
				CreateDeliveryExchange: true, ParkUnroutable: true})
	}
	usual, expanded := with(usualDelays...)
	fewer, expandedFewer := with("5s", "45s", "1h")
	known := func(attribute, key, inner string, value knownvalue.Check) plancheck.PlanCheck {
		return plancheck.ExpectKnownValue(address, tfjsonpath.New(attribute).AtMapKey(key).AtMapKey(inner), value)
	}
	holds := func(want topology.Topology) resource.TestCheckFunc {
		return func(*terraform.State) error { v.MustExport(want); return nil }
	}
	repaired := resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address,
		plancheck.ResourceActionUpdate)}}
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
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
				ConfigPlanChecks: harness.ExpectEmptyPlan},
			{Config: usual, ResourceName: address, ImportState: true, ImportStateId: harness.ImportID(v.Name,
				"retry.entry"), ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "entry_exchange"},
			{
				PreConfig: func() {
					v.Do(plan.DeleteQueue{Queue: expanded.Queues["retry.delay-10s"]},
						plan.DeleteExchange{Name: "retry.unroutable"})
					v.DeclareQueue("audit", nil)
					v.Bind("retry.entry", "#", "queue", "audit")
				},
				Config: usual, ConfigPlanChecks: repaired,
				Check: func(*terraform.State) error {
					v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "audit"}})
					return holds(expanded)(nil)
				},
			},
			{Config: fewer, ConfigPlanChecks: repaired, Check: holds(expandedFewer)},
			{Config: usual, ConfigPlanChecks: repaired, Check: holds(expanded)},
		},
	})
}

// Messages arrive when the delay is over that they ask for, and none waits for one that was sent before it. A message
// that asks for a delay that does not exist is kept.
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
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	// The first is so long that a message would be late that waits for it. Their order is none to rely on: a busy
	// machine may hold up any of them.
	delays := []string{"9s", "100ms", "3s", "600ms"}
	p.MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "delays": harness.TextList(delays...),
		"queue_type": queueType})
	arrivals, parked := v.Collect("t.delivery", "*.here"), v.Consume("t.unroutable")
	sent := map[string]time.Time{}
	for _, text := range delays {
		sent[text] = harness.BrokerTime()
		v.Publish("t.entry", text+".here", text)
	}
	for _, wrong := range []string{"3s", "4s.here", "here", "0.1.here"} {
		v.Publish("t.entry", wrong, wrong)
	}
	for _, a := range v.Arrived(arrivals, len(delays)) {
		body := string(a.Body)
		began, waits := sent[body]
		delete(sent, body) // each arrives once
		ttl, err := delay.ParseLabel(body)
		if err != nil || !waits {
			t.Fatalf("%q arrived: %v", body, err)
		}
		if took := a.At.Sub(began); took < harness.Least(ttl) || took > ttl+mostLateness ||
			a.RoutingKey != body+".here" {
			t.Errorf("%s arrived after %s with key %q", body, took, a.RoutingKey)
		}
		if died := timesDied(a); !maps.Equal(died, map[string]int64{"t.delay-" + body: 1}) {
			t.Errorf("%s has waited in %v", body, died)
		}
	}
	v.Arrived(parked, 4)
}

// The single rung of half an hour, here of half a second, stands before an existing direct exchange. Whatever the key,
// the message leaves with the fixed one.
func TestLadderWithAFixedKey(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	given := harness.Attributes{
		"vhost": v.Name, "name": "order", "delays": harness.TextList("500ms"), "queue_name": "order.delay.queue",
		"delivery_exchange":        "order.close.exchange",
		"create_delivery_exchange": false, "dead_letter_routing_key": "order.close.queue", "park_unroutable": false,
	}
	if text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), given))); !strings.Contains(text,
		"does not exist, and create_delivery_exchange is false. Declare it first, as a durable exchange, or let the "+
			"ladder create it") {
		t.Fatalf("without the delivery exchange: %q", text)
	}
	v.DeclareExchange("order.close.exchange", "direct")
	p.MustApply(given)
	p.MustBeSettled(given)
	arrivals := v.Collect("order.close.exchange", "order.close.queue")
	for i, key := range []string{"500ms", "500ms.order.17"} {
		sent := harness.BrokerTime()
		v.Publish("order.entry", key, key)
		a := v.Arrived(arrivals, i+1)[i]
		if took := a.At.Sub(sent); took < harness.Least(500*time.Millisecond) || a.RoutingKey != "order.close.queue" {
			t.Errorf("%s arrived after %s with key %q", key, took, a.RoutingKey)
		}
	}

	imported := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	harness.NoErrors(t, imported.ImportIdentity(t.Context(), v.Name, "order.entry"))
	imported.MustBeSettled(given)

	// Without the fixed key, a direct exchange could not deliver.
	harness.NoErrors(t, p.Refresh(t.Context()))
	harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), nil)))
	delete(given, "dead_letter_routing_key")
	if text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), given))); !strings.Contains(text,
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
			v := harness.NewVhost(t)
			p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
			// The delay has room for an apply on a busy machine.
			before := harness.Attributes{"vhost": v.Name, "name": "t", "delays": harness.TextList("1s", "10s"),
				"queue_type": queueType}
			after := before.With(harness.Attributes{"delays": harness.TextList("1s", "2s")})
			p.MustApply(before)
			there := v.Objects()
			arrivals := v.Collect("t.delivery", "*.here")
			v.Publish("t.entry", "10s.here", "a")

			harness.NoErrors(t, p.Refresh(t.Context()))
			text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), after)))
			if !strings.Contains(text, "was not changed, and nothing of it is gone") ||
				!strings.Contains(text, `queue "t.delay-10s": 1`) || !strings.Contains(text, "drain_timeout") {
				t.Fatalf("got %q", text)
			}
			v.MustHold(there)
			p.MustBeSettled(before)

			due := harness.BrokerTime().Add(harness.Least(10 * time.Second))
			v.Publish("t.entry", "10s.here", "b")
			p.MustApply(after.With(harness.Attributes{"drain_timeout": "1m"}))
			if early := time.Until(due); early > 0 {
				t.Errorf("the apply ended %s before the message had waited", early)
			}
			v.Arrived(arrivals, 2)
			p.MustBeSettled(after.With(harness.Attributes{"drain_timeout": "1m"}))
			v.MustHold(harness.ExpandLadder(t, delay.LadderConfig{Vhost: v.Name, Name: "t",
				Delays: []string{"1s", "2s"}, QueueType: delay.QueueType(queueType), CreateDeliveryExchange: true,
				ParkUnroutable: true}))
		})
	}
}

// A binding too many, to the queue of another ladder, does not hide a ladder. It shows as drift after the import, and
// an apply removes it and nothing else.
func TestImportLadderWithForeignBinding(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	retry := harness.Attributes{"vhost": v.Name, "name": "retry", "delays": harness.TextList("5s", "30s")}
	harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).MustApply(retry)
	harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name,
		"name": "jobs", "delays": harness.TextList("1m", "5s")})
	there := v.Exported()
	v.Bind("retry.entry", "1m.*.#", "queue", "jobs.delay-1m")
	v.Bind("retry.entry", "5s.*.#", "queue", "jobs.delay-5s")

	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	harness.NoErrors(t, p.ImportState(t.Context(), harness.ImportID(v.Name, "retry.entry")))
	harness.NoErrors(t, p.Refresh(t.Context()))
	todo := p.Plan(t.Context(), retry)
	harness.NoErrors(t, todo.Diagnostics)
	if todo.Replace || todo.IsEmpty(p.State) {
		t.Fatalf("the foreign bindings are no drift: replaced %t, %s", todo.Replace,
			harness.WarningText(todo.Diagnostics))
	}
	harness.NoErrors(t, p.Apply(t.Context(), todo))
	p.MustBeSettled(retry)
	v.MustExport(there)
}

// What a change of the ladder means: another entry is a new ladder, all else changes in place.
func TestLadderReplacement(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "delays": harness.TextList("1h")}
	p.MustApply(given)
	for name, test := range map[string]struct {
		change  harness.Attributes
		replace bool
	}{
		"another delay":           {harness.Attributes{"delays": harness.TextList("2h")}, false},
		"a further delay":         {harness.Attributes{"delays": harness.TextList("1h", "2h")}, false},
		"the same under its name": {harness.Attributes{"queue_name": "t.delay-%s"}, false},
		"other settings": {harness.Attributes{"adopt": true, "force_destroy": true, "drain_timeout": "1m"},
			false},
		"the delivery exchange": {harness.Attributes{"create_delivery_exchange": false}, false},
		"other names":           {harness.Attributes{"queue_name": "t.rung-%s"}, false},
		"another entry":         {harness.Attributes{"entry_exchange": "t.in"}, true},
		"another delivery":      {harness.Attributes{"delivery_exchange": "t.out"}, false},
		"a fixed key":           {harness.Attributes{"dead_letter_routing_key": "k"}, false},
		"another type":          {harness.Attributes{"queue_type": "classic"}, false},
		"a limit":               {harness.Attributes{"max_length": 5}, false},
		"a leader locator":      {harness.Attributes{"queue_leader_locator": "balanced"}, false},
		"a group size":          {harness.Attributes{"quorum_initial_group_size": 3}, false},
		"no further arguments":  {harness.Attributes{"queue_arguments": harness.Arguments(nil)}, false},
		"no parking":            {harness.Attributes{"park_unroutable": false}, false},
		"a new name":            {harness.Attributes{"name": "u"}, true},
		"names and a delay": {harness.Attributes{"queue_name": "t.rung-%s", "delays": harness.TextList("2h")},
			false},
	} {
		todo := p.Plan(t.Context(), given.With(test.change))
		if harness.NoErrors(t, todo.Diagnostics); todo.Replace != test.replace {
			t.Errorf("%s: replace is %t", name, todo.Replace)
		}
	}
	without := given.With(harness.Attributes{"create_delivery_exchange": false})
	p.MustApply(without)
	p.MustApply(given)
	fixed := given.With(harness.Attributes{"queue_name": "t.delay-1h"})
	p.MustBeSettled(given)
	other := fixed.With(harness.Attributes{"delays": harness.TextList("2h")})
	todo := p.Plan(t.Context(), other)
	text := harness.WarningText(todo.Diagnostics)
	if todo.Replace || !strings.Contains(text, `because delays changes from ["1h"] to ["2h"]`) {
		t.Errorf("a queue with a fixed name gets another TTL: replaced %t, %s", todo.Replace, text)
	}
	p.MustApply(other)
	p.MustBeSettled(other)
}

// A queue of somebody else has the name of an added delay. The apply refuses it before anything is written, or adopts
// it if it is exactly right.
func TestLadderAddsNoDelayThatExists(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "delays": harness.TextList("1h")}
	p.MustApply(given)
	both := harness.ExpandLadder(t, delay.LadderConfig{Vhost: v.Name, Name: "t", Delays: []string{"1h", "2h"},
		CreateDeliveryExchange: true, ParkUnroutable: true})
	v.Do(plan.DeclareQueue{Queue: both.Queues["t.delay-2h"]})
	there := v.Objects()
	more := given.With(harness.Attributes{"delays": harness.TextList("1h", "2h")})
	apply := func(given harness.Attributes) []*tfprotov6.Diagnostic {
		harness.NoErrors(t, p.Refresh(t.Context()))
		return p.Apply(t.Context(), p.Plan(t.Context(), given))
	}
	if text := harness.ErrorText(apply(more)); !strings.Contains(text, "Objects of the ladder exist already") ||
		!strings.Contains(text, `queue "t.delay-2h"`) || !strings.Contains(text, "adopt = true") {
		t.Errorf("got %q", text)
	}
	v.MustHold(there)
	harness.NoErrors(t, apply(more.With(harness.Attributes{"adopt": true})))
	v.MustHold(both)
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
	v := harness.NewVhost(t)
	harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name,
		"name": "retry", "delays": harness.TextList("300ms", "5s"), "queue_type": queueType})
	v.DeclareQueue("orders", map[string]any{"x-queue-type": queueType, "x-dead-letter-exchange": "retry.entry",
		"x-dead-letter-routing-key": "300ms.orders"})
	v.Bind("retry.delivery", "*.orders", "queue", "orders")
	channel, err := v.Conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := channel.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := time.Now()
	v.Publish("", "orders", "fails three times")
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

func next(v *harness.Vhost, deliveries <-chan amqp.Delivery) amqp.Delivery {
	v.T.Helper()
	select {
	case d := <-deliveries:
		return d
	case <-time.After(harness.Patience):
		v.T.Fatal("the message does not come back")
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
		p := harness.NewServerOf(t, harness.LadderType)
		typ, ok := p.Resource.AttributeTypes["timeouts"].(tftypes.Object)
		if !ok {
			t.Fatalf("timeouts are of type %s", p.Resource.AttributeTypes["timeouts"])
		}
		todo := p.Plan(t.Context(), harness.Attributes{
			"name": "t", "delays": harness.TextList("1s"), "drain_timeout": "10m",
			"timeouts": harness.NewObject(t, typ, harness.Attributes{"update": timeout}),
		})
		if got := harness.ErrorText(todo.Diagnostics); (got == "") != fits || !fits &&
			!strings.Contains(got, "does not fit into timeouts.update") {
			t.Errorf("with timeouts.update = %s: %q", timeout, got)
		}
	}
}

// The life of a ladder as a user with the permissions that the page gives for it.
func TestLadderPermissions(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	u := harness.NewUser(t, v.Broker, v.Name)
	u.Grant(permissionsOf(t, "ladders"))
	p := harness.NewProtocolOf(t, harness.LadderType, u.Broker(), nil)
	before := harness.Attributes{"vhost": v.Name, "name": "retry", "delays": harness.TextList("5s", "1h30m")}
	p.MustApply(before)
	p.MustBeSettled(before)
	v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "retry.delay-5s"}}, plan.DeleteExchange{Name: "retry.entry"})
	p.MustApply(before)
	after := before.With(harness.Attributes{"delays": harness.TextList("5s", "200ms")})
	p.MustApply(after)
	p.MustBeSettled(after)
	imported := harness.NewProtocolOf(t, harness.LadderType, u.Broker(), nil)
	harness.NoErrors(t, imported.ImportState(t.Context(), harness.ImportID(v.Name, "retry.entry")))
	imported.MustBeSettled(after)
	p.MustApply(nil)
	v.MustHold(topology.New())
}

// The eighteen delay levels of RocketMQ, as the example has them.
func TestLadderOfEighteen(t *testing.T) {
	t.Parallel()
	example := regexp.MustCompile(`(?s)"rocketmq" \{.*?delays = \[(.*?)\]`).FindStringSubmatch(
		docstest.ReadExample(t, "resources/rabbitmqdelay_ladder", "resource.tf"))
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
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "rocketmq", "delays": harness.TextList(delays...)}
	p.MustApply(given)
	p.MustBeSettled(given)
	v.MustExport(harness.ExpandLadder(t, delay.LadderConfig{Vhost: v.Name, Name: "rocketmq", Delays: delays,
		CreateDeliveryExchange: true, ParkUnroutable: true}))
	arrivals := v.Collect("rocketmq.delivery", "*.here")
	sent := harness.BrokerTime()
	v.Publish("rocketmq.entry", "1s.here", "")
	if after := v.Arrived(arrivals, 1)[0].At.Sub(sent); after < harness.Least(time.Second) {
		t.Errorf("the message arrived after %s", after)
	}
	p.MustApply(nil)
}
