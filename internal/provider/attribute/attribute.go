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
	// From are the attributes that it follows from where it is not given. If one of them is unknown, so is its value.
	// An error on it waits until these are known, and those in CheckedBy.
	From, CheckedBy []string
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

// Resolved is a configuration in which everything is decided, with the objects that it stands for.
type Resolved[C any] struct {
	Config C
	tfvalue.ObjectMaps
	Scale delay.Scale
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
	// check says why a given value is wrong, such as one that would stand for none.
	check func(value attr.Value) string
}

// Text is a field for a text.
func Text[C any, T ~string](of func(*C) *T) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			s := schema.StringAttribute{Required: a.Required, Optional: !a.Required, MarkdownDescription: a.Doc,
				Computed: a.Decided || a.Default != nil}
			if value, ok := a.Default.(string); ok {
				s.Default = stringdefault.StaticString(value)
			}
			return s
		},
		read: func(c *C, value attr.Value) { *of(c) = T(tfvalue.TextIn(value)) },
		show: func(c *C) attr.Value { return tfvalue.TextOrNull(*of(c)) },
		check: func(value attr.Value) string {
			if tfvalue.TextIn(value) == "" {
				return "is empty; give it a value or leave it out"
			}
			return ""
		},
	}
}

// Count is a field for a number from 1 on.
func Count[C any, T int | int64](of func(*C) *T) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.Int64Attribute{CustomType: tfvalue.WholeNumber{}, Optional: true, Computed: a.Decided,
				MarkdownDescription: a.Doc}
		},
		read: func(c *C, value attr.Value) {
			given, _ := value.(types.Int64)
			*of(c) = T(given.ValueInt64())
		},
		show: func(c *C) attr.Value { return tfvalue.NumberOrNull(*of(c)) },
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
		show: func(c *C) attr.Value { return types.BoolValue(*of(c)) },
	}
}

// Duration is a field for a duration.
func Duration[C any](of func(*C) *time.Duration) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.StringAttribute{CustomType: tfvalue.DurationType{}, Optional: true, Computed: a.Decided,
				MarkdownDescription: a.Doc}
		},
		read: func(c *C, value attr.Value) { *of(c) = tfvalue.DurationOf(value) },
		show: func(c *C) attr.Value {
			if *of(c) == 0 {
				return tfvalue.Duration{}
			}
			return tfvalue.DurationValue(*of(c))
		},
		check: CheckDuration,
	}
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
				*of(c) = append(*of(c), tfvalue.DurationOf(each))
			}
		},
		show: func(c *C) attr.Value {
			return tfvalue.ListOf(element, shown(c),
				func(d time.Duration) attr.Value { return tfvalue.DurationValue(d) })
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
	if d := tfvalue.DurationOf(value); d <= 0 {
		return fmt.Sprintf("is %s; it has to be positive", delay.DurationText(d))
	}
	return ""
}

// Texts is a field for a list of texts.
func Texts[C any](of func(*C) *[]string) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.ListAttribute{Required: true, ElementType: types.StringType, MarkdownDescription: a.Doc}
		},
		read: func(c *C, value attr.Value) { *of(c) = tfvalue.TextsIn(value) },
		show: func(c *C) attr.Value { return tfvalue.TextsValue(*of(c)) },
	}
}

// TextsByKey is a field for a map of texts, nil for null and where one of them is unknown.
func TextsByKey[C any](of func(*C) *map[string]string) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.MapAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: a.Doc}
		},
		read: func(c *C, value attr.Value) {
			*of(c) = nil
			if given, _ := value.(types.Map); !value.IsNull() && tfvalue.IsFullyKnown(value) {
				*of(c) = map[string]string{}
				for key, element := range given.Elements() {
					(*of(c))[key] = tfvalue.TextIn(element)
				}
			}
		},
		show: func(c *C) attr.Value { return tfvalue.TextsByKey(*of(c)) },
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
func Arguments[C any](of func(*C) *topology.Arguments) *Field[C] {
	return &Field[C]{
		schema: func(a *Attribute[C]) schema.Attribute {
			return schema.DynamicAttribute{Optional: true, Computed: a.Decided, MarkdownDescription: a.Doc}
		},
		read: func(c *C, value attr.Value) { *of(c) = tfvalue.ArgumentsIn(value) },
		show: func(c *C) attr.Value { return tfvalue.ArgumentsValue(*of(c)) },
		check: func(value attr.Value) string {
			if tfvalue.ArgumentsIn(value) == nil && tfvalue.IsFullyKnown(value) {
				return `is no object; write one such as { x-queue-mode = "lazy" }`
			}
			return ""
		},
	}
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
		if checked, ok := v[name].(xattr.ValidateableAttribute); ok {
			var resp xattr.ValidateAttributeResponse
			checked.ValidateAttribute(ctx, xattr.ValidateAttributeRequest{Path: path.Root(name)}, &resp)
			diags.Append(resp.Diagnostics...)
		}
		if dynamic, is := v[name].(types.Dynamic); is && dynamic.IsUnderlyingValueNull() {
			v[name] = types.DynamicNull() // of whatever type the null is
		}
	}
	return v, diags
}

// Text is the text of that name, empty if it is not known or not given.
func (v Values) Text(name string) string { return tfvalue.TextIn(v[name]) }

// IsTrue tells whether the flag of that name is set.
func (v Values) IsTrue(name string) bool {
	given, _ := v[name].(types.Bool)
	return given.ValueBool()
}

// Duration is the duration of that name, zero if it is not known or not given.
func (v Values) Duration(name string) time.Duration { return tfvalue.DurationOf(v[name]) }

// Object is a value for Terraform.
func (v Values) Object() types.Object {
	of := map[string]attr.Type{}
	for name, value := range v {
		of[name] = value.Type(context.Background())
	}
	return types.ObjectValueMust(of, v)
}
