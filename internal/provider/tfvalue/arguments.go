package tfvalue

import (
	"context"
	"math/big"
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ArgumentsIn are the arguments that an object or a map has, nil for another value. It leaves out the elements that
// are null or not known.
func ArgumentsIn(value attr.Value) topology.Arguments {
	raw, err := value.ToTerraformValue(context.Background())
	if err != nil {
		return nil
	}
	object, is := plain(raw).(map[string]any)
	switch {
	case !is:
		return nil
	case len(object) == 0:
		return topology.Arguments{}
	}
	return topology.NormalizeArguments(object)
}

// plain is a value as JSON would be decoded.
func plain(value tftypes.Value) any {
	var (
		text     string
		flag     bool
		number   big.Float
		elements []tftypes.Value
		object   map[string]tftypes.Value
	)
	switch {
	case value.IsNull() || !value.IsKnown():
		return nil
	case value.As(&text) == nil:
		return text
	case value.As(&flag) == nil:
		return flag
	case value.As(&number) == nil:
		float, _ := number.Float64()
		return float
	case value.As(&elements) == nil:
		list := []any{}
		for _, each := range elements {
			list = append(list, plain(each))
		}
		return list
	case value.As(&object) != nil:
		return nil
	}
	plainObject := map[string]any{}
	for name, each := range object {
		if is := plain(each); is != nil {
			plainObject[name] = is
		}
	}
	return plainObject
}

// ArgumentsValue is an object of arguments, null for nil.
func ArgumentsValue(arguments topology.Arguments) types.Dynamic {
	if arguments == nil {
		return types.DynamicNull()
	}
	return types.DynamicValue(objectOf(arguments))
}

func objectOf(values map[string]any) types.Object {
	of, object := map[string]attr.Type{}, map[string]attr.Value{}
	for name, value := range values {
		object[name] = valueOf(value)
		of[name] = object[name].Type(context.Background())
	}
	return types.ObjectValueMust(of, object)
}

// valueOf is a value that an argument can have.
func valueOf(value any) attr.Value {
	switch value := value.(type) {
	case string:
		return types.StringValue(value)
	case bool:
		return types.BoolValue(value)
	case int64:
		return types.NumberValue(new(big.Float).SetInt64(value))
	case float64:
		return types.NumberValue(big.NewFloat(value))
	case map[string]any:
		return objectOf(value)
	case []any:
		var of []attr.Type
		var elements []attr.Value
		for _, each := range value {
			element := valueOf(each)
			of, elements = append(of, element.Type(context.Background())), append(elements, element)
		}
		return types.TupleValueMust(of, elements)
	}
	return types.StringNull()
}

// SameArguments tells whether two values have the same arguments, such as an object and a map.
func SameArguments(x, y attr.Value) bool {
	have := ArgumentsIn(x)
	return have != nil && reflect.DeepEqual(have, ArgumentsIn(y))
}
