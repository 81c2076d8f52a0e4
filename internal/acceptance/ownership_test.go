package acceptance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// addressesOf are those of the resources in the state.
func addressesOf(w *harness.Workspace) []string {
	w.T.Helper()
	output, err := w.CommandLine.Run("state", "list")
	if err != nil && !strings.Contains(output, "No state file") {
		w.T.Fatal(output)
	}
	return strings.Fields(output)
}

// expected are the whole cascade and the whole ladder of the tests.
func expected(w *harness.Workspace) (cascadeObjects, ladderObjects topology.Topology) {
	w.T.Helper()
	return harness.Expand(
			w.T,
			delay.Config{
				Name:                   "t",
				Vhost:                  w.Name,
				Levels:                 3,
				CreateDeliveryExchange: true,
				StrictKeys:             true,
				ParkUnroutable:         true,
			},
		),
		harness.ExpandLadder(
			w.T,
			delay.LadderConfig{
				Name:                   "t",
				Vhost:                  w.Name,
				Delays:                 []string{"1h"},
				CreateDeliveryExchange: true,
				ParkUnroutable:         true,
			},
		)
}

const (
	oneCascade = `resource "rabbitmqdelay_cascade" "t" {
  VHOST
  name   = "t"
  levels = 3
  %s
}
`
	oneLadder = `resource "rabbitmqdelay_ladder" "t" {
  VHOST
  name   = "t"
  delays = ["1h"]
  %s
}
`
	// unknownName is a name that is known in the apply only.
	unknownName = `resource "terraform_data" "name" {
  input = "t"
}
`
)

// Two resources declare the same objects. One of the two is made, and the other is refused; that can then be taken out
// without harm. Where one adopts what only in part is the same, the plan refuses, if the names are known.
func TestTwoDeclareTheSame(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ two, one string }{
		"two cascades": {fmt.Sprintf(oneCascade, "count = 2"), fmt.Sprintf(oneCascade, "count = 1")},
		"two ladders":  {fmt.Sprintf(oneLadder, "count = 2"), fmt.Sprintf(oneLadder, "count = 1")},
		"a ladder beside a cascade": {
			fmt.Sprintf(oneCascade, "") + fmt.Sprintf(oneLadder, ""), fmt.Sprintf(oneCascade, ""),
		},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, names known in the apply only: %t", name, late), func(t *testing.T) {
				t.Parallel()
				twoDeclareTheSame(harness.NewWorkspace(t, harness.NewVhost(t)), test.two, test.one, late)
			})
		}
	}
}

func twoDeclareTheSame(w *harness.Workspace, two, one string, late bool) {
	const name, said = `= "t"`, "Two resources declare the same objects"
	if late {
		two, one = unknownName+strings.ReplaceAll(two, name, "= terraform_data.name.output"),
			unknownName+strings.ReplaceAll(one, name, "= terraform_data.name.output")
	} else if strings.Contains(two, "rabbitmqdelay_ladder") && strings.Contains(two, "rabbitmqdelay_cascade") {
		w.MustRefuse(strings.ReplaceAll(two, name, name+"\n  adopt = true"), said, "Give one of the two other names")
		w.MustHold(topology.New())
	}
	w.MustRefuse(two, said)
	made := w.Objects()
	theCascade, theLadder := expected(w)
	addresses := slices.DeleteFunc(
		addressesOf(w),
		func(address string) bool { return !strings.HasPrefix(address, "rabbitmqdelay_") },
	)
	if len(addresses) != 1 {
		w.T.Fatalf("the state has %s", addresses)
	}
	isLadder := strings.HasPrefix(addresses[0], "rabbitmqdelay_ladder")
	if isLadder {
		w.MustHold(theLadder)
	} else {
		w.MustHold(theCascade)
	}
	if strings.HasSuffix(addresses[0], "[1]") || isLadder && strings.Contains(one, "rabbitmqdelay_cascade") {
		return // the other one was made: to take that out deletes its objects
	}
	w.MustApply(one)
	w.MustHold(made)
	w.MustBeSettled()
}

