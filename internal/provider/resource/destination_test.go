package resource

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// destinationTo is the state of a destination.
func destinationTo(t *testing.T, address string) attribute.Values {
	t.Helper()
	v, err := destinations.Imported(delay.Destination{Vhost: "/", DeliveryExchange: "d", Address: address,
		Match: delay.Exact, Levels: 2, Queue: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// keptInMemory is a private state.
type keptInMemory map[string][]byte

func (k keptInMemory) GetKey(_ context.Context, key string) ([]byte, diag.Diagnostics) {
	return k[key], nil
}

func (k keptInMemory) SetKey(_ context.Context, key string, value []byte) diag.Diagnostics {
	k[key] = value
	return nil
}

// A create has a new mark. What comes after it has the same one, and looks for a plain binding only where that is the
// one that was imported.
func TestDestinationKnowsItsOwn(t *testing.T) {
	r := &managed[delay.Destination]{kind: destinations}
	sides := func(private privateState, before, after attribute.Values) (bindings [2][]topology.Binding) {
		c := &change[delay.Destination]{state: before, plan: after, private: private}
		if diags := r.resolve(t.Context(), c); diags.HasError() {
			t.Fatal(diags)
		}
		if after != nil {
			if diags := rememberOwner(t.Context(), c, engine.Result{There: &c.engine.After}); diags.HasError() {
				t.Fatal(diags)
			}
		}
		return [2][]topology.Binding{c.engine.Before.Bindings.Sorted(), c.engine.After.Bindings.Sorted()}
	}
	a, b := destinationTo(t, "a"), destinationTo(t, "b")
	kept := keptInMemory{}
	created := sides(kept, nil, a)[1]
	mark := created[0].DestinationMark()
	if mark == "" || sides(keptInMemory{}, nil, a)[1][0].DestinationMark() == mark {
		t.Errorf("created is %v", created)
	}
	if updated := sides(kept, a, b); !slices.Equal(updated[0], created) || updated[1][0].DestinationMark() != mark {
		t.Errorf("updated is %v", updated)
	}
	plain := created[0].Plain()
	imported := keptInMemory{}
	saveOwner(t.Context(), imported, "/", mark, topology.NewBindings(plain, created[0]))
	if both := []topology.Binding{plain, created[0]}; !slices.Equal(sides(imported, a, nil)[0], both) {
		t.Errorf("destroyed is not %v", both)
	}
	if other := sides(imported, b, nil)[0]; len(other) != 1 || other[0].DestinationMark() != mark {
		t.Errorf("under another name, destroyed is %v", other)
	}
	sides(imported, a, a)
	if after := sides(imported, a, nil)[0]; !slices.Equal(after, created) {
		t.Errorf("after an update, destroyed is %v", after)
	}
}

// Required attributes cannot be left out, and the errors do not say so.
func TestEmptyRequiredAttributes(t *testing.T) {
	for name, says := range map[string]string{
		"address":           "give the word or words that publishers write",
		"delivery_exchange": "give the attribute delivery_exchange of the cascade",
	} {
		config := destinationTo(t, "a")
		config[name] = types.StringValue("")
		errs := destinations.Check(config)
		_, more := destinations.Computed(config, nil)
		if errs = append(errs, more...); len(errs) != 1 || !strings.Contains(errs.Error(), says) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
