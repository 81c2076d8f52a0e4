package health

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What becomes of messages behind a delivery exchange.

// Receivers lists the queues of receivers that take no messages, as things are.
func Receivers(actual map[string]topology.Queue, status map[string]QueueStatus) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(actual)) {
		inspected := inspection{queue: actual[name], status: status[name]}
		inspected.receives()
		findings = append(findings, inspected.found...)
	}
	return findings
}

// receives reports a queue that nobody serves, or that is full and refuses messages.
func (i *inspection) receives() {
	const unserved = "the queue takes no messages. Quorum delay queues keep those for it, and offer them again " +
		"within six minutes. Messages that classic delay queues hand on to it are in no count, and may be lost"
	count := i.status.Ready
	if count == nil {
		count = i.status.Messages
	}
	switch limit := i.limit(); {
	case !i.status.hasMajority():
		i.add(Error, fmt.Sprintf("%d of %d members online", i.status.Online, i.status.Members), unserved)
	case i.status.State != "" && !i.status.IsServed():
		i.add(Error, fmt.Sprintf("its state is %q", i.status.State), unserved)
	case i.status.Members > 0 && i.status.Leader == "":
		i.add(Error, "no leader", unserved)
	case limit.key == "max-length" && count != nil && *count >= limit.most:
		i.add(Error, fmt.Sprintf("full: %s, messages: %d", limit.text, *count), "the queue refuses further "+
			"messages. Quorum delay queues offer them again after three to six minutes. "+holdsUp+". Classic delay "+
			"queues lose them")
	}
}

// Overdue is for messages that a queue keeps after their time. Since is a time by which it did, zero if nobody knows
// one. Why is what keeps them there.
func Overdue(queue string, messages int64, since time.Time, why string) Finding {
	is, by := "messages", ""
	if messages == 1 {
		is = "message"
	}
	if !since.IsZero() {
		by = fmt.Sprintf(" by %s or before", since.UTC().Format(time.RFC3339))
	}
	return Finding{Error, topology.QueueObject(queue), fmt.Sprintf("%d overdue %s", messages, is), fmt.Sprintf("their "+
		"time was over%s, and no queue takes them: %s. RabbitMQ tries again every three minutes. %s", by, why, holdsUp)}
}

// holdsUp is what a quorum delay queue does that cannot hand on messages.
const holdsUp = "32 of them in one queue hold up all other messages there"

// Nowhere is for messages that get to no queue behind a binding or exchange. The cause says where they end.
func Nowhere(object, cause string) Finding {
	return Finding{Error, object, cause, "no queue gets a message with such a key, and no alternate exchange takes " +
		"it. Quorum delay queues keep it, and RabbitMQ tries again every three minutes. " + holdsUp + ". Classic " +
		"delay queues lose it"}
}

// NoReceiver is for a queue that is to get all messages, and that does not exist.
func NoReceiver(queue string) Finding {
	return Finding{Error, topology.QueueObject(queue), "missing", "a message whose delay is over has nowhere to go. " +
		"A quorum delay queue that dead-letters at least once keeps it and tries again every three minutes. Any " +
		"other loses it"}
}

// NotParked is for a delivery exchange without an alternate exchange. A policy that cannot be read may name one.
// The policy is empty if none applies, or if it can be read.
func NotParked(delivery, unreadPolicy string) Finding {
	unless := ""
	if unreadPolicy != "" {
		unless = fmt.Sprintf("unless policy %q names one, which cannot be read, ", unreadPolicy)
	}
	return Finding{Warning, topology.ExchangeObject(delivery), "no alternate exchange", unless + "a message for a " +
		"destination that is not bound there is not parked. A quorum queue keeps it and tries again every three " +
		"minutes. A classic queue loses it"}
}
