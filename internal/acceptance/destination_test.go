package acceptance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// newDestinations is a vhost with a cascade t of so many levels, each step of which takes a millisecond, and queues.
func newDestinations(t testing.TB, levels int, queues ...string) *vhost {
	t.Helper()
	v := newVhost(t)
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "t", "levels": levels,
		"resolution": "1ms", "queue_type": "classic"})
	for _, name := range queues {
		v.declareQueue(name, map[string]any{"x-queue-type": "classic"})
	}
	return v
}

// destination is a destination that is not there yet.
func (v *vhost) destination() *protocol {
	v.Helper()
	return newProtocolOf(v, destinationType, v.broker, nil)
}

// bound lists the bindings of the delivery exchange, each in a line.
func (v *vhost) bound() []string {
	v.Helper()
	var bindings []rabbithole.BindingInfo
	v.get(&bindings, "exchanges", v.name, "t.delivery", "bindings", "source")
	lines := []string{}
	for _, b := range topologyOf(nil, nil, bindings, nil).Bindings.Sorted() {
		lines = append(lines, b.Line())
	}
	return lines
}

// mustBeBound compares the bindings of the delivery exchange.
func (v *vhost) mustBeBound(want ...string) {
	v.Helper()
	slices.Sort(want)
	if got := v.bound(); !slices.Equal(got, want) {
		v.Errorf("bound are %q, want %q", got, want)
	}
}

// A destination's life: created, settled, damaged, repaired, imported, changed, destroyed. What others have bound
// stays as it is.
func TestDestinationLife(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]destinationLife{
		"queue": {attributes{"levels": 3, "address": "orders", "queue": "orders"},
			"*.*.*.orders -> queue orders", "queue/orders/*.*.*.orders"},
		"exchange": {attributes{"levels": 3, "address": "orders.eu", "exchange": "onwards"},
			"*.*.*.orders.eu -> exchange onwards", "exchange/onwards/*.*.*.orders.eu"},
		"suffix": {attributes{"match": "suffix", "address": "orders", "queue": "orders"},
			"#.orders -> queue orders", "queue/orders/%23.orders"},
		"all that is odd": {attributes{"levels": 3, "address": " a/b%~#x+&?*é..1.", "queue": "a b/ü%~#+?"},
			"*.*.*. a/b%~#x+&?*é..1. -> queue a b/ü%~#+?",
			"queue/a%20b%2F%C3%BC%25~%23+%3F/*.*.*.%20a%2Fb%25~%23x+&%3F*%C3%A9..1."},
		"words like digits": {attributes{"levels": 3, "address": "0.1", "queue": "orders"}, "*.*.*.0.1 -> queue orders",
			"queue/orders/*.*.*.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			liveDestination(t, is)
		})
	}
}

type destinationLife struct {
	given attributes
	line  string
	id    string
}

// liveDestination takes one destination through its life.
func liveDestination(t *testing.T, is destinationLife) {
	t.Parallel()
	v := newDestinations(t, 3, "orders", "a b/ü%~#+?", "foreign")
	v.declareExchange("onwards", "fanout")
	v.bind("t.delivery", "*.*.*.foreign", "queue", "foreign")
	const foreign = "*.*.*.foreign -> queue foreign"
	without := v.objects()
	given := is.given.with(attributes{"vhost": v.name, "delivery_exchange": "t.delivery"})
	p := v.destination()

	todo := p.plan(t.Context(), given)
	if noErrors(t, todo.diagnostics); !todo.state.IsFullyKnown() {
		t.Errorf("the plan holds unknown values: %s", todo.state)
	}
	if text := warningText(append(todo.diagnostics, p.apply(t.Context(), todo)...)); text != "" {
		t.Error(text)
	}
	p.mustBeSettled(given)
	v.mustBeBound(foreign, is.line)

	source, line := "t.delivery", topology.Binding{}
	for b := range v.objects().Bindings {
		if b.Source == source && b.Line() == is.line {
			line = b
		}
	}
	v.do(plan.Unbind{Binding: line})
	v.mustBeBound(foreign)
	noErrors(t, p.refresh(t.Context()))
	if !p.state.IsNull() {
		t.Error("the binding is gone, but it is in the state")
	}
	p.mustApply(given)
	v.mustBeBound(foreign, is.line)

	for how, bring := range map[string]func(*protocol) []*tfprotov6.Diagnostic{
		"ID": func(p *protocol) []*tfprotov6.Diagnostic {
			return p.importState(t.Context(), v.name+"/t.delivery/"+is.id)
		},
		"identity": func(p *protocol) []*tfprotov6.Diagnostic {
			return p.importDestination(line, v.name)
		},
	} {
		imported := v.destination()
		if text := errorText(bring(imported)); text != "" {
			t.Fatalf("by %s: %s", how, text)
		}
		imported.mustBeSettled(given)
	}
	if id := destinationID(v.name, line); id != v.name+"/t.delivery/"+is.id {
		t.Errorf("the ID is %s", id)
	}

	p.mustApply(nil)
	v.mustHold(without)
}

// importDestination imports a binding by identity.
func (p *protocol) importDestination(b topology.Binding, vhost string) []*tfprotov6.Diagnostic {
	p.t.Helper()
	typ := tftypes.Object{AttributeTypes: map[string]tftypes.Type{
		"vhost": tftypes.String, "delivery_exchange": tftypes.String, "queue": tftypes.String,
		"exchange": tftypes.String, "routing_key": tftypes.String,
	}}
	identity := dynamic(p.t, typ, object(p.t, typ, attributes{
		"vhost": vhost, "delivery_exchange": b.Source, "routing_key": b.RoutingKey,
		string(b.DestinationType): b.Destination,
	}))
	return p.importBy(p.t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: p.typeName,
		Identity: &tfprotov6.ResourceIdentityData{IdentityData: identity}})
}

