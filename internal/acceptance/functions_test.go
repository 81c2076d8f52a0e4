package acceptance

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"
	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
)

// caller calls functions through the plugin protocol, of a provider that is not configured.
type caller struct {
	server    tfprotov6.ProviderServer
	functions map[string]*tfprotov6.Function
}

// failer is what testing.T and rapid.T have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func newCaller(t testing.TB) *caller {
	t.Helper()
	server, err := harness.NewProvider()
	if err != nil {
		t.Fatal(err)
	}
	got, err := server.GetFunctions(t.Context(), &tfprotov6.GetFunctionsRequest{})
	if err != nil || len(got.Diagnostics) > 0 {
		t.Fatal(err, got)
	}
	return &caller{server, got.Functions}
}

// call calls a function with Go values or, for dynamic parameters, values of Terraform.
func (c *caller) call(t failer, name string, arguments ...any) (tftypes.Value, *tfprotov6.FunctionError) {
	t.Helper()
	f := c.functions[name]
	if f == nil {
		t.Fatal("there is no function " + name)
	}
	req := &tfprotov6.CallFunctionRequest{Name: name}
	for i, argument := range arguments {
		parameter := f.VariadicParameter
		if i < len(f.Parameters) {
			parameter = f.Parameters[i]
		}
		value, ok := argument.(tftypes.Value)
		if !ok {
			value = tftypes.NewValue(parameter.Type, argument)
		}
		encoded, err := tfprotov6.NewDynamicValue(parameter.Type, value)
		if err != nil {
			t.Fatal(err)
		}
		req.Arguments = append(req.Arguments, &encoded)
	}
	resp, err := c.server.CallFunction(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Error != nil {
		return tftypes.Value{}, resp.Error
	}
	result, err := resp.Result.Unmarshal(f.Return.Type)
	if err != nil {
		t.Fatal(err)
	}
	return result, nil
}

// mustCall returns the result as what JSON would decode to.
func (c *caller) mustCall(t failer, name string, arguments ...any) any {
	t.Helper()
	result, wrong := c.call(t, name, arguments...)
	if wrong != nil {
		t.Fatal(name, arguments, wrong.Text)
	}
	return goValue(t, result)
}

func goValue(t failer, value tftypes.Value) any {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case !value.IsKnown():
		return "unknown"
	case value.IsNull():
		return nil
	case value.Type().Is(tftypes.String):
		var s string
		must(value.As(&s))
		return s
	case value.Type().Is(tftypes.Object{}):
		var fields map[string]tftypes.Value
		must(value.As(&fields))
		result := map[string]any{}
		for name, field := range fields {
			result[name] = goValue(t, field)
		}
		return result
	}
	t.Fatal("no Go value for ", value)
	return nil
}

// publisher is an object like the attribute publisher. The numbers are what Go has as numbers, or nil.
func publisher(entry string, longest any, units ...any) tftypes.Value {
	list := tftypes.List{ElementType: tftypes.Number}
	object := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"entry_exchange": tftypes.String,
		"units_ms": list, "max_delay_ms": tftypes.Number}}
	numbers := make([]tftypes.Value, len(units))
	for i, unit := range units {
		numbers[i] = tftypes.NewValue(tftypes.Number, unit)
	}
	return tftypes.NewValue(object, map[string]tftypes.Value{
		"entry_exchange": tftypes.NewValue(tftypes.String, entry),
		"units_ms":       tftypes.NewValue(list, numbers),
		"max_delay_ms":   tftypes.NewValue(tftypes.Number, longest),
	})
}

// publisherOf is that of a scale.
func publisherOf(s delay.Scale) tftypes.Value {
	units := make([]any, len(s.Units))
	for i, unit := range s.Units {
		units[i] = unit.Milliseconds()
	}
	return publisher("t", s.Longest.Milliseconds(), units...)
}

// Publishers of each form.
var (
	binaryPublisher  = publisher("tasks.delay-03", 15_000, 8000, 4000, 2000, 1000)
	decimalPublisher = publisherOf(delay.Uniform{Base: 10, Levels: 8, Resolution: time.Second}.Scale())
	unitsPublisher   = publisher("orders.d.h.m.s", 2_678_399_000, 86_400_000, 3_600_000, 60_000, 1000)
)

