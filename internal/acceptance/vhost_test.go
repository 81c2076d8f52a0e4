package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// vhost is a test's own vhost, with everything in it that is not declared through Terraform. It looks at the broker's
// objects, does the work of strangers, and sends messages.
type vhost struct {
	testing.TB
	broker *brokertest.Broker
	name   string
	api    *rabbithole.Client
	client *rabbit.Client // of do
	conn   *amqp.Connection
	out    *brokertest.Publisher
}

// newVhost makes a vhost on the broker that all tests share.
func newVhost(t testing.TB) *vhost {
	t.Helper()
	b := brokertest.Shared(t)
	return openVhost(t, b, brokertest.Vhost(t, b))
}

// newVhostNamed makes a vhost with a name of the test's choice.
func newVhostNamed(t testing.TB, b *brokertest.Broker, name string) *vhost {
	t.Helper()
	v := &vhost{TB: t, broker: b, name: name, api: management(t, b)}
	v.try(v.api.PutVhost(name, rabbithole.VhostSettings{}))
	t.Cleanup(func() { v.try(v.api.DeleteVhost(name)) })
	v.try(v.api.UpdatePermissionsIn(name, b.Username, rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}))
	return openVhost(t, b, name)
}

// management is a client of the management API.
func management(t testing.TB, b *brokertest.Broker) *rabbithole.Client {
	t.Helper()
	api, err := rabbithole.NewClient(b.Endpoint, b.Username, b.Password)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// openVhost connects to a vhost that is there.
func openVhost(t testing.TB, b *brokertest.Broker, name string) *vhost {
	t.Helper()
	v := &vhost{TB: t, broker: b, name: name, api: management(t, b)}
	var err error
	if v.conn, err = b.Dial(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			t.Errorf("close the connection to vhost %q: %v", name, err)
		}
	})
	return v
}

// try makes sure that a request to the management API succeeded.
func (v *vhost) try(response *http.Response, err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		v.Fatalf("%s %s: %s", response.Request.Method, response.Request.URL, response.Status)
	}
}

// get reads what rabbit-hole decodes, but writes blanks in names as %20, as rabbit-hole's own export does not. It asks
// again when RabbitMQ fails. 3.10.8 may, for a moment, over a list with a queue in it that it has just declared or
// deleted.
func (v *vhost) get(result any, path ...string) {
	v.Helper()
	answer, status := v.ask(http.MethodGet, nil, path...)
	for deadline := time.Now().Add(5 * time.Second); strings.HasPrefix(status, "500 ") && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
		answer, status = v.ask(http.MethodGet, nil, path...)
	}
	if err := json.Unmarshal(answer, result); err != nil || !strings.HasPrefix(status, "2") {
		v.Fatalf("GET %q: %s %v %s", path, status, err, answer)
	}
}

// request makes a request of the management API that has to succeed.
func (v *vhost) request(method string, body []byte, path ...string) (answer []byte) {
	v.Helper()
	answer, status := v.ask(method, body, path...)
	if !strings.HasPrefix(status, "2") {
		v.Fatalf("%s %q: %s %s", method, path, status, answer)
	}
	return answer
}

// ask makes a request of the management API.
func (v *vhost) ask(method string, body []byte, path ...string) (answer []byte, status string) {
	v.Helper()
	address := v.broker.Endpoint + "/api"
	for _, segment := range path {
		address += "/" + url.PathEscape(segment)
	}
	request, err := http.NewRequestWithContext(v.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		v.Fatal(err)
	}
	request.SetBasicAuth(v.broker.Username, v.broker.Password)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		v.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if answer, err = io.ReadAll(response.Body); err != nil {
		v.Fatal(err)
	}
	return answer, response.Status
}

// do does to the vhost what Terraform does not know of.
func (v *vhost) do(steps ...plan.Step) {
	v.Helper()
	if v.client == nil {
		v.client = client(v, v.broker)
	}
	todo := plan.Plan{}
	for _, step := range steps {
		todo = append(todo, plan.Phase{Steps: []plan.Step{step}})
	}
	if _, err := engine.Run(v.Context(), v.client.Vhost(v.name), todo); err != nil {
		v.Fatal(err)
	}
}

