package acceptance

import (
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A probe is never early, waits for a delay that is rounded up, leaves nothing behind, and says so when it does not
// arrive.
func TestAccProbeDataSource(t *testing.T) {
	t.Parallel()
	v := newVhost(t)
	config := delay.Config{Name: "t", Vhost: v.name, Levels: 4, CreateDeliveryExchange: true,
		StrictKeys: true, InternalLevels: true, ParkUnroutable: true}
	coarse := config
	coarse.Name, coarse.Resolution = "coarse", 2*time.Second
	v.do(plan.Repair(expand(t, config), topology.New()).Steps()...)
	v.do(plan.Repair(expand(t, coarse), topology.New()).Steps()...)
	decimal := config
	decimal.Name, decimal.Base, decimal.Levels = "decimal", 10, 2
	v.do(plan.Repair(expand(t, decimal), topology.New()).Steps()...)
	before := v.objects()
	look := func(entry, delay, tolerance string) string {
		return on(v.broker, `data "rabbitmqdelay_probe" "t" {
  vhost          = %s
  entry_exchange = %q
  delay          = %q
  tolerance      = %s
}

output "in_time" {
  value = data.rabbitmqdelay_probe.t.lateness_ms >= 0 && data.rabbitmqdelay_probe.t.lateness_ms < 1500
}
`, quote(v.name), entry, delay, tolerance)
	}
	inTime := []statecheck.StateCheck{statecheck.ExpectKnownOutputValue("in_time", knownvalue.Bool(true))}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		Steps: []resource.TestStep{
			{Config: look("t.delay-03", "1s", "null"), ConfigStateChecks: inTime},
			{Config: look("coarse.delay-03", "100ms", `"1.5s"`), ConfigStateChecks: inTime},
			{Config: look("decimal.delay-01", "2s", "null"), ConfigStateChecks: inTime},
			{Config: look("decimal.delay-01", "100s", "null"), ExpectError: saying("delay is 1m40s, longer than " +
				"1m39s")},
			{Config: look("t.delay-03", "16s", "null"), ExpectError: saying("delay is 16s, longer than 15s")},
			{Config: look("amq.topic", "1s", "null"), ExpectError: saying(`recognize the cascade behind exchange ` +
				`"amq.topic"`)},
			{
				PreConfig: func() {
					v.mustHold(before)
					v.do(plan.DeleteQueue{Queue: topology.Queue{Name: "t.delay-00"}})
				},
				Config: look("t.delay-03", "1s", "null"), ExpectError: saying("it has not arrived after 6 s"),
			},
		},
	})
	v.eventually("the probe is parked", func() bool { return v.depth("t.unroutable") > 0 })
}
