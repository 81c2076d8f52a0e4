package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What gives the entry another name replaces the cascade; everything else is changed in place. Either way the broker
// then has what the new configuration stands for.
func TestAccReplaceOrUpdate(t *testing.T) {
	t.Parallel()
	base := delay.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true,
		StrictKeys: true, ParkUnroutable: true}
	for name, is := range map[string]struct {
		change  harness.Attributes
		config  func(*delay.Config)
		replace bool
	}{
		"levels": {harness.Attributes{"levels": 5}, func(c *delay.Config) { c.Levels = 5 }, true},
		"max_delay of more levels": {harness.Attributes{"levels": nil, "base": 2, "max_delay": "16s"},
			func(c *delay.Config) { c.Levels = 5 }, true},
		"max_delay of as many": {harness.Attributes{"levels": nil, "base": 2, "max_delay": "9s"},
			func(*delay.Config) {}, false},
		"resolution": {harness.Attributes{"resolution": "500ms"},
			func(c *delay.Config) { c.Resolution = 500_000_000 }, false},
		"base":          {harness.Attributes{"base": 3}, func(c *delay.Config) { c.Base = 3 }, false},
		"base, written": {harness.Attributes{"base": 2}, func(*delay.Config) {}, false},
		"base and levels": {harness.Attributes{"base": 10, "levels": nil, "max_delay": "15s"},
			func(c *delay.Config) { c.Base, c.Levels = 10, 2 }, true},
		"base and max_delay of as many": {harness.Attributes{"base": 3, "levels": nil, "max_delay": "30s"},
			func(c *delay.Config) { c.Base = 3 }, false},
		"resolution, written anew": {harness.Attributes{"resolution": "1000ms"}, func(*delay.Config) {}, false},
		"name":                     {harness.Attributes{"name": "u"}, func(c *delay.Config) { c.Name = "u" }, true},
		"exchange_name": {harness.Attributes{"exchange_name": "x%d"},
			func(c *delay.Config) { c.ExchangeName = "x%d" }, true},
		"exchange_name, as it was": {harness.Attributes{"exchange_name": "t.delay-%02d"}, func(*delay.Config) {},
			false},
		"queue_name": {harness.Attributes{"queue_name": "q%d"}, func(c *delay.Config) { c.QueueName = "q%d" },
			false},
		"delivery_exchange": {harness.Attributes{"delivery_exchange": "d"},
			func(c *delay.Config) { c.DeliveryExchange = "d" }, false},
		"queue_type": {harness.Attributes{"queue_type": "classic"},
			func(c *delay.Config) { c.QueueType = delay.Classic }, false},
		"queue_arguments": {harness.Attributes{
			"queue_arguments": harness.Arguments(map[string]any{"x-expires": 86_400_000})},
			func(c *delay.Config) { c.QueueArguments = topology.Arguments{"x-expires": int64(86_400_000)} }, false},
		"queue_arguments, none": {harness.Attributes{"queue_arguments": harness.Arguments(nil)},
			func(c *delay.Config) { c.QueueArguments = topology.Arguments{} }, false},
		"queue_arguments, as they were": {harness.Attributes{"queue_arguments": harness.Arguments(map[string]any{
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})},
			func(*delay.Config) {}, false},
		"max_length": {harness.Attributes{"max_length": 7}, func(c *delay.Config) { c.MaxLength = 7 }, false},
		"queue_leader_locator": {harness.Attributes{"queue_leader_locator": "balanced"},
			func(c *delay.Config) { c.LeaderLocator = delay.Balanced }, false},
		"quorum_initial_group_size": {harness.Attributes{"quorum_initial_group_size": 3},
			func(c *delay.Config) { c.InitialGroupSize = 3 }, false},
		"park_unroutable": {harness.Attributes{"park_unroutable": false},
			func(c *delay.Config) { c.ParkUnroutable = false }, false},
		"internal_levels": {harness.Attributes{"internal_levels": true},
			func(c *delay.Config) { c.InternalLevels = true }, false},
		"lookahead": {harness.Attributes{"lookahead": 2}, func(c *delay.Config) { c.Lookahead = 2 }, false},
		"strict_keys": {harness.Attributes{"strict_keys": false}, func(c *delay.Config) { c.StrictKeys = false },
			false},
		"adopt":         {harness.Attributes{"adopt": true}, func(*delay.Config) {}, false},
		"force_destroy": {harness.Attributes{"force_destroy": true}, func(*delay.Config) {}, false},
		"drain_timeout": {harness.Attributes{"drain_timeout": "1m"}, func(*delay.Config) {}, false},
		"create_delivery_exchange": {harness.Attributes{"create_delivery_exchange": false}, func(*delay.Config) {},
			false},
		"lookahead and queue_type": {harness.Attributes{"lookahead": 1, "queue_type": "classic"},
			func(c *delay.Config) { c.Lookahead, c.QueueType = 1, delay.Classic }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			p := harness.NewProtocol(t, v.Broker, nil)
			configuration := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 4}
			p.MustApply(configuration)
			config := base
			is.config(&config)
			want := harness.Expand(t, config)

			changed := configuration.With(is.change)
			harness.NoErrors(t, p.Refresh(t.Context()))
			plan := p.Plan(t.Context(), changed)
			if plan.Replace != is.replace {
				t.Errorf("replaced: %t, want %t", plan.Replace, is.replace)
			}
			if !plan.State.IsFullyKnown() {
				t.Errorf("the plan holds unknown values: %s", plan.State)
			}
			harness.NoErrors(t, p.Apply(t.Context(), plan))
			v.MustHold(want)
			p.MustBeSettled(changed)
			if is.change["create_delivery_exchange"] == false {
				p.MustApply(configuration)
				p.MustBeSettled(configuration)
			}
			p.MustApply(nil)
			v.MustHold(topology.New())
		})
	}
}

