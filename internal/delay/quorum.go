package delay

import "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"

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

// LeaderLocator is a way to place the leader of a queue.
type LeaderLocator string

// The leader locators: a node with few leaders, or the node that the declaration comes through.
const (
	Balanced    LeaderLocator = "balanced"
	ClientLocal LeaderLocator = "client-local"
)

func (l LeaderLocator) isKnown() bool { return l == Balanced || l == ClientLocal }

func (o QuorumOptions) check(queueType QueueType, errs *Errors) {
	if o.MaxLength < 0 {
		errs.add("max_length", "is %d; it has to be 1 or more", o.MaxLength)
	}
	if o.InitialGroupSize < 0 {
		errs.add("quorum_initial_group_size", "is %d; it has to be 1 or more", o.InitialGroupSize)
	}
	if o.LeaderLocator != "" && !o.LeaderLocator.isKnown() {
		errs.add("queue_leader_locator", "is %q; it can be %q or %q", o.LeaderLocator, Balanced, ClientLocal)
	}
	if queueType != Classic {
		return
	}
	const needsQuorum = "is given for classic queues; only quorum queues have it: set queue_type = %q or leave it out"
	if o.MaxLength > 0 {
		errs.add("max_length", "is given for classic queues. A full classic queue loses messages that are "+
			"dead-lettered into it: set queue_type = %q or leave max_length out", Quorum)
	}
	if o.LeaderLocator != "" {
		errs.add("queue_leader_locator", needsQuorum, Quorum)
	}
	if o.InitialGroupSize > 0 {
		errs.add("quorum_initial_group_size", needsQuorum, Quorum)
	}
}

// refuse is for a preset: a framework's queues have none of the options.
func (o QuorumOptions) refuse(preset Preset, errs *Errors) {
	for _, option := range []struct {
		attribute string
		isGiven   bool
	}{
		{"max_length", o.MaxLength != 0},
		{"queue_leader_locator", o.LeaderLocator != ""},
		{"quorum_initial_group_size", o.InitialGroupSize != 0},
	} {
		if option.isGiven {
			errs.add(option.attribute, "is given, and the queues of preset %q have none; leave %s out", preset,
				option.attribute)
		}
	}
}

// place adds the arguments that say where in a cluster a queue is.
func (o QuorumOptions) place(arguments topology.Arguments) {
	if o.LeaderLocator != "" {
		arguments["x-queue-leader-locator"] = string(o.LeaderLocator)
	}
	if o.InitialGroupSize > 0 {
		arguments["x-quorum-initial-group-size"] = o.InitialGroupSize
	}
}

// QuorumOptionsOf reads the options off a queue. A leader locator of old, such as random, is left out: it shows as a
// difference.
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
