package resource

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/private"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// kind is a kind of resource: its attributes, and the objects that they stand for. C is what the attributes describe.
type kind[C any] struct {
	// name is what such a thing is called in messages.
	name, doc  string
	attributes []attribute[C]
	// resolve decides what a configuration leaves open. Its error is of type delay.Errors.
	resolve func(given C) (resolved[C], error)

	// identity are the attributes that tell one from another on a broker. An update may change a mutable one.
	identity        map[string]identityschema.Attribute
	mutableIdentity bool
	// parseID reads an identity from an import ID, and checkIdentity says why one is wrong.
	parseID       func(id string) (values, error)
	checkIdentity func(id values) string
	// find reads the configuration of what has an identity off the broker.
	find func(ctx context.Context, r *managed[C], id values, kept private.State) (C, diag.Diagnostics)
	// recognize reads the configuration of what has an entry exchange off the broker.
	recognize func(ctx context.Context, look recognize.Lookup, vhost, entry string) (C, error)
	// displayName says in a few words which one something is, beside its identity.
	displayName func(x resolved[C]) string

	// prepare completes a change, and say has the words for what came of it. Remember notes the objects then.
	prepare  func(ctx context.Context, r *managed[C], c *change[C]) diag.Diagnostics
	say      func(ctx context.Context, r *managed[C], c *change[C], result engine.Result, err error) diag.Diagnostics
	remember func(ctx context.Context, c *change[C], result engine.Result) diag.Diagnostics
	// read looks what there is of a state: nil if all is gone.
	read func(ctx context.Context, r *managed[C], x resolved[C], state values, kept private.State) (
		there *topology.Topology, diags diag.Diagnostics)
	// complete plans what depends on the state, which is nil for a create.
	complete func(plan, state values)
	// look says what a plan would do to what there is, and lookAtDestroy that of a destroy.
	look, lookAtDestroy func(ctx context.Context, r *managed[C], p planning)
}

// resolved is a configuration in which everything is decided, with the objects that it stands for.
type resolved[C any] struct {
	config C
	tfvalue.Depiction
	scale delay.Scale
}

func (k *kind[C]) schema() schema.Schema {
	attributes := map[string]schema.Attribute{}
	for _, a := range k.attributes {
		attributes[a.name] = a.schemaAttribute()
	}
	return schema.Schema{MarkdownDescription: k.doc, Attributes: attributes}
}

// trial is a configuration with samples in the place of its unknown values. Samples say which of several these are,
// unless they are complete.
type trial[C any] struct {
	config  C
	samples []int
}

// mostTrials is how many combinations of samples are tried.
const mostTrials = 128

