package resource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// attribute is all that there is to know of an attribute of a resource, whose attributes describe a C.
type attribute[C any] struct {
	name string
	// doc is its description. It is optional, unless it is required.
	doc      string
	required bool
	// value is its default. Decided are those whose default depends on other attributes.
	value   any
	decided bool
	// field is where it stands in a C. No object depends on an attribute without one.
	field *field[C]
	// alters tells that another value may give exchanges or queues other arguments or names. inPlace tells that objects
	// come and go with the value, without that.
	alters, inPlace bool
	// check says why a given value is wrong, in place of the check of the field.
	check func(value attr.Value) string
	// same tells that two values mean the same to a C, where they are not equal. It goes by the attributes in sameBy.
	same   func(c *C, planned, state attr.Value) bool
	sameBy []string

	// schema is for an attribute without a field. It is null after an import, unless it has a default.
	schema schema.Attribute
	// show is for an attribute that only the provider sets. It shows what there is of something. Before is the value
	// before.
	show func(r *resolved[C], there topology.Topology, before attr.Value) attr.Value
}

// isComputed tells whether the provider decides the value that a configuration leaves out.
func (a *attribute[C]) isComputed() bool { return a.decided || a.show != nil }

// schemaAttribute is its schema.
func (a *attribute[C]) schemaAttribute() schema.Attribute {
	if a.schema != nil {
		return a.schema
	}
	return a.field.schema(a)
}

// read writes a value into a C.
func (a *attribute[C]) read(c *C, value attr.Value) {
	if value == nil || value.IsNull() {
		value = a.defaultValue()
	}
	a.field.read(c, value)
}

// defaultValue is the value where none is given, null for no default.
func (a *attribute[C]) defaultValue() attr.Value {
	switch value := a.value.(type) {
	case string:
		return types.StringValue(value)
	case bool:
		return types.BoolValue(value)
	}
	return tfvalue.Null(a.schemaAttribute().GetType())
}

// field is where an attribute stands in a C.
type field[C any] struct {
	schema func(a *attribute[C]) schema.Attribute
	// read writes the value into a C, as far as it is known. Null is what the zero value stands for.
	read func(c *C, value attr.Value)
	// show is the value that it has in a C in which everything is decided.
	show func(c *C) attr.Value
	// sample writes one of so many samples, which are tried in the place of an unknown value.
	sample  func(c *C, which int)
	samples int
	// isComplete tells that the samples are all values that pass the checks.
	isComplete bool
	// check says why a given value is wrong, such as one that would stand for none.
	check func(value attr.Value) string
}

// Those that make a field have its samples. Some of them pass every check, and give different objects. At least two
// have to pass: one that stands twice may be the only one. One is enough if the samples are complete. Where no output
// depends on the value, there is one sample.

// text is a field for a text.
func text[C any, T ~string](of func(*C) *T, samples ...T) *field[C] {
	return &field[C]{
		schema: func(a *attribute[C]) schema.Attribute {
			s := schema.StringAttribute{Required: a.required, Optional: !a.required, MarkdownDescription: a.doc,
				Computed: a.decided || a.value != nil}
			if value, ok := a.value.(string); ok {
				s.Default = stringdefault.StaticString(value)
			}
			return s
		},
		read: func(c *C, value attr.Value) {
			given, _ := value.(types.String)
			*of(c) = T(given.ValueString())
		},
		show:   func(c *C) attr.Value { return tfvalue.TextOrNull(*of(c)) },
		sample: sampleOf(of, samples), samples: len(samples),
		check: func(value attr.Value) string {
			if given, _ := value.(types.String); given.ValueString() == "" {
				return "is empty; give it a value or leave it out"
			}
			return ""
		},
	}
}

// choice is a field for one of these texts.
func choice[C any, T ~string](of func(*C) *T, all ...T) *field[C] {
	f := text(of, all...)
	f.isComplete = true
	return f
}

// count is a field for a number from 1 on.
func count[C any, T int | int64](of func(*C) *T, samples ...T) *field[C] {
	return &field[C]{
		schema: func(a *attribute[C]) schema.Attribute {
			return schema.Int64Attribute{CustomType: tfvalue.WholeNumber{}, Optional: true, Computed: a.decided,
				MarkdownDescription: a.doc}
		},
		read: func(c *C, value attr.Value) {
			given, _ := value.(types.Int64)
			*of(c) = T(given.ValueInt64())
		},
		show:   func(c *C) attr.Value { return tfvalue.NumberOrNull(*of(c)) },
		sample: sampleOf(of, samples), samples: len(samples),
		check: func(value attr.Value) string {
			if given, _ := value.(types.Int64); given.ValueInt64() < 1 {
				return fmt.Sprintf("is %d; it has to be 1 or more", given.ValueInt64())
			}
			return ""
		},
	}
}

