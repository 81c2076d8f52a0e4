package tfvalue

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
)

// DefaultVhost is where a resource is that names no vhost.
const DefaultVhost = "/"

// VhostOf is the vhost that an attribute names.
func VhostOf(attribute types.String) string {
	if attribute.IsNull() {
		return DefaultVhost
	}
	return attribute.ValueString()
}

// ComputedText is an attribute that only the provider sets.
func ComputedText(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func computedNumber(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}

func computedBool(description string) schema.BoolAttribute {
	return schema.BoolAttribute{Computed: true, MarkdownDescription: description}
}

// NotEmpty makes an empty text an error: it is not the same as none, and must not be ignored.
var NotEmpty = []validator.String{stringvalidator.LengthAtLeast(1)}

// Null is the value of a type that stands for none.
func Null(of attr.Type) attr.Value { return value(of, nil) }

// Unknown is the value of a type that stands for one that is not known yet.
func Unknown(of attr.Type) attr.Value { return value(of, tftypes.UnknownValue) }

func value(of attr.Type, raw any) attr.Value {
	ctx := context.Background()
	value, _ := of.ValueFromTerraform(ctx, tftypes.NewValue(of.TerraformType(ctx), raw))
	return value
}

// WholeNumber is the framework's type of whole numbers. That one calls a fraction an error of the provider, which
// is to be reported, and says so twice (1.19.0).
type WholeNumber struct{ basetypes.Int64Type }

// Equal tells whether a value of the other type can be one of this: valid ones are the framework's own.
func (t WholeNumber) Equal(other attr.Type) bool {
	_, same := other.(WholeNumber)
	return same || t.Int64Type.Equal(other)
}

// ValueFromTerraform returns a value that is an error where it is not a whole number.
func (t WholeNumber) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
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
	resp.Diagnostics.Append(diagnose.Invalid(req.Path, errors.New(v.wrong(req.Path.String()))))
}

// ValidateParameter is for the functions. Terraform names the parameter.
func (v notWhole) ValidateParameter(
	_ context.Context, req function.ValidateParameterRequest, resp *function.ValidateParameterResponse,
) {
	resp.Error = function.NewArgumentFuncError(req.Position, v.wrong("it"))
}

// TextOrNull is null for no text.
func TextOrNull[T ~string](text T) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(string(text))
}

// TextIn is the text that a value has, empty if it has none or is not known.
func TextIn(value attr.Value) string {
	text, _ := value.(types.String)
	return text.ValueString()
}

// TextsIn are the texts of a list, without those that are not known.
func TextsIn(list attr.Value) (texts []string) {
	given, _ := list.(types.List)
	for _, each := range given.Elements() {
		if text, _ := each.(types.String); !text.IsUnknown() {
			texts = append(texts, text.ValueString())
		}
	}
	return texts
}

// TextsValue is a list of texts.
func TextsValue(texts []string) types.List {
	return ListOf(types.StringType, texts, func(text string) attr.Value { return types.StringValue(text) })
}

// ListOf is a list of the values of all.
func ListOf[T any](element attr.Type, all []T, value func(T) attr.Value) types.List {
	values := make([]attr.Value, len(all))
	for i, each := range all {
		values[i] = value(each)
	}
	return types.ListValueMust(element, values)
}

// TextsByKey is a map of texts, null for none.
func TextsByKey(texts map[string]string) types.Map {
	if texts == nil {
		return types.MapNull(types.StringType)
	}
	values := map[string]attr.Value{}
	for key, text := range texts {
		values[key] = types.StringValue(text)
	}
	return types.MapValueMust(types.StringType, values)
}

// NumberOrNull is null for no number over zero.
func NumberOrNull[T int | int64](number T) types.Int64 {
	if number <= 0 {
		return types.Int64Null()
	}
	return types.Int64Value(int64(number))
}

// IsGiven tells whether an attribute has a value that is known.
func IsGiven(value attr.Value) bool { return !value.IsNull() && !value.IsUnknown() }

// IsFullyKnown tells whether a value, and all that is in it, is known.
func IsFullyKnown(value attr.Value) bool {
	if value == nil {
		return true
	}
	raw, err := value.ToTerraformValue(context.Background())
	return err == nil && raw.IsFullyKnown()
}
