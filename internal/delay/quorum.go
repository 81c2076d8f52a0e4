package delay

import (
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// QuorumOptions are arguments that only quorum queues have. The zero value leaves all of them to the broker.
type QuorumOptions struct {
	// MaxLength is the largest number of messages in a delay queue (x-max-length), 0 for no limit.
	MaxLength int64
	// LeaderLocator says on which node of a cluster a queue gets its leader (x-queue-leader-locator).
	LeaderLocator LeaderLocator
	// InitialGroupSize is the number of members that a queue begins with (x-quorum-initial-group-size), 0 for the
	// broker's choice. RabbitMQ takes all nodes where there are fewer.
	InitialGroupSize int64
}

// everyOption has a value of each option, none of them zero. One more does not compile here. It needs a line in given,
// and one in QuorumOptionsOf.
var everyOption = QuorumOptions{1, Balanced, 1}

// QuorumAttributes are the attributes of the options.
func QuorumAttributes() []string {
	return plaintext.Texts(everyOption.given(), func(o option) string { return o.attribute })
}

// LeaderLocator is a way to place the leader of a queue.
type LeaderLocator string

// The leader locators: a node with few leaders, or the node that the declaration comes through.
const (
	Balanced    LeaderLocator = "balanced"
	ClientLocal LeaderLocator = "client-local"
)

func (l LeaderLocator) isKnown() bool { return l == Balanced || l == ClientLocal }

// option is one that is given: an attribute, and the argument that it becomes. One that holds for parked messages is an
// argument of the queue of unroutable messages, too. No such option may lose a message.
type option struct {
	attribute, argument string
	value               any
	holdsForParked      bool
}

// given are those that are not left to the broker.
func (o QuorumOptions) given() (options []option) {
	add := func(isGiven bool, given option) {
		if isGiven {
			options = append(options, given)
		}
	}
	add(o.MaxLength != 0, option{"max_length", "x-max-length", o.MaxLength, false})
	add(o.LeaderLocator != "", option{"queue_leader_locator", "x-queue-leader-locator", string(o.LeaderLocator), true})
	add(o.InitialGroupSize != 0,
		option{"quorum_initial_group_size", "x-quorum-initial-group-size", o.InitialGroupSize, true})
	return options
}

func (o QuorumOptions) check(queueType QueueType, errs *Errors) {
	for _, each := range o.given() {
		n, isNumber := each.value.(int64)
		switch {
		case isNumber && n < 0:
			errs.add(each.attribute, "is %d; it has to be 1 or more", n)
		case each.attribute == "queue_leader_locator" && !o.LeaderLocator.isKnown():
			errs.add(each.attribute, "is %q; it can be %q or %q", o.LeaderLocator, Balanced, ClientLocal)
		case queueType != Classic:
		case each.attribute == "max_length":
			errs.add(each.attribute, "is given for classic queues. A full classic queue loses messages that are "+
				"dead-lettered into it: set queue_type = %q or leave max_length out", Quorum)
		default:
			errs.add(each.attribute, "is given for classic queues; only quorum queues have it: set queue_type = %q "+
				"or leave it out", Quorum)
		}
	}
}

// QuorumOptionsOf reads the options off a queue. A leader locator of old, such as random, is left out: it is one of the
// further arguments.
func QuorumOptionsOf(q topology.Queue) (o QuorumOptions) {
	if q.Type() != string(Quorum) {
		return o
	}
	o.MaxLength, _ = q.Arguments["x-max-length"].(int64)
	locator, _ := q.Arguments["x-queue-leader-locator"].(string)
	if l := LeaderLocator(locator); l.isKnown() {
		o.LeaderLocator = l
	}
	o.InitialGroupSize, _ = q.Arguments["x-quorum-initial-group-size"].(int64)
	return o
}
