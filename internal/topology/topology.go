// Package topology describes a set of RabbitMQ exchanges, queues, bindings and policies, and tells in what a broker
// differs from it. A wanted [Topology] and an actual one come in, and their [Differences] go out. Call [New] for an
// empty one, and [Diff] to compare two.
//
// It is pure: it never talks to a broker and knows nothing of Terraform. Read topology.go first, then diff.go.
package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// Topology is what a configuration expands to and what a broker is read into.
type Topology struct {
	// Entry is the exchange that publishers use. It is declared last and deleted first,
	// so that nobody publishes into a half-built topology.
	Entry string
	// Delivery is the exchange at the end, where applications bind their own queues. These bindings are theirs: they
	// are no difference, and only made again where one of their ends is recreated. It is in Exchanges only if it
	// belongs to the topology; otherwise it has to exist. It is empty if messages leave through the default exchange.
	Delivery string
	// DeliveryType is the type of the delivery exchange, whoever it belongs to. It is empty for one that does not
	// exist, and where any type will do.
	DeliveryType string
	// Shared tells that others may bind objects of their own to the entry. These bindings are theirs.
	Shared bool

	Exchanges map[string]Exchange
	Queues    map[string]Queue
	Bindings  Bindings
	Policies  map[string]Policy
	// Owners are the owner's marks on the entry. They stand in no other list of bindings.
	Owners Bindings
}

// Exchange is a RabbitMQ exchange.
type Exchange struct {
	Name       string
	Type       string
	Durable    bool
	AutoDelete bool
	Internal   bool
	Arguments  Arguments
}

// Queue is a RabbitMQ queue.
type Queue struct {
	Name       string
	Durable    bool
	AutoDelete bool
	Exclusive  bool
	Arguments  Arguments
}

// DestinationType says what a binding leads to, in the words of the management API.
type DestinationType string

// What a binding can lead to.
const (
	ToQueue    DestinationType = "queue"
	ToExchange DestinationType = "exchange"
)

// Binding is a RabbitMQ binding. Two bindings are the same binding exactly if they are equal.
type Binding struct {
	Source          string
	RoutingKey      string
	DestinationType DestinationType
	Destination     string
	// Arguments is the canonical JSON of the binding's arguments, empty if there are none:
	// a binding with arguments is another binding than the one without.
	Arguments string
}

// Bindings is a set of bindings.
type Bindings map[Binding]struct{}

// New returns an empty topology, ready to be added to.
func New() Topology {
	return Topology{Exchanges: map[string]Exchange{}, Queues: map[string]Queue{}, Bindings: Bindings{},
		Policies: map[string]Policy{}, Owners: Bindings{}}
}

// NewBindings is the set of these bindings.
func NewBindings(bindings ...Binding) Bindings {
	set := Bindings{}
	for _, b := range bindings {
		set.Add(b)
	}
	return set
}

// Add puts a binding into the set.
func (b Bindings) Add(binding Binding) { b[binding] = struct{}{} }

// Has tells whether the set holds the binding.
func (b Bindings) Has(binding Binding) bool { _, ok := b[binding]; return ok }

// DeleteInto takes those that lead into one of the queues out of the set.
func (b Bindings) DeleteInto(queues map[string]Queue) {
	maps.DeleteFunc(b, func(binding Binding, _ struct{}) bool { return binding.LeadsInto(queues) })
}

// LeadsInto tells whether the binding leads into one of the queues.
func (b Binding) LeadsInto(queues map[string]Queue) bool {
	_, leads := queues[b.Destination]
	return leads && b.DestinationType == ToQueue
}

// LeadsTo tells whether the binding leads to the exchange or queue.
func (b Binding) LeadsTo(kind DestinationType, name string) bool {
	return b.DestinationType == kind && b.Destination == name
}

// Sorted returns the bindings in an order that does not change between runs.
func (b Bindings) Sorted() []Binding {
	return slices.SortedFunc(maps.Keys(b), func(x, y Binding) int {
		return cmp.Or(cmp.Compare(x.Source, y.Source), cmp.Compare(x.RoutingKey, y.RoutingKey),
			cmp.Compare(x.DestinationType, y.DestinationType), cmp.Compare(x.Destination, y.Destination),
			cmp.Compare(x.Arguments, y.Arguments))
	})
}

