// Package attribute has the attributes of a resource as a table. It reads what they describe off a configuration, and
// shows that as a plan or a state. Make a Table of Attributes, each with a Field by Text, Count and the like. Then call
// its methods on Values. It knows nothing of brokers, and nothing of what Terraform does with a resource.
package attribute

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

// Attribute is all that there is to know of an attribute of a resource, whose attributes describe a C.
type Attribute[C any] struct {
	Name string
	// Doc is its description. It is optional, unless it is required.
	Doc      string
	Required bool
	// Default is the value where none is given. Decided are those whose default depends on other attributes.
	Default any
	Decided bool
	// Field is where it stands in a C. No object depends on an attribute without one.
	Field *Field[C]
	// Alters tells that another value may give exchanges or queues other arguments or names. InPlace tells that objects
	// come and go with the value, without that.
	Alters, InPlace bool
	// Check says why a given value is wrong, in place of the check of the field.
	Check func(value attr.Value) string
	// Same tells that two values mean the same to a C, where they are not equal. It goes by the attributes in SameBy.
	Same   func(c *C, planned, state attr.Value) bool
	SameBy []string

	// Schema is for an attribute without a field. It is null after an import, unless it has a default.
	Schema schema.Attribute
	// Show is for an attribute that only the provider sets. It shows what there is of something. Before is the value
	// before.
	Show func(r *Resolved[C], there topology.Topology, before attr.Value) attr.Value
}

// schemaAttribute is its schema.
func (a *Attribute[C]) schemaAttribute() schema.Attribute {
	if a.Schema != nil {
		return a.Schema
	}
	return a.Field.schema(a)
}

// read writes a value into a C.
func (a *Attribute[C]) read(c *C, value attr.Value) {
	if value == nil || value.IsNull() {
		value = a.defaultValue()
	}
	a.Field.read(c, value)
}

// defaultValue is the value where none is given, null for no default.
func (a *Attribute[C]) defaultValue() attr.Value {
	switch value := a.Default.(type) {
	case string:
		return types.StringValue(value)
	case bool:
		return types.BoolValue(value)
	}
	return tfvalue.Null(a.schemaAttribute().GetType())
}

// Field is where an attribute stands in a C.
type Field[C any] struct {
	schema func(a *Attribute[C]) schema.Attribute
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

// Text is a field for a text.
func Text[C any, T ~string](of func(*C) *T, samples ...T) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			s := schema.StringAttribute{Required: a.Required, Optional: !a.Required, MarkdownDescription: a.Doc,
				Computed: a.Decided || a.Default != nil}
			if value, ok := a.Default.(string); ok {
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

// Choice is a field for one of these texts.
func Choice[C any, T ~string](of func(*C) *T, all ...T) *Field[C] {
	f := Text(of, all...)
	f.isComplete = true
	return f
}

// Count is a field for a number from 1 on.
func Count[C any, T int | int64](of func(*C) *T, samples ...T) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.Int64Attribute{CustomType: tfvalue.WholeNumber{}, Optional: true, Computed: a.Decided,
				MarkdownDescription: a.Doc}
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

// Flag is a field for true or false. Otherwise is its value where it is not given and has no default.
func Flag[C any](of func(*C) *bool, otherwise func(*C) bool) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			s := schema.BoolAttribute{Optional: true, Computed: true, MarkdownDescription: a.Doc}
			if value, ok := a.Default.(bool); ok {
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

// Duration is a field for a duration.
func Duration[C any](of func(*C) *time.Duration, samples ...time.Duration) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.StringAttribute{CustomType: tfvalue.DurationType{}, Optional: true, Computed: a.Decided,
				MarkdownDescription: a.Doc}
		},
		read: func(c *C, value attr.Value) { *of(c) = durationIn(value) },
		show: func(c *C) attr.Value {
			if *of(c) == 0 {
				return tfvalue.DurationNull()
			}
			return tfvalue.DurationValue(*of(c))
		},
		sample: sampleOf(of, samples), samples: len(samples),
		check: CheckDuration,
	}
}

// Sampled has so many samples, which go by what else is known of a C.
func (f *Field[C]) Sampled(samples int, sample func(c *C, which int)) *Field[C] {
	f.samples, f.sample = samples, sample
	return f
}

// Durations is a field for a list of durations, null for none. Shown are those of a C in which everything is decided.
func Durations[C any](of func(*C) *[]time.Duration, shown func(*C) []time.Duration) *Field[C] {
	element := tfvalue.DurationType{}
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.ListAttribute{Optional: true, Computed: a.Decided, ElementType: element,
				MarkdownDescription: a.Doc}
		},
		read: func(c *C, value attr.Value) {
			given, _ := value.(types.List)
			*of(c) = nil
			for _, each := range given.Elements() {
				*of(c) = append(*of(c), durationIn(each))
			}
		},
		show: func(c *C) attr.Value {
			var all []attr.Value
			for _, each := range shown(c) {
				all = append(all, tfvalue.DurationValue(each))
			}
			return types.ListValueMust(element, all)
		},
		check: func(value attr.Value) string {
			given, _ := value.(types.List)
			if len(given.Elements()) == 0 {
				return "is empty; give it a value or leave it out"
			}
			for _, each := range given.Elements() {
				text, _ := each.(tfvalue.Duration)
				if _, err := delay.ParseDuration(text.ValueString()); err != nil && !text.IsUnknown() {
					return fmt.Sprintf("have %q; write each as a number and its unit, w, d, h, m, s or ms, such as "+
						`"1h"`, text.ValueString())
				}
			}
			return ""
		},
	}
}

