package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// workspace is a directory with a configuration and a state, in which a test runs Terraform as a user does.
type workspace struct {
	*vhost
	tf *commandLine
}

// newWorkspace makes a workspace for a vhost.
func newWorkspace(t *testing.T, v *vhost) *workspace {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	w := &workspace{v, newCommandLine(t, "", "", nil)}
	w.tf.environ = slices.DeleteFunc(
		w.tf.environ,
		func(variable string) bool { return strings.HasPrefix(variable, "TF_LOG") },
	)
	return w
}

// configure writes the configuration: a provider for the broker, and the given blocks. VHOST stands for the test's
// vhost.
func (w *workspace) configure(configuration string) {
	w.Helper()
	w.write(
		requiring + on(w.broker, "%s", strings.ReplaceAll(configuration, "VHOST", fmt.Sprintf("vhost = %q", w.name))),
	)
}

// write writes the configuration as it is.
func (w *workspace) write(text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.tf.directory, "main.tf"), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// apply applies the configuration. The output is on one line, without the frames that Terraform draws.
func (w *workspace) apply(arguments ...string) (output string, err error) {
	text, err := w.tf.run(append([]string{"apply", "-auto-approve"}, arguments...)...)
	return oneLine(text), err
}

// mustApply applies a configuration, and returns what Terraform says.
func (w *workspace) mustApply(configuration string, arguments ...string) (output string) {
	w.Helper()
	w.configure(configuration)
	output, err := w.apply(arguments...)
	if err != nil {
		w.Fatal(output)
	}
	return output
}

// mustRefuse applies what cannot be, and checks that the error says why.
func (w *workspace) mustRefuse(configuration string, says ...string) {
	w.Helper()
	w.configure(configuration)
	output, err := w.apply()
	if err == nil {
		w.Fatalf("the apply succeeds: %s", output)
	}
	mustSay(w, "the error", output, says...)
}

// mustBeSettled checks that a plan finds nothing to do.
func (w *workspace) mustBeSettled() {
	w.Helper()
	if output, err := w.tf.run("plan", "-detailed-exitcode"); err != nil {
		w.Errorf("the plan is not empty: %v %s", err, output)
	}
}

// addresses are those of the resources in the state.
func (w *workspace) addresses() []string {
	w.Helper()
	output, err := w.tf.run("state", "list")
	if err != nil && !strings.Contains(output, "No state file") {
		w.Fatal(output)
	}
	return strings.Fields(output)
}

