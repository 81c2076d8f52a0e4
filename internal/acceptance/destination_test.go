package acceptance

import (
	"encoding/base64"
	"encoding/json"
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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A destination's life: created, settled, damaged, repaired, imported, changed, destroyed. What others have bound
// stays as it is.
func TestDestinationLife(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]destinationLife{
		"queue": {harness.Attributes{"levels": 3, "address": "orders", "queue": "orders"},
			"*.*.*.orders -> queue orders", "queue/orders/*.*.*.orders"},
		"exchange": {harness.Attributes{"levels": 3, "address": "orders.eu", "exchange": "onwards"},
			"*.*.*.orders.eu -> exchange onwards", "exchange/onwards/*.*.*.orders.eu"},
		"suffix": {harness.Attributes{"match": "suffix", "address": "orders", "queue": "orders"},
			"#.orders -> queue orders", "queue/orders/%23.orders"},
		"all that is odd": {harness.Attributes{"levels": 3, "address": " a/b%#x+&?*é..1.~", "queue": "a b/ü%~#+?"},
			"*.*.*. a/b%#x+&?*é..1.~ -> queue a b/ü%~#+?",
			"queue/a%20b%2F%C3%BC%25~%23+%3F/*.*.*.%20a%2Fb%25%23x+&%3F*%C3%A9..1.~"},
		"words like digits": {harness.Attributes{"levels": 3, "address": "0.1", "queue": "orders"},
			"*.*.*.0.1 -> queue orders", "queue/orders/*.*.*.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			liveDestination(t, is)
		})
	}
}

type destinationLife struct {
	given harness.Attributes
	line  string
	id    string
}

// liveDestination takes one destination through its life.
func liveDestination(t *testing.T, is destinationLife) {
	t.Parallel()
	v := harness.NewDestinations(t, 3, "orders", "a b/ü%~#+?", "foreign")
	v.DeclareExchange("onwards", "fanout")
	v.Bind("onwards", "", "queue", "orders")
	v.Bind("t.delivery", "*.*.*.foreign", "queue", "foreign")
	const foreign = "*.*.*.foreign -> queue foreign"
	without := v.Objects()
	given := is.given.With(harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery"})
	p := v.Destination()

	todo := p.Plan(t.Context(), given)
	if harness.NoErrors(t, todo.Diagnostics); !todo.State.IsFullyKnown() {
		t.Errorf("the plan holds unknown values: %s", todo.State)
	}
	if text := harness.WarningText(append(todo.Diagnostics, p.Apply(t.Context(), todo)...)); text != "" {
		t.Error(text)
	}
	p.MustBeSettled(given)
	v.MustBeBound(foreign, is.line)

	source, line := "t.delivery", topology.Binding{}
	for b := range v.Objects().Bindings {
		if b.Source == source && b.Plain().Line() == is.line {
			line = b
		}
	}
	v.Do(plan.Unbind{Binding: line})
	v.MustBeBound(foreign)
	harness.NoErrors(t, p.Refresh(t.Context()))
	if !p.State.IsNull() {
		t.Error("the binding is gone, but it is in the state")
	}
	p.MustApply(given)
	v.MustBeBound(foreign, is.line)

	for how, bring := range map[string]func(*harness.Protocol) []*tfprotov6.Diagnostic{
		"ID": func(p *harness.Protocol) []*tfprotov6.Diagnostic {
			return p.ImportState(t.Context(), v.Name+"/t.delivery/"+is.id)
		},
		"identity": func(p *harness.Protocol) []*tfprotov6.Diagnostic {
			return importDestination(p, line, v.Name)
		},
	} {
		imported := v.Destination()
		if text := harness.ErrorText(bring(imported)); text != "" {
			t.Fatalf("by %s: %s", how, text)
		}
		imported.MustBeSettled(given)
	}
	if id := harness.DestinationID(v.Name, line); id != v.Name+"/t.delivery/"+is.id {
		t.Errorf("the ID is %s", id)
	}

	p.MustApply(nil)
	v.MustHold(without)
}

// importDestination imports a binding by identity.
func importDestination(p *harness.Protocol, b topology.Binding, vhost string) []*tfprotov6.Diagnostic {
	p.T.Helper()
	typ := tftypes.Object{AttributeTypes: map[string]tftypes.Type{
		"vhost": tftypes.String, "delivery_exchange": tftypes.String, "queue": tftypes.String,
		"exchange": tftypes.String, "routing_key": tftypes.String,
	}}
	identity := harness.Dynamic(p.T, typ, harness.NewObject(p.T, typ, harness.Attributes{
		"vhost": vhost, "delivery_exchange": b.Source, "routing_key": b.RoutingKey,
		string(b.DestinationType): b.Destination,
	}))
	return p.ImportBy(p.T.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: p.TypeName,
		Identity: &tfprotov6.ResourceIdentityData{IdentityData: identity}})
}

// Messages go through the cascade to a queue, to one behind an exchange, and for a suffix from longer addresses. An
// address gets none of the messages for others.
func TestDestinationMessages(t *testing.T) {
	t.Parallel()
	const levels = 3
	v := harness.NewDestinations(t, levels, "orders", "behind", "suffix")
	v.DeclareExchange("onwards", "topic")
	v.Bind("onwards", "*.*.*.mails", "queue", "behind")
	for _, further := range []harness.Attributes{
		{"levels": levels, "address": "orders", "queue": "orders"},
		{"levels": levels, "address": "mails", "exchange": "onwards"},
		{"match": "suffix", "address": "bills", "queue": "suffix"},
	} {
		v.Destination().MustApply(further.With(harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery"}))
	}
	want := map[string][]string{"orders": {"orders"}, "behind": {"mails"}, "suffix": {"bills", "eu.bills"},
		"t.unroutable": {"eu.orders", "orders.eu", "eu.mails"}}
	const each = 1 << levels
	for _, addresses := range want {
		for _, address := range addresses {
			for delay := range each {
				v.Publish("t.delay-02", harness.RoutingKey(t, time.Duration(delay)*time.Millisecond, levels,
					time.Millisecond, address), address)
			}
		}
	}
	for queue, addresses := range want {
		arrived := map[string]int{}
		for _, a := range v.Arrived(v.Consume(queue), each*len(addresses)) {
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
	v := harness.NewVhost(t)
	v.DeclareQueue("orders", nil)
	harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name,
		"name": "t", "delays": harness.TextList("5ms", "10ms")})
	v.Destination().MustApply(harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 1,
		"address": "orders", "queue": "orders"})
	v.Publish("t.entry", "5ms.orders", "")
	v.Publish("t.entry", "10ms.orders", "")
	v.Arrived(v.Consume("orders"), 2)
}

// A stream of messages runs while the destination is changed. Where the same queue takes them before and after, it gets
// each once. Where another one does, or the messages come from another exchange, none is lost.
func TestDestinationChangesUnderTraffic(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]destinationChange{
		"key":               {harness.Attributes{"levels": nil, "match": "suffix"}, false},
		"queue":             {harness.Attributes{"queue": "other"}, true},
		"queue to exchange": {harness.Attributes{"queue": nil, "exchange": "onwards"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			changeUnderTraffic(t, name, is)
		})
	}
}

