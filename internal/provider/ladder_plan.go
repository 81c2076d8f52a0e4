package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func (m *ladderModel) validate(ctx context.Context) diag.Diagnostics {
	empty := m.declaredModel.emptyValues()
	empty.texts(map[string]types.String{"entry_exchange": m.EntryExchange, "dead_letter_routing_key": m.DeadLetterRoutingKey})
	if diags := empty.diagnostics(); diags.HasError() {
		return diags
	}
	_, diags := m.forecast(ctx)
	diags.Append(m.checkDrainTimeout(ctx, "delete", m.Timeouts.Delete)...)
	diags.Append(m.checkDrainTimeout(ctx, "update", m.Timeouts.Update)...)
	return diags
}

func (m *ladderModel) complete(ctx context.Context, config *ladderModel) diag.Diagnostics {
	computed, diags := config.forecast(ctx)
	if !diags.HasError() {
		m.setComputed(config.declaredModel, computed)
	}
	return diags
}

// alteredBy implements declaration. Delays come and go in place,
// unless a queue would have to get another time-to-live under its name.
func (m *ladderModel) alteredBy(plan *ladderModel) (path.Paths, diag.Diagnostics) {
	altered, diags := m.declaredModel.alteredBy(&plan.declaredModel, []change{
		{"entry_exchange", m.EntryExchange, plan.EntryExchange},
		{"dead_letter_routing_key", m.DeadLetterRoutingKey, plan.DeadLetterRoutingKey},
	}, func() (bool, diag.Diagnostics) {
		sameDelays := *plan
		sameDelays.Delays, sameDelays.CreateDeliveryExchange = m.Delays, m.CreateDeliveryExchange
		before, diags := m.expand()
		after, more := sameDelays.expand()
		diags.Append(more...)
		return before.SameObjects(after), diags
	})
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

// loses is false where the plan is not known yet.
func (m *ladderModel) loses(plan *ladderModel) bool {
	if !plan.isKnown() {
		return false
	}
	before, diags := m.expand()
	after, more := plan.expand()
	return !diags.HasError() && !more.HasError() && len(before.Without(after).Queues) > 0
}
