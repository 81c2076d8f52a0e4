package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Severity is how bad a finding is.
type Severity string

const (
	// Error is for messages that are lost, leave early, arrive twice or do not get on.
	Error Severity = "error"
	// Warning is for messages that may be late, and for what is not known.
	Warning Severity = "warning"
)

// Finding is something that changes what happens to messages.
type Finding struct {
	Severity Severity
	// Object is what it was found on, such as `queue "tasks.delay-03"`.
	Object string
	// Cause is what does it, such as `policy "ttl"`.
	Cause string
	// Effect says what happens to messages, and calls the object "it".
	Effect string
}

// Findings lists what missing nodes, policies, operator policies and consumers do to the queues of the
// topology: no plan can repair that, because it is not part of the topology.
// Actual are the queues as they exist.
func Findings(actual map[string]Queue, status map[string]QueueStatus) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(actual)) {
		inspected := inspection{queue: actual[name], status: status[name]}
		inspected.availability()
		inspected.policies()
		inspected.consumers()
		findings = append(findings, inspected.found...)
	}
	return findings
}

// inspection is one queue under inspection. A queue without a time-to-live is one where messages
// end: there they wait until somebody takes them.
type inspection struct {
	queue  Queue
	status QueueStatus
	found  []Finding
}

func (i *inspection) add(severity Severity, cause, format string, args ...any) {
	i.found = append(i.found, Finding{severity, fmt.Sprintf("queue %q", i.queue.Name), cause, fmt.Sprintf(format, args...)})
}

// availability reports a queue that moves no messages because of nodes that are down.
func (i *inspection) availability() {
	const effect = "messages wait in it beyond their time, and it takes no further ones, until "
	switch {
	case i.status.Down:
		i.add(Warning, "its node is down", effect+"that is back")
	case i.status.Online*2 <= i.status.Replicas && i.status.Replicas > 0:
		i.add(Warning, fmt.Sprintf("%d of %d replicas online", i.status.Online, i.status.Replicas), effect+"most of them are back")
	}
}

// policies reports the keys that combine with the queue's arguments to something else than what was
// declared. Limits combine by minimum; dead-letter-exchange and dead-letter-strategy yield to the
// argument; overflow wins over the argument of a quorum queue and yields to that of a classic one
// (3.10.8 to 4.3.6).
func (i *inspection) policies() {
	policy := i.status.EffectivePolicy
	if i.status.PolicyUnknown && i.status.Policy+i.status.OperatorPolicy != "" {
		i.add(Warning, i.cause(), "RabbitMQ does not tell yet what it sets for a queue that is so new; the next refresh says what it does to messages")
	}
	if ttl, ok := i.lowers("message-ttl"); ok {
		if i.queue.Delays() {
			i.add(Error, i.cause(), "messages leave it after %s instead of %s", millis(ttl), millis(i.queue.ttlMillis()))
		} else {
			i.add(Error, i.cause(), "messages in it are %s after %s", i.removed(), millis(ttl))
		}
	}
	if expires, ok := policy["expires"].(int64); ok {
		i.add(Error, i.cause(), "RabbitMQ deletes it, with the messages in it, %s after it was declared or last looked at: messages that pass through do not count", millis(expires))
	}
	overflow := i.overflow()
	for _, limit := range []struct{ key, unit string }{{"max-length", "messages"}, {"max-length-bytes", "bytes"}} {
		most, ok := i.lowers(limit.key)
		if !ok {
			continue
		}
		switch {
		case overflow == "reject-publish" && (i.queue.AtLeastOnce() || i.queue.Type() == "quorum" && !i.queue.Delays()):
			i.add(Warning, i.cause(), "at %d %s it refuses further ones: publishers get a negative confirmation, and messages on their way into it are late", most, limit.unit)
		case overflow == "reject-publish" || overflow == "reject-publish-dlx" && i.queue.Type() == "classic":
			i.add(Error, i.cause(), "at %d %s, further ones that are dead-lettered into it are lost", most, limit.unit)
		case i.queue.Delays():
			i.add(Error, i.cause(), "at %d %s, the oldest leave it early", most, limit.unit)
		default:
			i.add(Error, i.cause(), "at %d %s, the oldest are %s", most, limit.unit, i.removed())
		}
	}
	if i.queue.AtLeastOnce() && overflow != "reject-publish" {
		i.add(Error, i.cause(), "overflow %q switches at-least-once dead-lettering off: messages that leave it can be lost", overflow)
	}
	if key, ok := policy["dead-letter-routing-key"].(string); ok && i.queue.Delays() && i.queue.Arguments["x-dead-letter-routing-key"] == nil {
		i.add(Error, i.cause(), "messages leave it with the routing key %q in place of their own, so that they do not reach their destination", key)
	}
	if looks, ok := i.lowers("delivery-limit"); ok && !i.queue.Delays() && i.queue.Type() == "quorum" {
		i.add(Error, i.cause(), "a message in it that is looked at more than %d times is %s", looks, i.removed())
	}
}