type destinationChange struct {
	change  harness.Attributes
	doubles bool
}

// changeUnderTraffic changes a destination and changes it back while messages flow, and counts what arrives.
func changeUnderTraffic(t *testing.T, name string, is destinationChange) {
	t.Parallel()
	const levels = 3
	v := harness.NewDestinations(t, levels, "orders", "other")
	v.DeclareExchange("onwards", "fanout")
	v.Bind("onwards", "", "queue", "other")
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": levels,
		"address": "orders", "queue": "orders"}
	// Back from a suffix, messages for longer addresses would be left without a way; there are none.
	given["force_destroy"] = name == "key"
	changed := given.With(is.change)
	p := v.Destination()
	p.MustApply(given)

	parked, doubled, sent := underTraffic(v, levels, func(flow func()) {
		for range 10 {
			for _, next := range []harness.Attributes{changed, given} {
				flow()
				p.MustApply(next)
			}
		}
	}, "orders", "other")
	if parked > 0 {
		t.Errorf("of %d messages %d are parked", sent, parked)
	}
	if doubled > 0 && !is.doubles {
		t.Errorf("%d of %d messages arrived twice", doubled, sent)
	}
	t.Logf("of %d messages %d arrived twice", sent, doubled)
}

// A binding of an application becomes that of a destination, and comes back, while messages flow. None is lost or
// doubled.
func TestDestinationGetsItsMarkUnderTraffic(t *testing.T) {
	t.Parallel()
	const levels = 3
	v := harness.NewDestinations(t, levels, "orders")
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": levels,
		"address": "orders", "queue": "orders"}
	id := v.Name + "/t.delivery/queue/orders/*.*.*.orders"
	v.Bind("t.delivery", "*.*.*.orders", "queue", "orders")
	parked, doubled, sent := underTraffic(v, levels, func(flow func()) {
		for range 10 {
			p := v.Destination()
			harness.NoErrors(t, p.ImportState(t.Context(), id))
			flow()
			p.MustApply(given.With(harness.Attributes{"drain_timeout": "1m"}))
			v.MustBeBound("*.*.*.orders -> queue orders")
			flow()
			v.Bind("t.delivery", "*.*.*.orders", "queue", "orders")
			flow()
			p.MustApply(nil) // which waits for nothing
			v.MustBeBound("*.*.*.orders -> queue orders")
		}
	}, "orders")
	if parked+doubled > 0 {
		t.Errorf("of %d messages %d are parked and %d came twice", sent, parked, doubled)
	}
}

// underTraffic acts while messages for the address orders flow, which reach one of the queues. It waits for all of
// them, and returns how many are parked and how many came twice. Flow waits until some more are sent.
func underTraffic(
	v *harness.Vhost, levels int, act func(flow func()), queues ...string,
) (parked, doubled int, all int64) {
	v.T.Helper()
	var sent atomic.Int64
	stop, stopped := make(chan struct{}), make(chan error, 1)
	publisher := v.Publisher()
	publish := func(delay int) error {
		key := harness.RoutingKey(v.T, time.Duration(delay)*time.Millisecond, levels, time.Millisecond, "orders")
		body := fmt.Append(nil, sent.Load())
		err := publisher.Publish(v.T.Context(), fmt.Sprintf("t.delay-%02d", levels-1), key, amqp.Publishing{Body: body})
		if err == nil {
			sent.Add(1)
		}
		return err
	}
	go func() { stopped <- publishPairs(publish, stop) }()
	act(func() {
		before := sent.Load()
		v.Eventually("messages flow", func() bool { return sent.Load() > before+10 })
	})
	close(stop)
	if err := <-stopped; err != nil {
		v.T.Fatal(err)
	}
	var collectors []*brokertest.Collector
	for _, queue := range append(queues, "t.unroutable") {
		collectors = append(collectors, v.Consume(queue))
	}
	var arrived map[string]int
	v.Eventually("every message has arrived", func() bool {
		arrived = map[string]int{}
		for _, c := range collectors {
			for _, a := range c.Arrivals() {
				arrived[string(a.Body)]++
			}
		}
		return len(arrived) == int(sent.Load())
	})
	for _, n := range arrived {
		if n > 1 {
			doubled++
		}
	}
	return len(collectors[len(queues)].Arrivals()), doubled, sent.Load()
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
	v, other := harness.NewDestinations(t, 3, "orders", "other"), harness.NewVhost(t)
	v.DeclareExchange("second", "topic")
	other.DeclareExchange("t.delivery", "topic")
	other.DeclareQueue("orders", nil)
	base := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 3, "address": "orders",
		"queue": "orders"}
	for name, is := range map[string]struct {
		change  harness.Attributes
		line    string
		warning string
		replace bool
	}{
		"vhost": {change: harness.Attributes{"vhost": other.Name}, replace: true},
		"delivery_exchange": {change: harness.Attributes{"delivery_exchange": "second"},
			warning: `The delivery exchange ` +
				`changes from "t.delivery" to "second". Messages for the address "orders" that arrive at exchange ` +
				`"t.delivery", if`},
		"levels": {change: harness.Attributes{"levels": 4}, line: "*.*.*.*.orders -> queue orders",
			warning: `The key changes from "*.*.*.orders" to "*.*.*.*.orders". Messages for the address "orders"`},
		"address": {change: harness.Attributes{"address": "mails"}, line: "*.*.*.mails -> queue orders",
			warning: `The key changes from "*.*.*.orders" to "*.*.*.mails". Messages for the address "orders", if ` +
				`some are on their way`},
		"match": {change: harness.Attributes{"match": "suffix", "levels": nil}, line: "#.orders -> queue orders"},
		"queue": {change: harness.Attributes{"queue": "other"}, line: "*.*.*.orders -> queue other"},
		"exchange": {change: harness.Attributes{"queue": nil, "exchange": "second"},
			line: "*.*.*.orders -> exchange second"},
		"force_destroy": {change: harness.Attributes{"force_destroy": true}, line: "*.*.*.orders -> queue orders"},
	} {
		p := v.Destination()
		p.MustApply(base)
		changed := base.With(is.change)
		harness.NoErrors(t, p.Refresh(t.Context()))
		todo := p.Plan(t.Context(), changed)
		if todo.Replace != is.replace {
			t.Errorf("%s: replaced: %t, want %t", name, todo.Replace, is.replace)
		}
		if text := harness.WarningText(todo.Diagnostics); !strings.Contains(text, is.warning) || is.warning == "" &&
			text != "" {
			t.Errorf("%s: the warning is %q, want %q", name, text, is.warning)
		}
		harness.NoErrors(t, p.Apply(t.Context(), todo))
		p.MustBeSettled(changed)
		if is.line == "" {
			v.MustBeBound()
		} else {
			v.MustBeBound(is.line)
		}
		p.MustApply(nil)
		v.MustBeBound()
	}
}