// trials has the configuration with every combination of samples in the place of unknown values. If all is known that
// the objects depend on, it has that configuration alone. It is nil if there are too many.
func (k *kind[C]) trials(v values) []trial[C] {
	all := []trial[C]{{}}
	for _, a := range k.attributes {
		if a.field == nil {
			continue
		}
		for i := range all {
			a.read(&all[i].config, v[a.name])
		}
		if isFullyKnown(v[a.name]) {
			continue
		}
		var combined []trial[C]
		for _, t := range all {
			for sample := range a.field.samples {
				one := trial[C]{t.config, slices.Clone(t.samples)}
				a.field.sample(&one.config, sample)
				if a.field.samples > 1 && !a.field.isComplete {
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

func (k *kind[C]) isKnown(v values) bool {
	return !slices.ContainsFunc(k.attributes,
		func(a attribute[C]) bool { return a.field != nil && !isFullyKnown(v[a.name]) })
}

// config is what values describe that are known.
func (k *kind[C]) config(v values) (c C) {
	for _, a := range k.attributes {
		if a.field != nil {
			a.read(&c, v[a.name])
		}
	}
	return c
}

// of is what a state or a known plan stands for.
func (k *kind[C]) of(v values) (resolved[C], diag.Diagnostics) {
	r, err := k.resolve(k.config(v))
	if err != nil {
		return r, diagnose.ConfigErrors(err)
	}
	return r, nil
}

// show has the attributes that a configuration gives or leaves out, as there is something of it.
func (k *kind[C]) show(r *resolved[C], there topology.Topology, before values) values {
	shown := values{}
	for _, a := range k.attributes {
		switch {
		case a.show != nil:
			shown[a.name] = a.show(r, there, before[a.name])
		case a.field != nil:
			shown[a.name] = a.field.show(&r.config)
		}
	}
	return shown
}

// computed is what can be said of a configuration some of whose values may not be known. It tries samples in their
// place. A result that is the same every time does not depend on them. It is nil if nothing can be said. Errors are the
// faults that no sample mends.
func (k *kind[C]) computed(config, before values) (known values, common delay.Errors) {
	var passed []trial[C]
	for i, t := range k.trials(config) {
		x, err := k.resolve(t.config)
		var errs delay.Errors
		errors.As(err, &errs)
		if i == 0 {
			common = errs
		}
		common = slices.DeleteFunc(common, func(e delay.AttributeError) bool {
			return !slices.ContainsFunc(errs,
				func(other delay.AttributeError) bool { return other.Attribute == e.Attribute })
		})
		if err != nil {
			continue
		}
		shown := k.show(&x, x.Desired, before)
		if passed = append(passed, t); len(passed) > 1 {
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

// setComputed plans what the configuration leaves to the provider. Before is the state, nil for a create.
func (k *kind[C]) setComputed(plan, config, before values) delay.Errors {
	known, errs := k.computed(config, before)
	for _, a := range k.attributes {
		if !a.isComputed() || !config[a.name].IsNull() {
			continue
		}
		if value, isKnown := known[a.name]; isKnown {
			plan[a.name] = value
		} else {
			plan[a.name] = unknownLike(plan[a.name])
		}
	}
	return errs
}

// check reports the values that are given and say nothing: in a C they would stand for a default. Those of a required
// attribute stand for none.
func (k *kind[C]) check(config values) (errs delay.Errors) {
	for _, a := range k.attributes {
		check := a.check
		if check == nil && a.field != nil && !a.required {
			check = a.field.check
		}
		if check == nil || !tfvalue.IsGiven(config[a.name]) {
			continue
		}
		if wrong := check(config[a.name]); wrong != "" {
			errs = append(errs, delay.AttributeError{Attribute: a.name, Message: wrong})
		}
	}
	return errs
}

// imported is the state of something that was just recognized, before its objects are read.
func (k *kind[C]) imported(c C) (values, error) {
	r, err := k.resolve(c)
	if err != nil {
		return nil, err
	}
	state := k.show(&r, r.Desired, nil)
	for _, a := range k.attributes {
		if a.field == nil && a.show == nil {
			state[a.name] = a.defaultValue()
		}
	}
	return state, nil
}

// setActual writes what there is into a state.
func (k *kind[C]) setActual(v values, actual topology.Topology) diag.Diagnostics {
	r, diags := k.of(v)
	if diags.HasError() {
		return diags
	}
	for _, a := range k.attributes {
		if a.show != nil {
			v[a.name] = a.show(&r, actual, v[a.name])
		}
	}
	return nil
}

// keepEqual keeps in a plan what the state says in other words, so that there is no difference. Terraform allows a plan
// the value of the state in place of the configured one. The framework compares by meaning the values that come back
// from an apply and a refresh, but not the planned ones (1.19.0).
func (k *kind[C]) keepEqual(plan, state values) {
	c := k.config(plan)
	isUnknown := func(name string) bool { return !isFullyKnown(plan[name]) }
	for _, a := range k.attributes {
		planned, before := plan[a.name], state[a.name]
		if !tfvalue.IsGiven(planned) || !tfvalue.IsGiven(before) {
			continue
		}
		isSame := a.same != nil && !slices.ContainsFunc(a.sameBy, isUnknown) && a.same(&c, planned, before)
		switch planned := planned.(type) {
		case timeouts.Value:
			plan[a.name] = keepTimeouts(planned, before)
			continue
		case tfvalue.Duration:
			isSame = isSame || sameDuration(planned, before)
		}
		if isSame {
			plan[a.name] = before
		}
	}
}

// keepTimeouts keeps each of the durations. Their own type compares texts.
func keepTimeouts(planned timeouts.Value, state attr.Value) timeouts.Value {
	had, _ := state.(timeouts.Value)
	kept := maps.Clone(planned.Attributes())
	for operation, value := range kept {
		if before := had.Attributes()[operation]; sameDuration(value, before) {
			kept[operation] = before
		}
	}
	planned.Object = types.ObjectValueMust(planned.AttributeTypes(context.Background()), kept)
	return planned
}

// sameDuration tells whether both are texts of the same duration.
func sameDuration(x, y attr.Value) bool {
	one, ok := durationText(x)
	other, also := durationText(y)
	return ok && also && one == other
}

func durationText(value attr.Value) (time.Duration, bool) {
	text := ""
	switch value := value.(type) {
	case tfvalue.Duration:
		text = value.ValueString()
	case types.String:
		text = value.ValueString()
	}
	d, err := delay.ParseDuration(text)
	return d, err == nil
}

// alteredBy lists the attributes that change, if an exchange or queue gets other arguments or another name with them.
// Bindings can change as they are. Policies and the objects where they lead can come and go.
func (k *kind[C]) alteredBy(state, plan values) (path.Paths, diag.Diagnostics) {
	var changed, others path.Paths
	known, same := true, maps.Clone(plan)
	for _, a := range k.attributes {
		switch {
		case state[a.name].Equal(plan[a.name]):
		case a.alters:
			changed = append(changed, path.Root(a.name))
			known = known && !plan[a.name].IsUnknown()
		case a.inPlace:
			others = append(others, path.Root(a.name))
			same[a.name] = state[a.name]
		}
	}
	if len(changed) > 0 && (!known || !samePlace(state, plan)) {
		return changed, nil
	}
	before, diags := k.of(state)
	after, err := k.resolve(k.config(same)) // new names may not fit the delays before
	if len(changed) > 0 &&
		(err != nil || !before.Desired.WithoutPolicies().SameObjects(after.Desired.WithoutPolicies())) {
		return changed, diags
	}
	if len(others) == 0 || !k.isKnown(plan) {
		return nil, diags
	}
	// What comes and goes in place does so under names that are free.
	whole, more := k.of(plan)
	diags.Append(more...)
	for name, q := range whole.Desired.Queues {
		if had, exists := before.Desired.Queues[name]; exists && !had.Equal(q) {
			return others, diags
		}
	}
	return nil, diags
}

// samePlace tells whether publishers find both in the same place: what moves elsewhere is replaced, all else that
// alters objects is a rebuild. A place that is not known yet is another one.
func samePlace(state, plan values) bool {
	for _, name := range []string{"vhost", "entry_exchange"} {
		if before, has := state[name]; has && !before.Equal(plan[name]) {
			return false
		}
	}
	return true
}

// lostQueues are those that a plan removes where it is an update. They are none where the plan is not known yet. A
// cascade with other delay queues is rebuilt: it may lose the queue of unroutable messages.
func (k *kind[C]) lostQueues(state, plan values) []topology.Queue {
	if !k.isKnown(plan) {
		return nil
	}
	before, diags := k.of(state)
	after, more := k.of(plan)
	if diags.HasError() || more.HasError() {
		return nil
	}
	return slices.Collect(maps.Values(before.Desired.Extras(after.Desired).Queues))
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