// removed is what becomes of a message that has to leave a queue where messages end.
func (i *inspection) removed() string {
	exchange := i.queue.DeadLetterExchange()
	if exchange == "" {
		exchange = i.status.EffectivePolicy.text("dead-letter-exchange")
	}
	if exchange == "" {
		return "dropped"
	}
	return fmt.Sprintf("handed on to exchange %q", exchange)
}

func (i *inspection) consumers() {
	if i.queue.Delays() && i.status.Consumers > 0 {
		i.add(Error, fmt.Sprintf("%d consumer(s)", i.status.Consumers), "messages in it are taken before their delay is over and do not reach their destination")
	}
}

// lowers tells whether the policy sets the limit below the queue's own argument.
func (i *inspection) lowers(key string) (int64, bool) {
	limit, ok := i.status.EffectivePolicy[key].(int64)
	if !ok {
		return 0, false
	}
	own, limited := i.queue.Arguments["x-"+key].(int64)
	return limit, !limited || limit < own
}

func (i *inspection) overflow() string {
	argument, policy := i.queue.Arguments.text("x-overflow"), i.status.EffectivePolicy.text("overflow")
	if i.queue.Type() == "quorum" && policy != "" || argument == "" {
		argument = policy
	}
	if argument == "" {
		return "drop-head"
	}
	return argument
}

// Refuses says what makes a queue refuse messages when it is full, such as `x-max-length = 1000`, or with "by" a policy. It is empty
// for a queue that takes all.
func Refuses(queue Queue, status QueueStatus) string {
	i := inspection{queue: queue, status: status}
	if queue.Type() == "stream" || !strings.HasPrefix(i.overflow(), "reject-publish") { // or reject-publish-dlx
		return ""
	}
	for _, key := range []string{"max-length", "max-length-bytes"} {
		if limit, ok := i.lowers(key); ok {
			return fmt.Sprintf("%s = %d by %s", key, limit, i.cause())
		}
		if limit, ok := queue.Arguments["x-"+key].(int64); ok {
			return fmt.Sprintf("x-%s = %d", key, limit)
		}
	}
	return ""
}

func (i *inspection) cause() string {
	switch {
	case i.status.OperatorPolicy == "":
		return fmt.Sprintf("policy %q", i.status.Policy)
	case i.status.Policy == "":
		return fmt.Sprintf("operator policy %q", i.status.OperatorPolicy)
	}
	return fmt.Sprintf("policy %q with operator policy %q", i.status.Policy, i.status.OperatorPolicy)
}

// Damages lists how what a broker has deviates from the topology: what a plan repairs.
func Damages(desired, actual Topology) []Finding {
	var found []Finding
	add := func(object, cause, effect string) { found = append(found, Finding{Error, object, cause, effect}) }
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		if !actual.has(name) {
			add(fmt.Sprintf("exchange %q", name), "missing", "messages do not get on from here: publishers get an error, quorum queues keep what they hand on to it, and classic queues lose it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Queues)) {
		if _, exists := actual.Queues[name]; !exists {
			add(fmt.Sprintf("queue %q", name), "missing", "messages that have to wait in it are unroutable")
		}
	}
	for _, b := range desired.Bindings.Sorted() {
		if !actual.Bindings.Has(b) {
			add("binding of "+b.describe(), "missing", "messages with such a key are unroutable")
		}
	}
	for _, object := range Existing(desired, actual) {
		for _, d := range object.Differences {
			add(object.Name, fmt.Sprintf("%s is %s, not %s", d.Property, d.Actual, d.Desired), "messages take another way or another time than they should")
		}
	}
	return found
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
