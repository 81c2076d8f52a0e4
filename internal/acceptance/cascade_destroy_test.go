package acceptance

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

// A cascade stands among the objects of others. Its plan shows none of them. When it is gone, everything of theirs is
// as it was, including their bindings on the delivery exchange that it used.
func TestAccNeighbours(t *testing.T) {
	v := newVhost(t)
	const levels = 3
	v.declareExchange("events", "topic")
	v.declareExchange("other", "fanout")
	// Names that begin as those of the cascade do.
	v.declareExchange("t.delay", "topic")
	v.declareExchange("t.delay-03", "topic")
	for _, queue := range []string{"mine", "t.delay", "t.delay-03", "t.unroutable.too"} {
		v.declareQueue(queue, map[string]any{"x-queue-type": "classic"})
		v.bind("events", destination(levels, queue), "queue", queue)
		v.bind("other", "", "queue", queue)
		v.bind("t.delay-03", "1.#", "queue", queue)
	}
	v.bind("events", "#.other", "exchange", "other")
	before := v.objects()
	configuration := func(lookahead int) string {
		return on(v.broker, `
resource "rabbitmqdelay_cascade" "t" {
  vhost                    = %q
  name                     = "t"
  levels                   = %d
  lookahead                = %d
  delivery_exchange        = "events"
  create_delivery_exchange = false
}
`, v.name, levels, lookahead)
	}
	untouched := func(*terraform.State) error {
		have := v.objects()
		for _, line := range inventory(before) {
			if !slices.Contains(inventory(have), line) {
				t.Errorf("gone or changed: %s", line)
			}
		}
		return nil
	}
	resource.ParallelTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		CheckDestroy:             func(*terraform.State) error { v.mustHold(before); return nil },
		Steps: []resource.TestStep{
			{Config: configuration(3), Check: untouched},
			{
				// Somebody binds a queue of the cascade too, and an exchange of theirs to the entry.
				PreConfig: func() {
					v.bind("other", "", "queue", "t.delay-00")
					v.bind("other", "", "exchange", "t.delay-02")
				},
				Config:           configuration(3),
				ConfigPlanChecks: expectEmptyPlan,
			},
			{Config: configuration(1), Check: untouched},
		},
	})
}
