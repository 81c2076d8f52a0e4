package acceptance

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestCelery runs a Celery worker on a cascade that the provider has declared, and the provider on one that
// a worker has declared. Countdowns are kept to, and neither finds anything to change.
func TestCelery(t *testing.T) {
	needsCelery(t)
	t.Parallel()
	for preset, queueType := range map[delay.Preset]string{delay.Celery: "quorum",
		delay.CeleryClassic: "classic"} {
		want := func(v *harness.Vhost) topology.Topology {
			return harness.Expand(v.T, delay.Config{Vhost: v.Name, Preset: preset, CreateDeliveryExchange: true})
		}
		t.Run(string(preset)+", on ours", func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			given := harness.Attributes{"vhost": v.Name, "preset": string(preset)}
			p := harness.NewProtocol(t, v.Broker, nil)
			p.MustApply(given)
			w := startCelery(v, queueType)
			w.mustKeep(1, 5)
			w.send("retry", "2")
			w.waitFor("succeeded after 2 retries")
			p.MustBeSettled(given)
			w.stop()
			p.MustApply(nil)
		})
		t.Run(string(preset)+", on theirs", func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			w := startCelery(v, queueType)
			w.mustKeep(1)
			if left := plan.Repair(want(v), v.Objects()).Steps(); len(left) > 0 {
				t.Errorf("Celery declares something else than the preset: %v", left)
			}
			given := harness.Attributes{"vhost": v.Name, "preset": string(preset), "adopt": true}
			p := harness.NewProtocol(t, v.Broker, nil)
			p.MustApply(given)
			p.MustBeSettled(given)
			w.mustKeep(3)
		})
	}
}

// TestCeleryRetries leaves out the measure of examples/celery against Celery's issue 9867. RabbitMQ 3 loses a task that
// is handed on into a delay queue a second time. A task that is sent later, and waits longer, arrives.
func TestCeleryRetries(t *testing.T) {
	needsCelery(t)
	t.Parallel()
	for preset, queueType := range map[delay.Preset]string{delay.Celery: "quorum",
		delay.CeleryClassic: "classic"} {
		t.Run(string(preset), func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name,
				"preset": string(preset), "force_destroy": true})
			w := startCeleryIn(v, changedTasks(t, "@before_task_publish.connect\n", ""), queueType)
			w.send("retry", "1")
			w.waitFor("Retry in 3s")
			w.send("8")
			line := w.waitForOne("succeeded after 1 retries", "asked 8 ")
			lost, losing := strings.Contains(line, "asked"), strings.HasPrefix(v.Broker.Version, "3.")
			if lost != losing {
				t.Errorf("on RabbitMQ %s, the retry is lost: %t", v.Broker.Version, lost)
			}
			v.Eventually("a quorum queue of RabbitMQ 3 keeps the task", func() bool {
				var queue struct{ Messages int }
				v.Get(&queue, "queues", v.Name, "celery_delayed_1")
				return (queue.Messages > 0) == (losing && queueType == "quorum")
			})
		})
	}
}

// TestCeleryWithoutConfigure has a worker that may not declare anything. It says so, and works all the same. Others
// have declared the cascade, the queue of its tasks, and a destination for the routing key of the queue.
func TestCeleryWithoutConfigure(t *testing.T) {
	needsCelery(t)
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("tasks", "topic")
	v.DeclareQueue("tasks", map[string]any{"x-queue-type": "quorum"})
	v.Bind("tasks", "tasks", "queue", "tasks")
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "preset": "celery",
		"force_destroy": true})
	v.Destination().MustApply(harness.Attributes{"vhost": v.Name, "delivery_exchange": "celery_delayed_delivery",
		"match": "suffix", "address": "tasks", "queue": "tasks"})
	user := harness.NewUser(t, v.Broker, v.Name)
	user.Grant([3]string{"^$", "^(tasks|celery_delayed_.*)$", "^tasks$"})
	as := *v
	as.Broker = user.Broker()
	declaresNothing := changedTasks(t, `routing_key="tasks", `, `routing_key="tasks", no_declare=True, `)
	w := startCeleryIn(&as, declaresNothing, "quorum", "--without-heartbeat")
	for _, line := range []string{"WARNING", "WARNING", "CRITICAL"} {
		if n := slices.IndexFunc(w.said, func(said string) bool { return strings.Contains(said, line) }); n < 0 {
			t.Errorf("the worker has no further line of the level %s", line)
		} else {
			w.said = w.said[n+1:]
		}
	}
	w.mustKeep(1, 3)
}

