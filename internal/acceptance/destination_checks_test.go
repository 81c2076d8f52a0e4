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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// A name that leads into a cascade or ladder, whatever it is called, is an error on its attribute. It is so in the
// plan, if the broker answers, and in the apply. Names that only look like it are no errors.
func TestDestinationMisnamed(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	const levels = 3
	classic := harness.Attributes{"vhost": v.Name, "queue_type": "classic"}
	lax := classic.With(harness.Attributes{
		"name": "t", "levels": levels, "exchange_name": "in %d", "queue_name": "wait %d",
		"strict_keys": false, "lookahead": 1,
	})
	declare := func() {
		harness.NewProtocol(t, v.Broker, nil).MustApply(lax)
		harness.NewProtocol(t, v.Broker, nil).MustApply(classic.With(harness.Attributes{"name": "second",
			"levels": levels}))
		ladder := classic.With(harness.Attributes{"name": "l", "delays": harness.TextList("5s", "1m")})
		harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).MustApply(ladder)
	}
	v.DeclareQueue("orders", nil)
	v.DeclareQueue("retries", map[string]any{"x-message-ttl": 5000, "x-dead-letter-exchange": "in 2"})
	v.DeclareExchange("look.delay-03", "topic")
	v.Bind("look.delay-03", "1.#", "queue", "orders")
	given := harness.Attributes{
		"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": levels, "address": "orders", "queue": "orders",
	}
	to := func(exchange string) harness.Attributes {
		return harness.Attributes{"queue": nil, "exchange": exchange}
	}
	cases := []struct {
		change          harness.Attributes
		attribute, says string // none if it is right
	}{
		{harness.Attributes{"delivery_exchange": "in 2"}, "delivery_exchange", `Exchange "in 2" in vhost "` + v.Name +
			`" leads into the delay queues of a cascade or ladder`},
		{harness.Attributes{"delivery_exchange": "in 0"}, "delivery_exchange", "before their time"},
		{harness.Attributes{"delivery_exchange": "second.delay-02"}, "delivery_exchange", "before their time"},
		{harness.Attributes{"delivery_exchange": "second.delay-01"}, "delivery_exchange", "before their time"},
		{harness.Attributes{"delivery_exchange": "l.entry"}, "delivery_exchange", "before their time"},
		{harness.Attributes{"queue": "wait 1"}, "queue", `Queue "wait 1"`},
		{harness.Attributes{"queue": "second.delay-00"}, "queue", "one of the delay queues"},
		{harness.Attributes{"queue": "l.delay-5s"}, "queue", "one of the delay queues"},
		{to("in 2"), "exchange", `which ends in exchange "t.delivery"`},
		{to("in 0"), "exchange", "would come back"},
		{to("second.delay-02").With(harness.Attributes{"delivery_exchange": "second.delivery"}), "exchange",
			"would come back"},
		{to("l.entry").With(harness.Attributes{"delivery_exchange": "l.delivery", "levels": 1}), "exchange",
			"would come back"},
		{harness.Attributes{"queue": "retries"}, "", ""},
		{to("look.delay-03"), "", ""},
		{to("second.delay-02"), "", ""},
	}
	// The apply refuses bindings that were planned before there was a cascade.
	var early []harness.PlannedChange
	for _, is := range cases {
		early = append(early, v.Destination().Plan(t.Context(), given.With(is.change)))
	}
	declare()
	before := v.Objects()
	for i, is := range cases {
		for when, diagnostics := range map[string]func() ([]string, string){
			"apply": func() ([]string, string) {
				p := v.Destination()
				found := p.Apply(t.Context(), early[i])
				harness.NoErrors(t, p.Apply(t.Context(), p.Plan(t.Context(), nil)))
				return at(found), harness.ErrorText(found)
			},
			"plan": func() ([]string, string) {
				found := v.Destination().Plan(t.Context(), given.With(is.change)).Diagnostics
				return at(found), harness.ErrorText(found)
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
	v.MustHold(before)
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
	v := harness.NewDestinations(t, 4, "orders")
	warned := func(levels int, match string) (inPlan, inApply bool) {
		t.Helper()
		given := harness.Attributes{
			"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": levels, "address": "orders",
			"queue": "orders", "match": match,
		}
		if match == "suffix" {
			given["levels"] = nil
		}
		p := v.Destination()
		plan := p.Plan(t.Context(), given)
		applied := p.Apply(t.Context(), plan)
		harness.NoErrors(t, applied)
		p.MustApply(nil)
		says := fmt.Sprintf("The destination has levels = %d", levels)
		return strings.Contains(harness.WarningText(plan.Diagnostics),
			says), strings.Contains(harness.WarningText(applied), says)
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
	harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).MustApply(harness.Attributes{
		"vhost": v.Name, "name": "l", "delays": harness.TextList("5s"), "queue_type": "classic",
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
		harness.NewProtocol(t, v.Broker, nil).MustApply(cascadeBefore(v, "d."+queueType, queueType, 3))
	}
	// It has other keys, of which the destinations with match = "exact" take nothing.
	harness.NewProtocol(t, v.Broker, nil).MustApply(cascadeBefore(v, "d.quorum", "classic", 4).With(harness.Attributes{
		"name": "other", "create_delivery_exchange": false}))
	suffix := harness.Attributes{"match": "suffix", "levels": nil}
	for name, is := range map[string]struct {
		given harness.Attributes
		warns bool
	}{
		"quorum behind classic":  {harness.Attributes{"delivery_exchange": "d.classic", "queue": "quorum"}, true},
		"classic behind classic": {harness.Attributes{"delivery_exchange": "d.classic", "queue": "classic"}, false},
		"an exchange":            {harness.Attributes{"delivery_exchange": "d.classic", "exchange": "onwards"}, false},
		"quorum behind quorum":   {harness.Attributes{"delivery_exchange": "d.quorum", "queue": "quorum"}, false},
		"of any levels": {suffix.With(harness.Attributes{"delivery_exchange": "d.quorum", "queue": "quorum"}),
			true},
	} {
		given := harness.Attributes{"vhost": v.Name, "levels": 3, "address": "orders"}.With(is.given)
		p := v.Destination()
		plan := p.Plan(t.Context(), given)
		applied := p.Apply(t.Context(), plan)
		harness.NoErrors(t, applied)
		for when, diagnostics := range map[string][]*tfprotov6.Diagnostic{"plan": plan.Diagnostics, "apply": applied} {
			if warnsOfRestarts(diagnostics) != is.warns {
				t.Errorf("%s, %s: %q, want a warning of restarts: %t", name, when, harness.WarningText(diagnostics),
					is.warns)
			}
		}
		p.MustApply(nil)
	}
}

// The plan does so, too, where it is the plan of the cascade or ladder.
func TestDestinationBehindPlannedClassicQueues(t *testing.T) {
	t.Parallel()
	v := newReceivers(t)
	classic := cascadeBefore(v, "d", "classic", 3)
	for name, is := range map[string]struct {
		typeName string
		planned  harness.Attributes
		queue    string
		levels   int
		warns    bool
	}{
		"quorum behind classic":   {harness.CascadeType, classic, "quorum", 3, true},
		"classic behind classic":  {harness.CascadeType, classic, "classic", 3, false},
		"of other levels":         {harness.CascadeType, classic, "quorum", 4, false},
		"quorum behind quorum":    {harness.CascadeType, cascadeBefore(v, "d", "quorum", 3), "quorum", 3, false},
		"quorum behind a ladder":  {harness.LadderType, ladderBefore(v, "d", "classic"), "quorum", 1, true},
		"classic behind a ladder": {harness.LadderType, ladderBefore(v, "d", "classic"), "classic", 1, false},
	} {
		p := v.Destination()
		other := harness.NewServerOf(t, is.typeName)
		other.Server = p.Server
		for _, each := range []struct {
			*harness.Protocol
			given harness.Attributes
			warns bool
		}{
			{other, is.planned, false},
			{p, harness.Attributes{"vhost": v.Name, "delivery_exchange": "d", "levels": is.levels, "address": "orders",
				"queue": is.queue}, is.warns},
		} {
			plan := each.PlanOn(t.Context(), each.State, nil, harness.NewObject(t, each.Resource, each.given))
			harness.NoErrors(t, plan.Diagnostics)
			if warnsOfRestarts(plan.Diagnostics) != each.warns {
				t.Errorf("%s, %s: %q, want a warning of restarts: %t", name, each.TypeName,
					harness.WarningText(plan.Diagnostics), each.warns)
			}
		}
	}
}

// A destination that stays as it is gets classic queues before it.
func TestDestinationGetsBehindClassicQueues(t *testing.T) {
	t.Parallel()
	v := newReceivers(t)
	p := v.Destination()
	tasks := harness.NewServerOf(t, harness.CascadeType)
	tasks.Server = p.Server
	before := cascadeBefore(v, "d", "quorum", 3)
	after := before.With(harness.Attributes{"queue_type": "classic"})
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "d", "levels": 3, "address": "orders",
		"queue": "quorum"}
	tasks.MustApply(before)
	p.MustApply(given)
	harness.NoErrors(t, tasks.PlanOn(t.Context(), tasks.State, tasks.Private,
		harness.NewObject(t, tasks.Resource, after)).Diagnostics)
	plan := p.PlanOn(t.Context(), p.State, p.Private, harness.NewObject(t, p.Resource, given))
	harness.NoErrors(t, plan.Diagnostics)
	if !warnsOfRestarts(plan.Diagnostics) {
		t.Errorf("the plan does not warn: %q", harness.WarningText(plan.Diagnostics))
	}
}

// newReceivers is a vhost with a queue of each type, called by it, and an exchange.
func newReceivers(t testing.TB) *harness.Vhost {
	t.Helper()
	v := harness.NewVhost(t)
	for _, name := range []string{"classic", "quorum"} {
		v.DeclareQueue(name, map[string]any{"x-queue-type": name})
	}
	v.DeclareExchange("onwards", "fanout")
	return v
}

// cascadeBefore is a cascade that ends in the delivery exchange. With its lookahead, exchanges of several levels are
// bound there.
func cascadeBefore(v *harness.Vhost, delivery, queueType string, levels int) harness.Attributes {
	return harness.Attributes{"vhost": v.Name, "name": queueType, "levels": levels, "queue_type": queueType,
		"delivery_exchange": delivery, "lookahead": 2}
}

func ladderBefore(v *harness.Vhost, delivery, queueType string) harness.Attributes {
	return harness.Attributes{"vhost": v.Name, "name": "l", "delays": harness.TextList("5s"), "queue_type": queueType,
		"delivery_exchange": delivery}
}

func warnsOfRestarts(diagnostics []*tfprotov6.Diagnostic) bool {
	return strings.Contains(harness.WarningText(diagnostics), "Overdue messages get lost at restarts")
}

// A broker that does not answer, or not in time, keeps nothing from being planned.
func TestDestinationPlanWithoutBroker(t *testing.T) {
	t.Parallel()
	given := harness.Attributes{"delivery_exchange": "t.delay-03", "levels": 3, "address": "orders", "queue": "orders"}
	for name, b := range map[string]*brokertest.Broker{
		"nobody": {Endpoint: "http://127.0.0.1:1", Username: "u", Password: "p", AMQPURI: "amqp://u:p@127.0.0.1:1"},
		"silent": {Endpoint: silent(t), Username: "u", Password: "p", AMQPURI: "amqp://u:p@127.0.0.1:1"},
	} {
		// The plan has a limit of its own, of some seconds. Without that, it would take as long as a request may.
		p := harness.NewProtocolOf(t, harness.DestinationType, b, harness.Attributes{"request_timeout": "2m"})
		began := time.Now()
		if plan := p.Plan(t.Context(), given); len(plan.Diagnostics) > 0 {
			t.Errorf("%s: %s", name, harness.ErrorText(plan.Diagnostics)+harness.WarningText(plan.Diagnostics))
		}
		if took := time.Since(began); took > 9*time.Second {
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
	v := harness.NewDestinations(t, 4, "orders")
	v.Bind("t.delivery", "*.*.*.*.orders", "queue", "orders")
	v.Bind("t.delivery", "#.orders", "queue", "orders")
	v.Bind("t.delivery", "*.*.*.*.#", "queue", "orders")
	look := harness.WithProvider(v.Broker, `data "rabbitmqdelay_cascade" "t" {
  vhost          = %s
  entry_exchange = "t.delay-03"
}
`, harness.Quote(v.Name))
	findings := tfjsonpath.New("findings")
	value := func(path tfjsonpath.Path, check knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue("data.rabbitmqdelay_cascade.t", path, check)
	}
	size := func(n int) []statecheck.StateCheck {
		return []statecheck.StateCheck{value(findings, knownvalue.ListSizeExact(v.Findings(n)))}
	}
	first := findings.AtSliceIndex(0)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{
			{Config: look, ConfigStateChecks: size(0)},
			{
				PreConfig: func() { v.Bind("t.delivery", "*.*.*.mails", "queue", "orders") },
				Config:    look,
				ConfigStateChecks: append(size(1), value(first.AtMapKey("severity"), knownvalue.StringExact("error")),
					value(first.AtMapKey("object"), knownvalue.StringExact(
						`binding of exchange "t.delivery" to queue "orders" with key "*.*.*.mails"`)),
					value(first.AtMapKey("cause"), knownvalue.StringExact("made for levels = 3, not 4"))),
			},
			{
				PreConfig: func() {
					for i := range 20 {
						v.Bind("t.delivery", fmt.Sprintf("*.*.orders-%d", i), "queue", "orders")
					}
				},
				Config: look, ConfigStateChecks: size(10),
			},
			{
				PreConfig: func() {
					harness.NewProtocol(v.T, v.Broker, nil).MustApply(harness.Attributes{
						"vhost": v.Name, "name": "u", "levels": 2, "queue_type": "classic",
						"delivery_exchange": "t.delivery", "create_delivery_exchange": false,
					})
				},
				Config: look, ConfigStateChecks: size(1),
			},
		},
	})
}
