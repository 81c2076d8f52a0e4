package acceptance

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// checksExample is a configuration with check blocks, and what a plan says on a healthy and on a damaged cascade.
const checksExample = "checks"

// TestAccChecks plans the example, before and after a damage. UPDATE_OUTPUT=1 writes the output that the guide shows.
func TestAccChecks(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := harness.NewVhost(t)
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "orders",
		"max_delay": "30m"})
	expanded := harness.Expand(t, delay.Config{Vhost: v.Name, Name: "orders", MaxDelay: 30 * time.Minute,
		CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true})
	tf := harness.NewCommandLine(t, "", docstest.ReadExample(t, checksExample, "main.tf"),
		map[string]string{"vhost": v.Name})
	tf.Environ = slices.DeleteFunc(tf.Environ, func(variable string) bool {
		return strings.HasPrefix(variable, "TF_LOG")
	})
	tf.Environ = append(tf.Environ, v.Broker.Environ()...)
	tf.Needs("1.5.0") // check blocks

	planSays(v, tf, "Plan: 0 to add", "healthy.txt")
	v.Do(plan.Unbind{Binding: topology.Binding{
		Source: "orders.d.h.m.s", RoutingKey: "0.0.30.*.*.#", DestinationType: topology.ToQueue,
		Destination: "orders.30m",
	}})
	if len(plan.Repair(expanded, v.Objects())) == 0 {
		t.Fatal("nothing is damaged")
	}
	v.Try(v.API.PutPolicy(v.Name, "short", rabbithole.Policy{Pattern: "^orders.1s$", ApplyTo: "queues",
		Definition: rabbithole.PolicyDefinition{"message-ttl": 250}}))
	planSays(v, tf, `policy "short"`, "damaged.txt")
}

