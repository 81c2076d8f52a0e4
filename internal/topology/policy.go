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

// PolicyObject is a policy in words.
func PolicyObject(name string) string { return fmt.Sprintf("policy %q", name) }
