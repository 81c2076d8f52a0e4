package provider

import (
	"context"
	"fmt"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// listDescription implements listed.
func (*ladderModel) listDescription() string {
	return "Finds the ladders of a virtual host or of the whole broker, for `terraform query`, " +
		"whoever declared them. The query also writes `resource` and `import` blocks for them. Needs Terraform 1.14 " +
		"or later.\n\n" +
		"A ladder is found by its entry exchange and the keys that lead from there to queues, such as `30s.*.#`, as " +
		"an import recognizes it. For that the queue of one delay has to be whole. Bindings to other queues, such as " +
		"those of another ladder, do not hide it; a plan shows them as drift."
}

func (*ladderModel) canBeEntry(e topology.Exchange) bool { return cascade.CanBeLadderEntry(e) }

func (*ladderModel) entries(ctx context.Context, vhost *cascade.Inventory) []string {
	return vhost.Ladders(ctx)
}

func (m *ladderModel) displayName() string {
	name := m.Name.ValueString()
	if name == "" {
		name = m.EntryExchange.ValueString()
	}
	delays := m.config().Delays
	if resolved, err := m.config().Resolve(); err == nil {
		delays = resolved.Delays // from the shortest to the longest
	}
	return fmt.Sprintf("%s (%s)", name, strings.Join(delays, ", "))
}
