package acceptance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// Jobs of examples/cancel are cancelled, and rescheduled to earlier, to later and twice, after a kill of the worker and
// beside one at work. The worker does each once, at its last time, or not at all.
func TestCancelExample(t *testing.T) {
	t.Parallel()
	program := docstest.Build(t, "cancel")
	inEachForm(t, func(c *exampleCascade) {
		j := &jobs{exampleCascade: c, program: program, directory: c.t.TempDir(), due: map[string]time.Time{}}
		j.environ = append(j.environ, "STORE="+filepath.Join(j.directory, "jobs.db"))
		j.areCancelled()
	})
}

// jobs are those of the example. The command of the worker notes each that it does, with the time.
type jobs struct {
	*exampleCascade
	program, directory string
	due                map[string]time.Time
}

// says runs the program, which has to end with the code.
func (j *jobs) says(code int, arguments ...string) string {
	j.t.Helper()
	_, said, err := docstest.TryIn(j.t, ".", j.environ, "", append([]string{j.program}, arguments...)...)
	var exit *exec.ExitError
	if code == 0 && err != nil || code != 0 && (!errors.As(err, &exit) || exit.ExitCode() != code) ||
		strings.Count(said, "\n") > 1 {
		j.t.Fatalf("%s: %v %q", arguments, err, said)
	}
	return said
}

func (j *jobs) at(verb, id string, delay time.Duration) {
	j.t.Helper()
	j.due[id] = harness.BrokerTime().Add(delay)
	j.says(0, verb, id, delay.String(), "jobs", id+"\n")
}

// done are the jobs that are done or under way, each behind the one before, with the time in milliseconds.
func (j *jobs) done() []string {
	text, _ := os.ReadFile(filepath.Join(j.directory, "done")) //nolint:gosec // the test's own
	return strings.Fields(string(text))
}

func (j *jobs) areCancelled() {
	v, t := j.Vhost, j.t
	v.DeclareQueue("jobs", map[string]any{"x-queue-type": "quorum"})
	v.Bind("tasks.delivery", j.destination("jobs"), "queue", "jobs")
	command := filepath.Join(j.directory, "command")
	script := fmt.Sprintf("#!/bin/sh\nread id\necho \"$id $(date +%%s%%3N)\" >> %[1]s/done\n"+
		"until [ \"$id\" != long ] || [ -e %[1]s/release ]; do sleep 0.1; done\n", j.directory)
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil { //nolint:gosec // it has to be executable
		t.Fatal(err)
	}
	for _, wrong := range [][]string{{}, {"cancel"}, {"schedule", "a", "soon", "jobs", "a"},
		{"schedule", "a", "1h", "jobs", "a"}} {
		j.says(2, wrong...)
	}
	worker := j.run(j.program, "work", "jobs", command)
	stop := docstest.Run(t, v, worker...)
	v.Eventually("the worker runs", func() bool { return consumers(v, "jobs") == 1 })

	stop() // so that no job is done before it is cancelled, however slow the commands are
	j.at("schedule", "same", 6*time.Second)
	j.at("schedule", "cancelled", 6*time.Second)
	j.at("schedule", "later", 6*time.Second)
	j.at("schedule", "sooner", 9*time.Second)
	j.at("schedule", "twice", 6*time.Second)
	if said := j.says(1, "schedule", "same", "1s", "jobs", "same"); !strings.Contains(said, "reschedule it") {
		t.Errorf("a second job of the same name: %q", said)
	}
	j.says(0, "cancel", "cancelled")
	j.at("reschedule", "later", 9*time.Second)
	j.at("reschedule", "sooner", 2*time.Second)
	j.at("reschedule", "twice", 9*time.Second)
	last := j.due["twice"] // of the messages that are to be dropped
	j.at("reschedule", "twice", 7*time.Second)
	docstest.Run(t, v, worker...)
	v.Eventually("the worker runs again", func() bool { return consumers(v, "jobs") == 1 })
	j.areDoneInTime(time.Now())
	for _, arguments := range [][]string{{"cancel", "same"}, {"reschedule", "same", "1s", "jobs", "same"}} {
		if said := j.says(1, arguments...); !strings.Contains(said, "is done, or was cancelled") {
			t.Errorf("%s: %q", arguments, said)
		}
	}
	time.Sleep(time.Until(last.Add(time.Second)))
	v.Eventually("nothing is left", func() bool { return v.Depth("jobs") == 0 })
	j.areCancelledBesideAWorker()
}

// areDoneInTime waits for the four jobs that were not cancelled.
func (j *jobs) areDoneInTime(restarted time.Time) {
	j.t.Helper()
	j.Eventually("all jobs are done", func() bool { return len(j.done()) >= 2*4 })
	for each := range slices.Chunk(j.done(), 2) {
		var ms int64
		if _, err := fmt.Sscan(each[1], &ms); err != nil {
			j.t.Fatal(err)
		}
		ended := time.UnixMilli(ms)
		late, waited := ended.Sub(j.due[each[0]]), ended.Sub(restarted) // it may be down at its time
		if each[0] == "cancelled" || late < 0 || min(late, waited) > 3*mostLateness {
			j.t.Errorf("job %s was done %s late, %s after the restart", each[0], late, waited)
		}
	}
}

// areCancelledBesideAWorker cancels a job whose message has come, while the worker is at the one before.
func (j *jobs) areCancelledBesideAWorker() {
	j.t.Helper()
	for _, id := range []string{"long", "dropped", "next"} {
		j.at("schedule", id, 0)
		j.Eventually("the worker is at work", func() bool { return slices.Contains(j.done(), "long") })
	}
	j.says(0, "cancel", "dropped")
	docstest.WriteExample(j.t, j.directory, "release", "")
	j.Eventually("the next job is done", func() bool { return slices.Contains(j.done(), "next") })
	if done := j.done(); len(done) != 2*(4+2) || slices.Contains(done, "dropped") {
		j.t.Errorf("done were %q", done)
	}
}
