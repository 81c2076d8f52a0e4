package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// Exported definitions bring a cascade of units back whole, with the queues of applications. They do so in a vhost that
// was deleted, and on a broker that has never had it. It then delays messages, and the next plan is empty.
func TestDefinitionsRestoreACascade(t *testing.T) {
	t.Parallel()
	e := newExported(t, nil)
	whole := e.Request(http.MethodGet, nil, "definitions")

	e.run(t, "rabbitmqctl", func(t *testing.T) {
		file := e.exportToFile(t)
		e.deleteVhost()
		if _, err := e.Broker.CLI(t.Context(), "rabbitmqctl", "import_definitions", file); err != nil {
			t.Fatal(err)
		}
		e.mustWorkOn(t, e.Broker)
	})
	e.run(t, "management API", func(t *testing.T) {
		e.deleteVhost()
		e.Request(http.MethodPost, whole, "definitions")
		e.mustWorkOn(t, e.Broker)
	})
	e.run(t, "management API, a vhost", func(t *testing.T) {
		exported := e.Request(http.MethodGet, nil, "definitions", e.Name)
		e.emptyVhost()
		e.Request(http.MethodPost, exported, "definitions", e.Name)
		e.mustWorkOn(t, e.Broker)
	})
	for from, exported := range map[string][]byte{"rabbitmqctl": e.exportedByTool(t), "management API": whole} {
		e.run(t, "load_definitions, exported by "+from, func(t *testing.T) {
			e.mustWorkOn(t, brokertest.Own(t, brokertest.WithDefinitions(exported)))
		})
	}
}

// With internal levels, an export lacks their exchanges, but for that of the management API before 4.3. The rest
// restores no cascade, until the configuration has been applied.
func TestDefinitionsLackInternalLevels(t *testing.T) {
	t.Parallel()
	e := newExported(t, harness.Attributes{"internal_levels": true})
	byTool, byAPI := e.exportedByTool(t), e.Request(http.MethodGet, nil, "definitions")
	if names := exchangesOf(t, byTool); slices.Contains(names, "orders.h.m.s") ||
		!slices.Contains(names, "orders.d.h.m.s") {
		t.Errorf("rabbitmqctl exports the exchanges %q", names)
	}
	complete := !version.AtLeast(e.Broker.Version, 4, 3)
	if names := exchangesOf(t, byAPI); slices.Contains(names, "orders.h.m.s") != complete {
		t.Errorf("the management API exports the exchanges %q", names)
	}
	if complete {
		e.deleteVhost()
		e.Request(http.MethodPost, byAPI, "definitions")
		e.mustWorkOn(t, e.Broker)
	}

	refuses := version.AtLeast(e.Broker.Version, 4, 0)
	e.run(t, "rabbitmqctl", func(t *testing.T) {
		file := e.exportToFile(t)
		e.deleteVhost()
		_, err := e.Broker.CLI(t.Context(), "rabbitmqctl", "import_definitions", file)
		if (err != nil) != refuses {
			t.Errorf("the import into an empty broker: %v", err)
		}
		e.emptyVhost()
		p := harness.NewProtocol(t, e.Broker, nil)
		p.MustApply(e.given)
		if _, err := e.Broker.CLI(t.Context(), "rabbitmqctl", "import_definitions", file); err != nil {
			t.Errorf("the import after an apply: %v", err)
		}
		p.MustBeSettled(e.given)
		e.mustDeliverOn(t, e.Broker)
	})
	e.run(t, "load_definitions", func(t *testing.T) {
		b, err := brokertest.Start(t.Context(), t.Output(), likeThat(e.Broker), brokertest.WithDefinitions(byTool))
		if (err != nil) != refuses {
			t.Errorf("the start: %v", err)
		}
		if err != nil {
			return
		}
		defer func() { _ = b.Stop() }()
		v := harness.OpenVhost(t, b, e.Name)
		v.Eventually("the definitions are loaded", func() bool {
			_, status := v.Ask(http.MethodGet, nil, "exchanges", e.Name, "orders.d.h.m.s")
			return strings.HasPrefix(status, "2")
		})
		if _, there := v.Objects().Exchanges["orders.h.m.s"]; there {
			t.Error("an internal level is there")
		}
	})
}

// likeThat is the one way to another broker like this one: where that fails, no other is tried.
func likeThat(b *brokertest.Broker) brokertest.Option {
	if image, is := strings.CutPrefix(b.Source, "container "); is {
		return brokertest.WithImage(image)
	}
	return brokertest.WithServer(strings.TrimPrefix(b.Source, "private node of "))
}

// exported is a cascade of units with a queue of an application behind it, on a broker of its own.
type exported struct {
	*harness.Vhost
	*harness.Protocol
	given  harness.Attributes
	before topology.Topology
}