// Where are the bindings for which something holds, sorted.
func (b Bindings) Where(holds func(Binding) bool) []Binding {
	part := maps.Clone(b)
	maps.DeleteFunc(part, func(binding Binding, _ struct{}) bool { return !holds(binding) })
	return part.Sorted()
}

// Owns tells whether the bindings of the exchange belong to the topology. Those of its own exchanges do; those of the
// delivery exchange are the applications'.
func (t Topology) Owns(exchange string) bool {
	return t.Has(exchange) && exchange != t.Delivery
}

// OwnsDelivery tells whether the delivery exchange is part of the topology.
func (t Topology) OwnsDelivery() bool { return t.Has(t.Delivery) }

// Owned are those of the exchanges whose bindings belong to the topology, sorted.
func (t Topology) Owned(exchanges map[string]Exchange) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(exchanges)), func(name string) bool { return !t.Owns(name) })
}

// OwnsBinding tells whether the binding belongs to the topology, or would be a foreign one on an exchange of it. What
// leads from a shared entry to an object of others is theirs.
func (t Topology) OwnsBinding(b Binding) bool {
	isTheirs := t.Shared && b.Source == t.Entry && !t.Takes(b) && !b.LeadsTo(ToExchange, t.Delivery)
	return t.Owns(b.Source) && !isTheirs
}

// Has tells whether the exchange is one of the topology's.
func (t Topology) Has(exchange string) bool {
	_, exists := t.Exchanges[exchange]
	return exists
}

// Takes tells whether the binding leads to an exchange or a queue of the topology.
func (t Topology) Takes(b Binding) bool {
	return b.LeadsInto(t.Queues) || b.DestinationType == ToExchange && t.Has(b.Destination)
}

// IsEmpty tells whether there is nothing of it.
func (t Topology) IsEmpty() bool { return len(t.Exchanges)+len(t.Queues)+len(t.Policies) == 0 }

// Objects are the exchanges, queues and policies in words, sorted.
func (t Topology) Objects() []string {
	return slices.Concat(plaintext.Texts(slices.Sorted(maps.Keys(t.Exchanges)), ExchangeObject),
		plaintext.Texts(slices.Sorted(maps.Keys(t.Queues)), QueueObject),
		plaintext.Texts(slices.Sorted(maps.Keys(t.Policies)), PolicyObject))
}

// Part is the part of the wanted topology that exists among these objects. It has its exchanges, queues and policies,
// as they are. It also has all bindings of the exchanges that it owns, and the owner's marks on its entry.
func (t Topology) Part(want Topology) Topology {
	part := New()
	part.Entry, part.Delivery = want.Entry, want.Delivery
	if want.Delivery != "" { // the default exchange is direct, and nobody's delivery exchange
		part.DeliveryType = t.Exchanges[want.Delivery].Type
	}
	part.Exchanges = presentOf(t.Exchanges, want.Exchanges)
	part.Queues = presentOf(t.Queues, want.Queues)
	part.Policies = presentOf(t.Policies, want.Policies)
	for b := range t.Bindings {
		if part.Owns(b.Source) {
			part.Bindings.Add(b)
		}
	}
	for b := range t.Owners {
		if b.Source == part.Entry && part.Has(part.Entry) {
			part.Owners.Add(b)
		}
	}
	return part
}

// presentOf are those of the objects whose names the wanted ones have.
func presentOf[T any](objects, wanted map[string]T) map[string]T {
	part := map[string]T{}
	for name := range wanted {
		if object, exists := objects[name]; exists {
			part[name] = object
		}
	}
	return part
}

// Union has the objects of both. Where both have one of a name, it is that of the other.
func (t Topology) Union(other Topology) Topology {
	t = t.Clone()
	maps.Copy(t.Exchanges, other.Exchanges)
	maps.Copy(t.Queues, other.Queues)
	maps.Copy(t.Bindings, other.Bindings)
	maps.Copy(t.Policies, other.Policies)
	maps.Copy(t.Owners, other.Owners)
	return t
}

