package attribute

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Table is the attributes of a resource, and the objects that they stand for. C is what the attributes describe.
type Table[C any] struct {
	Attributes []Attribute[C]
	// StandIn writes something valid in place of unknown values whose zero value is not. It may add names to the
	// unknown ones, of attributes or others in From.
	StandIn func(c *C, unknown map[string]bool)
	// Resolve decides what a configuration leaves open. Its error is of type delay.Errors.
	Resolve func(given C) (Resolved[C], error)
}

// Schema has the schema of each attribute, by its name.
func (t *Table[C]) Schema() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{}
	for _, a := range t.Attributes {
		attributes[a.Name] = a.schemaAttribute()
	}
	return attributes
}

// IsKnown tells whether all is known that the objects depend on.
func (t *Table[C]) IsKnown(v Values) bool {
	return !slices.ContainsFunc(t.Attributes,
		func(a Attribute[C]) bool { return a.Field != nil && !tfvalue.IsFullyKnown(v[a.Name]) })
}

// Config is what values describe, as far as they are known.
func (t *Table[C]) Config(v Values) (c C) {
	for _, a := range t.Attributes {
		if a.Field != nil {
			a.read(&c, v[a.Name])
		}
	}
	return c
}

// Of is what a state or a known plan stands for.
func (t *Table[C]) Of(v Values) (Resolved[C], diag.Diagnostics) {
	r, err := t.Resolve(t.Config(v))
	if err != nil {
		return r, diagnose.ConfigErrors(err)
	}
	return r, nil
}

// Values are those of all attributes with a field. In c, everything is decided.
func (t *Table[C]) Values(c *C) Values {
	v := Values{}
	for _, a := range t.Attributes {
		if a.Field != nil {
			v[a.Name] = a.Field.show(c)
		}
	}
	return v
}

// show has the attributes that a configuration gives or leaves out, as if all of it were there.
func (t *Table[C]) show(r *Resolved[C], before Values) Values {
	shown := t.Values(&r.Config)
	for _, a := range t.Attributes {
		if a.Show != nil {
			shown[a.Name] = a.Show(r, r.Desired, before[a.Name])
		}
	}
	return shown
}

// Computed is what a configuration leaves to the provider, without what follows from unknown values. It is nil if the
// configuration is not valid with what stands in for these. Errors are faults that go by known values alone.
func (t *Table[C]) Computed(config, before Values) (known Values, errs delay.Errors) {
	unknown := map[string]bool{}
	for name, value := range config {
		unknown[name] = !tfvalue.IsFullyKnown(value)
	}
	isUnknown := func(name string) bool { return unknown[name] }
	c := t.Config(config)
	if t.StandIn != nil {
		t.StandIn(&c, unknown)
	}
	r, err := t.Resolve(c)
	if err == nil {
		known = t.show(&r, before)
	}
	errors.As(err, &errs)
	for _, a := range t.Attributes {
		follows := unknown[a.Name] || slices.ContainsFunc(a.From, isUnknown)
		if follows {
			delete(known, a.Name)
		}
		if follows || slices.ContainsFunc(a.CheckedBy, isUnknown) {
			errs = slices.DeleteFunc(errs, func(e delay.AttributeError) bool { return e.Attribute == a.Name })
		}
	}
	return known, errs
}

// SetComputed plans what the configuration leaves to the provider. Before is the state, nil for a create.
func (t *Table[C]) SetComputed(plan, config, before Values) delay.Errors {
	known, errs := t.Computed(config, before)
	for _, a := range t.Attributes {
		if isComputed := a.Decided || a.Show != nil; !isComputed || !config[a.Name].IsNull() {
			continue
		}
		if value, isKnown := known[a.Name]; isKnown {
			plan[a.Name] = value
		} else {
			plan[a.Name] = tfvalue.Unknown(plan[a.Name].Type(context.Background()))
		}
	}
	return errs
}

// Check reports the values that are given and say nothing: in a C they would stand for a default. Those of a required
// attribute stand for none.
func (t *Table[C]) Check(config Values) (errs delay.Errors) {
	for _, a := range t.Attributes {
		check := a.Check
		if check == nil && a.Field != nil && !a.Required {
			check = a.Field.check
		}
		if check == nil || !tfvalue.IsGiven(config[a.Name]) {
			continue
		}
		if wrong := check(config[a.Name]); wrong != "" {
			errs = append(errs, delay.AttributeError{Attribute: a.Name, Message: wrong})
		}
	}
	return errs
}

// Imported is the state of something that was just recognized, before its objects are read.
func (t *Table[C]) Imported(c C) (Values, error) {
	r, err := t.Resolve(c)
	if err != nil {
		return nil, err
	}
	state := t.show(&r, nil)
	for _, a := range t.Attributes {
		if a.Field == nil && a.Show == nil {
			state[a.Name] = a.defaultValue()
		}
	}
	return state, nil
}

// SetActual writes what there is into a state.
func (t *Table[C]) SetActual(v Values, actual topology.Topology) diag.Diagnostics {
	r, diags := t.Of(v)
	if diags.HasError() {
		return diags
	}
	for _, a := range t.Attributes {
		if a.Show != nil {
			v[a.Name] = a.Show(&r, actual, v[a.Name])
		}
	}
	return nil
}

// KeepEqual keeps in a plan what the state says in other words, so that there is no difference. Terraform allows a plan
// the value of the state in place of the configured one. The framework compares by meaning the values that come back
// from an apply and a refresh, but not the planned ones (1.19.0).
func (t *Table[C]) KeepEqual(plan, state Values) {
	c := t.Config(plan)
	isUnknown := func(name string) bool { return !tfvalue.IsFullyKnown(plan[name]) }
	for _, a := range t.Attributes {
		planned, before := plan[a.Name], state[a.Name]
		if !tfvalue.IsGiven(planned) || !tfvalue.IsGiven(before) {
			continue
		}
		isSame := a.Same != nil && !slices.ContainsFunc(a.SameBy, isUnknown) && a.Same(&c, planned, before)
		switch planned := planned.(type) {
		case timeouts.Value:
			plan[a.Name] = keepTimeouts(planned, before)
			continue
		case tfvalue.Duration:
			isSame = isSame || tfvalue.SameDuration(planned, before)
		case types.Dynamic:
			isSame = isSame || tfvalue.SameArguments(planned, before)
		}
		if isSame {
			plan[a.Name] = before
		}
	}
}

// keepTimeouts keeps each of the durations. Their own type compares texts.
func keepTimeouts(planned timeouts.Value, state attr.Value) timeouts.Value {
	had, _ := state.(timeouts.Value)
	kept := maps.Clone(planned.Attributes())
	for operation, value := range kept {
		if before := had.Attributes()[operation]; tfvalue.SameDuration(value, before) {
			kept[operation] = before
		}
	}
	planned.Object = types.ObjectValueMust(planned.AttributeTypes(context.Background()), kept)
	return planned
}
