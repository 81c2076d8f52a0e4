package acceptance

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// failingStep comes between two operations, or after one.
const failingStep = `resource "terraform_data" "step" {
  %s
  provisioner "local-exec" {
    command = "false"
  }
}
`

// under is a cascade or a ladder t at an address, with further arguments.
func under(kind, address, further string) string {
	arguments := map[string]string{"cascade": "levels = 3", "ladder": `delays = ["1h"]`}[kind]
	return fmt.Sprintf("resource \"rabbitmqdelay_%s\" %q {\n  VHOST\n  name = \"t\"\n  %s\n  %s\n}\n", kind, address,
		arguments, further)
}

// forgets takes an address out of the state.
func forgets(kind, address string) string {
	return fmt.Sprintf("removed {\n  from = rabbitmqdelay_%s.%s\n  lifecycle {\n    destroy = false\n  }\n}\n", kind,
		address)
}

// passes is a hand-over in one plan, from the first configuration to the second one.
type passes struct{ before, after string }

// passings are hand-overs that the plan refuses.
func passings() map[string]passes {
	all := map[string]passes{}
	for _, kind := range []string{"cascade", "ladder"} {
		for _, adopt := range []string{"", "adopt = true"} {
			all[kind+" with a new address "+adopt] = passes{under(kind, "old", adopt),
				fmt.Sprintf(failingStep, "") + under(kind, "new", adopt+"\n  depends_on = [terraform_data.step]")}
		}
		key := func(key string) string { return under(kind, "t", fmt.Sprintf("for_each = toset([%q])", key)) }
		all[kind+" with a new key"] = passes{key("old"), key("new")}
	}
	list := func(names string) string {
		return fmt.Sprintf(`locals {
  names = %s
}

resource "rabbitmqdelay_ladder" "t" {
  count  = length(local.names)
  VHOST
  name   = local.names[count.index]
  delays = ["1h"]
}
`, names)
	}
	all["ladders in a list that gets shorter"] = passes{list(`["m", "t"]`), list(`["t"]`)}
	return all
}

// An address lets go of what another one declares: the plan is an error, whatever lies between the two, and nothing is
// gone. Tried again, it is the same.
func TestPassingIsRefused(t *testing.T) {
	t.Parallel()
	for name, is := range passings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := harness.NewWorkspace(t, harness.NewVhost(t))
			w.MustApply(is.before)
			before := w.Objects()
			for range 2 {
				w.MustRefuse(is.after, "The plan deletes what another resource declares", "moved {", "destroy = false",
					"adopt = true", "terraform state rm", "temporary name", "terraform destroy -refresh=false")
				w.MustHold(before)
			}
			w.Configure(is.before)
			w.MustBeSettled()
			if now := w.Objects(); !maps.Equal(now.Owners, before.Owners) {
				t.Errorf("the owners are %v, not %v", now.Owners, before.Owners)
			}
		})
	}
}

// The ways out that the error names lead out.
func TestWaysToPass(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cascade", "ladder"} {
		for way, do := range map[string]func(w *harness.Workspace){
			"moved": func(w *harness.Workspace) {
				w.Configure(under(kind, "new", "") + fmt.Sprintf(
					"moved {\n  from = rabbitmqdelay_%[1]s.old\n  to   = rabbitmqdelay_%[1]s.new\n}\n", kind))
				output, err := w.Apply()
				if err != nil || !strings.Contains(output, "0 added, 0 changed, 0 destroyed") {
					t.Errorf("with a moved block: %v %s", err, output)
				}
			},
			"removed": func(w *harness.Workspace) {
				w.MustApply(under(kind, "new", "adopt = true") + forgets(kind, "old"))
				w.MustBeSettled()
			},
			"state rm": func(w *harness.Workspace) {
				w.CommandLine.Must("state", "rm", "rabbitmqdelay_"+kind+".old")
				w.MustApply(under(kind, "new", "adopt = true"))
				w.MustBeSettled()
			},
			"destroy": func(w *harness.Workspace) {
				w.Configure(under(kind, "new", ""))
				if output, err := w.CommandLine.Run("destroy", "-auto-approve"); err == nil ||
					!strings.Contains(harness.OneLine(output), "terraform destroy -refresh=false") {
					t.Errorf("a destroy that plans before: %v %s", err, output)
				}
				w.CommandLine.Must("destroy", "-auto-approve", "-refresh=false")
				w.MustHold(topology.New())
				w.MustApply(under(kind, "new", ""))
			},
		} {
			t.Run(kind+" by "+way, func(t *testing.T) {
				t.Parallel()
				w := harness.NewWorkspace(t, harness.NewVhost(t))
				w.MustApply(under(kind, "old", ""))
				before := w.Objects()
				do(w)
				w.MustHold(before)
				w.MustApply("")
				w.MustHold(topology.New())
			})
		}
	}
}

