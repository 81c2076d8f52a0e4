package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Three ladders have the keys of applications. One has a direct entry that also feeds a queue of others. The topic
// entries have a whole key, and one for every key.
const keyedLadders = `
resource "rabbitmqdelay_ladder" "upload" {
  vhost                    = %[1]q
  entry_exchange           = "upload"
  entry_exchange_type      = "direct"
  delays                   = ["300ms", "900ms", "1s500ms"]
  binding_keys             = { "300ms" = "attempt.1", "900ms" = "attempt.2", "1s500ms" = "attempt.3" }
  queue_names              = { "300ms" = "upload-retry-1", "900ms" = "upload-retry-2", "1s500ms" = "upload-retry-3" }
  delivery_exchange        = "upload.work"
  dead_letter_routing_key  = "upload"
  queue_type               = "classic"
  park_unroutable          = false
  create_delivery_exchange = false
}

resource "rabbitmqdelay_ladder" "sync" {
  vhost             = %[1]q
  entry_exchange    = "sync"
  delays            = ["600ms"]
  binding_keys      = { "600ms" = "sync.5m" }
  queue_name        = "sync.q"
  delivery_exchange = "sync.due"
  queue_arguments   = {}
  park_unroutable   = false
}

resource "rabbitmqdelay_ladder" "hold" {
  vhost            = %[1]q
  entry_exchange   = "hold"
  delays           = ["400ms"]
  binding_keys     = { "400ms" = "#" }
  queue_name       = "hold"
  deliver_to_queue = "released"
  queue_type       = "classic"
  park_unroutable  = false
}
`

// declareKeyedLadders declares what an application does.
func declareKeyedLadders(v *harness.Vhost) {
	for _, exchange := range []string{"upload", "upload.work"} {
		v.DeclareExchange(exchange, "direct")
	}
	for _, exchange := range []string{"sync", "sync.due", "hold"} {
		v.DeclareExchange(exchange, "topic")
	}
	for _, queue := range []string{"uploads", "upload.dead", "synced", "released"} {
		v.DeclareQueue(queue, nil)
	}
	v.Bind("upload", "dead", "queue", "upload.dead")
	v.Bind("upload.work", "upload", "queue", "uploads")
	for number, ttl := range map[string]int{"1": 300, "2": 900, "3": 1500} {
		v.DeclareQueue("upload-retry-"+number, map[string]any{"x-message-ttl": ttl,
			"x-dead-letter-exchange": "upload.work", "x-dead-letter-routing-key": "upload"})
		v.Bind("upload", "attempt."+number, "queue", "upload-retry-"+number)
	}
	v.DeclareQueue("sync.q", map[string]any{"x-queue-type": "quorum", "x-message-ttl": 600,
		"x-dead-letter-exchange": "sync.due"})
	v.Bind("sync", "sync.5m", "queue", "sync.q")
	v.Bind("sync.due", "sync.5m", "queue", "synced")
	v.DeclareQueue("hold", map[string]any{"x-message-ttl": 400, "x-dead-letter-exchange": "",
		"x-dead-letter-routing-key": "released"})
	v.Bind("hold", "#", "queue", "hold")
}

// An import of the ladders of applications changes nothing, and messages arrive on their own keys, in time.
func TestAccImportOfKeyedLadders(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	declareKeyedLadders(v)
	before := v.Objects()
	blocks, checks := "", []plancheck.PlanCheck{}
	for _, name := range []string{"upload", "sync", "hold"} {
		blocks += "import {\n  to = rabbitmqdelay_ladder." + name + "\n  id = " +
			harness.Quote(harness.ImportID(v.Name, name)) + "\n}\n"
		checks = append(checks, imports("rabbitmqdelay_ladder."+name))
	}
	resource.Test(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_5_0)},
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{{
			Config: harness.RequiredProviders + harness.WithProvider(v.Broker, keyedLadders, v.Name) + blocks,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: checks,
				PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			Check: func(*terraform.State) error {
				v.MustHold(before)
				keyedMessagesArrive(v)
				return nil
			},
		}},
	})
}

// An import names the queues that it leaves out, and so does a query. A damaged delay queue is one of these.
func TestImportLeavesOut(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	declareKeyedLadders(v)
	v.DeclareQueue("upload-retry-4", map[string]any{"x-dead-letter-exchange": "upload.work"})
	v.Bind("upload", "attempt.4", "queue", "upload-retry-4")
	v.DeclareQueue("upload-retry-5", map[string]any{"x-message-ttl": 60000, "x-dead-letter-exchange": "upload.work"})
	v.Do(plan.Bind{Binding: topology.Binding{Source: "upload", RoutingKey: "attempt.5", Destination: "upload-retry-5",
		DestinationType: topology.ToQueue, Arguments: `{"owner":"billing"}`}})
	leftOut := []string{"Queues are left out", "mend it and import again",
		`queue "upload-retry-4" with key "attempt.4": it has no argument x-message-ttl`,
		`queue "upload-retry-5" with key "attempt.5": its binding has the arguments {"owner":"billing"}`}
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	said := p.ImportState(t.Context(), harness.ImportID(v.Name, "upload"))
	harness.NoErrors(t, said)
	harness.MustSay(t, "the import", harness.WarningText(said), leftOut...)
	if text := harness.WarningText(said); strings.Contains(text, "upload.dead") {
		t.Errorf("the import says of a plain queue: %s", text)
	}
	for _, l := range p.Query(t.Context(), harness.Attributes{"vhost": v.Name}, true, 100) {
		if l.Entry == "upload" {
			harness.MustSay(t, "the query", harness.WarningText(l.Diagnostics), leftOut...)
			return
		}
	}
	t.Error("the query does not find the ladder")
}

