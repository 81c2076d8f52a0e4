package tfvalue

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// PublisherTypes are the attributes of a cascade's publisher. An application computes routing keys from them, in
// numbers that need no parsing.
var PublisherTypes = map[string]attr.Type{
	"entry_exchange": types.StringType, "units_ms": types.ListType{ElemType: types.NumberType},
	"max_delay_ms": types.NumberType,
}

// PublisherDescription is that of the attribute.
const PublisherDescription = "The values from which an application computes routing keys, in one object to hand over " +
	"with `jsonencode`. `units_ms` are the milliseconds that a 1 stands for in each word of a key, the largest " +
	"first. `max_delay_ms` is the longest delay that has a key, in milliseconds. `entry_exchange` is the exchange to " +
	"publish to. [Publishing](../guides/publishing.md) has the rule, and programs that read the object."

// PublisherValue is the value for a cascade with this entry exchange.
func PublisherValue(entry string, scale delay.Scale) types.Object {
	return types.ObjectValueMust(PublisherTypes, map[string]attr.Value{
		"entry_exchange": types.StringValue(entry),
		"units_ms":       ListOf(types.NumberType, scale.Units, millisecondsValue),
		"max_delay_ms":   millisecondsValue(scale.Longest),
	})
}

func millisecondsValue(d time.Duration) attr.Value {
	return types.NumberValue(new(big.Float).SetInt64(d.Milliseconds()))
}

// ErrUnknown says that a part of a value is not known yet.
var ErrUnknown = errors.New("the publisher is not known yet")

// Publisher reads a value of PublisherTypes. An error is a delay.AttributeError on one of them, ErrUnknown, or one of
// the framework.
func Publisher(ctx context.Context, value types.Object) (entry string, scale delay.Scale, err error) {
	raw, err := value.ToTerraformValue(ctx)
	if err != nil {
		return "", scale, err
	}
	if !raw.IsFullyKnown() {
		return "", scale, ErrUnknown
	}
	var given struct {
		EntryExchange types.String   `tfsdk:"entry_exchange"`
		UnitsMS       []types.Number `tfsdk:"units_ms"`
		MaxDelayMS    types.Number   `tfsdk:"max_delay_ms"`
	}
	if diags := value.As(ctx, &given, basetypes.ObjectAsOptions{}); diags.HasError() {
		return "", scale, fmt.Errorf("read a publisher: %v", diags)
	}
	units := make([]int64, len(given.UnitsMS))
	for i, unit := range given.UnitsMS {
		if units[i], err = milliseconds("units_ms", "have", unit); err != nil {
			return "", scale, err
		}
	}
	longest, err := milliseconds("max_delay_ms", "is", given.MaxDelayMS)
	if err != nil {
		return "", scale, err
	}
	scale, err = delay.PublisherScale(units, longest)
	return given.EntryExchange.ValueString(), scale, err
}

// milliseconds is the number that the attribute has or is.
func milliseconds(attribute, verb string, value types.Number) (int64, error) {
	text := "null"
	if given := value.ValueBigFloat(); !value.IsNull() {
		if number, accuracy := given.Int64(); accuracy == big.Exact {
			return number, nil
		}
		text = given.Text('g', -1)
	}
	return 0, delay.AttributeError{Attribute: attribute,
		Message: fmt.Sprintf("%s %s; give a whole number of milliseconds", verb, text)}
}

// LadderPublisherTypes are the attributes of a ladder's publisher.
var LadderPublisherTypes = map[string]attr.Type{
	"entry_exchange": types.StringType, "delays_ms": types.MapType{ElemType: types.NumberType},
}

// LadderPublisherDescription is that of the attribute.
const LadderPublisherDescription = "The values that an application needs, in one object to hand over with " +
	"`jsonencode`. `entry_exchange` is the exchange to publish to. `delays_ms` are the delays in milliseconds, by " +
	"the first words of routing keys, such as `{ \"5s\" = 5000, \"1h\" = 3600000 }`, or by the `binding_keys`. See " +
	"[Fixed delays and retries](../guides/ladders.md#publish)."

// LadderPublisherValue is the value for a ladder.
func LadderPublisherValue(l delay.Ladder) types.Object {
	delays := map[string]attr.Value{}
	for label, wait := range l.Waits() {
		delays[label] = millisecondsValue(wait)
	}
	return types.ObjectValueMust(LadderPublisherTypes, map[string]attr.Value{
		"entry_exchange": types.StringValue(l.EntryExchange),
		"delays_ms":      types.MapValueMust(types.NumberType, delays),
	})
}

// LadderLevelsDescription is that of the attribute.
const LadderLevelsDescription = "Number of words of a routing key before the address: 1, the delay. A " +
	"[destination](../resources/destination.md) asks for it. Null where keys have no address: with a " +
	"`dead_letter_routing_key`, with `deliver_to_queue`, or with `binding_keys`."
