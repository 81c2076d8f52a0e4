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
	// Together are attributes that mean something by each other. Where two of them are unknown, nothing can be said.
	Together []string
	// Resolve decides what a configuration leaves open. Its error is of type delay.Errors.
	Resolve func(given C) (Resolved[C], error)
}

// Resolved is a configuration in which everything is decided, with the objects that it stands for.
type Resolved[C any] struct {
	Config C
	tfvalue.Depiction
	Scale delay.Scale
}

// Schema has the schema of each attribute, by its name.
func (t *Table[C]) Schema() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{}
	for _, a := range t.Attributes {
		attributes[a.Name] = a.schemaAttribute()
	}
	return attributes
}

// trial is a configuration with samples in the place of its unknown values. Samples say which of several these are,
// unless they are complete.
type trial[C any] struct {
	config  C
	samples []int
}

// unknownTogether is how many of the attributes are unknown that mean something by each other.
func (t *Table[C]) unknownTogether(v Values) (unknown int) {
	for _, name := range t.Together {
		if !tfvalue.IsFullyKnown(v[name]) {
			unknown++
		}
	}
	return unknown
}

// mostTrials is how many combinations of samples are tried.
const mostTrials = 128

// trials has the configuration with every combination of samples in the place of unknown values. If all is known that
// the objects depend on, it has that configuration alone. It is nil if there are too many,
// or nothing can be said.
func (t *Table[C]) trials(v Values) []trial[C] {
	if t.unknownTogether(v) > 1 {
		return nil
	}
	all := []trial[C]{{t.Config(v), nil}} // samples may go by all that is known
	for _, a := range t.Attributes {
		if a.Field == nil {
			continue
		}
		for i := range all {
			a.read(&all[i].config, v[a.Name]) // a default may go by a sample
		}
		if tfvalue.IsFullyKnown(v[a.Name]) {
			continue
		}
		var combined []trial[C]
		for _, each := range all {
			for sample := range a.Field.samples {
				one := trial[C]{each.config, slices.Clone(each.samples)}
				a.Field.sample(&one.config, sample)
				if a.Field.samples > 1 && !a.Field.isComplete {
					one.samples = append(one.samples, sample)
				}
				combined = append(combined, one)
			}
		}
		if all = combined; len(all) > mostTrials {
			return nil
		}
	}
	return all
}

// IsKnown tells whether all is known that the objects depend on.
func (t *Table[C]) IsKnown(v Values) bool {
	return !slices.ContainsFunc(t.Attributes,
		func(a Attribute[C]) bool { return a.Field != nil && !tfvalue.IsFullyKnown(v[a.Name]) })
}

// Config is what values describe that are known.
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

// show has the attributes that a configuration gives or leaves out, as there is something of it.
func (t *Table[C]) show(r *Resolved[C], there topology.Topology, before Values) Values {
	shown := t.Values(&r.Config)
	for _, a := range t.Attributes {
		if a.Show != nil {
			shown[a.Name] = a.Show(r, there, before[a.Name])
		}
	}
	return shown
}

// Computed is what can be said of a configuration some of whose values may not be known. It tries samples in their
// place. A result that is the same every time does not depend on them. It is nil if nothing can be said. Errors are the
// faults that no sample mends.
func (t *Table[C]) Computed(config, before Values) (known Values, common delay.Errors) {
	var passed []trial[C]
	for i, one := range t.trials(config) {
		x, err := t.Resolve(one.config)
		var errs delay.Errors
		errors.As(err, &errs)
		if i == 0 {
			common = errs
		}
		common = slices.DeleteFunc(common, func(e delay.AttributeError) bool {
			return !tfvalue.IsFullyKnown(config[e.Attribute]) || !slices.ContainsFunc(errs,
				func(other delay.AttributeError) bool { return other.Attribute == e.Attribute })
		})
		if err != nil {
			continue
		}
		shown := t.show(&x, x.Desired, before)
		if passed = append(passed, one); len(passed) > 1 {
			shown = commonOf(known, shown)
		}
		known = shown
	}
	if !provesAll(passed) {
		return nil, common
	}
	return known, common
}

// provesAll tells whether at least two samples of each unknown value are among the trials.
func provesAll[C any](passed []trial[C]) bool {
	if len(passed) == 0 {
		return false
	}
	for i, sample := range passed[0].samples {
		if !slices.ContainsFunc(passed, func(t trial[C]) bool { return t.samples[i] != sample }) {
			return false
		}
	}
	return true
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
			plan[a.Name] = unknownLike(plan[a.Name])
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
	state := t.show(&r, r.Desired, nil)
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

// commonOf keeps the values that are the same in two forecasts, and makes the rest unknown.
func commonOf(x, y map[string]attr.Value) map[string]attr.Value {
	both := map[string]attr.Value{}
	for key, value := range x {
		both[key] = common(value, y[key])
	}
	return both
}

// common is the value if both are equal, a map or object with the common part if they have the same keys, and unknown
// otherwise.
func common(x, y attr.Value) attr.Value {
	if x.Equal(y) {
		return x
	}
	ctx := context.Background()
	switch x := x.(type) {
	case types.Map:
		y, _ := y.(types.Map)
		if sameKeys(x.Elements(), y.Elements()) {
			return types.MapValueMust(x.ElementType(ctx), commonOf(x.Elements(), y.Elements()))
		}
	case types.Object:
		y, _ := y.(types.Object)
		if sameKeys(x.Attributes(), y.Attributes()) {
			return types.ObjectValueMust(x.AttributeTypes(ctx), commonOf(x.Attributes(), y.Attributes()))
		}
	}
	return unknownLike(x)
}

func sameKeys(x, y map[string]attr.Value) bool {
	return len(x) > 0 && maps.EqualFunc(x, y, func(attr.Value, attr.Value) bool { return true })
}

// unknownLike is the unknown value of the same type.
func unknownLike(value attr.Value) attr.Value {
	return tfvalue.Unknown(value.Type(context.Background()))
}
