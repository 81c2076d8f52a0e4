package acceptance

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Whatever RabbitMQ takes as a name works from the plan to the import. That holds also where the name means something
// to URLs, to Terraform's language, to formats or to routing keys.
func TestAccNames(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{
		`a b/c%d@e#f*g?h"i${j}k%{l}`,
		`été/日本語 ~+;=&%2F:\`,
		`..`,
	} {
		t.Run(odd, func(t *testing.T) {
			b := brokertest.Shared(t)
			name := fmt.Sprintf("%s %06x", odd, rand.IntN(1<<24))
			v := harness.NewVhostNamed(t, b, name)

			const levels, unit = 3, 50 * time.Millisecond
			config := delay.Config{
				Vhost: name, Name: "name " + odd, Levels: levels, Resolution: unit,
				ExchangeName:     delay.Format(delay.Escape("exchange "+odd) + "%d" + delay.Escape(odd)),
				QueueName:        delay.Format(delay.Escape("queue "+odd) + " %02d"),
				DeliveryExchange: "delivery " + odd, CreateDeliveryExchange: true,
				StrictKeys: true, ParkUnroutable: true,
			}
			want := harness.Expand(t, config)
			configuration := harness.WithProvider(b, `
resource "rabbitmqdelay_cascade" "t" {
  vhost             = %s
  name              = %s
  levels            = %d
  resolution        = "%s"
  exchange_name     = %s
  queue_name        = %s
  delivery_exchange = %s
}
`, harness.Quote(name), harness.Quote(config.Name), levels, unit, harness.Quote(string(config.ExchangeName)),
				harness.Quote(string(config.QueueName)), harness.Quote(config.DeliveryExchange))

			resource.ParallelTest(t, resource.TestCase{
				ProtoV6ProviderFactories: harness.Providers,
				CheckDestroy: func(*terraform.State) error {
					used := topology.New() // by the collector
					used.Exchanges[want.Delivery] = want.Exchanges[want.Delivery]
					v.MustHold(used)
					return nil
				},
				Steps: []resource.TestStep{
					{
						Config: configuration,
						ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
							nothingUnknown("rabbitmqdelay_cascade.t"), planShows("rabbitmqdelay_cascade.t", want),
						}},
						Check: func(*terraform.State) error {
							v.MustHold(want)
							c := cascadeUnderTest{v, harness.BinaryScale(levels, unit), want.Entry, want.Delivery}
							collector := c.Collect(want.Delivery, harness.DestinationKey(levels, "here"))
							sent := c.send(5, "here")
							if took := v.Arrived(collector, 1)[0].At.Sub(sent); took < harness.Least(5*unit) {
								t.Errorf("a message with a delay of %s took %s", 5*unit, took)
							}
							return nil
						},
					},
					{
						ResourceName:      "rabbitmqdelay_cascade.t",
						ImportState:       true,
						ImportStateId:     harness.ImportID(name, want.Entry),
						ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "entry_exchange",
					},
					{
						ResourceName:    "rabbitmqdelay_cascade.t",
						ImportState:     true,
						ImportStateKind: resource.ImportBlockWithID,
						ImportStateId:   harness.ImportID(name, want.Entry),
					},
				},
			})
		})
	}
}
