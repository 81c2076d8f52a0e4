package policy

import (
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Applied is what applies to a queue of the policies of a vhost.
type Applied struct {
	// Policy and Operator are the names of the policy and of the operator policy, empty if none applies.
	Policy, Operator string
	// Definition is the merge of both, by key.
	Definition topology.Arguments
	// Unknown is set while nobody tells the Definition.
	Unknown bool
	// IsToldByQueue is set for what the queue itself says. It says so some seconds after a change.
	IsToldByQueue bool
	// Perhaps are what may apply instead: only RabbitMQ can tell, and the queue does not say it yet.
	Perhaps []Applied
}

// Declared are the policies of a vhost, nil if they cannot be read.
type Declared struct{ Users, Operators Policies }

// AreRead tells whether it is known which policies there are.
func (d Declared) AreRead() bool { return d.Users != nil && d.Operators != nil }

// Applied is what applies to a queue: one policy and one operator policy, in each case the one of the highest priority.
// Where only RabbitMQ can tell, it is what the queue itself says.
func (d Declared) Applied(q topology.Queue, told Applied) Applied {
	if !d.AreRead() {
		told.IsToldByQueue = true
		return told
	}
	user, otherUsers, userIsTold := d.Users.chosen(q, told.Policy)
	operator, otherOperators, operatorIsTold := d.Operators.chosen(q, told.Operator)
	applied := merged(user, operator)
	applied.IsToldByQueue = userIsTold || operatorIsTold
	for _, other := range otherUsers {
		applied.Perhaps = append(applied.Perhaps, merged(other, operator))
	}
	for _, other := range otherOperators {
		applied.Perhaps = append(applied.Perhaps, merged(user, other))
	}
	return applied
}

// chosen is the policy that applies, or none. Told is the one that the queue itself names: it counts where only
// RabbitMQ can tell. The others may apply instead.
func (p Policies) chosen(q topology.Queue, told string) (chosen Policy, others Policies, isTold bool) {
	candidates, isCertain := p.candidates(func(policy Policy) certainty { return policy.appliesTo(q) })
	if isCertain && len(candidates) == 0 {
		return Policy{}, nil, false
	}
	if isCertain && len(candidates) == 1 {
		return candidates[0], nil, false
	}
	i := slices.IndexFunc(candidates, func(candidate Policy) bool { return candidate.Name == told })
	if i < 0 {
		return Policy{}, candidates, false
	}
	return candidates[i], nil, true
}

// appliesTo tells whether a policy applies to a queue if no other one has a higher priority.
func (p Policy) appliesTo(q topology.Queue) certainty {
	kinds := []string{"all", "queues", map[string]string{
		"classic": "classic_queues", "quorum": "quorum_queues", "stream": "streams", // since 3.12
	}[q.Type()]}
	if !slices.Contains(kinds, p.ApplyTo) {
		return no
	}
	return min(p.suits(q.Type()), p.pattern.matches(q.Name))
}

// suits tells whether a policy has no key that the type of queue does not know: with one, RabbitMQ leaves out all of it
// (rabbit_queue_type:is_policy_applicable/2).
func (p Policy) suits(queueType string) certainty {
	suits := yes
	for key := range p.Definition {
		if of, isKnown := unsuitable[queueType][key]; isKnown {
			suits = min(suits, of)
		}
	}
	return suits
}

// unsuitable are the keys that a type of queue knows in no version from 3.10.8 to 4.3.5, or not in all of them. The
// latter have the certainty perhaps (unsupported_policies in rabbit_classic_queue.erl and rabbit_quorum_queue.erl).
var unsuitable = map[string]map[string]certainty{
	"classic": {
		"dead-letter-strategy": no, "delivery-limit": no, "initial-cluster-size": no, "max-age": no,
		"stream-max-segment-size-bytes": no, "max-in-memory-bytes": perhaps, "max-in-memory-length": perhaps,
		"queue-leader-locator": perhaps, "selector-field-max-bytes": perhaps, "selector-fields": perhaps,
		"target-group-size": perhaps,
	},
	"quorum": {
		"ha-mode": no, "ha-params": no, "ha-promote-on-failure": no, "ha-promote-on-shutdown": no, "ha-sync-mode": no,
		"initial-cluster-size": no, "max-age": no, "max-priority": no, "queue-master-locator": no, "queue-mode": no,
		"stream-max-segment-size-bytes": no, "selector-field-max-bytes": perhaps, "selector-fields": perhaps,
		"single-active-consumer": perhaps,
	},
}

// merged are the values that a policy and an operator policy set together. Of limits the lower one holds, but see
// lower. Of the rest, the operator's value holds (rabbit_policies:merge_policy_value/3).
func merged(user, operator Policy) Applied {
	definition := topology.Arguments{}
	maps.Copy(definition, user.Definition)
	for key, value := range operator.Definition {
		limit, isLimit := value.(int64)
		own, isOwn := definition[key].(int64)
		if isLimit && isOwn {
			value = lower(key, limit, own)
		}
		definition[key] = value
	}
	return Applied{Policy: user.Name, Operator: operator.Name, Definition: definition}
}
