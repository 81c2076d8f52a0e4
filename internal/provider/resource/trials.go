package resource

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// tryAll computes as much as can be said of a configuration with unknown values. It tries: it resolves the known part
// with several values in the place of each unknown one. A result that is the same every time does not depend on the
// unknown ones. Errors are those that no value would mend; then the result is nil, as it is if no trial passes.
// The error of a resolve is of type delay.Errors.
func tryAll[Config, Resolved any](
	ctx context.Context, trials []Config, resolve func(Config) (Resolved, error), compute func(Resolved) computed,
) (result computed, common delay.Errors) {
	for i, trial := range trials {
		resolved, err := resolve(trial)
		var errs delay.Errors
		errors.As(err, &errs)
		if i == 0 {
			common = errs
		}
		common = slices.DeleteFunc(common, func(e delay.AttributeError) bool {
			return !slices.ContainsFunc(errs,
				func(other delay.AttributeError) bool { return other.Attribute == e.Attribute })
		})
		switch {
		case err != nil:
		case result == nil:
			result = compute(resolved)
		default:
			result = commonOf(ctx, result, compute(resolved))
		}
	}
	return result, common
}

// computed are the attributes that the provider works out from a configuration, by name. It is nil if nothing can be
// said of any of them.
type computed map[string]attr.Value

// commonOf keeps the values that are the same in two trials, and makes the rest unknown.
func commonOf(ctx context.Context, x, y map[string]attr.Value) map[string]attr.Value {
	values := map[string]attr.Value{}
	for key, value := range x {
		values[key] = common(ctx, value, y[key])
	}
	return values
}

// fill plans a computed value where the configuration has none.
func fill[T attr.Value](planned *T, config T, c computed, attribute string) {
	if !config.IsNull() {
		return
	}
	value, known := c[attribute]
	if !known {
		value = tfvalue.UnknownLike(context.Background(), *planned)
	}
	*planned, _ = value.(T)
}

// variants are the values that are tried in the place of each unknown one.
type variants[Config any] [][]func(*Config)

// try adds an attribute, if its value is unknown, with the values that are tried in its place.
func try[Config, Value any](v *variants[Config], unknown attr.Value, set func(*Config, Value), values ...Value) {
	if !unknown.IsUnknown() {
		return
	}
	var each []func(*Config)
	for _, value := range values {
		each = append(each, func(c *Config) { set(c, value) })
	}
	*v = append(*v, each)
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
func common(ctx context.Context, x, y attr.Value) attr.Value {
	if x.Equal(y) {
		return x
	}
	switch x := x.(type) {
	case types.Map:
		y, ok := y.(types.Map)
		if !ok || x.IsUnknown() || y.IsUnknown() || !sameKeys(x.Elements(), y.Elements()) {
			break
		}
		return types.MapValueMust(x.ElementType(ctx), commonOf(ctx, x.Elements(), y.Elements()))
	case types.Object:
		y, ok := y.(types.Object)
		if !ok || x.IsUnknown() || y.IsUnknown() {
			break
		}
		return types.ObjectValueMust(x.AttributeTypes(ctx), commonOf(ctx, x.Attributes(), y.Attributes()))
	}
	return tfvalue.UnknownLike(ctx, x)
}

func sameKeys(x, y map[string]attr.Value) bool {
	return len(x) == len(y) && maps.EqualFunc(x, y, func(attr.Value, attr.Value) bool { return true })
}
