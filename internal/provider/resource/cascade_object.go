package resource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// CascadeOf is the cascade that the argument describes. It is not known while a value that it depends on is
// unknown. A fault that no such value would mend is an error already.
func CascadeOf(
	ctx context.Context, argument types.Dynamic,
) (resolved delay.Cascade, known bool, err error) {
	if argument.IsUnknown() || argument.IsUnderlyingValueUnknown() {
		return resolved, false, nil
	}
	given, err := cascadeValues(ctx, argument.UnderlyingValue())
	if err != nil {
		return resolved, false, err
	}
	if empty := cascades.check(given); len(empty) > 0 {
		return resolved, false, empty
	}
	if _, errs := cascades.computed(given, nil); len(errs) > 0 {
		return resolved, false, errs
	}
	if !cascades.isKnown(given) {
		return resolved, false, nil
	}
	resolved, err = cascades.config(given).Resolve()
	return resolved, true, err
}

// cascadeValues reads the object as the resource's own configuration is read.
func cascadeValues(ctx context.Context, value attr.Value) (values, error) {
	var given map[string]attr.Value
	switch v := value.(type) {
	case types.Object:
		given = v.Attributes()
	case types.Map:
		given = v.Elements()
	default:
		return nil, errors.New("it has to be an object with attributes of rabbitmqdelay_cascade, such as { " +
			"name = \"tasks\", levels = 17 }")
	}
	attributes := cascades.schema().Attributes
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if attributes[name] == nil {
			return nil, fmt.Errorf("the object has an attribute %q, which rabbitmqdelay_cascade has not; "+
				"its attributes are %s", name, strings.Join(slices.Sorted(maps.Keys(attributes)), ", "))
		}
	}
	config := values{}
	for name, attribute := range attributes {
		of := attribute.GetType()
		config[name] = tfvalue.Null(of)
		if given[name] == nil || !attribute.IsOptional() || of.TerraformType(ctx).Is(tftypes.Object{}) {
			continue // what a broker has, and timeouts
		}
		converted, err := convert(ctx, name, given[name], of)
		if err != nil {
			return nil, err
		}
		config[name] = converted
	}
	if entry := given["entry_exchange"]; entry != nil && !entry.IsNull() {
		config["max_delay"] = tfvalue.Null(tfvalue.DurationType{}) // a resource has both
	}
	return config, nil
}

// convert is the value that the attribute of a resource would have.
func convert(ctx context.Context, name string, given attr.Value, of attr.Type) (attr.Value, error) {
	raw, err := given.ToTerraformValue(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	switch want := of.TerraformType(ctx); {
	case raw.IsNull():
		return tfvalue.Null(of), nil
	case !raw.IsKnown():
		return tfvalue.Unknown(of), nil
	case !raw.Type().Equal(want):
		return nil, delay.AttributeError{Attribute: name,
			Message: fmt.Sprintf("is a %s; it has to be a %s", typeText(raw.Type()), typeText(want))}
	}
	value, err := of.ValueFromTerraform(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	return value, firstError(checkType(ctx, name, value))
}

// typeText is a type in Terraform's words.
func typeText(t tftypes.Type) string {
	switch {
	case t.Is(tftypes.String):
		return "string"
	case t.Is(tftypes.Number):
		return "number"
	case t.Is(tftypes.Bool):
		return "bool"
	case t.Is(tftypes.Object{}), t.Is(tftypes.Map{}):
		return "object"
	}
	return "list"
}

// firstError is the first error among the diagnostics. It names the attribute that it concerns, and Terraform ends the
// sentence.
func firstError(diags diag.Diagnostics) error {
	if !diags.HasError() {
		return nil
	}
	d := diags.Errors()[0]
	if at, ok := d.(diag.DiagnosticWithPath); ok && strings.HasPrefix(d.Detail(), at.Path().String()+" ") {
		return errors.New(strings.TrimSuffix(d.Detail(), "."))
	} else if ok {
		return fmt.Errorf("%s: %s: %s", at.Path(), d.Summary(), d.Detail())
	}
	return fmt.Errorf("%s: %s", d.Summary(), d.Detail())
}
