package acceptance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// Jobs of examples/cancel are cancelled, and rescheduled to earlier, to later and twice, after a kill of the worker.
// The worker does each once, at its last time, or not at all.
func TestCancelExample(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "tasks", "base": 10,
		"levels": 2, "resolution": "100ms"})
	v.DeclareQueue("jobs", map[string]any{"x-queue-type": "quorum"})
	v.Bind("tasks.delivery", "*.*.jobs", "queue", "jobs")
	directory := t.TempDir()
	done, command := filepath.Join(directory, "done"), filepath.Join(directory, "command")
	script := fmt.Sprintf("#!/bin/sh\nread id\necho \"$id $(date +%%s%%3N)\" >> %s\n", done)
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil { //nolint:gosec // it has to be executable
		t.Fatal(err)
	}
	program := docstest.Build(t, "cancel")
	environ := append(v.Environ(), "STORE="+filepath.Join(directory, "jobs.db"),
		`PUBLISHER={"entry_exchange":"tasks.delay-01","units_ms":[1000,100],"max_delay_ms":9900}`)
	says := func(code int, arguments ...string) string {
		t.Helper()
		_, said, err := docstest.TryIn(t, ".", environ, "", append([]string{program}, arguments...)...)
		var exit *exec.ExitError
		if code == 0 && err != nil || code != 0 && (!errors.As(err, &exit) || exit.ExitCode() != code) ||
			strings.Count(said, "\n") > 1 {
			t.Fatalf("%s: %v %q", arguments, err, said)
		}
		return said
	}
	for _, wrong := range [][]string{{}, {"cancel"}, {"schedule", "a", "soon", "jobs", "a"},
		{"schedule", "a", "1h", "jobs", "a"}} {
		says(2, wrong...)
	}
	worker := append([]string{"env"}, append(environ, program, "work", "jobs", command)...)
	stop := docstest.Run(t, v, worker...)
	v.Eventually("the worker runs", func() bool { return consumers(v, "jobs") == 1 })

	due := map[string]time.Time{}
	at := func(verb, id string, delay time.Duration) {
		t.Helper()
		due[id] = harness.BrokerTime().Add(delay)
		says(0, verb, id, delay.String(), "jobs", id+"\n")
	}
	stop() // so that no job is done before it is cancelled, however slow the commands are
	at("schedule", "same", 6*time.Second)
	at("schedule", "cancelled", 6*time.Second)
	at("schedule", "later", 6*time.Second)
	at("schedule", "sooner", 9*time.Second)
	at("schedule", "twice", 6*time.Second)
	if said := says(1, "schedule", "same", "1s", "jobs", "same"); !strings.Contains(said, "reschedule it") {
		t.Errorf("a second job of the same name: %q", said)
	}
	says(0, "cancel", "cancelled")
	at("reschedule", "later", 9*time.Second)
	at("reschedule", "sooner", 2*time.Second)
	at("reschedule", "twice", 9*time.Second)
	last := due["twice"] // of the messages that are to be dropped
	at("reschedule", "twice", 7*time.Second)
	docstest.Run(t, v, worker...)
	v.Eventually("the worker runs again", func() bool { return consumers(v, "jobs") == 1 })
	restarted := time.Now()

	var lines []string
	v.Eventually("all jobs are done", func() bool {
		text, _ := os.ReadFile(done) //nolint:gosec // the test's own
		lines = strings.Fields(strings.TrimSpace(string(text)))
		return len(lines) >= 2*4
	})
	for i := 0; i < len(lines); i += 2 {
		var ms int64
		if _, err := fmt.Sscan(lines[i+1], &ms); err != nil {
			t.Fatal(err)
		}
		ended := time.UnixMilli(ms)
		late, waited := ended.Sub(due[lines[i]]), ended.Sub(restarted) // it may be down at its time
		if lines[i] == "cancelled" || late < 0 || min(late, waited) > 3*mostLateness {
			t.Errorf("job %s was done %s late, %s after the restart", lines[i], late, waited)
		}
	}
	for _, arguments := range [][]string{{"cancel", "same"}, {"reschedule", "same", "1s", "jobs", "same"}} {
		if said := says(1, arguments...); !strings.Contains(said, "is done, or was cancelled") {
			t.Errorf("%s: %q", arguments, said)
		}
	}
	time.Sleep(time.Until(last.Add(time.Second)))
	v.Eventually("nothing is left", func() bool { return v.Depth("jobs") == 0 })
	text, err := os.ReadFile(done) //nolint:gosec // see above
	if err != nil || strings.Count(string(text), "\n") != 4 {
		t.Errorf("done were %q, %v", text, err)
	}
}
