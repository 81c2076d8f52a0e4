// Package health tells what is wrong with a topology that exists, and what that does to messages. It is pure: it never
// talks to a broker, and it repairs nothing. Read findings.go first.
package health

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
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
func Findings(actual map[string]topology.Queue, status map[string]QueueStatus) []Finding {
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

// inspection is one queue under inspection. A queue without a TTL is one where messages
// end: there they wait until somebody takes them.
type inspection struct {
	queue  topology.Queue
	status QueueStatus
	found  []Finding
}

func (i *inspection) add(severity Severity, cause, format string, args ...any) {
	i.found = append(i.found, Finding{severity, fmt.Sprintf("queue %q", i.queue.Name), cause,
		fmt.Sprintf(format, args...)})
}

// availability reports a queue that moves no messages because of nodes that are down.
func (i *inspection) availability() {
	const effect = "messages wait in it beyond their time, and it takes no further ones, until "
	switch {
	case i.status.Down:
		i.add(Warning, "its node is down", effect+"that is back")
	case i.status.Online*2 <= i.status.Replicas && i.status.Replicas > 0:
		i.add(Warning, fmt.Sprintf("%d of %d replicas online", i.status.Online, i.status.Replicas), effect+
			"most of them are back")
	}
}

// policies reports what a policy does to the queue, and what one would do of which only RabbitMQ knows whether it
// applies.
func (i *inspection) policies() {
	i.applied()
	for _, applied := range i.status.Applied.Perhaps {
		perhaps := inspection{queue: i.queue, status: QueueStatus{Applied: applied}}
		perhaps.applied()
		for _, f := range perhaps.found {
			i.add(Warning, f.Cause, "only RabbitMQ can tell whether this applies to it, and has not said so yet; if it "+
				"does: %s", f.Effect)
		}
	}
}

// applied reports the keys that combine with the queue's arguments to something else than what was declared.
func (i *inspection) applied() {
	if i.status.Applied.Unknown && i.status.Applied.Policy+i.status.Applied.Operator != "" {
		i.add(Warning, i.cause(), "RabbitMQ does not tell yet what it sets for a queue that is so new; the next "+
			"refresh says what it does to messages")
	}
	if ttl, ok := i.lowers("message-ttl"); ok {
		if i.queue.Delays() {
			i.add(Error, i.cause(), "messages leave it after %s instead of %s", millis(ttl),
				millis(i.queue.TTLMillis()))
		} else {
			i.add(Error, i.cause(), "messages in it are %s after %s", i.removed(), millis(ttl))
		}
	}
	if expires, ok := i.lowers("expires"); ok {
		i.add(Error, i.cause(), "RabbitMQ deletes it, with the messages in it, %s after it was declared or last "+
			"looked at: messages that pass through do not count", millis(expires))
	}
	i.limits()
	key, byPolicy := policy.InForce(i.queue, "dead-letter-routing-key", i.status.Applied.Definition)
	if byPolicy && i.queue.Delays() {
		i.add(Error, i.cause(), "messages leave it with the routing key %q in place of their own, so that they do "+
			"not reach their destination", key)
	}
	if looks, ok := i.lowers("delivery-limit"); ok && i.queue.Type() == "quorum" {
		removed := i.removed()
		if i.queue.Delays() {
			removed += " before its time"
		}
		i.add(Error, i.cause(), "a message in it that is got and put back more than %d times is %s", looks, removed)
	}
}

// limits reports what becomes of messages when the queue is full.
func (i *inspection) limits() {
	overflow := i.overflow()
	for _, limit := range []struct{ key, unit string }{{"max-length", "messages"}, {"max-length-bytes", "bytes"}} {
		most, ok := i.lowers(limit.key)
		if !ok {
			continue
		}
		switch {
		case overflow == "reject-publish" && (i.queue.AtLeastOnce() || i.queue.Type() == "quorum" && !i.queue.Delays()):
			i.add(Warning, i.cause(), "at %d %s it refuses further ones: publishers get a negative confirmation, and "+
				"messages on their way into it are late", most, limit.unit)
		case overflow == "reject-publish" || overflow == "reject-publish-dlx" && i.queue.Type() == "classic":
			i.add(Error, i.cause(), "at %d %s, further ones that are dead-lettered into it are lost", most, limit.unit)
		case i.queue.Delays():
			i.add(Error, i.cause(), "at %d %s, the oldest leave it early", most, limit.unit)
		default:
			i.add(Error, i.cause(), "at %d %s, the oldest are %s", most, limit.unit, i.removed())
		}
	}
	if i.queue.AtLeastOnce() && overflow != "reject-publish" {
		i.add(Error, i.cause(), "overflow %q switches at-least-once dead-lettering off: messages that leave it "+
			"can be lost", overflow)
	}
}

// removed is what becomes of a message that has to leave a queue where messages end.
func (i *inspection) removed() string {
	exchange, _ := policy.InForce(i.queue, "dead-letter-exchange", i.status.Applied.Definition)
	if exchange == nil || exchange == "" {
		return "dropped"
	}
	return fmt.Sprintf("handed on to exchange %q", exchange)
}

func (i *inspection) consumers() {
	if i.queue.Delays() && i.status.Consumers > 0 {
		i.add(Error, fmt.Sprintf("%d consumer(s)", i.status.Consumers), "messages in it are taken before their delay "+
			"is over and do not reach their destination")
	}
}

// lowers tells whether the policy sets the limit below the queue's own argument.
func (i *inspection) lowers(key string) (int64, bool) {
	value, byPolicy := policy.InForce(i.queue, key, i.status.Applied.Definition)
	limit, isLimit := value.(int64)
	return limit, byPolicy && isLimit
}

func (i *inspection) overflow() string {
	value, _ := policy.InForce(i.queue, "overflow", i.status.Applied.Definition)
	text, _ := value.(string)
	return cmp.Or(text, "drop-head")
}

// Refuses says what makes a queue refuse messages when it is full, such as `x-max-length = 1000`, or with "by" a
// policy. It is empty for a queue that takes all.
func Refuses(queue topology.Queue, status QueueStatus) string {
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
	applied := i.status.Applied
	cause := fmt.Sprintf("policy %q with operator policy %q", applied.Policy, applied.Operator)
	switch {
	case applied.Operator == "":
		cause = fmt.Sprintf("policy %q", applied.Policy)
	case applied.Policy == "":
		cause = fmt.Sprintf("operator policy %q", applied.Operator)
	}
	if applied.IsToldByQueue {
		cause += " (as the queue says, some seconds after a change)"
	}
	return cause
}

// Damages lists how what a broker has deviates from the topology: what a plan repairs, and a delivery exchange of
// others that is gone. Each cause is there once: an exchange or a queue that is missing has taken its bindings with it.
func Damages(desired, actual topology.Topology) []Finding {
	var found []Finding
	add := func(object, cause, effect string) { found = append(found, Finding{Error, object, cause, effect}) }
	gone := map[string]bool{}
	missing := func(object, effect string) {
		gone[object] = true
		add(object, "missing", effect)
	}
	differences := topology.Diff(desired, actual)
	for _, name := range differences.MissingExchanges {
		missing(topology.ExchangeObject(name), "messages do not get on from here: publishers get an error, quorum "+
			"queues keep what they hand on to it, and classic queues lose it")
	}
	if !desired.Has(desired.Delivery) && actual.DeliveryType == "" {
		missing(topology.ExchangeObject(desired.Delivery), "messages do not get to their destination")
	}
	for _, name := range differences.MissingQueues {
		missing(topology.QueueObject(name), "messages that have to wait in it are unroutable")
	}
	for _, b := range differences.MissingBindings {
		into := fmt.Sprintf("%s %q", b.DestinationType, b.Destination)
		if !gone[topology.ExchangeObject(b.Source)] && !gone[into] {
			add("binding of "+b.Describe(), "missing", "messages with such a key are unroutable")
		}
	}
	for _, object := range topology.Existing(desired, actual) {
		for _, d := range object.Differences {
			add(object.Name, d.String(), "messages take another way or another time than they should")
		}
	}
	return found
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
