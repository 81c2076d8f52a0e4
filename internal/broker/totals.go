package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// queueTotal is the management API's count of a queue: the present one for a classic queue, that of its last tick for a
// quorum queue.
type queueTotal struct{ messages, ready, consumers int64 }

// totalInfo are the fields of a queue that are needed for that.
type totalInfo struct {
	Name       string          `json:"name"`
	Messages   count           `json:"messages"`
	Ready      loose[int64]    `json:"messages_ready"`
	Consumers  loose[int64]    `json:"consumers"`
	Reductions count           `json:"reductions"`
	Members    loose[[]string] `json:"members"`
	Online     loose[[]string] `json:"online"`

	// Delayed is how many messages the queue delays by itself, of 4.3 and later. It delays the first until NextDelayed
	// and the last until LastDelayed, in milliseconds since 1970. Both are missing if there are none (4.3.6).
	Delayed     loose[int64] `json:"messages_delayed"`
	NextDelayed loose[int64] `json:"next_delayed_at"`
	LastDelayed loose[int64] `json:"last_delayed_at"`
}

// sinceEpoch is a time that may be missing.
func sinceEpoch(millis loose[int64]) time.Time {
	if millis.value == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis.value)
}

// total is nil where RabbitMQ leaves out how many messages there are.
func (i totalInfo) total() *queueTotal {
	if i.Messages.n == nil {
		return nil
	}
	return &queueTotal{*i.Messages.n, i.Ready.value, i.Consumers.value}
}

const (
	totalColumns = "name,messages,messages_ready,consumers,members,online"
	tickColumns  = totalColumns + ",reductions,messages_delayed,next_delayed_at,last_delayed_at"
	freshTotals  = "?disable_stats=true&enable_queue_totals=true&columns=" + totalColumns
)

// totals asks the management API for all that the queues hold. It waits for counts that RabbitMQ leaves out, such as that
// of a quorum queue until its first tick (3.10.8). If they do not come, it fails: nothing is empty by a missing count.
func (v *vhostAPI) totals(ctx context.Context, queues []topology.Queue) (map[string]queueTotal, error) {
	result := map[string]queueTotal{}
	for deadline := time.Now().Add(streamLag); ; {
		if err := v.addTotals(ctx, queues, result); err != nil {
			return nil, err
		}
		if queues = unknown(queues, result); len(queues) == 0 {
			return result, nil
		}
		if time.Now().After(deadline) {
			return nil, v.uncounted(queues[0].Name)
		}
		if err := v.pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// unknown are the queues that have no count yet.
func unknown(queues []topology.Queue, result map[string]queueTotal) []topology.Queue {
	return slices.DeleteFunc(slices.Clone(queues), func(q topology.Queue) bool {
		_, known := result[q.Name]
		return known
	})
}

// addTotals adds the counts that RabbitMQ tells now.
func (v *vhostAPI) addTotals(ctx context.Context, queues []topology.Queue, result map[string]queueTotal) error {
	answers, err := each(ctx, queues, v.total)
	if err != nil {
		return err
	}
	for i, q := range queues {
		if answers[i] != nil {
			result[q.Name] = *answers[i]
		}
	}
	if len(unknown(queues, result)) == 0 {
		return nil
	}
	return v.listTotals(ctx, result)
}

// total is nil where RabbitMQ leaves out the count. 3.10.8 gives no fresh totals of single queues, 4.0.5 does.
func (v *vhostAPI) total(ctx context.Context, q topology.Queue) (*queueTotal, error) {
	info, err := v.totalInfo(ctx, q, freshTotals)
	if err == nil && info != nil && info.total() == nil && q.Type() != "classic" {
		info, err = v.totalInfo(ctx, q, "?columns="+totalColumns)
	}
	if err != nil || info == nil {
		return &queueTotal{}, err
	}
	return info.total(), nil
}

// totalInfo waits until most members of a queue are online. A queue that was declared just now may have none, on a busy
// node for moments (4.3.6). There is none of a stream until there are statistics of it (3.10.8).
func (v *vhostAPI) totalInfo(ctx context.Context, q topology.Queue, query string) (*totalInfo, error) {
	for deadline := time.Now().Add(streamLag); ; {
		info, err := v.totalNow(ctx, q, query)
		if err != nil || info == nil {
			return nil, err
		}
		members, online := len(info.Members.value), len(info.Online.value)
		if members == 0 || 2*online > members {
			return info, nil
		}
		if time.Now().After(deadline) {
			// RabbitMQ says of such a queue that nothing is ready (stat in rabbit_quorum_queue).
			return nil, v.uncountable(q.Name, fmt.Sprintf("only %d of its %d members are online", online, members))
		}
		if err := v.pause(ctx, polling); err != nil {
			return nil, err
		}
	}
}

// totalNow is nil for a queue that does not exist.
func (v *vhostAPI) totalNow(ctx context.Context, q topology.Queue, query string) (*totalInfo, error) {
	var info totalInfo
	err := v.get(ctx, &info, query, "queues", v.vhost, q.Name)
	if isNotFound(err) {
		return nil, v.confirm(ctx, v.vhost)
	}
	if err == nil {
		err = about(q.Name, info.Name)
	}
	if err != nil {
		return nil, v.failed(v.counting(q.Name), err)
	}
	return &info, nil
}

// listTotals adds the queues that are not in the result yet. It is a list of the whole vhost, because an older broker
// gives exact figures of classic queues nowhere else.
func (v *vhostAPI) listTotals(ctx context.Context, result map[string]queueTotal) error {
	var list []totalInfo
	err := v.get(ctx, &list, freshTotals, "queues", v.vhost)
	if isNotFound(err) {
		err = v.confirm(ctx, v.vhost)
	}
	if err != nil {
		return v.failed(fmt.Sprintf("count the messages in vhost %q", v.vhost), err)
	}
	for _, info := range list {
		if _, known := result[info.Name]; !known && info.total() != nil {
			result[info.Name] = *info.total()
		}
	}
	return nil
}

// uncounted is for a queue whose count RabbitMQ leaves out for good.
func (v *vhostAPI) uncounted(queue string) error {
	return &Error{Unavailable, v.counting(queue), "the management API does not say how many there are",
		"nothing is deleted while it is not certain that the queue is empty. RabbitMQ 4.3.0 to 4.3.3 leave out the " +
			"counts of quorum queues that come from 3.13 (rabbitmq-server issue 16974): 4.3.4 has them. " + halfDone}
}

func (v *vhostAPI) uncountable(queue, why string) error {
	return &Error{Unavailable, v.counting(queue), why,
		"nothing is deleted while it is not certain that the queue is empty. Look at the state of the queue and of " +
			"the nodes that hold it. " + halfDone}
}

// halfDone is the state of a queue after a declaration or deletion whose client or connection ended in the middle.
// RabbitMQ keeps it over a restart (3.10.8).
const halfDone = "A broken-off declaration or deletion may have left the queue without replicas. Only if " +
	"rabbitmq-queues quorum_status names none: it holds nothing, delete it with rabbitmqctl delete_queue"

func (v *vhostAPI) counting(queue string) string {
	return fmt.Sprintf("count the messages of queue %q in vhost %q", queue, v.vhost)
}

func (v *vhostAPI) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return v.failed("wait for queues", ctx.Err())
	}
}

// polling is the time between two questions while messages wait, or a count is waited for.
const polling = 250 * time.Millisecond

// streamLag is how old the count of a stream may be, which has no ticks. Only a queue that somebody has declared
// anew is one. It is also how long a count may be missing: until a tick, or until the statistics have it.
const streamLag = 11 * time.Second