// The two ends of a binding have to be there: each error names the missing one, on its attribute.
func TestDestinationErrors(t *testing.T) {
	t.Parallel()
	v := harness.NewDestinations(t, 2, "orders")
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	before := v.Objects()
	for _, is := range []struct {
		change          harness.Attributes
		attribute, says string
	}{
		{harness.Attributes{"delivery_exchange": "nowhere"}, "delivery_exchange",
			`There is no exchange "nowhere" in vhost "` +
				v.Name + `". Declare it first`},
		{harness.Attributes{"delivery_exchange": "amq.direct"}, "delivery_exchange",
			`Exchange "amq.direct" in vhost "` +
				v.Name + `" is of type "direct". The delivery exchange has to be a topic exchange`},
		{harness.Attributes{"queue": "nowhere"}, "queue", `There is no queue "nowhere" in vhost "` + v.Name +
			`". This provider declares none: an application does, or rabbitmq_queue`},
		{harness.Attributes{"queue": nil, "exchange": "nowhere"}, "exchange", `There is no exchange "nowhere"`},
		{harness.Attributes{"vhost": "nowhere"}, "", "no such vhost"},
	} {
		p := v.Destination()
		diagnostics := p.Apply(t.Context(), p.Plan(t.Context(), given.With(is.change)))
		if text := harness.ErrorText(diagnostics); len(diagnostics) != 1 || !strings.Contains(text, is.says) {
			t.Errorf("%v: the error is %q, want %q", is.change, text, is.says)
		} else if at := diagnostics[0].Attribute.String(); is.attribute != "" && at != `AttributeName("`+is.attribute+
			`")` {
			t.Errorf("%v: the error is on %s", is.change, at)
		}
		if !p.State.IsNull() {
			t.Errorf("%v: there is a state: %s", is.change, p.State)
		}
	}
	v.MustHold(before)
}

// A destination whose queue, exchange or vhost is gone leaves the state, and is made again once these are there.
func TestGoneDestination(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	p := v.Destination()
	for what, remove := range map[string]func(){
		"queue":    func() { v.Try(v.API.DeleteQueue(v.Name, "orders")) },
		"exchange": func() { v.Try(v.API.DeleteExchange(v.Name, "t.delivery")) },
		"vhost": func() {
			v.Try(v.API.DeleteVhost(v.Name))
			v.Try(v.API.PutVhost(v.Name, rabbithole.VhostSettings{}))
			v.Try(v.API.UpdatePermissionsIn(v.Name, v.Broker.Username, rabbithole.Permissions{Configure: ".*",
				Write: ".*", Read: ".*"}))
		},
	} {
		v.DeclareExchange("t.delivery", "topic")
		v.DeclareQueue("orders", nil)
		p.MustApply(given)
		remove()
		harness.NoErrors(t, p.Refresh(t.Context()))
		if !p.State.IsNull() {
			t.Errorf("the %s is gone, but the destination is in the state", what)
		}
	}
	v.DeclareExchange("t.delivery", "topic")
	v.DeclareQueue("orders", nil)
	p.MustApply(given)
	v.Try(v.API.DeleteVhost(v.Name))
	harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), nil)))
	v.Try(v.API.PutVhost(v.Name, rabbithole.VhostSettings{})) // which the end of the test expects
}

