package provider

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// wholeNumberType is the framework's type of whole numbers. That one calls a fraction an error of the provider, which
// is to be reported, and says so twice (1.19.0).
type wholeNumberType struct{ basetypes.Int64Type }

// Equal tells whether a value of the other type can be one of this: valid ones are the framework's own.
func (t wholeNumberType) Equal(other attr.Type) bool {
	_, same := other.(wholeNumberType)
	return same || t.Int64Type.Equal(other)
}

func (t wholeNumberType) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	value, err := t.Int64Type.ValueFromTerraform(ctx, in)
	var given *big.Float
	if err == nil || in.As(&given) != nil {
		return value, err
	}
	return notWhole{given: given}, nil
}

// notWhole stands for a number that is not valid.
type notWhole struct {
	basetypes.Int64Value
	given *big.Float
}

func (v notWhole) wrong(name string) string {
	if v.given.IsInt() {
		return fmt.Sprintf("%s is %s; a number of this size cannot be used", name, v.given.Text('g', -1))
	}
	return fmt.Sprintf("%s is %s; it has to be a whole number", name, v.given.Text('g', -1))
}

func (v notWhole) ValidateAttribute(
	_ context.Context, req xattr.ValidateAttributeRequest, resp *xattr.ValidateAttributeResponse,
) {
	resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("Invalid %s", req.Path), v.wrong(req.Path.String())+".")
}

// ValidateParameter is for the functions. Terraform names the parameter.
func (v notWhole) ValidateParameter(
	_ context.Context, req function.ValidateParameterRequest, resp *function.ValidateParameterResponse,
) {
	resp.Error = function.NewArgumentFuncError(req.Position, v.wrong("it"))
}

// durationType is timetypes.GoDurationType, except that its error shows durations as they can be given here.
type durationType struct{ timetypes.GoDurationType }

// Equal is like that of wholeNumberType.
func (t durationType) Equal(other attr.Type) bool {
	_, same := other.(durationType)
	return same || t.GoDurationType.Equal(other)
}

func (t durationType) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	value, err := t.GoDurationType.ValueFromTerraform(ctx, in)
	given, ok := value.(timetypes.GoDuration)
	if err != nil || !ok || !isGiven(given) {
		return value, err
	}
	if _, diags := given.ValueGoDuration(); diags.HasError() {
		return notADuration{given}, nil
	}
	return value, nil
}

// notADuration stands for a text that is not valid.
type notADuration struct{ timetypes.GoDuration }

func (v notADuration) ValidateAttribute(
	_ context.Context, req xattr.ValidateAttributeRequest, resp *xattr.ValidateAttributeResponse,
) {
	_, err := parseDuration(req.Path.String(), v.ValueString())
	resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("Invalid %s", req.Path), err.Error()+".")
}

// durationOf is zero where no duration is given. The framework has asked ValidateAttribute about all that it has read.
func durationOf(value timetypes.GoDuration) time.Duration {
	d, _ := value.ValueGoDuration()
	return d
}

// positiveDuration is for texts that the framework takes for a duration only when it is too late.
type positiveDuration struct{}

func (positiveDuration) Description(context.Context) string { return "a duration over zero" }

func (v positiveDuration) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (positiveDuration) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if !isGiven(req.ConfigValue) {
		return
	}
	d, err := parseDuration(req.Path.String(), req.ConfigValue.ValueString())
	if err == nil && d <= 0 {
		err = fmt.Errorf(`%s is %q; it has to be positive, such as "90s"; leave it out for the default`, req.Path,
			req.ConfigValue.ValueString())
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("Invalid %s", req.Path), err.Error()+".")
	}
}

// textOrNull is null for no text.
func textOrNull[T ~string](text T) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(string(text))
}

// textOrUnknown is unknown for no text.
func textOrUnknown(text string) types.String {
	if text == "" {
		return types.StringUnknown()
	}
	return types.StringValue(text)
}

// numberOrNull is null for no number over zero.
func numberOrNull[T int | int64](number T) types.Int64 {
	if number <= 0 {
		return types.Int64Null()
	}
	return types.Int64Value(int64(number))
}

// isGiven tells whether an attribute has a value that is known.
func isGiven(value attr.Value) bool { return !value.IsNull() && !value.IsUnknown() }
