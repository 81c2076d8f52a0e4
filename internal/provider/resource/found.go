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
}

// FindDeclared is the cascade or ladder behind an entry exchange. The diagnostics are for its state.
func FindDeclared(
	ctx context.Context, kind string, in *recognize.Inventory, vhost, entry string,
) (Found, diag.Diagnostics, error) {
	if kind == recognize.KindLadder {
		return find[ladderModel](ctx, in, vhost, entry)
	}
	return find[cascadeModel](ctx, in, vhost, entry)
}

func find[M any, P interface {
	declaration[M]
	displayName() string
}](ctx context.Context, in *recognize.Inventory, vhost, entry string) (Found, diag.Diagnostics, error) {
	model := P(new(M))
	if err := model.recognize(ctx, in, vhost, entry); err != nil {
		return Found{}, nil, err
	}
	desired, diags := model.expand()
	diags.Append(model.setActual(in.Within(desired))...)
	return Found{plaintext.Line(model.displayName()), model.common().identity(), model}, diags, nil
}

// FindDestination is the destination that a binding is.
func FindDestination(vhost string, b topology.Binding) (Found, error) {
	model, err := importedDestination(vhost, b)
	return Found{model.displayName(), model.identity(), &model}, err
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
