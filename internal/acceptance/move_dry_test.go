package acceptance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// runningDry is a move for which the old cascade runs dry.
type runningDry struct {
	*moving
	delays   map[string]time.Duration // by routing key
	sent     map[string]time.Time
	arrivals []*brokertest.Collector
	isLed    time.Time // when the arrivals of the old broker go on
}

// The steps of the guide for a cascade that runs dry, in each of the ways for its arrivals. Each message comes once and
// in time. Then the old cascade goes, and the new one stays as it is.
func TestAccMoveRunsDry(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	old := oldBroker(t)
	for way, lead := range map[string]func(*runningDry){
		"receivers on both": func(d *runningDry) { d.arrivals = append(d.arrivals, d.old.Consume("billing")) },
		"shovel":            func(d *runningDry) { d.shovel() },
		"federation":        func(d *runningDry) { d.follow("federation-upstream", d.new, d.old) },
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			if way == "federation" {
				b := brokertest.Own(t, likeThat(v.Broker), brokertest.InMemory(),
					brokertest.WithPlugins("rabbitmq_federation"))
				v = harness.NewVhostNamed(t, b, v.Name)
			}
			const form = `max_delay = "30s"
  units = ["10s", "1s"]`
			d := &runningDry{moving: newMovingTo(t, old, v, form, form), sent: map[string]time.Time{},
				delays: map[string]time.Duration{"0.2.billing": 2 * time.Second, "2.5.billing": 25 * time.Second,
					"3.0.billing": 30 * time.Second, "0.3.billing": 3 * time.Second, "2.8.billing": 28 * time.Second,
					"0.1.billing": time.Second}}
			d.switchBroker(t)
			lead(d)
			d.isLed = time.Now()
			d.untilNothingIsLeft()
			d.removeOld()
			d.send(t, d.new.Publisher(), "0.1.billing")
			d.arriveOnce(t)
		})
	}
}

// send publishes a message whose body is its key.
func (d *runningDry) send(t *testing.T, to *brokertest.Publisher, keys ...string) {
	t.Helper()
	for _, key := range keys {
		d.sent[key] = harness.BrokerTime()
		if err := to.Publish(t.Context(), "orders.10s.s", key, amqp.Publishing{Body: []byte(key),
			DeliveryMode: amqp.Persistent}); err != nil {
			t.Fatal(err)
		}
	}
}

// switchBroker has the receivers and then the publishers go to the new broker. It closes the old entry.
func (d *runningDry) switchBroker(t *testing.T) {
	t.Helper()
	app := harness.NewUser(t, d.old.Broker, d.old.Name)
	app.Grant([3]string{".*", ".*", ".*"})
	connection, err := app.Broker().Dial(d.old.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	out, err := brokertest.NewPublisher(connection)
	if err != nil {
		t.Fatal(err)
	}
	d.send(t, out, "0.2.billing", "2.5.billing", "3.0.billing")

	d.arrivals = append(d.arrivals, d.new.Consume("billing"))
	d.send(t, d.new.Publisher(), "0.3.billing", "2.8.billing")
	app.Grant(closedPermissions(t, docstest.ReadPage(t, pageOfWaiting)))
	if out, err = brokertest.NewPublisher(connection); err == nil {
		err = out.Publish(t.Context(), "orders.10s.s", "0.1.forgotten", amqp.Publishing{})
	}
	if err == nil {
		t.Error("the old entry takes a message of a forgotten publisher")
	}
}

// untilNothingIsLeft waits as the guide says.
func (d *runningDry) untilNothingIsLeft() {
	t := d.old.T
	t.Helper()
	const apart, twice, tries = 10 * time.Second, 2, 30
	for zeros, try := 0, 0; zeros < twice; try++ {
		if try == tries {
			t.Fatal("something is left on the old broker")
		}
		d.tf.Must("apply", "-auto-approve")
		var left struct{ Messages *int }
		if err := json.Unmarshal([]byte(d.tf.Must("output", "-json", "left")), &left); err != nil {
			t.Fatal(err)
		}
		if left.Messages == nil || *left.Messages > 0 || d.old.Depth("billing") > 0 {
			zeros = 0
		} else if zeros++; zeros == twice {
			return
		}
		harness.Sleep(t.Context(), apart)
	}
}

// removeOld removes the old cascade, and then what the configuration has of the old broker.
func (d *runningDry) removeOld() {
	t := d.old.T
	t.Helper()
	d.tf.Must("destroy", "-auto-approve", "-target=rabbitmqdelay_cascade.old")
	if left := d.old.Objects(); len(left.Exchanges) > 0 || len(left.Queues) != 1 {
		t.Errorf("the old broker still has %q", harness.Inventory(left))
	}
	file := filepath.Join(d.tf.Directory, "main.tf")
	text, err := os.ReadFile(file) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	blocks := slices.DeleteFunc(strings.Split(string(text), "\n\n"), func(block string) bool {
		return strings.Contains(block, `"old"`) || strings.Contains(block, ".old")
	})
	docstest.WriteExample(t, d.tf.Directory, "main.tf", strings.Join(blocks, "\n\n"))
	before := d.new.Objects()
	d.tf.Must("apply", "-auto-approve")
	d.tf.Must("plan", "-detailed-exitcode")
	d.new.MustHold(before)
}

// arriveOnce makes sure that each message arrives once, and in time.
func (d *runningDry) arriveOnce(t *testing.T) {
	t.Helper()
	const slack, toBegin = 5 * time.Second, 10 * time.Second
	all := func() (arrived []brokertest.Arrival) {
		for _, c := range d.arrivals {
			arrived = append(arrived, c.Arrivals()...)
		}
		return arrived
	}
	d.new.Eventually("all have arrived", func() bool { return len(all()) >= len(d.delays) })
	once := map[string]bool{}
	for _, a := range all() {
		key := string(a.Body)
		due := d.sent[key].Add(d.delays[key])
		latest := due
		if from := d.isLed.Add(toBegin); from.After(due) {
			latest = from
		}
		if once[key] || a.At.Sub(d.sent[key]) < harness.Least(d.delays[key]) || a.At.After(latest.Add(slack)) {
			t.Errorf("%q, due at %s, has arrived at %s, before %t", key, due, a.At, once[key])
		}
		once[key] = true
	}
	if len(once) != len(d.delays) {
		t.Errorf("%d of %d messages have arrived", len(once), len(d.delays))
	}
}
