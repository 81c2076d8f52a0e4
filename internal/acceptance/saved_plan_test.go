package acceptance

import (
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// long are the arguments of a cascade or ladder in which a message for the entry waits for hours, in the queue.
var long = map[string]struct{ arguments, entry, key, queue string }{
	"cascade": {`resolution = "1h"`, "t.delay-02", "1.0.0.there", "t.delay-02"},
	"ladder":  {"", "t.entry", "1h.there", "t.delay-1h"},
}

// savePlan applies the first configuration, sends a message, and saves a plan of the second one.
func savePlan(w *harness.Workspace, kind, before, after string, arguments ...string) {
	w.T.Helper()
	w.MustApply(before)
	w.Publish(long[kind].entry, long[kind].key, "waits")
	w.Eventually("the message waits", func() bool { return w.Depth(long[kind].queue) == 1 })
	w.Configure(after)
	w.CommandLine.Must(append([]string{"plan", "-out=saved"}, arguments...)...)
}

// applySaved applies the plan that was saved.
func applySaved(w *harness.Workspace) (output string, succeeds bool) {
	output, err := w.CommandLine.Run("apply", "saved")
	return harness.OneLine(output), err == nil
}

// Another state takes over what a saved plan changes. Whatever the plan was to do, nothing happens, and a message that
// waits goes on waiting.
func TestSavedPlanOfWhatWasTakenOver(t *testing.T) {
	t.Parallel()
	for kind, is := range long {
		owned, left := "Another resource owns the "+kind, "So the destroy left everything"
		for name, saved := range map[string]struct {
			further, argument string
			succeeds          bool
			says              string
		}{
			"an update":      {`drain_timeout = "1s"`, "-refresh=true", false, owned},
			"a blind update": {`drain_timeout = "1s"`, "-refresh=false", false, owned},
			"a rebuild":      {`queue_type = "classic"`, "-refresh=true", false, owned},
			"a replacement":  {"", "-replace=rabbitmqdelay_" + kind + ".t", false, left},
			"a destroy":      {"", "-destroy", true, left},
		} {
			t.Run(name+" of a "+kind, func(t *testing.T) {
				t.Parallel()
				w := harness.NewWorkspace(t, harness.NewVhost(t))
				other := harness.NewWorkspace(t, w.Vhost)
				savePlan(w, kind, under(kind, "t", is.arguments), under(kind, "t", is.arguments+"\n  "+saved.further),
					saved.argument)
				before := w.Objects()
				other.MustApply(under(kind, "t", is.arguments+"\n  adopt = true"))
				output, succeeds := applySaved(w)
				if succeeds != saved.succeeds || !strings.Contains(output, saved.says) {
					t.Errorf("the apply succeeds: %t, and does not say %q: %s", succeeds, saved.says, output)
				}
				w.MustHold(before)
				other.MustBeSettled()
				if n := w.Depth(is.queue); n != 1 {
					t.Errorf("%d messages wait", n)
				}
			})
		}
	}
}

// Something else changes the broker after a plan was saved. An update repairs it, and a destroy does not take along the
// message that came.
func TestSavedPlanOfWhatHasChanged(t *testing.T) {
	t.Parallel()
	const kind = "cascade"
	is := long[kind]
	before, after := under(kind, "t", is.arguments), under(kind, "t", is.arguments+"\n  lookahead = 1")

	t.Run("an update", func(t *testing.T) {
		t.Parallel()
		w := harness.NewWorkspace(t, harness.NewVhost(t))
		savePlan(w, kind, before, after)
		there := w.Objects()
		w.Do(plan.DeleteQueue{Queue: there.Queues["t.delay-00"]})
		w.Bind("t.delay-01", "#.foreign", "queue", is.queue)
		if output, succeeds := applySaved(w); !succeeds {
			t.Errorf("the apply fails: %s", output)
		}
		w.MustBeSettled()
		if n := w.Depth(is.queue); n != 1 {
			t.Errorf("%d messages wait", n)
		}
		fresh := harness.NewWorkspace(t, harness.NewVhost(t))
		fresh.MustApply(after)
		w.MustHold(fresh.Objects())
	})

	t.Run("a destroy", func(t *testing.T) {
		t.Parallel()
		w := harness.NewWorkspace(t, harness.NewVhost(t))
		w.MustApply(before)
		w.CommandLine.Must("plan", "-out=saved", "-destroy")
		w.Publish(is.entry, is.key, "came after the plan")
		there := w.Objects()
		if output, succeeds := applySaved(w); succeeds || !strings.Contains(output, "Cascade holds messages") {
			t.Errorf("the destroy succeeds: %t, %s", succeeds, output)
		}
		w.MustHold(there)
		w.Purge(is.queue)
		w.CommandLine.Must("destroy", "-auto-approve")
		w.MustHold(topology.New())
	})
}
