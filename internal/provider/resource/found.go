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
}

// FindDeclared is the cascade or ladder behind an entry exchange. The diagnostics are for its state.
func FindDeclared(
	ctx context.Context, kind string, in *recognize.Inventory, vhost, entry string,
) (Found, diag.Diagnostics, error) {
	if kind == recognize.KindLadder {
		return find(ctx, ladders, in, vhost, entry)
	}
	return find(ctx, cascades, in, vhost, entry)
}

func find[C any](
	ctx context.Context, k *kind[C], in *recognize.Inventory, vhost, entry string,
) (found Found, diags diag.Diagnostics, err error) {
	config, err := k.recognize(ctx, in, vhost, entry)
	if err != nil {
		return found, nil, err
	}
	state, err := k.imported(config)
	if err != nil {
		return found, nil, err
	}
	x, diags := k.of(state)
	diags.Append(k.setActual(state, in.Part(x.Desired))...)
	return Found{plaintext.Line(k.displayName(x)), k.identityOf(state), state.object()}, diags, nil
}
