package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// siblings are n resources of one provider process.
func siblings(p *harness.Protocol, n int) []*harness.Protocol {
	all := make([]*harness.Protocol, n)
	for i := range all {
		one := *p
		all[i] = &one
	}
	return all
}

// refreshAll and the plans that it returns are one run of Terraform, as far as to the apply.
func refreshAll(all []*harness.Protocol, configurations []harness.Attributes) []harness.PlannedChange {
	plans := make([]harness.PlannedChange, len(all))
	all[0].NewRun()
	for i, p := range all {
		harness.NoErrors(p.T, p.Refresh(p.T.Context()))
		config := tftypes.NewValue(p.Resource, nil)
		if configurations[i] != nil {
			config = harness.NewObject(p.T, p.Resource, configurations[i])
		}
		if configurations[i] != nil || !p.State.IsNull() {
			plans[i] = p.PlanOn(p.T.Context(), p.State, p.Private, config)
		}
	}
	return plans
}

// applyAll is one run that applies the plans that are not empty, in an order of Terraform's choice. It returns the
// errors.
func applyAll(all []*harness.Protocol, plans []harness.PlannedChange, order []int) string {
	all[0].NewRun()
	var text strings.Builder
	for _, i := range order {
		p, todo := all[i], plans[i]
		if todo.Config.Type() != nil && !todo.IsEmpty(p.State) {
			text.WriteString(harness.ErrorText(p.ApplyOne(p.T.Context(), todo)))
		}
	}
	return text.String()
}

// orders are all orders of n things.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, order := range orders(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(order), at, n-1))
		}
	}
	return all
}

// Bindings pass from one resource to another. The causes are a list that gets shorter, a swap, or a new key in
// for_each. Whatever the order, the first apply succeeds, and then each resource has its own binding.
func TestDestinationsInAnyOrder(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct{ before, after []string }{
		"a shorter list": {[]string{"a", "b", "c", "d"}, []string{"b", "c", "d", ""}},
		"a longer list":  {[]string{"b", "c", "d", ""}, []string{"a", "b", "c", "d"}},
		"a swap":         {[]string{"x", "y"}, []string{"y", "x"}},
		"a circle":       {[]string{"x", "y", "z"}, []string{"z", "x", "y"}},
		"another key":    {[]string{"x", ""}, []string{"", "x"}},
		"one of two":     {[]string{"x", "x"}, []string{"x", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			v.DeclareExchange("t.delivery", "topic")
			v.DeclareQueue("orders", nil)
			for i, order := range orders(len(is.before)) {
				if os.Getenv("FAULTS") == "all" || len(order) < 4 || i%4 == 0 {
					passBindings(v, order, is.before, is.after)
				}
			}
		})
	}
}

// passBindings applies both configurations in one order, and takes all away again.
func passBindings(v *harness.Vhost, order []int, before, after []string) {
	v.T.Helper()
	all := siblings(v.Destination(), len(before))
	for _, addresses := range [][]string{before, after, make([]string, len(before))} {
		given := make([]harness.Attributes, len(addresses))
		var lines []string
		for i, address := range addresses {
			if address != "" {
				given[i] = harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2,
					"address": address, "queue": "orders"}
				lines = append(lines, line(given[i]))
			}
		}
		if text := applyAll(all, refreshAll(all, given), order); text != "" {
			v.T.Errorf("in the order %v: %s", order, text)
		}
		v.MustBeBound(lines...)
	}
}

// ownersStep is an apply of a story of Terraform's own, and the bindings then.
type ownersStep struct {
	configuration string
	arguments     []string
	fails         bool
	bound         []string // to these queues
	warns, silent string
}

// aDestination is one for the address orders.
func aDestination(name, queue, more string) string {
	return fmt.Sprintf(`
resource "rabbitmqdelay_destination" %q {
  VHOST
  delivery_exchange = "t.delivery"
  levels            = 2
  address           = "orders"
  queue             = %s
  %s
}
`, name, queue, more)
}

// aStep is something else of the configuration that may fail.
func aStep(command, more string) string {
	return fmt.Sprintf(`
resource "terraform_data" "step" {
  triggers_replace = %[1]q
  provisioner "local-exec" {
    command = %[1]q
  }
  %[2]s
}
`, command, more)
}

