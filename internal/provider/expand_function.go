package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

func newExpandFunction() function.Function {
	return pureFunction{
		name: "expand",
		definition: function.Definition{
			Summary: "All objects of a cascade, in the shape of RabbitMQ definitions",
			MarkdownDescription: "An object with the `exchanges`, `queues` and `bindings` of a cascade, and the " +
				"`policies` of a preset that parks, in the shape of RabbitMQ definitions. As JSON it is a file, or " +
				"a part of one, that a broker loads (`rabbitmqctl import_definitions`, `POST /api/definitions`, " +
				"`load_definitions`). A `rabbitmqdelay_cascade` with " +
				"the same attributes takes the objects over by `adopt = true` or import, and plans no change.\n\n" +
				"The vhost has to exist, or be in the file. With `create_delivery_exchange = false`, the delivery " +
				"exchange has to exist as well.",
			Parameters: []function.Parameter{cascadeParameter()},
			Return:     function.DynamicReturn{},
		},
		run: ofCascade(types.DynamicUnknown(), func(c cascade.Cascade) (any, error) {
			value, err := valueOf(c.Expand().Definitions(c.Vhost))
			return types.DynamicValue(value), err
		}),
	}
}

// valueOf is what Terraform's jsondecode makes of the value's JSON.
func valueOf(value any) (attr.Value, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return nil, err
	}
	return decodedValue(decoded)
}

func decodedValue(decoded any) (attr.Value, error) {
	switch v := decoded.(type) {
	case string:
		return types.StringValue(v), nil
	case bool:
		return types.BoolValue(v), nil
	case json.Number:
		number, _, err := big.ParseFloat(v.String(), 10, 512, big.ToNearestEven)
		return types.NumberValue(number), err
	case []any:
		values := make([]attr.Value, len(v))
		valueTypes := make([]attr.Type, len(v))
		for i, element := range v {
			value, err := decodedValue(element)
			if err != nil {
				return nil, err
			}
			values[i], valueTypes[i] = value, value.Type(context.Background())
		}
		return types.TupleValueMust(valueTypes, values), nil
	case map[string]any:
		values := map[string]attr.Value{}
		valueTypes := map[string]attr.Type{}
		for name, element := range v {
			value, err := decodedValue(element)
			if err != nil {
				return nil, err
			}
			values[name], valueTypes[name] = value, value.Type(context.Background())
		}
		return types.ObjectValueMust(valueTypes, values), nil
	}
	return nil, fmt.Errorf("no value of Terraform is like %T", decoded)
}
