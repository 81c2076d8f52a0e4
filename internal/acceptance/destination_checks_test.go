package acceptance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// A name that leads into a cascade or ladder, whatever it is called, is an error on its attribute. It is so in the
// plan, if the broker answers, and in the apply. Names that only look like it are no errors.
func TestDestinationMisnamed(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	const levels = 3
	classic := attributes{"vhost": v.name, "queue_type": "classic"}
	lax := classic.with(attributes{
		"name": "t", "levels": levels, "exchange_name": "in %d", "queue_name": "wait %d",
		"strict_keys": false, "lookahead": 1,
	})
	declare := func() {
		newProtocol(t, v.broker, nil).mustApply(lax)
		newProtocol(t, v.broker, nil).mustApply(classic.with(attributes{"name": "second", "levels": levels}))
		ladder := classic.with(attributes{"name": "l", "delays": textSet("5s", "1m")})
		newProtocolOf(t, ladderType, v.broker, nil).mustApply(ladder)
	}
	v.declareQueue("orders", nil)
	v.declareQueue("retries", map[string]any{"x-message-ttl": 5000, "x-dead-letter-exchange": "in 2"})
	v.declareExchange("look.delay-03", "topic")
	v.bind("look.delay-03", "1.#", "queue", "orders")
	given := attributes{
		"vhost": v.name, "delivery_exchange": "t.delivery", "levels": levels, "address": "orders", "queue": "orders",
	}
	to := func(exchange string) attributes { return attributes{"queue": nil, "exchange": exchange} }
	cases := []struct {
		change          attributes
		attribute, says string // none if it is right
	}{
		{attributes{"delivery_exchange": "in 2"}, "delivery_exchange", `Exchange "in 2" in vhost "` + v.name +
			`" leads into the delay queues of a cascade or ladder`},
		{attributes{"delivery_exchange": "in 0"}, "delivery_exchange", "before their time"},
		{attributes{"delivery_exchange": "second.delay-02"}, "delivery_exchange", "before their time"},
		{attributes{"delivery_exchange": "second.delay-01"}, "delivery_exchange", "before their time"},
		{attributes{"delivery_exchange": "l.entry"}, "delivery_exchange", "before their time"},
		{attributes{"queue": "wait 1"}, "queue", `Queue "wait 1"`},
		{attributes{"queue": "second.delay-00"}, "queue", "one of the delay queues"},
		{attributes{"queue": "l.delay-5s"}, "queue", "one of the delay queues"},
		{to("in 2"), "exchange", `which ends in exchange "t.delivery"`},
		{to("in 0"), "exchange", "would come back"},
		{to("second.delay-02").with(attributes{"delivery_exchange": "second.delivery"}), "exchange", "would come back"},
		{to("l.entry").with(attributes{"delivery_exchange": "l.delivery", "levels": 1}), "exchange", "would come back"},
		{attributes{"queue": "retries"}, "", ""},
		{to("look.delay-03"), "", ""},
		{to("second.delay-02"), "", ""},
	}
	// The apply refuses bindings that were planned before there was a cascade.
	var early []plannedChange
	for _, is := range cases {
		early = append(early, v.destination().plan(t.Context(), given.with(is.change)))
	}
	declare()
	before := v.objects()
	for i, is := range cases {
		for when, diagnostics := range map[string]func() ([]string, string){
			"apply": func() ([]string, string) {
				p := v.destination()
				found := p.apply(t.Context(), early[i])
				noErrors(t, p.apply(t.Context(), p.plan(t.Context(), nil)))
				return at(found), errorText(found)
			},
			"plan": func() ([]string, string) {
				found := v.destination().plan(t.Context(), given.with(is.change)).diagnostics
				return at(found), errorText(found)
			},
		} {
			on, text := diagnostics()
			if is.says == "" && text != "" || !strings.Contains(text, is.says) {
				t.Errorf("%s, %v: the error is %q, want %q", when, is.change, text, is.says)
			}
			want := []string{`AttributeName("` + is.attribute + `")`}
			if is.says != "" && !slices.Equal(on, want) {
				t.Errorf("%s, %v: the errors are on %q, want %s", when, is.change, on, want)
			}
		}
	}
	v.mustHold(before)
}

// at are the attributes of the errors.
func at(diagnostics []*tfprotov6.Diagnostic) []string {
	var attributes []string
	for _, d := range diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			attributes = append(attributes, d.Attribute.String())
		}
	}
	return attributes
}