// Whatever Terraform does between two operations on destinations, each adds and removes its own binding.
func TestAccDestinationsOwnTheirBindings(t *testing.T) {
	t.Parallel()
	const (
		after       = "depends_on = [terraform_data.step]"
		createFirst = "lifecycle {\n    create_before_destroy = true\n  }"
		passes      = `Address passes from one resource to another: address "orders" from exchange "t.delivery" to `
		triggered   = "lifecycle {\n    replace_triggered_by = [rabbitmqdelay_destination.a]\n  }"
	)
	list := func(queues string) string {
		return "locals {\n  queues = " + queues + "\n}\n" +
			aDestination("list", "local.queues[count.index]", "count = length(local.queues)")
	}
	a := aDestination("a", `"q1"`, "")
	for name, story := range map[string][]ownersStep{
		"a swap in which a step fails": {
			{configuration: a + aDestination("b", `"q2"`, ""), bound: []string{"q1", "q2"}},
			{configuration: aDestination("a", `"q2"`, "") + aStep("false", "") + aDestination("b", `"q1"`, after),
				fails: true, bound: []string{"q2", "q2"}, warns: passes},
			{configuration: aDestination("a", `"q2"`, "") + aStep("true", "") + aDestination("b", `"q1"`, after),
				bound: []string{"q1", "q2"}},
		},
		"another name, and a step that fails": {
			{configuration: a, bound: []string{"q1"}},
			{configuration: aStep("false", "") + aDestination("b", `"q1"`, after), fails: true, warns: passes},
			{configuration: aStep("true", "") + aDestination("b", `"q1"`, after), bound: []string{"q1"}},
		},
		"two equal ones": {
			{configuration: a + aDestination("b", `"q1"`, ""), bound: []string{"q1", "q1"}},
			{configuration: a, bound: []string{"q1"},
				warns: `Messages still arrive: address "orders" from exchange "t.delivery" to queue "q1"`},
		},
		"another name with -target": {
			{configuration: a, bound: []string{"q1"}},
			{configuration: aDestination("b", `"q1"`, ""), bound: []string{"q1", "q1"},
				arguments: []string{"-target=rabbitmqdelay_destination.b"}},
			{configuration: aDestination("b", `"q1"`, ""), bound: []string{"q1"},
				warns: "a binding with key \"*.*.orders\", which another destination has made"},
		},
		"create_before_destroy": {
			{configuration: aDestination("a", `"q1"`, createFirst), bound: []string{"q1"}},
			{configuration: aDestination("a", `"q1"`, createFirst), bound: []string{"q1"},
				arguments: []string{"-replace=rabbitmqdelay_destination.a"}, silent: "passes from"},
		},
		"a deposed one": {
			{configuration: aDestination("a", `"q1"`, createFirst) + aStep("true", triggered), bound: []string{"q1"}},
			{configuration: aDestination("a", `"q1"`, createFirst) + aStep("false", triggered), fails: true,
				arguments: []string{"-replace=rabbitmqdelay_destination.a"}, bound: []string{"q1", "q1"}},
			{configuration: aDestination("a", `"q1"`, createFirst) + aStep("true", triggered), bound: []string{"q1"}},
		},
		"a list that shifts": {
			{configuration: list(`["q1", "q2", "q3"]`), bound: []string{"q1", "q2", "q3"}},
			{configuration: list(`["q2", "q3"]`), bound: []string{"q2", "q3"}, warns: passes},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := harness.NewWorkspace(t, harness.NewDestinations(t, 2, "q1", "q2", "q3"))
			for i, step := range append(story, ownersStep{}) {
				w.Configure(step.configuration)
				output, err := w.Apply(step.arguments...)
				if (err != nil) != step.fails || !strings.Contains(output, step.warns) {
					t.Errorf("apply %d: %v, want %q: %s", i+1, err, step.warns, output)
				}
				if step.silent != "" && strings.Contains(output, step.silent) {
					t.Errorf("apply %d says %q: %s", i+1, step.silent, output)
				}
				mustLeadTo(w.Vhost, step.bound...)
			}
		})
	}
}