// TestCeleryBelowASecond has a countdown of half a second refused where a task is sent. A task that is retried with one
// is lost.
func TestCeleryBelowASecond(t *testing.T) {
	needsCelery(t)
	t.Parallel()
	v := harness.NewVhost(t)
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "preset": "celery",
		"force_destroy": true})
	w := startCeleryIn(v, changedTasks(t, "self.retry(countdown=3)", "self.retry(countdown=0.5)"), "quorum")
	out, err := w.python("-c", "import tasks; tasks.remind.apply_async(args=(0, 0), countdown=0.5)").CombinedOutput()
	if err == nil || !strings.Contains(lastLine(out), "ValueError") {
		t.Errorf("error %v, output %s", err, out)
	}
	w.send("retry", "1")
	w.waitFor("ValueError")
	w.send("5")
	if line := w.waitForOne("succeeded after 1 retries", "asked 5 "); !strings.Contains(line, "asked") {
		t.Error("the task that was retried is not lost")
	}
}

// TestCeleryRouteWithoutAQueue has a route with an exchange and no queue. Celery 5.5 does not send the task. With
// Celery 5.6, each delayed retry puts 28 more digits before the key, and the fourth one does not fit. The task is lost
// then. With a queue in the route, it is not.
func TestCeleryRouteWithoutAQueue(t *testing.T) {
	needsCelery(t)
	t.Parallel()
	for name, test := range map[string]struct{ route, ends string }{
		"exchange": {`{"exchange": "tasks", "exchange_type": "topic", "routing_key": "tasks"}`, "reject requeue=False"},
		"queue":    {`{"queue": "tasks"}`, "succeeded after 4 retries"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "preset": "celery",
				"force_destroy": true})
			const after = `task_default_routing_key="tasks",`
			directory := changedTasks(t, after, after+` task_routes={"tasks.succeed_after": `+test.route+`},`)
			tasks, err := os.ReadFile(filepath.Join(directory, "tasks.py"))
			if err != nil {
				t.Fatal(err)
			}
			docstest.WriteExample(t, directory, "tasks.py", strings.NewReplacer("bind=True", "bind=True, max_retries=4",
				"countdown=3", "countdown=1").Replace(string(tasks)))
			w := startCeleryIn(v, directory, "quorum")
			if name == "exchange" && w.version() < "5.6" {
				if said, err := w.trySend("retry", "4"); err == nil || lastLine(said) != "KeyError: 'queue'" {
					t.Errorf("Celery %s sends the task: %v, %s", w.version(), err, said)
				}
				return
			}
			w.send("retry", "4")
			for range 3 {
				w.waitFor("Retry in 1s")
			}
			w.waitForOne("reject requeue=False", "succeeded after 4 retries")
			if last := w.said[len(w.said)-1]; !strings.Contains(last, test.ends) {
				t.Errorf("the task ends with %q, want %q", last, test.ends)
			}
			v.Settled("tasks", "celery_delayed_0")
		})
	}
}

// changedTasks is a folder with tasks.py of examples/celery, in which one text stands for another.
func changedTasks(t *testing.T, old, changed string) (directory string) {
	t.Helper()
	tasks := docstest.ReadExample(t, "celery", "tasks.py")
	with := strings.Replace(tasks, old, changed, 1)
	if with == tasks {
		t.Fatalf("the example has no %q", old)
	}
	directory = t.TempDir()
	docstest.WriteExample(t, directory, "tasks.py", with)
	return directory
}

