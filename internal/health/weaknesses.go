package health

import (
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// weakArguments are those of a delay queue that do to messages what the default arguments do not.
var weakArguments = []string{"x-expires", "x-delivery-limit", "x-max-priority", "x-max-length", "x-max-length-bytes",
	"x-delayed-retry-type"}

// Weaknesses are the effects of the arguments that delay queues have because they are wanted so. The effects of others
// are those of Damages.
func Weaknesses(desired, actual map[string]topology.Queue) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		q := desired[name]
		if !q.Delays() || !q.Equal(actual[name]) {
			continue
		}
		found := inspection{queue: q}
		if cause := atMostOnce(q); cause != "" {
			found.add(Error, cause, "the queue dead-letters at most once. A message that falls due while the next "+
				"queue is unavailable is lost")
		}
		for _, argument := range weakArguments {
			value, has := q.Arguments[argument]
			if e := changedQueue(q, q, argument); has && !isHarmless(q, argument, value) {
				found.add(e.severity, argument+" = "+topology.ValueText(value), e.text)
			}
		}
		findings = append(findings, found.found...)
	}
	return findings
}

// atMostOnce is the argument that a quorum queue lacks to hand on each message, empty if it lacks none.
func atMostOnce(q topology.Queue) string {
	switch {
	case q.Type() != "quorum" || q.AtLeastOnce():
		return ""
	case q.Arguments.Text("x-dead-letter-strategy") != "at-least-once":
		return "no x-dead-letter-strategy = at-least-once"
	}
	return "no x-overflow = reject-publish"
}

// isHarmless tells whether no message is lost, early or late by the argument.
func isHarmless(q topology.Queue, argument string, value any) bool {
	switch argument {
	case "x-delivery-limit":
		limit, _ := value.(int64)
		return limit < 0 // no limit (4.0)
	case "x-delayed-retry-type":
		return !delaysRetries(value)
	case "x-max-length", "x-max-length-bytes":
		return q.AtLeastOnce() // it refuses messages, which is what a limit is for
	}
	return false
}
