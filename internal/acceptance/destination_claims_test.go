package acceptance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
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

// Bindings pass from one resource to another. The causes are a list that gets shorter, a swap, a new key in for_each or
// a replacement that creates before it destroys. Whatever the order, no binding is gone that was declared before and is
// so afterwards. That holds in the first apply and in those after it. Where nothing is refused, all declared bindings
// are there.
func TestDestinationsInAnyOrder(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]passedBindings{
		"a shorter list": {[]string{"a", "b", "c", "d"}, []string{"b", "c", "d", ""}},
		"a longer list":  {[]string{"b", "c", "d", ""}, []string{"a", "b", "c", "d"}},
		"a swap":         {[]string{"x", "y"}, []string{"y", "x"}},
		"a circle":       {[]string{"x", "y", "z"}, []string{"z", "x", "y"}},
		"another key":    {[]string{"x", ""}, []string{"", "x"}},
	} {
		for how, adopts := range map[string]func(i int) bool{
			"without adopt": func(int) bool { return false }, "with adopt": func(int) bool { return true },
			"the first adopts":  func(i int) bool { return i == 0 },
			"the second adopts": func(i int) bool { return i == 1 },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				passBindingsOn(t, adopts, is, how)
			})
		}
	}
}

type passedBindings struct{ before, after []string }

// passBindingsOn applies one configuration after the other, in every order of the resources.
func passBindingsOn(t *testing.T, adopts func(i int) bool, is passedBindings, how string) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("t.delivery", "topic")
	v.DeclareQueue("orders", nil)
	given := func(addresses []string) []harness.Attributes {
		all := make([]harness.Attributes, len(addresses))
		for i, address := range addresses {
			if address != "" {
				all[i] = harness.Attributes{
					"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2, "address": address,
					"queue": "orders", "adopt": adopts(i),
				}
			}
		}
		return all
	}
	refused := 0
	for i, order := range orders(len(is.before)) {
		if os.Getenv("FAULTS") != "all" && len(order) > 3 && i%4 > 0 {
			continue
		}
		refused += passBindings(v, order, is.before, is.after, given, how == "with adopt")
	}
	t.Logf("refused: %d", refused)
}

// passBindings applies both configurations in one order, the second one until nothing is refused, and takes all away
// again. It returns how often it was refused.
func passBindings(v *harness.Vhost,
	order []int, before, after []string, given func([]string) []harness.Attributes, adopt bool,
) (refused int) {
	v.T.Helper()
	all := siblings(v.Destination(), len(before))
	if text := applyAll(all, refreshAll(all, given(before)), order); text != "" {
		v.T.Fatal(text)
	}
	for round := range 4 {
		if round > 0 { // Terraform's order is another one each time
			slices.Reverse(order)
		}
		text := applyAll(all, refreshAll(all, given(after)), order)
		there := v.Bound()
		for i, g := range given(after) {
			stays := text == "" || slices.Contains(before, after[i])
			if g != nil && stays && !slices.Contains(there, line(g)) {
				v.T.Fatalf("in the order %v, %s is gone after apply %d; there are %q: %s", order, line(g), round+1,
					there, text)
			}
		}
		if text == "" {
			v.MustBeBound(linesOf(given(after))...)
			break
		}
		refused++
		if adopt || round == 0 && !strings.Contains(text, "moved block") {
			v.T.Errorf("in the order %v: %s", order, text)
		}
	}
	for _, p := range all {
		p.State, p.Private = tftypes.NewValue(p.Resource, nil), nil
	}
	for b := range v.Objects().Bindings {
		v.Do(plan.Unbind{Binding: b})
	}
	return refused
}

func linesOf(given []harness.Attributes) []string {
	var lines []string
	for _, g := range given {
		if g != nil {
			lines = append(lines, line(g))
		}
	}
	return lines
}

// Of two destinations with one binding exactly one is made, and the other one is refused with its name. If both are
// planned as new, the plan says so.
func TestDestinationsWithOneBinding(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareExchange("t.delivery", "topic")
	v.DeclareQueue("orders", nil)
	given := harness.Attributes{
		"vhost": v.Name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders", "queue": "orders",
		"adopt": true,
	}
	all := siblings(v.Destination(), 2)
	plans := refreshAll(all, []harness.Attributes{given, given})
	harness.NoErrors(t, plans[0].Diagnostics)
	twice := harness.ErrorText(plans[1].Diagnostics)
	if !strings.Contains(twice, "planned twice") || !strings.Contains(twice, `with key "*.*.orders"`) {
		t.Errorf("the error of the plan is %q", twice)
	}
	plans = []harness.PlannedChange{all[0].Plan(t.Context(), given), all[1].Plan(t.Context(), given)}
	text := applyAll(all, plans, []int{0, 1})
	if !strings.Contains(text, "belongs to another resource of this configuration") ||
		!strings.Contains(text, `the destination for address "orders" and queue "orders", which is created`) {
		t.Errorf("the error of the apply is %q", text)
	}
	if all[0].State.IsNull() || !all[1].State.IsNull() {
		t.Errorf("in the state are %s and %s", all[0].State, all[1].State)
	}
	v.MustBeBound(line(given))
	all[0].MustBeSettled(given)
}

