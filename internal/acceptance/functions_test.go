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

// objectOf is an object literal as Terraform types it.
func objectOf(given harness.Attributes) tftypes.Value {
	typ := tftypes.Object{AttributeTypes: map[string]tftypes.Type{}}
	values := map[string]tftypes.Value{}
	for name, value := range given {
		var v tftypes.Value
		switch value := value.(type) {
		case tftypes.Value:
			v = value
		case string:
			v = tftypes.NewValue(tftypes.String, value)
		case int, float64:
			v = tftypes.NewValue(tftypes.Number, value)
		case bool:
			v = tftypes.NewValue(tftypes.Bool, value)
		case nil:
			v = tftypes.NewValue(tftypes.DynamicPseudoType, nil)
		}
		typ.AttributeTypes[name], values[name] = v.Type(), v
	}
	return tftypes.NewValue(typ, values)
}

func TestFunctions(t *testing.T) {
	c := newCaller(t)
	for _, test := range []struct {
		name      string
		arguments []any
		want      any
	}{
		{"routing_key", []any{"10s", 4, "billing"}, "1.0.1.0.billing"},
		{"routing_key", []any{"0s", 4, "billing"}, "0.0.0.0.billing"},
		{"routing_key", []any{"1w2d", 4, "billing", "1d"}, "1.0.0.1.billing"},
		{"parse_routing_key", []any{"1.0.0.1.billing", 4, "24h"}, map[string]any{"delay": "9d", "address": "billing"}},
		{"routing_key", []any{"9.001s", 4, "billing"}, "1.0.1.0.billing"},
		{"routing_key", []any{"1ns", 4, "orders.eu"}, "0.0.0.1.orders.eu"},
		{"routing_key", []any{"1.7s", 5, "billing", "100ms"}, "1.0.0.0.1.billing"},
		{"parse_routing_key", []any{"1.0.1.0.billing", 4}, map[string]any{"delay": "10s", "address": "billing"}},
		{"parse_routing_key", []any{"1.0.1.0.orders.eu", 2, "500ms"}, map[string]any{"delay": "1s",
			"address": "1.0.orders.eu"}},
		{"routing_key", []any{"1h", 8, "billing", "1s", "10"}, "0.0.0.0.3.6.0.0.billing"},
		{"routing_key", []any{"5.41s", 2, "d", "100ms", "8"}, "6.7.d"},
		{"routing_key", []any{"10s", 4, "billing", "1s", "2"}, "1.0.1.0.billing"},
		{"parse_routing_key", []any{"0.0.0.0.3.6.0.0.billing", 8, "1s", "10"}, map[string]any{"delay": "1h",
			"address": "billing"}},
		{"parse_routing_key", []any{"6.7.d.e", 2, "100ms", "8"}, map[string]any{"delay": "5s500ms",
			"address": "d.e"}},
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
	tasks := func(further harness.Attributes) tftypes.Value {
		return objectOf(harness.Attributes{"name": "t", "levels": 4}.With(further))
	}
	unknown := func(typ tftypes.Type) tftypes.Value { return tftypes.NewValue(typ, tftypes.UnknownValue) }
	for _, test := range []struct {
		name      string
		arguments []any
		argument  int64
		want      string
	}{
		{"routing_key", []any{"10", 4, "d"}, 0, `delay is "10"; write a number and its unit`},
		{"routing_key", []any{"2y", 4, "d"}, 0, `delay is "2y"`},
		{"routing_key", []any{"48h", 4, "d"}, 0, "delay is 2d, longer than 15s, the longest that has a key here"},
		{"routing_key", []any{"-1s", 4, "d"}, 0, "delay is -1s; a message cannot be delivered before it is sent"},
		{"routing_key", []any{"15.001s", 4, "d"}, 0, "delay is 15s1ms, longer than 15s, the longest that has a " +
			"key here"},
		{"routing_key", []any{"10s", 0, "d"}, 1, "levels is 0; at a resolution of 1s it can be 1 to 29"},
		{"routing_key", []any{"10s", 30, "d"}, 1, "levels is 30"},
		{"routing_key", []any{"10s", 4, ""}, 2, "address is empty"},
		{"routing_key", []any{"10s", 28, strings.Repeat("d", 200)}, 2, "of 200 bytes; behind 28 levels it can " +
			"have 199"},
		{"routing_key", []any{"10s", 4, "d", "x"}, 3, `resolution is "x"`},
		{"routing_key", []any{"10s", 4, "d", "1us"}, 3, "resolution is 1µs; RabbitMQ counts TTL in whole " +
			"milliseconds"},
		{"routing_key", []any{"10s", 4, "d", "1s", "x"}, 4, `base is "x"; it can be 2 to 10`},
		{"routing_key", []any{"10s", 4, "d", "1s", "1s"}, 4, `base is "1s"; it can be 2 to 10`},
		{"routing_key", []any{"10s", 4, "d", "1s", "11"}, 4, "base is 11; it can be 2 to 10"},
		{"routing_key", []any{"10s", 4, "d", "1s", "1"}, 4, "base is 1; it can be 2 to 10"},
		{"routing_key", []any{"10s", 4, "d", "10"}, 3, `resolution is "10"; write a number and its unit`},
		{"routing_key", []any{"10s", 4, "d", "1s", "10", "1s"}, 5, "it is one too many: the last two arguments are " +
			"resolution and base"},
		{"routing_key", []any{"10s", 9, "d", "1s", "10"}, 1, "levels is 9; at a resolution of 1s in base 10 it can " +
			"be 1 to 8"},
		{"routing_key", []any{"10s", 1, "d", "1s", "10"}, 0, "delay is 10s, longer than 9s, the longest that has a " +
			"key here"},
		{"routing_key", []any{"10s", 1, "d", "11000h", "9"}, 3, "resolution is 458d8h; in base 9 give at most 456d6h"},
		{"parse_routing_key", []any{"", 4}, 0, "key is empty"},
		{"parse_routing_key", []any{"1.0.2.0.d", 4}, 0, `key is "1.0.2.0.d", whose word 3 is "2"`},
		{"parse_routing_key", []any{"1.0", 4}, 0, "has only 2 words"},
		{"parse_routing_key", []any{"1.0", 2}, 0, "has no address"},
		{"parse_routing_key", []any{"1.d", 40}, 1, "levels is 40"},
		{"parse_routing_key", []any{"1.d", 1, "0s"}, 2, "resolution is 0s"},
		{"parse_routing_key", []any{"1.d", 1, "1s", "0"}, 3, "base is 0; it can be 2 to 10"},
		{"parse_routing_key", []any{"1.d", 1, "1s", "2", "2"}, 4, "it is one too many"},
		{"parse_routing_key", []any{"1.a.d", 2, "1s", "10"}, 0, `whose word 2 is "a"; the first 2 words say ` +
			"the delay, and this one has to be 0 to 9"},
		{"parse_routing_key", []any{"3.1.d", 2, "1s", "3"}, 0, `whose word 1 is "3"; the first 2 words say the ` +
			"delay, and this one has to be 0 to 2"},
		{"parse_routing_key", []any{"10.1.d", 2, "1s", "10"}, 0, `whose word 1 is "10"`},
		{"binding_key", []any{4, 4, 1}, 0, "level is 4; with 4 levels it can be 0, the lowest, to 3, the entry"},
		{"binding_key", []any{0, 0, 1}, 1, "levels is 0"},
		{"binding_key", []any{0, 4, 10}, 2, "digit is 10; it can be 1 to 9, each of which leads to its queue, or 0, " +
			"which leads past them"},
		{"binding_key", []any{0, 4, -1}, 2, "digit is -1"},
		{"destination_key", []any{0, "d"}, 0, "levels is 0"},
		{"destination_key", []any{4, ""}, 1, "address is empty"},
		{"destination_key", []any{28, strings.Repeat("d", 200)}, 1, "behind 28 levels it can have 199"},
		{"mermaid", []any{tftypes.NewValue(tftypes.String, "tasks")}, 0, "has to be an object with attributes of " +
			"rabbitmqdelay_cascade"},
		{"mermaid", []any{tftypes.NewValue(tftypes.Tuple{}, []tftypes.Value{})}, 0, "has to be an object"},
		{"mermaid", []any{objectOf(harness.Attributes{})}, 0, "levels is missing; give it or max_delay"},
		{"mermaid", []any{objectOf(harness.Attributes{"name": "t"})}, 0, "levels is missing"},
		{"mermaid", []any{objectOf(harness.Attributes{"levels": 4})}, 0, "name is missing"},
		{"mermaid", []any{tasks(harness.Attributes{"level": "t"})}, 0, `the object has an attribute "level", which ` +
			`rabbitmqdelay_cascade has not; its attributes are adopt, base, bindings,`},
		{"mermaid", []any{tasks(harness.Attributes{"levels": "four"})}, 0, "levels is a string; it has to be a number"},
		{"mermaid", []any{tasks(harness.Attributes{"levels": 4.5})}, 0, "levels is 4.5; it has to be a whole number"},
		{"routing_key", []any{"10s", 4.5, "d"}, 1, "it is 4.5; it has to be a whole number"},
		{"binding_key", []any{0, 4, 1e30}, 2, "it is 1e+30; a number of this size cannot be used"},
		{"destination_key", []any{40, "d"}, 0, "levels is 40; it can be 1 to 39"},
		{"mermaid", []any{tasks(harness.Attributes{"name": true})}, 0, "name is a bool; it has to be a string"},
		{"mermaid", []any{tasks(harness.Attributes{"strict_keys": objectOf(harness.Attributes{})})}, 0,
			"strict_keys is a object; it " + "has to be a bool"},
		{"mermaid", []any{tasks(harness.Attributes{"name": ""})}, 0, "name is empty"},
		{"mermaid", []any{tasks(harness.Attributes{"max_delay": "1h"})}, 0,
			"levels is 4, but the max_delay beside it, 1h, " + "takes 12"},
		{"mermaid", []any{tasks(harness.Attributes{"resolution": "fast"})}, 0,
			`resolution is "fast"; write a number and ` +
				`its unit`},
		{"mermaid", []any{tasks(harness.Attributes{"resolution": ""})}, 0, "resolution"},
		{"mermaid", []any{tasks(harness.Attributes{"queue_type": "stream"})}, 0, `queue_type is "stream"`},
		{"mermaid", []any{tasks(harness.Attributes{"lookahead": 5})}, 0, "lookahead is 5; with 4 levels"},
		{"mermaid", []any{tasks(harness.Attributes{"levels": 30, "name": unknown(tftypes.String)})}, 0, "levels is 30"},
		{"mermaid", []any{tasks(harness.Attributes{"levels": 30})}, 0, "levels is 30"},
		{"mermaid", []any{tftypes.NewValue(tftypes.Number, 4)}, 0, "has to be an object"},
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

// What every invalid configuration of the resource is told, the function of a cascade says as well.
func TestFunctionsRefuseWhatTheResourceRefuses(t *testing.T) {
	c := newCaller(t)
	for name, is := range invalid {
		if is.attribute == "drain_timeout" || strings.Contains(is.error, "duration") {
			continue // nothing of the objects, and in words of its own
		}
		_, wrong := c.call(t, "mermaid", objectOf(is.configuration))
		if wrong == nil || !strings.Contains(wrong.Text, is.error) {
			t.Errorf("with %s: got %v, want %q", name, wrong, is.error)
		}
	}
}

func TestFunctionsOfUnknownValues(t *testing.T) {
	c := newCaller(t)
	unknown := tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	for _, argument := range []tftypes.Value{
		tftypes.NewValue(tftypes.DynamicPseudoType, tftypes.UnknownValue),
		objectOf(harness.Attributes{"name": unknown, "levels": 4}),
		objectOf(harness.Attributes{"name": "t", "vhost": unknown, "levels": 4}),
		objectOf(harness.Attributes{"name": "t", "levels": tftypes.NewValue(tftypes.DynamicPseudoType,
			tftypes.UnknownValue)}),
	} {
		if got := c.mustCall(t, "mermaid", argument); got != "unknown" {
			t.Errorf("of %s: got %v", argument, got)
		}
	}
}

// Every key says the delay rounded up to a step, never early, and late by less than one step.
func TestRoutingKeyFunctionRoundTrip(t *testing.T) {
	t.Parallel()
	c := newCaller(t)
	check := func(t failer, wait time.Duration, s delay.Uniform, address string) {
		t.Helper()
		resolution, base := s.Resolution.String(), fmt.Sprint(s.Base)
		key := c.mustCall(t, "routing_key", wait.String(), s.Levels, address, resolution, base)
		parsed, _ := c.mustCall(t, "parse_routing_key", key, s.Levels, resolution, base).(map[string]any)
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

// Terraform calls the functions without a configured provider, with optional arguments, with values that are
// not known yet, and shows which argument is wrong.
func TestAccFunctions(t *testing.T) {
	t.Parallel()
	const later = `resource "terraform_data" "later" {
  input = { delay = "10s", none = null, cascade = { name = "t", levels = 4 } }
}
`
	output := func(expression string) string { return "output \"got\" {\n  value = " + expression + "\n}\n" }
	for expression, want := range map[string]knownvalue.Check{
		`provider::rabbitmqdelay::routing_key("10s", 4, ` +
			`"billing")`: knownvalue.StringExact("1.0.1.0.billing"),
		`provider::rabbitmqdelay::routing_key("1.7s", 5, "billing", ` +
			`"100ms")`: knownvalue.StringExact("1.0.0.0.1.billing"),
		`provider::rabbitmqdelay::routing_key("10s", 4, "billing", ` +
			`terraform_data.later.output.none[*]...)`: knownvalue.StringExact("1.0.1.0.billing"),
		`provider::rabbitmqdelay::routing_key("1h", 8, "billing", "1s", ` +
			`10)`: knownvalue.StringExact("0.0.0.0.3.6.0.0.billing"),
		`provider::rabbitmqdelay::parse_routing_key("6.7.d", 2, "100ms", ` +
			`8).delay`: knownvalue.StringExact("5s500ms"),
		`join(" ", regexall("t.delay-0[01]-9", provider::rabbitmqdelay::mermaid({ name = "t", levels = 2, base = 10 ` +
			`})))`: knownvalue.StringRegexp(regexp.MustCompile("t.delay-01-9")),
		`provider::rabbitmqdelay::routing_key(terraform_data.later.output.delay, 4, "d")`: knownvalue.StringExact(
			"1.0.1.0.d"),
		`provider::rabbitmqdelay::parse_routing_key("1.0.1.0.orders.eu", ` +
			`4).delay`: knownvalue.StringExact("10s"),
		`provider::rabbitmqdelay::parse_routing_key("1.0.1.0.orders.eu", ` +
			`4).address`: knownvalue.StringExact("orders.eu"),
		`provider::rabbitmqdelay::binding_key(1, 4, 0)`: knownvalue.StringExact("*.*.0.#"),
		`provider::rabbitmqdelay::destination_key(4, ` +
			`"orders.eu")`: knownvalue.StringExact("*.*.*.*.orders.eu"),
		`split("\n", provider::rabbitmqdelay::mermaid(terraform_data.later.output.cascade))[0]`: knownvalue.StringExact(
			"flowchart LR"),
		`split("\n", provider::rabbitmqdelay::mermaid({ name = "t", levels = ` +
			`4 }))[0]`: knownvalue.StringExact("flowchart LR"),
		`split("\n", provider::rabbitmqdelay::mermaid(rabbitmqdelay_cascade.t))[0]`: knownvalue.StringExact(
			"flowchart LR"),
		`join(" ", regexall("[xq][0-9]|unroutable", provider::rabbitmqdelay::mermaid(` +
			`local.all)))`: knownvalue.StringExact("x2 q2 x1 q1 x0 q0"),
	} {
		configuration := later + output(expression)
		if strings.Contains(expression, "rabbitmqdelay_cascade.") {
			v := harness.NewVhost(t)
			configuration = harness.WithProvider(v.Broker,
				"resource \"rabbitmqdelay_cascade\" \"t\" {\n  name   = \"t\"\n  vhost  = %q\n  levels = 4\n}\n",
				v.Name) + output(expression)
		}
		configuration += `locals {
  all = {
    name              = null
    vhost             = "v"
    levels            = 3
    exchange_name     = "x%d"
    queue_name        = "q%d"
    delivery_exchange = "d"
    park_unroutable   = false
  }
}
`
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			resource.Test(t, resource.TestCase{
				TerraformVersionChecks: functionsSince,
				Steps: []resource.TestStep{{
					ProtoV6ProviderFactories: harness.Providers,
					Config:                   harness.RequiredProviders + configuration,
					ConfigStateChecks:        []statecheck.StateCheck{statecheck.ExpectKnownOutputValue("got", want)},
				}},
			})
		})
	}
	for expression, want := range map[string]string{
		`provider::rabbitmqdelay::routing_key("16s", 4, ` +
			`"billing")`: `(?s)"delay" parameter.*delay is 16s, longer ` +
			`than 15s`,
		`provider::rabbitmqdelay::routing_key("10s", 4, "billing", ` +
			`"1s", "2s")`: `(?s)"resolution_and_base" parameter.*base is "2s"; it can be 2 to 10`,
		`provider::rabbitmqdelay::routing_key("10s", 4, "billing", ` +
			`"1s", 10, 10)`: `it is one too many`,
		`provider::rabbitmqdelay::parse_routing_key("a.1.d", 2, "1s", ` +
			`10)`: `(?s)"key" parameter.*whose word 1 is "a"`,
		`provider::rabbitmqdelay::routing_key(null, 4, ` +
			`"billing")`: `(?s)"delay" parameter.*must not be null`,
		`provider::rabbitmqdelay::routing_key("10s", 4, ` +
			`"billing", null)`: `(?s)"resolution_and_base" parameter.*must not be ` +
			`null`,
		`provider::rabbitmqdelay::mermaid({ name = "t", ` +
			`level = 4 })`: `(?s)"cascade" parameter.*"level"`,
		`provider::rabbitmqdelay::mermaid({ name = terraform_data.later.output.cascade.name, ` +
			`levels = 30 })`: `levels is 30`,
		`provider::rabbitmqdelay::mermaid({ ` +
			`levels = 4 })`: `name is missing`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			resource.Test(t, resource.TestCase{
				TerraformVersionChecks: functionsSince,
				Steps: []resource.TestStep{{
					ProtoV6ProviderFactories: harness.Providers,
					Config:                   harness.RequiredProviders + later + output(expression),
					PlanOnly:                 true,
					ExpectError:              regexp.MustCompile(strings.ReplaceAll(want, " ", `\s+`)),
				}},
			})
		})
	}
}
