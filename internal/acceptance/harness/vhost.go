package harness

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
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// HasStatistics tells whether the management API has all that it tells of the queues. It has nothing for some seconds
// after a declaration.
func (v *Vhost) HasStatistics() bool {
	v.T.Helper()
	type statistics struct{ Messages, Consumers *int }
	var queues []statistics
	v.Get(&queues, "queues", v.Name)
	return !slices.ContainsFunc(queues, func(s statistics) bool { return s.Messages == nil || s.Consumers == nil })
}

// Findings is how many findings a data source has where so many things are wrong. From RabbitMQ 4.4 on, the last one is
// information.
func (v *Vhost) Findings(wrong int) int {
	if version.AtLeast(v.Broker.Version, 4, 4) {
		return wrong + 1
	}
	return wrong
}

// Counted is the number of messages in a queue by the management API, which lags.
func (v *Vhost) Counted(queue string) int {
	v.T.Helper()
	var answer struct{ Messages int }
	v.Get(&answer, "queues", v.Name, queue)
	return answer.Messages
}

// User is the broker as another user knows it.
func (v *Vhost) User(tags string, permissions *rabbithole.Permissions) brokertest.Broker {
	v.T.Helper()
	b := *v.Broker
	b.Username, b.Password = "user of "+v.Name, "not-the-password"
	b.AMQPURI = strings.Replace(b.AMQPURI, "guest:guest@", "", 1)
	v.Try(v.API.PutUser(b.Username, rabbithole.UserSettings{Password: b.Password, Tags: rabbithole.UserTags{tags}}))
	v.T.Cleanup(func() { v.Try(v.API.DeleteUser(b.Username)) })
	if permissions != nil {
		v.Try(v.API.UpdatePermissionsIn(v.Name, b.Username, *permissions))
	}
	return b
}

// Settled waits until nothing waits in the queues any more.
func (v *Vhost) Settled(queues ...string) {
	v.T.Helper()
	for _, queue := range queues {
		v.Eventually(fmt.Sprintf("queue %q is empty", queue), func() bool { return v.Depth(queue) == 0 })
	}
}

// Policy returns what puts a policy, for the objects that match a pattern.
func (v *Vhost) Policy(name string, priority int, definition rabbithole.PolicyDefinition) func(pattern string) {
	return func(pattern string) {
		v.T.Helper()
		v.Try(v.API.PutPolicy(v.Name, name, rabbithole.Policy{Pattern: pattern, ApplyTo: "all", Priority: priority,
			Definition: definition}))
	}
}

// OperatorPolicy does the same with an operator policy.
func (v *Vhost) OperatorPolicy(name string, definition rabbithole.PolicyDefinition) func(pattern string) {
	return func(pattern string) {
		v.T.Helper()
		v.Try(v.API.PutOperatorPolicy(v.Name, name, rabbithole.OperatorPolicy{Pattern: pattern, ApplyTo: "queues",
			Definition: definition}))
	}
}

// Publisher is what a program is handed about a cascade of base 2, four levels and a second.
const Publisher = `{"entry_exchange":"tasks.delay-03","units_ms":[8000,4000,2000,1000],"max_delay_ms":15000}`

// Environ leads a program to the vhost and a cascade of base 2, four levels and a second.
func (v *Vhost) Environ() []string {
	v.T.Helper()
	uri, err := url.Parse(v.Broker.AMQPURI)
	if err != nil {
		v.T.Fatal(err)
	}
	uri.Path, uri.RawPath = "/"+v.Name, "/"+url.PathEscape(v.Name)
	return []string{"RABBITMQ_AMQP_URI=" + uri.String(), "PUBLISHER=" + Publisher}
}

// Vhost is a test's own vhost, with everything in it that is not declared through Terraform. It looks at the broker's
// objects, does the work of strangers, and sends messages.
type Vhost struct {
	T      testing.TB
	Broker *brokertest.Broker
	Name   string
	API    *rabbithole.Client
	client *rabbit.Client // of do
	Conn   *amqp.Connection
	out    *brokertest.Publisher
}