// Messages go through the cascade to a queue, to one behind an exchange, and for a suffix from longer addresses. An
// address gets none of the messages for others.
func TestDestinationMessages(t *testing.T) {
	t.Parallel()
	const levels = 3
	v := newDestinations(t, levels, "orders", "behind", "suffix")
	v.declareExchange("onwards", "topic")
	v.bind("onwards", "*.*.*.mails", "queue", "behind")
	for _, further := range []attributes{
		{"levels": levels, "address": "orders", "queue": "orders"},
		{"levels": levels, "address": "mails", "exchange": "onwards"},
		{"match": "suffix", "address": "bills", "queue": "suffix"},
	} {
		v.destination().mustApply(further.with(attributes{"vhost": v.name, "delivery_exchange": "t.delivery"}))
	}
	want := map[string][]string{"orders": {"orders"}, "behind": {"mails"}, "suffix": {"bills", "eu.bills"},
		"t.unroutable": {"eu.orders", "orders.eu", "eu.mails"}}
	const each = 1 << levels
	for _, addresses := range want {
		for _, address := range addresses {
			for delay := range each {
				v.publish("t.delay-02", routingKey(t, time.Duration(delay)*time.Millisecond, levels, time.Millisecond,
					address), address)
			}
		}
	}
	for queue, addresses := range want {
		arrived := map[string]int{}
		for _, a := range v.arrived(v.consume(queue), each*len(addresses)) {
			arrived[string(a.Body)]++
		}
		for _, address := range addresses {
			if arrived[address] != each {
				t.Errorf("queue %q got %d messages for %q, want %d", queue, arrived[address], address, each)
			}
			delete(arrived, address)
		}
		if len(arrived) > 0 {
			t.Errorf("queue %q got others' messages: %v", queue, arrived)
		}
	}
}

// What leaves a ladder has its delay as the only word before the address.
func TestDestinationOfALadder(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	v.declareQueue("orders", nil)
	newProtocolOf(t, ladderType, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "t",
		"delays": textSet("5ms", "10ms")})
	v.destination().mustApply(attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 1,
		"address": "orders", "queue": "orders"})
	v.publish("t.entry", "5ms.orders", "")
	v.publish("t.entry", "10ms.orders", "")
	v.arrived(v.consume("orders"), 2)
}

// A stream of messages runs while the destination is changed. Where the same queue takes them before and after, it gets
// each once. Where another one does, or the messages come from another exchange, none is lost.
func TestDestinationChangesUnderTraffic(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]destinationChange{
		"key":               {attributes{"levels": nil, "match": "suffix"}, false},
		"queue":             {attributes{"queue": "other"}, true},
		"queue to exchange": {attributes{"queue": nil, "exchange": "onwards"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			changeUnderTraffic(t, name, is)
		})
	}
}

type destinationChange struct {
	change  attributes
	doubles bool
}

// changeUnderTraffic changes a destination and changes it back while messages flow, and counts what arrives.
func changeUnderTraffic(t *testing.T, name string, is destinationChange) {
	t.Parallel()
	const levels = 3
	v := newDestinations(t, levels, "orders", "other")
	v.declareExchange("onwards", "fanout")
	v.bind("onwards", "", "queue", "other")
	given := attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": levels,
		"address": "orders", "queue": "orders"}
	// Back from a suffix, messages for longer addresses would be left without a way; there are none.
	given["force_destroy"] = name == "key"
	changed := given.with(is.change)
	p := v.destination()
	p.mustApply(given)

	var sent atomic.Int64
	stop, stopped := make(chan struct{}), make(chan error, 1)
	publisher := v.publisher()
	publish := func(delay int) error {
		key := routingKey(t, time.Duration(delay)*time.Millisecond, levels, time.Millisecond, "orders")
		body := fmt.Append(nil, sent.Load())
		err := publisher.Publish(t.Context(), "t.delay-02", key, amqp.Publishing{Body: body})
		if err == nil {
			sent.Add(1)
		}
		return err
	}
	go func() { stopped <- publishPairs(publish, stop) }()
	for range 10 {
		for _, next := range []attributes{changed, given} {
			before := sent.Load()
			v.eventually("messages flow", func() bool { return sent.Load() > before+10 })
			p.mustApply(next)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	collectors := []*brokertest.Collector{v.consume("orders"), v.consume("other"), v.consume("t.unroutable")}
	var arrived map[string]int
	v.eventually("every message has arrived", func() bool {
		arrived = map[string]int{}
		for _, c := range collectors {
			for _, a := range c.Arrivals() {
				arrived[string(a.Body)]++
			}
		}
		return len(arrived) == int(sent.Load())
	})
	doubled := 0
	for _, n := range arrived {
		if n > 1 {
			doubled++
		}
	}
	if parked := len(collectors[2].Arrivals()); parked > 0 {
		t.Errorf("of %d messages %d are parked", sent.Load(), parked)
	}
	if doubled > 0 && !is.doubles {
		t.Errorf("%d of %d messages arrived twice", doubled, sent.Load())
	}
	t.Logf("of %d messages %d arrived twice", sent.Load(), doubled)
}

// publishPairs publishes until it is stopped. The first of two messages is delivered at once, the second has waited.
func publishPairs(publish func(delay int) error, stop <-chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		for _, delay := range []int{0, 1 + i%7} {
			if err := publish(delay); err != nil {
				return err
			}
		}
	}
}