// The plan names an attribute only if its value changes: max_delay stays when another resolution asks for other levels.
func TestReasonsAreChanges(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	week := harness.Attributes{"vhost": v.Name, "name": "t", "base": 2, "max_delay": "7d"}
	p.MustApply(week.With(harness.Attributes{"resolution": "1h"}))
	for _, is := range []struct {
		change harness.Attributes
		says   string
	}{
		{harness.Attributes{"resolution": "1m"}, `because resolution changes from "1h" to "1m".`},
		{nil, `because levels changes from 8 to 20 and resolution changes from "1h" to "1s".`},
		{harness.Attributes{"max_delay": "96h", "resolution": "1h"}, `because max_delay changes from "7d" to "96h".`},
	} {
		plan := p.Plan(t.Context(), week.With(is.change))
		if text := harness.WarningText(plan.Diagnostics); !strings.Contains(text, is.says) {
			t.Errorf("with %v the plan does not say %q: %s", is.change, is.says, text)
		}
	}
}

// The plan of a replacement or a destroy says what it has in its way, and the apply refuses it.
func TestAccReplacementWithMessagesInFlight(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	p := harness.NewProtocol(t, v.Broker, nil)
	configuration := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 12}
	p.MustApply(configuration)
	for range 3 {
		v.Publish("t.delay-11", harness.RoutingKey(t, 2048e9, 12, 1e9, "later"), "")
	}
	before := v.Objects()
	replacement := configuration.With(harness.Attributes{"levels": 11})

	// The counts of the management API lag.
	v.Eventually("the plan counts three messages", func() bool {
		harness.NoErrors(t, p.Refresh(t.Context()))
		return strings.Contains(harness.WarningText(p.Plan(t.Context(), replacement).Diagnostics),
			"3 messages are on the way through it now")
	})
	for what, is := range map[string]struct {
		configuration harness.Attributes
		says          []string
	}{
		"a replacement": {replacement, []string{`The cascade with entry exchange "t.delay-11"`,
			" is replaced, because levels changes from 12 to 11.", "3 messages are on the way through it now",
			wouldFail, `Publishers to exchange "t.delay-11" get an error`,
			`The new entry is exchange "t.delay-10"`, "Delays get 11 words in place of 12"}},
		"a destroy": {nil, []string{`The cascade with entry exchange "t.delay-11" is to be destroyed`,
			"3 messages are on the way through it now", wouldFail}},
	} {
		plan := p.Plan(t.Context(), is.configuration)
		harness.MustSay(t, "the plan of "+what, harness.WarningText(plan.Diagnostics), is.says...)
		text := strings.ReplaceAll(harness.ErrorText(p.Apply(t.Context(), plan)), v.Name, "vhost")
		harness.MustSay(t, "the error of "+what, text, "was not destroyed, and nothing of it is gone",
			`queue "t.delay-11": 3`, "Wait until the delayed messages are delivered")
		if strings.Count(text, "3") != 1 {
			t.Errorf("the error of %s counts the messages more than once: %s", what, text)
		}
		v.MustHold(before)
	}
	if n := v.Depth("t.delay-11"); n != 3 {
		t.Errorf("%d messages wait, want 3", n)
	}

	forced := configuration.With(harness.Attributes{"force_destroy": true})
	p.MustApply(forced)
	text := harness.WarningText(p.Plan(t.Context(), nil).Diagnostics)
	if !strings.Contains(text, "The apply deletes waiting messages, because force_destroy is true") {
		t.Errorf("the plan of a forced destroy: %s", text)
	}
	p.MustApply(nil)
	v.MustHold(topology.New())
}

