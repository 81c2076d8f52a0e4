package recognize

import (
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What an application has behind an exchange that is no entry of a ladder, in words, and what to declare beside it.

// seeGuide ends the sentence on an import that is refused. The thing to declare beside it follows.
const seeGuide = `. The guide "Import" has the steps to `

const sideBySide = seeGuide + "ladders beside it"

// errDefaultExchange is for the default exchange, which leads to every queue by its name.
const errDefaultExchange notThis = "it is the default exchange, which is no entry. Retry queues that get their " +
	"messages through it cannot be imported" + sideBySide

// noExchange says what has the name, where no exchange has it.
func (o *objects) noExchange(name string) error {
	if o.queue(name).Name == "" {
		return errNoEntry
	}
	return notThis("there is no such exchange, but a queue of that name. Give the exchange that leads to it. " +
		"Messages that come through the default exchange have no entry to import" + sideBySide)
}

// noEntry says why an exchange cannot be the entry of a ladder, whatever is behind it.
func noEntry(e topology.Exchange) error {
	switch {
	case strings.HasPrefix(e.Name, delay.ReservedPrefix):
		return notThis("it is one of RabbitMQ's own exchanges, which nobody may declare or delete" + sideBySide)
	case e.Type != string(delay.Topic) && e.Type != string(delay.Direct):
		return notThisf("it is a %s exchange, and the entry of a ladder is a topic or a direct exchange"+sideBySide,
			e.Type)
	}
	return nil
}

// noRungs says why none of the queues behind an entry is a delay queue of a ladder.
func (o *objects) noRungs(entry string) error {
	for _, b := range o.bindings(entry) {
		if b.DestinationType != topology.ToQueue {
			continue
		}
		q := o.queue(b.Destination)
		switch wrong := flawOf(q); {
		case wrong == noFlaw && b.Arguments != "":
			return notThisf("the binding with key %q to queue %q has the arguments %s, and that of a ladder has none"+
				sideBySide, b.RoutingKey, q.Name, b.Arguments)
		case wrong == noKey:
			return notThisf("queue %q has an x-dead-letter-exchange, the default exchange, but no "+
				"x-dead-letter-routing-key. A ladder delivers to one queue or to another exchange"+sideBySide, q.Name)
		case wrong == noTTL, wrong == zeroTTL && hasEnd(q):
			if by := o.setBy(q, "message-ttl"); by != "" {
				return notThisf("queue %q has its TTL by the policy %q, and a delay queue has it as x-message-ttl"+
					sideBySide, q.Name, by)
			}
		case wrong == noEnd:
			if by := o.setBy(q, "dead-letter-exchange"); by != "" {
				return notThisf("queue %q has its dead-letter exchange by the policy %q, and a delay queue has it as "+
					"x-dead-letter-exchange"+sideBySide, q.Name, by)
			}
		}
	}
	if hops, _ := o.hops(entry); len(hops) > 0 {
		return notThisf("its keys, such as %q, are like those of a cascade, and not of a ladder. An import as a "+
			"cascade says more", hops[0].Key())
	}
	return notThis(`it has no binding like that of a ladder's rung, to a queue with a key such as "30s.*.#". Nor ` +
		"does it lead to a queue with an x-message-ttl and an x-dead-letter-exchange")
}

// withArguments says of an entry without keys of a cascade that there are some, but with arguments. Otherwise the error
// is the given one.
func (o *objects) withArguments(entry string, missing error) error {
	for _, b := range o.bindings(entry) {
		if _, isHop := delay.ParseHop(b.RoutingKey); isHop && b.Arguments != "" {
			return notThisf("the binding with key %q to %s %q has the arguments %s, and that of a cascade has none"+
				seeGuide+"a cascade beside it", b.RoutingKey, b.DestinationType, b.Destination, b.Arguments)
		}
	}
	return missing
}

// setBy is the policy that sets what the queue has no argument for, empty if none is known to.
func (o *objects) setBy(q topology.Queue, key string) string {
	applied := policy.Declared{Users: o.policies(), Operators: policy.Policies{}}.Applied(q, policy.Applied{})
	if applied.Definition[key] == nil {
		return ""
	}
	return applied.Policy
}

// twoWays says of keys that a message can fit two of them.
func twoWays(of delay.ExchangeType, all []rung) error {
	for i, r := range all {
		for _, other := range all[:i] {
			if delay.KeysMeet(of, r.key, other.key) {
				return notThisf("a message can fit both the key %q to queue %q and the key %q to queue %q, and comes "+
					"twice then"+sideBySide, other.key, other.queue.Name, r.key, r.queue.Name)
			}
		}
	}
	return nil
}