// Every attribute but the vhost changes in place, and the plan says whose messages are left behind.
func TestDestinationReplaceOrUpdate(t *testing.T) {
	t.Parallel()
	v, other := newDestinations(t, 3, "orders", "other"), newVhost(t)
	v.declareExchange("second", "topic")
	other.declareExchange("t.delivery", "topic")
	other.declareQueue("orders", nil)
	base := attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 3, "address": "orders",
		"queue": "orders"}
	for name, is := range map[string]struct {
		change  attributes
		line    string
		warning string
		replace bool
	}{
		"vhost": {change: attributes{"vhost": other.name}, replace: true},
		"delivery_exchange": {change: attributes{"delivery_exchange": "second"}, warning: `The delivery exchange ` +
			`changes from "t.delivery" to "second". Messages for the address "orders" that arrive at exchange ` +
			`"t.delivery", if`},
		"levels": {change: attributes{"levels": 4}, line: "*.*.*.*.orders -> queue orders",
			warning: `The key changes from "*.*.*.orders" to "*.*.*.*.orders". Messages for the address "orders"`},
		"address": {change: attributes{"address": "mails"}, line: "*.*.*.mails -> queue orders",
			warning: `The key changes from "*.*.*.orders" to "*.*.*.mails". Messages for the address "orders", if ` +
				`some are on their way`},
		"match": {change: attributes{"match": "suffix", "levels": nil}, line: "#.orders -> queue orders"},
		"queue": {change: attributes{"queue": "other"}, line: "*.*.*.orders -> queue other"},
		"exchange": {change: attributes{"queue": nil, "exchange": "second"},
			line: "*.*.*.orders -> exchange second"},
		"adopt": {change: attributes{"adopt": true}, line: "*.*.*.orders -> queue orders"},
	} {
		p := v.destination()
		p.mustApply(base)
		changed := base.with(is.change)
		noErrors(t, p.refresh(t.Context()))
		todo := p.plan(t.Context(), changed)
		if todo.replace != is.replace {
			t.Errorf("%s: replaced: %t, want %t", name, todo.replace, is.replace)
		}
		if text := warningText(todo.diagnostics); !strings.Contains(text, is.warning) || is.warning == "" &&
			text != "" {
			t.Errorf("%s: the warning is %q, want %q", name, text, is.warning)
		}
		noErrors(t, p.apply(t.Context(), todo))
		p.mustBeSettled(changed)
		if is.line == "" {
			v.mustBeBound()
		} else {
			v.mustBeBound(is.line)
		}
		p.mustApply(nil)
		v.mustBeBound()
	}
}

// The two ends of a binding have to be there: each error names the missing one, on its attribute.
func TestDestinationErrors(t *testing.T) {
	t.Parallel()
	v := newDestinations(t, 2, "orders")
	given := attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	before := v.objects()
	for _, is := range []struct {
		change          attributes
		attribute, says string
	}{
		{attributes{"delivery_exchange": "nowhere"}, "delivery_exchange", `There is no exchange "nowhere" in vhost "` +
			v.name + `". Declare it first`},
		{attributes{"delivery_exchange": "amq.direct"}, "delivery_exchange", `Exchange "amq.direct" in vhost "` +
			v.name + `" is of type "direct". It has to be a topic exchange`},
		{attributes{"queue": "nowhere"}, "queue", `There is no queue "nowhere" in vhost "` + v.name +
			`". This provider declares none: an application does, or rabbitmq_queue`},
		{attributes{"queue": nil, "exchange": "nowhere"}, "exchange", `There is no exchange "nowhere"`},
		{attributes{"vhost": "nowhere"}, "", "no such vhost"},
	} {
		p := v.destination()
		diagnostics := p.apply(t.Context(), p.plan(t.Context(), given.with(is.change)))
		if text := errorText(diagnostics); len(diagnostics) != 1 || !strings.Contains(text, is.says) {
			t.Errorf("%v: the error is %q, want %q", is.change, text, is.says)
		} else if at := diagnostics[0].Attribute.String(); is.attribute != "" && at != `AttributeName("`+is.attribute+
			`")` {
			t.Errorf("%v: the error is on %s", is.change, at)
		}
		if !p.state.IsNull() {
			t.Errorf("%v: there is a state: %s", is.change, p.state)
		}
	}
	v.mustHold(before)
}

// A binding that exists is left alone, unless it is to be adopted, also when a destination changes into it.
func TestDestinationExists(t *testing.T) {
	t.Parallel()
	v := newDestinations(t, 2, "orders", "mails")
	given := attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	v.bind("t.delivery", "*.*.orders", "queue", "orders")
	refused := func(p *protocol, given attributes) (command string) {
		t.Helper()
		before := v.objects()
		text := errorText(p.apply(t.Context(), p.plan(t.Context(), given)))
		id := importCommand.FindStringSubmatch(text)
		if id == nil || !strings.Contains(text, "set adopt = true") || !strings.Contains(text, `queue "orders" with `+
			`key "*.*.orders"`) {
			t.Fatalf("the error is %q", text)
		}
		v.mustHold(before)
		return id[1]
	}
	p := v.destination()
	id := refused(p, given)
	if !p.state.IsNull() {
		t.Errorf("there is a state: %s", p.state)
	}
	imported := v.destination()
	noErrors(t, imported.importState(t.Context(), id))
	imported.mustBeSettled(given)

	p.mustApply(given.with(attributes{"adopt": true}))
	p.mustBeSettled(given.with(attributes{"adopt": true}))
	p.mustApply(given) // adopt is of no consequence once it has been
	p.mustApply(nil)
	v.mustBeBound()

	mails := given.with(attributes{"address": "mails"})
	p.mustApply(mails)
	v.bind("t.delivery", "*.*.orders", "queue", "orders")
	refused(p, given)
	p.mustBeSettled(mails)
	p.mustApply(given.with(attributes{"adopt": true}))
	v.mustBeBound("*.*.orders -> queue orders")
}

