package provider

import (
	"fmt"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// listDescription implements listed.
func (*cascadeModel) listDescription() string {
	return "Finds the delay cascades of a virtual host or of the whole broker, for `terraform query`, " +
		"whoever declared them. The query also writes `resource` and `import` blocks for them. Needs Terraform 1.14 " +
		"or later.\n\n" +
		"A cascade is found by the keys of its entry exchange and the objects behind it, as an import recognizes it. " +
		"Damage does not hide it as long as the keys say what it was. One whose entry is gone, or leads nowhere, is " +
		"not found. It can still be imported by its identity if the exchange below proves it."
}

func (m *cascadeModel) displayName() string {
	name := m.Name.ValueString()
	switch {
	case m.Preset.ValueString() != "":
		name = m.Preset.ValueString()
	case name == "":
		name = m.EntryExchange.ValueString()
	}
	levels := "1 level"
	if n := m.Levels.ValueInt64(); n > 1 {
		levels = fmt.Sprintf("%d levels", n)
	}
	return fmt.Sprintf("%s (%s, up to %s)", name, levels, plaintext.Duration(durationOf(m.MaxDelay)))
}
