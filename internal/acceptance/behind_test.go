package acceptance

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
)

// observedListOf is a list of the data source of the type, for the entry. Each of its elements is its attributes.
func observedListOf(
	p *harness.Protocol, v *harness.Vhost, typeName, entry, list string,
) (elements []map[string]tftypes.Value) {
	p.T.Helper()
	found, diagnostics := p.Observe(p.T.Context(), typeName,
		harness.Attributes{"vhost": v.Name, "entry_exchange": entry})
	harness.NoErrors(p.T, diagnostics)
	var values []tftypes.Value
	if err := harness.Fields(p.T, found)[list].As(&values); err != nil {
		p.T.Fatal(err)
	}
	for _, each := range values {
		elements = append(elements, harness.Fields(p.T, each))
	}
	return elements
}

// findings are those of the data source of a cascade.
func (d eitherForm) findings(p *harness.Protocol, v *harness.Vhost) (lines []string) {
	p.T.Helper()
	return findingsOf(p, v, harness.CascadeType, d.entry())
}

// findingsOf are those of the data source of the type, for the entry, each in a line, without information.
func findingsOf(p *harness.Protocol, v *harness.Vhost, typeName, entry string) (lines []string) {
	p.T.Helper()
	for _, f := range observedListOf(p, v, typeName, entry, "findings") {
		var severity, object, cause, effect string
		if err := errors.Join(f["severity"].As(&severity), f["object"].As(&object), f["cause"].As(&cause),
			f["effect"].As(&effect)); err != nil {
			p.T.Fatal(err)
		}
		if severity != "info" {
			lines = append(lines, fmt.Sprintf("%s on %s: %s", cause, object, effect))
		}
	}
	return lines
}

// TestDestinationThatLeadsNowhere has an exchange that takes messages and leads them nowhere. The plan says so, the
// refresh and the data source.
func TestDestinationThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	const created, nowhere = "order.created", "no queue gets a message with such a key"
	for name, test := range map[string]struct {
		build func(v *harness.Vhost)
		// says is in each of the three, and empty if they say nothing.
		says string
	}{
		"bound for the address alone": {func(v *harness.Vhost) { v.Bind("events", created, "queue", "orders") },
			`exchange "events" is bound for "order.created"`},
		"not bound": {func(*harness.Vhost) {}, `exchange "events" has no binding`},
		"bound for the key": {func(v *harness.Vhost) { v.Bind("events", "*.*."+created, "queue", "orders") },
			""},
		"bound for a suffix": {func(v *harness.Vhost) { v.Bind("events", "#."+created, "queue", "orders") }, ""},
		"bound to a fanout with a queue": {func(v *harness.Vhost) {
			v.Bind("events", "#", "exchange", "all")
			v.Bind("all", "", "queue", "orders")
		}, ""},
		"bound to a fanout without": {func(v *harness.Vhost) { v.Bind("events", "#", "exchange", "all") },
			`exchange "all" has no binding`},
		"an alternate exchange by policy": {func(v *harness.Vhost) {
			v.Policy("rest", 1, rabbithole.PolicyDefinition{"alternate-exchange": "all"})("^events$")
			v.Bind("all", "", "queue", "orders")
		}, ""},
		"another destination": {func(v *harness.Vhost) { v.Bind("t.delivery", "#", "queue", "orders") }, ""},
	} {
		for form, inUnits := range bothForms {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				cascade := eitherForm{"t", 2, time.Millisecond, inUnits, severalQueues}
				v := harness.NewDestinationsOf(t, cascade.given(), "orders")
				v.DeclareExchange("events", "topic")
				v.DeclareExchange("all", "fanout")
				test.build(v)
				p := v.Destination()
				given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2,
					"address": created, "exchange": "events"}
				todo := p.Plan(t.Context(), given)
				harness.NoErrors(t, append(todo.Diagnostics, p.Apply(t.Context(), todo)...))
				for _, text := range []string{harness.WarningText(todo.Diagnostics),
					harness.WarningText(p.Refresh(t.Context())), strings.Join(cascade.findings(p, v), "\n")} {
					if test.says == "" && text != "" {
						t.Errorf("it says %s", text)
					} else if test.says != "" {
						harness.MustSay(t, "a look", text, test.says, nowhere, `"*.*.order.created"`, "three minutes")
					}
				}
				p.MustBeSettled(given)
			})
		}
	}
}

