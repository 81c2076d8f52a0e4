package acceptance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// The shortest cascade: everything is in the plan before anything is on the broker, and after the
// apply the broker has exactly that.
func TestAccPlanShowsEverything(t *testing.T) {
	v := harness.NewVhost(t)
	want := harness.Expand(t, delay.Config{Name: "tasks", Levels: 17, CreateDeliveryExchange: true,
		StrictKeys: true, ParkUnroutable: true})
	configuration := harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_cascade" "tasks" {
  vhost  = %q
  name   = "tasks"
  levels = 17
}
`, v.Name)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		CheckDestroy:             func(*terraform.State) error { v.MustExport(topology.New()); return nil },
		Steps: []resource.TestStep{
			{
				Config: configuration,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: append(planned17,
					nothingUnknown("rabbitmqdelay_cascade.tasks"),
					planShows("rabbitmqdelay_cascade.tasks", want),
					during(func() { v.MustHold(topology.New()) }),
				)},
				Check: func(*terraform.State) error { v.MustExport(want); return nil },
			},
			{
				Config:           configuration,
				ConfigPlanChecks: harness.ExpectEmptyPlan,
				Check:            func(*terraform.State) error { v.MustExport(want); return nil },
			},
		},
	})
}

// planned17 are some of the values of a cascade "tasks" of 17 levels, written out.
var planned17 = func() []plancheck.PlanCheck {
	at := func(value knownvalue.Check, attribute string, within ...string) plancheck.PlanCheck {
		path := tfjsonpath.New(attribute)
		for _, key := range within {
			path = path.AtMapKey(key)
		}
		return plancheck.ExpectKnownValue("rabbitmqdelay_cascade.tasks", path, value)
	}
	queue := func(level, ttl int64, deadLetters string) knownvalue.Check {
		return knownvalue.ObjectExact(map[string]knownvalue.Check{
			"level": knownvalue.Int64Exact(level), "message_ttl": knownvalue.Int64Exact(ttl),
			"dead_letter_exchange": knownvalue.StringExact(deadLetters),
			"type":                 knownvalue.Null(), "durable": knownvalue.Null(), "auto_delete": knownvalue.Null(),
			"exclusive": knownvalue.Null(), "arguments": knownvalue.Null(),
		})
	}
	return []plancheck.PlanCheck{
		at(knownvalue.StringExact("1d12h24m31s"), "max_delay"),
		at(knownvalue.Int64Exact(17), "lookahead"),
		at(knownvalue.StringExact("tasks.delay-16"), "entry_exchange"),
		at(knownvalue.StringExact("tasks.delivery"), "delivery_exchange"),
		at(knownvalue.MapSizeExact(19), "exchanges"),
		at(knownvalue.StringExact("tasks.unroutable"), "exchanges", "tasks.delivery", "alternate_exchange"),
		at(knownvalue.MapSizeExact(18), "queues"),
		at(queue(16, 65_536_000, "tasks.delay-15"), "queues", "tasks.delay-16"),
		at(queue(0, 1000, "tasks.delivery"), "queues", "tasks.delay-00"),
		at(knownvalue.MapSizeExact(18), "bindings"),
		at(knownvalue.MapExact(map[string]knownvalue.Check{
			"x-dead-letter-strategy": knownvalue.StringExact("at-least-once"),
			"x-overflow":             knownvalue.StringExact("reject-publish"),
		}), "queue_arguments"),
		at(knownvalue.MapExact(map[string]knownvalue.Check{
			"*×16.1.#": knownvalue.StringExact("queue tasks.delay-00"),
			"*×16.0.#": knownvalue.StringExact("exchange tasks.delivery"),
		}), "bindings", "tasks.delay-00"),
		at(knownvalue.MapExact(map[string]knownvalue.Check{"#": knownvalue.StringExact("queue tasks.unroutable")}),
			"bindings", "tasks.unroutable"),
		at(knownvalue.StringExact("17 levels of base 2, 19 exchanges, 18 queues, 171 bindings, delays up to 36 h "+
			"24 min 31 s in steps of 1 s"), "summary"),
	}
}()

// nothingUnknown checks that the plan of a resource has no "(known after apply)", or none in some of its
// attributes.
func nothingUnknown(address string, attributes ...string) plancheck.PlanCheck {
	return checkFunc(func(req plancheck.CheckPlanRequest) error {
		for _, change := range req.Plan.ResourceChanges {
			if change.Address != address {
				continue
			}
			of, _ := change.Change.AfterUnknown.(map[string]any)
			unknown := maps.Clone(of)
			if len(attributes) > 0 {
				maps.DeleteFunc(unknown, func(name string, _ any) bool { return !slices.Contains(attributes, name) })
			}
			if paths := unknownPaths("", unknown); len(paths) > 0 {
				return fmt.Errorf("%s: known after apply: %v", address, paths)
			}
			return nil
		}
		return fmt.Errorf("%s is not in the plan", address)
	})
}

// unknownPaths lists the true values in the plan's mirror of unknown values.
func unknownPaths(path string, value any) []string {
	switch v := value.(type) {
	case bool:
		if v {
			return []string{path}
		}
	case map[string]any:
		var paths []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			paths = append(paths, unknownPaths(path+"/"+key, v[key])...)
		}
		return paths
	case []any:
		var paths []string
		for i, element := range v {
			paths = append(paths, unknownPaths(fmt.Sprintf("%s/%d", path, i), element)...)
		}
		return paths
	}
	return nil
}

// planShows checks that the plan names every exchange, queue and binding of the topology, and no other.
func planShows(address string, want topology.Topology) plancheck.PlanCheck {
	return checkFunc(func(req plancheck.CheckPlanRequest) error {
		for _, change := range req.Plan.ResourceChanges {
			if change.Address != address {
				continue
			}
			after, _ := change.Change.After.(map[string]any)
			return errorsIn(map[string][2][]string{
				"exchanges": {slices.Sorted(maps.Keys(want.Exchanges)), keysOf(after["exchanges"])},
				"queues":    {slices.Sorted(maps.Keys(want.Queues)), keysOf(after["queues"])},
				"bindings":  {bindingLines(want), plannedLines(after["bindings"])},
			})
		}
		return fmt.Errorf("%s is not in the plan", address)
	})
}

func errorsIn(compared map[string][2][]string) error {
	for what, pair := range compared {
		if !slices.Equal(pair[0], pair[1]) {
			return fmt.Errorf("%s in the plan: %q, want %q", what, pair[1], pair[0])
		}
	}
	return nil
}

func keysOf(value any) []string {
	m, _ := value.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

func bindingLines(t topology.Topology) []string {
	var lines []string
	for b := range t.Bindings {
		lines = append(lines, fmt.Sprintf("bindings %s: %s", b.Source, b.Line()))
	}
	slices.Sort(lines)
	return lines
}

func plannedLines(value any) []string {
	var lines []string
	bindings, _ := value.(map[string]any)
	for source, of := range bindings {
		destinations, _ := of.(map[string]any)
		for key, leadsTo := range destinations {
			lines = append(lines, bindingLine(source, key, leadsTo))
		}
	}
	slices.Sort(lines)
	return lines
}

// during runs between the plan and the apply.
func during(do func()) plancheck.PlanCheck {
	return checkFunc(func(plancheck.CheckPlanRequest) error { do(); return nil })
}

type checkFunc func(plancheck.CheckPlanRequest) error

func (f checkFunc) CheckPlan(_ context.Context, req plancheck.CheckPlanRequest, resp *plancheck.CheckPlanResponse) {
	resp.Error = f(req)
}
