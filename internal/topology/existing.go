package topology

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Object is something of a topology that a broker has already, and how it differs from what is
// desired.
type Object struct {
	// Name is the object in words, such as `queue "tasks.delay-03"`.
	Name string
	// Differences is empty if the object is exactly what is desired.
	Differences []Difference
}

// Difference is one property or argument with both its values, as text.
type Difference struct{ Property, Desired, Actual string }

func (o Object) String() string {
	if len(o.Differences) == 0 {
		return o.Name
	}
	parts := make([]string, len(o.Differences))
	for i, d := range o.Differences {
		parts[i] = fmt.Sprintf("%s is %s, not %s", d.Property, d.Actual, d.Desired)
	}
	return o.Name + ": " + strings.Join(parts, "; ")
}

// Existing lists what of the desired topology is there already, and what others have bound to the
// exchanges that it would own.
func Existing(desired, actual Topology) []Object {
	var objects []Object
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		if have, exists := actual.Exchanges[name]; exists {
			objects = append(objects, Object{fmt.Sprintf("exchange %q", name), desired.Exchanges[name].differences(have)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Queues)) {
		if have, exists := actual.Queues[name]; exists {
			objects = append(objects, Object{fmt.Sprintf("queue %q", name), desired.Queues[name].differences(have)})
		}
	}
	for _, b := range actual.Bindings.Sorted() {
		if desired.Owns(b.Source) && !desired.Bindings.Has(b) && !b.isClaim() {
			objects = append(objects, Object{"binding of " + b.describe(), []Difference{{"it", "one of its own", "somebody else's"}}})
		}
	}
	return objects
}

func (e Exchange) differences(have Exchange) []Difference {
	var found []Difference
	found = compare(found, "type", e.Type, have.Type)
	found = compare(found, "durable", e.Durable, have.Durable)
	found = compare(found, "auto_delete", e.AutoDelete, have.AutoDelete)
	found = compare(found, "internal", e.Internal, have.Internal)
	return append(found, e.Arguments.differences(have.Arguments)...)
}

func (q Queue) differences(have Queue) []Difference {
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
		return "absent"
	}
	return ValueText(value)
}
