package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A probe is never early, leaves nothing behind, and says so when it does not arrive.
func TestAccProbeDataSource(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	config := cascade.Config{Name: "t", Vhost: v.name, Levels: 4, CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true}
	v.do(topology.Diff(expand(t, config), topology.New()).Steps()...)
	look := func(entry, delay string) string {
		return on(v.broker, `data "rabbitmqdelay_probe" "t" {
  vhost          = %s
  entry_exchange = %q
  delay          = %q
}

output "never_early" {
  value = data.rabbitmqdelay_probe.t.lateness_ms >= 0
}
`, quote(v.name), entry, delay)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		Steps: []resource.TestStep{
			{
				Config:            look("t.delay-03", "1s"),
				ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownOutputValueAtPath("never_early", tfjsonpath.Path{}, knownvalue.Bool(true))},
			},
			{Config: look("t.delay-03", "16s"), ExpectError: saying("delay is 16s, longer than 15s")},
			{Config: look("amq.topic", "1s"), ExpectError: saying(`recognize the cascade behind exchange "amq.topic"`)},
			{
				PreConfig: func() {
					v.mustHold(expand(t, config))
					v.do(topology.DeleteQueue{Queue: topology.Queue{Name: "t.delay-00"}})
				},
				Config: look("t.delay-03", "1s"), ExpectError: saying("it has not arrived after 6s"),
			},
		},
	})
	v.eventually("the probe is parked", func() bool { return v.depth("t.unroutable") > 0 })
}
