package health

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What a queue does to messages that has other properties than it should, whoever gave it these: a policy, or somebody
// who declared it anew.

const ttlArgument = "x-message-ttl"

// effect is what becomes of messages.
type effect struct {
	severity Severity
	text     string
}

// queueEffects are what a queue does to messages that has another value of a property than the wanted one.
var queueEffects = map[string]func(want, have topology.Queue) effect{
	ttlArgument:                   changedTTL,
	"x-dead-letter-exchange":      changedNext,
	"x-dead-letter-routing-key":   changedKey,
	"x-max-length":                changedLimit("x-max-length", "messages"),
	"x-max-length-bytes":          changedLimit("x-max-length-bytes", "bytes"),
	"x-expires":                   expires,
	"x-delivery-limit":            changedLooks,
	"x-max-priority":              changedPriority,
	"x-delayed-retry-type":        changedRetries,
	"x-delayed-retry-min":         always(Harmless, passes),
	"x-delayed-retry-max":         always(Harmless, passes),
	"type":                        changedSafety,
	"x-dead-letter-strategy":      changedSafety,
	"x-overflow":                  changedSafety,
	"durable":                     always(Error, "the queue and its messages go when RabbitMQ restarts"),
	"auto_delete":                 always(Error, "the queue and its messages go with its last consumer"),
	"exclusive":                   always(Error, "the queue and its messages go with the connection that declared it"),
	"x-queue-leader-locator":      always(Harmless, passes),
	"x-quorum-initial-group-size": always(Harmless, passes),
	"x-queue-mode":                always(Harmless, passes),
	"x-queue-version":             always(Harmless, passes),
}

// changedQueue is what a queue does that has another value of the property.
func changedQueue(want, have topology.Queue, property string) effect {
	if does, known := queueEffects[property]; known {
		return does(want, have)
	}
	return effect{Warning, otherwise}
}

// otherwise is said of what RabbitMQ may take for whatever it likes.
const otherwise = "messages may take another way or another time than they should"

const (
	passes    = "messages pass through it all the same"
	canBeLost = "messages that leave it can be lost"
)

func always(severity Severity, text string) func(want, have topology.Queue) effect {
	return func(topology.Queue, topology.Queue) effect { return effect{severity, text} }
}

// changedTTL is for a queue with another TTL, or none.
func changedTTL(want, have topology.Queue) effect {
	text := "messages leave it late"
	switch ttl := have.TTLMillis(); {
	case ttl < 0:
		text = "messages stay in it"
	case !want.Delays():
		text = fmt.Sprintf("messages in it are %s after %s", removed(have.DeadLetterExchange()), millis(ttl))
	case ttl < want.TTLMillis():
		text = "messages leave it early"
	}
	return effect{Error, text}
}

// changedNext is for a queue that hands on to another exchange, or to none.
func changedNext(want, have topology.Queue) effect {
	switch {
	case !want.Delays():
		return effect{Warning, "messages that have to leave it are " + removed(have.DeadLetterExchange())}
	case have.DeadLetterObject() == "":
		return effect{Error, "messages are lost when they have waited in it"}
	}
	return effect{Error, fmt.Sprintf("messages leave it for %s in place of %s", have.DeadLetterObject(),
		want.DeadLetterObject())}
}

// changedKey is for a queue that gives messages another routing key.
func changedKey(want, have topology.Queue) effect {
	const argument = "x-dead-letter-routing-key"
	key, wanted := have.Arguments.Text(argument), want.Arguments.Text(argument)
	switch {
	case wanted == "":
		return effect{Error, withKey(key)}
	case key == "":
		return effect{Error, fmt.Sprintf("messages leave it with their own routing key in place of %q", wanted)}
	}
	return effect{Error, fmt.Sprintf("messages leave it with the routing key %q in place of %q", key, wanted)}
}

// withKey is for a queue that gives messages a routing key where they should keep their own.
func withKey(key any) string {
	return fmt.Sprintf("messages leave it with the routing key %q in place of their own. The messages get only where "+
		"this key leads", key)
}

// changedSafety is for a queue that may no longer hand on each message.
func changedSafety(want, have topology.Queue) effect {
	switch {
	case have.Type() == "stream":
		return effect{Error, "messages do not leave it"}
	case want.AtLeastOnce() && !have.AtLeastOnce():
		return effect{Error, canBeLost}
	case want.Type() != have.Type():
		return effect{Warning, otherwise}
	}
	for _, limit := range lengthLimits {
		if argument := "x-" + limit.key; have.Arguments[argument] != nil {
			return changedLimit(argument, limit.unit)(want, have)
		}
	}
	return effect{Harmless, passes}
}

