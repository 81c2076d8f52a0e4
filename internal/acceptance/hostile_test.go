package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const (
	// hostileName clears the screen and reverses the direction of reading; where it is wrapped, it fails a CI job.
	hostileName = "\x1b[2J\u009b2J\u202e\u2066 ::error::wrapped ##vso[task.complete]"
	// hostileText also begins lines. RabbitMQ takes line ends out of the names of exchanges and queues, but not out of
	// other texts.
	hostileText = hostileName + "\n::error::pwned\r\n##[error]pwned"
	// hostileOwn is what the provider's own objects may be called: a control character in their names is refused.
	hostileOwn = "\u202e\u2066 ::error::wrapped ##vso[task.complete]"
)

// mustBeHarmless makes sure that a text for people has nothing that a terminal or a CI log would obey, wherever
// Terraform wraps it.
func mustBeHarmless(t testing.TB, where, text string) {
	t.Helper()
	for _, line := range strings.Split(text, "\n") {
		if strings.ContainsFunc(line, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }) ||
			strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, " ::error") ||
			strings.Contains(line, "##vso[") ||
			strings.Contains(line, "##[") {
			t.Errorf("%s: %q", where, line)
		}
	}
}

// Objects of others have names and arguments that are made to be obeyed. They are listed by warnings, errors, findings
// and lists.
func TestHostileObjects(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	v := harness.NewVhostNamed(t, b, hostileText)
	p := harness.NewProtocol(t, b, nil)
	ctx := t.Context()
	said := 0
	harmless := func(where string, diagnostics []*tfprotov6.Diagnostic) {
		t.Helper()
		if len(diagnostics) == 0 {
			t.Errorf("%s: nothing is said", where)
		}
		for _, d := range diagnostics {
			said++
			mustBeHarmless(t, where, d.Summary)
			if strings.Contains(d.Summary, "\n") {
				t.Errorf("%s: %q", where, d.Summary)
			}
			mustBeHarmless(t, where, d.Detail)
		}
	}
	v.DeclareExchange("others"+hostileName, "topic")
	v.DeclareQueue("others"+hostileName, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t" + hostileOwn, "levels": 3, "delivery_exchange": "d" +
		hostileOwn}
	p.MustApply(given)
	name := func(level int) string { return fmt.Sprintf("t%s.delay-%02d", hostileOwn, level) }
	entry := name(2)

	v.Policy("its"+hostileText, 0, rabbithole.PolicyDefinition{"message-ttl": 250})("00$")
	v.Bind(name(1), hostileText, "queue", "others"+hostileName)
	v.Bind("others"+hostileName, hostileText, "exchange", entry)
	v.Bind("d"+hostileOwn, hostileText, "exchange", "others"+hostileName)
	v.Do(plan.Bind{Binding: topology.Binding{
		Source: name(0), RoutingKey: "x", DestinationType: topology.ToExchange, Destination: "others" + hostileName,
		Arguments: `{"\u202e":"\u001b[2J\u202e"}`,
	}})
	diagnostics := p.Refresh(ctx)
	if text := harness.WarningText(diagnostics); !strings.Contains(text, "messages leave it after 250 ms") {
		t.Errorf("the policy is not warned of: %s", text)
	}
	harmless("a refresh", diagnostics)
	harmless("the plan of a replacement", p.Plan(ctx, given.With(harness.Attributes{"levels": 4})).Diagnostics)
	harmless("a second create", create(p, given))
	harmless("another create", create(p, given.With(harness.Attributes{"lookahead": 1, "queue_type": "classic"})))
	harmless("an import of a level", harness.NewProtocol(t, b, nil).ImportState(ctx, harness.ImportID(v.Name, name(1))))
	harmless("an import of no cascade", harness.NewProtocol(t, b, nil).ImportState(ctx,
		harness.ImportID(v.Name, "others"+hostileName)))
	harmless("a probe", p.Read(ctx, "rabbitmqdelay_probe", harness.Attributes{"vhost": v.Name, "entry_exchange": "no" +
		entry, "delay": "1s"}))
	for _, l := range p.Query(ctx, harness.Attributes{"vhost": v.Name}, true, 0) {
		said++
		mustBeHarmless(t, "a list", l.Name)
	}
	v.Publish(entry, "1.0.0.x", "")
	v.Eventually("a message is parked", func() bool { return v.Depth("t"+hostileOwn+".unroutable") > 0 })
	harmless("a refused destroy", p.Apply(ctx, p.Plan(ctx, nil)))
	v.Purge("t" + hostileOwn + ".unroutable")
	harness.NoErrors(t, p.Refresh(ctx))
	diagnostics = p.Apply(ctx, p.Plan(ctx, nil))
	harness.NoErrors(t, diagnostics)
	harmless("a destroy that leaves the delivery exchange", diagnostics)
	if said < 11 {
		t.Errorf("only %d texts were looked at", said)
	}
}