// Something else of the configuration deletes a queue and declares it again, in one apply. The destination that has
// triggers is bound again by the same apply, the other one by the next.
func TestAccReplacedQueueIsBoundAgain(t *testing.T) {
	t.Parallel()
	v := harness.NewDestinations(t, 2, "q1")
	w := harness.NewWorkspace(t, v)
	configuration := func(command string) string {
		return aStep(command, "") +
			aDestination("a", `"q1"`, "triggers = { queue = terraform_data.step.triggers_replace }") +
			aDestination("b", `"q1"`, "depends_on = [terraform_data.step]")
	}
	w.MustApply(configuration("true"))
	mustLeadTo(v, "q1", "q1")

	begins, ends := filepath.Join(w.CommandLine.Directory, "begins"), filepath.Join(w.CommandLine.Directory, "ends")
	w.Configure(configuration(fmt.Sprintf("touch %s; until [ -e %s ]; do sleep 0.1; done", begins, ends)))
	applied := make(chan error, 1)
	go func() {
		output, err := w.Apply()
		if err != nil || strings.Contains(output, "Damages after the plan") {
			err = fmt.Errorf("%w: %s", err, output)
		}
		applied <- err
	}()
	v.Eventually("the queue is replaced", func() bool {
		_, err := os.Stat(begins)
		return err == nil
	})
	v.Request("DELETE", nil, "queues", v.Name, "q1")
	v.DeclareQueue("q1", map[string]any{"x-queue-type": "quorum"})
	if err := os.WriteFile(ends, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	mustLeadTo(v, "q1")
	v.Publish("t.delay-01", "0.1.orders", "")
	v.Eventually("the message arrives", func() bool { return v.Depth("q1") == 1 })
	if output, err := w.Apply(); err != nil {
		t.Fatal(output)
	}
	mustLeadTo(v, "q1", "q1")
	w.MustBeSettled()
}

// mustLeadTo checks to which queues the address orders leads.
func mustLeadTo(v *harness.Vhost, queues ...string) {
	v.T.Helper()
	for i, queue := range queues {
		queues[i] = "*.*.orders -> queue " + queue
	}
	v.MustBeBound(queues...)
}

// A plain binding of an application and a destination of another state lead to the same queue. Each stays when the
// other one goes, and nothing is waited for. A message comes once. A binding that is gone is made again, whoever else
// has one.
func TestDestinationBesideOthers(t *testing.T) {
	t.Parallel()
	v := harness.NewDestinations(t, 2, "orders")
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	one, other := v.Destination(), v.Destination()
	v.Bind("t.delivery", "*.*.orders", "queue", "orders")
	for _, p := range []*harness.Protocol{one, other} {
		diagnostics := p.Apply(t.Context(), p.Plan(t.Context(), given))
		harness.NoErrors(t, diagnostics)
		if text := harness.WarningText(diagnostics); text != "" {
			t.Errorf("it is warned of: %s", text)
		}
		p.MustBeSettled(given)
	}
	v.MustBeBound(line(given), line(given), line(given))
	for i := range 4 {
		v.Publish("t.delay-01", harness.RoutingKey(t, time.Duration(i)*time.Millisecond, 2, time.Millisecond,
			"orders"), fmt.Sprint(i))
	}
	v.Eventually("all messages arrive", func() bool { return v.Depth("orders") >= 4 })
	v.Settled("t.delay-00", "t.delay-01")
	if n := v.Depth("orders"); n != 4 {
		t.Errorf("4 messages have become %d", n)
	}

	v.LoseDestinations()
	text := harness.WarningText(one.Refresh(t.Context()))
	if !one.State.IsNull() ||
		!strings.Contains(text, `get there by a binding with key "*.*.orders", which has no mark`) {
		t.Errorf("of a binding that is gone: %s", text)
	}
	for _, p := range []*harness.Protocol{one, other} {
		harness.NoErrors(t, p.Refresh(t.Context()))
		p.MustApply(given)
	}

	v.DeclareQueue("waits", map[string]any{"x-message-ttl": 3600000, "x-dead-letter-exchange": "t.delivery"})
	v.Publish("", "waits", "")
	for _, p := range []*harness.Protocol{one, other} {
		diagnostics := p.Apply(t.Context(), p.Plan(t.Context(), nil))
		harness.NoErrors(t, diagnostics)
		harness.MustSay(t, "the warning", harness.WarningText(diagnostics),
			`Messages still arrive: address "orders" from exchange "t.delivery" to queue`,
			"which has no mark of a destination")
	}
	v.MustBeBound(line(given))
	one.MustApply(given)
	v.Do(plan.Unbind{Binding: topology.Binding{Source: "t.delivery", RoutingKey: "*.*.orders",
		DestinationType: topology.ToQueue, Destination: "orders"}})
	if text := harness.ErrorText(one.Apply(t.Context(), one.Plan(t.Context(), nil))); !strings.Contains(text,
		`queue "waits": 1`) {
		t.Errorf("the last one is removed while a message is on its way: %s", text)
	}
}

// An import takes the plain binding, and says so. The next change, of whatever attribute, puts a marked one in its
// place. Without a plain one it takes the only marked one, and nothing if there are several.
func TestImportedDestinationOwnsItsBinding(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]importedBinding{
		"plain":            {plain: true},
		"plain and marked": {plain: true, marked: 2},
		"marked":           {marked: 1},
		"several":          {marked: 2, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			ownImported(t, is)
		})
	}
}