// Two cascades share a delivery exchange. Each of them can go first, in one apply or in two.
func TestSharedDeliveryExchange(t *testing.T) {
	t.Parallel()
	const one = `resource "rabbitmqdelay_cascade" "%[1]s" {
  VHOST
  name              = "%[1]s"
  levels            = 2
  delivery_exchange = "events"
  park_unroutable   = false
}
`
	w := harness.NewWorkspace(t, harness.NewVhost(t))
	a, b := fmt.Sprintf(one, "a"), fmt.Sprintf(one, "b")
	w.MustApply(a + b)
	w.MustBeSettled()
	both := w.Objects()
	if output := w.MustApply(b); !strings.Contains(output, "Delivery exchange left standing") {
		t.Errorf("the apply does not say that the delivery exchange stays: %s", output)
	}
	w.MustBeSettled()
	w.MustApply(a + b)
	w.MustHold(both)
	w.MustApply("")
	w.MustHold(topology.New())
}

// A replacement that creates before it destroys meets its own objects: it is refused with a word on why, or it takes
// them over.
func TestCreateBeforeDestroy(t *testing.T) {
	t.Parallel()
	w := harness.NewWorkspace(t, harness.NewVhost(t))
	const first = "lifecycle {\n    create_before_destroy = true\n  }\n"
	whole, _ := expected(w)
	w.MustApply(fmt.Sprintf(oneCascade, first))
	if output, err := w.Apply("-replace=rabbitmqdelay_cascade.t"); err == nil ||
		!strings.Contains(output, "create_before_destroy") {
		t.Errorf("the replacement without adopt: %v %s", err, output)
	}
	w.MustHold(whole)
	w.MustApply(fmt.Sprintf(oneCascade, first+"adopt = true"), "-replace=rabbitmqdelay_cascade.t")
	w.MustHold(whole)
	w.MustBeSettled()
	w.MustApply(fmt.Sprintf(oneCascade, ""), "-replace=rabbitmqdelay_cascade.t")
	w.MustHold(whole)
	w.MustBeSettled()
}

// A cascade becomes a ladder of its name, which has the parking in common with it. That takes two applies.
func TestCascadeBecomesLadder(t *testing.T) {
	t.Parallel()
	w := harness.NewWorkspace(t, harness.NewVhost(t))
	w.MustApply(fmt.Sprintf(oneCascade, ""))
	w.Bind("t.delivery", "#.there", "exchange", "t.delivery")
	before := w.Objects()
	for _, adopt := range []string{"", "adopt = true"} {
		w.MustRefuse(fmt.Sprintf(oneLadder, adopt), "The plan deletes what another resource declares",
			`queue "t.unroutable"`, "If the new one is to begin empty, apply without it first")
		w.MustHold(before)
	}
	w.MustApply("")
	w.MustApply(fmt.Sprintf(oneLadder, ""))
	_, ladder := expected(w)
	ladder.Bindings.Add(topology.Binding{Source: "t.delivery", RoutingKey: "#.there",
		DestinationType: topology.ToExchange, Destination: "t.delivery"})
	w.MustHold(ladder)
	w.MustBeSettled()
}

// Two states declare the same at once: one of them gets it, or none does, and nothing is left behind.
func TestTwoStatesAtOnce(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	a, b := harness.NewWorkspace(t, v), harness.NewWorkspace(t, v)
	whole, _ := expected(a)
	for _, w := range []*harness.Workspace{a, b} {
		w.Configure(fmt.Sprintf(oneCascade, ""))
	}
	for range repeated(3) {
		var outputs [2]string
		var errs [2]error
		var both sync.WaitGroup
		for i, w := range []*harness.Workspace{a, b} {
			both.Go(func() { outputs[i], errs[i] = w.Apply() })
		}
		both.Wait()
		switch {
		case errs[0] == nil && errs[1] == nil:
			t.Fatalf("both succeed: %s %s", outputs[0], outputs[1])
		case errs[0] != nil && errs[1] != nil:
			v.MustHold(topology.New())
		default:
			v.MustHold(whole)
		}
		for _, w := range []*harness.Workspace{a, b} {
			if output, err := w.CommandLine.Run("destroy", "-auto-approve"); err != nil {
				t.Fatal(output)
			}
		}
		v.MustHold(topology.New())
	}
}

// repeated is how often a race is run: OWNERSHIP_ROUNDS, or the usual number.
func repeated(usual int) int {
	var rounds int
	if _, err := fmt.Sscan(os.Getenv("OWNERSHIP_ROUNDS"), &rounds); err != nil {
		return usual
	}
	return rounds
}

