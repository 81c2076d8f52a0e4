package deploy

import (
	"fmt"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
)

// Findings are the things that no operation repairs.
func (d *Deployment) Findings(state *broker.State) []health.Finding {
	found := health.Findings(state.Queues, state.Status)
	parks := d.Desired.Exchanges[d.Desired.Entry].AlternateExchange() != ""
	if parks && !ownsDelivery(d.Desired) && state.DeliveryExists && state.DeliveryAlternate == "" {
		unless := ""
		if state.DeliveryPolicy != "" && !state.Policies.AreRead() {
			unless = fmt.Sprintf("unless policy %q names one, which cannot be read, ", state.DeliveryPolicy)
		}
		found = append(found, health.Finding{
			Severity: health.Warning, Object: fmt.Sprintf("exchange %q", d.Desired.Delivery),
			Cause: "no alternate exchange",
			Effect: unless + "a message for a destination that is not bound there is not parked; " +
				"a quorum queue keeps it and tries again every three minutes, a classic queue loses it",
		})
	}
	return found
}
