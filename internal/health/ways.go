package health

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// ways is what becomes of messages on their way through a topology, as it is.
type ways struct {
	desired, actual topology.Topology
	// known are the answers of undelivered.
	known map[string][]string
}

// parking is the exchange that gets messages that no binding matches, empty if the topology has none.
func (w ways) parking() string {
	if name := w.desired.Parking(); w.desired.Has(name) {
		return name
	}
	return ""
}

// from are the desired bindings of an exchange.
func (w ways) from(exchange string) []topology.Binding {
	return w.desired.Bindings.Where(func(b topology.Binding) bool { return b.Source == exchange })
}

// into are the desired bindings that lead to something.
func (w ways) into(kind topology.DestinationType, name string) []topology.Binding {
	return w.desired.Bindings.Where(func(b topology.Binding) bool { return b.LeadsTo(kind, name) })
}

// What becomes of messages, as the end of a sentence that begins with them.
const (
	areParked = "are parked"
	areLost   = "are lost"
	areKept   = "stay in the quorum queue before it"

	wouldBeParked = "messages that would be parked "
)

// alternatives has these ends as one, in a fixed order.
func alternatives(fates []string) string {
	order := []string{areParked, areLost, areKept}
	fates = slices.Clone(fates)
	slices.SortStableFunc(fates, func(x, y string) int {
		return cmp.Compare(slices.Index(order, x), slices.Index(order, y))
	})
	text := plaintext.List(slices.Compact(fates), " or ")
	if slices.Contains(fates, areKept) {
		text += ". RabbitMQ tries again every three minutes"
	}
	return text
}

// unrouted is what becomes of messages that no binding of an exchange takes.
func (w ways) unrouted(exchange string) []string {
	if !w.actual.Has(exchange) && exchange != w.desired.Delivery {
		return nil // they do not get there
	}
	if alternate := w.actual.AlternateOf(exchange); alternate != "" && alternate != w.parking() {
		return []string{fmt.Sprintf("go to exchange %q", alternate)}
	} else if alternate != "" && w.parks() {
		return []string{areParked}
	}
	return w.undelivered(exchange)
}

// parks tells whether the alternate exchange leads to a queue.
func (w ways) parks() bool {
	for b := range w.actual.Bindings {
		if b.Source == w.parking() && w.actual.Has(b.Source) && b.LeadsInto(w.actual.Queues) {
			return true
		}
	}
	return false
}

// undelivered is what becomes of messages for an exchange that cannot hand them on, nor has an alternate one.
func (w ways) undelivered(exchange string) []string {
	if fates, isKnown := w.known[exchange]; isKnown {
		return fates
	}
	var fates []string
	visited := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		if visited[name] {
			return
		}
		visited[name] = true
		if name == w.desired.Entry {
			fates = append(fates, areLost)
		}
		fates = append(fates, w.handedOn(name)...)
		for _, b := range w.into(topology.ToExchange, name) {
			visit(b.Source)
		}
		for source := range w.desired.Exchanges {
			if w.desired.AlternateOf(source) == name {
				visit(source)
			}
		}
	}
	visit(exchange)
	slices.Sort(fates)
	w.known[exchange] = slices.Compact(fates)
	return w.known[exchange]
}

// handedOn is what becomes of messages that queues cannot hand on to an exchange.
func (w ways) handedOn(exchange string) []string {
	var fates []string
	for name, q := range w.desired.Queues {
		if q.DeadLetterExchange() != exchange {
			continue
		}
		if have, exists := w.actual.Queues[name]; exists {
			q = have
		}
		if q.AtLeastOnce() {
			fates = append(fates, areKept)
		} else {
			fates = append(fates, areLost)
		}
	}
	return fates
}

// unroutedBefore is what becomes of messages that bindings should lead to something.
func (w ways) unroutedBefore(kind topology.DestinationType, name string) []string {
	var fates []string
	for _, b := range w.into(kind, name) {
		fates = append(fates, w.unrouted(b.Source)...)
	}
	return fates
}

