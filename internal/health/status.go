package health

import (
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
)

// QueueStatus is what a broker says of a queue beyond its declaration.
type QueueStatus struct {
	// Messages is the number of messages, ready and unacknowledged. The management API's figure lags by up to nine
	// seconds (3.10 to 4.3). It is nil where RabbitMQ leaves it out: for some seconds after a declaration. RabbitMQ
	// 4.3.0 to 4.3.3 always do so for quorum queues that come from 3.13 (rabbitmq-server issue 16974).
	Messages *int64
	// Ready are those of them that are ready, nil as Messages is. Delayed are those that the queue delays by itself.
	Ready   *int64
	Delayed int64
	// LastDelayed is until when the queue delays messages by itself, at the longest. It is zero if there are none
	// (last_delayed_at, since 4.3).
	LastDelayed time.Time
	// Consumers is the number of consumers, which a delay queue never has by itself. It is nil as Messages is.
	Consumers *int64
	// Leader is the node with the leader of a quorum queue, empty if there is none or the broker does not say.
	Leader string
	// Members is how many nodes hold the queue, if it is a quorum queue, and Online how many of them run.
	Members, Online int
	// State is that of the queue, or of its leader, in RabbitMQ's words. It is empty if RabbitMQ does not say it.
	State string
	// Applied is what applies to it of the policies of its vhost.
	Applied policy.Applied
}

// IsServed tells whether somebody is there to take messages. The state "live" is what 3.10 calls "running".
func (s QueueStatus) IsServed() bool {
	return slices.Contains([]string{"running", "live", "idle", "flow"}, s.State) && s.hasMajority()
}

// hasMajority tells whether a quorum queue can work. Every other queue has no members.
func (s QueueStatus) hasMajority() bool { return s.Members == 0 || 2*s.Online > s.Members }
