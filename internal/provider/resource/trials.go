package resource

import (
	"context"
	"errors"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// tryAll computes as much as can be said of a configuration with unknown values. It tries: it resolves the known part
// with several values in the place of each unknown one. A result that is the same every time does not depend on the
// unknown ones. Errors are those that no value would mend; then the result is nil, as it is if no trial passes.
// The error of a resolve is of type delay.Errors.
func tryAll[Config, Resolved any](
	_ context.Context, trials []Config, resolve func(Config) (Resolved, error), compute func(Resolved) computed,
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
			result = commonOf(result, compute(resolved))
		}
	}
	return result, common
}

// computed are the attributes that the provider works out from a configuration, by name. It is nil if nothing can be
// said of any of them.
type computed map[string]attr.Value

// fill plans a computed value where the configuration has none.
func fill[T attr.Value](planned *T, config T, c computed, attribute string) {
	if !config.IsNull() {
		return
	}
	value, known := c[attribute]
	if !known {
		value = unknownLike(*planned)
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

// combinations are the configurations with every combination of the values.
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