func TestFunctions(t *testing.T) {
	c := newCaller(t)
	for _, test := range []struct {
		name      string
		arguments []any
		want      any
	}{
		{"routing_key", []any{"10s", binaryPublisher, "billing"}, "1.0.1.0.billing"},
		{"routing_key", []any{"0s", binaryPublisher, "billing"}, "0.0.0.0.billing"},
		{"routing_key", []any{"9.001s", binaryPublisher, "billing"}, "1.0.1.0.billing"},
		{"routing_key", []any{"1ns", binaryPublisher, "orders.eu"}, "0.0.0.1.orders.eu"},
		{"routing_key", []any{"1h", decimalPublisher, "billing"}, "0.0.0.0.3.6.0.0.billing"},
		{"routing_key", []any{"1h30m", unitsPublisher, "billing"}, "0.1.30.0.billing"},
		{"routing_key", []any{"1w2d", unitsPublisher, "billing"}, "9.0.0.0.billing"},
		{"routing_key", []any{"743h59m58.5s", unitsPublisher, "billing"}, "30.23.59.59.billing"},
		{"routing_key", []any{"5.41s", publisher("", 6300, 800, 100), "d"}, "6.7.d"},
		{"parse_routing_key", []any{"1.0.1.0.billing", binaryPublisher}, map[string]any{"delay": "10s",
			"address": "billing"}},
		{"parse_routing_key", []any{"1.0.1.0.orders.eu", publisher("t", 1500, 1000, 500)},
			map[string]any{"delay": "1s", "address": "1.0.orders.eu"}},
		{"parse_routing_key", []any{"0.0.0.0.3.6.0.0.billing", decimalPublisher}, map[string]any{"delay": "1h",
			"address": "billing"}},
		{"parse_routing_key", []any{"0.1.30.0.billing", unitsPublisher}, map[string]any{"delay": "1h30m",
			"address": "billing"}},
		{"parse_routing_key", []any{"6.7.d.e", publisher("t", 6300, 800, 100)}, map[string]any{"delay": "5s500ms",
			"address": "d.e"}},
		{"mermaid", []any{unitsPublisher}, delay.Mermaid("orders.d.h.m.s", delay.Scale{Units: []time.Duration{
			24 * time.Hour, time.Hour, time.Minute, time.Second}, Longest: 31*24*time.Hour - time.Second})},
		{"mermaid", []any{binaryPublisher}, delay.Mermaid("tasks.delay-03",
			delay.Uniform{Base: 2, Levels: 4, Resolution: time.Second}.Scale())},
		{"binding_key", []any{3, 4, 1}, "1.#"},
		{"binding_key", []any{1, 3, 9}, "*.9.#"},
		{"binding_key", []any{1, 4, 0}, "*.*.0.#"},
		{"destination_key", []any{4, "orders.eu"}, "*.*.*.*.orders.eu"},
	} {
		if got := c.mustCall(t, test.name, test.arguments...); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s%v: got %v, want %v", test.name, test.arguments, got, test.want)
		}
	}
}