// effectOfMissingExchange is what a missing exchange does.
func (w ways) effectOfMissingExchange(name string) string {
	switch name {
	case w.desired.Entry:
		return "publishers get an error"
	case w.parking():
		return wouldBeParked + alternatives(w.undelivered(name))
	}
	return "messages that need it " + alternatives(append(w.unroutedBefore(topology.ToExchange, name),
		w.handedOn(name)...))
}

// effectOfMissingQueue is what a missing queue does.
func (w ways) effectOfMissingQueue(name string) string {
	messages, waited := ". Messages that need it ", "waited"
	if !w.desired.Queues[name].Delays() {
		messages, waited = ". Messages that would be parked ", "were parked"
	}
	lost := fmt.Sprintf("any messages that %s in it are lost", waited)
	if fate := alternatives(w.unroutedBefore(topology.ToQueue, name)); fate != "" {
		return lost + messages + fate
	}
	return lost
}

// changedExchange is what an exchange does that has another value of the property.
func (w ways) changedExchange(have topology.Exchange, property string) effect {
	switch {
	case property == "type":
		return w.changedType(have.Name, have.Type)
	case property == "durable":
		return effect{Error, "the exchange goes when RabbitMQ restarts"}
	case property == "auto_delete":
		return effect{Error, "the exchange goes with the last binding from it"}
	case property == "alternate-exchange":
		text := "messages that no binding of it takes " + alternatives(w.unrouted(have.Name))
		if w.desired.Exchanges[have.Name].AlternateExchange() == "" {
			text += ". After the next apply, RabbitMQ drops them"
		}
		return effect{Error, text}
	case property != "internal":
		return effect{Warning, otherwise}
	case !have.Internal:
		return effect{Warning, "publishers can get into the middle of the way"}
	case have.Name == w.desired.Entry:
		return effect{Error, "publishers get an error"}
	}
	return effect{Harmless, "publishers cannot use it, and need not"}
}

// changedType is what an exchange of another type does to messages.
func (w ways) changedType(name, have string) effect {
	parks := name == w.parking()
	switch {
	case have == "direct" && parks:
		return effect{Error, wouldBeParked + alternatives(w.undelivered(name))}
	case parks && (have == "topic" || have == "headers"):
		return effect{Harmless, parkedAllTheSame}
	case have == "direct" && !w.desired.Shared:
		return effect{Error, "no key matches a binding of it, and messages that get to it " +
			alternatives(w.unrouted(name))}
	case have == "fanout", have == "headers":
		return effect{Error, "messages go the way of all its bindings. The messages arrive several times, early and " +
			"late"}
	}
	return effect{Error, otherwise}
}

const parkedAllTheSame = "messages are parked all the same"

// foreign is what a binding of others does.
func (w ways) foreign(b topology.Binding) effect {
	intoQueue := b.LeadsInto(w.desired.Queues)
	delays := intoQueue && w.desired.Queues[b.Destination].Delays()
	parked := intoQueue && !delays || b.LeadsTo(topology.ToExchange, w.parking())
	same := b
	same.Arguments = ""
	switch {
	case w.actual.Bindings.Has(same) && w.desired.Bindings.Has(same):
		return effect{Harmless, "messages take the same way as without it"}
	case b.IsLock():
		return effect{Harmless, "a create that was killed has left it, and it does nothing"}
	case parked && b.Source == w.parking():
		return effect{Harmless, parkedAllTheSame}
	case parked:
		return effect{Warning, "copies of messages with such a key are parked"}
	case b.Source == w.parking():
		return effect{Error, "parked messages also get into " + b.DestinationObject()}
	case delays:
		return effect{Error, "messages with such a key wait there, too, and can arrive twice, early or late"}
	case w.desired.Takes(b) || b.LeadsTo(topology.ToExchange, w.desired.Delivery):
		return effect{Error, "messages with such a key go there, too, and can arrive twice or early"}
	}
	return effect{Error, b.DestinationObject() + " gets copies of messages with such a key before their time"}
}
