package provider

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
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
	v := newVhost(t)
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "tasks", "levels": 17})
	expanded := expand(t, cascade.Config{Vhost: v.name, Name: "tasks", Levels: 17, CreateDeliveryExchange: true,
		StrictKeys: true, InternalLevels: true, ParkUnroutable: true})
	tf := newCommandLine(t, "", readExample(t, checksExample, "main.tf"), map[string]string{"vhost": v.name})
	tf.environ = slices.DeleteFunc(tf.environ, func(variable string) bool { return strings.HasPrefix(variable, "TF_LOG") })
	tf.environ = append(tf.environ, v.broker.Environ()...)
	tf.needs("1.5.0") // check blocks

	v.planSays(tf, "Plan: 0 to add", "healthy.txt")
	v.do(topology.Unbind{Binding: topology.Binding{
		Source: "tasks.delay-03", RoutingKey: "*.*.*.*.*.*.*.*.*.*.*.*.*.1.#", DestinationType: topology.ToQueue, Destination: "tasks.delay-03",
	}})
	if len(topology.Diff(expanded, v.objects())) == 0 {
		t.Fatal("nothing is damaged")
	}
	v.try(v.api.PutPolicy(v.name, "short", rabbithole.Policy{Pattern: "^tasks.delay-00$", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"message-ttl": 250}}))
	v.planSays(tf, `policy "short"`, "damaged.txt")
}

// planSays waits for a plan that prints a text, and compares all that it prints with a file beside the example.
func (v *vhost) planSays(tf *commandLine, text, file string) {
	v.Helper()
	var said string
	// A policy takes a moment.
	v.eventually("the plan says "+text, func() bool {
		out, err := tf.run("plan")
		if err != nil {
			v.Fatalf("%v\n%s", err, out)
		}
		said = repeatable(out, v.name)
		return strings.Contains(said, text)
	})
	if os.Getenv("UPDATE_OUTPUT") != "" {
		if err := os.WriteFile(filepath.Join(examples, checksExample, file), []byte(said), 0o600); err != nil {
			v.Fatal(err)
		}
	} else if want := readExample(v, checksExample, file); said != want {
		v.Errorf("the plan says\n%s\nand %s has\n%s", said, file, want)
	}
}

// repeatable is the output without what differs from run to run, and from Terraform to OpenTofu.
func repeatable(out, vhost string) string {
	for _, change := range []struct{ pattern, replacement string }{
		{`(?m)^.*(Reading\.\.\.|Read complete after .*)\n`, ""},
		{`(?s)\n*(Warning: Provider development overrides.*?published\s+releases\.\n)`, ""},
		{`(?s)\n+[─\s]*Note: You didn't use the -out option.*`, "\n"},
		{`OpenTofu`, "Terraform"},
		{`(?m)^ +├─+\n +│ Diff: *\n(?: +│.*\n)+`, ""}, // OpenTofu 1.12
		{regexp.QuoteMeta(vhost), "/"},
		{`arrived after [0-9.]+ms\.`, "arrived after 254.3ms."},
		{`measured_delay = "[0-9.]+s"`, `measured_delay = "1.004s"`},
		{`measured_delay = "[0-9.]+ms"`, `measured_delay = "254.3ms"`},
		{`lateness_ms( +=) [0-9]+`, "lateness_ms${1} 4"},
		{`lateness_ms( +=| is) -[0-9]+`, "lateness_ms${1} -745"},
	} {
		out = regexp.MustCompile(change.pattern).ReplaceAllString(out, change.replacement)
	}
	return strings.TrimSpace(out) + "\n"
}