// Destinations that take each other's messages are warned of on both sides, with key and name, when they are made and
// on every refresh.
func TestDestinationOverlaps(t *testing.T) {
	t.Parallel()
	v := harness.NewDestinations(t, 2, "all", "eu", "de", "own")
	at := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery"}
	apply := func(given harness.Attributes) (p *harness.Protocol, warned string) {
		t.Helper()
		p = v.Destination()
		diagnostics := p.Apply(t.Context(), p.Plan(t.Context(), given.With(at)))
		harness.NoErrors(t, diagnostics)
		return p, harness.WarningText(diagnostics)
	}
	eu, text := apply(harness.Attributes{"levels": 2, "address": "eu.orders", "queue": "eu"})
	if text != "" {
		t.Errorf("the only destination is warned of: %s", text)
	}
	v.Bind("t.delivery", "#.de.orders", "queue", "de")
	v.Bind("t.delivery", "#", "queue", "own") // somebody who listens in
	all, text := apply(harness.Attributes{"match": "suffix", "address": "orders", "queue": "all"})
	v.Bind("t.delivery", "*.*.eu.orders", "queue", "all") // it gets these anyway
	for _, text := range []string{text, harness.WarningText(all.Refresh(t.Context()))} {
		if strings.Count(text, "\n  ") != 2 || !strings.Contains(text, `queue "eu", bound with "*.*.eu.orders", is `+
			`there for "eu.orders", whose messages this destination also takes`) ||
			!strings.Contains(text, `queue "de", bound with "#.de.orders", is there for "de.orders"`) {
			t.Errorf("the suffix is warned of with: %s", text)
		}
	}
	if text := harness.WarningText(eu.Refresh(t.Context())); strings.Count(text, "\n  ") != 1 ||
		!strings.Contains(text, `queue "all", bound with "#.orders", also takes messages for "eu.orders"`) {
		t.Errorf("the address is warned of with: %s", text)
	}
	for i := range 20 {
		v.Bind("t.delivery", fmt.Sprintf("*.*.%d.orders", i), "queue", "own")
	}
	if text := harness.WarningText(all.Refresh(t.Context())); strings.Count(text, "\n  ") != 10+1 ||
		!strings.Contains(text, "and 12 more") {
		t.Errorf("the warning of many is: %s", text)
	}
	exact := harness.Attributes{"levels": 2, "address": "orders", "queue": "all"}.With(at)
	harness.NoErrors(t, all.Apply(t.Context(), all.Plan(t.Context(), exact)))
	if text := harness.WarningText(append(all.Refresh(t.Context()), eu.Refresh(t.Context())...)); text != "" {
		t.Errorf("exact destinations are warned of: %s", text)
	}
}

