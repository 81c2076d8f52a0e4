package acceptance

import (
	"fmt"
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A healthy cascade shows its messages and has no findings; each damage is one that names the object.
func TestAccCascadeDataSource(t *testing.T) {
	t.Parallel()
	for name, is := range queueForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, queueType := harness.NewVhost(t), delay.QueueType(is.queueType)
			cascade := eitherForm{"t", 12, time.Second, is.inUnits, 2}
			entry, longest := cascade.entry(), cascade.queue(11)
			config := cascade.config()
			config.Vhost, config.QueueType = v.Name, queueType
			v.Do(plan.Repair(harness.Expand(t, config), topology.New()).Steps()...)
			for range 3 {
				v.Publish(entry, "1.0.0.0.0.0.0.0.0.0.0.0.later", "")
			}
			v.Publish(entry, "malformed", "")

			look := harness.WithProvider(v.Broker, `data "rabbitmqdelay_cascade" "t" {
  vhost          = %s
  entry_exchange = %q
}
`, harness.Quote(v.Name), entry)
			at := tfjsonpath.New[string]
			value := func(path tfjsonpath.Path, check knownvalue.Check) statecheck.StateCheck {
				return statecheck.ExpectKnownValue("data.rabbitmqdelay_cascade.t", path, check)
			}
			v.Eventually("the counts are up to date", func() bool {
				return v.Counted(longest) == 3 && v.Counted("t.unroutable") == 1 && v.HasStatistics()
			})
			finding := func(i int, object, cause, effect string) []statecheck.StateCheck {
				f := at("findings").AtSliceIndex(i)
				return []statecheck.StateCheck{
					value(f.AtMapKey("severity"), knownvalue.StringExact("error")),
					value(f.AtMapKey("object"), knownvalue.StringExact(object)),
					value(f.AtMapKey("cause"), knownvalue.StringExact(cause)),
					value(f.AtMapKey("effect"), knownvalue.StringRegexp(regexp.MustCompile(effect))),
				}
			}
			stuck := map[delay.QueueType]string{delay.Quorum: "stay in the quorum queue before it",
				delay.Classic: "are lost"}[queueType]
			damages := finding(0, fmt.Sprintf("exchange %q", cascade.exchange(2)), "missing", stuck)
			reach := "1h8m15s"
			if is.inUnits {
				reach = "34m8s" // of the longest queue
			}
			online := map[delay.QueueType]knownvalue.Check{delay.Quorum: knownvalue.Int64Exact(1),
				delay.Classic: knownvalue.Null()}[queueType]
			damages = append(damages, finding(1, fmt.Sprintf("queue %q", cascade.queue(1)), "missing", "parked")...)
			resource.Test(t, resource.TestCase{
				ProtoV6ProviderFactories: harness.Providers,
				Steps: []resource.TestStep{
					{
						Config: look,
						ConfigStateChecks: []statecheck.StateCheck{
							value(at("levels"), knownvalue.Int64Exact(12)),
							value(at("resolution"), knownvalue.StringExact("1s")),
							value(at("max_delay"), knownvalue.StringExact(reach)),
							value(at("queue_type"), knownvalue.StringExact(string(queueType))),
							value(at("lookahead"), knownvalue.Int64Exact(12)), value(at("delivery_exchange"),
								knownvalue.StringExact("t.delivery")),
							value(at("messages"), knownvalue.Int64Exact(3)), value(at("unroutable_messages"),
								knownvalue.Int64Exact(1)),
							value(at("findings"), knownvalue.ListSizeExact(v.Findings(0))),
							value(at("queues"), knownvalue.ListSizeExact(12)),
							value(at("queues").AtSliceIndex(11), knownvalue.ObjectPartial(map[string]knownvalue.Check{
								"level": knownvalue.Int64Exact(11), "digit": knownvalue.Int64Exact(1),
								"name":        knownvalue.StringExact(longest),
								"message_ttl": knownvalue.Int64Exact(2048000),
								"messages":    knownvalue.Int64Exact(3), "consumers": knownvalue.Int64Exact(0),
							})),
							value(at("queues").AtSliceIndex(11).AtMapKey("latest_arrival"), within(4095*time.Second)),
							value(at("queues").AtSliceIndex(10).AtMapKey("latest_arrival"), knownvalue.Null()),
							value(at("next_arrival"), within(4095*time.Second)),
							value(at("latest_arrival"), within(4095*time.Second)),
							value(at("queues").AtSliceIndex(11).AtMapKey("online_members"), online),
						},
					},
					{
						PreConfig: func() { v.Do(plan.DeleteExchange{Name: entry}) },
						Config:    look,
						ConfigStateChecks: append(finding(0, fmt.Sprintf("exchange %q", entry), "missing",
							"publishers get an error"),
							value(at("findings"), knownvalue.ListSizeExact(v.Findings(1)))),
					},
					{
						PreConfig: func() {
							v.Do(plan.Repair(harness.Expand(t, config), v.Objects()).Steps()...)
							v.Do(plan.DeleteExchange{Name: cascade.exchange(2)},
								plan.DeleteQueue{Queue: topology.Queue{Name: cascade.queue(1)}})
						},
						Config: look,
						ConfigStateChecks: append(damages,
							value(at("findings"), knownvalue.ListSizeExact(v.Findings(2))),
							value(at("queues"), knownvalue.ListSizeExact(11))),
					},
					{
						PreConfig: func() { v.Do(plan.DeleteExchange{Name: "t.delivery"}) },
						Config:    look,
						ConfigStateChecks: append(finding(1, `exchange "t.delivery"`, "missing", stuck),
							value(at("findings"), knownvalue.ListSizeExact(v.Findings(3)))),
					},
					{
						Config: harness.WithProvider(v.Broker,
							"data \"rabbitmqdelay_cascade\" \"t\" {\n  vhost = %s\n  "+
								"entry_exchange = \"amq.topic\"\n}\n", harness.Quote(v.Name)),
						ExpectError: harness.Saying(`recognize the cascade behind exchange "amq.topic"`),
					},
				},
			})
		})
	}
}

