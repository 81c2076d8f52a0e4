package delay

import "time"

// QueueType is the type of the queues of a cascade.
type QueueType string

// The queue types that a cascade can be made of.
const (
	Quorum  QueueType = "quorum"
	Classic QueueType = "classic"
)

// Queue is where a message waits that has the number at the level.
type Queue struct {
	Name          string
	Level, Number int
	TTL           time.Duration
}
