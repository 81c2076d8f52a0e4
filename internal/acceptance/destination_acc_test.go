package acceptance

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A destination's week: made together with its cascade, damaged, repaired, imported, moved to other messages. Its
// messages arrive.
func TestAccDestination(t *testing.T) {
	const levels, unit = 3, 10 * time.Millisecond
	v := harness.NewVhost(t)
	v.DeclareQueue("orders", nil)
	with := func(further string) string {
		return harness.RequiredProviders + harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost      = %[1]q
  name       = "t"
  levels     = %[2]d
  resolution = %[3]q
}

resource "rabbitmqdelay_destination" "orders" {
  vhost             = rabbitmqdelay_cascade.t.vhost
  delivery_exchange = rabbitmqdelay_cascade.t.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.t.units)
  queue             = "orders"
  %[4]s
}
`, v.Name, levels, unit.String(), further)
	}
	configuration := with(`address = "orders"`)
	const address = "rabbitmqdelay_destination.orders"
	arrives := func(to string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			c := cascadeUnderTest{v, harness.BinaryScale(levels, unit), "t.delay-02", "t.delivery"}
			sent := c.send(5, to)
			c.Eventually("the message has arrived", func() bool { return v.Depth("orders") == 1 })
			if took := time.Since(sent); took < harness.Least(5*unit) {
				t.Errorf("a message with a delay of %s took %s", 5*unit, took)
			}
			v.Purge("orders")
			return nil
		}
	}
	action := func(action plancheck.ResourceActionType) []plancheck.PlanCheck {
		return []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, action)}
	}
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		CheckDestroy: func(*terraform.State) error {
			own := topology.New()
			own.Queues["orders"] = v.Objects().Queues["orders"]
			v.MustHold(own)
			return nil
		},
		Steps: []resource.TestStep{
			{
				Config: configuration,
				Check: resource.ComposeTestCheckFunc(
					resource.TestCheckResourceAttr(address, "routing_key", "*.*.*.orders"),
					resource.TestCheckResourceAttr(address, "match", "exact"), arrives("orders")),
			},
			{
				PreConfig: v.LoseDestinations, Config: configuration, PlanOnly: true, ExpectNonEmptyPlan: true,
				ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPostRefresh: action(
					plancheck.ResourceActionCreate)},
			},
			{Config: configuration, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: action(
				plancheck.ResourceActionCreate)}, Check: arrives("orders")},
			{
				Config: configuration, ResourceName: address, ImportState: true, ImportStateId: v.Name +
					"/t.delivery/queue/orders/*.*.*.orders",
				ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "routing_key",
			},
			{
				Config:           with(`address = "orders.eu"`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: action(plancheck.ResourceActionUpdate)},
				Check:            arrives("orders.eu"),
			},
			{Config: configuration, Check: arrives("orders")},
		},
	})
}

// By a block, with an ID or an identity, nothing is planned but the import.
func TestAccDestinationImportBlock(t *testing.T) {
	for how, is := range map[string]struct {
		by    func(vhost string) string
		since *version.Version
	}{
		"ID": {func(vhost string) string {
			return fmt.Sprintf("id = %q", vhost+"/t.delivery/queue/orders/%23.orders")
		}, tfversion.Version1_5_0},
		"identity": {func(vhost string) string {
			return fmt.Sprintf("identity = {\n    vhost = %q\n    delivery_exchange = \"t.delivery\"\n    queue = "+
				"\"orders\"\n    routing_key = \"#.orders\"\n  }", vhost)
		}, tfversion.Version1_12_0},
	} {
		t.Run(how, func(t *testing.T) {
			v := harness.NewVhost(t)
			v.DeclareExchange("t.delivery", "topic")
			v.DeclareQueue("orders", nil)
			v.Bind("t.delivery", "#.orders", "queue", "orders")
			resource.ParallelTest(t, resource.TestCase{
				TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(is.since)},
				ProtoV6ProviderFactories: harness.Providers,
				Steps: []resource.TestStep{{
					Config: harness.RequiredProviders + harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_destination" "orders" {
  vhost             = %q
  delivery_exchange = "t.delivery"
  match             = "suffix"
  address           = "orders"
  queue             = "orders"
}

import {
  to = rabbitmqdelay_destination.orders
  %s
}
`, v.Name, is.by(v.Name)),
					ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{imports(
						"rabbitmqdelay_destination.orders")}},
				}},
			})
		})
	}
}