// expected are the whole cascade and the whole ladder of the tests.
func (w *workspace) expected() (cascadeObjects, ladderObjects topology.Topology) {
	w.Helper()
	return expand(
			w,
			delay.Config{
				Name:                   "t",
				Vhost:                  w.name,
				Levels:                 3,
				CreateDeliveryExchange: true,
				StrictKeys:             true,
				ParkUnroutable:         true,
				InternalLevels:         true,
			},
		),
		expandLadder(
			w,
			delay.LadderConfig{
				Name:                   "t",
				Vhost:                  w.name,
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

// Two resources declare the same objects. Where the names are known, the plan refuses. Otherwise one of the two is
// made, and the other is refused; that can then be taken out without harm.
func TestTwoDeclareTheSame(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ two, one string }{
		"two cascades": {fmt.Sprintf(oneCascade, "count = 2"), fmt.Sprintf(oneCascade, "count = 1")},
		"two ladders":  {fmt.Sprintf(oneLadder, "count = 2"), fmt.Sprintf(oneLadder, "count = 1")},
		"a ladder beside a cascade": {
			fmt.Sprintf(oneCascade, "") + fmt.Sprintf(oneLadder, ""), fmt.Sprintf(oneCascade, ""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, newVhost(t))
			w.mustRefuse(test.two, "Two resources declare the same objects", "Give one of the two other names")
			w.mustHold(topology.New())

			late := func(configuration string) string {
				return unknownName + strings.ReplaceAll(configuration, `= "t"`, "= terraform_data.name.output")
			}
			w.mustRefuse(late(test.two))
			made := w.objects()
			theCascade, theLadder := w.expected()
			addresses := slices.DeleteFunc(
				w.addresses(),
				func(address string) bool { return !strings.HasPrefix(address, "rabbitmqdelay_") },
			)
			if len(addresses) != 1 {
				t.Fatalf("the state has %s", addresses)
			}
			if strings.HasPrefix(addresses[0], "rabbitmqdelay_ladder") {
				w.mustHold(theLadder)
			} else {
				w.mustHold(theCascade)
			}
			if strings.HasSuffix(addresses[0], "[1]") ||
				strings.HasPrefix(test.one, `resource "rabbitmqdelay_cascade`) &&
					strings.HasPrefix(addresses[0], "rabbitmqdelay_ladder") {
				return // the other one was made: to take that out deletes its objects
			}
			w.mustApply(late(test.one))
			w.mustHold(made)
			w.mustBeSettled()
		})
	}
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
	w := newWorkspace(t, newVhost(t))
	a, b := fmt.Sprintf(one, "a"), fmt.Sprintf(one, "b")
	w.mustApply(a + b)
	w.mustBeSettled()
	both := w.objects()
	if output := w.mustApply(b); !strings.Contains(output, "Delivery exchange left standing") {
		t.Errorf("the apply does not say that the delivery exchange stays: %s", output)
	}
	w.mustBeSettled()
	w.mustApply(a + b)
	w.mustHold(both)
	w.mustApply("")
	w.mustHold(topology.New())
}

// keyedResource is a cascade or a ladder under one key.
const keyedResource = `resource "rabbitmqdelay_%s" "t" {
  for_each = toset([%q])
  VHOST
  name     = "t"
  %s
  %s
}
`

// A key of for_each is renamed, and the cascade is to be the same. Terraform destroys and creates in any order. Either
// the cascade is whole and has its new address, or the apply is refused and the cascade is whole.
func TestRenamedKey(t *testing.T) {
	t.Parallel()
	for _, test := range []keyedKind{{"cascade", "levels = 3"}, {"ladder", `delays = ["1h"]`}} {
		for _, adopt := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, adopt %t", test.kind, adopt), func(t *testing.T) {
				renameKey(t, test, adopt)
			})
		}
	}
}

type keyedKind struct{ kind, arguments string }

// renameKey renames the key again and again.
func renameKey(t *testing.T, test keyedKind, adopt bool) {
	t.Parallel()
	w := newWorkspace(t, newVhost(t))
	configuration := func(key string) string {
		return fmt.Sprintf(keyedResource, test.kind, key, test.arguments, fmt.Sprintf("adopt = %t", adopt))
	}
	whole, ladder := w.expected()
	if test.kind == "ladder" {
		whole = ladder
	}
	keys := []string{"old", "new"}
	w.mustApply(configuration(keys[0]))
	for round := range 4 {
		before, after := keys[round%2], keys[(round+1)%2]
		w.configure(configuration(after))
		if output, err := w.tf.run("plan"); err != nil ||
			!adopt && !strings.Contains(oneLine(output), "a moved block says so") {
			t.Errorf("the plan does not warn of what exists: %v %s", err, output)
		}
		output, err := w.apply()
		w.mustHold(whole)
		if err == nil {
			w.mustBeSettled()
			continue
		}
		if adopt {
			t.Fatalf("the apply is refused: %s", output)
		}
		if !strings.Contains(output, "moved {") {
			t.Errorf("the error does not name moved: %s", output)
		}
		moved := fmt.Sprintf(
			"\nmoved {\n  from = rabbitmqdelay_%[1]s.t[%[2]q]\n  to   = rabbitmqdelay_%[1]s.t[%[3]q]\n}\n",
			test.kind,
			before,
			after,
		)
		w.mustApply(configuration(after) + moved)
		w.mustHold(whole)
	}
}

// A replacement that creates before it destroys meets its own objects: it is refused with a word on why, or it takes
// them over.
func TestCreateBeforeDestroy(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, newVhost(t))
	const first = "lifecycle {\n    create_before_destroy = true\n  }\n"
	whole, _ := w.expected()
	w.mustApply(fmt.Sprintf(oneCascade, first))
	if output, err := w.apply("-replace=rabbitmqdelay_cascade.t"); err == nil ||
		!strings.Contains(output, "create_before_destroy") {
		t.Errorf("the replacement without adopt: %v %s", err, output)
	}
	w.mustHold(whole)
	w.mustApply(fmt.Sprintf(oneCascade, first+"adopt = true"), "-replace=rabbitmqdelay_cascade.t")
	w.mustHold(whole)
	w.mustBeSettled()
	w.mustApply(fmt.Sprintf(oneCascade, ""), "-replace=rabbitmqdelay_cascade.t")
	w.mustHold(whole)
	w.mustBeSettled()
}

