package topology

import (
	"slices"
	"strings"
)

// Create is the Diff of a topology that nobody else may have a part in: what it declares has to be new. The delivery
// exchange is
// shared by nature and may be there.
//
// Of several creates at once, one goes on at the most. RabbitMQ tells two of them that an object is new, if they
// declare it within the same millisecond (3.10.8, 4.3.6). So each declares one exchange before all else and binds a
// mark of its own to it. If it then sees anything else bound there, it stops. The mark stays until everything is
// declared, and whoever comes later meets that. A ladder or a single level without parking has no exchange that could
// be declared before its entry, and goes without a mark.
func Create(desired, actual Topology, mark string) Plan {
	plan := Diff(desired, actual)
	for _, phase := range plan {
		for i, step := range phase.Steps {
			switch s := step.(type) {
			case DeclareExchange:
				s.New = s.Exchange.Name != desired.Delivery
				phase.Steps[i] = s
			case DeclareQueue:
				s.New = true
				phase.Steps[i] = s
			}
		}
	}
	last := slices.IndexFunc(
		plan,
		func(phase Phase) bool { return slices.ContainsFunc(phase.Steps, desired.declaresEntry) },
	)
	if len(plan) == 0 || last <= 0 {
		return plan
	}
	steps := plan[0].Steps
	first := slices.IndexFunc(steps, func(step Step) bool { d, is := step.(DeclareExchange); return is && d.New })
	if first < 0 {
		return plan
	}
	declare, _ := steps[first].(DeclareExchange)
	claim := desired.claimOn(declare.Exchange.Name, mark)
	plan[last].Steps = append(plan[last].Steps, Unbind{claim})
	rest := slices.Delete(slices.Clone(steps), first, first+1)
	return append(Plan{}.then(declare).then(Bind{claim}).then(VerifyAlone{claim}).then(rest...), plan[1:]...)
}

func (t Topology) declaresEntry(step Step) bool {
	declare, is := step.(DeclareExchange)
	return is && declare.Exchange.Name == t.Entry
}

// claimArgument is the argument of a binding that marks what a create makes.
const claimArgument = "rabbitmqdelay-claim"

// claimOn is a mark on an exchange: a binding that leads back to the exchange itself. Its key is one that the exchange
// will have, so that
// it takes no further topic permission.
func (t Topology) claimOn(exchange, mark string) Binding {
	claim := Binding{
		Source:          exchange,
		DestinationType: ToExchange,
		Destination:     exchange,
		Arguments:       Arguments{claimArgument: mark}.JSON(),
	}
	for _, b := range t.Bindings.Sorted() {
		if b.Source == exchange {
			claim.RoutingKey = b.RoutingKey
			break
		}
	}
	return claim
}

// isClaim tells whether a binding is a mark. One may be left by a create that was killed.
func (b Binding) isClaim() bool {
	return b.DestinationType == ToExchange && b.Destination == b.Source && strings.Contains(b.Arguments, claimArgument)
}

// MustBeNew tells whether a step is a declaration that must not find what it declares.
func MustBeNew(step Step) bool {
	switch s := step.(type) {
	case DeclareExchange:
		return s.New
	case DeclareQueue:
		return s.New
	}
	return false
}