// within checks a time that is at most so far from now, and not more than a minute less.
func within(longest time.Duration) knownvalue.Check {
	return knownvalue.StringFunc(func(value string) error {
		at, err := time.Parse(time.RFC3339, value)
		if left := time.Until(at); err == nil && (left > longest || left < longest-time.Minute) {
			return fmt.Errorf("is in %s, want %s", left, longest)
		}
		return err
	})
}

// In base 10 there is a queue for each digit. What an application has to know is the same in the resource.
func TestAccCascadeDataSourceInBase10(t *testing.T) {
	v := harness.NewVhost(t)
	look := harness.WithProvider(v.Broker, `resource "rabbitmqdelay_cascade" "t" {
  vhost      = %s
  name       = "t"
  base       = 10
  levels     = 3
  resolution = "1h"
}

data "rabbitmqdelay_cascade" "t" {
  vhost          = rabbitmqdelay_cascade.t.vhost
  entry_exchange = rabbitmqdelay_cascade.t.entry_exchange
}

output "of_resource" {
  value = jsonencode(rabbitmqdelay_cascade.t.publisher)
}

output "of_data_source" {
  value = jsonencode(data.rabbitmqdelay_cascade.t.publisher)
}
`, harness.Quote(v.Name))
	at := tfjsonpath.New[string]
	value := func(path tfjsonpath.Path, check knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue("data.rabbitmqdelay_cascade.t", path, check)
	}
	queue := func(i, level, digit, messages int64) statecheck.StateCheck {
		return value(at("queues").AtSliceIndex(int(i)), knownvalue.ObjectPartial(map[string]knownvalue.Check{
			"level": knownvalue.Int64Exact(level), "digit": knownvalue.Int64Exact(digit),
			"name":        knownvalue.StringExact(fmt.Sprintf("t.delay-%02d-%x", level, digit)),
			"message_ttl": knownvalue.Int64Exact(digit * int64(math.Pow10(int(level))) * 3_600_000),
			"messages":    knownvalue.Int64Exact(messages), "consumers": knownvalue.Int64Exact(0),
		}))
	}
	publisher := knownvalue.StringExact(`{"entry_exchange":"t.delay-02","max_delay_ms":3596400000,` +
		`"units_ms":[360000000,36000000,3600000]}`)
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{
			{Config: look, ConfigStateChecks: []statecheck.StateCheck{
				value(at("base"), knownvalue.Int64Exact(10)), value(at("levels"), knownvalue.Int64Exact(3)),
				value(at("lookahead"), knownvalue.Int64Exact(3)),
				value(at("findings"), knownvalue.ListSizeExact(v.Findings(0))),
				value(at("queues"), knownvalue.ListSizeExact(27)),
				statecheck.ExpectKnownOutputValue("of_resource", publisher),
				statecheck.ExpectKnownOutputValue("of_data_source", publisher),
			}},
			{
				PreConfig: func() {
					v.Publish("t.delay-02", "5.0.0.later", "")
					v.Publish("t.delay-02", "0.0.9.later", "")
					v.Eventually("the counts are up to date", func() bool {
						return v.Counted("t.delay-02-5") == 1 && v.Counted("t.delay-00-9") == 1 &&
							v.HasStatistics()
					})
				},
				Config: look,
				ConfigStateChecks: []statecheck.StateCheck{queue(22, 2, 5, 1), queue(8, 0, 9, 1), queue(0, 0, 1, 0),
					value(at("messages"), knownvalue.Int64Exact(2))},
			},
			{
				PreConfig: func() {
					v.Purge("t.delay-02-5")
					v.Purge("t.delay-00-9")
					v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "t.delay-01-7"}})
				},
				// It is repaired before it is read.
				Config: look,
				ConfigStateChecks: []statecheck.StateCheck{
					value(at("queues").AtSliceIndex(15).AtMapKey("name"), knownvalue.StringExact("t.delay-01-7")),
					value(at("findings"), knownvalue.ListSizeExact(v.Findings(0)))},
			},
		},
	})
}
