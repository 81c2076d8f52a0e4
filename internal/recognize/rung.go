package recognize

import (
	"fmt"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// rung is a queue to which the entry is bound with the key of a delay. One that is gone has only its name.
type rung struct {
	label, key string
	queue      topology.Queue
	// whole says that a message waits in the queue for as long as its key says, and goes on then.
	whole bool
}

// endOf is where messages go from a delay queue, in words, empty if they go nowhere.
func endOf(q topology.Queue) string {
	key := q.Arguments.Text("x-dead-letter-routing-key")
	if key == "" || q.DeadLetterExchange() == "" {
		return q.DeadLetterObject()
	}
	return fmt.Sprintf("%s with key %q", q.DeadLetterObject(), key)
}

// flaw is what keeps a queue from being a delay queue of a ladder, by its arguments.
type flaw int

const (
	noFlaw flaw = iota
	// noPart is a queue with no part of a delay queue.
	noPart
	noTTL
	zeroTTL
	// noKey is a queue that hands on through the default exchange without a key.
	noKey
	noEnd
)

func flawOf(q topology.Queue) flaw {
	switch {
	case !q.Delays() && !hasEnd(q):
		return noPart
	case !q.Delays():
		return noTTL
	case q.TTLMillis() == 0:
		return zeroTTL
	case endOf(q) == "" && hasEnd(q):
		return noKey
	case endOf(q) == "":
		return noEnd
	}
	return noFlaw
}

func hasEnd(q topology.Queue) bool { return q.Arguments["x-dead-letter-exchange"] != nil }
