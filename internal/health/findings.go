// Package health tells the faults of a topology that exists, and their effect on messages. Objects and the status of
// queues come in, and lists of faults go out. Call [Findings] for what policies, consumers and nodes do, and
// [Weaknesses] for what wanted arguments do. Call [Damages] for the differences from the wanted topology, and
// [Sentences] for their words. [Native] is for what a broker could do besides.
//
// It is pure: it never talks to a broker, and it repairs nothing. Read findings.go first, then damages.go.
package health

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Severity is how bad a finding is.
type Severity string

const (
	// Error is for messages that are lost, leave early, arrive twice or do not get on.
	Error Severity = "error"
	// Warning is for messages that may be late, and for the unknown.
	Warning Severity = "warning"
	// Info is for what does nothing to messages, and is worth knowing once. No plan warns of it.
	Info Severity = "info"
	// Harmless is for what does nothing to messages. It is no finding that anybody is told.
	Harmless Severity = ""
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

// Findings lists the effects of missing nodes, policies, operator policies and consumers on the queues of the topology.
// No plan can repair them, because they are not part of the topology. Actual are the queues as they exist in the vhost.
func Findings(vhost string, actual map[string]topology.Queue, status map[string]QueueStatus) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(actual)) {
		inspected := inspection{queue: actual[name], status: status[name]}
		inspected.availability()
		inspected.policies()
		inspected.consumers()
		findings = append(findings, inspected.found...)
	}
	return append(findings, leaders(vhost, actual, status)...)
}

// leaders reports a cluster in which one node has the leaders of three queues in four, or more. Each message is written
// by its queue's leader, and each queue waits for another one when that node fails.
func leaders(vhost string, actual map[string]topology.Queue, status map[string]QueueStatus) []Finding {
	led := map[string]int{}
	var names []string
	var most string
	var members int
	for _, name := range slices.Sorted(maps.Keys(actual)) {
		s := status[name]
		if s.Members < 2 { // a classic queue, or one node
			continue
		}
		if !s.hasMajority() {
			return nil // which is told, and no command helps
		}
		names, members = append(names, name), max(members, s.Members)
		if led[s.Leader]++; s.Leader != "" && led[s.Leader] > led[most] {
			most = s.Leader
		}
	}
	if len(names) < 2*members || 4*led[most] < 3*len(names) || most == "" { // fewer may be on one node by chance
		return nil
	}
	return []Finding{{
		Warning, fmt.Sprintf("node %q", most), fmt.Sprintf("%d of %d leaders", led[most], len(names)),
		"the node does most of the work of the cluster. All messages of these queues are late when the node fails. " +
			"This command spreads the leaders: " + rebalance(vhost, names),
	}}
}

// rebalance is a command for a shell beside a node. RabbitMQ spreads evenly what the patterns match, as a whole: with
// queues of others among it, these might stay on one node.
func rebalance(vhost string, queues []string) string {
	prefix := plaintext.CommonPrefix(queues)
	pattern := func(text, end string) string {
		return "'^" + strings.ReplaceAll(regexp.QuoteMeta(text), "'", `'\''`) + end + "'"
	}
	command := "rabbitmq-queues rebalance quorum --vhost-pattern " + pattern(vhost, "$")
	if prefix != "" {
		command += " --queue-pattern " + pattern(prefix, "")
	}
	return command
}

// inspection is one queue under inspection. A queue without a TTL is one where messages
// end: there they wait until somebody takes them.
type inspection struct {
	queue  topology.Queue
	status QueueStatus
	found  []Finding
}

func (i *inspection) add(severity Severity, cause, effect string) {
	i.found = append(i.found, Finding{severity, topology.QueueObject(i.queue.Name), cause, effect})
}

// availability reports a queue that moves no messages because of nodes that are down.
func (i *inspection) availability() {
	const effect = "messages wait in it beyond their time, and it takes no further ones, until "
	switch {
	case i.status.State == "down" && i.status.Members == 0:
		i.add(Warning, "its node is down", effect+"that node is back")
	case !i.status.hasMajority():
		i.add(Warning, fmt.Sprintf("%d of %d members online", i.status.Online, i.status.Members), effect+
			"most of the members are back")
	case i.status.State == "down": // for some seconds
		i.add(Warning, "its leader is down", effect+"another node leads it")
	case i.status.Online < i.status.Members:
		i.add(Warning, fmt.Sprintf("%d of %d members online", i.status.Online, i.status.Members), "the queue works, "+
			"and messages wait in it beyond their time when more of its nodes fail")
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
			i.add(Warning, f.Cause, "only RabbitMQ can tell whether this applies to it, and has not said so yet. If "+
				"it does, "+f.Effect)
		}
	}
}

