package health

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What a queue does to messages that has other properties than it should, whoever gave it these: a policy, or somebody
// who declared it anew.

const ttlArgument = "x-message-ttl"

// changedQueue is what a queue does that has got another property.
func changedQueue(want, have topology.Queue, property string) (Severity, string) {
	losesAtLeastOnce := want.AtLeastOnce() && !have.AtLeastOnce()
	switch property {
	case ttlArgument:
		return Error, changedTTL(want, have)
	case "x-dead-letter-exchange":
		return changedNext(want, have)
	case "x-dead-letter-routing-key":
		return Error, changedKey(want, have)
	case "x-max-length":
		return changedLimit(have, property, "messages")
	case "x-max-length-bytes":
		return changedLimit(have, property, "bytes")
	case "x-expires":
		expires, _ := have.Arguments[property].(int64)
		return Error, expired(expires)
	case "x-delivery-limit":
		return changedLooks(have)
	case "type", "x-dead-letter-strategy", "x-overflow":
		switch {
		case have.Type() == "stream":
			return Error, "messages do not leave it"
		case losesAtLeastOnce:
			return Error, canBeLost
		}
	case "durable":
		return Error, "it goes with its messages when RabbitMQ restarts"
	case "auto_delete":
		return Error, "it goes with its messages when its last consumer does"
	case "exclusive":
		return Error, "it goes with its messages when the connection ends that declared it"
	case "x-queue-leader-locator", "x-quorum-initial-group-size", "x-queue-mode", "x-queue-version":
		return Harmless, "messages pass through it all the same"
	}
	return Warning, otherwise
}

const canBeLost = "messages that leave it can be lost"

// changedTTL is for a queue with another TTL, or none.
func changedTTL(want, have topology.Queue) string {
	switch ttl := have.TTLMillis(); {
	case ttl < 0:
		return "messages stay in it"
	case !want.Delays():
		return fmt.Sprintf("messages in it are %s after %s", removed(have.DeadLetterExchange()), millis(ttl))
	case ttl < want.TTLMillis():
		return "messages leave it early"
	default:
		return "messages leave it late"
	}
}

// changedNext is for a queue that hands on to another exchange, or to none.
func changedNext(want, have topology.Queue) (Severity, string) {
	next := have.DeadLetterExchange()
	switch {
	case !want.Delays():
		return Warning, fmt.Sprintf("messages that have to leave it are %s", removed(next))
	case next == "":
		return Error, "messages are lost when they have waited in it"
	}
	return Error, fmt.Sprintf("messages leave it for exchange %q in place of exchange %q", next,
		want.DeadLetterExchange())
}

// changedKey is for a queue that gives messages another routing key.
func changedKey(want, have topology.Queue) string {
	const argument = "x-dead-letter-routing-key"
	key := have.Arguments.Text(argument)
	switch wanted := want.Arguments.Text(argument); {
	case wanted == "":
		return withKey(key)
	case key == "":
		return fmt.Sprintf("messages leave it with their own routing key in place of %q", wanted)
	default:
		return fmt.Sprintf("messages leave it with the routing key %q in place of %q", key, wanted)
	}
}

// withKey is for a queue that gives messages a routing key where they should keep their own.
func withKey(key any) string {
	return fmt.Sprintf("messages leave it with the routing key %q in place of their own. They do not reach their "+
		"destination", key)
}

// changedLimit is for a queue that can hold more or fewer.
func changedLimit(have topology.Queue, argument, unit string) (Severity, string) {
	most, isLimited := have.Arguments[argument].(int64)
	if !isLimited {
		return Warning, "it takes more messages than it should"
	}
	return full(have, overflowOf(have.Arguments.Text("x-overflow")), most, unit, have.DeadLetterExchange())
}

// full is what becomes of messages when a queue is full. Next is where it hands on messages.
func full(q topology.Queue, overflow string, most int64, unit, next string) (Severity, string) {
	switch {
	case overflow == "reject-publish" && (q.AtLeastOnce() || q.Type() == "quorum" && !q.Delays()):
		return Warning, fmt.Sprintf("at %d %s it refuses further ones. Then publishers get a negative confirmation, "+
			"and messages on their way into it are late", most, unit)
	case overflow == "reject-publish" || overflow == "reject-publish-dlx" && q.Type() == "classic":
		return Error, fmt.Sprintf("at %d %s, further ones that are dead-lettered into it are lost", most, unit)
	case q.Delays():
		return Error, fmt.Sprintf("at %d %s, the oldest leave it early", most, unit)
	}
	return Error, fmt.Sprintf("at %d %s, the oldest are %s", most, unit, removed(next))
}

// changedLooks is for a queue from which messages are removed that were looked at too often, or are not.
func changedLooks(have topology.Queue) (Severity, string) {
	looks, isLimited := have.Arguments["x-delivery-limit"].(int64)
	if !isLimited {
		return Warning, "a message in it that is got and put back too often can be dropped"
	}
	return Error, lookedAt(have, looks, have.DeadLetterExchange())
}

// lookedAt is for a queue that removes messages that were looked at. Next is where it hands on messages.
func lookedAt(q topology.Queue, looks int64, next string) string {
	then := "is " + removed(next)
	if q.Delays() {
		then = "leaves it early"
	}
	return fmt.Sprintf("a message in it that is got and put back more than %d times %s", looks, then)
}

// expired is for a queue that RabbitMQ deletes.
func expired(after int64) string {
	return fmt.Sprintf("RabbitMQ deletes it, with the messages in it, %s after it was declared or last looked at. "+
		"Messages that pass through do not count", millis(after))
}

// removed is what becomes of a message that has to leave a queue. Next is where it hands on messages.
func removed(next string) string {
	if next == "" {
		return "dropped"
	}
	return fmt.Sprintf("handed on to exchange %q", next)
}

// overflowOf is what a full queue does, whose overflow may not be given.
func overflowOf(given string) string { return cmp.Or(given, "drop-head") }

// millis is a time in milliseconds, in words.
func millis(n int64) string { return plaintext.Duration(time.Duration(n) * time.Millisecond) }

// shownTTL is the value of a TTL in a difference, in words.
func shownTTL(text string) string {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		return "of " + millis(n)
	}
	return text
}