// destinationsInAnyOrder has destinations by count and by for_each.
const destinationsInAnyOrder = harness.RequiredProviders + `
variable "vhost" {}
variable "adopt" { default = false }
variable "list" {
  type    = list(string)
  default = []
}
variable "map" {
  type    = map(string)
  default = {}
}

resource "rabbitmqdelay_destination" "list" {
  count             = length(var.list)
  vhost             = var.vhost
  delivery_exchange = "t.delivery"
  levels            = 2
  address           = var.list[count.index]
  queue             = "orders"
  adopt             = var.adopt
}

resource "rabbitmqdelay_destination" "map" {
  for_each          = var.map
  vhost             = var.vhost
  delivery_exchange = "t.delivery"
  levels            = 2
  address           = each.value
  queue             = "orders"
  adopt             = var.adopt

  lifecycle {
    create_before_destroy = true
  }
}
`

// Terraform itself, with its own order: see TestDestinationsInAnyOrder.
func TestAccDestinationsInAnyOrder(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	list := func(texts ...string) string { return "-var=list=" + hclList(texts) }
	hash := func(text string) string { return "-var=map=" + text }
	for name, is := range map[string]passedByTerraform{
		"count":  {[]string{list("a", "b", "c", "d")}, []string{list("b", "c", "d")}, []string{"b", "c", "d"}, ""},
		"swap":   {[]string{hash(`{a="x",b="y"}`)}, []string{hash(`{a="y",b="x"}`)}, []string{"x", "y"}, ""},
		"rename": {[]string{hash(`{old="x"}`)}, []string{hash(`{new="x"}`)}, []string{"x"}, ""},
		"replace": {[]string{hash(`{a="x"}`)}, []string{hash(`{a="x"}`)}, []string{"x"},
			`-replace=rabbitmqdelay_destination.map["a"]`},
	} {
		for _, adopt := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, adopt %t", name, adopt), func(t *testing.T) {
				passBindingsByTerraform(t, adopt, is)
			})
		}
	}
}

type passedByTerraform struct {
	before, after []string
	stay          []string
	replace       string
}

// passBindingsByTerraform applies one configuration after the other, several times for Terraform's own order.
func passBindingsByTerraform(t *testing.T, adopt bool, is passedByTerraform) {
	t.Parallel()
	for range 3 {
		v := harness.NewVhost(t)
		v.DeclareExchange("t.delivery", "topic")
		v.DeclareQueue("orders", nil)
		variables := map[string]string{"vhost": v.Name, "adopt": fmt.Sprint(adopt)}
		tf := harness.NewCommandLine(t, "", destinationsInAnyOrder, variables)
		tf.Environ = append(tf.Environ, v.Broker.Environ()...)
		if output, err := tf.Run(append([]string{"apply", "-auto-approve"}, is.before...)...); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		arguments := append([]string{"apply", "-auto-approve"}, is.after...)
		if is.replace != "" {
			arguments = append(arguments, is.replace)
		}
		output, err := tf.Run(arguments...)
		if err != nil && (adopt || !strings.Contains(harness.OneLine(output), "moved block")) {
			t.Errorf("%v\n%s", err, output)
		}
		var lines []string
		for _, address := range is.stay {
			lines = append(lines, "*.*."+address+" -> queue orders")
		}
		if err == nil {
			v.MustBeBound(lines...)
			continue
		}
		there := v.Bound()
		for _, line := range lines {
			if !slices.Contains(there, line) {
				t.Errorf("refused, and %s is gone\n%s", line, output)
			}
		}
	}
}

// Terraform's own plan says that a binding is there twice.
func TestAccDestinationsWithOneBinding(t *testing.T) {
	v := harness.NewVhost(t)
	v.DeclareExchange("t.delivery", "topic")
	v.DeclareQueue("orders", nil)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{{
			Config: harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_destination" "orders" {
  count             = 2
  vhost             = %q
  delivery_exchange = "t.delivery"
  levels            = 2
  address           = "orders"
  queue             = "orders"
}
`, v.Name),
			PlanOnly:    true,
			ExpectError: harness.Saying("is planned twice: another resource of this configuration is to make it, too"),
		}},
	})
}

func hclList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = harness.Quote(text)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}