// A destination whose queue, exchange or vhost is gone leaves the state, and is made again once these are there.
func TestGoneDestination(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	given := attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	p := v.destination()
	for what, remove := range map[string]func(){
		"queue":    func() { v.try(v.api.DeleteQueue(v.name, "orders")) },
		"exchange": func() { v.try(v.api.DeleteExchange(v.name, "t.delivery")) },
		"vhost": func() {
			v.try(v.api.DeleteVhost(v.name))
			v.try(v.api.PutVhost(v.name, rabbithole.VhostSettings{}))
			v.try(v.api.UpdatePermissionsIn(v.name, v.broker.Username, rabbithole.Permissions{Configure: ".*",
				Write: ".*", Read: ".*"}))
		},
	} {
		v.declareExchange("t.delivery", "topic")
		v.declareQueue("orders", nil)
		p.mustApply(given)
		remove()
		noErrors(t, p.refresh(t.Context()))
		if !p.state.IsNull() {
			t.Errorf("the %s is gone, but the destination is in the state", what)
		}
	}
	v.declareExchange("t.delivery", "topic")
	v.declareQueue("orders", nil)
	p.mustApply(given)
	v.try(v.api.DeleteVhost(v.name))
	noErrors(t, p.apply(t.Context(), p.plan(t.Context(), nil)))
	v.try(v.api.PutVhost(v.name, rabbithole.VhostSettings{})) // which the end of the test expects
}

// Destinations that take each other's messages are warned of on both sides, with key and name, when they are made and
// on every refresh.
func TestDestinationOverlaps(t *testing.T) {
	t.Parallel()
	v := newDestinations(t, 2, "all", "eu", "de", "own")
	at := attributes{"vhost": v.name, "delivery_exchange": "t.delivery"}
	apply := func(given attributes) (p *protocol, warned string) {
		t.Helper()
		p = v.destination()
		diagnostics := p.apply(t.Context(), p.plan(t.Context(), given.with(at)))
		noErrors(t, diagnostics)
		return p, warningText(diagnostics)
	}
	eu, text := apply(attributes{"levels": 2, "address": "eu.orders", "queue": "eu"})
	if text != "" {
		t.Errorf("the only destination is warned of: %s", text)
	}
	v.bind("t.delivery", "#.de.orders", "queue", "de")
	v.bind("t.delivery", "#", "queue", "own") // somebody who listens in
	all, text := apply(attributes{"match": "suffix", "address": "orders", "queue": "all"})
	v.bind("t.delivery", "*.*.eu.orders", "queue", "all") // it gets these anyway
	for _, text := range []string{text, warningText(all.refresh(t.Context()))} {
		if strings.Count(text, "\n  ") != 2 || !strings.Contains(text, `queue "eu", bound with "*.*.eu.orders", is `+
			`there for "eu.orders", whose messages this destination also takes`) ||
			!strings.Contains(text, `queue "de", bound with "#.de.orders", is there for "de.orders"`) {
			t.Errorf("the suffix is warned of with: %s", text)
		}
	}
	if text := warningText(eu.refresh(t.Context())); strings.Count(text, "\n  ") != 1 ||
		!strings.Contains(text, `queue "all", bound with "#.orders", also takes messages for "eu.orders"`) {
		t.Errorf("the address is warned of with: %s", text)
	}
	for i := range 20 {
		v.bind("t.delivery", fmt.Sprintf("*.*.%d.orders", i), "queue", "own")
	}
	if text := warningText(all.refresh(t.Context())); strings.Count(text, "\n  ") != 10+1 ||
		!strings.Contains(text, "and 12 more") {
		t.Errorf("the warning of many is: %s", text)
	}
	exact := attributes{"levels": 2, "address": "orders", "queue": "all"}.with(at)
	noErrors(t, all.apply(t.Context(), all.plan(t.Context(), exact)))
	if text := warningText(append(all.refresh(t.Context()), eu.refresh(t.Context())...)); text != "" {
		t.Errorf("exact destinations are warned of: %s", text)
	}
}

// A queue that refuses messages when it is full is warned of when it is bound, and on every refresh, with what limits
// it.
func TestDestinationWithLimit(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "t", "levels": 2})
	v.try(v.api.PutPolicy(v.name, "limit", rabbithole.Policy{
		Pattern: "^policy$", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"max-length": 7,
			"overflow": "reject-publish"},
	}))
	for queue, test := range map[string]struct {
		arguments map[string]any
		limit     string // empty if there is no warning
	}{
		"argument": {map[string]any{"x-max-length": 5, "x-overflow": "reject-publish"}, "x-max-length = 5"},
		"bytes": {map[string]any{"x-max-length-bytes": 500, "x-overflow": "reject-publish-dlx"},
			"x-max-length-bytes = 500"},
		"policy":   {nil, `max-length = 7 by policy "limit"`},
		"drops":    {map[string]any{"x-max-length": 5}, ""},
		"no limit": {map[string]any{"x-queue-type": "quorum", "x-overflow": "reject-publish"}, ""},
		"nothing":  {nil, ""},
		"of a quorum queue": {map[string]any{"x-queue-type": "quorum", "x-max-length": 5,
			"x-overflow": "reject-publish"}, "x-max-length = 5"},
	} {
		v.declareQueue(queue, test.arguments)
		p := v.destination()
		applied := p.apply(t.Context(), p.plan(t.Context(), attributes{
			"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 2, "address": queue, "queue": queue}))
		noErrors(t, applied)
		refreshed := p.refresh(t.Context())
		noErrors(t, refreshed)
		for _, text := range []string{warningText(applied), warningText(refreshed)} {
			if (text != "") != (test.limit != "") || !strings.Contains(text, test.limit) {
				t.Errorf("%s is warned of with: %s", queue, text)
			}
		}
	}
}

// A user needs to write the destination and read the delivery exchange, and is told so.
func TestDestinationPermissions(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "tasks", "levels": 2})
	v.declareQueue("billing", nil)
	before := v.objects()
	u := newUser(t, v.broker, v.name)
	given := attributes{"vhost": v.name, "delivery_exchange": "tasks.delivery", "levels": 2, "address": "orders",
		"queue": "billing"}
	good := permissionsOf(t, "destinations")
	for _, is := range []struct {
		permissions [3]string
		missing     bool
	}{{good, false}, {[3]string{".*", "^$", ".*"}, true}, {[3]string{".*", ".*", "^$"}, true}} {
		u.grant(good)
		p := newProtocolOf(t, destinationType, u.broker(), nil)
		if !is.missing {
			p.mustApply(given)
			p.mustBeSettled(given)
			p.mustApply(given.with(attributes{"address": "mails"}))
			p.mustApply(nil)
			continue
		}
		u.grant(is.permissions)
		text := errorText(p.apply(t.Context(), p.plan(t.Context(), given)))
		if !strings.Contains(text, `write on queue "billing" and read on exchange "tasks.delivery"`) ||
			!p.state.IsNull() {
			t.Errorf("with %q: %s", is.permissions, text)
		}
		v.mustHold(before)
	}
}