// Clone is a topology to be changed.
func (t Topology) Clone() Topology {
	t.Exchanges, t.Queues, t.Bindings = maps.Clone(t.Exchanges), maps.Clone(t.Queues), maps.Clone(t.Bindings)
	t.Policies, t.Owners = maps.Clone(t.Policies), maps.Clone(t.Owners)
	if t.Policies == nil {
		t.Policies = map[string]Policy{}
	}
	if t.Owners == nil {
		t.Owners = Bindings{}
	}
	return t
}

// Minus is the topology without the exchanges, queues and policies whose names the other one has, and without the
// bindings of these exchanges.
func (t Topology) Minus(other Topology) Topology {
	t = t.Clone()
	maps.DeleteFunc(t.Exchanges, func(name string, _ Exchange) bool { return other.Has(name) })
	maps.DeleteFunc(t.Queues, func(name string, _ Queue) bool { _, has := other.Queues[name]; return has })
	t.Unbind(func(b Binding) bool { return other.Has(b.Source) })
	maps.DeleteFunc(t.Policies, func(name string, _ Policy) bool { _, has := other.Policies[name]; return has })
	return t
}

// Unbind takes bindings away, owner's marks among them.
func (t Topology) Unbind(gone func(Binding) bool) {
	for _, set := range []Bindings{t.Bindings, t.Owners} {
		maps.DeleteFunc(set, func(b Binding, _ struct{}) bool { return gone(b) })
	}
}

// AlternateExchange is the exchange that takes what no binding of this one takes, by argument, if there is one.
func (e Exchange) AlternateExchange() string { return e.Arguments.Text("alternate-exchange") }

// Type is the queue's type. A queue without the argument is a classic queue. Where a vhost has another default type,
// the broker itself adds the argument when the queue is declared (4.0).
func (q Queue) Type() string {
	return cmp.Or(q.Arguments.Text("x-queue-type"), "classic")
}

// DeadLetterExchange is the exchange that takes the queue's expired messages. It is empty for none and for the default
// exchange.
func (q Queue) DeadLetterExchange() string { return q.Arguments.Text("x-dead-letter-exchange") }

// DeadLetterQueue is the queue to which the default exchange takes the queue's expired messages. It is empty if they go
// another way.
func (q Queue) DeadLetterQueue() string {
	if next, is := q.Arguments["x-dead-letter-exchange"]; !is || next != "" {
		return ""
	}
	return q.Arguments.Text("x-dead-letter-routing-key")
}

// DeadLetterObject is where expired messages of the queue go, in words, empty if they go nowhere.
func (q Queue) DeadLetterObject() string {
	switch next, queue := q.DeadLetterExchange(), q.DeadLetterQueue(); {
	case queue != "":
		return QueueObject(queue)
	case next != "":
		return ExchangeObject(next)
	}
	return ""
}

// AtLeastOnce tells whether the queue keeps a message until the next queue has confirmed it.
// RabbitMQ does so for quorum queues only, and only with reject-publish (3.10).
func (q Queue) AtLeastOnce() bool {
	return q.Type() == "quorum" && q.Arguments.Text("x-dead-letter-strategy") == "at-least-once" &&
		q.Arguments.Text("x-overflow") == "reject-publish"
}

// Line is the binding in one line, as seen from its source exchange: "<routing key> -> queue <name>".
func (b Binding) Line() string {
	line := b.RoutingKey + " -> " + b.Leads()
	if b.Arguments != "" {
		line += " " + b.Arguments
	}
	return line
}

// Leads says what the binding leads to: "queue <name>".
func (b Binding) Leads() string { return string(b.DestinationType) + " " + b.Destination }

// DestinationObject is that to which the binding leads, in words.
func (b Binding) DestinationObject() string {
	return fmt.Sprintf("%s %q", b.DestinationType, b.Destination)
}

