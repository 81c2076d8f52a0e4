package acceptance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
)

// siblings are n resources of one provider process.
func (p *protocol) siblings(n int) []*protocol {
	all := make([]*protocol, n)
	for i := range all {
		one := *p
		all[i] = &one
	}
	return all
}

// refreshAll and the plans that it returns are one run of Terraform, as far as to the apply.
func refreshAll(all []*protocol, configurations []attributes) []plannedChange {
	plans := make([]plannedChange, len(all))
	all[0].newRun()
	for i, p := range all {
		noErrors(p.t, p.refresh(p.t.Context()))
		config := tftypes.NewValue(p.resource, nil)
		if configurations[i] != nil {
			config = object(p.t, p.resource, configurations[i])
		}
		if configurations[i] != nil || !p.state.IsNull() {
			plans[i] = p.planOn(p.t.Context(), p.state, p.private, config)
		}
	}
	return plans
}

// applyAll is one run that applies the plans that are not empty, in an order of Terraform's choice. It returns the
// errors.
func applyAll(all []*protocol, plans []plannedChange, order []int) string {
	all[0].newRun()
	var text strings.Builder
	for _, i := range order {
		p, todo := all[i], plans[i]
		if todo.config.Type() != nil && !todo.isEmpty(p.state) {
			text.WriteString(errorText(p.applyOne(p.t.Context(), todo)))
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
	v := newVhost(t)
	v.declareExchange("t.delivery", "topic")
	v.declareQueue("orders", nil)
	given := func(addresses []string) []attributes {
		all := make([]attributes, len(addresses))
		for i, address := range addresses {
			if address != "" {
				all[i] = attributes{
					"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 2, "address": address,
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
		refused += v.passBindings(order, is.before, is.after, given, how == "with adopt")
	}
	t.Logf("refused: %d", refused)
}

// passBindings applies both configurations in one order, the second one until nothing is refused, and takes all away
// again. It returns how often it was refused.
func (v *vhost) passBindings(
	order []int, before, after []string, given func([]string) []attributes, adopt bool,
) (refused int) {
	v.Helper()
	all := v.destination().siblings(len(before))
	if text := applyAll(all, refreshAll(all, given(before)), order); text != "" {
		v.Fatal(text)
	}
	for round := range 4 {
		if round > 0 { // Terraform's order is another one each time
			slices.Reverse(order)
		}
		text := applyAll(all, refreshAll(all, given(after)), order)
		there := v.bound()
		for i, g := range given(after) {
			stays := text == "" || slices.Contains(before, after[i])
			if g != nil && stays && !slices.Contains(there, line(g)) {
				v.Fatalf("in the order %v, %s is gone after apply %d; there are %q: %s", order, line(g), round+1, there,
					text)
			}
		}
		if text == "" {
			v.mustBeBound(linesOf(given(after))...)
			break
		}
		refused++
		if adopt || round == 0 && !strings.Contains(text, "moved block") {
			v.Errorf("in the order %v: %s", order, text)
		}
	}
	for _, p := range all {
		p.state, p.private = tftypes.NewValue(p.resource, nil), nil
	}
	for b := range v.objects().Bindings {
		v.do(plan.Unbind{Binding: b})
	}
	return refused
}

func linesOf(given []attributes) []string {
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
	v := newVhost(t)
	v.declareExchange("t.delivery", "topic")
	v.declareQueue("orders", nil)
	given := attributes{
		"vhost": v.name, "delivery_exchange": "t.delivery", "levels": 2, "address": "orders", "queue": "orders",
		"adopt": true,
	}
	all := v.destination().siblings(2)
	plans := refreshAll(all, []attributes{given, given})
	noErrors(t, plans[0].diagnostics)
	twice := errorText(plans[1].diagnostics)
	if !strings.Contains(twice, "planned twice") || !strings.Contains(twice, `with key "*.*.orders"`) {
		t.Errorf("the error of the plan is %q", twice)
	}
	plans = []plannedChange{all[0].plan(t.Context(), given), all[1].plan(t.Context(), given)}
	text := applyAll(all, plans, []int{0, 1})
	if !strings.Contains(text, "belongs to another resource of this configuration") ||
		!strings.Contains(text, `the destination for address "orders" and queue "orders", which is created`) {
		t.Errorf("the error of the apply is %q", text)
	}
	if all[0].state.IsNull() || !all[1].state.IsNull() {
		t.Errorf("in the state are %s and %s", all[0].state, all[1].state)
	}
	v.mustBeBound(line(given))
	all[0].mustBeSettled(given)
}

// destinationsInAnyOrder has destinations by count and by for_each.
const destinationsInAnyOrder = requiring + `
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
		v := newVhost(t)
		v.declareExchange("t.delivery", "topic")
		v.declareQueue("orders", nil)
		variables := map[string]string{"vhost": v.name, "adopt": fmt.Sprint(adopt)}
		tf := newCommandLine(t, "", destinationsInAnyOrder, variables)
		tf.environ = append(tf.environ, v.broker.Environ()...)
		if output, err := tf.run(append([]string{"apply", "-auto-approve"}, is.before...)...); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		arguments := append([]string{"apply", "-auto-approve"}, is.after...)
		if is.replace != "" {
			arguments = append(arguments, is.replace)
		}
		output, err := tf.run(arguments...)
		if err != nil && (adopt || !strings.Contains(oneLine(output), "moved block")) {
			t.Errorf("%v\n%s", err, output)
		}
		var lines []string
		for _, address := range is.stay {
			lines = append(lines, "*.*."+address+" -> queue orders")
		}
		if err == nil {
			v.mustBeBound(lines...)
			continue
		}
		there := v.bound()
		for _, line := range lines {
			if !slices.Contains(there, line) {
				t.Errorf("refused, and %s is gone\n%s", line, output)
			}
		}
	}
}

// Terraform's own plan says that a binding is there twice.
func TestAccDestinationsWithOneBinding(t *testing.T) {
	v := newVhost(t)
	v.declareExchange("t.delivery", "topic")
	v.declareQueue("orders", nil)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		Steps: []resource.TestStep{{
			Config: on(v.broker, `
resource "rabbitmqdelay_destination" "orders" {
  count             = 2
  vhost             = %q
  delivery_exchange = "t.delivery"
  levels            = 2
  address           = "orders"
  queue             = "orders"
}
`, v.name),
			PlanOnly:    true,
			ExpectError: saying("is planned twice: another resource of this configuration is to make it, too"),
		}},
	})
}

func hclList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quote(text)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}
