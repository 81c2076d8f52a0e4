package topology

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
)

// Arguments are the optional arguments of an exchange or queue. Integers are int64.
type Arguments map[string]any

// Equal compares the arguments value by value; none and empty are the same.
func (a Arguments) Equal(other Arguments) bool {
	return len(a) == len(other) && (len(a) == 0 || reflect.DeepEqual(a, other))
}

// MarshalJSON writes an object where there are no arguments, too.
func (a Arguments) MarshalJSON() ([]byte, error) {
	if a == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]any(a))
}

// JSON is the canonical text of the arguments, empty if there are none.
func (a Arguments) JSON() string {
	if len(a) == 0 {
		return ""
	}
	text, err := json.Marshal(a)
	if err != nil {
		// Arguments come from JSON or from our own expansion: both can be written back.
		panic(err)
	}
	return string(text)
}

// Text is an argument that is a text, empty if it is absent or something else.
func (a Arguments) Text(key string) string {
	s, _ := a[key].(string)
	return s
}

// withoutType leaves out what Queue.Type says.
func (a Arguments) withoutType() Arguments {
	rest := maps.Clone(a)
	delete(rest, "x-queue-type")
	return rest
}

// ValueText is an argument's value as people read it: a string as it is, anything else as JSON. A
// string that would read as something else is quoted, so that "5" and 5 can be told apart.
func ValueText(value any) string {
	if s, ok := value.(string); ok {
		if !json.Valid([]byte(s)) {
			return s
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // see JSON
	}
	return string(text)
}

// NormalizeArguments turns decoded JSON into Arguments: whole numbers become int64, so that
// 134217728000 compares and prints as what it is.
func NormalizeArguments(decoded map[string]any) Arguments {
	if len(decoded) == 0 {
		return nil
	}
	normalized := Arguments{}
	for key, value := range decoded {
		normalized[key] = normalize(value)
	}
	return normalized
}

func normalize(value any) any {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case map[string]any:
		nested := map[string]any{}
		for key, inner := range v {
			nested[key] = normalize(inner)
		}
		return nested
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = normalize(inner)
		}
		return list
	}
	return value
}