// TestDestinationFaults lets every request of a create, an update and a destroy go wrong in every way, as
// TestFaultAtEveryRequest does. What lasts for one try is made good. In an update something is bound all the time.
// Whatever is bound is in the state. Afterwards one more apply converges, also on the configuration before or on
// another one, and nothing but the one binding is left.
func TestDestinationFaults(t *testing.T) {
	t.Parallel()
	v := newDestinations(t, 2, "orders", "other", "third")
	given := attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	before, other, third := given.with(attributes{"address": "before"}), given.with(attributes{"queue": "other"}),
		given.with(attributes{"queue": "third"})
	proxy := newFaultProxy(t, v.broker)
	tried := 0
	for verb, is := range map[string]destinationOperation{
		"create":        {after: given, next: []attributes{given}},
		"update":        {before: before, after: given, next: []attributes{given, before, third}},
		"second update": {before: given, broken: other, after: third, next: []attributes{third, given, other, before}},
		"destroy":       {before: given, next: []attributes{nil}},
	} {
		p, diagnostics := is.operate(v, proxy, destinationFault{})
		noErrors(t, diagnostics)
		points := proxy.points()
		p.mustApply(nil)
		for _, each := range sampling.Of(t, "faults in a "+verb, is.faults(points)) {
			tried++
			is.suffer(v, proxy, verb, each)
			if t.Failed() {
				t.Fatalf("%s, %s, then %v", verb, each, each.next)
			}
		}
	}
	t.Logf("%d faults", tried)
}

// destinationOperation goes from one configuration to another, perhaps after an update that broke off, and next are
// the configurations that may follow.
type destinationOperation struct {
	before, broken, after attributes
	next                  []attributes
}

type destinationFault struct {
	at point
	failure
	next attributes
}

func (f destinationFault) String() string { return fmt.Sprintf("%s, %s %s", f.at, f.fault, f.lasts) }

// faults are all that can go wrong at these points. How long they last takes turns.
func (o destinationOperation) faults(points []point) (all []destinationFault) {
	for i, at := range points {
		for j, kind := range []fault{answers500, answers503, resets, hangs, truncates, loses} {
			for k, lasts := range []persistence{once, always, fromHere} {
				if os.Getenv("FAULTS") == "all" || (i+j)%3 == k {
					all = append(all, destinationFault{at, failure{kind, lasts}, o.next[len(all)%len(o.next)]})
				}
			}
		}
	}
	return all
}

// operate runs the operation, in which one thing goes wrong.
func (o destinationOperation) operate(v *vhost, proxy *faultProxy, f destinationFault) (*protocol,
	[]*tfprotov6.Diagnostic) {
	p := v.destination()
	p.mustApply(o.before)
	if o.broken != nil {
		p.breakOff(proxy, o.broken)
	}
	return p, p.applyThrough(proxy, o.after, f.at, f.failure)
}

// suffer runs the operation with the fault, looks at the bindings, and converges.
func (o destinationOperation) suffer(v *vhost, proxy *faultProxy, verb string, f destinationFault) {
	v.Helper()
	what := fmt.Sprintf("%s, %s, then %v", verb, f, f.next)
	p, diagnostics := o.operate(v, proxy, f)
	switch text := errorText(diagnostics); {
	case !proxy.hasStruck():
		v.Errorf("%s: this request was not made: %s", what, text)
	case f.lasts == once && text != "":
		v.Errorf("%s: it does not get over it: %s", what, text)
	case p.state.IsNull() && o.after != nil && len(v.bound()) > 0:
		v.Errorf("%s: nothing is in the state, and bound are %q: %s", what, v.bound(), text)
	}
	there := v.bound()
	if o.before != nil && o.after != nil && !slices.Contains(there, line(o.before)) &&
		!slices.Contains(there, line(o.after)) {
		v.Errorf("%s: nothing is bound any more", what)
	}
	if in := p.inState(); slices.ContainsFunc(there, func(line string) bool { return !slices.Contains(in, line) }) {
		v.Errorf("%s: bound are %q, and in the state are %q", what, there, in)
	}
	p.converge(f.next)
	if f.next != nil {
		v.mustBeBound(line(f.next))
		p.mustBeSettled(f.next)
		p.mustApply(nil)
	}
	v.mustBeBound()
}

// line is how bound lists the binding of a destination with two levels.
func line(given attributes) string {
	return fmt.Sprintf("*.*.%s -> queue %s", given["address"], given["queue"])
}