// A queue that refuses messages when it is full is warned of when it is bound, and on every refresh, with what limits
// it.
func TestDestinationWithLimit(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2})
	v.Try(v.API.PutPolicy(v.Name, "limit", rabbithole.Policy{
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
		v.DeclareQueue(queue, test.arguments)
		isServed(v, queue)
		p := v.Destination()
		applied := p.Apply(t.Context(), p.Plan(t.Context(), harness.Attributes{
			"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2, "address": queue, "queue": queue}))
		harness.NoErrors(t, applied)
		refreshed := p.Refresh(t.Context())
		harness.NoErrors(t, refreshed)
		for _, text := range []string{harness.WarningText(applied), harness.WarningText(refreshed)} {
			if (text != "") != (test.limit != "") || !strings.Contains(text, test.limit) {
				t.Errorf("%s is warned of with: %s", queue, text)
			}
		}
	}
}

// A user needs to write the destination and read the delivery exchange, and is told so. The page has permissions for
// the delay queues of both forms.
func TestDestinationPermissions(t *testing.T) {
	t.Parallel()
	for form, cascade := range map[string]harness.Attributes{
		"units":   {"units": harness.TextList("2s", "1s"), "max_delay": "2s"},
		"uniform": {"levels": 2},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			harness.NewProtocol(t, v.Broker, nil).MustApply(cascade.With(harness.Attributes{"vhost": v.Name,
				"name": "orders"}))
			v.DeclareQueue("billing", nil)
			before := v.Objects()
			u := harness.NewUser(t, v.Broker, v.Name)
			given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "orders.delivery", "levels": 2,
				"address": "orders", "queue": "billing"}
			good := permissionsOf(t, "destinations")
			for _, is := range []struct {
				permissions [3]string
				missing     bool
			}{{good, false}, {[3]string{".*", "^$", ".*"}, true}, {[3]string{".*", ".*", "^$"}, true}} {
				u.Grant(good)
				p := harness.NewProtocolOf(t, harness.DestinationType, u.Broker(), nil)
				if !is.missing {
					p.MustApply(given)
					p.MustBeSettled(given)
					p.MustApply(given.With(harness.Attributes{"address": "mails"}))
					p.MustApply(nil)
					continue
				}
				u.Grant(is.permissions)
				text := harness.ErrorText(p.Apply(t.Context(), p.Plan(t.Context(), given)))
				if !strings.Contains(text, `write on queue "billing" and read on exchange "orders.delivery"`) ||
					!p.State.IsNull() {
					t.Errorf("with %q: %s", is.permissions, text)
				}
				v.MustHold(before)
			}
		})
	}
}

// TestDestinationFaults lets every request of a create, an update and a destroy go wrong in every way, as
// TestFaultAtEveryRequest does. What lasts for one try is made good. In an update something is bound all the time.
// Whatever is bound is in the state. Afterwards one more apply converges, also on the configuration before or on
// another one, and nothing but the one binding is left.
func TestDestinationFaults(t *testing.T) {
	t.Parallel()
	tried := 0
	for form, inUnits := range bothForms {
		cascade := eitherForm{"t", 2, time.Millisecond, inUnits, severalQueues}
		v := harness.NewDestinationsOf(t, cascade.given(), "orders", "other", "third")
		proxy := harness.NewFaultProxy(t, v.Broker)
		for verb, is := range destinationOperations(v.Name) {
			if inUnits && verb != "update" && verb != "destroy" {
				continue // which ask for messages on their way no more than these
			}
			p, diagnostics := is.operate(v, proxy, destinationFault{})
			harness.NoErrors(t, diagnostics)
			points := proxy.Points()
			p.MustApply(nil)
			for _, each := range sampling.Of(t, "faults in a "+verb+", "+form, is.faults(points)) {
				tried++
				is.suffer(v, proxy, verb, each)
				if t.Failed() {
					t.Fatalf("%s, %s, %s, then %v", form, verb, each, each.next)
				}
			}
		}
	}
	t.Logf("%d faults", tried)
}

// destinationOperations are those of a destination with two levels.
func destinationOperations(vhost string) map[string]destinationOperation {
	given := harness.Attributes{"vhost": vhost, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	before, other, third := given.With(harness.Attributes{"address": "before"}),
		given.With(harness.Attributes{"queue": "other"}),
		given.With(harness.Attributes{"queue": "third"})
	return map[string]destinationOperation{
		"create": {after: given, next: []harness.Attributes{given}},
		"update": {before: before, after: given, next: []harness.Attributes{given, before, third}},
		"second update": {before: given, broken: other, after: third, next: []harness.Attributes{third, given, other,
			before}},
		"destroy": {before: given, next: []harness.Attributes{nil}},
	}
}

// destinationOperation goes from one configuration to another, perhaps after an update that broke off, and next are
// the configurations that may follow.
type destinationOperation struct {
	before, broken, after harness.Attributes
	next                  []harness.Attributes
}

type destinationFault struct {
	at harness.Point
	harness.Failure
	next harness.Attributes
}

func (f destinationFault) String() string { return fmt.Sprintf("%s, %s %s", f.at, f.Fault, f.Lasts) }

// faults are all that can go wrong at these points. How long they last takes turns.
func (o destinationOperation) faults(points []harness.Point) (all []destinationFault) {
	for i, at := range points {
		if strings.HasPrefix(at.Path, "/api/users/") {
			continue // a plan whose time is over does not ask for permissions
		}
		for j, kind := range []harness.Fault{harness.Answers500, harness.Answers503, harness.Resets, harness.Hangs,
			harness.Truncates, harness.Loses} {
			for k, lasts := range []harness.Persistence{harness.Once, harness.Always, harness.FromHere} {
				if os.Getenv("FAULTS") == "all" || (i+j)%3 == k {
					all = append(all, destinationFault{at, harness.Failure{Fault: kind, Lasts: lasts},
						o.next[len(all)%len(o.next)]})
				}
			}
		}
	}
	return all
}

// operate runs the operation, in which one thing goes wrong.
func (o destinationOperation) operate(v *harness.Vhost, proxy *harness.FaultProxy,
	f destinationFault) (*harness.Protocol,
	[]*tfprotov6.Diagnostic) {
	p := v.Destination()
	p.MustApply(o.before)
	if o.broken != nil {
		breakOff(p, proxy, o.broken)
	}
	return p, applyThrough(p, proxy, o.after, f.at, f.Failure)
}

// suffer runs the operation with the fault, looks at the bindings, and converges.
func (o destinationOperation) suffer(v *harness.Vhost, proxy *harness.FaultProxy, verb string, f destinationFault) {
	v.T.Helper()
	what := fmt.Sprintf("%s, %s, then %v", verb, f, f.next)
	p, diagnostics := o.operate(v, proxy, f)
	for tries := 1; tries < 5 && !proxy.HasStruck() && f.at.Path == "/api/whoami"; tries++ {
		// A plan whose time is over does not ask who the user is.
		harness.NoErrors(v.T, diagnostics)
		p.MustApply(nil)
		p, diagnostics = o.operate(v, proxy, f)
	}
	switch text := harness.ErrorText(diagnostics); {
	case !proxy.HasStruck():
		v.T.Errorf("%s: this request was not made: %s", what, text)
	case f.Lasts == harness.Once && text != "":
		v.T.Errorf("%s: it does not get over it: %s", what, text)
	case p.State.IsNull() && o.after != nil && len(v.Bound()) > 0:
		v.T.Errorf("%s: nothing is in the state, and bound are %q: %s", what, v.Bound(), text)
	}
	there := v.Bound()
	if o.before != nil && o.after != nil && !slices.Contains(there, line(o.before)) &&
		!slices.Contains(there, line(o.after)) {
		v.T.Errorf("%s: nothing is bound any more", what)
	}
	if in := inState(p); slices.ContainsFunc(there, func(line string) bool { return !slices.Contains(in, line) }) {
		v.T.Errorf("%s: bound are %q, and in the state are %q", what, there, in)
	}
	converge(p, f.next)
	if f.next != nil {
		v.MustBeBound(line(f.next))
		p.MustBeSettled(f.next)
		p.MustApply(nil)
	}
	v.MustBeBound()
}

// line is how bound lists the binding of a destination with two levels.
func line(given harness.Attributes) string {
	return fmt.Sprintf("*.*.%s -> queue %s", given["address"], given["queue"])
}

// inState are the bindings that the state holds, as bound lists them.
func inState(p *harness.Protocol) []string {
	p.T.Helper()
	if p.State.IsNull() {
		return nil
	}
	text := func(v tftypes.Value) (text string) {
		if err := v.As(&text); err != nil {
			p.T.Fatal(err)
		}
		return text
	}
	state := harness.Fields(p.T, p.State)
	lines := []string{text(state["routing_key"]) + " -> queue " + text(state["queue"])}
	var left []tftypes.Value
	if list := state["leftover_bindings"]; list.Type() != nil {
		if err := list.As(&left); err != nil {
			p.T.Fatal(err)
		}
	}
	for _, each := range left {
		binding, err := harness.BindingOf(text(each))
		if err != nil {
			p.T.Fatal(err)
		}
		lines = append(lines, binding.Line())
	}
	return lines
}

// converge does what terraform apply does: a plan that is empty is not carried out.
func converge(p *harness.Protocol, configuration harness.Attributes) {
	p.T.Helper()
	harness.NoErrors(p.T, p.Refresh(p.T.Context()))
	if todo := p.Plan(p.T.Context(), configuration); !todo.IsEmpty(p.State) {
		harness.NoErrors(p.T, p.Apply(p.T.Context(), todo))
	}
}

// applyThrough applies with something going wrong at one point.
func applyThrough(p *harness.Protocol,
	proxy *harness.FaultProxy, configuration harness.Attributes, at harness.Point, f harness.Failure,
) []*tfprotov6.Diagnostic {
	p.T.Helper()
	proxy.Mutex.Lock()
	proxy.Written, proxy.Seen, proxy.At, proxy.Failure, proxy.Struck = false, nil, at, f, false
	proxy.Mutex.Unlock()
	patience := harness.Attributes{"retry_timeout": harness.OnceMore}
	if f.Lasts == harness.Once {
		patience["retry_timeout"] = "30s" // room for a busy machine: one more attempt succeeds
	}
	if f.Fault == harness.Hangs {
		patience["request_timeout"] = harness.HangTimeout
	}
	faulty := p.With(proxy.Front(), patience)
	diagnostics := faulty.Apply(p.T.Context(), faulty.Plan(p.T.Context(), configuration))
	p.State, p.Private, p.Tainted = faulty.State, faulty.Private, faulty.Tainted
	return diagnostics
}

// binds is the request that binds a queue to the delivery exchange t.delivery, unbinds the one that takes that back.
func binds(vhost, queue string) harness.Point {
	return harness.Point{Method: "POST", Path: fmt.Sprintf("/api/bindings/%s/e/t.delivery/q/%s", vhost, queue),
		AfterWrite: true}
}

func unbinds(vhost, queue string) harness.Point {
	return harness.Point{Method: "DELETE", Path: binds(vhost, queue).Path + "/%252A.%252A.orders~{hash}",
		AfterWrite: true}
}

// breakOff begins an update to another queue that gets as far as to bind it. The broker then stays away for longer than
// anybody waits.
func breakOff(p *harness.Protocol, proxy *harness.FaultProxy, configuration harness.Attributes) {
	p.T.Helper()
	at := binds(fmt.Sprint(configuration["vhost"]), fmt.Sprint(configuration["queue"]))
	text := harness.ErrorText(applyThrough(p, proxy, configuration, at, harness.Failure{Fault: harness.Loses,
		Lasts: harness.FromHere}))
	if !proxy.HasStruck() || !strings.Contains(text, "could not be taken back") {
		p.T.Fatalf("the update did not break off: %s", text)
	}
}

// An update that binds another queue and then does not reach the broker any more leaves both bound, and says so in the
// plan. Whatever the configuration is then, the next apply leaves only what it says, and messages arrive once.
func TestDestinationUnfinishedUpdate(t *testing.T) {
	t.Parallel()
	elsewhere := harness.NewVhost(t)
	elsewhere.DeclareExchange("t.delivery", "topic")
	elsewhere.DeclareQueue("orders", nil)
	for name, is := range map[string]unfinishedUpdate{
		"as it was before":                    {harness.Attributes{"queue": "orders"}, true},
		"as it was before, without a refresh": {harness.Attributes{"queue": "orders"}, false},
		"as it was to be":                     {harness.Attributes{}, true},
		"as it was to be, without a refresh":  {harness.Attributes{}, false},
		"a third one":                         {harness.Attributes{"queue": "third"}, true},
		"a third one, without a refresh":      {harness.Attributes{"queue": "third"}, false},
		"another vhost":                       {harness.Attributes{"vhost": elsewhere.Name, "queue": "orders"}, true},
		"destroyed":                           {nil, true},
		"destroyed without a refresh":         {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			recoverFromUpdate(t, is)
		})
	}
}

type unfinishedUpdate struct {
	next    harness.Attributes // of the change that was meant; nil destroys
	refresh bool
}

// recoverFromUpdate breaks an update off and applies the next configuration.
func recoverFromUpdate(t *testing.T, is unfinishedUpdate) {
	v := harness.NewDestinations(t, 2, "orders", "other", "third")
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	other := given.With(harness.Attributes{"queue": "other"})
	var next harness.Attributes
	if is.next != nil {
		next = other.With(is.next)
	}
	p := v.Destination()
	p.MustApply(given)
	breakOff(p, harness.NewFaultProxy(t, v.Broker), other)
	v.MustBeBound(line(given), line(other))
	if is.refresh {
		refreshed := p.Refresh(t.Context())
		harness.NoErrors(t, refreshed)
		if text := harness.WarningText(refreshed); !strings.Contains(text, v.Name+
			"/t.delivery/queue/other/*.*.orders") || strings.Contains(text, "take the same messages") {
			t.Errorf("the warning is %q", text)
		}
	}
	todo := p.Plan(t.Context(), next)
	if todo.IsEmpty(p.State) {
		t.Fatal("the plan is empty")
	}
	harness.NoErrors(t, p.Apply(t.Context(), todo))
	if next == nil || next["vhost"] != v.Name {
		v.MustBeBound()
		p.MustApply(nil)
		return
	}
	v.MustBeBound(line(next))
	p.MustBeSettled(next)
	if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
		t.Errorf("it is warned of: %s", text)
	}
	const n = 20
	for i := range n {
		v.Publish("t.delay-01", harness.RoutingKey(t, time.Duration(i%4)*time.Millisecond, 2, time.Millisecond,
			"orders"), "")
	}
	v.Arrived(v.Consume(fmt.Sprint(next["queue"])), n)
	for _, queue := range []string{"orders", "other", "third", "t.unroutable"} {
		if got := v.Depth(queue); queue != next["queue"] && got > 0 {
			t.Errorf("queue %q got %d messages", queue, got)
		}
	}
}

