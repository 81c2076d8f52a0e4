package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// plansDirectory holds plans as people read them in a pull request. TestAccPlanTexts compares them, and UPDATE_OUTPUT=1
// writes them anew.
const plansDirectory = "testdata/plans"

// The texts of plans: of new resources, of each damage, and of each kind of change.
func TestAccPlanTexts(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	t.Run("create", func(t *testing.T) {
		t.Parallel()
		v := newVhost(t)
		tf := v.commandLine()
		v.planReads(tf, "create-base-10.txt", cascadeOf("base = 10", "levels = 2"))
		v.planReads(tf, "create-ladder.txt", block("rabbitmqdelay_ladder", "retry", `name = "retry"`,
			`delays = ["5s", "1m", "36h"]`))
		v.planReads(tf, "create-preset.txt", block(cascadeType, "celery", `preset = "celery"`))
	})
	t.Run("damage and change", func(t *testing.T) {
		t.Parallel()
		newVhost(t).planReadsAfterDamages()
	})
}

func (v *vhost) planReadsAfterDamages() {
	tf := v.commandLine()
	usual := cascadeOf("levels = 3")
	v.planReads(tf, "create-base-2.txt", usual)
	tf.mustRun("apply", "-no-color", "plan")
	expanded := expand(v, delay.Config{Vhost: v.name, Name: "tasks", Levels: 3, CreateDeliveryExchange: true,
		StrictKeys: true, InternalLevels: true, ParkUnroutable: true})
	v.declareQueue("audit", nil)

	lowest := expanded.Queues["tasks.delay-00"]
	unbind := func() {
		v.do(plan.Unbind{Binding: topology.Binding{Source: "tasks.delay-01", RoutingKey: "*.1.#",
			DestinationType: topology.ToQueue, Destination: "tasks.delay-01"}})
	}
	bind := func() { v.bind("tasks.delay-01", "audit.#", "queue", "audit") }
	for _, damage := range []struct {
		file string
		do   func()
	}{
		{"missing-queue.txt", func() { v.do(plan.DeleteQueue{Queue: lowest}) }},
		{"changed-ttl.txt", func() {
			v.do(plan.DeleteQueue{Queue: lowest})
			arguments := map[string]any{"x-message-ttl": 5000}
			for key, value := range lowest.Arguments {
				if key != "x-message-ttl" {
					arguments[key] = value
				}
			}
			v.declareQueue(lowest.Name, arguments)
			for b := range expanded.Bindings {
				if b.LeadsInto(map[string]topology.Queue{lowest.Name: lowest}) {
					v.do(plan.Bind{Binding: b})
				}
			}
		}},
		{"foreign-binding.txt", bind},
		{"missing-binding.txt", unbind},
		{"foreign-and-missing-binding.txt", func() { bind(); unbind() }},
		{"missing-exchange.txt", func() { v.do(plan.DeleteExchange{Name: "tasks.delay-00"}) }},
	} {
		damage.do()
		v.planReads(tf, damage.file, usual)
		v.do(plan.Repair(expanded, v.objects()).Steps()...)
	}

	v.do(plan.DeleteQueue{Queue: lowest})
	bind()
	v.planLooks(tf, "drift.ansi", usual)
	v.do(plan.Repair(expanded, v.objects()).Steps()...)

	v.planReads(tf, "change-of-lookahead.txt", cascadeOf("levels = 3", "lookahead = 1"))
	v.planReads(tf, "rebuild.txt", cascadeOf("levels = 3", `queue_type = "classic"`))
	v.planReads(tf, "replacement.txt", cascadeOf("levels = 4"))

	tf.needs("1.5.0") // import blocks
	fresh := v.commandLine()
	v.planReads(fresh, "import.txt", usual+fmt.Sprintf("\nimport {\n  to = rabbitmqdelay_cascade.tasks\n  id = %q\n}\n",
		importID(v.name, "tasks.delay-02")))
}