func newExported(t *testing.T, further harness.Attributes) *exported {
	t.Helper()
	v := harness.NewVhostNamed(t, brokertest.Own(t), "shop")
	e := &exported{Vhost: v, Protocol: harness.NewProtocol(t, v.Broker, nil),
		given: harness.Attributes{"vhost": v.Name, "name": "orders", "max_delay": "10s"}.With(further)}
	e.MustApply(e.given)
	v.DeclareQueue("billing", map[string]any{"x-queue-type": "quorum"})
	v.Bind("orders.delivery", "*.*.*.*.billing", "queue", "billing")
	e.before = v.Objects()
	return e
}

// run is a step of the test, which fails by itself.
func (e *exported) run(t *testing.T, name string, step func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		before := e.Vhost.T
		defer func() { e.Vhost.T, e.Protocol.T = before, before }()
		e.Vhost.T, e.Protocol.T = t, t
		step(t)
	})
}

// exportToFile leaves the definitions of the whole broker in a file beside it.
func (e *exported) exportToFile(t *testing.T) (name string) {
	t.Helper()
	name = fmt.Sprintf("/tmp/brokertest-definitions-%08x.json", rand.Uint32())
	t.Cleanup(func() { _ = os.Remove(name) }) // where the broker is no container
	if _, err := e.Broker.CLI(t.Context(), "rabbitmqctl", "export_definitions", name); err != nil {
		t.Fatal(err)
	}
	return name
}

// exportedByTool is what rabbitmqctl exports of the whole broker.
func (e *exported) exportedByTool(t *testing.T) []byte {
	t.Helper()
	printed, err := e.Broker.CLI(t.Context(), "rabbitmqctl", "--silent", "export_definitions", "-")
	if err != nil {
		t.Fatal(err)
	}
	return printed[max(0, bytes.IndexByte(printed, '{')):]
}

func exchangesOf(t *testing.T, exported []byte) (names []string) {
	t.Helper()
	var definitions struct{ Exchanges []struct{ Name string } }
	if err := json.Unmarshal(exported, &definitions); err != nil {
		t.Fatalf("%v in %s", err, exported)
	}
	for _, x := range definitions.Exchanges {
		names = append(names, x.Name)
	}
	return names
}

// deleteVhost asks again where the connection ends before the answer.
func (e *exported) deleteVhost() {
	e.Eventually("the vhost is gone", func() bool {
		_, err := e.API.DeleteVhost(e.Name)
		var answer rabbithole.ErrorResponse
		return err == nil || errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
	})
}

func (e *exported) emptyVhost() {
	e.deleteVhost()
	e.Request(http.MethodPut, []byte("{}"), "vhosts", e.Name)
	e.Request(http.MethodPut, []byte(`{"configure":".*","write":".*","read":".*"}`), "permissions", e.Name,
		e.Broker.Username)
}

// mustWorkOn wants all that was there before, an empty plan, and messages that arrive on time.
func (e *exported) mustWorkOn(t *testing.T, b *brokertest.Broker) {
	t.Helper()
	v := harness.OpenVhost(t, b, e.Name)
	v.Eventually("all queues and bindings are there", func() bool {
		_, status := v.Ask(http.MethodGet, nil, "vhosts", e.Name)
		if !strings.HasPrefix(status, "2") {
			return false
		}
		there := v.Objects()
		return len(there.Queues) == len(e.before.Queues) && len(there.Bindings) == len(e.before.Bindings)
	})
	v.MustHold(e.before)
	e.With(b, nil).MustBeSettled(e.given)
	e.mustDeliverOn(t, b)
}

// mustDeliverOn sends messages with delays of one queue each and of none.
func (e *exported) mustDeliverOn(t *testing.T, b *brokertest.Broker) {
	t.Helper()
	v := harness.OpenVhost(t, b, e.Name)
	billing := v.Consume("billing")
	scale, err := delay.Config{Name: "orders"}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	sent, confirmed := map[string]time.Time{}, map[string]time.Time{}
	delays := []time.Duration{2 * time.Second, time.Second, 0}
	for _, wait := range delays {
		sent[wait.String()] = harness.BrokerTime()
		v.Publish("orders.d.h.m.s", harness.KeyOf(t, scale.Scale(), wait, "billing"), wait.String())
		confirmed[wait.String()] = time.Now() // late after that: new queues take their time until they take a message
	}
	for _, arrival := range v.Arrived(billing, len(delays)) {
		body := string(arrival.Body)
		wait, err := time.ParseDuration(body)
		began, known := sent[body]
		delete(sent, body)
		if took := arrival.At.Sub(began); err != nil || !known || took < harness.Least(wait) ||
			arrival.At.Sub(confirmed[body]) > wait+mostLateness {
			t.Errorf("the message with a delay of %q took %s", body, took)
		}
	}
}
