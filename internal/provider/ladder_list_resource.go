package provider

import (
	"fmt"
	"strings"
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