// A comment in a pull request holds 65,536 characters.
func TestAccPlanSizes(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := newVhost(t)
	tf := v.commandLine()
	if n := utf8.RuneCountInString(tf.planText(cascadeOf("base = 10", "levels = 8"))); n > 40_000 {
		t.Errorf("the plan of eight levels in base 10 has %d characters", n)
	}
	usual := cascadeOf("levels = 28")
	if n := utf8.RuneCountInString(tf.planText(usual)); n > 45_000 {
		t.Errorf("the plan of 28 levels has %d characters", n)
	}
	tf.mustRun("apply", "-no-color", "plan")
	v.do(plan.DeleteQueue{Queue: topology.Queue{Name: "tasks.delay-12"}})
	v.declareQueue("audit", nil)
	v.bind("tasks.delay-20", "audit.#", "queue", "audit")
	text := tf.planText(usual)
	if n := strings.Count(text, "\n"); n > 110 {
		t.Errorf("the plan for a missing queue and a foreign binding has %d lines:\n%s", n, text)
	}
	if strings.Contains(text, `" -> "`) {
		t.Errorf("something shows as another one:\n%s", text)
	}
}

// commandLine has the provider configured for the broker.
func (v *vhost) commandLine() *commandLine {
	v.Helper()
	tf := newCommandLine(v, "", "", map[string]string{"vhost": v.name})
	tf.environ = slices.DeleteFunc(tf.environ, func(variable string) bool {
		return strings.HasPrefix(variable, "TF_LOG")
	})
	tf.environ = append(tf.environ, v.broker.Environ()...)
	return tf
}

func cascadeOf(attributes ...string) string {
	return block(cascadeType, "tasks", append([]string{`name = "tasks"`}, attributes...)...)
}

// block is a configuration of one resource in the vhost.
func block(typeName, name string, attributes ...string) string {
	const head = `terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

variable "vhost" {}

`
	return head + fmt.Sprintf("resource %q %q {\n  vhost = var.vhost\n  %s\n}\n", typeName, name,
		strings.Join(attributes, "\n  "))
}

// planText writes a plan of the configuration into the file "plan", and is what a comment has of it.
func (tf *commandLine) planText(configuration string) string {
	tf.t.Helper()
	if err := os.WriteFile(filepath.Join(tf.directory, "main.tf"), []byte(configuration), 0o600); err != nil {
		tf.t.Fatal(err)
	}
	tf.mustRun("plan", "-input=false", "-out=plan")
	return tf.mustRun("show", "-no-color", "plan")
}

// mustRun runs a command that has to succeed, and returns what it prints.
func (tf *commandLine) mustRun(arguments ...string) string {
	tf.t.Helper()
	command := tf.command(arguments...)
	out, err := command.Output()
	if err != nil {
		tf.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// planReads compares the plan of a configuration with the text in a file.
func (v *vhost) planReads(tf *commandLine, file, configuration string) {
	v.Helper()
	v.compareOutput(filepath.Join(plansDirectory, file), repeatable(tf.planText(configuration), v.name))
}

// planLooks compares a plan as a terminal gets it, colours included.
func (v *vhost) planLooks(tf *commandLine, file, configuration string) {
	v.Helper()
	tf.planText(configuration)
	command := tf.command("show", "-no-color", "plan")
	command.Args = slices.DeleteFunc(command.Args, func(option string) bool { return option == "-no-color" })
	out, err := command.Output()
	if err != nil {
		v.Fatal(err)
	}
	v.compareOutput(filepath.Join(plansDirectory, file), repeatable(string(out), v.name))
}

func (v *vhost) compareOutput(path, got string) {
	v.Helper()
	if os.Getenv("UPDATE_OUTPUT") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			v.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // of this repository
	if err != nil {
		v.Fatal(err)
	}
	if got != string(want) {
		v.Errorf("the plan reads\n%s\nand %s has\n%s", got, path, want)
	}
}