// A delivery exchange that an update makes belongs to the cascade, even if the update fails behind it: the next one
// goes on.
func TestDeliveryExchangeOfAFailedUpdate(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	given := harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2, "create_delivery_exchange": false}
	v.DeclareExchange("t.delivery", "topic")
	p := harness.NewProtocol(t, v.Broker, nil)
	p.MustApply(given)
	v.Try(v.API.DeleteExchange(v.Name, "t.delivery"))
	harness.NoErrors(t, p.Refresh(t.Context()))

	through := *v.Broker
	through.Endpoint = harness.NewGateway(t, v.Broker, nil, func(w http.ResponseWriter, r *http.Request) bool {
		fails := r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/api/bindings/")
		if fails {
			w.WriteHeader(http.StatusForbidden)
		}
		return fails
	}).URL
	delete(given, "create_delivery_exchange")
	failing := p.With(&through, nil)
	if text := harness.ErrorText(failing.Apply(t.Context(), failing.Plan(t.Context(), given))); text == "" {
		t.Fatal("the update succeeded")
	}
	if _, made := v.Objects().Exchanges["t.delivery"]; !made {
		t.Fatal("the update failed before it made the delivery exchange")
	}
	p = failing.With(v.Broker, nil)
	harness.NoErrors(t, p.Refresh(t.Context()))
	p.MustApply(given)
	p.MustBeSettled(given)
	p.MustApply(nil)
	v.MustHold(topology.New())
}