// NewVhost makes a vhost on the broker that all tests share.
func NewVhost(t testing.TB) *Vhost {
	t.Helper()
	b := brokertest.Shared(t)
	return OpenVhost(t, b, brokertest.Vhost(t, b))
}

// large has room for one vhost with hundreds of quorum queues.
var large = make(chan struct{}, 1)

// NewLargeVhost is NewVhost for a test that declares hundreds of quorum queues, as the default cascade has them. One
// such test runs at a time: several would keep two cores busy, and tests of time beside them would fail.
func NewLargeVhost(t testing.TB) *Vhost {
	t.Helper()
	large <- struct{}{}
	t.Cleanup(func() { <-large })
	return NewVhost(t)
}

// NewVhostNamed makes a vhost with a name of the test's choice.
func NewVhostNamed(t testing.TB, b *brokertest.Broker, name string) *Vhost {
	t.Helper()
	v := &Vhost{T: t, Broker: b, Name: name, API: Management(t, b)}
	v.Try(v.API.PutVhost(name, rabbithole.VhostSettings{}))
	t.Cleanup(func() { v.Try(v.API.DeleteVhost(name)) })
	v.Try(v.API.UpdatePermissionsIn(name, b.Username, rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}))
	return OpenVhost(t, b, name)
}

// Management is a client of the management API.
func Management(t testing.TB, b *brokertest.Broker) *rabbithole.Client {
	t.Helper()
	api, err := rabbithole.NewClient(b.Endpoint, b.Username, b.Password)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// OpenVhost connects to a vhost that is there.
func OpenVhost(t testing.TB, b *brokertest.Broker, name string) *Vhost {
	t.Helper()
	v := &Vhost{T: t, Broker: b, Name: name, API: Management(t, b)}
	var err error
	if v.Conn, err = b.Dial(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			t.Errorf("close the connection to vhost %q: %v", name, err)
		}
	})
	return v
}

// Try makes sure that a request to the management API succeeded.
func (v *Vhost) Try(response *http.Response, err error) {
	v.T.Helper()
	if err != nil {
		v.T.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		v.T.Fatalf("%s %s: %s", response.Request.Method, response.Request.URL, response.Status)
	}
}

// Get reads what rabbit-hole decodes, but writes blanks in names as %20, as rabbit-hole's own export does not. It asks
// again when RabbitMQ fails. 3.10.8 may, for a moment, over a list with a queue in it that it has just declared or
// deleted.
func (v *Vhost) Get(result any, path ...string) {
	v.T.Helper()
	answer, status := v.Ask(http.MethodGet, nil, path...)
	for deadline := time.Now().Add(5 * time.Second); strings.HasPrefix(status, "500 ") && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
		answer, status = v.Ask(http.MethodGet, nil, path...)
	}
	if err := json.Unmarshal(answer, result); err != nil || !strings.HasPrefix(status, "2") {
		v.T.Fatalf("GET %q: %s %v %s", path, status, err, answer)
	}
}

// Request makes a request of the management API that has to succeed.
func (v *Vhost) Request(method string, body []byte, path ...string) (answer []byte) {
	v.T.Helper()
	answer, status := v.Ask(method, body, path...)
	if !strings.HasPrefix(status, "2") {
		v.T.Fatalf("%s %q: %s %s", method, path, status, answer)
	}
	return answer
}

// Ask makes a request of the management API.
func (v *Vhost) Ask(method string, body []byte, path ...string) (answer []byte, status string) {
	v.T.Helper()
	address := v.Broker.Endpoint + "/api"
	for _, segment := range path {
		address += "/" + url.PathEscape(segment)
	}
	request, err := http.NewRequestWithContext(v.T.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		v.T.Fatal(err)
	}
	request.SetBasicAuth(v.Broker.Username, v.Broker.Password)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if answer, err = io.ReadAll(response.Body); err != nil {
		v.T.Fatal(err)
	}
	return answer, response.Status
}