// A cascade becomes a ladder of its name, which has the delivery exchange and the parking in common with it.
func TestCascadeBecomesLadder(t *testing.T) {
	t.Parallel()
	for _, adopt := range []string{"", "adopt = true"} {
		t.Run(adopt, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, newVhost(t))
			whole, ladder := w.expected()
			w.mustApply(fmt.Sprintf(oneCascade, ""))
			w.bind("t.delivery", "#.there", "exchange", "t.delivery")
			w.configure(fmt.Sprintf(oneLadder, adopt))
			whole.Bindings.Add(
				topology.Binding{
					Source:          "t.delivery",
					RoutingKey:      "#.there",
					DestinationType: topology.ToExchange,
					Destination:     "t.delivery",
				},
			)
			ladder.Bindings.Add(
				topology.Binding{
					Source:          "t.delivery",
					RoutingKey:      "#.there",
					DestinationType: topology.ToExchange,
					Destination:     "t.delivery",
				},
			)
			output, err := w.apply()
			switch {
			case err == nil:
				w.mustHold(ladder)
				w.mustBeSettled()
			case adopt != "":
				t.Errorf("the apply is refused: %s", output)
			default:
				w.mustHold(whole)
				w.mustApply("")
				w.mustApply(fmt.Sprintf(oneLadder, ""))
				w.mustHold(ladder)
			}
		})
	}
}

// Two states declare the same at once: one of them gets it, or none does, and nothing is left behind.
func TestTwoStatesAtOnce(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	a, b := newWorkspace(t, v), newWorkspace(t, v)
	whole, _ := a.expected()
	for _, w := range []*workspace{a, b} {
		w.configure(fmt.Sprintf(oneCascade, ""))
	}
	for range repeated(3) {
		var outputs [2]string
		var errs [2]error
		var both sync.WaitGroup
		for i, w := range []*workspace{a, b} {
			both.Go(func() { outputs[i], errs[i] = w.apply() })
		}
		both.Wait()
		switch {
		case errs[0] == nil && errs[1] == nil:
			t.Fatalf("both succeed: %s %s", outputs[0], outputs[1])
		case errs[0] != nil && errs[1] != nil:
			v.mustHold(topology.New())
		default:
			v.mustHold(whole)
		}
		for _, w := range []*workspace{a, b} {
			if output, err := w.tf.run("destroy", "-auto-approve"); err != nil {
				t.Fatal(output)
			}
		}
		v.mustHold(topology.New())
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
	for _, typeName := range []string{cascadeType, ladderType} {
		t.Run(typeName, func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			v.declareExchange("events", "topic")
			given := attributes{
				"vhost":                    v.name,
				"name":                     "t",
				"delivery_exchange":        "events",
				"create_delivery_exchange": false,
			}
			if typeName == ladderType {
				given["delays"] = textSet("1h", "2h")
			} else {
				given["levels"] = 2
			}
			p := newProtocolOf(t, typeName, v.broker, nil)
			p.mustApply(given)
			p.mustBeSettled(given)
			differs := func(says string) {
				t.Helper()
				noErrors(t, p.refresh(t.Context()))
				plan := p.plan(t.Context(), given)
				if plan.isEmpty(p.state) {
					t.Error("the plan is empty")
				}
				if text := errorText(p.apply(t.Context(), plan)); !strings.Contains(text, says) {
					t.Errorf("the error does not say %q: %s", says, text)
				}
			}
			v.try(v.api.DeleteExchange(v.name, "events"))
			differs("Delivery exchange does not exist")
			v.declareExchange("events", "direct")
			differs("Delivery exchange has the wrong type")
			v.try(v.api.DeleteExchange(v.name, "events"))
			v.declareExchange("events", "topic")
			p.mustApply(given)
			p.mustBeSettled(given)
		})
	}
}