// The plan and the apply warn of levels that differ from those of the cascade that ends in the delivery exchange. They
// do not if something else with these levels ends there, too.
func TestDestinationLevels(t *testing.T) {
	t.Parallel()
	v := newDestinations(t, 4, "orders")
	warned := func(levels int, match string) (inPlan, inApply bool) {
		t.Helper()
		given := attributes{
			"vhost": v.name, "delivery_exchange": "t.delivery", "levels": levels, "address": "orders",
			"queue": "orders", "match": match,
		}
		if match == "suffix" {
			given["levels"] = nil
		}
		p := v.destination()
		plan := p.plan(t.Context(), given)
		applied := p.apply(t.Context(), plan)
		noErrors(t, applied)
		p.mustApply(nil)
		says := fmt.Sprintf("The destination has levels = %d", levels)
		return strings.Contains(warningText(plan.diagnostics), says), strings.Contains(warningText(applied), says)
	}
	for _, is := range []struct {
		levels int
		match  string
		want   bool
	}{{4, "exact", false}, {3, "exact", true}, {1, "exact", true}, {3, "suffix", false}} {
		if inPlan, inApply := warned(is.levels, is.match); inPlan != is.want || inApply != is.want {
			t.Errorf("%d levels, %s: warned of in the plan: %t, in the apply: %t", is.levels, is.match, inPlan, inApply)
		}
	}
	newProtocolOf(t, ladderType, v.broker, nil).mustApply(attributes{
		"vhost": v.name, "name": "l", "delays": textSet("5s"), "queue_type": "classic",
		"delivery_exchange": "t.delivery", "create_delivery_exchange": false,
	})
	if inPlan, inApply := warned(1, "exact"); inPlan || inApply {
		t.Error("that of a ladder is warned of")
	}
}

// The plan and the apply warn of a quorum queue behind a cascade of classic queues, which lose overdue messages at a
// restart.
func TestDestinationBehindClassicQueues(t *testing.T) {
	t.Parallel()
	v := newReceivers(t)
	for _, queueType := range []string{"classic", "quorum"} {
		newProtocol(t, v.broker, nil).mustApply(v.cascadeBefore("d."+queueType, queueType, 3))
	}
	// It has other keys, of which the destinations with match = "exact" take nothing.
	newProtocol(t, v.broker, nil).mustApply(v.cascadeBefore("d.quorum", "classic", 4).with(attributes{
		"name": "other", "create_delivery_exchange": false}))
	suffix := attributes{"match": "suffix", "levels": nil}
	for name, is := range map[string]struct {
		given attributes
		warns bool
	}{
		"quorum behind classic":  {attributes{"delivery_exchange": "d.classic", "queue": "quorum"}, true},
		"classic behind classic": {attributes{"delivery_exchange": "d.classic", "queue": "classic"}, false},
		"an exchange":            {attributes{"delivery_exchange": "d.classic", "exchange": "onwards"}, false},
		"quorum behind quorum":   {attributes{"delivery_exchange": "d.quorum", "queue": "quorum"}, false},
		"of any levels": {suffix.with(attributes{"delivery_exchange": "d.quorum", "queue": "quorum"}),
			true},
	} {
		given := attributes{"vhost": v.name, "levels": 3, "address": "orders"}.with(is.given)
		p := v.destination()
		plan := p.plan(t.Context(), given)
		applied := p.apply(t.Context(), plan)
		noErrors(t, applied)
		for when, diagnostics := range map[string][]*tfprotov6.Diagnostic{"plan": plan.diagnostics, "apply": applied} {
			if warnsOfRestarts(diagnostics) != is.warns {
				t.Errorf("%s, %s: %q, want a warning of restarts: %t", name, when, warningText(diagnostics), is.warns)
			}
		}
		p.mustApply(nil)
	}
}

// The plan does so, too, where it is the plan of the cascade or ladder.
func TestDestinationBehindPlannedClassicQueues(t *testing.T) {
	t.Parallel()
	v := newReceivers(t)
	classic := v.cascadeBefore("d", "classic", 3)
	for name, is := range map[string]struct {
		typeName string
		planned  attributes
		queue    string
		levels   int
		warns    bool
	}{
		"quorum behind classic":   {cascadeType, classic, "quorum", 3, true},
		"classic behind classic":  {cascadeType, classic, "classic", 3, false},
		"of other levels":         {cascadeType, classic, "quorum", 4, false},
		"quorum behind quorum":    {cascadeType, v.cascadeBefore("d", "quorum", 3), "quorum", 3, false},
		"quorum behind a ladder":  {ladderType, v.ladderBefore("d", "classic"), "quorum", 1, true},
		"classic behind a ladder": {ladderType, v.ladderBefore("d", "classic"), "classic", 1, false},
	} {
		p := v.destination()
		other := newServerOf(t, is.typeName)
		other.server = p.server
		for _, each := range []struct {
			*protocol
			given attributes
			warns bool
		}{
			{other, is.planned, false},
			{p, attributes{"vhost": v.name, "delivery_exchange": "d", "levels": is.levels, "address": "orders",
				"queue": is.queue}, is.warns},
		} {
			plan := each.planOn(t.Context(), each.state, nil, object(t, each.resource, each.given))
			noErrors(t, plan.diagnostics)
			if warnsOfRestarts(plan.diagnostics) != each.warns {
				t.Errorf("%s, %s: %q, want a warning of restarts: %t", name, each.typeName,
					warningText(plan.diagnostics), each.warns)
			}
		}
	}
}

