package acceptance

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestCelery runs a Celery worker on a cascade that the provider has declared, and the provider on one that
// a worker has declared. Countdowns are kept to, and neither finds anything to change.
func TestCelery(t *testing.T) {
	out, err := exec.Command("python3", "-c", "import celery.worker.consumer.delayed_delivery").CombinedOutput()
	if err != nil {
		t.Skipf("python3 has no Celery 5.5 or later with native delayed delivery: %v %s", err, lastLine(out))
	}
	t.Parallel()
	for preset, queueType := range map[cascade.Preset]string{cascade.Celery: "quorum",
		cascade.CeleryClassic: "classic"} {
		want := func(v *vhost) topology.Topology {
			return expand(v, cascade.Config{Vhost: v.name, Preset: preset, CreateDeliveryExchange: true})
		}
		t.Run(string(preset)+", on ours", func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			given := attributes{"vhost": v.name, "preset": string(preset)}
			p := newProtocol(t, v.broker, nil)
			p.mustApply(given)
			w := v.startCelery(queueType)
			w.mustKeep(1, 5)
			p.mustBeSettled(given)
			w.stop()
			p.mustApply(nil)
		})
		t.Run(string(preset)+", on theirs", func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			w := v.startCelery(queueType)
			w.mustKeep(1)
			if left := plans.Repair(want(v), v.objects()).Steps(); len(left) > 0 {
				t.Errorf("Celery declares something else than the preset: %v", left)
			}
			given := attributes{"vhost": v.name, "preset": string(preset), "adopt": true}
			p := newProtocol(t, v.broker, nil)
			p.mustApply(given)
			p.mustBeSettled(given)
			w.mustKeep(3)
		})
	}
}

// celeryWorker is a worker of examples/celery.
type celeryWorker struct {
	*vhost
	environ []string
	stop    func()
	lines   chan string
}

func (v *vhost) startCelery(queueType string) *celeryWorker {
	v.Helper()
	w := &celeryWorker{vhost: v, lines: make(chan string, 100)}
	uri := strings.TrimSuffix(v.broker.AMQPURI, "/") + "/" + v.name
	w.environ = append(os.Environ(), "BROKER_URL="+uri, "DELAY_QUEUE_TYPE="+queueType, "PYTHONDONTWRITEBYTECODE=1",
		"PYTHONUNBUFFERED=1")
	command := w.python("-m", "celery", "-A", "tasks", "worker", "--pool=solo", "--loglevel=INFO", "--without-gossip",
		"--without-mingle")
	output, err := command.StdoutPipe()
	if err == nil {
		command.Stderr = command.Stdout
		err = command.Start()
	}
	if err != nil {
		v.Fatal(err)
	}
	var log strings.Builder
	var read sync.WaitGroup
	read.Go(func() {
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			fmt.Fprintln(&log, scanner.Text())
			w.lines <- scanner.Text()
		}
		close(w.lines)
	})
	w.stop = sync.OnceFunc(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		read.Wait()
		_ = command.Wait() // how it ends says nothing
	})
	v.Cleanup(func() {
		w.stop()
		if v.Failed() {
			v.Log(log.String())
		}
	})
	w.waitFor("ready.")
	return w
}

func (w *celeryWorker) python(arguments ...string) *exec.Cmd {
	command := exec.CommandContext(w.Context(), "python3", arguments...)
	command.Dir, command.Env = filepath.Join(examples, "celery"), w.environ
	return command
}

func (w *celeryWorker) waitFor(text string) string {
	w.Helper()
	for line := range w.lines {
		if strings.Contains(line, text) {
			return line
		}
	}
	w.Fatalf("the worker ends without saying %q", text)
	return ""
}

// mustKeep sends tasks with countdowns in seconds and waits for them.
func (w *celeryWorker) mustKeep(countdowns ...int) {
	w.Helper()
	arguments := []string{"tasks.py"}
	for _, countdown := range countdowns {
		arguments = append(arguments, fmt.Sprint(countdown))
	}
	if out, err := w.python(arguments...).CombinedOutput(); err != nil {
		w.Fatalf("%v\n%s", err, out)
	}
	for range countdowns {
		line := w.waitFor("asked ")
		var asked, waited float64
		_, figures, _ := strings.Cut(line, "asked ")
		if _, err := fmt.Sscanf(figures, "%f waited %f", &asked, &waited); err != nil {
			w.Fatalf("%q: %v", line, err)
		}
		if waited < asked {
			w.Errorf("a task with a countdown of %g s ran after %g s", asked, waited)
		}
		w.Logf("countdown %g s: %g s", asked, waited)
	}
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