// inState are the bindings that the state holds, as bound lists them.
func (p *protocol) inState() []string {
	p.t.Helper()
	if p.state.IsNull() {
		return nil
	}
	text := func(v tftypes.Value) (text string) {
		if err := v.As(&text); err != nil {
			p.t.Fatal(err)
		}
		return text
	}
	state := fields(p.t, p.state)
	lines := []string{text(state["routing_key"]) + " -> queue " + text(state["queue"])}
	var left []tftypes.Value
	if list := state["leftover_bindings"]; list.Type() != nil {
		if err := list.As(&left); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, each := range left {
		binding, err := bindingOf(text(each))
		if err != nil {
			p.t.Fatal(err)
		}
		lines = append(lines, binding.Line())
	}
	return lines
}

// converge does what terraform apply does: a plan that is empty is not carried out.
func (p *protocol) converge(configuration attributes) {
	p.t.Helper()
	noErrors(p.t, p.refresh(p.t.Context()))
	if todo := p.plan(p.t.Context(), configuration); !todo.isEmpty(p.state) {
		noErrors(p.t, p.apply(p.t.Context(), todo))
	}
}

// applyThrough applies with something going wrong at one point.
func (p *protocol) applyThrough(
	proxy *faultProxy, configuration attributes, at point, f failure,
) []*tfprotov6.Diagnostic {
	p.t.Helper()
	proxy.mutex.Lock()
	proxy.written, proxy.seen, proxy.at, proxy.failure, proxy.struck = false, nil, at, f, false
	proxy.mutex.Unlock()
	patience := attributes{"retry_timeout": onceMore}
	if f.lasts == once {
		patience["retry_timeout"] = "3s"
	}
	if f.fault == hangs {
		patience["request_timeout"] = hangTimeout
	}
	faulty := p.with(proxy.front(), patience)
	diagnostics := faulty.apply(p.t.Context(), faulty.plan(p.t.Context(), configuration))
	p.state, p.private, p.tainted = faulty.state, faulty.private, faulty.tainted
	return diagnostics
}

// binds is the request that binds a queue to the delivery exchange t.delivery, unbinds the one that takes that back.
func binds(vhost, queue string) point {
	return point{"POST", fmt.Sprintf("/api/bindings/%s/e/t.delivery/q/%s", vhost, queue), true}
}

func unbinds(vhost, queue string) point {
	return point{"DELETE", binds(vhost, queue).path + "/%252A.%252A.orders", true}
}

// breakOff begins an update to another queue that gets as far as to bind it. The broker then stays away for longer than
// anybody waits.
func (p *protocol) breakOff(proxy *faultProxy, configuration attributes) {
	p.t.Helper()
	at := binds(fmt.Sprint(configuration["vhost"]), fmt.Sprint(configuration["queue"]))
	text := errorText(p.applyThrough(proxy, configuration, at, failure{loses, fromHere}))
	if !proxy.hasStruck() || !strings.Contains(text, "could not be taken back") {
		p.t.Fatalf("the update did not break off: %s", text)
	}
}

// An update that binds another queue and then does not reach the broker any more leaves both bound, and says so in the
// plan. Whatever the configuration is then, the next apply leaves only what it says, and messages arrive once.
func TestDestinationUnfinishedUpdate(t *testing.T) {
	t.Parallel()
	elsewhere := newVhost(t)
	elsewhere.declareExchange("t.delivery", "topic")
	elsewhere.declareQueue("orders", nil)
	for name, is := range map[string]unfinishedUpdate{
		"as it was before":                    {attributes{"queue": "orders"}, true},
		"as it was before, without a refresh": {attributes{"queue": "orders"}, false},
		"as it was to be":                     {attributes{}, true},
		"as it was to be, without a refresh":  {attributes{}, false},
		"a third one":                         {attributes{"queue": "third"}, true},
		"a third one, without a refresh":      {attributes{"queue": "third"}, false},
		"another vhost":                       {attributes{"vhost": elsewhere.name, "queue": "orders"}, true},
		"destroyed":                           {nil, true},
		"destroyed without a refresh":         {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			recoverFromUpdate(t, is)
		})
	}
}

type unfinishedUpdate struct {
	next    attributes // of the change that was meant; nil destroys
	refresh bool
}

// recoverFromUpdate breaks an update off and applies the next configuration.
func recoverFromUpdate(t *testing.T, is unfinishedUpdate) {
	v := newDestinations(t, 2, "orders", "other", "third")
	given := attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	other := given.with(attributes{"queue": "other"})
	var next attributes
	if is.next != nil {
		next = other.with(is.next)
	}
	p := v.destination()
	p.mustApply(given)
	p.breakOff(newFaultProxy(t, v.broker), other)
	v.mustBeBound(line(given), line(other))
	if is.refresh {
		refreshed := p.refresh(t.Context())
		noErrors(t, refreshed)
		if text := warningText(refreshed); !strings.Contains(text, v.name+
			"/t.delivery/queue/other/*.*.orders") || strings.Contains(text, "take the same messages") {
			t.Errorf("the warning is %q", text)
		}
	}
	todo := p.plan(t.Context(), next)
	if todo.isEmpty(p.state) {
		t.Fatal("the plan is empty")
	}
	noErrors(t, p.apply(t.Context(), todo))
	if next == nil || next["vhost"] != v.name {
		v.mustBeBound()
		p.mustApply(nil)
		return
	}
	v.mustBeBound(line(next))
	p.mustBeSettled(next)
	if text := warningText(p.refresh(t.Context())); text != "" {
		t.Errorf("it is warned of: %s", text)
	}
	const n = 20
	for i := range n {
		v.publish("t.delay-01", routingKey(t, time.Duration(i%4)*time.Millisecond, 2, time.Millisecond, "orders"), "")
	}
	v.arrived(v.consume(fmt.Sprint(next["queue"])), n)
	for _, queue := range []string{"orders", "other", "third", "t.unroutable"} {
		if got := v.depth(queue); queue != next["queue"] && got > 0 {
			t.Errorf("queue %q got %d messages", queue, got)
		}
	}
}