// Where a fixed key makes any type do, only a missing exchange is a difference.
func TestForeignDeliveryExchangeOfAnyType(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	v.declareExchange("events", "direct")
	given := attributes{
		"vhost": v.name, "name": "t", "delivery_exchange": "events", "create_delivery_exchange": false,
		"dead_letter_routing_key": "k", "delays": textSet("1h"),
	}
	p := newProtocolOf(t, ladderType, v.broker, nil)
	p.mustApply(given)
	p.mustBeSettled(given)
	v.try(v.api.DeleteExchange(v.name, "events"))
	noErrors(t, p.refresh(t.Context()))
	if plan := p.plan(t.Context(), given); plan.isEmpty(p.state) {
		t.Error("the plan is empty although the exchange is gone")
	}
	v.declareExchange("events", "fanout")
	p.mustApply(given)
	p.mustBeSettled(given)
}

// A replacement leaves the bindings of applications where they are, and its plan says that the keys change.
func TestReplacementKeepsBindings(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	p := newProtocol(t, v.broker, nil)
	given := attributes{"vhost": v.name, "name": "t", "levels": 2}
	p.mustApply(given)
	v.declareQueue("application", nil)
	v.bind("t.delivery", "#.application", "queue", "application")
	v.declareExchange("theirs", "topic")
	v.bind("theirs", "#", "exchange", "t.delay-01")
	v.bind("theirs", "low.#", "exchange", "t.delay-00")
	more := given.with(attributes{"levels": 3})
	plan := p.plan(t.Context(), more)
	for _, says := range []string{
		`Routing keys get 3 digits in place of 2`, `exchange "theirs", bound to exchange "t.delay-01" with key "#"`,
		`"low.#"`,
	} {
		if text := warningText(plan.diagnostics); !strings.Contains(text, says) {
			t.Errorf("the plan does not warn %q: %s", says, text)
		}
	}
	noErrors(t, p.apply(t.Context(), plan))
	v.mustBeBound("#.application -> queue application")
	p.mustBeSettled(more)
	text := warningText(p.apply(t.Context(), p.plan(t.Context(), nil)))
	if !strings.Contains(text, `queue "application", bound with key "#.application"`) {
		t.Errorf("the destroy does not say why the delivery exchange stays: %s", text)
	}
	v.mustBeBound("#.application -> queue application")
	p.mustApply(given)
	p.mustApply(given.with(attributes{"force_destroy": true}))
	p.mustApply(nil)
	if _, exists := v.objects().Exchanges["t.delivery"]; exists {
		t.Error("force_destroy leaves the delivery exchange")
	}
}

// A classic ladder of others ends in the delivery exchange of a cascade without any binding. The destroy of the cascade
// leaves the exchange, and the ladder's messages arrive.
func TestDestroyLeavesWhereOthersEnd(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	owner, other := newProtocol(t, v.broker, nil), newProtocolOf(t, ladderType, v.broker, nil)
	owner.mustApply(attributes{"vhost": v.name, "name": "t", "levels": 2, "park_unroutable": false})
	other.mustApply(attributes{
		"vhost": v.name, "name": "l", "delays": textSet("500ms"), "queue_type": "classic",
		"delivery_exchange": "t.delivery", "create_delivery_exchange": false,
	})
	text := warningText(owner.apply(t.Context(), owner.plan(t.Context(), nil)))
	if !strings.Contains(text, `queue "l.delay-500ms", which dead-letters into it`) {
		t.Errorf("the destroy does not name the ladder's queue: %s", text)
	}
	arrivals := v.collect("t.delivery", "#.application")
	v.publish("l.entry", "500ms.application", "x")
	v.arrived(arrivals, 1)
}

// A replacement that cannot succeed is refused in the plan, and nothing is destroyed.
func TestReplacementThatCannotSucceed(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	p := newProtocol(t, v.broker, nil)
	given := attributes{"vhost": v.name, "name": "t", "levels": 2}
	p.mustApply(given)
	v.declareExchange("direct", "direct")
	v.declareQueue("u.delay-01", nil)
	before := v.objects()
	for name, test := range map[string]struct {
		change attributes
		says   string
	}{
		"a delivery exchange that is missing": {attributes{"delivery_exchange": "missing",
			"create_delivery_exchange": false, "levels": 3}, "does not exist"},
		"one of another type": {attributes{"delivery_exchange": "direct",
			"create_delivery_exchange": false, "levels": 3}, "wrong type"},
		"one that differs": {attributes{"delivery_exchange": "direct", "levels": 3},
			`exchange "direct": type is direct, not topic`},
		"names of others": {attributes{"name": "u"}, `queue "u.delay-01"`},
		"a missing vhost": {attributes{"vhost": v.name + "-missing"}, "There is no vhost"},
	} {
		noErrors(t, p.refresh(t.Context()))
		plan := p.plan(t.Context(), given.with(test.change))
		if text := errorText(plan.diagnostics); !strings.Contains(text, test.says) ||
			!strings.Contains(text, "Nothing was destroyed") {
			t.Errorf("%s: the plan does not say %q: %s", name, test.says, text)
		}
	}
	v.mustHold(before)
	p.mustBeSettled(given)
}