func client(t testing.TB, b *brokertest.Broker) *rabbit.Client {
	t.Helper()
	c, err := rabbit.New(rabbit.Config{Endpoint: b.Endpoint, Username: b.Username, Password: b.Password,
		AMQPURI: b.AMQPURI, RetryTimeout: -1, BindsAtOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// declareExchange declares a durable exchange.
func (v *vhost) declareExchange(name, exchangeType string) {
	v.Helper()
	v.try(v.api.DeclareExchange(v.name, name, rabbithole.ExchangeSettings{Type: exchangeType, Durable: true}))
}

// declareQueue declares a durable queue.
func (v *vhost) declareQueue(name string, arguments map[string]any) {
	v.Helper()
	v.try(v.api.DeclareQueue(v.name, name, rabbithole.QueueSettings{Durable: true, Arguments: arguments}))
}

// bind binds a queue or an exchange.
func (v *vhost) bind(source, key, destinationType, destination string) {
	v.Helper()
	v.try(v.api.DeclareBinding(v.name, rabbithole.BindingInfo{
		Source: source, RoutingKey: key, DestinationType: destinationType, Destination: destination,
	}))
}

// exported is what the management API exports of the vhost. That leaves out what RabbitMQ has in each
// vhost by itself. It leaves out internal exchanges as well, so these come from the list.
func (v *vhost) exported() topology.Topology {
	v.Helper()
	var definitions rabbithole.ExportedDefinitions
	v.get(&definitions, "definitions", v.name)
	var exchanges []rabbithole.ExchangeInfo
	v.get(&exchanges, "exchanges", v.name)
	for _, e := range exchanges {
		if e.Internal && !strings.HasPrefix(e.Name, "amq.") {
			*definitions.Exchanges = append(*definitions.Exchanges, e)
		}
	}
	return topologyOf(*definitions.Exchanges, *definitions.Queues, *definitions.Bindings, v.policies())
}

// policies are those of users.
func (v *vhost) policies() []rabbithole.Policy {
	v.Helper()
	var policies []rabbithole.Policy
	v.get(&policies, "policies", v.name)
	return policies
}

// objects are the same by the lists of the management API: the export answers 500 for a vhost whose name
// is not in Latin-1 (4.3.6).
func (v *vhost) objects() topology.Topology {
	v.Helper()
	var (
		exchanges []rabbithole.ExchangeInfo
		queues    []rabbithole.QueueInfo
		bindings  []rabbithole.BindingInfo
	)
	v.get(&exchanges, "exchanges", v.name)
	v.get(&queues, "queues", v.name)
	v.get(&bindings, "bindings", v.name)
	// The broker's own exchanges, and the exclusive queues of collectors.
	byItself := func(name string) bool { return name == "" || strings.HasPrefix(name, "amq.") }
	exchanges = slices.DeleteFunc(exchanges, func(e rabbithole.ExchangeInfo) bool { return byItself(e.Name) })
	queues = slices.DeleteFunc(queues, func(q rabbithole.QueueInfo) bool { return byItself(q.Name) })
	bindings = slices.DeleteFunc(bindings, func(b rabbithole.BindingInfo) bool {
		return byItself(b.Source) ||
			byItself(b.Destination)
	})
	return topologyOf(exchanges, queues, bindings, v.policies())
}

// topologyOf are objects of the management API as a topology.
func topologyOf(
	exchanges []rabbithole.ExchangeInfo, queues []rabbithole.QueueInfo, bindings []rabbithole.BindingInfo,
	policies []rabbithole.Policy,
) topology.Topology {
	t := topology.New()
	for _, e := range exchanges {
		t.Exchanges[e.Name] = topology.Exchange{
			Name: e.Name, Type: e.Type, Durable: e.Durable, AutoDelete: bool(e.AutoDelete), Internal: e.Internal,
			Arguments: topology.NormalizeArguments(e.Arguments),
		}
	}
	for _, q := range queues {
		t.Queues[q.Name] = topology.Queue{
			Name: q.Name, Durable: q.Durable, AutoDelete: bool(q.AutoDelete), Arguments: topology.NormalizeArguments(
				q.Arguments),
		}
	}
	for _, b := range bindings {
		t.Bindings.Add(topology.Binding{
			Source: b.Source, RoutingKey: b.RoutingKey, DestinationType: topology.DestinationType(b.DestinationType),
			Destination: b.Destination,
			Arguments:   topology.NormalizeArguments(b.Arguments).JSON(),
		})
	}
	for _, p := range policies {
		t.Policies[p.Name] = topology.Policy{Name: p.Name, Pattern: p.Pattern, ApplyTo: p.ApplyTo,
			Priority: float64(p.Priority), Definition: topology.NormalizeArguments(p.Definition)}
	}
	return t
}

// mustExport checks that the management API exports the topology and nothing else.
func (v *vhost) mustExport(want topology.Topology) { v.Helper(); v.compare(want, v.exported()) }

// mustHold checks that the vhost holds the topology and nothing else.
func (v *vhost) mustHold(want topology.Topology) { v.Helper(); v.compare(want, v.objects()) }

// compare compares two topologies line by line.
func (v *vhost) compare(want, have topology.Topology) {
	v.Helper()
	wanted, found := inventory(want), inventory(have)
	for _, line := range wanted {
		if !slices.Contains(found, line) {
			v.Errorf("vhost %q does not have: %s", v.name, line)
		}
	}
	for _, line := range found {
		if !slices.Contains(wanted, line) {
			v.Errorf("vhost %q has beyond what is wanted: %s", v.name, line)
		}
	}
}

// inventory is a topology with one line for each object, all its properties and arguments included.
func inventory(t topology.Topology) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(t.Exchanges)) {
		e := t.Exchanges[name]
		lines = append(lines, fmt.Sprintf("exchange %q: type %s, durable %t, auto-delete %t, internal %t, arguments %s",
			e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal, e.Arguments.JSON()))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Queues)) {
		q := t.Queues[name]
		lines = append(lines, fmt.Sprintf("queue %q: durable %t, auto-delete %t, arguments %s", q.Name, q.Durable,
			q.AutoDelete, q.Arguments.JSON()))
	}
	for _, b := range t.Bindings.Sorted() {
		lines = append(lines, fmt.Sprintf("binding %q: %s", b.Source, b.Line()))
	}
	return lines
}

