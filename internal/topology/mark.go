package topology

import "strings"

// Marks are bindings of an exchange to itself. RabbitMQ routes nothing by them, because it visits each exchange once
// (3.10.8, 4.0.5, 4.3.6).
const (
	// lockArgument is that of the lock of a create.
	lockArgument = "rabbitmqdelay-claim"
	// ownerArgument is that of an owner's mark.
	ownerArgument = "x-owner"
)

// LockOn is the lock of a create on an exchange. Its key is one that the exchange will have, so that it takes no
// further topic permission.
func (t Topology) LockOn(exchange, value string) Binding {
	binding := toItself(exchange, lockArgument, value)
	if own := t.Bindings.Where(func(b Binding) bool { return b.Source == exchange }); len(own) > 0 {
		binding.RoutingKey = own[0].RoutingKey
	}
	return binding
}

// IsLock tells whether a binding is the lock of a create. One may be left by a create that was killed.
func (b Binding) IsLock() bool {
	return b.LeadsTo(ToExchange, b.Source) && strings.Contains(b.Arguments, lockArgument)
}

func toItself(exchange, argument, value string) Binding {
	return Binding{
		Source: exchange, DestinationType: ToExchange, Destination: exchange,
		Arguments: Arguments{argument: value}.JSON(),
	}
}

// WithOwner is the topology with the mark of an owner on its entry, and without any if the owner is empty.
//
// The routing key is the owner as well. No message may have it: RabbitMQ asks the alternate exchange only where no
// binding matches, and a mark matches, too. So nobody can guess it, and it is not the key of another binding, which may
// be missing.
func (t Topology) WithOwner(owner string) Topology {
	if t.Owners = nil; owner != "" && !t.IsEmpty() {
		mark := toItself(t.Entry, ownerArgument, owner)
		mark.RoutingKey = owner
		t.Owners = NewBindings(mark)
	}
	return t
}

// Owner is whom a binding marks as an owner. It is empty for all other bindings.
func (b Binding) Owner() string {
	if !b.LeadsTo(ToExchange, b.Source) || b.onlyArgument(ownerArgument) != b.RoutingKey {
		return ""
	}
	return b.RoutingKey
}

// IsOfOthers tells whether others own what there is of the topology, and its own owner does not.
func (t Topology) IsOfOthers(actual Topology) bool {
	return len(actual.Owners) > 0 && len(actual.Owners.Where(t.Owners.Has)) == 0
}

// Bind puts a binding where it belongs: among the owner's marks, or the others.
func (t Topology) Bind(b Binding) {
	if b.Owner() != "" {
		t.Owners.Add(b)
	} else {
		t.Bindings.Add(b)
	}
}
