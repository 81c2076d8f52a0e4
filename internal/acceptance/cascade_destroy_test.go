package acceptance

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// A cascade stands among the objects of others. Its plan shows none of them. When it is gone, everything of theirs is
// as it was, including their bindings on the delivery exchange that it used.
func TestAccNeighbours(t *testing.T) {
	v := harness.NewVhost(t)
	const levels = 3
	v.DeclareExchange("events", "topic")
	v.DeclareExchange("other", "fanout")
	// Names that begin as those of the cascade do.
	v.DeclareExchange("t.delay", "topic")
	v.DeclareExchange("t.delay-03", "topic")
	for _, queue := range []string{"mine", "t.delay", "t.delay-03", "t.unroutable.too"} {
		v.DeclareQueue(queue, map[string]any{"x-queue-type": "classic"})
		v.Bind("events", harness.DestinationKey(levels, queue), "queue", queue)
		v.Bind("other", "", "queue", queue)
		v.Bind("t.delay-03", "1.#", "queue", queue)
	}
	v.Bind("events", "#.other", "exchange", "other")
	before := v.Objects()
	configuration := func(lookahead int) string {
		return harness.WithProvider(v.Broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost                    = %q
  name                     = "t"
  levels                   = %d
  lookahead                = %d
  delivery_exchange        = "events"
  create_delivery_exchange = false
}
`, v.Name, levels, lookahead)
	}
	untouched := func(*terraform.State) error {
		have := v.Objects()
		for _, line := range harness.Inventory(before) {
			if !slices.Contains(harness.Inventory(have), line) {
				t.Errorf("gone or changed: %s", line)
			}
		}
		return nil
	}
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: harness.Providers,
		CheckDestroy:             func(*terraform.State) error { v.MustHold(before); return nil },
		Steps: []resource.TestStep{
			{Config: configuration(3), Check: untouched},
			{
				// Somebody binds a queue of the cascade too, and an exchange of theirs to the entry.
				PreConfig: func() {
					v.Bind("other", "", "queue", "t.delay-00")
					v.Bind("other", "", "exchange", "t.delay-02")
				},
				Config:           configuration(3),
				ConfigPlanChecks: harness.ExpectEmptyPlan,
			},
			{Config: configuration(1), Check: untouched},
		},
	})
}