// expand is what a configuration stands for.
func expand(t testing.TB, config delay.Config) topology.Topology {
	t.Helper()
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Expand()
}

// expandLadder is what the configuration of a ladder stands for.
func expandLadder(t testing.TB, config delay.LadderConfig) topology.Topology {
	t.Helper()
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Expand()
}

// publisher waits for the broker's confirmation of each message, and fails where none takes it.
func (v *vhost) publisher() *brokertest.Publisher {
	v.Helper()
	p, err := brokertest.NewPublisher(v.conn)
	if err != nil {
		v.Fatal(err)
	}
	return p
}

// publish sends a message that the broker confirms.
func (v *vhost) publish(exchange, key, body string) {
	v.Helper()
	if v.out == nil {
		v.out = v.publisher()
	}
	if err := v.out.Publish(v.Context(), exchange, key, amqp.Publishing{DeliveryMode: amqp.Persistent,
		Body: []byte(body)}); err != nil {
		v.Fatal(err)
	}
}

// collect collects what the exchange delivers by one of the keys.
func (v *vhost) collect(exchange string, keys ...string) *brokertest.Collector {
	v.Helper()
	c, err := brokertest.CollectFrom(v.conn, exchange, keys...)
	if err != nil {
		v.Fatal(err)
	}
	return c
}

// consume collects what a queue holds.
func (v *vhost) consume(queue string) *brokertest.Collector {
	v.Helper()
	c, err := brokertest.Collect(v.conn, queue)
	if err != nil {
		v.Fatal(err)
	}
	return c
}

// arrived waits until n messages have arrived.
func (v *vhost) arrived(c *brokertest.Collector, n int) []brokertest.Arrival {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), patience)
	defer cancel()
	arrivals, err := c.Wait(ctx, n)
	if err != nil {
		v.Fatal(err)
	}
	return arrivals
}

// depth is the number of messages that are ready in a queue, by AMQP, which counts at once.
func (v *vhost) depth(queue string) int {
	v.Helper()
	channel, err := v.conn.Channel()
	if err != nil {
		v.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		v.Fatal(err)
	}
	return q.Messages
}

// take takes a message from a queue, and returns its body.
func (v *vhost) take(queue string) string {
	v.Helper()
	channel, err := v.conn.Channel()
	if err != nil {
		v.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	d, ok, err := channel.Get(queue, true)
	if err != nil || !ok {
		v.Fatalf("nothing to take from queue %q: %v", queue, err)
	}
	return string(d.Body)
}

// purge removes the messages that are ready in a queue.
func (v *vhost) purge(queue string) {
	v.Helper()
	channel, err := v.conn.Channel()
	if err != nil {
		v.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	if _, err := channel.QueuePurge(queue, false); err != nil {
		v.Fatal(err)
	}
}

// eventually waits for a condition.
func (v *vhost) eventually(what string, condition func() bool) {
	v.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			v.Fatalf("after %s still not: %s", patience, what)
		}
	}
}

// patience is how long a test waits for what should happen soon, on a machine that is busy.
const patience = 90 * time.Second

// quote is a text as a literal of Terraform's language.
func quote(text string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(fmt.Sprintf("%q", text))
}

// destination is the key that binds an address at the delivery exchange of a cascade.
func destination(levels int, address string) string { return strings.Repeat("*.", levels) + address }

// binary is the scale of a cascade in base 2.
func binary(levels int, resolution time.Duration) delay.Scale {
	return delay.Scale{Base: 2, Levels: levels, Resolution: resolution}
}

// keyOf is the key of a message for the address.
func keyOf(t testing.TB, s delay.Scale, delay time.Duration, address string) string {
	t.Helper()
	key, err := s.RoutingKey(delay, address)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// routingKey is that in base 2.
func routingKey(t testing.TB, delay time.Duration, levels int, resolution time.Duration, address string) string {
	t.Helper()
	return keyOf(t, binary(levels, resolution), delay, address)
}

// saying matches a text as Terraform prints it: broken into lines at any blank, behind a border.
func saying(text string) *regexp.Regexp {
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = regexp.QuoteMeta(word)
	}
	return regexp.MustCompile(strings.Join(words, `[\s│]+`))
}