// A destination that stays as it is gets classic queues before it.
func TestDestinationGetsBehindClassicQueues(t *testing.T) {
	t.Parallel()
	v := newReceivers(t)
	p := v.destination()
	tasks := newServerOf(t, cascadeType)
	tasks.server = p.server
	before := v.cascadeBefore("d", "quorum", 3)
	after := before.with(attributes{"queue_type": "classic"})
	given := attributes{"vhost": v.name, "delivery_exchange": "d", "levels": 3, "address": "orders", "queue": "quorum"}
	tasks.mustApply(before)
	p.mustApply(given)
	noErrors(t, tasks.planOn(t.Context(), tasks.state, tasks.private, object(t, tasks.resource, after)).diagnostics)
	plan := p.planOn(t.Context(), p.state, p.private, object(t, p.resource, given))
	noErrors(t, plan.diagnostics)
	if !warnsOfRestarts(plan.diagnostics) {
		t.Errorf("the plan does not warn: %q", warningText(plan.diagnostics))
	}
}

// newReceivers is a vhost with a queue of each type, called by it, and an exchange.
func newReceivers(t testing.TB) *vhost {
	t.Helper()
	v := newVhost(t)
	for _, name := range []string{"classic", "quorum"} {
		v.declareQueue(name, map[string]any{"x-queue-type": name})
	}
	v.declareExchange("onwards", "fanout")
	return v
}

// cascadeBefore is a cascade that ends in the delivery exchange. With its lookahead, exchanges of several levels are
// bound there.
func (v *vhost) cascadeBefore(delivery, queueType string, levels int) attributes {
	return attributes{"vhost": v.name, "name": queueType, "levels": levels, "queue_type": queueType,
		"delivery_exchange": delivery, "lookahead": 2}
}

func (v *vhost) ladderBefore(delivery, queueType string) attributes {
	return attributes{"vhost": v.name, "name": "l", "delays": textSet("5s"), "queue_type": queueType,
		"delivery_exchange": delivery}
}

func warnsOfRestarts(diagnostics []*tfprotov6.Diagnostic) bool {
	return strings.Contains(warningText(diagnostics), `Queue "quorum" loses overdue messages at restarts`)
}

// A broker that does not answer, or not in time, keeps nothing from being planned.
func TestDestinationPlanWithoutBroker(t *testing.T) {
	t.Parallel()
	given := attributes{"delivery_exchange": "t.delay-03", "levels": 3, "address": "orders", "queue": "orders"}
	for name, b := range map[string]*brokertest.Broker{
		"nobody": {Endpoint: "http://127.0.0.1:1", Username: "u", Password: "p", AMQPURI: "amqp://u:p@127.0.0.1:1"},
		"silent": {Endpoint: silent(t), Username: "u", Password: "p", AMQPURI: "amqp://u:p@127.0.0.1:1"},
	} {
		p := newProtocolOf(t, destinationType, b, nil)
		began := time.Now()
		if plan := p.plan(t.Context(), given); len(plan.diagnostics) > 0 {
			t.Errorf("%s: %s", name, errorText(plan.diagnostics)+warningText(plan.diagnostics))
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("%s: the plan took %s", name, took)
		}
	}
}

// silent is the endpoint of somebody who takes requests and does not answer.
func silent(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Bindings for another number of levels are findings of the cascade, the first ten of them.
func TestAccCascadeDataSourceLevels(t *testing.T) {
	v := newDestinations(t, 4, "orders")
	v.bind("t.delivery", "*.*.*.*.orders", "queue", "orders")
	v.bind("t.delivery", "#.orders", "queue", "orders")
	v.bind("t.delivery", "*.*.*.*.#", "queue", "orders")
	look := on(v.broker, `data "rabbitmqdelay_cascade" "t" {
  vhost          = %s
  entry_exchange = "t.delay-03"
}
`, quote(v.name))
	findings := tfjsonpath.New("findings")
	value := func(path tfjsonpath.Path, check knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue("data.rabbitmqdelay_cascade.t", path, check)
	}
	size := func(n int) []statecheck.StateCheck {
		return []statecheck.StateCheck{value(findings, knownvalue.ListSizeExact(n))}
	}
	first := findings.AtSliceIndex(0)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		Steps: []resource.TestStep{
			{Config: look, ConfigStateChecks: size(0)},
			{
				PreConfig: func() { v.bind("t.delivery", "*.*.*.mails", "queue", "orders") },
				Config:    look,
				ConfigStateChecks: append(size(1), value(first.AtMapKey("severity"), knownvalue.StringExact("error")),
					value(first.AtMapKey("object"), knownvalue.StringExact(
						`binding of exchange "t.delivery" to queue "orders" with key "*.*.*.mails"`)),
					value(first.AtMapKey("cause"), knownvalue.StringExact("made for levels = 3, not 4"))),
			},
			{
				PreConfig: func() {
					for i := range 20 {
						v.bind("t.delivery", fmt.Sprintf("*.*.orders-%d", i), "queue", "orders")
					}
				},
				Config: look, ConfigStateChecks: size(10),
			},
			{
				PreConfig: func() {
					newProtocol(v, v.broker, nil).mustApply(attributes{
						"vhost": v.name, "name": "u", "levels": 2, "queue_type": "classic",
						"delivery_exchange": "t.delivery", "create_delivery_exchange": false,
					})
				},
				Config: look, ConfigStateChecks: size(1),
			},
		},
	})
}
