package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// optional are the attributes of a resource that a configuration can give.
func optional(t *testing.T, typeName string) []string {
	t.Helper()
	p := harness.NewServerOf(t, typeName)
	var names []string
	for name := range p.Resource.AttributeTypes {
		if p.Given[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// With ignore_changes, Terraform hands over the state's values as configuration. So attributes stand side by side of
// which one is given and the other computed. That is no conflict, whatever is ignored.
func TestIgnoredChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ resource, arguments string }{
		"cascade of a preset": {harness.CascadeType, `preset = "celery_classic"`},
		"cascade by delay":    {harness.CascadeType, `name = "ID", max_delay = "2s", queue_type = "classic"`},
		"cascade by levels": {harness.CascadeType, `name = "ID", levels = 2, max_length = 5, drain_timeout = "60s", ` +
			`timeouts = { delete = "120s" }`},
		"cascade by names": {harness.CascadeType, `exchange_name = "ID.x%02d", queue_name = "ID.q%3d",
			delivery_exchange = "ID.d", park_unroutable = false, base = 2, max_delay = "1500ms", resolution = "500ms",
			queue_type = "classic", lookahead = 1, strict_keys = false, internal_levels = false`},
		"ladder": {harness.LadderType, `name = "ID", delays = ["60s"], max_length = 5, force_destroy = true`},
		"ladder by names": {harness.LadderType,
			`entry_exchange = "ID.e", queue_name = "ID.q", delivery_exchange = "ID.d",
			park_unroutable = false, delays = ["1s"], dead_letter_routing_key = "k",
			queue_type = "classic", drain_timeout = "60s"`},
		"destination": {harness.DestinationType,
			`delivery_exchange = "amq.topic", levels = 2, address = "ID", queue = ` +
				`"taker", drain_timeout = "60s"`},
		"destination of a suffix": {harness.DestinationType,
			`delivery_exchange = "amq.topic", match = "suffix", address = "ID",
			exchange = "amq.fanout", triggers = { a = "b" }`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := harness.NewWorkspace(t, harness.NewVhost(t))
			w.DeclareQueue("taker", nil)
			ignored := []string{"all"}
			for _, attribute := range optional(t, test.resource) {
				ignored = append(ignored, "["+attribute+"]")
			}
			rounds := [][]string{ignored}
			if strings.Contains(test.arguments, "preset") { // of which a vhost has room for one
				rounds = [][]string{{"all"}, {strings.ReplaceAll(strings.Join(ignored[1:], ","), "],[", ",")}}
			}
			for _, round := range rounds {
				var configuration strings.Builder
				for i, ignore := range round {
					id := fmt.Sprintf("r%d", i)
					of := strings.ReplaceAll(strings.ReplaceAll(test.arguments, "ID", id), ",", "\n")
					fmt.Fprintf(&configuration, "resource %q %q {\nVHOST\n%s\nlifecycle {\nignore_changes = %s\n}\n}\n",
						test.resource, id, of, ignore)
				}
				w.MustApply(configuration.String())
				w.MustBeSettled()
			}
		})
	}
}

// What ignore_changes keeps and the configuration changes may not fit together. That is an error on the attribute.
func TestIgnoredChangesInConflict(t *testing.T) {
	t.Parallel()
	w := harness.NewWorkspace(t, harness.NewVhost(t))
	w.DeclareQueue("taker", nil)
	configuration := func(maxDelay, lookahead, end string) string {
		return fmt.Sprintf(`
resource "rabbitmqdelay_cascade" "a" {
  VHOST
  name      = "a"
  base      = 2
  max_delay = %q
  lifecycle {
    ignore_changes = [levels]
  }
}

resource "rabbitmqdelay_cascade" "b" {
  VHOST
  name   = "b"
  levels = %s
  lifecycle {
    ignore_changes = [lookahead]
  }
}

resource "rabbitmqdelay_destination" "d" {
  VHOST
  delivery_exchange = "amq.topic"
  match             = "suffix"
  address           = "orders"
  %s
  lifecycle {
    ignore_changes = [queue]
  }
}
`, maxDelay, lookahead, end)
	}
	before, other := `queue = "taker"`, `exchange = "amq.fanout"`
	w.MustApply(configuration("3s", "2", before))
	w.MustApply(configuration("2s", "2", before))
	w.MustBeSettled()
	w.MustRefuse(configuration("4s", "2", before), "Invalid levels",
		"levels is 2, but the max_delay beside it, 4s, takes 3; leave one of the two out, it is computed",
		"ignore_changes")
	w.MustRefuse(configuration("2s", "1", before), "Invalid lookahead", "lookahead is 2; with 1 levels it can be 1")
	w.MustRefuse(configuration("2s", "2", other), "Invalid queue", "queue is given beside exchange")
}
