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

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// The destinations of cascades and ladders are found, whoever bound them, and no other bindings. The listed resource is
// what an import by its identity reads, and the configuration that Terraform writes for it plans to no change.
func TestListDestinations(t *testing.T) {
	t.Parallel()
	v, other := harness.NewVhost(t), harness.NewVhostNamed(t, brokertest.Shared(t), "another for "+t.Name())
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "tasks", "levels": 3})
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": other.Name, "name": "hidden",
		"levels": 3})
	harness.NewProtocolOf(
		t,
		harness.LadderType,
		v.Broker,
		nil,
	).MustApply(
		harness.Attributes{"vhost": v.Name, "name": "retry", "delays": harness.TextList("5s")},
	)
	harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).MustApply(harness.Attributes{
		"vhost": v.Name, "name": "fixed", "delays": harness.TextList("5s"), "dead_letter_routing_key": "late.orders",
	})
	v.DeclareQueue("orders", nil)
	v.DeclareExchange("events", "topic")
	v.Bind("tasks.delivery", "*.*.*.orders", "queue", "orders")
	v.Bind("tasks.delivery", "*.*.orders.eu", "queue", "orders") // for two levels
	v.Bind("tasks.delivery", "#.billing", "exchange", "events")
	v.Bind("retry.delivery", "*.orders", "queue", "orders")
	for _, foreign := range [][2]string{
		{"tasks.delivery", "#"}, {"tasks.delivery", "orders"}, {"tasks.delivery", "*.*.*.a.#"},
		{"events", "*.*.*.orders"}, {"fixed.delivery", "*.orders"},
	} {
		v.Bind(foreign[0], foreign[1], "queue", "orders")
	}
	other.DeclareQueue("orders", nil)
	other.Bind("hidden.delivery", "*.*.*.orders", "queue", "orders")

	u := harness.NewUser(t, v.Broker, v.Name)
	u.Grant([3]string{"^$", "^$", "^$"})
	p := harness.NewProtocolOf(t, harness.DestinationType, u.Broker(), nil)
	ofTasks := []string{
		`billing and all that ends with .billing, from tasks.delivery to exchange "events"`,
		`orders, from tasks.delivery to queue "orders"`,
		`orders.eu, from tasks.delivery to queue "orders"`,
	}
	for _, test := range []struct {
		configuration harness.Attributes
		want          []string
	}{
		{nil, append([]string{`orders, from retry.delivery to queue "orders"`}, ofTasks...)},
		{harness.Attributes{"vhost": v.Name}, append([]string{`orders, from retry.delivery to queue "orders"`},
			ofTasks...)},
		{harness.Attributes{"delivery_exchange": "tasks.delivery"}, ofTasks},
		{harness.Attributes{"vhost": v.Name, "delivery_exchange": "events"},
			[]string{`orders, from events to queue "orders"`}},
		{harness.Attributes{"vhost": v.Name, "delivery_exchange": "no such"}, nil},
	} {
		found := map[string]bool{}
		for _, l := range p.Query(t.Context(), test.configuration, false, 100) {
			if len(l.Diagnostics) > 0 || l.Vhost != v.Name || !l.Resource.IsNull() {
				t.Errorf(
					"in vhost %q: %s%s%s",
					l.Vhost,
					harness.ErrorText(l.Diagnostics),
					harness.WarningText(l.Diagnostics),
					l.Resource,
				)
			}
			found[l.Name] = true
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
	if found := p.Query(t.Context(), nil, false, 2); len(found) != 2 {
		t.Errorf("with a limit of 2 there are %d", len(found))
	}

	for _, l := range p.Query(t.Context(), nil, true, 100) {
		imported := harness.NewProtocolOf(t, harness.DestinationType, u.Broker(), nil)
		harness.NoErrors(t, imported.ImportListed(t.Context(), l.Identity))
		if !imported.State.Equal(l.Resource) {
			differences, err := imported.State.Diff(l.Resource)
			t.Errorf("%s differs from what is imported: %s %v", l.Name, differences, err)
		}
		plan := imported.Plan(t.Context(), imported.Generated(t.Context(), l.Resource))
		harness.NoErrors(t, plan.Diagnostics)
		if !plan.IsEmpty(imported.State) {
			differences, _ := imported.State.Diff(plan.State)
			t.Errorf("%s: with the configuration that is generated the plan has %s", l.Name, differences)
		}
	}
}

// A vhost that is asked for and cannot be listed is an error.
func TestListDestinationsErrors(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	for _, test := range []struct {
		configuration harness.Attributes
		want          string
	}{
		{harness.Attributes{"vhost": "nowhere"}, `Could not list the destinations of vhost "nowhere"`},
		{harness.Attributes{"vhost": "nowhere", "delivery_exchange": "tasks.delivery"},
			`Could not list the destinations of ` +
				`vhost "nowhere"`},
		{harness.Attributes{"delivery_exchange": ""}, "delivery_exchange"},
		{harness.Attributes{"delivery_exchange": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)}, "not known"},
	} {
		found := harness.NewProtocolOf(t, harness.DestinationType, b, nil).Query(t.Context(), test.configuration, false,
			10)
		if len(found) != 1 || !strings.Contains(harness.ErrorText(found[0].Diagnostics), test.want) {
			t.Errorf("%v: it does not say %q: %v", test.configuration, test.want, found)
		}
	}
}

// The same by terraform query.
func TestAccListDestinations(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.DeclareQueue("orders", nil)
	declared := harness.WithProvider(v.Broker, `resource "rabbitmqdelay_cascade" "t" {
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
`, v.Name)
	listed := fmt.Sprintf(
		"list \"rabbitmqdelay_destination\" \"all\" {\n  provider         = rabbitmqdelay\n  include_resource = "+
			"true\n  config {\n    vhost = %q\n  }\n}\n",
		v.Name,
	)
	identity := map[string]knownvalue.Check{
		"vhost": knownvalue.StringExact(
			v.Name,
		),
		"delivery_exchange": knownvalue.StringExact("tasks.delivery"),
		"queue":             knownvalue.StringExact("orders"),
		"exchange":          knownvalue.Null(),
		"routing_key":       knownvalue.StringExact(harness.DestinationKey(5, "orders")),
	}
	resource.Test(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)},
		ProtoV6ProviderFactories: harness.Providers,
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
