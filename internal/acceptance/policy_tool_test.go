package acceptance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// policyExample has rules for a policy tool that reads a plan.
const policyExample = "policy"

// TestAccPolicyTool plans configurations that keep the rules of the example, and that break each of them. They break it
// by a written value, by a preset, and perhaps by a value that the plan does not know.
func TestAccPolicyTool(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	opa, err := filepath.Abs("../../.cache/bin/opa")
	if err == nil {
		_, err = os.Stat(opa)
	}
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("CI has to run the rules: %v", err)
	} else if err != nil {
		t.Skip("the rules need OPA: run make .cache/bin/opa")
	}
	for name, test := range map[string]struct {
		configuration, module string
		deny, warn            []string
	}{
		"good": {configuration: `
resource "rabbitmqdelay_cascade" "defaults" {
  count  = 2
  name   = "tasks-${count.index}"
  levels = 24 # 194 days
}

resource "rabbitmqdelay_cascade" "units" {
  name = "units"
}

module "wheel" {
  source   = "./module"
  for_each = toset(["a"])
  name     = each.key
}
`, module: `
resource "rabbitmqdelay_cascade" "this" {
  name          = var.name
  base          = 10
  max_delay     = "30d"
  queue_type    = "quorum"
  force_destroy = false
}
`},
		"bad": {configuration: `
resource "rabbitmqdelay_cascade" "classic" {
  count      = 2
  name       = "tasks-${count.index}"
  levels     = 4
  queue_type = "classic"
}

resource "rabbitmqdelay_cascade" "long" {
  name      = "long"
  base      = 2
  max_delay = "300d" # which takes 25 levels: 388 days
}

resource "rabbitmqdelay_cascade" "preset" {
  preset = "celery_classic"
}

resource "rabbitmqdelay_cascade" "units" {
  name       = "units"
  max_delay  = "365d"
  queue_type = "classic"
}

module "wheel" {
  source   = "./module"
  for_each = toset(["a"])
  name     = each.key
}

resource "terraform_data" "later" {
  input = { max_delay = "36h", queue_type = "quorum", force_destroy = false }
}

resource "rabbitmqdelay_cascade" "unknown" {
  name          = "unknown"
  max_delay     = terraform_data.later.output.max_delay
  queue_type    = terraform_data.later.output.queue_type
  force_destroy = terraform_data.later.output.force_destroy
}
`, module: `
resource "rabbitmqdelay_cascade" "this" {
  name          = var.name
  levels        = 4
  force_destroy = true
}
`, deny: []string{
			`module.wheel["a"].rabbitmqdelay_cascade.this: force_destroy deletes the messages that wait`,
			`rabbitmqdelay_cascade.classic[0]: classic queues are not replicated; use queue_type = "quorum"`,
			`rabbitmqdelay_cascade.classic[1]: classic queues are not replicated; use queue_type = "quorum"`,
			`rabbitmqdelay_cascade.long: the longest delay is 388 days; keep it under a year`,
			`rabbitmqdelay_cascade.preset: classic queues are not replicated; use queue_type = "quorum"`,
			`rabbitmqdelay_cascade.preset: the longest delay is 3106 days; keep it under a year`,
			`rabbitmqdelay_cascade.units: classic queues are not replicated; use queue_type = "quorum"`,
			`rabbitmqdelay_cascade.units: the longest delay is 365 days; keep it under a year`,
		}, warn: []string{
			"rabbitmqdelay_cascade.unknown: force_destroy is not known before the apply",
			"rabbitmqdelay_cascade.unknown: max_delay is not known before the apply",
			"rabbitmqdelay_cascade.unknown: queue_type is not known before the apply",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := judgePlan(t, opa, planned(t, test.configuration, test.module))
			if !slices.Equal(said.Deny, test.deny) || !slices.Equal(said.Warn, test.warn) {
				t.Errorf("the rules deny\n%s\nand warn of\n%s", strings.Join(said.Deny, "\n"),
					strings.Join(said.Warn, "\n"))
			}
		})
	}
}

// planned is a plan as JSON, of a configuration and a module of it.
func planned(t *testing.T, configuration, module string) (plan []byte) {
	t.Helper()
	head, _, _ := strings.Cut(docstest.ReadExample(t, checksExample, "main.tf"), "variable ")
	tf := harness.NewCommandLine(t, "", head+configuration, nil)
	tf.Environ = slices.DeleteFunc(tf.Environ, func(variable string) bool {
		return strings.HasPrefix(variable, "TF_LOG")
	})
	tf.Environ = append(tf.Environ, brokertest.Shared(t).Environ()...)
	directory := filepath.Join(tf.Directory, "module")
	err := os.Mkdir(directory, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, "main.tf"), []byte(head+"variable \"name\" {}\n"+module), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{{"get"}, {"plan", "-out=plan"}} {
		if out, err := tf.Run(arguments...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	show := tf.Command("show", "-json")
	show.Args = append(show.Args, "plan")
	if plan, err = show.Output(); err != nil {
		t.Fatal(err)
	}
	return plan
}

// verdicts are what the rules say of a plan.
type verdicts struct{ Deny, Warn []string }

func judgePlan(t *testing.T, opa string, plan []byte) verdicts {
	t.Helper()
	input := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(input, plan, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), opa, filepath.Join(docstest.Examples, policyExample, "cascades.rego"),
		input).CombinedOutput()
	var said verdicts
	if err == nil {
		err = json.Unmarshal(out, &said)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return said
}
