package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/querycheck"
	"github.com/hashicorp/terraform-plugin-testing/querycheck/queryfilter"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// The destinations of cascades and ladders are found, whoever bound them, and no other bindings. The listed resource is
// what an import by its identity reads, and the configuration that Terraform writes for it plans to no change.
func TestListDestinations(t *testing.T) {
	t.Parallel()
	v, other := newVhost(t), newVhostNamed(t, brokertest.Shared(t), "another for "+t.Name())
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "tasks", "levels": 3})
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": other.name, "name": "hidden", "levels": 3})
	newProtocolOf(
		t,
		ladderType,
		v.broker,
		nil,
	).mustApply(
		attributes{"vhost": v.name, "name": "retry", "delays": textSet("5s")},
	)
	newProtocolOf(t, ladderType, v.broker, nil).mustApply(attributes{
		"vhost": v.name, "name": "fixed", "delays": textSet("5s"), "dead_letter_routing_key": "late.orders",
	})
	v.declareQueue("orders", nil)
	v.declareExchange("events", "topic")
	v.bind("tasks.delivery", "*.*.*.orders", "queue", "orders")
	v.bind("tasks.delivery", "*.*.orders.eu", "queue", "orders") // for two levels
	v.bind("tasks.delivery", "#.billing", "exchange", "events")
	v.bind("retry.delivery", "*.orders", "queue", "orders")
	for _, foreign := range [][2]string{
		{"tasks.delivery", "#"}, {"tasks.delivery", "orders"}, {"tasks.delivery", "*.*.*.a.#"},
		{"events", "*.*.*.orders"}, {"fixed.delivery", "*.orders"},
	} {
		v.bind(foreign[0], foreign[1], "queue", "orders")
	}
	other.declareQueue("orders", nil)
	other.bind("hidden.delivery", "*.*.*.orders", "queue", "orders")

	u := newUser(t, v.broker, v.name)
	u.grant([3]string{"^$", "^$", "^$"})
	p := newProtocolOf(t, destinationType, u.broker(), nil)
	ofTasks := []string{
		`billing and all that ends with .billing, from tasks.delivery to exchange "events"`,
		`orders, from tasks.delivery to queue "orders"`,
		`orders.eu, from tasks.delivery to queue "orders"`,
	}
	for _, test := range []struct {
		configuration attributes
		want          []string
	}{
		{nil, append([]string{`orders, from retry.delivery to queue "orders"`}, ofTasks...)},
		{attributes{"vhost": v.name}, append([]string{`orders, from retry.delivery to queue "orders"`}, ofTasks...)},
		{attributes{"delivery_exchange": "tasks.delivery"}, ofTasks},
		{attributes{"vhost": v.name, "delivery_exchange": "events"}, []string{`orders, from events to queue "orders"`}},
		{attributes{"vhost": v.name, "delivery_exchange": "no such"}, nil},
	} {
		found := map[string]bool{}
		for _, l := range p.query(t.Context(), test.configuration, false, 100) {
			if len(l.diagnostics) > 0 || l.vhost != v.name || !l.resource.IsNull() {
				t.Errorf(
					"in vhost %q: %s%s%s",
					l.vhost,
					errorText(l.diagnostics),
					warningText(l.diagnostics),
					l.resource,
				)
			}
			found[l.name] = true
		}
		if names := slices.Sorted(maps.Keys(found)); !slices.Equal(names, slices.Sorted(slices.Values(test.want))) {
			t.Errorf(
				"%v finds\n%s\nwant\n%s",
				test.configuration,
				strings.Join(names, "\n"),
				strings.Join(test.want, "\n"),
			)
		}
	}
	if found := p.query(t.Context(), nil, false, 2); len(found) != 2 {
		t.Errorf("with a limit of 2 there are %d", len(found))
	}

	for _, l := range p.query(t.Context(), nil, true, 100) {
		imported := newProtocolOf(t, destinationType, u.broker(), nil)
		noErrors(t, imported.importListed(t.Context(), l.identity))
		if !imported.state.Equal(l.resource) {
			differences, err := imported.state.Diff(l.resource)
			t.Errorf("%s differs from what is imported: %s %v", l.name, differences, err)
		}
		plan := imported.plan(t.Context(), imported.generated(t.Context(), l.resource))
		noErrors(t, plan.diagnostics)
		if !plan.isEmpty(imported.state) {
			differences, _ := imported.state.Diff(plan.state)
			t.Errorf("%s: with the configuration that is generated the plan has %s", l.name, differences)
		}
	}
}

// A vhost that is asked for and cannot be listed is an error.
func TestListDestinationsErrors(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	for _, test := range []struct {
		configuration attributes
		want          string
	}{
		{attributes{"vhost": "nowhere"}, `Could not list the destinations of vhost "nowhere"`},
		{attributes{"vhost": "nowhere", "delivery_exchange": "tasks.delivery"}, `Could not list the destinations of ` +
			`vhost "nowhere"`},
		{attributes{"delivery_exchange": ""}, "delivery_exchange"},
		{attributes{"delivery_exchange": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)}, "not known"},
	} {
		found := newProtocolOf(t, destinationType, b, nil).query(t.Context(), test.configuration, false, 10)
		if len(found) != 1 || !strings.Contains(errorText(found[0].diagnostics), test.want) {
			t.Errorf("%v: it does not say %q: %v", test.configuration, test.want, found)
		}
	}
}

// The same by terraform query.
func TestAccListDestinations(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	v.declareQueue("orders", nil)
	declared := on(v.broker, `resource "rabbitmqdelay_cascade" "t" {
  vhost  = %[1]q
  name   = "tasks"
  levels = 5
}

resource "rabbitmqdelay_destination" "t" {
  vhost             = %[1]q
  delivery_exchange = rabbitmqdelay_cascade.t.delivery_exchange
  levels            = 5
  address           = "orders"
  queue             = "orders"
}
`, v.name)
	listed := fmt.Sprintf(
		"list \"rabbitmqdelay_destination\" \"all\" {\n  provider         = rabbitmqdelay\n  include_resource = "+
			"true\n  config {\n    vhost = %q\n  }\n}\n",
		v.name,
	)
	identity := map[string]knownvalue.Check{
		"vhost": knownvalue.StringExact(
			v.name,
		),
		"delivery_exchange": knownvalue.StringExact("tasks.delivery"),
		"queue":             knownvalue.StringExact("orders"),
		"exchange":          knownvalue.Null(),
		"routing_key":       knownvalue.StringExact(destination(5, "orders")),
	}
	resource.Test(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)},
		ProtoV6ProviderFactories: factories,
		Steps: []resource.TestStep{
			{Config: declared},
			{Query: true, Config: listed, QueryResultChecks: []querycheck.QueryResultCheck{
				querycheck.ExpectLength("rabbitmqdelay_destination.all", 1),
				querycheck.ExpectIdentity("rabbitmqdelay_destination.all", identity),
				querycheck.ExpectResourceDisplayName(
					"rabbitmqdelay_destination.all",
					queryfilter.ByResourceIdentity(identity),
					knownvalue.StringExact(`orders, from tasks.delivery to queue "orders"`),
				),
			}},
		},
	})
}
