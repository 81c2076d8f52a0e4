package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
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
		v := harness.NewVhost(t)
		tf := v.CommandLine()
		planReads(v, tf, "create-base-10.txt", cascadeOf("base = 10", "levels = 2"))
		planReads(v, tf, "create-ladder.txt", block("rabbitmqdelay_ladder", "retry", `name = "retry"`,
			`delays = ["5s", "1m", "36h"]`))
		planReads(v, tf, "create-preset.txt", block(harness.CascadeType, "celery", `preset = "celery"`))
	})
	t.Run("damage and change", func(t *testing.T) {
		t.Parallel()
		planReadsAfterDamages(harness.NewVhost(t))
	})
	t.Run("picture", func(t *testing.T) {
		t.Parallel()
		planOfThePicture(harness.NewLargeVhost(t))
	})
}

// planOfThePicture is of the default cascade, which the README declares.
func planOfThePicture(v *harness.Vhost) {
	tf := v.CommandLine()
	configuration := block(harness.CascadeType, "orders", `name = "orders"`)
	planText(tf, configuration)
	tf.MustRun("apply", "-no-color", "plan")
	v.DeclareQueue("audit", nil)
	v.Bind("orders.s", "#", "queue", "audit")
	v.Do(plan.Unbind{Binding: topology.Binding{Source: "orders.s", RoutingKey: "*.*.*.30.#",
		DestinationType: topology.ToQueue, Destination: "orders.30s"}})
	planLooks(v, tf, "drift.ansi", configuration)
}

func planReadsAfterDamages(v *harness.Vhost) {
	tf := v.CommandLine()
	usual := cascadeOf("levels = 3")
	planReads(v, tf, "create-base-2.txt", usual)
	tf.MustRun("apply", "-no-color", "plan")
	expanded := harness.Expand(v.T, delay.Config{Vhost: v.Name, Name: "tasks", Levels: 3, CreateDeliveryExchange: true,
		StrictKeys: true, ParkUnroutable: true})
	v.DeclareQueue("audit", nil)

	lowest := expanded.Queues["tasks.delay-00"]
	unbind := func() {
		v.Do(plan.Unbind{Binding: topology.Binding{Source: "tasks.delay-01", RoutingKey: "*.1.#",
			DestinationType: topology.ToQueue, Destination: "tasks.delay-01"}})
	}
	bind := func() { v.Bind("tasks.delay-01", "audit.#", "queue", "audit") }
	for _, damage := range []struct {
		file string
		do   func()
	}{
		{"missing-queue.txt", func() { v.Do(plan.DeleteQueue{Queue: lowest}) }},
		{"changed-ttl.txt", func() {
			v.Do(plan.DeleteQueue{Queue: lowest})
			arguments := map[string]any{"x-message-ttl": 5000}
			for key, value := range lowest.Arguments {
				if key != "x-message-ttl" {
					arguments[key] = value
				}
			}
			v.DeclareQueue(lowest.Name, arguments)
			for b := range expanded.Bindings {
				if b.LeadsInto(map[string]topology.Queue{lowest.Name: lowest}) {
					v.Do(plan.Bind{Binding: b})
				}
			}
		}},
		{"foreign-binding.txt", bind},
		{"missing-binding.txt", unbind},
		{"foreign-and-missing-binding.txt", func() { bind(); unbind() }},
		{"missing-exchange.txt", func() { v.Do(plan.DeleteExchange{Name: "tasks.delay-00"}) }},
	} {
		damage.do()
		planReads(v, tf, damage.file, usual)
		v.Do(plan.Repair(expanded, v.Objects()).Steps()...)
	}

	planReads(v, tf, "change-of-lookahead.txt", cascadeOf("levels = 3", "lookahead = 1"))
	planReads(v, tf, "rebuild.txt", cascadeOf("levels = 3", `queue_type = "classic"`))
	planReads(v, tf, "replacement.txt", cascadeOf("levels = 4"))

	tf.Needs("1.5.0") // import blocks
	fresh := v.CommandLine()
	planReads(v, fresh, "import.txt",
		usual+fmt.Sprintf("\nimport {\n  to = rabbitmqdelay_cascade.tasks\n  id = %q\n}\n",
			harness.ImportID(v.Name, "tasks.delay-02")))
}

// A comment in a pull request holds 65,536 characters.
func TestAccPlanSizes(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := harness.NewVhost(t)
	tf := v.CommandLine()
	if n := utf8.RuneCountInString(planText(tf, cascadeOf("base = 10", "levels = 8"))); n > 40_000 {
		t.Errorf("the plan of eight levels in base 10 has %d characters", n)
	}
	usual := cascadeOf("levels = 28")
	if n := utf8.RuneCountInString(planText(tf, usual)); n > 45_000 {
		t.Errorf("the plan of 28 levels has %d characters", n)
	}
	tf.MustRun("apply", "-no-color", "plan")
	v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "tasks.delay-12"}})
	v.DeclareQueue("audit", nil)
	v.Bind("tasks.delay-20", "audit.#", "queue", "audit")
	text := planText(tf, usual)
	if n := strings.Count(text, "\n"); n > 110 {
		t.Errorf("the plan for a missing queue and a foreign binding has %d lines:\n%s", n, text)
	}
	if strings.Contains(text, `" -> "`) {
		t.Errorf("something shows as another one:\n%s", text)
	}
}

func cascadeOf(attributes ...string) string {
	return block(harness.CascadeType, "tasks", append([]string{`name = "tasks"`}, attributes...)...)
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
func planText(tf *harness.CommandLine, configuration string) string {
	tf.T.Helper()
	if err := os.WriteFile(filepath.Join(tf.Directory, "main.tf"), []byte(configuration), 0o600); err != nil {
		tf.T.Fatal(err)
	}
	tf.MustRun("plan", "-input=false", "-out=plan")
	return tf.MustRun("show", "-no-color", "plan")
}

// planReads compares the plan of a configuration with the text in a file.
func planReads(v *harness.Vhost, tf *harness.CommandLine, file, configuration string) {
	v.T.Helper()
	compareOutput(v, filepath.Join(plansDirectory, file), repeatable(planText(tf, configuration), v.Name))
}

// planLooks compares a plan as a terminal gets it, colours included.
func planLooks(v *harness.Vhost, tf *harness.CommandLine, file, configuration string) {
	v.T.Helper()
	planText(tf, configuration)
	command := tf.Command("show", "-no-color", "plan")
	command.Args = slices.DeleteFunc(command.Args, func(option string) bool { return option == "-no-color" })
	out, err := command.Output()
	if err != nil {
		v.T.Fatal(err)
	}
	text := string(out)
	// Terraform 1.16 shows the same colours, and ends them in other places.
	if before, figures, isNew := strings.Cut(text, "Plan:\x1b[0m \x1b[0m"); isNew {
		text = before + "Plan:\x1b[0m " + figures + "\x1b[0m\n"
	}
	compareOutput(v, filepath.Join(plansDirectory, file), repeatable(text, v.Name))
}

func compareOutput(v *harness.Vhost, path, got string) {
	v.T.Helper()
	if os.Getenv("UPDATE_OUTPUT") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			v.T.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // of this repository
	if err != nil {
		v.T.Fatal(err)
	}
	if got != string(want) {
		v.T.Errorf("the plan reads\n%s\nand %s has\n%s", got, path, want)
	}
}
