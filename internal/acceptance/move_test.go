package acceptance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

const (
	// moveExample has one cascade on two brokers.
	moveExample = "move"
	// oldImage is what people move from, where it can be had.
	oldImage = "rabbitmq:3.10-management"
)

// moving is the configuration of the guide on two brokers, with a vhost of the same name on both.
type moving struct {
	old, new *harness.Vhost
	out      *brokertest.Publisher // on the old broker
	tf       *harness.CommandLine
	python   []string
}

// newMoving has cascades of these forms.
func newMoving(t *testing.T, old *brokertest.Broker, from, to string) *moving {
	t.Helper()
	m := newMovingTo(t, old, harness.NewVhost(t), from, to)
	m.python = languages["python"].interpreter(t, "import pika")
	return m
}

// newMovingTo is one without the program.
func newMovingTo(t *testing.T, old *brokertest.Broker, to *harness.Vhost, forms ...string) *moving {
	t.Helper()
	m := &moving{old: harness.NewVhostNamed(t, old, to.Name), new: to}
	configuration, long := docstest.ReadExample(t, moveExample, "main.tf"), `max_delay = "30d"`
	if strings.Count(configuration, long) != 2 {
		t.Fatalf("the example has no two %s", long)
	}
	for name, v := range map[string]*harness.Vhost{"old": m.old, "new": m.new} { // whose AMQP has a port of its own
		password := "= var." + name + ".password\n"
		configuration = strings.Replace(configuration, password, fmt.Sprintf("%s  amqp_uri = %q\n", password,
			v.Broker.AMQPURI), 1)
	}
	as := func(b *brokertest.Broker) string {
		return fmt.Sprintf(`{"endpoint":%q,"username":%q,"password":%q}`, b.Endpoint, b.Username, b.Password)
	}
	for _, form := range forms {
		configuration = strings.Replace(configuration, long, form, 1)
	}
	m.tf = harness.NewCommandLine(t, "", configuration, map[string]string{"vhost": m.new.Name})
	m.tf.Environ = append(m.tf.Environ, "TF_VAR_old="+as(m.old.Broker), "TF_VAR_new="+as(m.new.Broker))
	for _, v := range []*harness.Vhost{m.old, m.new} {
		v.DeclareQueue("billing", map[string]any{"x-queue-type": "quorum"})
	}
	m.tf.Must("apply", "-auto-approve")
	return m
}