// ExchangeObject is an exchange in words.
func ExchangeObject(name string) string { return fmt.Sprintf("exchange %q", name) }

// QueueObject is a queue in words.
func QueueObject(name string) string { return fmt.Sprintf("queue %q", name) }

// BindingObject is a binding in words, without its arguments.
func BindingObject(b Binding) string {
	b.Arguments = ""
	return "binding of " + b.Describe()
}

// Describe is the binding in words.
func (b Binding) Describe() string {
	text := fmt.Sprintf("exchange %q to %s %q with key %q", b.Source, b.DestinationType, b.Destination, b.RoutingKey)
	if b.Arguments != "" {
		text += " and arguments " + plaintext.Line(b.Arguments)
	}
	return text
}

// Extras are the part of the topology that another one does not have. It has queues, with the bindings that lead into
// them, policies, with the exchanges to which they lead, and the owner's mark.
func (t Topology) Extras(other Topology) Topology {
	rest, part := t.Minus(other), New()
	part.Entry, part.Delivery, part.Owners = t.Entry, t.Delivery, t.Owners
	part.Queues, part.Policies = rest.Queues, rest.Policies
	for _, p := range part.Policies {
		if e, exists := t.Exchanges[p.AlternateExchange()]; exists {
			part.Exchanges[e.Name] = e
		}
	}
	for b := range t.Bindings {
		if b.LeadsInto(part.Queues) {
			part.Bindings.Add(b)
		}
	}
	return part
}

// IsWhole tells a topology from a part of one, see Extras.
func (t Topology) IsWhole() bool {
	return t.Has(t.Entry)
}

// Downstream orders queues, as they are on a broker, in the direction in which messages move: that of the falling
// TTL in the topology. A queue without any, where messages end, comes last.
func (t Topology) Downstream(queues map[string]Queue) []Queue {
	return slices.SortedFunc(maps.Values(queues), func(x, y Queue) int {
		return cmp.Or(
			cmp.Compare(t.Queues[y.Name].TTLMillis(), t.Queues[x.Name].TTLMillis()),
			cmp.Compare(x.Name, y.Name))
	})
}

// Delays tells whether messages leave the queue after a TTL.
func (q Queue) Delays() bool { return q.TTLMillis() >= 0 }

// TTLMillis is the TTL in milliseconds, -1 if there is none.
func (q Queue) TTLMillis() int64 {
	if ttl, ok := q.Arguments["x-message-ttl"].(int64); ok {
		return ttl
	}
	return -1
}

// AlternateOf is the exchange that takes the messages that no binding of this one takes, if there is one. An argument
// or a policy of the topology names it.
func (t Topology) AlternateOf(exchange string) string {
	if name := t.Exchanges[exchange].AlternateExchange(); name != "" {
		return name
	}
	for _, p := range t.Policies {
		if name := p.AlternateExchange(); name != "" && p.coversExchange(exchange) {
			return name
		}
	}
	return ""
}

// Parking is the exchange that takes unroutable messages of the entry, and by that all of them, empty if there is none.
// Its queue has the same name.
func (t Topology) Parking() string { return t.AlternateOf(t.Entry) }

// WithoutPolicies is the topology without its policies, and without the exchanges and queues to which they lead
// unroutable messages. These can come and go while messages are on their way through the rest.
func (t Topology) WithoutPolicies() Topology {
	var beside []string
	for _, p := range t.Policies {
		beside = append(beside, p.AlternateExchange())
	}
	t = t.Minus(t.WithQueues(beside...))
	t.Policies = nil
	return t
}

// WithQueues are these exchanges of the topology, and the queues bound to them.
func (t Topology) WithQueues(exchanges ...string) Topology {
	part := New()
	for _, name := range exchanges {
		if t.Has(name) {
			part.Exchanges[name] = t.Exchanges[name]
		}
	}
	for b := range t.Bindings {
		if part.Has(b.Source) && b.LeadsInto(t.Queues) {
			part.Queues[b.Destination] = t.Queues[b.Destination]
		}
	}
	return part
}