// importedBinding says which bindings there are before an import.
type importedBinding struct {
	plain  bool
	marked int
	fails  bool
}

// ownImported imports a binding, changes it, and destroys it.
func ownImported(t *testing.T, is importedBinding) {
	t.Parallel()
	v := harness.NewDestinations(t, 2, "orders")
	given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders",
		"queue": "orders"}
	var there []string
	for range is.marked {
		v.Destination().MustApply(given)
		there = append(there, line(given))
	}
	if is.plain {
		v.Bind("t.delivery", "*.*.orders", "queue", "orders")
		there = append(there, line(given))
	}
	p := v.Destination()
	imported := p.ImportState(t.Context(), v.Name+"/t.delivery/queue/orders/*.*.orders")
	if is.fails {
		if text := harness.ErrorText(imported); strings.Count(text, `{"x-destination":"`) != is.marked {
			t.Errorf("the error is %q", text)
		}
		return
	}
	harness.NoErrors(t, imported)
	text := harness.WarningText(imported)
	if strings.Contains(text, "has no mark") != is.plain {
		t.Errorf("the warning is %q", text)
	}
	if is.plain && (strings.Count(text, `{"x-destination":"`) != is.marked ||
		strings.Contains(text, "terraform state rm") != (is.marked > 0)) {
		t.Errorf("of %d bindings with a mark, the warning says %q", is.marked, text)
	}
	p.MustBeSettled(given)
	given["force_destroy"] = true
	p.MustApply(given)
	p.MustBeSettled(given)
	v.MustBeBound(there...)
	for b := range v.Objects().Bindings {
		if b.Source == "t.delivery" && b.DestinationMark() == "" {
			t.Errorf("there is still a plain binding: %s", b.Line())
		}
	}
	p.MustApply(nil)
	v.MustBeBound(there[1:]...)
}

// The plain binding that was imported cannot be removed when the marked one is there. It is a leftover with the import
// ID of the destination itself, until the next apply, or the destroy, removes it.
func TestImportedDestinationLeavesThePlainBinding(t *testing.T) {
	t.Parallel()
	for _, destroys := range []bool{false, true} {
		v := harness.NewDestinations(t, 2, "orders")
		given := harness.Attributes{"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2,
			"address": "orders", "queue": "orders"}
		v.Bind("t.delivery", "*.*.orders", "queue", "orders")
		p := v.Destination()
		harness.NoErrors(t, p.ImportState(t.Context(), v.Name+"/t.delivery/queue/orders/*.*.orders"))
		proxy := harness.NewFaultProxy(t, v.Broker)
		given["force_destroy"] = true
		at := unbinds(v.Name, "orders")
		at.Path = strings.TrimSuffix(at.Path, "~{hash}")
		text := harness.ErrorText(applyThrough(p, proxy, given, at,
			harness.Failure{Fault: harness.Answers500, Lasts: harness.FromHere}))
		if !proxy.HasStruck() || text == "" {
			t.Fatalf("the update did not fail: %s", text)
		}
		v.MustBeBound(line(given), line(given))
		if in := inState(p); !slices.Equal(in, []string{line(given), line(given)}) {
			t.Errorf("in the state are %q", in)
		}
		if destroys {
			p.MustApply(nil)
			v.MustBeBound()
			continue
		}
		converge(p, given)
		p.MustBeSettled(given)
		v.MustBeBound(line(given))
		v.Bind("t.delivery", "*.*.orders", "queue", "orders") // by now, that is an application's
		p.MustApply(nil)
		v.MustBeBound(line(given))
	}
}

// A second Terraform with a state of its own declares the same destination.
func TestAccDestinationInTwoStates(t *testing.T) {
	t.Parallel()
	v := harness.NewDestinations(t, 2, "q1")
	one, other := harness.NewWorkspace(t, v), harness.NewWorkspace(t, v)
	for _, w := range []*harness.Workspace{one, other} {
		w.MustApply(aDestination("a", `"q1"`, ""))
		w.MustBeSettled()
	}
	mustLeadTo(v, "q1", "q1")
	one.MustApply("")
	mustLeadTo(v, "q1")
	other.MustBeSettled()
	other.MustApply("")
	mustLeadTo(v)
}
