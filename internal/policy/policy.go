// Package policy knows how policies and operator policies change a queue. A queue and the policies of its vhost come
// in. Those that apply go out, and the values that are then in force. Call [Declared.Applied], and then [InForce]. Call
// [Policies.Rivals] and [Policies.Displaced] for a policy that is to be set.
//
// It is pure: it never asks a broker for its policies, and it does not say what a change does to messages.
package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// InForce is what a queue has of a key, nil for nothing, and whether a policy sets that (3.10.8 to 4.3.6):
//
//   - of limits, the lower one, but see lower;
//   - of overflow, the policy's for a quorum queue, and the argument for every other one;
//   - of delayed-retry-type, which only quorum queues of 4.3 know, the policy's;
//   - of dead-letter-exchange, dead-letter-routing-key and dead-letter-strategy, the argument.
//
// The definition is that of a policy, or the merge of a policy and an operator policy.
func InForce(q topology.Queue, key string, definition topology.Arguments) (value any, byPolicy bool) {
	argument, policy := q.Arguments["x-"+key], definition[key]
	own, isNumber := argument.(int64)
	limit, isLimit := policy.(int64)
	switch {
	case policy == nil:
		return argument, false
	case argument == nil, key == "overflow" && q.Type() == "quorum", key == "delayed-retry-type",
		isNumber && isLimit && limit != own && lower(key, limit, own) == limit:
		return policy, true
	}
	return argument, false
}

// lower is the limit of two that holds. A negative delivery-limit is none (4.0.5). RabbitMQ 3.10.8 takes no such
// policy, and such an argument is the lower one there.
func lower(key string, one, other int64) int64 {
	if key == "delivery-limit" && min(one, other) < 0 {
		return max(one, other)
	}
	return min(one, other)
}

// Retries are the values of delayed-retry-type with which a quorum queue delays messages that a client has got and put
// back. That is each of them, those of a failed delivery (reject, or a channel that ends), or all others (nack).
// RabbitMQ knows "disabled" besides (rabbitmq.com/docs/quorum-queues#delayed-retry, 4.3).
var Retries = []string{"all", "failed", "returned"}

// Policies are those of a vhost, of users or of operators.
type Policies []Policy

// Policy is one with its pattern ready for use.
type Policy struct {
	topology.Policy
	pattern pattern
}

// New is a policy with a pattern, which is a regular expression that RabbitMQ takes.
func New(name, pattern, applyTo string, priority float64, definition topology.Arguments) Policy {
	return Policy{topology.Policy{Name: name, Pattern: pattern, ApplyTo: applyTo, Priority: priority,
		Definition: definition}, compile(pattern)}
}

// Unreadable stands for policies that the user may not read. At worst, they limit every queue, no message stays in it,
// and it delays some by itself.
var Unreadable = Policies{{Policy: topology.Policy{Definition: topology.Arguments{
	"max-length": int64(0), "overflow": "reject-publish", "dead-letter-strategy": "at-least-once",
	"message-ttl": int64(1), "delivery-limit": int64(0), "delayed-retry-type": "all",
}}}}

// Rivals are the policies because of which an exchange may not have what one of the topology gives it. They may match
// it, their priority is not lower, and they have another alternate exchange or none. Of several with the same priority
// RabbitMQ takes any. Operator policies are no rivals: RabbitMQ merges them with the others, and none of them can have
// an alternate exchange (TestOperatorPolicyOnExchanges).
func (p Policies) Rivals(own topology.Policy, exchange string) Policies {
	var rivals Policies
	for _, other := range p {
		if other.Name != own.Name && other.Priority >= own.Priority && other.matchesExchange(exchange) != no &&
			other.AlternateExchange() != own.AlternateExchange() {
			rivals = append(rivals, other)
		}
	}
	return rivals
}

// Displaced are the policies that would apply to an exchange, or may, if it were not for one of the topology.
func (p Policies) Displaced(own topology.Policy, exchange string) Policies {
	others := slices.DeleteFunc(slices.Clone(p), func(other Policy) bool { return other.Name == own.Name })
	displaced, _ := others.candidates(func(other Policy) certainty { return other.matchesExchange(exchange) })
	return slices.DeleteFunc(displaced, func(other Policy) bool { return other.Priority >= own.Priority })
}

// Alternates are what may be the alternate exchange of an exchange: that of its argument, or else that of the policy
// that applies. Only RabbitMQ knows that of several.
func (p Policies) Alternates(e topology.Exchange) []string {
	if name := e.AlternateExchange(); name != "" {
		return []string{name}
	}
	var alternates []string
	candidates, _ := p.candidates(func(policy Policy) certainty { return policy.matchesExchange(e.Name) })
	for _, policy := range candidates {
		if name := policy.AlternateExchange(); name != "" {
			alternates = append(alternates, name)
		}
	}
	return alternates
}

// matchesExchange tells whether a policy applies to an exchange if no other one has a higher priority.
func (p Policy) matchesExchange(name string) certainty {
	if !p.IsForExchanges() {
		return no
	}
	return p.pattern.matches(name)
}

// Named is the policy of that name, or none.
func (p Policies) Named(name string) Policy {
	i := slices.IndexFunc(p, func(policy Policy) bool { return policy.Name == name })
	if i < 0 {
		return Policy{}
	}
	return p[i]
}

// candidates are the policies one of which applies to a queue or exchange, and whether all of them are certain to match
// it. Of several with the same priority RabbitMQ takes any, in the order of a hash table (rabbit_policy:match_all/3,
// 3.10.8 to 4.3.5).
func (p Policies) candidates(matches func(Policy) certainty) (candidates Policies, areCertain bool) {
	areCertain = true
	var lowest *Policy
	for _, policy := range slices.SortedStableFunc(slices.Values(p), byPriority) {
		if lowest != nil && policy.Priority < lowest.Priority {
			break
		}
		switch matches(policy) {
		case yes:
			lowest = &policy
		case perhaps:
			areCertain = false
		case no:
			continue
		}
		candidates = append(candidates, policy)
	}
	return candidates, areCertain
}

func byPriority(a, b Policy) int { return cmp.Compare(b.Priority, a.Priority) }

// Possible are the definitions that may be in force for an object, the one of no policy first. That of the highest
// priority may be a new one, which is not in force yet: so it is any of those that match.
func (p Policies) Possible(object string) []topology.Arguments {
	possible := []topology.Arguments{nil}
	for _, policy := range p {
		if policy.pattern.matches(object) != no {
			possible = append(possible, policy.Definition)
		}
	}
	return possible
}

// Lowest is the lowest limit that may be in force for a queue, and whether there may be one.
func (p Policies) Lowest(q topology.Queue, key string) (lowest int64, isLimited bool) {
	for _, definition := range p.Possible(q.Name) {
		value, _ := InForce(q, key, definition)
		if limit, ok := value.(int64); ok && (!isLimited || limit < lowest) {
			lowest, isLimited = limit, true
		}
	}
	return lowest, isLimited
}

// MayBe tells whether a text that begins like that may be in force for a queue.
func (p Policies) MayBe(q topology.Queue, key, begin string) bool {
	return slices.ContainsFunc(p.Possible(q.Name), func(definition topology.Arguments) bool {
		value, _ := InForce(q, key, definition)
		text, _ := value.(string)
		return strings.HasPrefix(text, begin)
	})
}