// An update may remove the binding before and not the leftover of another update. It keeps the leftover in the state,
// as does one that breaks off, too.
func TestDestinationUnfinishedUpdates(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]unfinishedUpdates{
		"the leftover stays": {func(v *harness.Vhost) harness.Point { return unbinds(v.Name, "other") },
			harness.Failure{Fault: harness.Answers500, Lasts: harness.Always}, []string{"other", "third"}, "third"},
		"the one before stays": {func(v *harness.Vhost) harness.Point { return unbinds(v.Name, "orders") },
			harness.Failure{Fault: harness.Answers500, Lasts: harness.Always}, []string{"orders"}, "orders"},
		"broken off before unbinds": {func(v *harness.Vhost) harness.Point { return binds(v.Name, "third") },
			harness.Failure{Fault: harness.Loses, Lasts: harness.FromHere}, []string{"orders", "other", "third"},
			"orders"},
		"broken off in an unbind": {func(v *harness.Vhost) harness.Point { return unbinds(v.Name, "orders") },
			harness.Failure{Fault: harness.Loses, Lasts: harness.FromHere}, nil, "orders"},
	} {
		for _, next := range []string{"orders", "other", "third"} {
			t.Run(name+", then "+next, func(t *testing.T) {
				recoverFromTwoUpdates(t, is, next)
			})
		}
	}
}

type unfinishedUpdates struct {
	at    func(*harness.Vhost) harness.Point
	fails harness.Failure
	bound []string
	state string
}

