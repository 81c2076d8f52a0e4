package provider

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/vmihailenco/msgpack/v5"
)

// packedTypes are the types of the packed attributes by resource.
var packedTypes = map[string]map[string]attr.Type{
	"rabbitmqdelay_cascade": levelPosition.packedTypes(),
	"rabbitmqdelay_ladder":  delayPosition.packedTypes(),
}

func (p position) packedTypes() map[string]attr.Type {
	return map[string]attr.Type{
		"exchanges": types.MapType{ElemType: exchangeType}, "queues": types.MapType{ElemType: p.queueType()}, "bindings": types.MapType{ElemType: linesType},
	}
}

// withoutValues puts the names of the packed attributes in the place of their values, which it returns in MessagePack.
func withoutValues(req *tfprotov6.UpgradeResourceStateRequest) (map[string]string, error) {
	attributeTypes, packs := packedTypes[req.TypeName]
	if !packs || req.RawState == nil {
		return nil, nil
	}
	var attributes map[string]json.RawMessage
	if err := json.Unmarshal(req.RawState.JSON, &attributes); err != nil {
		return nil, err
	}
	values := map[string]string{}
	for name, typ := range attributeTypes {
		decoder := json.NewDecoder(bytes.NewReader(attributes[name]))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		var written bytes.Buffer
		if err := encode(msgpack.NewEncoder(&written), typ, value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		values[name] = written.String()
		attributes[name] = json.RawMessage(`"` + name + `"`)
	}
	state, err := json.Marshal(attributes)
	req.RawState = &tfprotov6.RawState{JSON: state}
	return values, err
}

// encode writes a value that was read from JSON as one of the type. As in the framework, an attribute that is missing is null.
func encode(out *msgpack.Encoder, typ attr.Type, value any) error {
	if value == nil {
		return out.EncodeNil()
	}
	switch typ := typ.(type) {
	case types.MapType:
		if of, ok := value.(map[string]any); ok {
			err := out.EncodeMapLen(len(of))
			for key, inner := range of {
				if err == nil {
					err = encodeNamed(out, key, typ.ElemType, inner)
				}
			}
			return err
		}
	case types.ObjectType:
		if of, ok := value.(map[string]any); ok {
			err := out.EncodeMapLen(len(typ.AttrTypes))
			for name, inner := range typ.AttrTypes {
				if err == nil {
					err = encodeNamed(out, name, inner, of[name])
				}
			}
			return err
		}
	case types.ListType:
		if of, ok := value.([]any); ok {
			err := out.EncodeArrayLen(len(of))
			for _, inner := range of {
				if err == nil {
					err = encode(out, typ.ElemType, inner)
				}
			}
			return err
		}
	}
	switch value := value.(type) {
	case string:
		if typ == types.StringType {
			return out.EncodeString(value)
		}
	case bool:
		if typ == types.BoolType {
			return out.EncodeBool(value)
		}
	case json.Number:
		if typ == types.Int64Type {
			number, err := value.Int64()
			if err != nil {
				return err
			}
			return out.EncodeInt(number)
		}
	}
	return fmt.Errorf("a %T where there should be a %s", value, typ)
}

func encodeNamed(out *msgpack.Encoder, name string, typ attr.Type, value any) error {
	if err := out.EncodeString(name); err != nil {
		return err
	}
	return encode(out, typ, value)
}
