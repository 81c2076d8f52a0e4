package resource

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Found is a resource that is on a broker, whoever declared it, as an import would take it over.
type Found struct {
	// DisplayName says in a few words which one it is, beside its identity.
	DisplayName string
	// Identity and State are the values of its schemas.
	Identity, State any
	// Diagnostics are those of its state.
	Diagnostics diag.Diagnostics
}

// FindCascades are the cascades of a vhost.
func FindCascades(ctx context.Context, vhost string, in *recognize.Inventory) ([]Found, error) {
	return find[cascadeModel](ctx, vhost, in)
}

// FindLadders are the ladders of a vhost.
func FindLadders(ctx context.Context, vhost string, in *recognize.Inventory) ([]Found, error) {
	return find[ladderModel](ctx, vhost, in)
}

func find[M any, P interface {
	declaration[M]
	displayName() string
}](ctx context.Context, vhost string, in *recognize.Inventory) ([]Found, error) {
	var all []Found
	for _, each := range in.All(ctx) {
		model := P(new(M))
		if each.Kind != model.kind() {
			continue
		}
		if err := model.recognize(ctx, in, vhost, each.Entry); err != nil {
			return nil, err
		}
		desired, diags := model.expand()
		diags.Append(model.setActual(in.Within(desired))...)
		all = append(all, Found{plaintext.Line(model.displayName()), model.common().identity(), model, diags})
	}
	return all, nil
}

// FindDestinations are the destinations among the bindings of a vhost.
func FindDestinations(vhost string, bindings []topology.Binding) []Found {
	var all []Found
	for _, b := range bindings {
		if model, err := importedDestination(vhost, b); err == nil { // else it is something else
			all = append(all, Found{model.displayName(), model.identity(), &model, nil})
		}
	}
	return all
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
	return fmt.Sprintf("%s (%s, up to %s)", name, levels, plaintext.Duration(tfvalue.DurationOf(m.MaxDelay)))
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

func (m *destinationModel) displayName() string {
	to := fmt.Sprintf("queue %q", m.Queue.ValueString())
	if m.Queue.IsNull() {
		to = fmt.Sprintf("exchange %q", m.Exchange.ValueString())
	}
	address := m.Address.ValueString()
	if m.Match.ValueString() == string(delay.Suffix) {
		address += " and all that ends with ." + address
	}
	return fmt.Sprintf("%s, from %s to %s", address, m.DeliveryExchange.ValueString(), to)
}