// An import names a delay queue whose binding is gone, and says which type it assumes of a missing delivery exchange. A
// direct exchange that is declared again stays as it is.
func TestImportOfAnIncompleteKeyedLadder(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	declareKeyedLadders(v)
	v.Do(plan.DeleteExchange{Name: "upload.work"}, plan.Unbind{Binding: topology.Binding{Source: "upload",
		RoutingKey: "attempt.3", DestinationType: topology.ToQueue, Destination: "upload-retry-3"}})
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	said := p.ImportState(t.Context(), harness.ImportID(v.Name, "upload"))
	harness.NoErrors(t, said)
	harness.MustSay(t, "the import", harness.WarningText(said), "Queues without a binding are left out",
		`queue "upload-retry-3": its delay is 1s500ms`, "messages may wait in them",
		`Exchange "upload.work" is missing, and nothing shows its type`, "set create_delivery_exchange = false")
	given := p.Generated(t.Context(), p.State).With(harness.Attributes{"create_delivery_exchange": false})
	v.DeclareExchange("upload.work", "direct")
	v.Bind("upload.work", "upload", "queue", "uploads")
	before := v.Objects()
	p.MustApply(given)
	p.MustBeSettled(given)
	v.MustHold(before)

	v.Bind("upload", "attempt.3", "queue", "upload-retry-3")
	said = p.ImportState(t.Context(), harness.ImportID(v.Name, "upload"))
	harness.NoErrors(t, said)
	if text := harness.WarningText(said); text != "" {
		t.Errorf("the import of the whole ladder says %s", text)
	}
}

// keyedMessagesArrive sends a message for each delay, and one past the delays.
func keyedMessagesArrive(v *harness.Vhost) {
	v.T.Helper()
	arrivals, arrived := map[string]*brokertest.Collector{}, map[string]int{}
	for _, is := range []struct {
		exchange, key, queue string
		wait                 time.Duration
	}{
		{"upload", "attempt.1", "uploads", 300 * time.Millisecond},
		{"upload", "attempt.2", "uploads", 900 * time.Millisecond},
		{"upload", "attempt.3", "uploads", 1500 * time.Millisecond},
		{"upload", "dead", "upload.dead", 0},
		{"sync", "sync.5m", "synced", 600 * time.Millisecond},
		{"hold", "whatever.it.is", "released", 400 * time.Millisecond},
	} {
		if arrivals[is.queue] == nil {
			arrivals[is.queue] = v.Consume(is.queue)
		}
		sent := harness.BrokerTime()
		v.Publish(is.exchange, is.key, is.key)
		arrived[is.queue]++
		a := v.Arrived(arrivals[is.queue], arrived[is.queue])[arrived[is.queue]-1]
		if took := a.At.Sub(sent); took < harness.Least(is.wait) || string(a.Body) != is.key {
			v.T.Errorf("%q to exchange %q arrived after %s as %q, want %s", is.key, is.exchange, took, a.Body, is.wait)
		}
	}
}

// A ladder with keys is rebuilt and repaired with the binding of others on its entry. A key changes in place, and the
// plan of a destroy names that binding.
func TestKeyedLadderLivesWithOthers(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	byKeys := func(short, long string) any { return stringMap(map[string]string{"200ms": short, "1h": long}) }
	given := harness.Attributes{"vhost": v.Name, "name": "t", "delays": harness.TextList("200ms", "1h"),
		"entry_exchange_type": "direct", "binding_keys": byKeys("a", "b"), "dead_letter_routing_key": "k"}
	p.MustApply(given)
	p.MustBeSettled(given)
	v.DeclareQueue("dead", nil)
	v.Bind("t.entry", "dead", "queue", "dead")
	p.MustBeSettled(given)
	for _, change := range []harness.Attributes{
		{"binding_keys": byKeys("c", "b")}, // in place
		{"binding_keys": byKeys("b", "c")}, // by a rebuild, as the one below
		{"entry_exchange_type": "topic"},
	} {
		given = given.With(change)
		p.MustApply(given)
		p.MustBeSettled(given)
		v.Publish("t.entry", "dead", "given up")
		v.Eventually("the queue of others holds the message", func() bool { return v.Depth("dead") == 1 })
		v.Purge("dead")
	}
	if text := harness.WarningText(p.Plan(t.Context(), nil).Diagnostics); text == "" {
		t.Error("the plan of a destroy does not warn")
	} else {
		harness.MustSay(t, "the plan of a destroy", text, "Its entry also leads to what other applications have bound",
			`exchange "t.entry" to queue "dead" with key "dead"`)
	}
	p.MustApply(nil)
}