// Every argument that is wrong is blamed for itself, with what to do.
func TestFunctionErrors(t *testing.T) {
	c := newCaller(t)
	for _, test := range []struct {
		name      string
		arguments []any
		argument  int64
		want      string
	}{
		{"routing_key", []any{"10", binaryPublisher, "d"}, 0, `delay is "10"; write a number and its unit`},
		{"routing_key", []any{"2y", binaryPublisher, "d"}, 0, `delay is "2y"`},
		{"routing_key", []any{"48h", binaryPublisher, "d"}, 0,
			"delay is 2d, longer than 15s, the longest that has a key"},
		{"routing_key", []any{"-1s", binaryPublisher, "d"}, 0, "delay is -1s; a message cannot be delivered before " +
			"it is sent"},
		{"routing_key", []any{"15.001s", binaryPublisher, "d"}, 0, "longer than 15s, the longest that has a key here"},
		{"routing_key", []any{"10s", publisher("t", 9000, 1000), "d"}, 0, "longer than 9s"},
		{"routing_key", []any{"10s", binaryPublisher, ""}, 2, "address is empty"},
		{"routing_key", []any{"10s", publisherOf(delay.Uniform{Base: 2, Levels: 28, Resolution: time.Second}.Scale()),
			strings.Repeat("d", 200)}, 2, "of 200 bytes; it can have 199"},
		{"routing_key", []any{"36h", unitsPublisher, strings.Repeat("d", 247)}, 2, "it can have 246, because " +
			"the words before it take 9"},
		{"routing_key", []any{"10s", publisher("t", 15_000), "d"}, 1, "units_ms is empty"},
		{"routing_key", []any{"10s", publisher("t", 15_000, nil), "d"}, 1, "units_ms have null; give a whole number"},
		{"routing_key", []any{"10s", publisher("t", 15_000, 0.5), "d"}, 1, "units_ms have 0.5; give a whole number"},
		{"routing_key", []any{"10s", publisher("t", 15_000, 0), "d"}, 1, "units_ms have 0; RabbitMQ counts TTL"},
		{"routing_key", []any{"10s", publisher("t", 15_000, 1000, 2000), "d"}, 1, "units_ms have 2000 behind 1000; " +
			"give the largest first"},
		{"routing_key", []any{"10s", publisher("t", 15_000, 3000, 2000), "d"}, 1, "units_ms have 3000 before 2000; " +
			"each unit has to be a multiple of the next"},
		{"routing_key", []any{"10s", publisher("t", nil, 1000), "d"}, 1, "max_delay_ms is null; give a whole number"},
		{"routing_key", []any{"10s", publisher("t", 15_500, 1000), "d"}, 1, "max_delay_ms is 15500, which has no " +
			"key; give a multiple of 1000, the last of units_ms"},
		{"parse_routing_key", []any{"", binaryPublisher}, 0, "key is empty"},
		{"parse_routing_key", []any{"1.0.2.0.d", binaryPublisher}, 0, `key is "1.0.2.0.d", whose word 3 is "2"`},
		{"parse_routing_key", []any{"1.0", binaryPublisher}, 0, "has only 2 words"},
		{"parse_routing_key", []any{"0.1.30.0", unitsPublisher}, 0, "has no address"},
		{"parse_routing_key", []any{"0.24.0.0.d", unitsPublisher}, 0, `whose word 2 is "24"; the first 4 words say ` +
			"the delay, and this one has to be 0 to 23"},
		{"parse_routing_key", []any{"31.0.0.0.d", unitsPublisher}, 0, `whose word 1 is "31"`},
		{"parse_routing_key", []any{"1.a.d", publisher("t", 99_000, 10_000, 1000)}, 0, `whose word 2 is "a"; the ` +
			"first 2 words say the delay, and this one has to be 0 to 9"},
		{"parse_routing_key", []any{"10.1.d", publisher("t", 99_000, 10_000, 1000)}, 0, `whose word 1 is "10"`},
		{"parse_routing_key", []any{"1.d", publisher("t", 1000, 1000, 1000)}, 1, "units_ms have 1000 twice"},
		{"binding_key", []any{4, 4, 1}, 0, "level is 4; with 4 levels it can be 0, the lowest, to 3, the entry"},
		{"binding_key", []any{0, 0, 1}, 1, "levels is 0"},
		{"binding_key", []any{0, 4, 10}, 2, "digit is 10; it can be 1 to 9, each of which leads to its queue, or 0, " +
			"which leads past them"},
		{"binding_key", []any{0, 4, -1}, 2, "digit is -1"},
		{"binding_key", []any{0, 4.5, 1}, 1, "it is 4.5; it has to be a whole number"},
		{"binding_key", []any{0, 4, 1e30}, 2, "it is 1e+30; a number of this size cannot be used"},
		{"destination_key", []any{0, "d"}, 0, "levels is 0"},
		{"destination_key", []any{40, "d"}, 0, "levels is 40; it can be 1 to 39"},
		{"destination_key", []any{4, ""}, 1, "address is empty"},
		{"destination_key", []any{28, strings.Repeat("d", 200)}, 1, "it can have 199"},
		{"mermaid", []any{publisher("", 15_000, 1000)}, 0, "entry_exchange is empty; give the name of the exchange"},
		{"mermaid", []any{publisher("t", 15_000)}, 0, "units_ms is empty"},
		{"mermaid", []any{publisher("t", 0, 1000)}, 0, "max_delay_ms is 0, which has no key"},
	} {
		result, wrong := c.call(t, test.name, test.arguments...)
		switch {
		case wrong == nil:
			t.Errorf("%s%v: got %v, want an error", test.name, test.arguments, result)
		case wrong.FunctionArgument == nil || *wrong.FunctionArgument != test.argument || !strings.Contains(wrong.Text,
			test.want):
			t.Errorf("%s%v: got %q on argument %v, want %q on argument %d", test.name, test.arguments, wrong.Text,
				wrong.FunctionArgument, test.want, test.argument)
		}
	}
}