// flag is a field for true or false. Otherwise is its value where it is not given and has no default.
func flag[C any](of func(*C) *bool, otherwise func(*C) bool) *field[C] {
	return &field[C]{
		schema: func(a *attribute[C]) schema.Attribute {
			s := schema.BoolAttribute{Optional: true, Computed: true, MarkdownDescription: a.doc}
			if value, ok := a.value.(bool); ok {
				s.Default = booldefault.StaticBool(value)
			}
			return s
		},
		read: func(c *C, value attr.Value) {
			given, _ := value.(types.Bool)
			*of(c) = given.ValueBool() || given.IsNull() && otherwise != nil && otherwise(c)
		},
		show:   func(c *C) attr.Value { return types.BoolValue(*of(c)) },
		sample: sampleOf(of, []bool{true, false}), samples: 2, isComplete: true,
	}
}

// duration is a field for a duration.
func duration[C any](of func(*C) *time.Duration, samples ...time.Duration) *field[C] {
	return &field[C]{
		schema: func(a *attribute[C]) schema.Attribute {
			return schema.StringAttribute{CustomType: tfvalue.DurationType{}, Optional: true, Computed: a.decided,
				MarkdownDescription: a.doc}
		},
		read:   func(c *C, value attr.Value) { *of(c) = durationIn(value) },
		show:   func(c *C) attr.Value { return tfvalue.DurationValue(*of(c)) },
		sample: sampleOf(of, samples), samples: len(samples),
		check: checkDuration,
	}
}

func checkDuration(value attr.Value) string {
	if d := durationIn(value); d <= 0 {
		return fmt.Sprintf("is %s; it has to be positive", delay.DurationText(d))
	}
	return ""
}

func durationIn(value attr.Value) time.Duration {
	given, _ := value.(tfvalue.Duration)
	return tfvalue.DurationOf(given)
}

// texts is a field for a set of texts. A sample is one more of them, or none.
func texts[C any](of func(*C) *[]string, samples ...[]string) *field[C] {
	return &field[C]{
		schema: func(a *attribute[C]) schema.Attribute {
			return schema.SetAttribute{Required: true, ElementType: types.StringType, MarkdownDescription: a.doc}
		},
		read: func(c *C, value attr.Value) {
			given, _ := value.(types.Set)
			for _, element := range given.Elements() {
				if known, ok := element.(types.String); ok && !known.IsUnknown() {
					*of(c) = append(*of(c), known.ValueString())
				}
			}
		},
		show: func(c *C) attr.Value {
			elements := make([]attr.Value, len(*of(c)))
			for i, each := range *of(c) {
				elements[i] = types.StringValue(each)
			}
			return types.SetValueMust(types.StringType, elements)
		},
		sample:  func(c *C, which int) { *of(c) = slices.Concat(*of(c), samples[which]) },
		samples: len(samples),
	}
}

func sampleOf[C, T any](of func(*C) *T, samples []T) func(*C, int) {
	return func(c *C, which int) { *of(c) = samples[which] }
}

// isFullyKnown tells whether a value, and all that is in it, is known.
func isFullyKnown(value attr.Value) bool {
	if value == nil {
		return true
	}
	raw, err := value.ToTerraformValue(context.Background())
	return err == nil && raw.IsFullyKnown()
}

// values are the attributes of a resource by name, in a configuration, a plan or a state.
type values map[string]attr.Value

// valuesOf reads all attributes, and checks the values that have a check of their own.
func valuesOf(ctx context.Context, from interface {
	Get(ctx context.Context, target any) diag.Diagnostics
}) (values, diag.Diagnostics) {
	var object types.Object
	diags := from.Get(ctx, &object)
	v := object.Attributes()
	for _, name := range slices.Sorted(maps.Keys(v)) {
		diags.Append(checkType(ctx, name, v[name])...)
	}
	return v, diags
}

// checkType says why the type of a value does not take it.
func checkType(ctx context.Context, name string, value attr.Value) diag.Diagnostics {
	var resp xattr.ValidateAttributeResponse
	if checked, ok := value.(xattr.ValidateableAttribute); ok {
		checked.ValidateAttribute(ctx, xattr.ValidateAttributeRequest{Path: path.Root(name)}, &resp)
	}
	return resp.Diagnostics
}

func (v values) text(name string) string {
	given, _ := v[name].(types.String)
	return given.ValueString()
}

func (v values) isTrue(name string) bool {
	given, _ := v[name].(types.Bool)
	return given.ValueBool()
}