// oldBroker is one of the old version, or else one like the one that all tests share.
func oldBroker(t *testing.T) *brokertest.Broker {
	t.Helper()
	shovel := brokertest.WithPlugins("rabbitmq_shovel")
	b, err := brokertest.Start(t.Context(), t.Output(), brokertest.WithImage(oldImage), brokertest.InMemory(), shovel)
	if err != nil {
		t.Logf("the old broker is like the new one, because %s cannot be had: %v", oldImage, err)
		return brokertest.Own(t, likeThat(brokertest.Shared(t)), shovel)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// send publishes a message on the old broker.
func (m *moving) send(entry, key, body string, sent time.Time) {
	m.old.T.Helper()
	if m.out == nil { // one for all messages: what waits has to be there when the program looks
		m.out = m.old.Publisher()
	}
	if err := m.out.Publish(m.old.T.Context(), entry, key, amqp.Publishing{Body: []byte(body),
		DeliveryMode: amqp.Persistent, Timestamp: sent}); err != nil {
		m.old.T.Fatal(err)
	}
}

// program is move.py, ready to run.
func (m *moving) program(t *testing.T) *exec.Cmd {
	t.Helper()
	m.tf.Must("apply", "-auto-approve")
	file := filepath.Join(docstest.Examples, moveExample, "move.py")
	command := exec.CommandContext(t.Context(), m.python[0], append(m.python[1:], file, "--timestamps")...)
	command.Stdin = strings.NewReader(m.tf.Must("output", "-raw", "move"))
	command.Env = append(os.Environ(), "OLD_URI="+uriOf(m.old), "NEW_URI="+uriOf(m.new))
	return command
}

// ready starts a program, which waits for its configuration. The result gives it that, and is what the program says.
// So a busy machine does not start Python while messages are in the queue that they have to be moved from.
func ready(t *testing.T, program *exec.Cmd) (goesOn func() (says string, err error)) {
	t.Helper()
	configuration := program.Stdin
	var out bytes.Buffer
	program.Stdin, program.Stdout, program.Stderr = nil, &out, &out
	input, err := program.StdinPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() (string, error) {
		_, err := io.Copy(input, configuration)
		err = errors.Join(err, input.Close(), program.Wait())
		return out.String(), err
	}
}

func uriOf(v *harness.Vhost) string {
	uri, found := strings.CutPrefix(v.Environ()[0], "RABBITMQ_AMQP_URI=")
	if !found {
		v.T.Fatal("no URI")
	}
	return uri
}

// follow runs commands of the page on a broker, those that hold a text. They lead from or to the other broker.
func (m *moving) follow(holds string, on, other *harness.Vhost) {
	t := m.old.T
	t.Helper()
	uri, err := url.Parse(uriOf(other))
	if err == nil && strings.HasPrefix(other.Broker.Source, "container ") {
		var out []byte
		out, err = other.Broker.CLI(t.Context(), "hostname", "-i")
		uri.Host = strings.TrimSpace(string(out)) + ":5672" // which another container reaches
	}
	if err != nil {
		t.Fatal(err)
	}
	commands := commandsOf(t, docstest.ReadPage(t, pageOfWaiting), holds)
	commands = regexp.MustCompile(`(?m)^(rabbitmq-plugins|api=).*\n`).ReplaceAllString(commands, "")
	commands = regexp.MustCompile(`amqps://user:password@\w+\.example\.com/%2F`).ReplaceAllLiteralString(commands,
		uri.String())
	docstest.RunIn(t, t.TempDir(), []string{"api=" + apiOf(t, on.Broker)}, "set -eu\n"+
		strings.ReplaceAll(commands, "%2F", url.PathEscape(on.Name)), "bash")
}

// shovel has the old broker bring what arrives there to the new one.
func (m *moving) shovel() {
	m.old.T.Helper()
	m.follow("parameters/shovel/", m.old, m.new)
}

// The steps of the guide. What arrives on the old broker comes by the shovel, what waits by the program. None is lost,
// early or there twice, and each is late by no more than the page says. The old cascade is removed.
func TestAccMove(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	const form = `max_delay = "30s"
  units = ["10s", "1s"]`
	m := newMoving(t, oldBroker(t), form, form)
	m.shovel()
	arrivals, goesOn := m.new.Consume("billing"), ready(t, m.program(t))
	sent := harness.BrokerTime()
	for key, at := range map[string]time.Time{"2.5.billing": {}, "2.6.billing": sent, "1.9.billing": {},
		"2.7.billing": sent.Add(-time.Hour), // cannot be right
		"0.2.billing": {}, "2.0.nobody": sent, "2.x.billing": sent} {
		m.send("orders.10s.s", key, key, at)
	}
	m.old.Eventually("a message is in its second queue", func() bool { return m.old.Depth("orders.9s") == 1 })
	out, err := goesOn()
	if want := "5 moved, 1 left\n"; err != nil || out != want {
		t.Fatalf("the program says %q, not %q: %v", out, want, err)
	}
	m.old.Eventually("the message with a word that is no number is parked", func() bool {
		return m.old.Depth("orders.unroutable") == 1
	})
	m.new.Eventually("the message for nobody is parked", func() bool { return m.new.Depth("orders.unroutable") == 1 })
	const slack = 5 * time.Second
	due := map[string][2]time.Duration{ // the delay, and what may be added to it
		"0.2.billing": {2 * time.Second, 0}, "1.9.billing": {19 * time.Second, 2 * time.Second},
		"2.6.billing": {26 * time.Second, 2 * time.Second}, "2.5.billing": {25 * time.Second, 20 * time.Second},
		"2.7.billing": {27 * time.Second, 20 * time.Second},
	}
	for _, a := range m.new.Arrived(arrivals, len(due)) {
		key := string(a.Body)
		took, d := a.At.Sub(sent), due[key]
		if d[0] == 0 || took < harness.Least(d[0]) || took > d[0]+d[1]+slack {
			t.Errorf("%q has arrived after %s, not %v", key, took, d)
		}
		delete(due, key)
	}
	if len(due) > 0 {
		t.Errorf("%v have not arrived", due)
	}
	m.old.Purge("orders.unroutable")
	m.old.Request(http.MethodDelete, nil, "parameters", "shovel", m.old.Name, "billing")
	m.tf.Must("destroy", "-auto-approve", "-target=rabbitmqdelay_cascade.old")
	if n := len(arrivals.Arrivals()); n != 5 || m.old.Depth("billing") != 0 {
		t.Errorf("%d messages have arrived, and %d are left", n, m.old.Depth("billing"))
	}
}

// otherForms are an old and a new cascade that write delays otherwise.
type otherForms struct {
	from, to, entry string
	second, stays   string // queues of the old cascade
	key             string // on the new broker, for 13 s
	step            time.Duration
}

// Each message gets a key of the new cascade, and is not early. Those with equal keys keep their order. One that is too
// long for the new cascade stays.
func TestAccMoveToAnotherForm(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	old := oldBroker(t)
	for what, forms := range map[string]otherForms{
		"units": {`max_delay = "30s"
  units = ["10s", "1s"]`, `max_delay = "16s"
  units = ["1m", "2s"]`, "orders.10s.s", "orders.9s", "orders.30s", "0.7.billing", 2 * time.Second},
		"bases": {`base = 10
  levels = 2`, "levels = 4", "orders.delay-01", "orders.delay-00-9", "orders.delay-01-3", "1.1.0.1.billing",
			time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			newMoving(t, old, forms.from, forms.to).toAnotherForm(t, forms)
		})
	}
}

func (m *moving) toAnotherForm(t *testing.T, forms otherForms) {
	t.Helper()
	const several, tooLong, inSecond, messages = "1.3.billing", "3.0.billing", "1.9.billing", 20
	arrivals, goesOn := m.new.Consume("billing"), ready(t, m.program(t))
	began := harness.BrokerTime()
	m.send(forms.entry, inSecond, inSecond, time.Time{})
	m.old.Eventually("a message is in its second queue", func() bool { return m.old.Depth(forms.second) == 1 })
	sent := harness.BrokerTime()
	m.send(forms.entry, tooLong, tooLong, time.Time{})
	for number := range messages {
		m.send(forms.entry, several, strconv.Itoa(number), time.Time{})
	}
	out, err := goesOn()
	if want := fmt.Sprintf("%d moved, 1 left\n", messages+1); err != nil || out != want {
		t.Fatalf("the program says %q, not %q: %v", out, want, err)
	}
	m.old.Eventually("the message that is too long is back", func() bool { return m.old.Depth(forms.stays) == 1 })
	var inOrder []brokertest.Arrival
	for _, a := range m.new.Arrived(arrivals, messages+1) {
		if string(a.Body) != inSecond {
			inOrder = append(inOrder, a)
			continue
		}
		arrivesWithin(t, a, began, 19*time.Second, 20*time.Second+forms.step)
	}
	for i, a := range inOrder {
		if string(a.Body) != strconv.Itoa(i) || a.RoutingKey != forms.key {
			t.Errorf("%q has arrived with the key %q, not %d with %q", a.Body, a.RoutingKey, i, forms.key)
		}
		arrivesWithin(t, a, sent, 13*time.Second, 23*time.Second+forms.step) // the time in the first queue counts twice
	}
	m.old.Purge(forms.stays)
}

func arrivesWithin(t *testing.T, a brokertest.Arrival, sent time.Time, least, most time.Duration) {
	t.Helper()
	const slack = 5 * time.Second
	if took := a.At.Sub(sent); took < harness.Least(least) || took > most+slack {
		t.Errorf("%q has arrived after %s, not after %s to %s", a.Body, took, least, most)
	}
}

// A program that is killed loses nothing, and its next run moves the rest. One message may come twice.
func TestAccMoveIsKilled(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	const form = `max_delay = "1m"
  units = ["1m"]`
	m := newMoving(t, oldBroker(t), form, form)
	arrivals, killed, again := m.new.Consume("billing"), m.program(t), m.program(t)
	const messages = 300
	sent := harness.BrokerTime()
	for number := range messages {
		m.send("orders.m", "1.billing", strconv.Itoa(number), time.Time{})
	}
	killed.Stdout, killed.Stderr = t.Output(), t.Output()
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	m.new.Eventually("the program moves", func() bool { return m.new.Depth("orders.1m") > 0 })
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // by the kill
	// The old broker may give back what it had been asked to forget, until it has come to that.
	m.old.Eventually("the message that it had is back, and no other", func() bool {
		all := m.old.Depth("orders.1m") + m.new.Depth("orders.1m")
		return all == messages || all == messages+1
	})
	before := m.old.Depth("orders.1m")
	if before == 0 || before == messages {
		t.Fatalf("the program was killed when %d messages were left", before)
	}
	out, err := again.CombinedOutput()
	if want := fmt.Sprintf("%d moved, 0 left\n", before); err != nil || string(out) != want {
		t.Fatalf("the next run says %q, not %q: %v", out, want, err)
	}
	if took := time.Since(sent); took > time.Minute {
		t.Fatalf("the programs have taken %s, until messages left their queue", took)
	}
	times := map[string]int{}
	m.new.Eventually("each message has arrived", func() bool {
		clear(times)
		for _, a := range arrivals.Arrivals() {
			times[string(a.Body)]++
			if took := a.At.Sub(sent); took < harness.Least(time.Minute) {
				t.Fatalf("a message has arrived after %s", took)
			}
		}
		return len(times) == messages
	})
	m.new.Settled("orders.1m")
	if all := len(arrivals.Arrivals()); all > messages+1 {
		t.Errorf("%d messages have arrived", all)
	}
}