// OpenTofu calls functions with objects some parts of which are not known yet.
func TestFunctionsOfUnknownValues(t *testing.T) {
	c := newCaller(t)
	for _, of := range []tftypes.Value{publisher("t", tftypes.UnknownValue, 1000),
		publisher("t", 1000, tftypes.UnknownValue)} {
		for name, arguments := range map[string][]any{"routing_key": {"1s", of, "d"}, "parse_routing_key": {"1.d", of},
			"mermaid": {of}} {
			if got := c.mustCall(t, name, arguments...); got != "unknown" {
				t.Errorf("%s of %s: got %v", name, of, got)
			}
		}
	}
}

// Every key says the delay rounded up to a step, never early, and late by less than one step.
func TestRoutingKeyFunctionRoundTrip(t *testing.T) {
	t.Parallel()
	c := newCaller(t)
	check := func(t failer, wait time.Duration, s delay.Uniform, address string) {
		t.Helper()
		of := publisherOf(s.Scale())
		key := c.mustCall(t, "routing_key", wait.String(), of, address)
		parsed, _ := c.mustCall(t, "parse_routing_key", key, of).(map[string]any)
		text, _ := parsed["delay"].(string)
		got, err := delay.ParseDuration(text)
		if err != nil || parsed["address"] != address || got < wait || got-wait >= s.Resolution ||
			got%s.Resolution != 0 {
			t.Fatal(fmt.Sprintf("%s on %+v: %q is %v (%v)", wait, s, key, parsed, err))
		}
	}
	for base, most := range map[int]int{2: 8, 3: 4, 9: 2, 10: 2} {
		for levels := 1; levels <= most; levels++ {
			s := delay.Uniform{Base: base, Levels: levels, Resolution: time.Second}
			for delay := time.Duration(0); delay <= s.Scale().Longest; delay += time.Second {
				check(t, delay, s, "billing")
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := delaytest.AnyUniform().Draw(t, "scale")
		delay := time.Duration(rapid.Int64Range(0, int64(s.Scale().Longest)).Draw(t, "delay"))
		address := rapid.StringMatching(`[a-z.*#é ]{1,80}`).Draw(t, "address")
		check(t, delay, s, address)
	})
}

// functionsSince is the first version of Terraform, and of OpenTofu, that knows functions of providers.
var functionsSince = []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_8_0)}