// recoverFromTwoUpdates breaks off one update, lets the second fail, and applies the next configuration.
func recoverFromTwoUpdates(t *testing.T, is unfinishedUpdates, next string) {
	v := harness.NewDestinations(t, 2, "orders", "other", "third")
	to := func(queue string) harness.Attributes {
		return harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2,
			"address": "orders", "queue": queue}
	}
	proxy := harness.NewFaultProxy(t, v.Broker)
	p := v.Destination()
	p.MustApply(to("orders"))
	breakOff(p, proxy, to("other"))
	text := harness.ErrorText(applyThrough(p, proxy, to("third"), is.at(v), is.fails))
	if !proxy.HasStruck() || text == "" {
		t.Fatalf("the second update did not fail: %s", text)
	}
	var lines []string
	for _, queue := range is.bound {
		lines = append(lines, line(to(queue)))
	}
	if is.bound != nil { // otherwise it depends on which request is made first
		v.MustBeBound(lines...)
	}
	in := inState(p)
	if in[0] != line(to(is.state)) {
		t.Errorf("in the state is %q", in[0])
	}
	for _, line := range v.Bound() {
		if !slices.Contains(in, line) {
			t.Errorf("bound is %q, and in the state are %q", line, in)
		}
	}
	converge(p, to(next))
	v.MustBeBound(line(to(next)))
	p.MustBeSettled(to(next))
	v.Publish("t.delay-01", harness.RoutingKey(t, time.Millisecond, 2, time.Millisecond, "orders"), "")
	v.Arrived(v.Consume(next), 1)
	for _, queue := range []string{"orders", "other", "third", "t.unroutable"} {
		if got := v.Depth(queue); queue != next && got > 0 {
			t.Errorf("queue %q got %d messages", queue, got)
		}
	}
}

// A process that ends between the two steps of an update leaves both bindings, and the state says nothing. The next
// refresh knows the one that it has not expected by its mark.
func TestDestinationKilledUpdate(t *testing.T) {
	t.Parallel()
	v := harness.NewDestinations(t, 2, "orders", "other")
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	for _, next := range []string{"orders", "other"} {
		p := v.Destination()
		p.MustApply(given)
		v.Destination().MustApply(given) // it stays
		for b := range v.Objects().Bindings {
			if b.DestinationMark() == markOf(p) {
				b.Destination = "other"
				v.Do(plan.Bind{Binding: b})
			}
		}
		if text := harness.WarningText(p.Refresh(t.Context())); !strings.Contains(text, "Update is not finished") {
			t.Errorf("the warning is %q", text)
		}
		to := given.With(harness.Attributes{"queue": next})
		converge(p, to)
		p.MustBeSettled(to)
		v.MustBeBound(line(given), line(to))
		p.MustApply(nil)
		v.MustBeBound(line(given))
		v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "orders"}})
		v.DeclareQueue("orders", nil)
	}
}

// Terraform loses the private state when the provider's process ends in an apply. The destination knows its binding
// again by the mark. It leaves a plain one alone.
func TestDestinationWithoutPrivateState(t *testing.T) {
	t.Parallel()
	v := harness.NewDestinations(t, 2, "orders")
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	p := v.Destination()
	p.MustApply(given)
	v.Bind("t.delivery", "*.*.orders", "queue", "orders")
	p.Private = nil
	p.MustBeSettled(given)
	p.Private = nil
	p.MustApply(nil)
	v.MustBeBound(line(given))
	for b := range v.Objects().Bindings {
		if b.DestinationMark() != "" {
			t.Errorf("%s is left", b.Describe())
		}
	}
}

// markOf is the mark of a destination in its private state.
func markOf(p *harness.Protocol) string {
	var kept struct{ Mark string }
	p.T.Helper()
	readOwner(p, &kept)
	if kept.Mark == "" {
		p.T.Fatalf("no mark in %s", p.Private)
	}
	return kept.Mark
}

// ownerOf is the owner's mark of a cascade or ladder in its private state, empty if there is none.
func ownerOf(p *harness.Protocol) (owner string) {
	p.T.Helper()
	readOwner(p, &owner)
	return owner
}

// readOwner reads what the private state has of owners, if it has something.
func readOwner(p *harness.Protocol, owner any) {
	var private map[string]string
	p.T.Helper()
	err := json.Unmarshal(p.Private, &private)
	if text := []byte(nil); err == nil && private["owner"] != "" {
		if text, err = base64.StdEncoding.DecodeString(private["owner"]); err == nil {
			err = json.Unmarshal(text, owner)
		}
	}
	if err != nil {
		p.T.Fatalf("the private state %s: %v", p.Private, err)
	}
}

