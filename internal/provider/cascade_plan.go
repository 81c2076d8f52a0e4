package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

func (m *cascadeModel) validate(ctx context.Context) diag.Diagnostics {
	empty := m.emptyValues()
	if diags := empty.diagnostics(); diags.HasError() {
		return diags
	}
	_, errs, diags := m.forecast(ctx)
	if len(errs) > 0 {
		diags.Append(configErrors(errs)...)
		return diags
	}
	diags.Append(m.checkDrainTimeout(ctx, "delete", m.Timeouts.Delete)...)
	diags.Append(m.checkDrainTimeout(ctx, "update", m.Timeouts.Update)...)
	return diags
}

func (m *cascadeModel) complete(ctx context.Context, config *cascadeModel) diag.Diagnostics {
	computed, errs, diags := config.forecast(ctx)
	if len(errs) > 0 {
		diags.Append(configErrors(errs)...)
	}
	if !diags.HasError() {
		m.setComputed(*config, computed)
	}
	return diags
}

// setComputed plans what the configuration leaves to the provider.
func (m *cascadeModel) setComputed(config cascadeModel, c computed) {
	m.declaredModel.setComputed(config.declaredModel, c.declaredComputed)
	fill(&m.Levels, config.Levels, c.Levels)
	fill(&m.MaxDelay, config.MaxDelay, c.MaxDelay)
	fill(&m.Resolution, config.Resolution, c.Resolution)
	fill(&m.StrictKeys, config.StrictKeys, c.StrictKeys)
	fill(&m.InternalLevels, config.InternalLevels, c.InternalLevels)
	fill(&m.Lookahead, config.Lookahead, c.Lookahead)
	fill(&m.ExchangeName, config.ExchangeName, c.ExchangeName)
}

func (m *cascadeModel) alteredBy(plan *cascadeModel) (path.Paths, diag.Diagnostics) {
	return m.declaredModel.alteredBy(&plan.declaredModel, []change{
		{"preset", m.Preset, plan.Preset},
		{"levels", m.Levels, plan.Levels},
		{"resolution", m.Resolution, plan.Resolution},
		{"exchange_name", m.ExchangeName, plan.ExchangeName},
		{"internal_levels", m.InternalLevels, plan.InternalLevels},
	}, func() (bool, diag.Diagnostics) { return m.sameObjects(*plan) })
}

// loses is false: a cascade with other queues is rebuilt.
func (m *cascadeModel) loses(*cascadeModel) bool { return false }

// sameObjects tells whether both models stand for the same exchanges and queues.
func (m *cascadeModel) sameObjects(plan cascadeModel) (bool, diag.Diagnostics) {
	plan.CreateDeliveryExchange = m.CreateDeliveryExchange
	before, diags := m.expand()
	after, more := plan.expand()
	diags.Append(more...)
	return before.SameObjects(after), diags
}