// TestAccVerdict has the program of the guide judge plans of a cascade and of its checks: alone, and where several
// things are true.
func TestAccVerdict(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil && os.Getenv("CI") != "" {
		t.Fatal("CI has to run the program of the guide: there is no python3")
	} else if err != nil {
		t.Skip("the program of the guide needs python3")
	}
	v := harness.NewVhost(t)
	watched := func(configuration string) *harness.CommandLine {
		tf := harness.NewCommandLine(t, "", configuration, map[string]string{"vhost": v.Name})
		tf.Environ = slices.DeleteFunc(tf.Environ, func(variable string) bool {
			return strings.HasPrefix(variable, "TF_LOG")
		})
		tf.Environ = append(tf.Environ, v.Broker.Environ()...)
		return tf
	}
	checks := watched(docstest.ReadExample(t, checksExample, "main.tf"))
	checks.Needs("1.5.0") // check blocks
	head, _, _ := strings.Cut(docstest.ReadExample(t, checksExample, "main.tf"), "data ")
	own := watched(head + `
resource "rabbitmqdelay_cascade" "orders" {
  vhost     = var.vhost
  name      = "orders"
  max_delay = "30m"
}
`)
	if out, err := own.Run("apply", "-auto-approve"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const well, drift, check, finding, failed, silent = 0, 2, 3, 4, 5, 6

	verdict(own, well, "all is well")
	verdict(checks, well, "all is well")

	v.Publish("orders.d.h.m.s", "malformed", "")
	v.Eventually("the count is up to date", func() bool { return v.Counted("orders.unroutable") == 1 })
	verdict(own, well, "all is well")
	verdict(checks, check, `failed check: check "orders_are_delayed_as_declared": Check block assertion failed: `+
		`Messages with a malformed key`)

	v.Do(plan.Unbind{Binding: topology.Binding{
		Source: "orders.d.h.m.s", RoutingKey: "0.0.30.*.*.#", DestinationType: topology.ToQueue,
		Destination: "orders.30m",
	}})
	verdict(own, drift, "drift: rabbitmqdelay_cascade.orders: update",
		"drift: rabbitmqdelay_cascade.orders: Objects are not as declared: ",
		"The binding of exchange orders.d.h.m.s to queue orders.30m with key ",
		"is gone. Messages with such a key are parked. The next apply makes it again.")
	verdict(checks, finding, "failed check: ", `finding: check "orders_are_delayed_as_declared"`)

	v.Try(v.API.PutPolicy(v.Name, "short", rabbithole.Policy{Pattern: "^orders.1s$", ApplyTo: "queues",
		Definition: rabbithole.PolicyDefinition{"message-ttl": 250}}))
	verdict(own, finding, "drift: ", "finding: rabbitmqdelay_cascade.orders: Something changes what happens to "+
		"messages: ", "messages leave it after 250 ms instead of 1 s")
	verdict(checks, finding, "failed check: ", `policy "short"`, `check "orders_arrive"`)

	if out, err := own.Run("apply", "-auto-approve"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	verdict(own, finding, "finding: ")

	const probed = `
check "orders_arrive" {
  data "rabbitmqdelay_probe" "orders" {
    vhost          = var.vhost
    entry_exchange = "orders.d.h.m.s"
    delay          = "4s"
    tolerance      = "1s"
  }

  assert {
    condition     = data.rabbitmqdelay_probe.orders.lateness_ms >= 0
    error_message = "It is early."
  }
}
`
	const atOnce = `
provider "rabbitmqdelay" {
  request_timeout = "1s"
  retry_timeout   = "0s"
}
`
	probe := watched(head + probed)
	v.Do(plan.Unbind{Binding: topology.Binding{
		Source: "orders.d.h.m.s", RoutingKey: "0.0.0.4.*.#", DestinationType: topology.ToQueue,
		Destination: "orders.4s",
	}})
	verdict(probe, check, "failed check: data.rabbitmqdelay_probe.orders: ", "has not arrived")
	probe.Environ = append(probe.Environ, "RABBITMQ_PASSWORD=wrong")
	verdict(probe, failed, "error: data.rabbitmqdelay_probe.orders: RabbitMQ: authentication failed")
	away := watched(head + probed + atOnce)
	away.Environ = append(away.Environ, "RABBITMQ_ENDPOINT=http://127.0.0.1:1")
	verdict(away, silent, "no answer: data.rabbitmqdelay_probe.orders: RabbitMQ: broker not reachable")
	away.Environ = append(away.Environ, "RABBITMQ_ENDPOINT="+
		serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	verdict(away, silent, "no answer: data.rabbitmqdelay_probe.orders: RabbitMQ: broker does not answer")

	checks.Environ = append(checks.Environ, "RABBITMQ_PASSWORD=wrong")
	verdict(checks, failed, "error: data.rabbitmqdelay_cascade.orders: RabbitMQ: authentication failed")
	checks = watched(docstest.ReadExample(t, checksExample, "main.tf") + atOnce)
	checks.Environ = append(checks.Environ, "RABBITMQ_ENDPOINT=http://127.0.0.1:1")
	verdict(checks, silent, "no answer: data.rabbitmqdelay_cascade.orders: RabbitMQ: broker not reachable")

	if err := os.WriteFile(filepath.Join(own.Directory, "main.tf"), []byte(head+"resource {"), 0o600); err != nil {
		t.Fatal(err)
	}
	verdict(own, failed, "error: ")
	judge(own, nil, failed, "error: the plan is not complete")
}

// probes is how often a plan with a probe is made, until it says what it has to. A busy machine may hold up the message
// of the probe, of which the plan then has something else to say.
const probes = 4

// verdict plans as the guide does, and checks what the program says: the exit code, and as many lines as there are
// texts or more.
func verdict(tf *harness.CommandLine, code int, says ...string) {
	tf.T.Helper()
	var wrong []string
	for try := 1; try == 1 || len(wrong) > 0 && try <= probes; try++ {
		out, err := tf.Command("plan", "-json", "-input=false").Output()
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			tf.T.Fatal(err)
		}
		wrong = judged(tf, out, code, says...)
	}
	for _, text := range wrong {
		tf.T.Error(text)
	}
}

// judge checks what the program says of a plan.
func judge(tf *harness.CommandLine, todo []byte, code int, says ...string) {
	tf.T.Helper()
	for _, text := range judged(tf, todo, code, says...) {
		tf.T.Error(text)
	}
}

// judged says how the program fails to say it.
func judged(tf *harness.CommandLine, todo []byte, code int, says ...string) (wrong []string) {
	tf.T.Helper()
	program, err := filepath.Abs(filepath.Join(docstest.Examples, checksExample, "verdict.py"))
	if err != nil {
		tf.T.Fatal(err)
	}
	command := exec.CommandContext(tf.T.Context(), "python3", program)
	command.Stdin = bytes.NewReader(todo)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		tf.T.Fatal(err)
	}
	if got := command.ProcessState.ExitCode(); got != code {
		wrong = append(wrong, fmt.Sprintf("the exit code is %d, not %d:\n%s\nof\n%s", got, code, out, todo))
	}
	for _, text := range says {
		if !strings.Contains(string(out), text) {
			wrong = append(wrong, fmt.Sprintf("nothing says %q:\n%s\nof\n%s", text, out, todo))
		}
	}
	return wrong
}

// The program knows findings and an absent broker by the provider's summaries.
func TestVerdictKnowsTheSummaries(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob(filepath.Join("..", "provider", "diagnose", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, name := range append(sources, filepath.Join("..", "rabbit", "errors.go")) {
		text, err := os.ReadFile(name) //nolint:gosec // of this repository
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			source.Write(text)
		}
	}
	summaries := regexp.MustCompile(`(?m)^    "(?:RabbitMQ: )?(.*)",$`).FindAllStringSubmatch(
		docstest.ReadExample(t, checksExample, "verdict.py"), -1)
	if len(summaries) < 7 {
		t.Errorf("the program knows only %q", summaries)
	}
	for _, summary := range summaries {
		whole, beginning := `"`+summary[1]+`"`, `"`+summary[1]+`: `
		if !strings.Contains(source.String(), whole) && !strings.Contains(source.String(), beginning) {
			t.Errorf("nothing in the provider says %q", summary[1])
		}
	}
}

// planSays has a plan print a text, and compares all that it prints with a file beside the example.
func planSays(v *harness.Vhost, tf *harness.CommandLine, text, file string) {
	v.T.Helper()
	planned := func() string {
		v.T.Helper()
		out, err := tf.Run("plan")
		if err != nil || !strings.Contains(out, text) {
			v.T.Fatalf("the plan does not say %q: %v\n%s", text, err, out)
		}
		return repeatable(out, v.Name)
	}
	said := planned()
	if os.Getenv("UPDATE_OUTPUT") != "" {
		if err := os.WriteFile(filepath.Join(docstest.Examples, checksExample, file), []byte(said), 0o600); err != nil {
			v.T.Fatal(err)
		}
		return
	}
	want := docstest.ReadExample(v.T, checksExample, file)
	for try := 1; said != want && try < probes; try++ {
		said = planned()
	}
	if said != want {
		v.T.Errorf("the plan says\n%s\nand %s has\n%s", said, file, want)
	}
}

// repeatable is the output without what differs from run to run, and from Terraform to OpenTofu.
func repeatable(out, vhost string) string {
	for _, change := range []struct{ pattern, replacement string }{
		{`(?m)^.*(Reading\.\.\.|Read complete after .*)\n`, ""},
		{`(?s)\n*(Warning: Provider development overrides.*?published\s+releases\.\n)`, ""},
		{`(?s)\n+[─\s]*Note: You didn't use the -out option.*`, "\n"},
		{`OpenTofu`, "Terraform"},
		{` \(current -> planned\)`, ""},               // OpenTofu 1.12
		{`(?m)^ +# \(imported from "[^"]*"\)\n`, ""},  // likewise
		{`(?m)^ +├─+\n +│ Diff: *\n(?: +│.*\n)+`, ""}, // OpenTofu 1.12
		{regexp.QuoteMeta(vhost), "/"},
		{`arrived after [0-9]+ms\.`, "arrived after 254ms."},
		{`measured_delay = "[0-9]+s[^"]*"`, `measured_delay = "1s4ms"`},
		{`measured_delay = "[0-9]+ms"`, `measured_delay = "254ms"`},
		{`lateness_ms( +=) [0-9]+`, "lateness_ms${1} 4"},
		{`lateness_ms( +=| is) -[0-9]+`, "lateness_ms${1} -746"},
	} {
		out = regexp.MustCompile(change.pattern).ReplaceAllString(out, change.replacement)
	}
	return strings.TrimSpace(out) + "\n"
}
