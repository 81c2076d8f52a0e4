package topology

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

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
	d.MissingExchanges, d.WrongExchanges = diff(desired.Exchanges, actual.Exchanges)
	d.MissingQueues, d.WrongQueues = diff(desired.Queues, actual.Queues)
	d.MissingPolicies, d.WrongPolicies = diff(desired.Policies, actual.Policies)
	d.MissingBindings = desired.Bindings.Where(func(b Binding) bool { return !actual.Bindings.Has(b) })
	d.ForeignBindings = actual.Bindings.Where(func(b Binding) bool {
		return desired.OwnsBinding(b) && !desired.Bindings.Has(b)
	})
	return d
}

// object is what exchanges, queues and policies have in common.
type object[T any] interface {
	Equal(have T) bool
	Differences(have T) []Difference
}

func diff[T object[T]](desired, actual map[string]T) (missing, wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		switch have, exists := actual[name]; {
		case !exists:
			missing = append(missing, name)
		case !desired[name].Equal(have):
			wrong = append(wrong, name)
		}
	}
	return missing, wrong
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
	return o.Name + ": " + plaintext.Join(o.Differences, "; ", Difference.String)
}

// Existing lists what of the desired topology is there already, and what others have bound to the
// exchanges that it would own.
func Existing(desired, actual Topology) []Object {
	objects := slices.Concat(existing(ExchangeObject, desired.Exchanges, actual.Exchanges),
		existing(QueueObject, desired.Queues, actual.Queues))
	for _, b := range Diff(desired, actual).ForeignBindings {
		if !b.IsLock() {
			objects = append(objects, Object{"binding of " + b.Describe(), []Difference{{"it", "one of its own",
				"another application's"}}})
		}
	}
	return append(objects, existing(PolicyObject, desired.Policies, actual.Policies)...)
}

// SameObjects tells whether both have the same exchanges, queues and policies, and deliver to the same exchange.
func (t Topology) SameObjects(other Topology) bool {
	return t.Delivery == other.Delivery && maps.EqualFunc(t.Exchanges, other.Exchanges, Exchange.Equal) &&
		maps.EqualFunc(t.Queues, other.Queues, Queue.Equal) &&
		maps.EqualFunc(t.Policies, other.Policies, Policy.Equal)
}

// Equal tells whether RabbitMQ takes the two for the same exchange.
func (e Exchange) Equal(other Exchange) bool {
	return e.Name == other.Name && len(e.Differences(other)) == 0
}

// Equal tells whether RabbitMQ takes the two for the same queue.
func (q Queue) Equal(other Queue) bool {
	return q.Name == other.Name && len(q.Differences(other)) == 0
}

// Equal tells whether the two do the same.
func (p Policy) Equal(other Policy) bool {
	return p.Name == other.Name && len(p.Differences(other)) == 0
}

func existing[T object[T]](called func(name string) string, desired, actual map[string]T) []Object {
	var objects []Object
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		if have, exists := actual[name]; exists {
			objects = append(objects, Object{called(name), desired[name].Differences(have)})
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

// Differences are the properties in which a policy that exists differs.
func (p Policy) Differences(have Policy) []Difference {
	var found []Difference
	found = compare(found, "pattern", p.Pattern, have.Pattern)
	found = compare(found, "apply-to", p.ApplyTo, have.ApplyTo)
	found = compare(found, "priority", p.Priority, have.Priority)
	return append(found, p.Definition.differences(have.Definition)...)
}

func compare[T comparable](found []Difference, property string, want, have T) []Difference {
	if want == have {
		return found
	}
	return append(found, Difference{property, fmt.Sprint(want), fmt.Sprint(have)})
}

func (a Arguments) differences(have Arguments) []Difference {
	keys := Arguments{}
	maps.Copy(keys, a)
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