// Do does to the vhost what Terraform does not know of.
func (v *Vhost) Do(steps ...plan.Step) {
	v.T.Helper()
	if v.client == nil {
		v.client = client(v.T, v.Broker)
	}
	todo := plan.Plan{}
	for _, step := range steps {
		todo = append(todo, plan.Phase{Steps: []plan.Step{step}})
	}
	if _, err := engine.Run(v.T.Context(), v.client.Vhost(v.Name), todo); err != nil {
		v.T.Fatal(err)
	}
}

func client(t testing.TB, b *brokertest.Broker) *rabbit.Client {
	t.Helper()
	c, err := rabbit.New(rabbit.Config{Endpoint: b.Endpoint, Username: b.Username, Password: b.Password,
		AMQPURI: b.AMQPURI, RetryTimeout: rabbit.DefaultRetryTimeout, BindsAtOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// DeclareExchange declares a durable exchange.
func (v *Vhost) DeclareExchange(name, exchangeType string) {
	v.T.Helper()
	v.Try(v.API.DeclareExchange(v.Name, name, rabbithole.ExchangeSettings{Type: exchangeType, Durable: true}))
}

// DeclareQueue declares a durable queue.
func (v *Vhost) DeclareQueue(name string, arguments map[string]any) {
	v.T.Helper()
	v.Try(v.API.DeclareQueue(v.Name, name, rabbithole.QueueSettings{Durable: true, Arguments: arguments}))
}

// Bind binds a queue or an exchange.
func (v *Vhost) Bind(source, key, destinationType, destination string) {
	v.T.Helper()
	v.Try(v.API.DeclareBinding(v.Name, rabbithole.BindingInfo{
		Source: source, RoutingKey: key, DestinationType: destinationType, Destination: destination,
	}))
}

// Define imports the objects as a definitions file. It leaves out bindings that have lost one of their ends.
func (v *Vhost) Define(t topology.Topology) {
	v.T.Helper()
	exchanges, queues, bindings := []any{}, []any{}, []any{}
	for _, e := range t.Exchanges {
		exchanges = append(exchanges, map[string]any{"name": e.Name, "type": e.Type, "durable": e.Durable,
			"auto_delete": e.AutoDelete, "internal": e.Internal, "arguments": e.Arguments})
	}
	for _, q := range t.Queues {
		queues = append(queues, map[string]any{"name": q.Name, "durable": q.Durable, "auto_delete": q.AutoDelete,
			"arguments": q.Arguments})
	}
	for b := range t.Bindings {
		_, from := t.Exchanges[b.Source]
		_, to := t.Exchanges[b.Destination]
		if b.DestinationType == topology.ToQueue {
			_, to = t.Queues[b.Destination]
		}
		if from && to {
			bindings = append(bindings, map[string]any{"source": b.Source, "routing_key": b.RoutingKey,
				"destination_type": b.DestinationType, "destination": b.Destination, "arguments": map[string]any{}})
		}
	}
	text, err := json.Marshal(map[string]any{"exchanges": exchanges, "queues": queues, "bindings": bindings})
	if err != nil {
		v.T.Fatal(err)
	}
	v.Request(http.MethodPost, text, "definitions", v.Name)
}

// Exported is what the management API exports of the vhost. That leaves out what RabbitMQ has in each
// vhost by itself. It leaves out internal exchanges as well, so these come from the list.
func (v *Vhost) Exported() topology.Topology {
	v.T.Helper()
	var definitions rabbithole.ExportedDefinitions
	v.Get(&definitions, "definitions", v.Name)
	var exchanges []rabbithole.ExchangeInfo
	v.Get(&exchanges, "exchanges", v.Name)
	for _, e := range exchanges {
		if e.Internal && !strings.HasPrefix(e.Name, "amq.") {
			*definitions.Exchanges = append(*definitions.Exchanges, e)
		}
	}
	return topologyOf(*definitions.Exchanges, *definitions.Queues, *definitions.Bindings, v.Policies())
}

// Policies are those of users.
func (v *Vhost) Policies() []rabbithole.Policy {
	v.T.Helper()
	var policies []rabbithole.Policy
	v.Get(&policies, "policies", v.Name)
	return policies
}

// Objects are the same by the lists of the management API: the export answers 500 for a vhost whose name
// is not in Latin-1 (4.3.6).
func (v *Vhost) Objects() topology.Topology {
	v.T.Helper()
	var (
		exchanges []rabbithole.ExchangeInfo
		queues    []rabbithole.QueueInfo
		bindings  []rabbithole.BindingInfo
	)
	v.Get(&exchanges, "exchanges", v.Name)
	v.Get(&queues, "queues", v.Name)
	v.Get(&bindings, "bindings", v.Name)
	// The broker's own exchanges, and the exclusive queues of collectors.
	byItself := func(name string) bool { return name == "" || strings.HasPrefix(name, "amq.") }
	exchanges = slices.DeleteFunc(exchanges, func(e rabbithole.ExchangeInfo) bool { return byItself(e.Name) })
	queues = slices.DeleteFunc(queues, func(q rabbithole.QueueInfo) bool { return byItself(q.Name) })
	bindings = slices.DeleteFunc(bindings, func(b rabbithole.BindingInfo) bool {
		return byItself(b.Source) ||
			byItself(b.Destination)
	})
	return topologyOf(exchanges, queues, bindings, v.Policies())
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
		t.Bind(topology.Binding{
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

// MustExport checks that the management API exports the topology and nothing else.
func (v *Vhost) MustExport(want topology.Topology) { v.T.Helper(); v.Compare(want, v.Exported()) }

// MustHold checks that the vhost holds the topology and nothing else.
func (v *Vhost) MustHold(want topology.Topology) { v.T.Helper(); v.Compare(want, v.Objects()) }

// Compare compares two topologies line by line.
func (v *Vhost) Compare(want, have topology.Topology) {
	v.T.Helper()
	wanted, found := Inventory(want), Inventory(have)
	for _, line := range wanted {
		if !slices.Contains(found, line) {
			v.T.Errorf("vhost %q does not have: %s", v.Name, line)
		}
	}
	for _, line := range found {
		if !slices.Contains(wanted, line) {
			v.T.Errorf("vhost %q has beyond that: %s", v.Name, line)
		}
	}
}

// Inventory is a topology with one line for each object, all its properties and arguments included.
func Inventory(t topology.Topology) []string {
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

// Expand is what a configuration stands for.
func Expand(t testing.TB, config delay.Config) topology.Topology {
	t.Helper()
	return Resolve(t, config).Expand()
}

// Resolve is the cascade of the configuration.
func Resolve(t testing.TB, config delay.Config) delay.Cascade {
	t.Helper()
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// ExpandLadder is what the configuration of a ladder stands for.
func ExpandLadder(t testing.TB, config delay.LadderConfig) topology.Topology {
	t.Helper()
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Expand()
}

// Publisher waits for the broker's confirmation of each message, and fails where none takes it.
func (v *Vhost) Publisher() *brokertest.Publisher {
	v.T.Helper()
	p, err := brokertest.NewPublisher(v.Conn)
	if err != nil {
		v.T.Fatal(err)
	}
	return p
}

// Publish sends a message that the broker confirms.
func (v *Vhost) Publish(exchange, key, body string) {
	v.T.Helper()
	if v.out == nil {
		v.out = v.Publisher()
	}
	if err := v.out.Publish(v.T.Context(), exchange, key, amqp.Publishing{DeliveryMode: amqp.Persistent,
		Body: []byte(body)}); err != nil {
		v.T.Fatal(err)
	}
}

// Collect collects what the exchange delivers by one of the keys.
func (v *Vhost) Collect(exchange string, keys ...string) *brokertest.Collector {
	v.T.Helper()
	c, err := brokertest.CollectFrom(v.Conn, exchange, keys...)
	if err != nil {
		v.T.Fatal(err)
	}
	return c
}

// Consume collects what a queue holds.
func (v *Vhost) Consume(queue string) *brokertest.Collector {
	v.T.Helper()
	c, err := brokertest.Collect(v.Conn, queue)
	if err != nil {
		v.T.Fatal(err)
	}
	return c
}

// Arrived waits until n messages have arrived.
func (v *Vhost) Arrived(c *brokertest.Collector, n int) []brokertest.Arrival {
	v.T.Helper()
	ctx, cancel := context.WithTimeout(v.T.Context(), Patience)
	defer cancel()
	arrivals, err := c.Wait(ctx, n)
	if err != nil {
		v.T.Fatal(err)
	}
	return arrivals
}

// Depth is the number of messages that are ready in a queue, by AMQP, which counts at once. Of a quorum queue whose
// leader does not answer in time, RabbitMQ says that it is empty (stat in rabbit_quorum_queue). So a 0 that takes long
// is asked for again.
func (v *Vhost) Depth(queue string) int {
	v.T.Helper()
	channel, err := v.Conn.Channel()
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	const prompt, tries = 200 * time.Millisecond, 3
	for try := 1; ; try++ {
		asked := time.Now()
		q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			v.T.Fatal(err)
		}
		if q.Messages > 0 || time.Since(asked) < prompt || try == tries {
			return q.Messages
		}
	}
}

// Take takes a message from a queue, and returns its body.
func (v *Vhost) Take(queue string) string {
	v.T.Helper()
	channel, err := v.Conn.Channel()
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	d, ok, err := channel.Get(queue, true)
	if err != nil || !ok {
		v.T.Fatalf("nothing to take from queue %q: %v", queue, err)
	}
	return string(d.Body)
}

// Purge removes the messages that are ready in a queue.
func (v *Vhost) Purge(queue string) {
	v.T.Helper()
	channel, err := v.Conn.Channel()
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	if _, err := channel.QueuePurge(queue, false); err != nil {
		v.T.Fatal(err)
	}
}

// Eventually waits for a condition.
func (v *Vhost) Eventually(what string, condition func() bool) {
	v.T.Helper()
	for deadline := time.Now().Add(Patience); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			v.T.Fatalf("after %s still not: %s", Patience, what)
		}
	}
}

// Patience is how long a test waits for what should happen soon, on a machine that is busy.
const Patience = 90 * time.Second

// Quote is a text as a literal of Terraform's language.
func Quote(text string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(fmt.Sprintf("%q", text))
}

// DestinationKey is the key that binds an address at the delivery exchange of a cascade.
func DestinationKey(levels int, address string) string { return strings.Repeat("*.", levels) + address }

// BinaryScale is the scale of a cascade in base 2.
func BinaryScale(levels int, resolution time.Duration) delay.Uniform {
	return delay.Uniform{Base: 2, Levels: levels, Resolution: resolution}
}

// KeyOf is the key of a message for the address.
func KeyOf(t testing.TB, s delay.Scale, delay time.Duration, address string) string {
	t.Helper()
	key, err := s.RoutingKey(delay, address)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// RoutingKey is that in base 2.
func RoutingKey(t testing.TB, delay time.Duration, levels int, resolution time.Duration, address string) string {
	t.Helper()
	return KeyOf(t, BinaryScale(levels, resolution).Scale(), delay, address)
}

// Saying matches a text as Terraform prints it: broken into lines at any blank, behind a border.
func Saying(text string) *regexp.Regexp {
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = regexp.QuoteMeta(word)
	}
	return regexp.MustCompile(strings.Join(words, `[\s│]+`))
}