// TestDestinationThatIsNotFollowed has an exchange that takes messages by their headers. The plan of a create says so,
// and nothing else does.
func TestDestinationThatIsNotFollowed(t *testing.T) {
	t.Parallel()
	cascade := eitherForm{"t", 2, time.Millisecond, true, severalQueues}
	v := harness.NewDestinationsOf(t, cascade.given(), "orders")
	v.DeclareExchange("events", "headers")
	v.Bind("events", "", "queue", "orders")
	p := v.Destination()
	todo := p.Plan(t.Context(), harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2,
		"address": "orders", "exchange": "events"})
	harness.MustSay(t, "the plan", harness.WarningText(todo.Diagnostics),
		`Messages are not followed: address "orders" from exchange "t.delivery" to exchange "events" in vhost`,
		`exchange "events": it is of type headers`)
	later := append(p.Apply(t.Context(), todo), p.Refresh(t.Context())...)
	if text := harness.WarningText(later); text != "" || harness.HasErrors(later) {
		t.Errorf("later it says %s", text)
	}
	if found := cascade.findings(p, v); len(found) > 0 {
		t.Errorf("the findings are %q", found)
	}
}

// TestFixedKeyThatLeadsNowhere has a ladder that gives its messages a key for which nothing is bound.
func TestFixedKeyThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	p.MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "delays": harness.TextList("1s"),
		"dead_letter_routing_key": "work", "park_unroutable": false})
	v.DeclareQueue("work", nil)
	v.Bind("t.delivery", "other", "queue", "work")
	harness.MustSay(t, "the refresh", harness.WarningText(p.Refresh(t.Context())),
		`exchange "t.delivery" is bound for "other" on exchange "t.delivery": no queue gets a message`)
	v.Bind("t.delivery", "work", "queue", "work")
	if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
		t.Errorf("with a binding, it says %s", text)
	}
}

// TestReceiverThatTakesNothing has a destination's queue that takes no messages. The plan of a destination says so, the
// refresh of destination and cascade, and the data source.
func TestReceiverThatTakesNothing(t *testing.T) {
	t.Parallel()
	stopped := "0 of 1 members online"
	if strings.HasPrefix(brokertest.Shared(t).Version, "3.") {
		stopped = "no leader" // its statistics of the members stay as they were
	}
	for name, test := range map[string]receiver{
		"without a leader": {map[string]any{"x-queue-type": "quorum"}, func(v *harness.Vhost) {
			if strings.HasPrefix(v.Broker.Version, "4.0") {
				v.T.Skip("RabbitMQ 4.0.5 says of a queue whose process has ended what it was before")
			}
			v.Eventually("there are statistics", v.HasStatistics)
			rabbitmqctl(v.T, v.Broker, "eval",
				fmt.Sprintf("ra:stop_server(quorum_queues, {'%s_orders', node()}).", v.Name))
		}, stopped + ` on queue "orders": the queue takes no messages`},
		"stopped": {nil, func(v *harness.Vhost) {
			rabbitmqctl(v.T, v.Broker, "eval",
				fmt.Sprintf("rabbit_amqqueue_sup_sup:stop_for_vhost(<<\"%s\">>).", v.Name))
		}, "its state is \"stopped\" on queue \"orders\": the queue takes no messages"},
		"full": {map[string]any{"x-max-length": 2, "x-overflow": "reject-publish"}, func(v *harness.Vhost) {
			v.Publish("", "orders", "first")
			v.Publish("", "orders", "second")
			v.Eventually("the messages are counted", func() bool { return v.Counted("orders") == 2 })
		}, "full: x-max-length = 2, messages: 2 on queue \"orders\": the queue refuses further messages"},
	} {
		for form, inUnits := range bothForms {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				takesNothing(t, eitherForm{"t", 2, time.Second, inUnits, severalQueues}, test)
			})
		}
	}
}

// receiver is a queue that takes no messages after some harm.
type receiver struct {
	arguments map[string]any
	harm      func(v *harness.Vhost)
	says      string
}

func takesNothing(t *testing.T, of eitherForm, is receiver) {
	v := harness.NewVhost(t)
	cascade := harness.NewProtocol(t, v.Broker, nil)
	cascade.MustApply(of.given().With(harness.Attributes{"vhost": v.Name}))
	v.DeclareQueue("orders", is.arguments)
	v.DeclareQueue("well", map[string]any{"x-queue-type": "quorum"})
	v.Bind("t.delivery", "#.well", "queue", "well")
	isServed(v, "orders")
	p := v.Destination()
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2,
		"address": "orders", "queue": "orders"}
	planned := harness.WarningText(p.Plan(t.Context(), given).Diagnostics)
	p.MustApply(given)
	hasLimit := is.arguments["x-max-length"] != nil // which is said in any case
	if hasLimit != strings.HasPrefix(planned, "Destination refuses messages when it is full") ||
		!hasLimit && planned != "" || strings.Contains(planned, "Messages do not arrive") {
		t.Errorf("before, the plan says %s", planned)
	}
	// RabbitMQ 4.0.5 says of a new queue that no member is online, for moments.
	v.Eventually("nothing is wrong", func() bool {
		return harness.WarningText(cascade.Refresh(t.Context())) == "" && len(of.findings(p, v)) == 0
	})
	is.harm(v)
	for what, text := range map[string]string{
		"the plan":        harness.WarningText(v.Destination().Plan(t.Context(), given).Diagnostics),
		"the destination": harness.WarningText(p.Refresh(t.Context())),
		"the cascade":     harness.WarningText(cascade.Refresh(t.Context())),
		"the data source": strings.Join(of.findings(p, v), "\n"),
	} {
		harness.MustSay(t, what, text, is.says)
		if strings.Contains(text, `queue "well"`) {
			t.Errorf("%s also says %s", what, text)
		}
	}
}

