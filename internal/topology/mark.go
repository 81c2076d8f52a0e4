package topology

import "strings"

// markArgument is the argument of a binding that marks what a create makes.
const markArgument = "rabbitmqdelay-claim"

// MarkOn is a mark on an exchange: a binding that leads back to the exchange itself. Its key is one that the exchange
// will have, so that it takes no further topic permission.
func (t Topology) MarkOn(exchange, mark string) Binding {
	binding := Binding{
		Source:          exchange,
		DestinationType: ToExchange,
		Destination:     exchange,
		Arguments:       Arguments{markArgument: mark}.JSON(),
	}
	for _, b := range t.Bindings.Sorted() {
		if b.Source == exchange {
			binding.RoutingKey = b.RoutingKey
			break
		}
	}
	return binding
}

// IsMark tells whether a binding is a mark. One may be left by a create that was killed.
func (b Binding) IsMark() bool {
	return b.LeadsTo(ToExchange, b.Source) && strings.Contains(b.Arguments, markArgument)
}
