package resource

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
)

// Found is a resource that is on a broker, whoever declared it, as an import would take it over.
type Found struct {
	// DisplayName says in a few words which one it is, beside its identity.
	DisplayName string
	// Identity and State are the values of its schemas.
	Identity, State any
	// Diagnostics are those of its state, and what an import of it says.
	Diagnostics diag.Diagnostics
}

func findAll[C any](ctx context.Context, k *kind[C], vhost string, in *recognize.Inventory) ([]Found, error) {
	var all []Found
	for _, each := range in.All(ctx) {
		if each.Kind != k.name {
			continue
		}
		config, err := k.recognize(ctx, in, vhost, each.Entry)
		if err != nil {
			return nil, err
		}
		state, err := k.Imported(config)
		if err != nil {
			return nil, err
		}
		x, diags := k.Of(state)
		diags.Append(k.SetActual(state, in.There.Part(x.Desired))...)
		if k.beside != nil {
			diags.Append(k.beside(ctx, in, vhost, config)...)
		}
		all = append(all, Found{plaintext.Line(k.displayName(x)), k.identityOf(state), state.Object(), diags})
	}
	return all, nil
}
