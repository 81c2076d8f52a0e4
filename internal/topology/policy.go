package topology

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// Policy is a RabbitMQ policy: arguments for all exchanges or queues whose names match.
type Policy struct {
	Name string `json:"name"`
	// Pattern is a regular expression. One of a topology is one that Go reads as RabbitMQ does.
	Pattern string `json:"pattern"`
	// ApplyTo is a kind of objects, as RabbitMQ calls it.
	ApplyTo    string    `json:"apply-to"`
	Priority   float64   `json:"priority"`
	Definition Arguments `json:"definition"`
}

// Equal tells whether the two do the same.
func (p Policy) Equal(other Policy) bool {
	return p.Name == other.Name && len(p.Differences(other)) == 0
}

// Differences are the properties in which a policy that exists differs.
func (p Policy) Differences(have Policy) []Difference {
	var found []Difference
	found = compare(found, "pattern", p.Pattern, have.Pattern)
	found = compare(found, "apply-to", p.ApplyTo, have.ApplyTo)
	found = compare(found, "priority", p.Priority, have.Priority)
	return append(found, p.Definition.differences(have.Definition)...)
}

// AlternateExchange is the exchange that takes what no binding takes of the exchanges that the policy applies to.
func (p Policy) AlternateExchange() string { return p.Definition.Text("alternate-exchange") }

// IsForExchanges tells whether the policy applies to exchanges, queues aside.
func (p Policy) IsForExchanges() bool { return p.ApplyTo == "exchanges" || p.ApplyTo == "all" }

// OfExchanges is the part of the definition that does something to exchanges. RabbitMQ takes no other key than those of
// itself and of its plugins, of which only federation has some for exchanges (3.10 to 4.3).
func (p Policy) OfExchanges() Arguments {
	part := maps.Clone(p.Definition)
	maps.DeleteFunc(part, func(key string, _ any) bool {
		return key != "alternate-exchange" && !strings.HasPrefix(key, "federation-upstream")
	})
	return part
}

// coversExchange tells whether the policy is one for an exchange.
func (p Policy) coversExchange(name string) bool {
	matches, err := regexp.MatchString(p.Pattern, name)
	return err == nil && matches && p.IsForExchanges()
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

// PolicyObject is a policy in words.
func PolicyObject(name string) string { return fmt.Sprintf("policy %q", name) }
