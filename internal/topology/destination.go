package topology

import "encoding/json"

// destinationArgument is the argument of a binding by which a destination knows its own. RabbitMQ keeps bindings apart
// that differ in an argument. It routes a message once to a queue that several of them lead to (3.10 to 4.3).
const destinationArgument = "x-destination"

// OfDestination is the binding as the destination with this mark makes it.
func (b Binding) OfDestination(mark string) Binding {
	b.Arguments = Arguments{destinationArgument: mark}.JSON()
	return b
}

// DestinationMark is the mark of the destination that has made the binding, empty if none has.
func (b Binding) DestinationMark() string {
	return b.onlyArgument(destinationArgument)
}

// onlyArgument is an argument that is a text, empty unless it is the only one.
func (b Binding) onlyArgument(key string) string {
	var arguments Arguments
	if json.Unmarshal([]byte(b.Arguments), &arguments) != nil || len(arguments) != 1 {
		return ""
	}
	return arguments.Text(key)
}

// Plain is the binding without the mark of a destination.
func (b Binding) Plain() Binding {
	if b.DestinationMark() != "" {
		b.Arguments = ""
	}
	return b
}

// Plain are the bindings without the marks of destinations, sorted. Those that differ in nothing else are one.
func Plain(bindings []Binding) []Binding {
	plain := Bindings{}
	for _, b := range bindings {
		plain.Add(b.Plain())
	}
	return plain.Sorted()
}