// A delivery exchange of others that is deleted, or comes back with another type, is a difference. An apply says why it
// cannot repair that.
func TestForeignDeliveryExchangeIsDrift(t *testing.T) {
	t.Parallel()
	for _, typeName := range []string{harness.CascadeType, harness.LadderType} {
		t.Run(typeName, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			v.DeclareExchange("events", "topic")
			given := harness.Attributes{
				"vhost":                    v.Name,
				"name":                     "t",
				"delivery_exchange":        "events",
				"create_delivery_exchange": false,
			}
			if typeName == harness.LadderType {
				given["delays"] = harness.TextList("1h", "2h")
			} else {
				given["levels"] = 2
			}
			p := harness.NewProtocolOf(t, typeName, v.Broker, nil)
			p.MustApply(given)
			p.MustBeSettled(given)
			differs := func(says string) {
				t.Helper()
				harness.NoErrors(t, p.Refresh(t.Context()))
				plan := p.Plan(t.Context(), given)
				if plan.IsEmpty(p.State) {
					t.Error("the plan is empty")
				}
				if text := harness.ErrorText(p.Apply(t.Context(), plan)); !strings.Contains(text, says) {
					t.Errorf("the error does not say %q: %s", says, text)
				}
			}
			v.Try(v.API.DeleteExchange(v.Name, "events"))
			differs("Delivery exchange does not exist")
			v.DeclareExchange("events", "direct")
			differs("Delivery exchange has the wrong type")
			v.Try(v.API.DeleteExchange(v.Name, "events"))
			v.DeclareExchange("events", "topic")
			p.MustApply(given)
			p.MustBeSettled(given)
		})
	}
}

// Where a fixed key makes any type do, only a missing exchange is a difference.
func TestForeignDeliveryExchangeOfAnyType(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("events", "direct")
	given := harness.Attributes{
		"vhost": v.Name, "name": "t", "delivery_exchange": "events", "create_delivery_exchange": false,
		"dead_letter_routing_key": "k", "delays": harness.TextList("1h"),
	}
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	p.MustApply(given)
	p.MustBeSettled(given)
	v.Try(v.API.DeleteExchange(v.Name, "events"))
	harness.NoErrors(t, p.Refresh(t.Context()))
	if plan := p.Plan(t.Context(), given); plan.IsEmpty(p.State) {
		t.Error("the plan is empty although the exchange is gone")
	}
	v.DeclareExchange("events", "fanout")
	p.MustApply(given)
	p.MustBeSettled(given)
}

// A replacement leaves the bindings of applications where they are, and its plan says that the keys change.
func TestReplacementKeepsBindings(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2}
	p.MustApply(given)
	v.DeclareQueue("application", nil)
	v.Bind("t.delivery", "#.application", "queue", "application")
	v.DeclareExchange("theirs", "topic")
	v.Bind("theirs", "#", "exchange", "t.delay-01")
	v.Bind("theirs", "low.#", "exchange", "t.delay-00")
	more := given.With(harness.Attributes{"levels": 3})
	plan := p.Plan(t.Context(), more)
	for _, says := range []string{
		`Delays get 3 words in place of 2`, `exchange "theirs", bound to exchange "t.delay-01" with key "#"`,
		`"low.#"`,
	} {
		if text := harness.WarningText(plan.Diagnostics); !strings.Contains(text, says) {
			t.Errorf("the plan does not warn %q: %s", says, text)
		}
	}
	harness.NoErrors(t, p.Apply(t.Context(), plan))
	v.MustBeBound("#.application -> queue application")
	p.MustBeSettled(more)
	text := harness.WarningText(p.Apply(t.Context(), p.Plan(t.Context(), nil)))
	if !strings.Contains(text, `queue "application", bound with key "#.application"`) {
		t.Errorf("the destroy does not say why the delivery exchange stays: %s", text)
	}
	v.MustBeBound("#.application -> queue application")
	p.MustApply(given)
	p.MustApply(given.With(harness.Attributes{"force_destroy": true}))
	p.MustApply(nil)
	if _, exists := v.Objects().Exchanges["t.delivery"]; exists {
		t.Error("force_destroy leaves the delivery exchange")
	}
}