// CheckDuration says why a given duration is wrong.
func CheckDuration(value attr.Value) string {
	if d := durationIn(value); d <= 0 {
		return fmt.Sprintf("is %s; it has to be positive", delay.DurationText(d))
	}
	return ""
}

func durationIn(value attr.Value) time.Duration {
	given, _ := value.(tfvalue.Duration)
	return tfvalue.DurationOf(given)
}

// Texts is a field for a list of texts. A sample is one more of them, or none.
func Texts[C any](of func(*C) *[]string, samples ...[]string) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.ListAttribute{Required: true, ElementType: types.StringType, MarkdownDescription: a.Doc}
		},
		read: func(c *C, value attr.Value) {
			given, _ := value.(types.List)
			*of(c) = nil
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
			return types.ListValueMust(types.StringType, elements)
		},
		sample:  func(c *C, which int) { *of(c) = slices.Concat(*of(c), samples[which]) },
		samples: len(samples),
	}
}

// TextsByKey is a field for a map of texts, null for none.
func TextsByKey[C any](of func(*C) *map[string]string, samples int, sample func(c *C, which int)) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.MapAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: a.Doc}
		},
		read: func(c *C, value attr.Value) {
			*of(c) = nil
			if given, _ := value.(types.Map); tfvalue.IsGiven(value) {
				*of(c) = map[string]string{}
				for key, element := range given.Elements() {
					text, _ := element.(types.String)
					(*of(c))[key] = text.ValueString()
				}
			}
		},
		show:   func(c *C) attr.Value { return tfvalue.TextsByKey(*of(c)) },
		sample: sample, samples: samples,
		check: func(value attr.Value) string {
			given, _ := value.(types.Map)
			for _, key := range slices.Sorted(maps.Keys(given.Elements())) {
				if given.Elements()[key].IsNull() {
					return fmt.Sprintf("has null for %q; give it a value", key)
				}
			}
			return ""
		},
	}
}

// Arguments is a field for further arguments of queues, an object. Nil stands for null.
func Arguments[C any](of func(*C) *topology.Arguments, samples ...topology.Arguments) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.DynamicAttribute{Optional: true, Computed: a.Decided, MarkdownDescription: a.Doc}
		},
		read:   func(c *C, value attr.Value) { *of(c) = tfvalue.ArgumentsIn(value) },
		show:   func(c *C) attr.Value { return tfvalue.ArgumentsValue(*of(c)) },
		sample: sampleOf(of, samples), samples: len(samples),
		check: func(value attr.Value) string {
			if tfvalue.ArgumentsIn(value) == nil && tfvalue.IsFullyKnown(value) {
				return `is no object; write one such as { x-queue-mode = "lazy" }`
			}
			return ""
		},
	}
}

func sampleOf[C, T any](of func(*C) *T, samples []T) func(*C, int) {
	return func(c *C, which int) { *of(c) = samples[which] }
}

// Values are the attributes of a resource by name, in a configuration, a plan or a state.
type Values map[string]attr.Value

// ValuesOf reads all attributes, and checks the values that have a check of their own.
func ValuesOf(ctx context.Context, from interface {
	Get(ctx context.Context, target any) diag.Diagnostics
}) (Values, diag.Diagnostics) {
	var object types.Object
	diags := from.Get(ctx, &object)
	v := object.Attributes()
	for _, name := range slices.Sorted(maps.Keys(v)) {
		diags.Append(CheckType(ctx, name, v[name])...)
		if dynamic, is := v[name].(types.Dynamic); is && dynamic.IsUnderlyingValueNull() {
			v[name] = types.DynamicNull() // of whatever type the null is
		}
	}
	return v, diags
}

// CheckType says why the type of a value does not take it.
func CheckType(ctx context.Context, name string, value attr.Value) diag.Diagnostics {
	var resp xattr.ValidateAttributeResponse
	if checked, ok := value.(xattr.ValidateableAttribute); ok {
		checked.ValidateAttribute(ctx, xattr.ValidateAttributeRequest{Path: path.Root(name)}, &resp)
	}
	return resp.Diagnostics
}

// Text is the text of that name, empty if it is not known or not given.
func (v Values) Text(name string) string {
	given, _ := v[name].(types.String)
	return given.ValueString()
}

// IsTrue tells whether the flag of that name is set.
func (v Values) IsTrue(name string) bool {
	given, _ := v[name].(types.Bool)
	return given.ValueBool()
}

// Duration is the duration of that name, zero if it is not known or not given.
func (v Values) Duration(name string) time.Duration { return durationIn(v[name]) }

// Object is a value for Terraform.
func (v Values) Object() types.Object {
	of := map[string]attr.Type{}
	for name, value := range v {
		of[name] = value.Type(context.Background())
	}
	return types.ObjectValueMust(of, v)
}
