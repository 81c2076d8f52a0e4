package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// fromApplicationExample has the configurations of the guide to a cascade that an application declares.
const fromApplicationExample = "from-an-application"

const fromApplicationGuide = "templates/guides/import.md.tmpl"

// application declares a cascade when it starts, as the article's start-up class does, and publishes into it.
type application struct {
	*harness.User
	vhost *harness.Vhost
}

const (
	sendtaskDelivery = "EXCHANGE.DELAY.DIRECT.SENDTASK"
	sendtaskReceiver = "QUEUE.SENDTASK"
	sendtaskLevels   = 4
)

func sendtaskExchange(level int) string {
	if level < 0 {
		return sendtaskDelivery
	}
	return fmt.Sprintf("EXCHANGE.TOPIC.SENDTASK.N%d", level)
}

func sendtaskQueue(level int) string { return fmt.Sprintf("QUEUE.DELAY.SENDTASK.N%d", level) }

// start is the start-up class: it declares all on one channel, and ends with the first error.
func (a *application) start() error {
	a.T.Helper()
	conn, err := a.Broker().Dial(a.vhost.Name)
	if err != nil {
		a.T.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	channel, err := conn.Channel()
	if err != nil {
		a.T.Fatal(err)
	}
	return declareSendtask(channel, "topic")
}

// declareSendtask declares with a type for the delivery exchange.
func declareSendtask(channel *amqp.Channel, deliveryType string) error {
	const durable, autoDelete, internal, exclusive, noWait = true, false, false, false, false
	exchange := func(name, kind string) func() error {
		return func() error {
			return channel.ExchangeDeclare(name, kind, durable, autoDelete, internal, noWait, nil)
		}
	}
	queue := func(name string, arguments amqp.Table) func() error {
		return func() error {
			_, err := channel.QueueDeclare(name, durable, autoDelete, exclusive, noWait, arguments)
			return err
		}
	}
	bindQueue := func(name, key, source string) func() error {
		return func() error { return channel.QueueBind(name, key, source, noWait, nil) }
	}
	bindExchange := func(name, key, source string) func() error {
		return func() error { return channel.ExchangeBind(name, key, source, noWait, nil) }
	}
	steps := []func() error{exchange(sendtaskDelivery, deliveryType), queue(sendtaskReceiver, nil),
		bindQueue(sendtaskReceiver, "#.d", sendtaskDelivery)}
	for level := range sendtaskLevels {
		stars, at := strings.Repeat("*.", sendtaskLevels-1-level), sendtaskExchange(level)
		steps = append(steps, exchange(at, "topic"), queue(sendtaskQueue(level), amqp.Table{
			"x-message-ttl": int64(1000) << level, "x-dead-letter-exchange": sendtaskExchange(level - 1)}),
			bindQueue(sendtaskQueue(level), stars+"1.#", at), bindExchange(sendtaskExchange(level-1), stars+"0.#", at))
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// mustStart fails if a declaration is refused.
func (a *application) mustStart(when string) {
	a.T.Helper()
	if err := a.start(); err != nil {
		a.T.Errorf("%s, the application does not start: %v", when, err)
	}
}

// mustNotStart fails unless a declaration is refused with the code.
func (a *application) mustNotStart(when string, code int) {
	a.T.Helper()
	err := a.start()
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != code {
		a.T.Errorf("%s, the start of the application ends with %v, not %d", when, err, code)
	}
}

// taskFlow are messages of an application, one after the other. Those that were not confirmed are sent anew under
// another number.
type taskFlow struct {
	app       *application
	stop      context.CancelFunc
	done      sync.WaitGroup
	mutex     sync.Mutex
	confirmed map[string]sentTask
	failed    int
}

type sentTask struct {
	at    time.Time
	delay time.Duration
}

func (a *application) publish() *taskFlow {
	ctx, stop := context.WithCancel(a.T.Context())
	s := &taskFlow{app: a, stop: stop, confirmed: map[string]sentTask{}}
	random := rand.New(rand.NewPCG(4, 2)) //nolint:gosec // to be repeatable
	s.done.Go(func() {
		for number := 0; ctx.Err() == nil; harness.Sleep(ctx, 50*time.Millisecond) {
			number = s.sendFrom(ctx, number, random)
		}
	})
	a.T.Cleanup(s.end)
	return s
}

// sendFrom sends messages over a connection of its own until one is refused. It returns the number of the next one.
func (s *taskFlow) sendFrom(ctx context.Context, number int, random *rand.Rand) int {
	conn, err := s.app.Broker().Dial(s.app.vhost.Name)
	if err != nil {
		return number
	}
	defer conn.Close()
	out, err := brokertest.NewPublisher(conn)
	for ; err == nil && ctx.Err() == nil; number++ {
		err = s.send(out, strconv.Itoa(number), time.Duration(1+random.IntN(15))*time.Second)
		harness.Sleep(ctx, 50*time.Millisecond)
	}
	if err != nil {
		s.mutex.Lock()
		s.failed++
		s.mutex.Unlock()
	}
	return number
}

func (s *taskFlow) send(out *brokertest.Publisher, id string, delay time.Duration) error {
	digits := fmt.Sprintf("%0*b", sendtaskLevels, delay/time.Second)
	at := time.Now()
	err := out.Publish(context.Background(), sendtaskExchange(sendtaskLevels-1),
		strings.Join(strings.Split(digits, ""), ".")+".d", amqp.Publishing{MessageId: id,
			DeliveryMode: amqp.Persistent})
	if err == nil {
		s.mutex.Lock()
		s.confirmed[id] = sentTask{at, delay}
		s.mutex.Unlock()
	}
	return err
}

// sent is the number of messages that were confirmed.
func (s *taskFlow) sent() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.confirmed)
}

// goesOn waits until twenty more messages were confirmed.
func (s *taskFlow) goesOn() {
	enough := s.sent() + 20
	s.app.vhost.Eventually("messages are published", func() bool { return s.sent() >= enough })
}

func (s *taskFlow) end() { s.stop(); s.done.Wait() }

// mustArrive waits for all that was confirmed, and fails if one came twice or before its time. A message may have been
// parked instead.
func (s *taskFlow) mustArrive(arrivals *brokertest.Collector, parked ...brokertest.Arrival) {
	v := s.app.vhost
	v.T.Helper()
	s.end()
	seen := func() map[string]int {
		n := map[string]int{}
		for _, a := range slices.Concat(arrivals.Arrivals(), parked) {
			n[a.MessageId]++
		}
		return n
	}
	v.Eventually("all messages arrive", func() bool {
		there := seen()
		for id := range s.confirmed {
			if there[id] == 0 {
				return false
			}
		}
		return true
	})
	for id, n := range seen() {
		if n > 1 {
			v.T.Errorf("message %s arrived %d times", id, n)
		}
	}
	var latest time.Duration
	for _, a := range arrivals.Arrivals() {
		sent, isConfirmed := s.confirmed[a.MessageId]
		if !isConfirmed {
			continue
		}
		after := a.At.Sub(sent.at)
		latest = max(latest, after-sent.delay)
		if after < harness.Least(sent.delay)-2*time.Millisecond { // RabbitMQ counts in milliseconds
			v.T.Errorf("message %s arrived after %s, not %s", a.MessageId, after, sent.delay)
		}
	}
	v.T.Logf("%d messages arrived, at most %s late; %d attempts were refused", len(s.confirmed), latest, s.failed)
}

// sendtask is an application that has started, and Terraform with the configuration of the first step.
func sendtask(t *testing.T) (*application, *harness.CommandLine, *brokertest.Collector) {
	t.Helper()
	a := startedApplication(t)
	v := a.vhost
	tf := harness.NewCommandLine(t, "", docstest.ReadExample(t, filepath.Join(fromApplicationExample, "import"),
		"main.tf"), map[string]string{"vhost": v.Name})
	tf.Environ = append(tf.Environ, v.Broker.Environ()...)
	return a, tf, v.Consume(sendtaskReceiver)
}

// configure gives Terraform another configuration.
func configure(tf *harness.CommandLine, text string) {
	tf.T.Helper()
	docstest.WriteExample(tf.T, tf.Directory, "main.tf", text)
}

const noChanges = "No changes."

// TestAccFromAnApplication goes the steps of the guide to a cascade that an application declares, while the application
// publishes. It starts again between the steps, as the guide says with success or without.
func TestAccFromAnApplication(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	a, tf, arrivals := sendtask(t)
	v := a.vhost
	before := v.Objects()
	messages := a.publish()
	messages.goesOn()
	asImported := docstest.ReadExample(t, filepath.Join(fromApplicationExample, "import"), "main.tf")

	// The import.
	a.mustStart("before the import")
	if plan := tf.Must("plan"); !strings.Contains(plan, "2 to import, 0 to add, 0 to change, 0 to destroy") {
		t.Errorf("the plan of the import: %s", plan)
	}
	tf.Must("apply", "-auto-approve")
	v.MustHold(before)
	a.mustStart("after the import")
	v.MustHold(before)
	if plan := tf.Must("plan"); !strings.Contains(plan, noChanges) {
		t.Errorf("after the import and a start of the application: %s", plan)
	}

	// The way back from the import, and the import once more.
	tf.Must("state", "rm", "rabbitmqdelay_destination.sendtask", "rabbitmqdelay_cascade.sendtask")
	v.MustHold(before)
	tf.Must("apply", "-auto-approve")
	v.MustHold(before)

	// A change in place: the application starts, and brings its bindings back.
	changed := strings.NewReplacer("lookahead         = 1\n", "lookahead         = 4\n",
		"strict_keys       = false\n", "strict_keys       = true\n").Replace(asImported)
	configure(tf, changed)
	tf.Must("apply", "-auto-approve")
	with := v.Objects()
	messages.goesOn()
	a.mustStart("after a change in place")
	messages.goesOn()
	if plan := tf.Must("plan"); !strings.Contains(plan, "foreign") || !strings.Contains(plan, "1 to change") {
		t.Errorf("after a start of the application upon a change in place: %s", plan)
	}
	tf.Must("apply", "-auto-approve")
	v.MustHold(with)
	configure(tf, asImported)
	tf.Must("apply", "-auto-approve")
	v.MustHold(before)

	// The application reads what it needs, and stops declaring.
	var publisher struct {
		EntryExchange string  `json:"entry_exchange"`
		UnitsMS       []int64 `json:"units_ms"`
		MaxDelayMS    int64   `json:"max_delay_ms"`
	}
	if err := json.Unmarshal([]byte(tf.Must("output", "-raw", "publisher")), &publisher); err != nil {
		t.Fatal(err)
	}
	scale, err := delay.PublisherScale(publisher.UnitsMS, publisher.MaxDelayMS)
	if want := harness.BinaryScale(sendtaskLevels, time.Second).Scale(); err != nil ||
		publisher.EntryExchange != sendtaskExchange(sendtaskLevels-1) || !reflect.DeepEqual(scale, want) {
		t.Errorf("the application reads %+v (%v)", publisher, err)
	}
	rights := regexp.MustCompile(`(?m)^rabbitmqctl set_permissions -p / sendtask '(.*)' '(.*)' '(.*)'$`).
		FindStringSubmatch(docstest.ReadPage(t, fromApplicationGuide))
	if rights == nil {
		t.Fatal("the guide has no permissions of the application")
	}
	a.Grant([3]string(rights[1:]))
	messages.goesOn()
	a.mustNotStart("without the right to configure", amqp.AccessRefused)
	a.Grant([3]string{".*", ".*", ".*"})
	a.mustStart("with its rights back")
	a.Grant([3]string(rights[1:]))

	// Terraform changes what it could not change before.
	configure(tf, docstest.ReadExample(t, filepath.Join(fromApplicationExample, "after"), "main.tf"))
	plan := tf.Must("plan")
	if !strings.Contains(plan, "Update in place recreates all ") {
		t.Errorf("the plan of the rebuild: %s", plan)
	}
	tf.Must("apply", "-auto-approve")
	if again := tf.Must("plan"); !strings.Contains(again, noChanges) {
		t.Errorf("after the rebuild: %s", again)
	}
	messages.goesOn()
	a.Grant([3]string{".*", ".*", ".*"})
	a.mustNotStart("after the rebuild", amqp.PreconditionFailed)

	// The way back. What came while the rebuild had not bound the entry yet is parked: that goes first.
	parking := v.Consume("SENDTASK.unroutable")
	configure(tf, strings.Replace(asImported, "  park_unroutable   = false\n",
		"  park_unroutable   = false\n  drain_timeout     = \"10m\"\n", 1))
	tf.Must("apply", "-auto-approve")
	messages.goesOn()
	a.mustStart("after the way back")
	messages.mustArrive(arrivals, parking.Arrivals()...)
}

// startedApplication has declared its cascade, and may do everything.
func startedApplication(t *testing.T) *application {
	t.Helper()
	v := harness.NewVhost(t)
	a := &application{harness.NewUser(t, v.Broker, v.Name), v}
	a.Grant([3]string{".*", ".*", ".*"})
	if err := a.start(); err != nil {
		t.Fatal(err)
	}
	return a
}

// imported is the configuration of the guide's first step.
func (a *application) imported() (*harness.Protocol, harness.Attributes) {
	a.T.Helper()
	p := harness.NewProtocol(a.T, a.vhost.Broker, nil)
	given := declared["article_level3"].configuration.With(harness.Attributes{"vhost": a.vhost.Name})
	harness.NoErrors(a.T, p.ImportState(a.T.Context(), harness.ImportID(a.vhost.Name,
		sendtaskExchange(sendtaskLevels-1))))
	return p, given
}

// TestFromAnApplicationRepairs deletes what the application has declared. Terraform declares it again, and the
// application starts.
func TestFromAnApplicationRepairs(t *testing.T) {
	t.Parallel()
	a := startedApplication(t)
	v := a.vhost
	p, given := a.imported()
	p.MustBeSettled(given)
	v.Try(v.API.DeleteQueue(v.Name, sendtaskQueue(1)))
	v.Try(v.API.DeleteExchange(v.Name, sendtaskExchange(2)))
	harness.NoErrors(t, p.Refresh(t.Context()))
	p.MustApply(given)
	a.mustStart("after a repair")
	p.MustBeSettled(given)

	v.Try(v.API.DeleteQueue(v.Name, sendtaskQueue(1)))
	v.Try(v.API.DeleteExchange(v.Name, sendtaskExchange(2)))
	a.mustStart("before a repair")
	p.MustApply(given)
	p.MustBeSettled(given)
}

// TestFromAnApplicationRefuses makes each change that gives objects other arguments than the application declares, and
// takes it back.
func TestFromAnApplicationRefuses(t *testing.T) {
	t.Parallel()
	a := startedApplication(t)
	p, given := a.imported()
	for what, change := range map[string]harness.Attributes{
		"queue_type": {"queue_type": "quorum"}, "internal_levels": {"internal_levels": true},
		"park_unroutable": {"park_unroutable": true, "name": "SENDTASK"}, "resolution": {"resolution": "2s"},
		"delivery_exchange": {"delivery_exchange": "SENDTASK.delivery"},
	} {
		p.MustApply(given.With(change))
		a.mustNotStart("with another "+what, amqp.PreconditionFailed)
		p.MustApply(given)
		a.mustStart("with the " + what + " of before")
		p.MustBeSettled(given)
	}
}

// TestFromAnApplicationWithAnotherDelivery imports where the application declares another type of delivery exchange. No
// apply goes with that, but one with another exchange does.
func TestFromAnApplicationWithAnotherDelivery(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"direct", "fanout"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			channel, err := v.Conn.Channel()
			if err == nil {
				err = declareSendtask(channel, kind)
			}
			if err != nil {
				t.Fatal(err)
			}
			p, given := (&application{User: &harness.User{T: t}, vhost: v}).imported()
			if text := harness.WarningText(p.Refresh(t.Context())); !strings.Contains(text,
				"is of type "+kind+", not topic") {
				t.Errorf("a refresh says %s", text)
			}
			before := v.Objects()
			others := given.With(harness.Attributes{"create_delivery_exchange": false})
			refused := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), others)))
			if !strings.Contains(refused, "The delivery exchange has to be a topic exchange") {
				t.Errorf("an apply ends with: %s", refused)
			}
			v.MustHold(before)
			v.DeclareExchange("SENDTASK.delivery", "topic")
			v.Bind("SENDTASK.delivery", "#.d", "queue", sendtaskReceiver)
			moved := given.With(harness.Attributes{"delivery_exchange": "SENDTASK.delivery"})
			p.MustApply(moved)
			p.MustBeSettled(moved)
			arrivals := v.Consume(sendtaskReceiver)
			v.Publish(sendtaskExchange(sendtaskLevels-1), "0.0.0.1.d", "")
			v.Arrived(arrivals, 1)
		})
	}
}
