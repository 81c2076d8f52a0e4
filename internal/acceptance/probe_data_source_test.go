package acceptance

import (
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A probe is never early, waits for a delay that is rounded up, leaves nothing behind, and says so when it does not
// arrive.
func TestAccProbeDataSource(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	config := delay.Config{Name: "t", Vhost: v.Name, Levels: 4, CreateDeliveryExchange: true,
		StrictKeys: true, ParkUnroutable: true}
	coarse := config
	coarse.Name, coarse.Resolution = "coarse", 6*time.Second
	v.Do(plan.Repair(harness.Expand(t, config), topology.New()).Steps()...)
	v.Do(plan.Repair(harness.Expand(t, coarse), topology.New()).Steps()...)
	decimal := config
	decimal.Name, decimal.Base, decimal.Levels = "decimal", 10, 2
	v.Do(plan.Repair(harness.Expand(t, decimal), topology.New()).Steps()...)
	before := v.Objects()
	look := func(entry, delay, tolerance string) string {
		return harness.WithProvider(v.Broker, `data "rabbitmqdelay_probe" "t" {
  vhost          = %s
  entry_exchange = %q
  delay          = %q
  tolerance      = %s
}

output "in_time" {
  value = data.rabbitmqdelay_probe.t.lateness_ms >= 0 && data.rabbitmqdelay_probe.t.lateness_ms <= %d
}
`, harness.Quote(v.Name), entry, delay, tolerance, mostLateness.Milliseconds())
	}
	inTime := []statecheck.StateCheck{statecheck.ExpectKnownOutputValue("in_time", knownvalue.Bool(true))}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		Steps: []resource.TestStep{
			{Config: look("t.delay-03", "1s", "null"), ConfigStateChecks: inTime},
			// Without the rounding, the tolerance would be over before the message is due.
			{Config: look("coarse.delay-03", "100ms", `"5s"`), ConfigStateChecks: inTime},
			{Config: look("decimal.delay-01", "2s", "null"), ConfigStateChecks: inTime},
			{Config: look("decimal.delay-01", "100s", "null"),
				ExpectError: harness.Saying("delay is 1m40s, longer than " + "1m39s")},
			{Config: look("t.delay-03", "16s", "null"), ExpectError: harness.Saying("delay is 16s, longer than 15s")},
			{Config: look("amq.topic", "1s", "null"),
				ExpectError: harness.Saying(`recognize the cascade behind exchange ` +
					`"amq.topic"`)},
			{
				PreConfig: func() {
					v.MustHold(before)
					v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "t.delay-00"}})
				},
				Config: look("t.delay-03", "1s", "null"), ExpectError: harness.Saying("it has not arrived after 6 s"),
			},
		},
	})
	v.Eventually("the probe is parked", func() bool { return v.Depth("t.unroutable") > 0 })
}