// An update may remove the binding before and not the leftover of another update. It keeps the leftover in the state,
// as does one that breaks off, too.
func TestDestinationUnfinishedUpdates(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]unfinishedUpdates{
		"the leftover stays": {func(v *vhost) point { return unbinds(v.name, "other") },
			failure{answers500, always}, []string{"other", "third"}, "third"},
		"the one before stays": {func(v *vhost) point { return unbinds(v.name, "orders") },
			failure{answers500, always}, []string{"orders"}, "orders"},
		"broken off before unbinds": {func(v *vhost) point { return binds(v.name, "third") }, failure{loses, fromHere},
			[]string{"orders", "other", "third"}, "orders"},
		"broken off in an unbind": {func(v *vhost) point { return unbinds(v.name, "orders") },
			failure{loses, fromHere}, nil, "orders"},
	} {
		for _, next := range []string{"orders", "other", "third"} {
			t.Run(name+", then "+next, func(t *testing.T) {
				recoverFromTwoUpdates(t, is, next)
			})
		}
	}
}

type unfinishedUpdates struct {
	at    func(*vhost) point
	fails failure
	bound []string
	state string
}

// recoverFromTwoUpdates breaks off one update, lets the second fail, and applies the next configuration.
func recoverFromTwoUpdates(t *testing.T, is unfinishedUpdates, next string) {
	v := newDestinations(t, 2, "orders", "other", "third")
	to := func(queue string) attributes {
		return attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 2,
			"address": "orders", "queue": queue}
	}
	proxy := newFaultProxy(t, v.broker)
	p := v.destination()
	p.mustApply(to("orders"))
	p.breakOff(proxy, to("other"))
	text := errorText(p.applyThrough(proxy, to("third"), is.at(v), is.fails))
	if !proxy.hasStruck() || text == "" {
		t.Fatalf("the second update did not fail: %s", text)
	}
	var lines []string
	for _, queue := range is.bound {
		lines = append(lines, line(to(queue)))
	}
	if is.bound != nil { // otherwise it depends on which request is made first
		v.mustBeBound(lines...)
	}
	in := p.inState()
	if in[0] != line(to(is.state)) {
		t.Errorf("in the state is %q", in[0])
	}
	for _, line := range v.bound() {
		if !slices.Contains(in, line) {
			t.Errorf("bound is %q, and in the state are %q", line, in)
		}
	}
	p.converge(to(next))
	v.mustBeBound(line(to(next)))
	p.mustBeSettled(to(next))
	v.publish("t.delay-01", routingKey(t, time.Millisecond, 2, time.Millisecond, "orders"), "")
	v.arrived(v.consume(next), 1)
	for _, queue := range []string{"orders", "other", "third", "t.unroutable"} {
		if got := v.depth(queue); queue != next && got > 0 {
			t.Errorf("queue %q got %d messages", queue, got)
		}
	}
}

// A process that ends between the two steps of an update leaves both bindings. The next apply says which one it has not
// expected, and goes on with adopt.
func TestDestinationKilledUpdate(t *testing.T) {
	t.Parallel()
	v := newDestinations(t, 2, "orders")
	before := attributes{"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 2, "address": "before",
		"queue": "orders"}
	after := before.with(attributes{"address": "orders"})
	p := v.destination()
	p.mustApply(before)
	v.bind("t.delivery", "*.*.orders", "queue", "orders")
	noErrors(t, p.refresh(t.Context()))
	if text := errorText(p.apply(t.Context(), p.plan(t.Context(), after))); !strings.Contains(text,
		`with key "*.*.orders"`) || !strings.Contains(text, "adopt = true") {
		t.Errorf("the error is %s", text)
	}
	p.mustApply(after.with(attributes{"adopt": true}))
	v.mustBeBound("*.*.orders -> queue orders")
}

// Something that cannot be bound is one error on the attribute that is to blame, before anything is planned.
func TestDestinationValidation(t *testing.T) {
	unknown := func(typ tftypes.Type) tftypes.Value { return tftypes.NewValue(typ, tftypes.UnknownValue) }
	good := attributes{"delivery_exchange": "t.delivery", "levels": 4, "address": "orders", "queue": "orders"}
	for name, is := range map[string]struct {
		change           attributes
		attribute, error string
	}{
		"no levels": {attributes{"levels": nil}, "levels", `levels is missing; with match = "exact" ` +
			`the key has a word for each level`},
		"no level":        {attributes{"levels": 0}, "levels", "levels is 0; it has to be 1 or more"},
		"too many levels": {attributes{"levels": 40}, "levels", "levels is 40"},
		"levels with a suffix": {attributes{"match": "suffix"}, "levels", "holds for any number of levels; " +
			"leave it out"},
		"another match": {attributes{"match": "prefix"}, "match", `match is "prefix"; it can be "exact" or ` +
			`"suffix"`},
		"an empty match":   {attributes{"match": ""}, "match", "match is empty"},
		"an empty address": {attributes{"address": ""}, "address", "address is empty"},
		"a star":           {attributes{"address": "*"}, "address", `whose word "*" would stand for any word`},
		"a hash": {attributes{"address": "orders.#"}, "address", `whose word "#" would stand for ` +
			`any word`},
		"a long address": {attributes{"address": strings.Repeat("a", 248)}, "address",
			"behind 4 levels it can have 247"},
		"a long suffix": {attributes{"address": strings.Repeat("a", 254), "match": "suffix", "levels": nil},
			"address", "it can have 253"},
		"a queue and an exchange": {attributes{"exchange": "e"}, "queue", "queue is given beside exchange"},
		"neither":                 {attributes{"queue": nil}, "queue", "queue is missing; give it, or exchange"},
		"an empty queue":          {attributes{"queue": ""}, "queue", "queue is empty"},
		"an empty exchange":       {attributes{"queue": nil, "exchange": ""}, "exchange", "exchange is empty"},
		"the exchange itself": {attributes{"queue": nil, "exchange": "t.delivery"}, "exchange",
			"the delivery exchange itself"},
		"no delivery exchange": {attributes{"delivery_exchange": ""}, "delivery_exchange",
			"delivery_exchange is empty"},
		"an empty vhost":  {attributes{"vhost": ""}, "vhost", "vhost is empty"},
		"a vhost of dots": {attributes{"vhost": ".."}, "vhost", "management API"},

		// Known values are checked beside unknown ones.
		"a star, levels unknown": {attributes{"address": "*", "levels": unknown(tftypes.Number)}, "address",
			"any word"},
		"a long address, levels unknown": {attributes{"address": strings.Repeat("a", 254),
			"levels": unknown(tftypes.Number)}, "address", "254 bytes"},
		"too many levels, all else unknown": {attributes{
			"levels": 40, "address": unknown(tftypes.String), "queue": unknown(tftypes.String),
			"exchange": unknown(tftypes.String), "delivery_exchange": unknown(tftypes.String),
			"match": unknown(tftypes.String), "vhost": unknown(tftypes.String),
		}, "levels", "levels is"},
		"both, names unknown": {attributes{"queue": "q", "exchange": "e", "address": unknown(tftypes.String)}, "queue",
			"beside exchange"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newServerOf(t, destinationType)
			todo := p.plan(t.Context(), good.with(is.change))
			if len(todo.diagnostics) != 1 || !hasErrors(todo.diagnostics) {
				t.Fatalf("not one error: %s", errorText(todo.diagnostics))
			}
			d := todo.diagnostics[0]
			if want := `AttributeName("` + is.attribute + `")`; d.Attribute.String() != want ||
				!strings.Contains(d.Detail, is.error) {
				t.Errorf("the error is on %s: %s; want %s: %s", d.Attribute, d.Detail, want, is.error)
			}
		})
	}
}

