package provider

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

// forecast is what can be said of a configuration some of whose values are not known yet. It is
// found by trying: the known part is expanded with several values in the place of each unknown one,
// and what comes out the same every time does not depend on what is unknown. Errors are those that
// no value would mend; then the result is nil, as it is if no trial passes.
func forecast[Config any, Computed merger[Computed]](ctx context.Context, trials []Config, compute func(Config) (Computed, error)) (result *Computed, common cascade.Errors, err error) {
	for i, trial := range trials {
		got, err := compute(trial)
		var errs cascade.Errors
		if err != nil && !errors.As(err, &errs) {
			return nil, nil, err
		}
		if i == 0 {
			common = errs
		}
		common = slices.DeleteFunc(common, func(e cascade.AttributeError) bool {
			return !slices.ContainsFunc(errs, func(other cascade.AttributeError) bool { return other.Attribute == e.Attribute })
		})
		switch {
		case err != nil:
		case result == nil:
			result = &got
		default:
			merged := (*result).merge(ctx, got)
			result = &merged
		}
	}
	return result, common, nil
}

// merger keeps, of what two trials give, what is the same in both, and makes the rest unknown.
type merger[Computed any] interface {
	merge(ctx context.Context, other Computed) Computed
}

var (
	_ merger[computed]         = computed{}
	_ merger[declaredComputed] = declaredComputed{}
)

// variants are the values that are tried in the place of each unknown one.
type variants[Config any] [][]func(*Config)

// add adds an attribute if its value is unknown.
func (v *variants[Config]) add(value attr.Value, each ...func(*Config)) {
	if value.IsUnknown() {
		*v = append(*v, each)
	}
}

// trials are the configurations: one with the first value of each, and those in which one of them has another.
func (v variants[Config]) trials(base Config) []Config {
	for _, each := range v {
		each[0](&base)
	}
	trials := []Config{base}
	for _, each := range v {
		for _, set := range each[1:] {
			trial := base
			set(&trial)
			trials = append(trials, trial)
		}
	}
	return trials
}

// combinations are the configurations with every combination of the values. There are many more of them than trials,
// and they are needed where whether a value passes depends on another unknown one.
func (v variants[Config]) combinations(base Config) []Config {
	all := []Config{base}
	for _, each := range v {
		var next []Config
		for _, config := range all {
			for _, set := range each {
				combined := config
				set(&combined)
				next = append(next, combined)
			}
		}
		all = next
	}
	return all
}

// common is the value if both are equal, a map or object with the common part if they have the same
// keys, and unknown otherwise.
func common[T attr.Value](ctx context.Context, x, y T) T {
	merged, _ := commonValue(ctx, x, y).(T)
	return merged
}

func commonValue(ctx context.Context, x, y attr.Value) attr.Value {
	if x.Equal(y) {
		return x
	}
	switch x := x.(type) {
	case types.Map:
		y, ok := y.(types.Map)
		if !ok || x.IsUnknown() || y.IsUnknown() || !sameKeys(x.Elements(), y.Elements()) {
			return types.MapUnknown(x.ElementType(ctx))
		}
		elements := map[string]attr.Value{}
		for key, value := range x.Elements() {
			elements[key] = commonValue(ctx, value, y.Elements()[key])
		}
		return types.MapValueMust(x.ElementType(ctx), elements)
	case types.Object:
		y, ok := y.(types.Object)
		if !ok || x.IsUnknown() || y.IsUnknown() {
			return types.ObjectUnknown(x.AttributeTypes(ctx))
		}
		attributes := map[string]attr.Value{}
		for key, value := range x.Attributes() {
			attributes[key] = commonValue(ctx, value, y.Attributes()[key])
		}
		return types.ObjectValueMust(x.AttributeTypes(ctx), attributes)
	case types.List:
		return types.ListUnknown(x.ElementType(ctx))
	case types.String:
		return types.StringUnknown()
	case types.Int64:
		return types.Int64Unknown()
	case types.Bool:
		return types.BoolUnknown()
	default:
		return timetypes.NewGoDurationUnknown()
	}
}

func sameKeys(x, y map[string]attr.Value) bool {
	return len(x) == len(y) && maps.EqualFunc(x, y, func(attr.Value, attr.Value) bool { return true })
}