// Terraform calls the functions without a configured provider. It takes the publisher of a resource, an object like it,
// and values that are not known yet. It shows which argument is wrong, and what the object lacks.
func TestAccFunctions(t *testing.T) {
	t.Parallel()
	const later = `resource "terraform_data" "later" {
  input = { delay = "10s", entry = "t", unit = 1000 }
}

locals {
  units = { entry_exchange = "orders.d.h.m.s", units_ms = [86400000, 3600000, 60000, 1000], max_delay_ms = 2678399000 }
  later = {
    entry_exchange = terraform_data.later.output.entry
    units_ms       = [terraform_data.later.output.unit]
    max_delay_ms   = 15000
  }
}

`
	output := func(expression string) string { return "output \"got\" {\n  value = " + expression + "\n}\n" }
	call := func(call string) string { return "provider::rabbitmqdelay::" + call }
	for _, test := range []struct{ expression, want string }{
		{call(`routing_key("90m", local.units, "billing")`), "0.1.30.0.billing"},
		{call(`routing_key("90m", merge(local.units, { more = [1] }), "billing")`), "0.1.30.0.billing"},
		{call(`routing_key("90m", jsondecode(jsonencode(local.units)), "billing")`), "0.1.30.0.billing"},
		{call(`routing_key("10s", rabbitmqdelay_cascade.t.publisher, "billing")`), "1.0.1.0.billing"},
		{call(`routing_key(terraform_data.later.output.delay, local.units, "d")`), "0.0.0.10.d"},
		{call(`routing_key("10s", local.later, "d")`), "10.d"},
		{call(`parse_routing_key("1.0.1.0.orders.eu", rabbitmqdelay_cascade.t.publisher).delay`), "10s"},
		{call(`parse_routing_key("0.0.0.10.orders.eu", local.units).address`), "orders.eu"},
		{call(`binding_key(1, 4, 0)`), "*.*.0.#"},
		{call(`destination_key(4, "orders.eu")`), "*.*.*.*.orders.eu"},
		{`split("\n", ` + call(`mermaid(local.later))[0]`), "flowchart LR"},
		{`join(" ", regexall("t[.]delay-..|8 s|4 s, 1 queue", ` +
			call(`mermaid(rabbitmqdelay_cascade.t.publisher)))`), "t.delay-03 8 s 8 s 4 s, 1 queue"},
	} {
		configuration := later + output(test.expression)
		if strings.Contains(test.expression, "rabbitmqdelay_cascade.") {
			v := harness.NewVhost(t)
			configuration = harness.WithProvider(v.Broker,
				"resource \"rabbitmqdelay_cascade\" \"t\" {\n  name   = \"t\"\n  vhost  = %q\n  levels = 4\n}\n",
				v.Name) + configuration
		}
		t.Run(test.expression, func(t *testing.T) {
			t.Parallel()
			resource.Test(t, resource.TestCase{
				TerraformVersionChecks: functionsSince,
				Steps: []resource.TestStep{{
					ProtoV6ProviderFactories: harness.Providers,
					Config:                   harness.RequiredProviders + configuration,
					ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownOutputValue("got",
						knownvalue.StringExact(test.want))},
				}},
			})
		})
	}
	for _, test := range []struct{ expression, want string }{
		{call(`routing_key("32d", local.units, "billing")`), `(?s)"delay" parameter.*delay is`},
		{call(`routing_key("768h", local.units, "billing")`), `(?s)"delay" parameter.*longer than`},
		{call(`routing_key(null, local.units, "billing")`), `(?s)"delay" parameter.*must not be null`},
		{call(`routing_key("10s", null, "billing")`), `(?s)"publisher" parameter.*must not be null`},
		{call(`routing_key("10s", 4, "billing")`), `(?s)"publisher" parameter.*object required`},
		{call(`routing_key("10s", { units_ms = [1] }, "d")`), `(?s)"publisher" parameter.*"entry_exchange"`},
		{call(`routing_key("10s", merge(local.units, { units_ms = "x" }), "d")`),
			`(?s)"publisher" parameter.*"units_ms"`},
		{call(`routing_key("10s", merge(local.units, { units_ms = [60, 7] }), "d")`),
			`(?s)"publisher" parameter.*units_ms have 60 before 7`},
		{call(`parse_routing_key("a.1.0.0.d", local.units)`), `(?s)"key" parameter.*whose word 1 is "a"`},
		{call(`mermaid(merge(local.units, { max_delay_ms = 1 }))`),
			`(?s)"publisher" parameter.*max_delay_ms is 1, which has no key`},
		{call(`mermaid("tasks")`), `(?s)"publisher" parameter.*object required`},
	} {
		t.Run(test.expression, func(t *testing.T) {
			t.Parallel()
			resource.Test(t, resource.TestCase{
				TerraformVersionChecks: functionsSince,
				Steps: []resource.TestStep{{
					ProtoV6ProviderFactories: harness.Providers,
					Config:                   harness.RequiredProviders + later + output(test.expression),
					PlanOnly:                 true,
					ExpectError:              regexp.MustCompile(strings.ReplaceAll(test.want, " ", `\s+`)),
				}},
			})
		})
	}
}