// Something that cannot be bound is one error on the attribute that is to blame, before anything is planned.
func TestDestinationValidation(t *testing.T) {
	unknown := func(typ tftypes.Type) tftypes.Value { return tftypes.NewValue(typ, tftypes.UnknownValue) }
	good := harness.Attributes{"delivery_exchange": "t.delivery", "levels": 4, "address": "orders", "queue": "orders"}
	for name, is := range map[string]struct {
		change           harness.Attributes
		attribute, error string
	}{
		"no levels": {harness.Attributes{"levels": nil}, "levels", `levels is missing; with match = "exact" ` +
			`the key has a "*" for each word of the delay`},
		"no level":        {harness.Attributes{"levels": 0}, "levels", "levels is 0; it has to be 1 or more"},
		"too many levels": {harness.Attributes{"levels": 40}, "levels", "levels is 40"},
		"levels with a suffix": {harness.Attributes{"match": "suffix"}, "levels", "holds for any number of levels; " +
			"leave it out"},
		"another match": {harness.Attributes{"match": "prefix"}, "match", `match is "prefix"; it can be "exact" or ` +
			`"suffix"`},
		"an empty match":   {harness.Attributes{"match": ""}, "match", "match is empty"},
		"an empty address": {harness.Attributes{"address": ""}, "address", "address is empty"},
		"a star":           {harness.Attributes{"address": "*"}, "address", `whose word "*" would stand for any word`},
		"a hash": {harness.Attributes{"address": "orders.#"}, "address", `whose word "#" would stand for ` +
			`any word`},
		"a tilde": {harness.Attributes{"address": "a.~b"}, "address", `is "a.~b", with a "~" before another character`},
		"a long address": {harness.Attributes{"address": strings.Repeat("a", 248)}, "address",
			"it can have 247"},
		"a long suffix": {harness.Attributes{"address": strings.Repeat("a", 254), "match": "suffix", "levels": nil},
			"address", "it can have 253"},
		"a queue and an exchange": {harness.Attributes{"exchange": "e"}, "queue", "queue is given beside exchange"},
		"neither": {harness.Attributes{"queue": nil}, "queue",
			"queue is missing; give it, or exchange"},
		"an empty queue":    {harness.Attributes{"queue": ""}, "queue", "queue is empty"},
		"an empty exchange": {harness.Attributes{"queue": nil, "exchange": ""}, "exchange", "exchange is empty"},
		"the exchange itself": {harness.Attributes{"queue": nil, "exchange": "t.delivery"}, "exchange",
			"the delivery exchange itself"},
		"no delivery exchange": {harness.Attributes{"delivery_exchange": ""}, "delivery_exchange",
			`delivery_exchange is "", the default exchange`},
		"an empty vhost":  {harness.Attributes{"vhost": ""}, "vhost", "vhost is empty"},
		"a vhost of dots": {harness.Attributes{"vhost": ".."}, "vhost", "management API"},

		// Known values are checked beside unknown ones.
		"a star, levels unknown": {harness.Attributes{"address": "*", "levels": unknown(tftypes.Number)}, "address",
			"any word"},
		"a long address, levels unknown": {harness.Attributes{"address": strings.Repeat("a", 254),
			"levels": unknown(tftypes.Number)}, "address", "254 bytes"},
		"too many levels, all but match unknown": {harness.Attributes{
			"levels": 40, "address": unknown(tftypes.String), "queue": unknown(tftypes.String),
			"exchange": unknown(tftypes.String), "delivery_exchange": unknown(tftypes.String),
			"vhost": unknown(tftypes.String),
		}, "levels", "levels is"},
		"both, names unknown": {harness.Attributes{"queue": "q", "exchange": "e", "address": unknown(tftypes.String)},
			"queue", "beside exchange"},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.NewServerOf(t, harness.DestinationType)
			todo := p.Plan(t.Context(), good.With(is.change))
			if len(todo.Diagnostics) != 1 || !harness.HasErrors(todo.Diagnostics) {
				t.Fatalf("not one error: %s", harness.ErrorText(todo.Diagnostics))
			}
			d := todo.Diagnostics[0]
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
		"queue": tftypes.String, "exchange": tftypes.String, "force_destroy": tftypes.Bool,
	}
	for _, good := range []harness.Attributes{
		{"delivery_exchange": "t.delivery", "levels": 4, "address": "orders", "queue": "orders"},
		{"delivery_exchange": "t.delivery", "match": "suffix", "address": "orders", "exchange": "orders"},
		{"delivery_exchange": "t.delivery", "match": "exact", "levels": 2, "address": "orders", "exchange": "orders"},
	} {
		for one := range types {
			for other := range types {
				p := harness.NewServerOf(t, harness.DestinationType)
				todo := p.Plan(t.Context(), good.With(
					harness.Attributes{one: tftypes.NewValue(types[one], tftypes.UnknownValue),
						other: tftypes.NewValue(types[other], tftypes.UnknownValue)}))
				if harness.HasErrors(todo.Diagnostics) {
					t.Errorf("%v with unknown %s and %s: %s", good, one, other, harness.ErrorText(todo.Diagnostics))
					continue
				}
				is := func(name string) bool { return one == name || other == name }
				want := !is("address") && !is("levels") && !is("match")
				if key := harness.Fields(t, todo.State)["routing_key"]; key.IsKnown() != want {
					t.Errorf("%v with unknown %s and %s: the key is %s", good, one, other, key)
				}
			}
		}
	}
}

// The error of an import that leads nowhere says why, and names the bindings that exist instead.
func TestDestinationImportErrors(t *testing.T) {
	t.Parallel()
	v := harness.NewDestinations(t, 2, "orders")
	v.Bind("t.delivery", "*.*.orders", "queue", "orders")
	v.Bind("t.delivery", "#", "queue", "orders")
	v.Try(v.API.DeclareBinding(v.Name, rabbithole.BindingInfo{
		Source: "t.delivery", RoutingKey: "*.*.mails", DestinationType: "queue", Destination: "orders",
		Arguments: map[string]any{"x": 1},
	}))
	looksLike := "it has to be <vhost>/<delivery exchange>/queue/<queue>/<routing key>, or with exchange in place of " +
		"queue, each part percent-encoded, such as %2F/tasks.delivery/queue/orders/*.*.*.*.orders"
	for id, want := range map[string]string{
		"":                                       looksLike,
		"t.delivery/queue/orders/*.*.orders":     looksLike,
		v.Name + "/t.delivery/orders/*.*.orders": looksLike,
		v.Name + "/t.delivery/topic/orders/*.*.orders": looksLike,
		v.Name + "/t.delivery/queue//*.*.orders":       looksLike,
		v.Name + "/t.delivery/queue/orders/%":          looksLike,
		v.Name + "/t.delivery/queue/orders/a/b":        looksLike,
		"nowhere/t.delivery/queue/orders/*.*.orders":   "no such vhost",
		v.Name + "/nowhere/queue/orders/*.*.orders": "there is no such binding, nor any other of this exchange " +
			"to this queue",
		v.Name + "/t.delivery/exchange/orders/*.*.orders": "nor any other of this exchange to this exchange",
		v.Name + "/t.delivery/queue/orders/*.orders": `there is no such binding; this exchange is bound to this ` +
			`queue with "#", "*.*.mails", "*.*.orders"`,
		v.Name + "/t.delivery/queue/orders/*.*.mails": "there is no such binding",
		v.Name + "/t.delivery/queue/orders/%23": `its key "#" is neither one "*" for each level nor "#", ` +
			`and then an address`,
	} {
		p := v.Destination()
		diagnostics := p.ImportState(t.Context(), id)
		if id == "" {
			diagnostics = importDestination(p, topology.Binding{DestinationType: topology.ToQueue}, v.Name)
			want = "either queue or exchange"
		}
		if text := harness.ErrorText(diagnostics); len(diagnostics) != 1 || !strings.Contains(text, want) {
			t.Errorf("%s: %d diagnostics, want %q: %s", id, len(diagnostics), want, text)
		}
	}
}
