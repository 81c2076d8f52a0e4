package harness

import (
	"math/big"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// PlainMap is an object of Terraform as a map.
func PlainMap(t testing.TB, value tftypes.Value) map[string]any {
	t.Helper()
	return AsMap(t, Plain(t, value))
}

// AsMap is a value that has to be a map, or nothing.
func AsMap(t testing.TB, value any) map[string]any {
	t.Helper()
	if value == nil {
		return nil
	}
	values, ok := value.(map[string]any)
	if !ok {
		t.Fatalf("%v is no map", value)
	}
	return values
}

// Plain is a value of Terraform as Go's own types.
func Plain(t testing.TB, v tftypes.Value) any {
	t.Helper()
	if v.IsNull() {
		return nil
	}
	if !v.IsKnown() {
		t.Fatalf("%s is not known", v)
	}
	var err error
	defer func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}()
	typ := v.Type()
	switch {
	case typ.Is(tftypes.String):
		var s string
		err = v.As(&s)
		return s
	case typ.Is(tftypes.Bool):
		var b bool
		err = v.As(&b)
		return b
	case typ.Is(tftypes.Number):
		var f big.Float
		err = v.As(&f)
		n, _ := f.Int64()
		return n
	case typ.Is(tftypes.Set{}), typ.Is(tftypes.List{}):
		var values []tftypes.Value
		err = v.As(&values)
		list := make([]any, len(values))
		for i, inner := range values {
			list[i] = Plain(t, inner)
		}
		return list
	default:
		values := map[string]tftypes.Value{}
		err = v.As(&values)
		object := map[string]any{}
		for key, inner := range values {
			object[key] = Plain(t, inner)
		}
		return object
	}
}
