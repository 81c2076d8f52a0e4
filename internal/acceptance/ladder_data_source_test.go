package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A healthy ladder shows its messages by delay and has no findings; a damage and a binding for a cascade's keys are
// some.
func TestAccLadderDataSource(t *testing.T) {
	t.Parallel()
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil).MustApply(harness.Attributes{
				"vhost": v.Name, "name": "t", "delays": harness.TextList("2h", "1h", "90m"), "queue_type": queueType,
			})
			for range 3 {
				v.Publish("t.entry", "90m.orders", "")
			}
			v.Publish("t.entry", "7h.orders", "")
			v.Eventually(
				"the counts are up to date",
				func() bool {
					return v.Counted("t.delay-90m") == 3 && v.Counted("t.unroutable") == 1 && v.HasStatistics()
				},
			)

			look := harness.WithProvider(
				v.Broker,
				"data \"rabbitmqdelay_ladder\" \"t\" {\n  vhost          = %s\n  entry_exchange = \"t.entry\"\n}\n",
				harness.Quote(v.Name),
			)
			at := tfjsonpath.New[string]
			value := func(path tfjsonpath.Path, check knownvalue.Check) statecheck.StateCheck {
				return statecheck.ExpectKnownValue("data.rabbitmqdelay_ladder.t", path, check)
			}
			queue := func(i int, delay string, ttl, messages int64) statecheck.StateCheck {
				return value(at("queues").AtSliceIndex(i), knownvalue.ObjectPartial(map[string]knownvalue.Check{
					"delay": knownvalue.StringExact(
						delay,
					),
					"name":        knownvalue.StringExact("t.delay-" + delay),
					"message_ttl": knownvalue.Int64Exact(ttl),
					"messages":    knownvalue.Int64Exact(messages),
					"consumers":   knownvalue.Int64Exact(0),
				}))
			}
			finding := func(i int, key, says string) statecheck.StateCheck {
				return value(at("findings").AtSliceIndex(i).AtMapKey(key), knownvalue.StringExact(says))
			}
			resource.Test(t, resource.TestCase{
				ProtoV6ProviderFactories: harness.Providers,
				Steps: []resource.TestStep{
					{
						Config: look,
						ConfigStateChecks: []statecheck.StateCheck{
							value(
								at("delivery_exchange"),
								knownvalue.StringExact("t.delivery"),
							),
							value(at("queue_type"), knownvalue.StringExact(queueType)),
							value(
								at("dead_letter_routing_key"),
								knownvalue.Null(),
							),
							value(at("messages"), knownvalue.Int64Exact(3)),
							value(at("next_arrival"), within(90*time.Minute)),
							value(at("latest_arrival"), within(90*time.Minute)),
							value(
								at("unroutable_messages"),
								knownvalue.Int64Exact(1),
							),
							value(at("findings"), knownvalue.ListSizeExact(v.Findings(0))),
							value(at("publisher"), knownvalue.ObjectExact(map[string]knownvalue.Check{
								"entry_exchange": knownvalue.StringExact("t.entry"),
								"delays_ms": knownvalue.MapExact(map[string]knownvalue.Check{
									"1h": knownvalue.Int64Exact(3_600_000), "90m": knownvalue.Int64Exact(5_400_000),
									"2h": knownvalue.Int64Exact(7_200_000),
								}),
							})),
							value(at("queues"), knownvalue.ListSizeExact(3)),
							queue(0, "1h", 3_600_000, 0),
							queue(1, "90m", 5_400_000, 3),
							queue(2, "2h", 7_200_000, 0),
						},
					},
					{
						PreConfig: func() {
							v.Do(plan.Unbind{Binding: topology.Binding{
								Source:          "t.unroutable",
								RoutingKey:      "#",
								DestinationType: topology.ToQueue,
								Destination:     "t.unroutable",
							}})
							v.DeclareQueue("orders", nil)
							v.Bind("t.delivery", "*.*.orders", "queue", "orders")
						},
						Config: look,
						ConfigStateChecks: []statecheck.StateCheck{
							value(at("findings"), knownvalue.ListSizeExact(v.Findings(2))),
							finding(0, "cause", "missing"),
							finding(1, "cause", "made for levels = 2, not 1"),
							finding(
								1,
								"effect",
								`the binding takes no message of the ladder. Messages for "orders" are unroutable, `+
									`unless something else is bound for them`,
							),
						},
					},
				},
			})
		})
	}
}

// The data sources of cascades and ladders name each other where one is asked for what the other shows. They name the
// entry where they are asked for an object behind it.
func TestDataSourcesNameEachOther(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "tasks", "levels": 3})
	p := harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil)
	p.MustApply(harness.Attributes{"vhost": v.Name, "name": "retry", "delays": harness.TextList("5s")})
	for _, is := range []struct{ asked, entry, shows, itsEntry string }{
		{harness.CascadeType, "retry.entry", harness.LadderType, "retry.entry"},
		{harness.LadderType, "tasks.delay-02", harness.CascadeType, "tasks.delay-02"},
		{harness.LadderType, "tasks.delay-01", harness.CascadeType, "tasks.delay-02"},
		{harness.CascadeType, "tasks.delay-01", harness.CascadeType, "tasks.delay-02"},
	} {
		text := harness.ErrorText(p.Read(t.Context(), is.asked, harness.Attributes{"vhost": v.Name,
			"entry_exchange": is.entry}))
		if want := fmt.Sprintf(
			"with the data source %s and entry_exchange = %q",
			is.shows,
			is.itsEntry,
		); !strings.Contains(
			text,
			want,
		) {
			t.Errorf("%s of %s does not say %s: %s", is.asked, is.entry, want, text)
		}
	}
}
