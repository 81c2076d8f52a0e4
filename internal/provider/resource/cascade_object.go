package resource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
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
	model, known, err := cascadeModelOf(ctx, argument.UnderlyingValue())
	if err != nil {
		return resolved, false, err
	}
	if empty := model.emptyValues(); len(empty) > 0 {
		return resolved, false, delay.Errors(empty)
	}
	if !model.EntryExchange.IsNull() {
		model.MaxDelay = timetypes.NewGoDurationNull() // a resource has both
	}
	if _, errs := model.forecast(ctx); len(errs) > 0 {
		return resolved, false, errs
	}
	if known {
		resolved, err = model.config().Resolve()
	}
	return resolved, known, err
}

// cascadeModelOf reads the object as the resource's own configuration is read, and tells whether all
// of it is known.
func cascadeModelOf(ctx context.Context, value attr.Value) (model cascadeModel, known bool, err error) {
	var given map[string]attr.Value
	switch v := value.(type) {
	case types.Object:
		given = v.Attributes()
	case types.Map:
		given = v.Elements()
	default:
		return model, false, errors.New("it has to be an object with attributes of rabbitmqdelay_cascade, such as { " +
			"name = \"tasks\", levels = 17 }")
	}
	schema := model.schema(ctx)
	attributes := schema.GetAttributes()
	known = true
	values := map[string]tftypes.Value{}
	valueTypes := map[string]tftypes.Type{}
	for name, attribute := range attributes {
		valueTypes[name] = attribute.GetType().TerraformType(ctx)
		values[name] = tftypes.NewValue(valueTypes[name], nil)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		attribute, ok := attributes[name]
		if !ok {
			return model, false, fmt.Errorf("the object has an attribute %q, which rabbitmqdelay_cascade has not; "+
				"its attributes are %s", name, strings.Join(slices.Sorted(maps.Keys(attributes)), ", "))
		}
		if !attribute.IsOptional() && name != "entry_exchange" || valueTypes[name].Is(tftypes.Object{}) {
			continue // what a broker has, and timeouts
		}
		converted, err := given[name].ToTerraformValue(ctx)
		switch {
		case err != nil:
			return model, false, fmt.Errorf("%s cannot be read: %w", name, err)
		case converted.IsNull():
		case !converted.IsKnown():
			values[name] = tftypes.NewValue(valueTypes[name], tftypes.UnknownValue)
			known = false
		case !converted.Type().Equal(valueTypes[name]):
			return model, false, delay.AttributeError{Attribute: name,
				Message: fmt.Sprintf("is a %s; it has to be a %s", typeText(converted.Type()),
					typeText(valueTypes[name]))}
		default:
			values[name] = converted
		}
		if text, ok := given[name].(types.String); ok && attribute.GetType().Equal(timetypes.GoDurationType{}) &&
			text.ValueString() != "" {
			if _, err := tfvalue.ParseDuration(name, text.ValueString()); err != nil {
				return model, false, err
			}
		}
	}
	config := tfsdk.Config{Schema: schema, Raw: tftypes.NewValue(schema.Type().TerraformType(ctx), values)}
	diags := config.Get(ctx, &model)
	return model, known, firstError(diags)
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