// A classic ladder of others ends in the delivery exchange of a cascade without any binding. The destroy of the cascade
// leaves the exchange, and the ladder's messages arrive.
func TestDestroyLeavesWhereOthersEnd(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	owner, other := harness.NewProtocol(t, v.Broker, nil), harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	owner.MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "park_unroutable": false})
	other.MustApply(harness.Attributes{
		"vhost": v.Name, "name": "l", "delays": harness.TextList("500ms"), "queue_type": "classic",
		"delivery_exchange": "t.delivery", "create_delivery_exchange": false,
	})
	text := harness.WarningText(owner.Apply(t.Context(), owner.Plan(t.Context(), nil)))
	if !strings.Contains(text, `queue "l.delay-500ms", which dead-letters into it`) {
		t.Errorf("the destroy does not name the ladder's queue: %s", text)
	}
	arrivals := v.Collect("t.delivery", "#.application")
	v.Publish("l.entry", "500ms.application", "x")
	v.Arrived(arrivals, 1)
}

// A replacement that cannot succeed is refused in the plan, and nothing is destroyed.
func TestReplacementThatCannotSucceed(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2}
	p.MustApply(given)
	v.DeclareExchange("direct", "direct")
	v.DeclareQueue("u.delay-01", nil)
	before := v.Objects()
	for name, test := range map[string]struct {
		change harness.Attributes
		says   string
	}{
		"a delivery exchange that is missing": {harness.Attributes{"delivery_exchange": "missing",
			"create_delivery_exchange": false, "levels": 3}, "does not exist"},
		"one of another type": {harness.Attributes{"delivery_exchange": "direct",
			"create_delivery_exchange": false, "levels": 3}, "wrong type"},
		"one that differs": {harness.Attributes{"delivery_exchange": "direct", "levels": 3},
			`exchange "direct": type is direct, not topic`},
		"names of others": {harness.Attributes{"name": "u"}, `queue "u.delay-01"`},
		"a missing vhost": {harness.Attributes{"vhost": v.Name + "-missing"}, "There is no vhost"},
	} {
		harness.NoErrors(t, p.Refresh(t.Context()))
		plan := p.Plan(t.Context(), given.With(test.change))
		if text := harness.ErrorText(plan.Diagnostics); !strings.Contains(text, test.says) ||
			!strings.Contains(text, "Nothing was destroyed") {
			t.Errorf("%s: the plan does not say %q: %s", name, test.says, text)
		}
	}
	v.MustHold(before)
	p.MustBeSettled(given)
}

// A broker that does not answer in the plan does not fail a create.
func TestCreateIsPlannedWithoutABroker(t *testing.T) {
	t.Parallel()
	b := *harness.NewVhost(t).Broker
	b.Endpoint = "http://127.0.0.1:1"
	p := harness.NewProtocol(t, &b, nil)
	if text := harness.ErrorText(p.Plan(t.Context(), harness.Attributes{"name": "t",
		"levels": 2}).Diagnostics); text != "" {
		t.Error(text)
	}
}

// A cascade that two resources of a state have, as two imports leave it: every plan says so.
func TestStateHasItTwice(t *testing.T) {
	t.Parallel()
	w := harness.NewWorkspace(t, harness.NewVhost(t))
	whole, _ := expected(w)
	w.MustApply(fmt.Sprintf(oneCascade, "count = 1"))
	w.Configure(fmt.Sprintf(oneCascade, "count = 2"))
	w.CommandLine.Must("import", "rabbitmqdelay_cascade.t[1]", harness.ImportID(w.Name, "t.delay-02"))
	w.MustRefuse(fmt.Sprintf(oneCascade, "count = 2"), "Two resources declare the same objects", "terraform state rm")
	w.MustRefuse(fmt.Sprintf(oneCascade, "count = 1"), "The plan deletes what another resource declares",
		"terraform state rm")
	w.CommandLine.Must("state", "rm", "rabbitmqdelay_cascade.t[1]")
	w.MustApply(fmt.Sprintf(oneCascade, "count = 1"))
	w.MustHold(whole)
	w.MustBeSettled()
}

