package provider

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A healthy cascade shows its messages and has no findings; each damage is one that names the object.
func TestAccCascadeDataSource(t *testing.T) {
	t.Parallel()
	for _, queueType := range []cascade.QueueType{cascade.Quorum, cascade.Classic} {
		t.Run(string(queueType), func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			config := cascade.Config{Name: "t", Vhost: v.name, Levels: 12, QueueType: queueType, CreateDeliveryExchange: true,
				StrictKeys: true, InternalLevels: true, ParkUnroutable: true}
			v.do(topology.Diff(expand(t, config), topology.New()).Steps()...)
			for range 3 {
				v.publish("t.delay-11", "1.0.0.0.0.0.0.0.0.0.0.0.later", "")
			}
			v.publish("t.delay-11", "malformed", "")

			look := on(v.broker, `data "rabbitmqdelay_cascade" "t" {
  vhost          = %s
  entry_exchange = "t.delay-11"
}
`, quote(v.name))
			at := tfjsonpath.New[string]
			value := func(path tfjsonpath.Path, check knownvalue.Check) statecheck.StateCheck {
				return statecheck.ExpectKnownValue("data.rabbitmqdelay_cascade.t", path, check)
			}
			v.eventually("the counts are up to date", func() bool {
				return v.counted("t.delay-11") == 3 && v.counted("t.unroutable") == 1
			})
			finding := func(i int, object, cause, effect string) []statecheck.StateCheck {
				f := at("findings").AtSliceIndex(i)
				return []statecheck.StateCheck{
					value(f.AtMapKey("severity"), knownvalue.StringExact("error")), value(f.AtMapKey("object"), knownvalue.StringExact(object)),
					value(f.AtMapKey("cause"), knownvalue.StringExact(cause)), value(f.AtMapKey("effect"), knownvalue.StringRegexp(regexp.MustCompile(effect))),
				}
			}
			damages := finding(0, `exchange "t.delay-02"`, "missing", "do not get on")
			damages = append(damages, finding(1, `queue "t.delay-01"`, "missing", "unroutable")...)
			resource.Test(t, resource.TestCase{
				ProtoV6ProviderFactories: factories,
				Steps: []resource.TestStep{
					{
						Config: look,
						ConfigStateChecks: []statecheck.StateCheck{
							value(at("levels"), knownvalue.Int64Exact(12)), value(at("resolution"), knownvalue.StringExact("1s")),
							value(at("max_delay"), knownvalue.StringExact("1h8m15s")), value(at("queue_type"), knownvalue.StringExact(string(queueType))),
							value(at("lookahead"), knownvalue.Int64Exact(12)), value(at("delivery_exchange"), knownvalue.StringExact("t.delivery")),
							value(at("messages"), knownvalue.Int64Exact(3)), value(at("unroutable_messages"), knownvalue.Int64Exact(1)),
							value(at("findings"), knownvalue.ListSizeExact(0)), value(at("queues"), knownvalue.ListSizeExact(12)),
							value(at("queues").AtSliceIndex(11), knownvalue.ObjectExact(map[string]knownvalue.Check{
								"level": knownvalue.Int64Exact(11), "name": knownvalue.StringExact("t.delay-11"), "message_ttl": knownvalue.Int64Exact(2048000),
								"messages": knownvalue.Int64Exact(3), "consumers": knownvalue.Int64Exact(0),
							})),
						},
					},
					{
						PreConfig: func() {
							v.do(topology.DeleteExchange{Name: "t.delay-02"}, topology.DeleteQueue{Queue: topology.Queue{Name: "t.delay-01"}})
						},
						Config:            look,
						ConfigStateChecks: append(damages, value(at("queues"), knownvalue.ListSizeExact(11))),
					},
					{
						Config:      on(v.broker, "data \"rabbitmqdelay_cascade\" \"t\" {\n  vhost = %s\n  entry_exchange = \"amq.topic\"\n}\n", quote(v.name)),
						ExpectError: saying(`recognize the cascade behind exchange "amq.topic"`),
					},
				},
			})
		})
	}
}

// counted is the number of messages in a queue by the management API, which lags.
func (v *vhost) counted(queue string) int {
	v.Helper()
	var answer struct{ Messages int }
	v.get(&answer, "queues", v.name, queue)
	return answer.Messages
}
