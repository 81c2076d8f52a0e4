package tfvalue

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
)

// ParseDuration reads the duration that a parameter or attribute has as text.
func ParseDuration(name, text string) (time.Duration, error) {
	d, err := delay.ParseDuration(text)
	if err != nil {
		return 0, delay.AttributeError{Attribute: name, Message: fmt.Sprintf(
			`is %q; write a number and its unit, w, d, h, m, s or ms, such as "7d", "1h30m" or "500ms"`, text)}
	}
	return d, nil
}

// DurationType is the type of attributes that have a duration, as delay.ParseDuration reads it.
type DurationType struct{ basetypes.StringType }

// Duration is a value of DurationType, null if it is zero. Values are the same that stand for the same duration.
type Duration struct{ basetypes.StringValue }

var (
	_ basetypes.StringTypable                    = DurationType{}
	_ basetypes.StringValuableWithSemanticEquals = Duration{}
	_ xattr.ValidateableAttribute                = Duration{}
)

// DurationValue is a duration that the provider works out.
func DurationValue(d time.Duration) Duration {
	return Duration{basetypes.NewStringValue(delay.DurationText(d))}
}

// DurationOf is zero where no duration is given. The framework has asked ValidateAttribute about all that it has read.
func DurationOf(value attr.Value) time.Duration {
	d, _ := DurationIn(value)
	return d
}

// Equal tells whether the types are the same.
func (DurationType) Equal(other attr.Type) bool {
	_, same := other.(DurationType)
	return same
}

// String is the name of the type.
func (DurationType) String() string { return "tfvalue.DurationType" }

// ValueType is what a value of the type is in Go.
func (DurationType) ValueType(context.Context) attr.Value { return Duration{} }

// ValueFromString makes a value of a text, right or wrong.
func (DurationType) ValueFromString(
	_ context.Context, in basetypes.StringValue,
) (basetypes.StringValuable, diag.Diagnostics) {
	return Duration{in}, nil
}

// ValueFromTerraform makes a value of what Terraform sends, right or wrong.
func (t DurationType) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	value, err := t.StringType.ValueFromTerraform(ctx, in)
	if err != nil {
		return nil, err
	}
	text, _ := value.(basetypes.StringValue)
	return Duration{text}, nil
}

// Type implements attr.Value.
func (Duration) Type(context.Context) attr.Type { return DurationType{} }

// Equal tells whether both are the same text.
func (v Duration) Equal(other attr.Value) bool {
	given, same := other.(Duration)
	return same && v.StringValue.Equal(given.StringValue)
}

// StringSemanticEquals tells whether both are the same duration.
func (v Duration) StringSemanticEquals(
	_ context.Context, other basetypes.StringValuable,
) (bool, diag.Diagnostics) {
	_, same := other.(Duration)
	return same && SameDuration(v, other), nil
}

// ValidateAttribute refuses texts that stand for no duration.
func (v Duration) ValidateAttribute(
	_ context.Context, req xattr.ValidateAttributeRequest, resp *xattr.ValidateAttributeResponse,
) {
	if !IsGiven(v) {
		return
	}
	if _, err := ParseDuration(req.Path.String(), v.ValueString()); err != nil {
		resp.Diagnostics.Append(diagnose.Invalid(req.Path, err))
	}
}

// PositiveDuration is for the texts of timeouts, whose library finds errors when it is too late.
type PositiveDuration struct{}

// Description implements validator.Describer.
func (PositiveDuration) Description(context.Context) string { return "a duration over zero" }

// MarkdownDescription implements validator.Describer.
func (v PositiveDuration) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (PositiveDuration) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if !IsGiven(req.ConfigValue) {
		return
	}
	text := req.ConfigValue.ValueString()
	d, err := ParseDuration(req.Path.String(), text)
	if err == nil && d <= 0 {
		err = fmt.Errorf(`%s is %q; it has to be positive, such as "90s"; leave it out for the default`, req.Path, text)
	}
	if err != nil {
		resp.Diagnostics.Append(diagnose.Invalid(req.Path, err))
	}
}

// SameDuration tells whether both are texts of the same duration.
func SameDuration(x, y attr.Value) bool {
	one, ok := DurationIn(x)
	other, also := DurationIn(y)
	return ok && also && one == other
}

// DurationIn is what a text says, of whatever type. A value that is none has no duration.
func DurationIn(value attr.Value) (time.Duration, bool) {
	given, isText := value.(interface{ ValueString() string })
	if !isText {
		return 0, false
	}
	d, err := delay.ParseDuration(given.ValueString())
	return d, err == nil
}
