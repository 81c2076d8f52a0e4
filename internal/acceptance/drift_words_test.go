package acceptance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const driftSummary = "Objects are not as declared"

// A plan names each change from outside once, cause by cause, also a plan of the state alone. Its words about messages
// are true, and after the apply it says nothing.
func TestAccDriftInWords(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareQueue("audit", nil)
	head, _, _ := strings.Cut(docstest.ReadExample(t, checksExample, "main.tf"), "data ")
	tf := harness.NewCommandLine(t, "", head+`
resource "rabbitmqdelay_cascade" "tasks" {
  vhost  = var.vhost
  name   = "tasks"
  levels = 17
}
`, map[string]string{"vhost": v.Name})
	tf.Environ = slices.DeleteFunc(tf.Environ,
		func(variable string) bool { return strings.HasPrefix(variable, "TF_LOG") })
	tf.Environ = append(tf.Environ, v.Broker.Environ()...)
	must := func(arguments ...string) string {
		t.Helper()
		out, err := tf.Run(arguments...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Join(strings.Fields(out), " ")
	}
	must("apply", "-auto-approve")

	v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "tasks.delay-12"}})
	v.Bind("tasks.delay-03", "#", "queue", "audit")
	said := []string{
		"Warning: " + driftSummary,
		`The cascade with entry exchange "tasks.delay-16" in vhost "` + v.Name +
			`" was changed outside Terraform, was imported like this, or an ` +
			"apply broke off:",
		"- The queue tasks.delay-12 is gone. Any messages that waited in it are lost. Messages that need it are " +
			"parked. The next apply declares it again.",
		`- The binding of exchange tasks.delay-03 to queue audit with key "#" was added. Queue audit gets copies ` +
			"of messages with such a key before their time. The next apply removes it.",
	}
	for _, arguments := range [][]string{{"plan"}, {"plan", "-refresh-only"}} {
		out := must(arguments...)
		for _, text := range said {
			if n := strings.Count(out, text); n != 1 {
				t.Errorf("terraform %s says %d times %q:\n%s", strings.Join(arguments, " "), n, text, out)
			}
		}
		if strings.Contains(out, "binding") && strings.Count(out, "\n- The") > 2 {
			t.Errorf("terraform %s says more:\n%s", strings.Join(arguments, " "), out)
		}
	}
	v.Publish("tasks.delay-16", harness.RoutingKey(t, 4096e9, 17, 1e9, "orders"), "needs it")
	v.Eventually("the message is parked", func() bool { return v.Depth("tasks.unroutable") == 1 })

	must("apply", "-auto-approve")
	if out := must("plan"); strings.Contains(out, "Warning: "+driftSummary) {
		t.Errorf("after the apply, the plan says\n%s", out)
	}
}

// More causes than ten are counted. A ladder, a destination and a resource that is gone altogether have their words,
// too.
func TestDriftIsSaidInFewWords(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	configuration := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 13}
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(configuration)
	desired := harness.Expand(t, delay.Config{Vhost: v.Name, Name: "t", Levels: 13, CreateDeliveryExchange: true,
		StrictKeys: true, ParkUnroutable: true})
	for level := range 12 {
		v.Do(plan.DeleteQueue{Queue: desired.Queues[fmt.Sprintf("t.delay-%02d", level)]})
	}
	text := harness.WarningText(p.Refresh(t.Context()))
	if strings.Count(text, "\n- The queue t.delay-") != 10 || !strings.Contains(text, "\n- and 2 more") ||
		strings.Count(text, driftSummary) != 1 {
		t.Errorf("twelve causes: %s", text)
	}
	if text := harness.WarningText(p.Plan(t.Context(), configuration).Diagnostics); text != "" {
		t.Errorf("the plan says it again: %s", text)
	}
	p.MustApply(configuration)
	if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
		t.Errorf("after the apply: %s", text)
	}

	longer := desired.Queues["t.delay-02"]
	longer.Arguments = topology.Arguments{"x-queue-type": "quorum", "x-message-ttl": int64(3_600_000),
		"x-dead-letter-exchange": "t.delay-01", "x-dead-letter-strategy": "at-least-once",
		"x-overflow": "reject-publish"}
	steps := []plan.Step{plan.DeleteQueue{Queue: longer}, plan.DeclareQueue{Queue: longer}}
	for _, b := range desired.Bindings.Sorted() {
		if b.DestinationType == topology.ToQueue && b.Destination == longer.Name {
			steps = append(steps, plan.Bind{Binding: b})
		}
	}
	v.Do(steps...)
	want := "- The queue t.delay-02 has a TTL of 1 h, not 4 s. Messages leave it late. The next apply recreates " +
		"it, if it is empty.\n"
	if text := harness.WarningText(p.Refresh(t.Context())); !strings.Contains(text, want) ||
		strings.Count(text, "\n- ") != 1 {
		t.Errorf("a longer TTL: %s", text)
	}

	v.DeclareQueue("orders", nil)
	d := harness.NewProtocolOf(t, harness.DestinationType, v.Broker, nil)
	bound := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 13, "address": "orders",
		"queue": "orders"}
	d.MustApply(bound)
	v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "orders"}})
	if text := harness.WarningText(d.Refresh(t.Context())); !strings.Contains(text,
		"is gone. Messages for the address "+
			`"orders" do not get to queue "orders". The next apply makes it again.`) {
		t.Errorf("a destination: %s", text)
	}

	for name := range desired.Exchanges {
		v.Do(plan.DeleteExchange{Name: name})
	}
	for _, q := range desired.Queues {
		v.Do(plan.DeleteQueue{Queue: q})
	}
	if text := harness.WarningText(p.Refresh(t.Context())); !strings.Contains(text,
		"- The cascade is gone. Publishers "+
			"get an error. Any messages that waited in it are lost. The next apply creates it again.") {
		t.Errorf("nothing left: %s", text)
	}
}