// The same on a command line: what Terraform prints of warnings, errors, differences and findings, and what it logs. A
// gateway says worse than RabbitMQ does.
func TestAccHostileOutput(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("others"+hostileName, "topic")
	v.DeclareQueue("others"+hostileName, nil)
	var refuse atomic.Bool
	g := harness.NewGateway(t, v.Broker, nil, func(w http.ResponseWriter, _ *http.Request) bool {
		if refuse.Load() {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": hostileText, "reason": "it said: " + hostileText})
		}
		return refuse.Load()
	})
	tf := harness.NewCommandLine(t, "", `
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

variable "vhost" {}

variable "there" {
  type    = bool
  default = true
}

resource "rabbitmqdelay_cascade" "tasks" {
  vhost  = var.vhost
  name   = "tasks"
  levels = 3
}

# Not before the cascade is there, and not by a reference: a plan that changes it would put this off.
data "rabbitmqdelay_cascade" "tasks" {
  count          = var.there ? 1 : 0
  vhost          = var.vhost
  entry_exchange = "tasks.delay-02"
}

locals {
  findings = flatten(data.rabbitmqdelay_cascade.tasks[*].findings)
}

check "findings" {
  assert {
    condition     = alltrue([for f in local.findings : f.severity == "info"])
    error_message = join("\n", [for f in local.findings : "${f.object}: ${f.cause}: ${f.effect}"])
  }
}
`, map[string]string{"vhost": v.Name})
	tf.Needs("1.5.0") // check blocks
	tf.Environ = append(tf.Environ, v.Broker.Environ()...)
	tf.Environ = append(tf.Environ, "RABBITMQ_ENDPOINT="+g.URL)
	if out, err := tf.Run("apply", "-auto-approve", "-var=there=false"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	v.Policy("its"+hostileText, 0, rabbithole.PolicyDefinition{"message-ttl": 250})("^tasks")
	v.Bind("tasks.delay-01", hostileText, "queue", "others"+hostileName)
	v.Do(plan.Bind{Binding: topology.Binding{
		Source: "tasks.delay-00", RoutingKey: "x", DestinationType: topology.ToExchange, Destination: "others" +
			hostileName, Arguments: `{"a":"` + `\u202e\u001b[2J"}`,
	}})
	if out, err := tf.Run("plan"); err != nil || !strings.Contains(out, "messages leave it after 250 ms") ||
		!strings.Contains(out, "Check block assertion failed") {
		t.Fatalf("the plan does not say all of it: %v\n%s", err, out)
	}
	refuse.Store(true)
	if out, err := tf.Run("plan"); err == nil || !strings.Contains(out, "it said") {
		t.Errorf("the plan does not fail: %v\n%s", err, out)
	}
	mustBeHarmless(t, "the output", tf.Output.String())
	mustBeHarmless(t, "the log", strings.ReplaceAll(tf.Log(), "\t", " "))
}

// create plans and applies on top of nothing.
func create(p *harness.Protocol, configuration harness.Attributes) []*tfprotov6.Diagnostic {
	p.T.Helper()
	fresh := harness.NewProtocolOf(p.T, p.TypeName, brokertest.Shared(p.T), nil)
	return fresh.Apply(p.T.Context(), fresh.Plan(p.T.Context(), configuration))
}
