package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

func (m *cascadeModel) validate(ctx context.Context) diag.Diagnostics {
	if empty := m.emptyValues(); len(empty) > 0 {
		return configErrors(cascade.Errors(empty))
	}
	if _, errs := m.forecast(ctx); len(errs) > 0 {
		return configErrors(errs)
	}
	return m.checkDrainTimeout(ctx)
}

// setComputed plans what the configuration leaves to the provider.
func (m *cascadeModel) setComputed(config *cascadeModel, c computed) {
	m.declaredModel.setComputed(&config.declaredModel, c)
	fill(&m.Base, config.Base, c, "base")
	fill(&m.Levels, config.Levels, c, "levels")
	fill(&m.MaxDelay, config.MaxDelay, c, "max_delay")
	fill(&m.Resolution, config.Resolution, c, "resolution")
	fill(&m.StrictKeys, config.StrictKeys, c, "strict_keys")
	fill(&m.InternalLevels, config.InternalLevels, c, "internal_levels")
	fill(&m.Lookahead, config.Lookahead, c, "lookahead")
	fill(&m.ExchangeName, config.ExchangeName, c, "exchange_name")
	fill(&m.Publisher, config.Publisher, c, "publisher")
	fill(&m.Policies, config.Policies, c, "policies")
}

func (m *cascadeModel) alteredBy(plan *cascadeModel) (path.Paths, diag.Diagnostics) {
	sameOwner := *plan
	sameOwner.CreateDeliveryExchange = m.CreateDeliveryExchange
	return m.declaredModel.alteredBy(&plan.declaredModel, []change{
		{"preset", m.Preset, plan.Preset},
		{"base", m.Base, plan.Base},
		{"levels", m.Levels, plan.Levels},
		{"resolution", m.Resolution, plan.Resolution},
		{"exchange_name", m.ExchangeName, plan.ExchangeName},
		{"internal_levels", m.InternalLevels, plan.InternalLevels},
	}, m.expand, sameOwner.expand)
}
