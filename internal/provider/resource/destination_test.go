package resource

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// destinationTo is the state of a destination.
func destinationTo(t *testing.T, address string) values {
	t.Helper()
	v, err := destinations.imported(delay.Destination{Vhost: "/", DeliveryExchange: "d", Address: address,
		Match: delay.Exact, Levels: 2, Queue: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

type noPrivateState struct{}

func (noPrivateState) GetKey(context.Context, string) ([]byte, diag.Diagnostics) { return nil, nil }

// Another resource that meets the binding is told of the destination as the configuration has it.
func TestDestinationInErrorsOfOthers(t *testing.T) {
	for verb, is := range map[string]struct {
		before, after values
		want          string
	}{
		"create":  {nil, destinationTo(t, "a"), `address "a" and queue "orders", which is created`},
		"update":  {destinationTo(t, "a"), destinationTo(t, "b"), `address "b" and queue "orders", which is updated`},
		"destroy": {destinationTo(t, "a"), nil, `address "a" and queue "orders", which is destroyed`},
	} {
		r := &managed[delay.Destination]{kind: destinations}
		c := &change[delay.Destination]{verb: verb, before: is.before, after: is.after, private: noPrivateState{}}
		now := is.after
		if now == nil {
			now = is.before
		}
		diags := r.resolve(t.Context(), c, now)
		if got := c.engine.String(); diags.HasError() || !strings.Contains(got, is.want) {
			t.Errorf("%s: %s %v", verb, got, diags)
		}
	}
}

// Required attributes cannot be left out, and the errors do not say so.
func TestEmptyRequiredAttributes(t *testing.T) {
	for attribute, says := range map[string]string{
		"address":           "give the word or words that publishers write",
		"delivery_exchange": "give the attribute delivery_exchange of the cascade",
	} {
		config := destinationTo(t, "a")
		config[attribute] = types.StringValue("")
		errs := destinations.check(config)
		_, more := destinations.computed(config, nil)
		if errs = append(errs, more...); len(errs) != 1 || !strings.Contains(errs.Error(), says) {
			t.Errorf("%s: %v", attribute, errs)
		}
	}
}