// Any attribute may be unknown, and any two of them. The key is known as soon as what it consists of is.
func TestDestinationUnknown(t *testing.T) {
	types := map[string]tftypes.Type{
		"vhost": tftypes.String, "delivery_exchange": tftypes.String, "levels": tftypes.Number,
		"address": tftypes.String, "match": tftypes.String,
		"queue": tftypes.String, "exchange": tftypes.String, "adopt": tftypes.Bool,
	}
	for _, good := range []attributes{
		{"delivery_exchange": "t.delivery", "levels": 4, "address": "orders", "queue": "orders"},
		{"delivery_exchange": "t.delivery", "match": "suffix", "address": "orders", "exchange": "orders"},
		{"delivery_exchange": "t.delivery", "match": "exact", "levels": 2, "address": "orders", "exchange": "orders"},
	} {
		for one := range types {
			for other := range types {
				p := newServerOf(t, destinationType)
				todo := p.plan(t.Context(), good.with(
					attributes{one: tftypes.NewValue(types[one], tftypes.UnknownValue),
						other: tftypes.NewValue(types[other], tftypes.UnknownValue)}))
				if hasErrors(todo.diagnostics) {
					t.Errorf("%v with unknown %s and %s: %s", good, one, other, errorText(todo.diagnostics))
					continue
				}
				is := func(name string) bool { return one == name || other == name }
				// Levels and match say much of each other.
				want := !is("address") && (!is("levels") || good["match"] == "suffix" && !is("match"))
				if key := fields(t, todo.state)["routing_key"]; key.IsKnown() != want {
					t.Errorf("%v with unknown %s and %s: the key is %s", good, one, other, key)
				}
			}
		}
	}
}

// The error of an import that leads nowhere says why, and names the bindings that exist instead.
func TestDestinationImportErrors(t *testing.T) {
	t.Parallel()
	v := newDestinations(t, 2, "orders")
	v.bind("t.delivery", "*.*.orders", "queue", "orders")
	v.bind("t.delivery", "#", "queue", "orders")
	v.try(v.api.DeclareBinding(v.name, rabbithole.BindingInfo{
		Source: "t.delivery", RoutingKey: "*.*.mails", DestinationType: "queue", Destination: "orders",
		Arguments: map[string]any{"x": 1},
	}))
	looksLike := "it has to be <vhost>/<delivery exchange>/queue/<queue>/<routing key>, or with exchange in place of " +
		"queue, each part percent-encoded, such as %2F/tasks.delivery/queue/orders/*.*.*.*.orders"
	for id, want := range map[string]string{
		"":                                       looksLike,
		"t.delivery/queue/orders/*.*.orders":     looksLike,
		v.name + "/t.delivery/orders/*.*.orders": looksLike,
		v.name + "/t.delivery/topic/orders/*.*.orders": looksLike,
		v.name + "/t.delivery/queue//*.*.orders":       looksLike,
		v.name + "/t.delivery/queue/orders/%":          looksLike,
		v.name + "/t.delivery/queue/orders/a/b":        looksLike,
		"nowhere/t.delivery/queue/orders/*.*.orders":   "no such vhost",
		v.name + "/nowhere/queue/orders/*.*.orders": "there is no such binding, nor any other of this exchange " +
			"to this queue",
		v.name + "/t.delivery/exchange/orders/*.*.orders": "nor any other of this exchange to this exchange",
		v.name + "/t.delivery/queue/orders/*.orders": `there is no such binding; this exchange is bound to this ` +
			`queue with "#", "*.*.mails", "*.*.orders"`,
		v.name + "/t.delivery/queue/orders/*.*.mails": "there is no such binding",
		v.name + "/t.delivery/queue/orders/%23": `its key "#" is neither one "*" for each level nor "#", ` +
			`and then an address`,
	} {
		p := v.destination()
		diagnostics := p.importState(t.Context(), id)
		if id == "" {
			diagnostics = p.importDestination(topology.Binding{DestinationType: topology.ToQueue}, v.name)
			want = "either queue or exchange"
		}
		if text := errorText(diagnostics); len(diagnostics) != 1 || !strings.Contains(text, want) {
			t.Errorf("%s: %d diagnostics, want %q: %s", id, len(diagnostics), want, text)
		}
	}
}
