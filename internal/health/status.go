package health

import "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"

// QueueStatus is what a broker says of a queue beyond its declaration.
type QueueStatus struct {
	// Messages is the number of messages, ready and unacknowledged. The management API's figure
	// lags by up to nine seconds (3.10 to 4.3).
	Messages int64
	// Consumers is the number of consumers, which a delay queue never has by itself.
	Consumers int64
	// Replicas is how many nodes hold the queue, if it is a quorum queue, and Online how many of them run.
	Replicas, Online int
	// Down is set for a queue whose only node is down.
	Down bool
	// Policy and OperatorPolicy are the names of those that apply, empty if none does.
	Policy, OperatorPolicy string
	// EffectivePolicy is the merge of both, by key.
	EffectivePolicy topology.Arguments
	// PolicyUnknown is set while the broker does not tell EffectivePolicy, as it is for some seconds
	// after a queue has been declared. Policy may be known all the same.
	PolicyUnknown bool
}
