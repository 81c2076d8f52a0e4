package topology

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// Differences are the objects in which a broker differs from the desired topology, each list in a fixed order.
type Differences struct {
	MissingExchanges, MissingQueues []string
	// WrongExchanges and WrongQueues exist with other properties.
	WrongExchanges, WrongQueues []string
	MissingBindings             []Binding
	// ForeignBindings are those of others on the exchanges that the topology owns.
	ForeignBindings []Binding
	// MissingPolicies and WrongPolicies can be set without touching anything else.
	MissingPolicies, WrongPolicies []string
}

// Diff compares a broker's objects with the desired ones.
func Diff(desired, actual Topology) Differences {
	var d Differences
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		switch have, exists := actual.Exchanges[name]; {
		case !exists:
			d.MissingExchanges = append(d.MissingExchanges, name)
		case !have.Equal(desired.Exchanges[name]):
			d.WrongExchanges = append(d.WrongExchanges, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Queues)) {
		switch have, exists := actual.Queues[name]; {
		case !exists:
			d.MissingQueues = append(d.MissingQueues, name)
		case !have.Equal(desired.Queues[name]):
			d.WrongQueues = append(d.WrongQueues, name)
		}
	}
	for _, b := range desired.Bindings.Sorted() {
		if !actual.Bindings.Has(b) {
			d.MissingBindings = append(d.MissingBindings, b)
		}
	}
	for _, b := range actual.Bindings.Sorted() {
		if desired.Owns(b.Source) && !desired.Bindings.Has(b) {
			d.ForeignBindings = append(d.ForeignBindings, b)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Policies)) {
		switch have, exists := actual.Policies[name]; {
		case !exists:
			d.MissingPolicies = append(d.MissingPolicies, name)
		case !have.Equal(desired.Policies[name]):
			d.WrongPolicies = append(d.WrongPolicies, name)
		}
	}
	return d
}

// Object is an object of a topology that a broker has already, and its differences from the desired one.
type Object struct {
	// Name is the object in words, such as `queue "tasks.delay-03"`.
	Name string
	// Differences is empty if the object is exactly as desired.
	Differences []Difference
}

// Difference is one property or argument with both its values, as text.
type Difference struct{ Property, Desired, Actual string }

// Absent stands for the value of an argument that is not there.
const Absent = "absent"

func (d Difference) String() string {
	return plaintext.Line(fmt.Sprintf("%s is %s, not %s", d.Property, d.Actual, d.Desired))
}

func (o Object) String() string {
	if len(o.Differences) == 0 {
		return o.Name
	}
	parts := make([]string, len(o.Differences))
	for i, d := range o.Differences {
		parts[i] = d.String()
	}
	return o.Name + ": " + strings.Join(parts, "; ")
}

// Existing lists what of the desired topology is there already, and what others have bound to the
// exchanges that it would own.
func Existing(desired, actual Topology) []Object {
	var objects []Object
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		if have, exists := actual.Exchanges[name]; exists {
			objects = append(objects, Object{fmt.Sprintf("exchange %q", name),
				desired.Exchanges[name].Differences(have)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Queues)) {
		if have, exists := actual.Queues[name]; exists {
			objects = append(objects, Object{fmt.Sprintf("queue %q", name), desired.Queues[name].Differences(have)})
		}
	}
	for _, b := range Diff(desired, actual).ForeignBindings {
		if !b.IsMark() {
			objects = append(objects, Object{"binding of " + b.Describe(), []Difference{{"it", "one of its own",
				"somebody else's"}}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Policies)) {
		if have, exists := actual.Policies[name]; exists {
			objects = append(objects, Object{PolicyObject(name), desired.Policies[name].Differences(have)})
		}
	}
	return objects
}

// Differences are the properties in which an exchange that exists differs.
func (e Exchange) Differences(have Exchange) []Difference {
	var found []Difference
	found = compare(found, "type", e.Type, have.Type)
	found = compare(found, "durable", e.Durable, have.Durable)
	found = compare(found, "auto_delete", e.AutoDelete, have.AutoDelete)
	found = compare(found, "internal", e.Internal, have.Internal)
	return append(found, e.Arguments.differences(have.Arguments)...)
}

// Differences are the properties in which a queue that exists differs.
func (q Queue) Differences(have Queue) []Difference {
	var found []Difference
	found = compare(found, "type", q.Type(), have.Type())
	found = compare(found, "durable", q.Durable, have.Durable)
	found = compare(found, "auto_delete", q.AutoDelete, have.AutoDelete)
	found = compare(found, "exclusive", q.Exclusive, have.Exclusive)
	return append(found, q.Arguments.withoutType().differences(have.Arguments.withoutType())...)
}

func compare[T comparable](found []Difference, property string, want, have T) []Difference {
	if want == have {
		return found
	}
	return append(found, Difference{property, fmt.Sprint(want), fmt.Sprint(have)})
}

func (a Arguments) differences(have Arguments) []Difference {
	keys := maps.Clone(a)
	if keys == nil {
		keys = Arguments{}
	}
	maps.Copy(keys, have)
	var found []Difference
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		_, wanted := a[key]
		_, exists := have[key]
		if wanted != exists || !reflect.DeepEqual(a[key], have[key]) {
			found = append(found, Difference{key, a.shown(key), have.shown(key)})
		}
	}
	return found
}

func (a Arguments) shown(key string) string {
	value, exists := a[key]
	if !exists {
		return Absent
	}
	return ValueText(value)
}