// A cascade that is rebuilt keeps the bindings of its delivery exchange: there is nothing to do for the destination.
func TestAccDestinationOfRebuiltCascade(t *testing.T) {
	v := harness.NewVhost(t)
	v.DeclareQueue("orders", nil)
	with := func(base int, resolution, parks string) string {
		return harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost      = %q
  name       = "t"
  base       = %d
  levels     = 2
  resolution = %q

  park_unroutable = %s
}

resource "rabbitmqdelay_destination" "orders" {
  vhost             = rabbitmqdelay_cascade.t.vhost
  delivery_exchange = rabbitmqdelay_cascade.t.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.t.units)
  address           = "orders"
  queue             = "orders"
}
`, v.Name, base, resolution, parks)
	}
	bound := func(*terraform.State) error { v.MustBeBound("*.*.orders -> queue orders"); return nil }
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{
			{Config: with(2, "1s", "true"), Check: bound},
			{Config: with(2, "2s", "true"), Check: bound},
			{Config: with(2, "2s", "false"), Check: bound},
			{Config: with(2, "3s", "true"), Check: bound},
			{Config: with(10, "3s", "true"), Check: bound},
			{Config: with(10, "1s", "true"), Check: bound},
		},
	})
}

// An update to another queue breaks off, and the configuration goes back to its earlier state. The plan shows the
// leftover, and the apply removes it.
func TestAccDestinationUnfinishedUpdate(t *testing.T) {
	v := harness.NewDestinations(t, 2, "orders", "other")
	proxy := harness.NewFaultProxy(t, v.Broker)
	with := func(queue string) string {
		configuration := harness.WithProvider(proxy.Front(), `
resource "rabbitmqdelay_destination" "orders" {
  vhost             = %q
  delivery_exchange = "t.delivery"
  levels            = 2
  address           = "orders"
  queue             = %q
}
`, v.Name, queue)
		return strings.Replace(configuration, "{\n", "{\n  retry_timeout = \"200ms\"\n", 1)
	}
	strike := func(at harness.Point, f harness.Failure) func() {
		return func() {
			proxy.Mutex.Lock()
			defer proxy.Mutex.Unlock()
			proxy.At, proxy.Failure, proxy.Struck = at, f, false
		}
	}
	const address = "rabbitmqdelay_destination.orders"
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		CheckDestroy:             func(*terraform.State) error { v.MustBeBound(); return nil },
		Steps: []resource.TestStep{
			{Config: with("orders"), Check: resource.TestCheckNoResourceAttr(address, "leftover_bindings")},
			{
				PreConfig: strike(binds(v.Name, "other"), harness.Failure{Fault: harness.Loses,
					Lasts: harness.FromHere}), Config: with("other"),
				ExpectError: regexp.MustCompile(`one of\s+leftover_bindings`),
			},
			{PreConfig: strike(harness.Point{}, harness.Failure{}), Config: with("orders"), PlanOnly: true,
				ExpectNonEmptyPlan: true},
			{
				PreConfig: func() { v.MustBeBound("*.*.orders -> queue orders", "*.*.orders -> queue other") },
				Config:    with("orders"),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(address, plancheck.ResourceActionUpdate),
				}},
				Check: func(*terraform.State) error { v.MustBeBound("*.*.orders -> queue orders"); return nil },
			},
		},
	})
}

// A cascade that is resized while messages wait in it runs empty first, and the destination takes them. Then the
// destination takes those of the new cascade.
func TestAccDestinationOfResizedCascade(t *testing.T) {
	const unit = 200 * time.Millisecond
	v := harness.NewVhost(t)
	v.DeclareQueue("orders", nil)
	with := func(levels int) string {
		return harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost         = %q
  name          = "t"
  levels        = %d
  resolution    = %q
  queue_type    = "classic"
  drain_timeout = "1m"
}

resource "rabbitmqdelay_destination" "orders" {
  vhost             = rabbitmqdelay_cascade.t.vhost
  delivery_exchange = rabbitmqdelay_cascade.t.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.t.units)
  address           = "orders"
  queue             = "orders"
}
`, v.Name, levels, unit.String())
	}
	send := func(levels int) {
		cascadeUnderTest{v, harness.BinaryScale(levels, unit), fmt.Sprintf("t.delay-%02d", levels-1),
			"t.delivery"}.send(7, "orders")
	}
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{
			{Config: with(3), Check: func(*terraform.State) error { send(3); return nil }},
			{Config: with(4), Check: func(*terraform.State) error {
				if n := v.Depth("orders"); n != 1 {
					t.Errorf("of the message of the cascade before, %d arrived", n)
				}
				v.MustBeBound("*.*.*.*.orders -> queue orders")
				send(4)
				v.Eventually("the second message has arrived", func() bool { return v.Depth("orders") == 2 })
				return nil
			}},
		},
	})
}
