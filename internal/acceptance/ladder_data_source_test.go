package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

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
			v := newVhost(t)
			newProtocolOf(t, ladderType, v.broker, nil).mustApply(attributes{
				"vhost": v.name, "name": "t", "delays": textSet("2h", "1h", "90m"), "queue_type": queueType,
			})
			for range 3 {
				v.publish("t.entry", "90m.orders", "")
			}
			v.publish("t.entry", "7h.orders", "")
			v.eventually(
				"the counts are up to date",
				func() bool {
					return v.counted("t.delay-90m") == 3 && v.counted("t.unroutable") == 1 && v.hasStatistics()
				},
			)

			look := on(
				v.broker,
				"data \"rabbitmqdelay_ladder\" \"t\" {\n  vhost          = %s\n  entry_exchange = \"t.entry\"\n}\n",
				quote(v.name),
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
				ProtoV6ProviderFactories: factories,
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
							value(
								at("unroutable_messages"),
								knownvalue.Int64Exact(1),
							),
							value(at("findings"), knownvalue.ListSizeExact(0)),
							value(at("queues"), knownvalue.ListSizeExact(3)),
							queue(0, "1h", 3_600_000, 0),
							queue(1, "90m", 5_400_000, 3),
							queue(2, "2h", 7_200_000, 0),
						},
					},
					{
						PreConfig: func() {
							v.do(plan.Unbind{Binding: topology.Binding{
								Source:          "t.unroutable",
								RoutingKey:      "#",
								DestinationType: topology.ToQueue,
								Destination:     "t.unroutable",
							}})
							v.declareQueue("orders", nil)
							v.bind("t.delivery", "*.*.orders", "queue", "orders")
						},
						Config: look,
						ConfigStateChecks: []statecheck.StateCheck{
							value(at("findings"), knownvalue.ListSizeExact(2)),
							finding(0, "cause", "missing"),
							finding(1, "cause", "made for levels = 2, not 1"),
							finding(
								1,
								"effect",
								`it takes no message of the ladder: those for "orders" are unroutable unless `+
									`something else is bound for them`,
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
	v := newVhost(t)
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "tasks", "levels": 3})
	p := newProtocolOf(t, ladderType, v.broker, nil)
	p.mustApply(attributes{"vhost": v.name, "name": "retry", "delays": textSet("5s")})
	for _, is := range []struct{ asked, entry, shows, itsEntry string }{
		{cascadeType, "retry.entry", ladderType, "retry.entry"},
		{ladderType, "tasks.delay-02", cascadeType, "tasks.delay-02"},
		{ladderType, "tasks.delay-01", cascadeType, "tasks.delay-02"},
		{cascadeType, "tasks.delay-01", cascadeType, "tasks.delay-02"},
	} {
		text := errorText(p.read(t.Context(), is.asked, attributes{"vhost": v.name, "entry_exchange": is.entry}))
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