// Names and numbers come from resources that do not exist yet. The plan works, only the parts that depend on them are
// unknown, and the apply succeeds.
func TestAccUnknownValues(t *testing.T) {
	v := harness.NewVhost(t)
	v.DeclareExchange("given", "topic")
	named := []string{"entry_exchange", "exchanges", "queues", "bindings"}
	with := func(names []string, further ...string) []string { return append(slices.Clone(names), further...) }
	cases := map[string]struct{ arguments, unknown, known []string }{
		"name": {
			arguments: []string{`name = terraform_data.name.output`, `levels = 3`},
			unknown:   with(named, "exchange_name", "queue_name", "delivery_exchange"),
			known:     []string{"levels", "max_delay", "lookahead"},
		},
		"vhost": {
			arguments: []string{`vhost = terraform_data.vhost.output`, `name = "with-vhost"`, `levels = 3`},
			unknown:   []string{"vhost"},
			known:     with(named, "exchange_name", "queue_name", "delivery_exchange", "levels"),
		},
		"levels": {
			// Without levels, there would be units.
			arguments: []string{`name = "with-levels"`, `levels = terraform_data.levels.output`},
			unknown:   with(named, "max_delay", "lookahead", "exchange_name", "queue_name", "units"),
			known:     []string{"delivery_exchange"},
		},
		"max_delay": {
			arguments: []string{`name = "with-max-delay"`, `max_delay = terraform_data.max_delay.output`},
			unknown:   []string{"queues", "summary"},
			known: []string{"entry_exchange", "exchanges", "exchange_name", "delivery_exchange", "levels",
				"lookahead"},
		},
		"max_delay_and_base": {
			arguments: []string{`name = "with-both"`, `base = 2`, `max_delay = terraform_data.max_delay.output`},
			unknown:   with(named, "levels", "lookahead"),
			known:     []string{"exchange_name", "delivery_exchange"},
		},
		"base": {
			arguments: []string{`name = "with-base"`, `levels = 3`, `base = terraform_data.base.output`},
			unknown:   []string{"queue_name", "queues", "bindings", "max_delay", "publisher"},
			known:     []string{"entry_exchange", "exchanges", "delivery_exchange", "levels", "lookahead"},
		},
		"resolution": {
			arguments: []string{
				`name = "with-resolution"`, `levels = 3`, `resolution = terraform_data.resolution.output`,
			},
			unknown: []string{"max_delay", "queues"},
			known:   []string{"entry_exchange", "exchanges", "delivery_exchange"},
		},
		"queue_type": {
			arguments: []string{
				`name = "with-queue-type"`, `levels = 3`, `queue_type = terraform_data.queue_type.output`,
			},
			unknown: []string{"queue_arguments", "queues"},
			known:   []string{"entry_exchange", "exchanges", "bindings", "max_delay"},
		},
		"delivery_exchange": {
			arguments: []string{
				`name = "with-delivery-exchange"`, `levels = 3`, `lookahead = 1`,
				`delivery_exchange = terraform_data.delivery_exchange.output`, `create_delivery_exchange = false`,
			},
			unknown: []string{"delivery_exchange", "exchanges", "queues", "bindings"},
			known:   []string{"entry_exchange", "publisher", "levels", "units", "max_delay", "summary"},
		},
		"formats": {
			arguments: []string{
				`name = "with-formats"`, `levels = 3`, `exchange_name = "${terraform_data.name.output}.x%d"`,
				`queue_name = "${terraform_data.name.output}.q%d"`,
			},
			unknown: named,
			known:   []string{"delivery_exchange", "max_delay"},
		},
	}
	var configuration strings.Builder
	fmt.Fprint(&configuration, harness.WithProvider(v.Broker, ""))
	for name, value := range map[string]string{
		"name": `"unknown"`, "vhost": harness.Quote(v.Name), "levels": "3", "base": "10",
		"max_delay": `"6s"`, "resolution": `"2s"`,
		"queue_type": `"classic"`, "delivery_exchange": `"given"`,
	} {
		fmt.Fprintf(&configuration, "resource \"terraform_data\" %q {\n  input = %s\n}\n\n", name, value)
	}
	var checks []plancheck.PlanCheck
	for name, is := range cases {
		address := "rabbitmqdelay_cascade." + name
		if name != "vhost" {
			is.arguments = append(is.arguments, "vhost = "+harness.Quote(v.Name))
		}
		fmt.Fprintf(&configuration, "resource \"rabbitmqdelay_cascade\" %q {\n  %s\n}\n\n", name,
			strings.Join(is.arguments, "\n  "))
		for _, attribute := range is.unknown {
			checks = append(checks, plancheck.ExpectUnknownValue(address, tfjsonpath.New(attribute)))
		}
		checks = append(checks, nothingUnknown(address, is.known...))
	}
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		CheckDestroy: func(*terraform.State) error {
			own := topology.New()
			own.Exchanges["given"] = topology.Exchange{Name: "given", Type: "topic", Durable: true}
			v.MustHold(own)
			return nil
		},
		Steps: []resource.TestStep{{Config: configuration.String(),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: checks}}},
	})
}