// lengthLimits are the keys of policies for how much a queue holds, and what they count. An argument has an "x-" before
// the key.
var lengthLimits = []struct{ key, unit string }{{"max-length", "messages"}, {"max-length-bytes", "bytes"}}

// changedLimit is for a queue that can hold more or fewer.
func changedLimit(argument, unit string) func(want, have topology.Queue) effect {
	return func(_, have topology.Queue) effect {
		most, isLimited := have.Arguments[argument].(int64)
		if !isLimited {
			return effect{Warning, "the queue takes more messages than it should"}
		}
		return full(have, overflowOf(have.Arguments.Text("x-overflow")), most, unit, have.DeadLetterExchange())
	}
}

// full is what becomes of messages when a queue is full. Next is where it hands on messages.
func full(q topology.Queue, overflow string, most int64, unit, next string) effect {
	then := "the oldest are " + removed(next)
	switch {
	case overflow == "reject-publish" && (q.AtLeastOnce() || q.Type() == "quorum" && !q.Delays()):
		return effect{Warning, fmt.Sprintf("at %d %s it refuses further ones. Then publishers get a negative "+
			"confirmation, and messages on their way into it are late", most, unit)}
	case overflow == "reject-publish" || overflow == "reject-publish-dlx" && q.Type() == "classic":
		then = "further ones that are dead-lettered into it are lost"
	case q.Delays():
		then = "the oldest leave it early"
	}
	return effect{Error, fmt.Sprintf("at %d %s, %s", most, unit, then)}
}

// changedLooks is for a queue from which messages are removed that were looked at too often, or are not.
func changedLooks(_, have topology.Queue) effect {
	looks, isLimited := have.Arguments["x-delivery-limit"].(int64)
	switch {
	case !isLimited && have.Delays():
		return effect{Warning, "a message in it that is got and put back too often can leave it early"}
	case !isLimited:
		return effect{Warning, "a message in it that is got and put back too often can be dropped"}
	}
	return lookedAt(have, looks, have.DeadLetterExchange())
}

// changedPriority is for a classic queue that looks for messages that are due at the head of each priority.
func changedPriority(_, have topology.Queue) effect {
	if _, has := have.Arguments["x-max-priority"]; !has {
		return effect{Harmless, passes}
	}
	return effect{Warning, "a message in it is late behind one of a higher priority that came later"}
}

// lookedAt is for a queue that removes messages that were looked at. Next is where it hands on messages. A negative
// limit is none since RabbitMQ 4.0, and 0 before (3.10.8).
func lookedAt(q topology.Queue, looks int64, next string) effect {
	then := "is " + removed(next)
	if q.Delays() {
		then = "leaves it early"
	}
	if looks < 0 {
		return effect{Warning, "before RabbitMQ 4.0, a message in it that is got and put back " + then}
	}
	return effect{Error, fmt.Sprintf("a message in it that is got and put back more than %d times %s", looks, then)}
}

// changedRetries is for a queue that delays messages by itself that were got and put back, or does not.
func changedRetries(_, have topology.Queue) effect {
	if !delaysRetries(have.Arguments["x-delayed-retry-type"]) {
		return effect{Harmless, passes}
	}
	return effect{Warning, retried(have)}
}

// delaysRetries tells whether a value of delayed-retry-type delays anything.
func delaysRetries(kind any) bool {
	text, _ := kind.(string)
	return slices.Contains(policy.Retries, text)
}

// retried is for a queue that delays messages by itself that were got and put back (TestRetriesMakeMessagesLate).
func retried(q topology.Queue) string {
	if q.Delays() {
		return "a message in it that is got and put back is late: it stays until the time of its retry"
	}
	return "a message in it that is got and put back, as a replay does, is not ready until the time of its retry"
}

// expires is for a queue that RabbitMQ deletes by its own argument, or no longer.
func expires(_, have topology.Queue) effect {
	after, goes := have.Arguments["x-expires"].(int64)
	if !goes {
		return effect{Harmless, "the queue stays when nobody looks at it"}
	}
	return effect{Error, expired(after)}
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