// isServed waits until all members of a queue are online. RabbitMQ 4.0.5 says of a new one that none is, for moments.
func isServed(v *harness.Vhost, queue string) {
	v.T.Helper()
	v.Eventually("the members of the queue are online", func() bool {
		var is struct{ Members, Online any }
		v.Get(&is, "queues", v.Name, queue)
		members, _ := is.Members.([]any) // a classic queue has none
		online, _ := is.Online.([]any)
		return len(online) == len(members)
	})
}

// TestOverdue has messages whose time is over, and that no queue takes. Refresh and data source say how many wait in
// which queue, by when their time was over, and why. They do not arrive in a second.
func TestOverdue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]overdue{
		"an exchange leads nowhere": {harness.Attributes{}, func(v *harness.Vhost, _ string) {
			v.DeclareExchange("events", "topic")
			v.Bind("events", "order.created", "queue", "orders")
			v.Bind("t.delivery", "*.*.order.created", "exchange", "events")
		}, `exchange "events" is bound for "order.created"`},
		"a queue is full": {harness.Attributes{}, func(v *harness.Vhost, _ string) {
			v.DeclareQueue("full", map[string]any{"x-max-length": 1, "x-overflow": "reject-publish"})
			v.Publish("", "full", "in the way")
			v.Eventually("it is counted", func() bool { return v.Counted("full") == 1 })
			v.Bind("t.delivery", "*.*.order.created", "queue", "full")
		}, `queue "full": full: x-max-length = 1, messages: 1`},
		"an address is not bound": {harness.Attributes{"park_unroutable": false}, func(*harness.Vhost, string) {},
			`exchange "t.delivery" may have no binding for their address, and it has no alternate exchange`},
		"an exchange is missing": {harness.Attributes{"park_unroutable": false, "lookahead": 1}, func(
			v *harness.Vhost, lowest string,
		) {
			v.Do(plan.DeleteExchange{Name: lowest})
		}, `exchange "<lowest>" is missing`},
	} {
		for form, inUnits := range bothForms {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				test.isSaid(t, eitherForm{"t", 2, time.Second, inUnits, severalQueues})
			})
		}
	}
}

// overdue is a reason why messages of a cascade of two levels do not leave their queue.
type overdue struct {
	given harness.Attributes
	build func(v *harness.Vhost, lowest string)
	says  string // <lowest> stands for the exchange of the lowest level
}

func (is overdue) isSaid(t *testing.T, cascade eitherForm) {
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(cascade.given().With(is.given).With(harness.Attributes{"vhost": v.Name}))
	v.DeclareQueue("orders", nil)
	is.build(v, cascade.exchange(0))
	published := time.Now()
	for range 3 {
		v.Publish(cascade.entry(), "1.0.order.created", "")
	}
	v.Eventually("RabbitMQ counts messages that are neither ready nor gone", func() bool {
		var counts struct {
			Messages int
			Ready    int `json:"messages_ready"`
		}
		v.Get(&counts, "queues", v.Name, cascade.queue(1))
		return counts.Messages > counts.Ready
	})
	counted := time.Now()
	v.Eventually("the messages are overdue", func() bool {
		return strings.Contains(strings.Join(cascade.findings(p, v), "\n"), "overdue")
	})
	found := cascade.findings(p, v)
	text := found[len(found)-1]
	harness.MustSay(t, "the data source", text, fmt.Sprintf("3 overdue messages on queue %q", cascade.queue(1)),
		"no queue takes them", strings.ReplaceAll(is.says, "<lowest>", cascade.exchange(0)))
	harness.MustSay(t, "the refresh", harness.WarningText(p.Refresh(t.Context())), text)
	since := regexp.MustCompile(`over by (\S+) or before`).FindStringSubmatch(text)
	if since == nil {
		t.Fatalf("it does not say since when: %s", text)
	}
	const between = 10 * time.Second // two counts
	at, err := time.Parse(time.RFC3339, since[1])
	if err != nil || at.Before(published) || at.After(counted.Add(between)) {
		t.Errorf("they were published at %s, and counted at %s as overdue since %s (%v)", published, counted, at, err)
	}
	for _, q := range observedListOf(p, v, harness.CascadeType, cascade.entry(), "queues") {
		if !q["latest_arrival"].IsNull() {
			t.Errorf("a message arrives at %s", q["latest_arrival"])
		}
	}
}