// needsCelery skips the test where Celery has no cascade.
func needsCelery(t *testing.T) {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import celery.worker.consumer.delayed_delivery").CombinedOutput()
	if err != nil {
		t.Skipf("python3 has no Celery 5.5 or later with native delayed delivery: %v %s", err, lastLine(out))
	}
}

// celeryWorker is a worker of examples/celery, or of a folder like that.
type celeryWorker struct {
	*harness.Vhost
	directory string
	environ   []string
	stop      func()
	lines     chan string
	said      []string // the lines that were waited through
}

func startCelery(v *harness.Vhost, queueType string) *celeryWorker {
	v.T.Helper()
	return startCeleryIn(v, filepath.Join(docstest.Examples, "celery"), queueType)
}

func startCeleryIn(v *harness.Vhost, directory, queueType string, options ...string) *celeryWorker {
	v.T.Helper()
	w := &celeryWorker{Vhost: v, directory: directory, lines: make(chan string, 100)}
	uri := strings.TrimSuffix(v.Broker.AMQPURI, "/") + "/" + v.Name
	w.environ = append(os.Environ(), "BROKER_URL="+uri, "DELAY_QUEUE_TYPE="+queueType, "PYTHONDONTWRITEBYTECODE=1",
		"PYTHONUNBUFFERED=1")
	command := w.python(append([]string{"-m", "celery", "-A", "tasks", "worker", "--pool=solo", "--loglevel=INFO",
		"--without-gossip", "--without-mingle"}, options...)...)
	output, err := command.StdoutPipe()
	if err == nil {
		command.Stderr = command.Stdout
		err = command.Start()
	}
	if err != nil {
		v.T.Fatal(err)
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
	v.T.Cleanup(func() {
		w.stop()
		if v.T.Failed() {
			v.T.Log(log.String())
		}
	})
	w.waitFor("ready.")
	return w
}

func (w *celeryWorker) python(arguments ...string) *exec.Cmd {
	command := exec.CommandContext(w.T.Context(), "python3", arguments...)
	command.Dir, command.Env = w.directory, w.environ
	return command
}

func (w *celeryWorker) waitFor(text string) string {
	w.T.Helper()
	return w.waitForOne(text)
}

// waitForOne waits for a line with one of the texts.
func (w *celeryWorker) waitForOne(texts ...string) string {
	w.T.Helper()
	for line := range w.lines {
		w.said = append(w.said, line)
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
			return line
		}
	}
	w.T.Fatalf("the worker ends without saying one of %q", texts)
	return ""
}

// send runs the program that sends tasks.
func (w *celeryWorker) send(arguments ...string) {
	w.T.Helper()
	if said, err := w.trySend(arguments...); err != nil {
		w.T.Fatalf("%v\n%s", err, said)
	}
}

func (w *celeryWorker) trySend(arguments ...string) (said []byte, err error) {
	return w.python(append([]string{"tasks.py"}, arguments...)...).CombinedOutput()
}

// version is that of Celery, such as 5.6.3.
func (w *celeryWorker) version() string {
	w.T.Helper()
	version, err := w.python("-c", "import celery; print(celery.__version__)").Output()
	if err != nil {
		w.T.Fatal(err)
	}
	return string(version)
}

// mustKeep sends tasks with countdowns in seconds and waits for them.
func (w *celeryWorker) mustKeep(countdowns ...int) {
	w.T.Helper()
	var arguments []string
	for _, countdown := range countdowns {
		arguments = append(arguments, fmt.Sprint(countdown))
	}
	w.send(arguments...)
	for range countdowns {
		line := w.waitFor("asked ")
		var asked, waited float64
		_, figures, _ := strings.Cut(line, "asked ")
		if _, err := fmt.Sscanf(figures, "%f waited %f", &asked, &waited); err != nil {
			w.T.Fatalf("%q: %v", line, err)
		}
		if waited < asked {
			w.T.Errorf("a task with a countdown of %g s ran after %g s", asked, waited)
		}
		w.T.Logf("countdown %g s: %g s", asked, waited)
	}
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