// A provider whose endpoint is not known yet plans, and applies once it is.
func TestAccUnknownEndpoint(t *testing.T) {
	v := harness.NewVhost(t)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{{
			Config: fmt.Sprintf(`
resource "terraform_data" "broker" {
  input = {
    endpoint = %q
    username = %q
    password = %q
  }
}

provider "rabbitmqdelay" {
  endpoint = terraform_data.broker.output.endpoint
  username = terraform_data.broker.output.username
  password = terraform_data.broker.output.password
}

resource "rabbitmqdelay_cascade" "t" {
  vhost  = %q
  name   = "t"
  levels = 3
}
`, v.Broker.Endpoint, v.Broker.Username, v.Broker.Password, v.Name),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{nothingUnknown(
				"rabbitmqdelay_cascade.t")}},
			Check: func(*terraform.State) error {
				v.MustHold(harness.Expand(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true,
					StrictKeys: true, ParkUnroutable: true}))
				return nil
			},
		}},
	})
}

// One of two instances of a module is refused, because a message waits in its cascade. The cascade of the other one is
// replaced, and its destination keeps the old key until -target updates it. Terraform orders whole resources, and not
// their instances.
func TestAccOneInstanceIsRefused(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	w := harness.NewWorkspace(t, v)
	v.DeclareQueue("orders", nil)
	const each = `
variable "name" {}

variable "levels" {}

resource "rabbitmqdelay_cascade" "t" {
  vhost      = %[1]q
  name       = var.name
  levels     = var.levels
  queue_type = "classic"
}

resource "rabbitmqdelay_destination" "d" {
  vhost             = %[1]q
  delivery_exchange = rabbitmqdelay_cascade.t.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.t.units)
  address           = "orders"
  queue             = "orders"
}
`
	all := func(levels int) string {
		return fmt.Sprintf(`
module "delays" {
  source   = "./delays"
  for_each = toset(["idle", "busy"])
  name     = each.key
  levels   = %d
}
`, levels)
	}
	if err := os.Mkdir(filepath.Join(w.CommandLine.Directory, "delays"), 0o700); err != nil {
		t.Fatal(err)
	}
	docstest.WriteExample(t, filepath.Join(w.CommandLine.Directory, "delays"), "main.tf",
		harness.RequiredProviders+fmt.Sprintf(each, v.Name))
	mustBeBound := func(when string, levels int) {
		t.Helper()
		key := strings.Repeat("*.", levels) + "orders"
		if there := v.Objects().Bindings.Where(func(b topology.Binding) bool {
			return b.Source == "idle.delivery" && b.RoutingKey == key
		}); len(there) != 1 {
			t.Errorf("%s, the key %s is bound %d times", when, key, len(there))
		}
	}
	w.Configure(all(12))
	w.CommandLine.Must("get")
	w.MustApply(all(12))
	v.Publish("busy.delay-11", "0.1.0.0.0.0.0.0.0.0.0.0.orders", "")
	w.MustRefuse(all(13), "Cascade holds messages", `"busy.delay-11"`)
	mustBeBound("after the refusal", 12)
	v.Publish("idle.delay-12", strings.Repeat("0.", 13)+"orders", "")
	if n := v.Depth("idle.unroutable"); n != 1 {
		t.Errorf("%d messages are parked, and the guide says that they are unroutable", n)
	}
	if output, err := w.Apply(`-target=module.delays["idle"]`); err != nil {
		t.Fatal(output)
	}
	mustBeBound("after -target", 13)
	v.Publish("idle.delay-12", strings.Repeat("0.", 13)+"orders", "")
	if n := v.Depth("orders"); n != 1 {
		t.Errorf("%d messages have arrived", n)
	}
}