// Two resources swap their names. At any parallelism, the plan is an error that says how to do it.
func TestSwappedNames(t *testing.T) {
	t.Parallel()
	named := func(a, b, adopt string) string {
		one := "resource \"rabbitmqdelay_cascade\" %q {\n  VHOST\n  name   = %q\n  levels = 2\n  %s\n}\n"
		return fmt.Sprintf(one, "a", a, "") + fmt.Sprintf(one, "b", b, adopt)
	}
	w := harness.NewWorkspace(t, harness.NewVhost(t))
	w.MustApply(named("one", "two", ""))
	before := w.Objects()
	for _, parallelism := range []string{"1", "8"} {
		for _, adopt := range []string{"", "adopt = true"} {
			w.Configure(named("two", "one", adopt))
			output, err := w.Apply("-parallelism=" + parallelism)
			if err == nil || !strings.Contains(output, "apply a temporary name for one of the two first") {
				t.Errorf("with parallelism %s and %q: %v %s", parallelism, adopt, err, output)
			}
			w.MustHold(before)
		}
	}
	w.MustApply(named("other", "two", ""))
	w.MustApply(named("other", "one", ""))
	w.MustApply(named("two", "one", ""))
	w.MustBeSettled()
	w.MustHold(before)
}

// One address takes over what another one has, in an apply that does not look at that. From then on, the plan says what
// is wrong, and everything stays with its owner.
func TestTwoAddressesHaveIt(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cascade", "ladder"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := harness.NewWorkspace(t, harness.NewVhost(t))
			a, b := under(kind, "a", ""), under(kind, "b", "adopt = true")
			w.MustApply(a)
			whole := w.Objects()
			w.MustRefuse(a+b, "Two resources declare the same objects")
			w.MustApply(a+b, "-target=rabbitmqdelay_"+kind+".b")
			w.MustRefuse(a+b, "Two resources declare the same objects", "terraform destroy -refresh=false")
			w.MustRefuse(a, "The plan deletes what another resource declares") // b owns it
			w.MustHold(whole)
			if output := w.MustApply(b); !strings.Contains(output, "Left to the "+kind) ||
				!strings.Contains(output, "So the destroy left everything") {
				t.Errorf("the destroy of the other one does not say that all stays: %s", output)
			}
			w.MustHold(whole)
			w.MustBeSettled()
			w.MustApply("")
			w.MustHold(topology.New())
		})
	}
}

// A replacement that creates before it destroys adopts its own objects, and something behind it fails. The next apply
// destroys the deposed object, and nothing is lost.
func TestDeposedIsNotTheCurrentOne(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cascade", "ladder"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := harness.NewWorkspace(t, harness.NewVhost(t))
			const first = "adopt = true\n  lifecycle {\n    create_before_destroy = true\n  }\n"
			w.MustApply(under(kind, "t", first))
			whole := w.Objects()
			w.Configure(under(kind, "t", first) + fmt.Sprintf(failingStep, "depends_on = [rabbitmqdelay_"+kind+".t]"))
			if output, err := w.Apply("-replace=rabbitmqdelay_" + kind + ".t"); err == nil {
				t.Fatalf("the dependent does not fail: %s", output)
			}
			w.MustHold(whole)
			output := w.MustApply(under(kind, "t", first))
			if !strings.Contains(output, "Left to the "+kind) {
				t.Errorf("the plan does not say that the deposed object is left: %s", output)
			}
			w.MustHold(whole)
			w.MustBeSettled()
			w.MustApply("")
			w.MustHold(topology.New())
		})
	}
}