// A broker that does not answer in the plan does not fail a create.
func TestCreateIsPlannedWithoutABroker(t *testing.T) {
	t.Parallel()
	b := *newVhost(t).broker
	b.Endpoint = "http://127.0.0.1:1"
	p := newProtocol(t, &b, nil)
	if text := errorText(p.plan(t.Context(), attributes{"name": "t", "levels": 2}).diagnostics); text != "" {
		t.Error(text)
	}
}

// A cascade that two resources of a state have, as two imports leave it: every refresh says so.
func TestStateHasItTwice(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, newVhost(t))
	whole, _ := w.expected()
	w.mustApply(fmt.Sprintf(oneCascade, "count = 1"))
	w.configure(fmt.Sprintf(oneCascade, "count = 2"))
	if output, err := w.tf.run("import", "rabbitmqdelay_cascade.t[1]", importID(w.name, "t.delay-02")); err != nil {
		t.Fatal(output)
	}
	if output := w.mustApply(fmt.Sprintf(oneCascade, "count = 2")); !strings.Contains(
		output,
		"Two resources have the same cascade",
	) {
		t.Errorf("the apply does not say that two resources have it: %s", output)
	}
	if output, err := w.tf.run("state", "rm", "rabbitmqdelay_cascade.t[1]"); err != nil {
		t.Fatal(output)
	}
	w.mustApply(fmt.Sprintf(oneCascade, "count = 1"))
	w.mustHold(whole)
	w.mustBeSettled()
}

// The same without Terraform, whose start leaves some time between the two. Now and then both declare an object within
// the same millisecond, and RabbitMQ tells both that it is new.
func TestTwoCreatesAtOnce(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	given := attributes{"vhost": v.name, "name": "t", "levels": 3}
	whole := expand(t, delay.Config{
		Name: "t", Vhost: v.name, Levels: 3, CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true,
		InternalLevels: true,
	})
	won := 0
	for range repeated(20) {
		runs := []*protocol{newProtocol(t, v.broker, nil), newProtocol(t, v.broker, nil)}
		var texts [2]string
		var both sync.WaitGroup
		for i, p := range runs {
			plan := p.plan(t.Context(), given)
			both.Go(func() { texts[i] = errorText(p.apply(t.Context(), plan)) })
		}
		both.Wait()
		var winners []*protocol
		for i, p := range runs {
			if texts[i] == "" {
				winners = append(winners, p)
			} else if !p.state.IsNull() {
				t.Errorf("what was refused is in the state: %s", texts[i])
			}
		}
		switch len(winners) {
		case 0:
			v.mustHold(topology.New())
		case 1:
			won++
			v.mustHold(whole)
			winners[0].mustBeSettled(given)
			winners[0].mustApply(nil)
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
	w := newWorkspace(t, newVhost(t))
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
  levels            = rabbitmqdelay_cascade.t.levels
  address           = "orders"
  queue             = "orders"
}
`
	w.declareQueue("orders", nil)
	apply := func(round string, lookahead int, reading string) (string, error) {
		t.Helper()
		b := w.broker
		w.write(requiring + fmt.Sprintf(all, b.Password, round, b.Endpoint, b.Username, b.AMQPURI, w.name, lookahead) +
			reading)
		return w.apply()
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
`, w.name)
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
	w.mustBeSettled()
}

// A destination that names the entry as its delivery exchange, in the plan that makes the cascade: nothing is there to
// look at yet.
func TestMisnamedInOnePlan(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, newVhost(t))
	w.mustRefuse(fmt.Sprintf(oneCascade, "")+`
resource "rabbitmqdelay_destination" "d" {
  VHOST
  delivery_exchange = rabbitmqdelay_cascade.t.entry_exchange
  levels            = 3
  address           = "orders"
  queue             = "orders"
}
`, "t.delay-02", "delivery_exchange")
	w.mustHold(topology.New())
}