// The same without Terraform, whose start leaves some time between the two. Now and then both declare an object within
// the same millisecond, and RabbitMQ tells both that it is new.
func TestTwoCreatesAtOnce(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 3}
	whole := harness.Expand(t, delay.Config{
		Name: "t", Vhost: v.Name, Levels: 3, CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true,
	})
	won := 0
	for range repeated(20) {
		runs := []*harness.Protocol{harness.NewProtocol(t, v.Broker, nil), harness.NewProtocol(t, v.Broker, nil)}
		var texts [2]string
		var both sync.WaitGroup
		for i, p := range runs {
			plan := p.Plan(t.Context(), given)
			both.Go(func() { texts[i] = harness.ErrorText(p.Apply(t.Context(), plan)) })
		}
		both.Wait()
		var winners []*harness.Protocol
		for i, p := range runs {
			if texts[i] == "" {
				winners = append(winners, p)
			} else if !p.State.IsNull() {
				t.Errorf("what was refused is in the state: %s", texts[i])
			}
		}
		switch len(winners) {
		case 0:
			v.MustHold(topology.New())
		case 1:
			won++
			v.MustHold(whole)
			winners[0].MustBeSettled(given)
			winners[0].MustApply(nil)
		default:
			t.Fatal("both succeed")
		}
	}
	t.Logf("one of the two succeeded in %d of %d rounds", won, repeated(20))
}

// The password of the provider is known in the apply only, as that of a resource that is replaced. The plan is made
// without a refresh, with a warning that says so, and the apply goes on.
func TestProviderConfigurationOfAnotherResource(t *testing.T) {
	t.Parallel()
	w := harness.NewWorkspace(t, harness.NewVhost(t))
	const all = `resource "terraform_data" "password" {
  input            = %q
  triggers_replace = %q
}

provider "rabbitmqdelay" {
  endpoint = %q
  username = %q
  password = terraform_data.password.output
  amqp_uri = %q
}

resource "rabbitmqdelay_cascade" "t" {
  vhost     = %[6]q
  name      = "t"
  levels    = 2
  lookahead = %[7]d
}

resource "rabbitmqdelay_ladder" "l" {
  vhost  = %[6]q
  name   = "l"
  delays = ["1h"]
}

resource "rabbitmqdelay_destination" "d" {
  vhost             = %[6]q
  delivery_exchange = rabbitmqdelay_cascade.t.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.t.units)
  address           = "orders"
  queue             = "orders"
}
`
	w.DeclareQueue("orders", nil)
	apply := func(round string, lookahead int, reading string) (string, error) {
		t.Helper()
		b := w.Broker
		w.Write(harness.RequiredProviders + fmt.Sprintf(all, b.Password, round, b.Endpoint, b.Username, b.AMQPURI,
			w.Name, lookahead) + reading)
		return w.Apply()
	}
	deferred := fmt.Sprintf(`data "rabbitmqdelay_cascade" "t" {
  vhost          = %q
  entry_exchange = rabbitmqdelay_cascade.t.entry_exchange
  depends_on     = [terraform_data.password]
}

data "rabbitmqdelay_probe" "t" {
  vhost          = %[1]q
  entry_exchange = rabbitmqdelay_cascade.t.entry_exchange
  delay          = "1s"
  depends_on     = [terraform_data.password]
}
`, w.Name)
	atOnce := strings.ReplaceAll(deferred, "depends_on     = [terraform_data.password]", "")
	if output, err := apply("first", 2, deferred); err != nil {
		t.Fatal(output)
	}
	output, err := apply("second", 2, atOnce)
	if err == nil || strings.Count(output, "Add depends_on to the data source") != 2 {
		t.Errorf("data sources that nothing defers: %v %s", err, output)
	}
	if output, err = apply("second", 1, deferred); err != nil {
		t.Fatal(output)
	}
	for _, kind := range []string{"Cascade", "Ladder", "Destination"} {
		if !strings.Contains(output, kind+" not refreshed") {
			t.Errorf("the plan does not say that the %s was not refreshed: %s", kind, output)
		}
	}
	w.MustBeSettled()
}

// A destination that names the entry as its delivery exchange, in the plan that makes the cascade: nothing is there to
// look at yet.
func TestMisnamedInOnePlan(t *testing.T) {
	t.Parallel()
	w := harness.NewWorkspace(t, harness.NewVhost(t))
	w.MustRefuse(fmt.Sprintf(oneCascade, "")+`
resource "rabbitmqdelay_destination" "d" {
  VHOST
  delivery_exchange = rabbitmqdelay_cascade.t.entry_exchange
  levels            = 3
  address           = "orders"
  queue             = "orders"
}
`, "t.delay-02", "delivery_exchange")
	w.MustHold(topology.New())
}