// applied reports the keys whose combination with the queue's arguments differs from the declaration.
func (i *inspection) applied() {
	if i.status.Applied.Unknown && i.status.Applied.Policy+i.status.Applied.Operator != "" {
		i.add(Warning, i.cause(), "RabbitMQ does not tell yet which values it sets for so new a queue. The next "+
			"refresh tells their effect on messages")
	}
	if ttl, ok := i.limitByPolicy("message-ttl"); ok {
		if i.queue.Delays() {
			i.add(Error, i.cause(), fmt.Sprintf("messages leave it after %s instead of %s", millis(ttl),
				millis(i.queue.TTLMillis())))
		} else {
			i.add(Error, i.cause(), fmt.Sprintf("messages in it are %s after %s", removed(i.next()), millis(ttl)))
		}
	}
	if expires, ok := i.limitByPolicy("expires"); ok {
		i.add(Error, i.cause(), expired(expires))
	}
	i.limits()
	key, byPolicy := policy.InForce(i.queue, "dead-letter-routing-key", i.status.Applied.Definition)
	if byPolicy && i.queue.Delays() {
		i.add(Error, i.cause(), withKey(key))
	}
	if looks, ok := i.limitByPolicy("delivery-limit"); ok && looks >= 0 && i.queue.Type() == "quorum" {
		e := lookedAt(i.queue, looks, i.next())
		i.add(e.severity, i.cause(), e.text)
	}
	if kind, byPolicy := policy.InForce(i.queue, "delayed-retry-type", i.status.Applied.Definition); byPolicy &&
		i.queue.Type() == "quorum" && delaysRetries(kind) {
		i.add(Warning, i.cause(), retried(i.queue))
	}
}

// limits reports what becomes of messages when the queue is full.
func (i *inspection) limits() {
	overflow := i.overflow()
	for _, limit := range lengthLimits {
		most, ok := i.limitByPolicy(limit.key)
		if !ok {
			continue
		}
		e := full(i.queue, overflow, most, limit.unit, i.next())
		i.add(e.severity, i.cause(), e.text)
	}
	if i.queue.AtLeastOnce() && overflow != "reject-publish" {
		i.add(Error, i.cause(), fmt.Sprintf("overflow %q switches at-least-once dead-lettering off: %s", overflow,
			canBeLost))
	}
}

// next is the exchange that takes what has to leave the queue, if there is one.
func (i *inspection) next() string { return i.text("dead-letter-exchange") }

func (i *inspection) consumers() {
	if n := i.status.Consumers; i.queue.Delays() && n != nil && *n > 0 {
		i.add(Error, fmt.Sprintf("%d consumer(s)", *n), "messages in it are taken before their delay "+
			"is over and do not reach their destination")
	}
}

// limitByPolicy is the limit that a policy has put in force.
func (i *inspection) limitByPolicy(key string) (int64, bool) {
	value, byPolicy := policy.InForce(i.queue, key, i.status.Applied.Definition)
	limit, isLimit := value.(int64)
	return limit, byPolicy && isLimit
}

func (i *inspection) overflow() string { return overflowOf(i.text("overflow")) }

// text is the value of a key that is in force, empty if there is none.
func (i *inspection) text(key string) string {
	value, _ := policy.InForce(i.queue, key, i.status.Applied.Definition)
	text, _ := value.(string)
	return text
}

// Refuses says what makes a queue refuse messages when it is full, such as `x-max-length = 1000`, or with "by" a
// policy. It is empty for a queue that takes all.
func Refuses(queue topology.Queue, status QueueStatus) string {
	i := inspection{queue: queue, status: status}
	return i.limit().text
}

// limit is from where on a queue refuses messages.
type limit struct {
	key  string
	most int64
	// text is the limit in words, empty if there is none.
	text string
}

func (i *inspection) limit() limit {
	if i.queue.Type() == "stream" || !strings.HasPrefix(i.overflow(), "reject-publish") { // or reject-publish-dlx
		return limit{}
	}
	for _, of := range lengthLimits {
		if most, ok := i.limitByPolicy(of.key); ok {
			return limit{of.key, most, fmt.Sprintf("%s = %d by %s", of.key, most, i.cause())}
		}
		if most, ok := i.queue.Arguments["x-"+of.key].(int64); ok {
			return limit{of.key, most, fmt.Sprintf("x-%s = %d", of.key, most)}
		}
	}
	return limit{}
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

// Outranked is for an exchange to which the policy that says where to park may not apply, because of a rival.
func Outranked(exchange string, parking, rival topology.Policy) Finding {
	return Finding{Warning, topology.ExchangeObject(exchange), fmt.Sprintf("policy %q", rival.Name), fmt.Sprintf("its "+
		"priority is %v, and that of policy %q is %v. Then RabbitMQ may not apply that, and parks nothing here. A "+
		"message that no binding takes stays in the quorum queue before it, which tries again every three minutes. A "+
		"classic queue and the entry lose it", rival.Priority, parking.Name, parking.Priority)}
}
