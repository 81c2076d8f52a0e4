package tfvalue

import (
	"math/big"
	"reflect"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Arguments come back as they are. A text that reads like a number or a truth value is another value.
func TestArguments(t *testing.T) {
	for _, arguments := range []topology.Arguments{nil, {}, {"x-queue-mode": "lazy", "x-max-length": int64(1 << 52),
		"x-ratio": 1.5, "x-single-active-consumer": true, "plugin": "true", "5": "5",
		"x-nested": map[string]any{"list": []any{int64(1), "1", []any{}}, "none": map[string]any{}}}} {
		value := ArgumentsValue(arguments)
		if got := ArgumentsIn(value); !reflect.DeepEqual(got, arguments) {
			t.Errorf("%v become %v", arguments, got)
		}
		if value.IsNull() != (arguments == nil) || !IsFullyKnown(value) {
			t.Errorf("%v are %s", arguments, value)
		}
	}
}

func TestSameArguments(t *testing.T) {
	of := func(values map[string]attr.Value) attr.Value {
		kinds := map[string]attr.Type{}
		for name, value := range values {
			kinds[name] = value.Type(t.Context())
		}
		return types.DynamicValue(types.ObjectValueMust(kinds, values))
	}
	object := of(map[string]attr.Value{"x-overflow": types.StringValue("drop-head")})
	for name, is := range map[string]struct {
		x, y attr.Value
		same bool
	}{
		"a map": {object, types.DynamicValue(types.MapValueMust(types.StringType,
			map[string]attr.Value{"x-overflow": types.StringValue("drop-head")})), true},
		"one that is null": {object, of(map[string]attr.Value{"x-overflow": types.StringValue("drop-head"),
			"x-expires": types.NumberNull()}), true},
		"another one": {object, of(map[string]attr.Value{}), false},
		"a number as a text": {of(map[string]attr.Value{"x": types.StringValue("1")}),
			of(map[string]attr.Value{"x": types.NumberValue(big.NewFloat(1))}), false},
		"a truth value as a text": {of(map[string]attr.Value{"x": types.StringValue("true")}),
			of(map[string]attr.Value{"x": types.BoolValue(true)}), false},
		"texts": {types.DynamicValue(types.StringValue("a")), types.DynamicValue(types.StringValue("a")), false},
	} {
		if got := SameArguments(is.x, is.y); got != is.same {
			t.Errorf("%s: the same %t", name, got)
		}
	}
}
