package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

func (m *ladderModel) validate(ctx context.Context) diag.Diagnostics {
	empty := m.declaredModel.emptyValues()
	empty.texts(map[string]types.String{"entry_exchange": m.EntryExchange,
		"dead_letter_routing_key": m.DeadLetterRoutingKey})
	if len(empty) > 0 {
		return configErrors(cascade.Errors(empty))
	}
	_, errs := m.forecast(ctx)
	return append(configErrors(errs), m.checkDrainTimeout(ctx)...)
}

func (m *ladderModel) setComputed(config *ladderModel, c computed) {
	m.declaredModel.setComputed(&config.declaredModel, c)
}

// alteredBy implements declaration. Delays come and go in place, unless a queue would have to get another TTL
// under its name.
func (m *ladderModel) alteredBy(plan *ladderModel) (path.Paths, diag.Diagnostics) {
	sameDelays := *plan
	sameDelays.Delays, sameDelays.CreateDeliveryExchange = m.Delays, m.CreateDeliveryExchange
	altered, diags := m.declaredModel.alteredBy(&plan.declaredModel, []change{
		{"entry_exchange", m.EntryExchange, plan.EntryExchange},
		{"dead_letter_routing_key", m.DeadLetterRoutingKey, plan.DeadLetterRoutingKey},
	}, m.expand, sameDelays.expand)
	if len(altered) > 0 || diags.HasError() || m.Delays.Equal(plan.Delays) || !plan.isKnown() {
		return altered, diags
	}
	before, diags := m.expand()
	after, more := plan.expand()
	diags.Append(more...)
	for name, q := range after.Queues {
		if had, exists := before.Queues[name]; exists && !had.Equal(q) {
			return path.Paths{path.Root("delays")}, diags
		}
	}
	return nil, diags
}
