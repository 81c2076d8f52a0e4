package rabbit

import (
	"context"
	"fmt"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
)

// QueueCount is the management API's count of a queue.
type QueueCount struct {
	// IsCounted is false where RabbitMQ leaves out how many messages there are.
	IsCounted                  bool
	Messages, Ready, Consumers int64
	// Reductions is the work that the process of a quorum queue had done when it counted, nil if it has not counted
	// yet.
	Reductions *int64
	// Delayed is how many messages the queue delays by itself, of 4.3 and later. It delays the first until NextDelayed
	// and the last until LastDelayed. CountedNow has none of them.
	Delayed                  int64
	NextDelayed, LastDelayed time.Time
	// Members are the nodes that hold the queue, and Online are those of them that run.
	Members, Online int
}

// HasMajority tells whether most members of the queue are online.
func (c QueueCount) HasMajority() bool { return c.Members == 0 || 2*c.Online > c.Members }

// CountKind is a kind of count.
type CountKind string

// The kinds of counts.
const (
	// CountedNow is the present count: of a classic queue from 4.0 on. A list has it for those of all versions.
	CountedNow CountKind = "?disable_stats=true&enable_queue_totals=true&columns=" + countColumns
	// CountedLast is the count of the statistics: for a quorum queue, that of its last tick, with the messages that it
	// delays by itself.
	CountedLast CountKind = "?columns=" + countColumns + ",messages_delayed,next_delayed_at,last_delayed_at"
	// CountedAtTick has the reductions, too.
	CountedAtTick = CountedLast + ",reductions"

	countColumns = "name,messages,messages_ready,consumers,members,online"
)

// Count asks the management API how much a queue holds. It is nil for a queue that does not exist.
func (v *Vhost) Count(ctx context.Context, queue string, kind CountKind) (*QueueCount, error) {
	var info queueInfo
	err := v.get(ctx, &info, string(kind), "queues", v.name, queue)
	if transport.IsNotFound(err) {
		return nil, nil
	}
	if err == nil {
		err = about(queue, info.Name)
	}
	if err != nil {
		return nil, v.client.failed(v.Counting(queue), err)
	}
	return info.count(), nil
}

// CountAll counts all queues of the vhost, by their names.
func (v *Vhost) CountAll(ctx context.Context) (map[string]*QueueCount, error) {
	var list []queueInfo
	if err := v.get(ctx, &list, string(CountedNow), "queues", v.name); err != nil {
		return nil, v.client.failed(fmt.Sprintf("count the messages in vhost %q", v.name), err)
	}
	counts := map[string]*QueueCount{}
	for _, info := range list {
		counts[info.Name] = info.count()
	}
	return counts, nil
}

// Sample is a count of the past.
type Sample struct {
	At       time.Time
	Messages int64
}

// NotReady is how many messages of a queue were not ready in the last ten minutes, every five seconds, the latest
// first. It is empty where RabbitMQ keeps no such counts.
func (v *Vhost) NotReady(ctx context.Context, queue string) ([]Sample, error) {
	type history struct {
		Samples []struct {
			Sample    float64 `json:"sample"`
			Timestamp int64   `json:"timestamp"`
		} `json:"samples"`
	}
	var info struct {
		Name     string         `json:"name"`
		Messages loose[history] `json:"messages_details"`
		Ready    loose[history] `json:"messages_ready_details"`
	}
	const query = "?lengths_age=600&lengths_incr=5&columns=name,messages_details,messages_ready_details"
	err := v.get(ctx, &info, query, "queues", v.name, queue)
	if err == nil {
		err = about(queue, info.Name)
	}
	if err != nil && !transport.IsNotFound(err) {
		return nil, v.client.failed(v.Counting(queue), err)
	}
	all, ready := info.Messages.value.Samples, info.Ready.value.Samples
	samples := make([]Sample, min(len(all), len(ready)))
	for i := range samples {
		samples[i] = Sample{time.UnixMilli(all[i].Timestamp), int64(all[i].Sample - ready[i].Sample)}
	}
	return samples, nil
}

// Counting is what counting the messages of a queue is called in errors.
func (v *Vhost) Counting(queue string) string {
	return fmt.Sprintf("count the messages of queue %q in vhost %q", queue, v.name)
}

// HasStatistics tells whether RabbitMQ collects statistics.
func (c *Client) HasStatistics(ctx context.Context) (bool, error) {
	o, err := c.overview(c.http.Call(ctx))
	if err != nil {
		return false, c.failed("ask whether RabbitMQ collects statistics", err)
	}
	return !o.DisableStats, nil
}
