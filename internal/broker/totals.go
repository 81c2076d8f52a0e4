package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// queueTotal is the management API's count of a queue: the present one for a classic queue, that of its last tick for a
// quorum queue.
type queueTotal struct{ messages, ready, consumers int64 }

// totalInfo are the fields of a queue that are needed for that.
type totalInfo struct {
	Name       string          `json:"name"`
	Messages   *loose[int64]   `json:"messages"`
	Ready      loose[int64]    `json:"messages_ready"`
	Consumers  loose[int64]    `json:"consumers"`
	Reductions *loose[int64]   `json:"reductions"`
	Members    loose[[]string] `json:"members"`
	Online     loose[[]string] `json:"online"`
}

func (i totalInfo) sum() queueTotal {
	t := queueTotal{ready: i.Ready.value, consumers: i.Consumers.value}
	if i.Messages != nil { // else it has just been declared
		t.messages = i.Messages.value
	}
	return t
}

const (
	totalColumns = "name,messages,messages_ready,consumers,members,online"
	tickColumns  = totalColumns + ",reductions"
	freshTotals  = "?disable_stats=true&enable_queue_totals=true&columns=" + totalColumns
)

// totals asks the management API for all that the queues hold.
func (v *vhostAPI) totals(ctx context.Context, queues []topology.Queue) (map[string]queueTotal, error) {
	answers, err := each(ctx, queues, v.total)
	if err != nil {
		return nil, err
	}
	result := map[string]queueTotal{}
	unknown := false
	for i, q := range queues {
		if answers[i] != nil {
			result[q.Name] = *answers[i]
		} else {
			unknown = true
		}
	}
	if unknown {
		return result, v.listTotals(ctx, queues, result)
	}
	return result, nil
}

// total is nil for a classic queue of a broker that gives no fresh totals of single queues (3.10.8
// does not, 4.0.5 does).
func (v *vhostAPI) total(ctx context.Context, q topology.Queue) (*queueTotal, error) {
	info, err := v.totalInfo(ctx, q, freshTotals)
	if err == nil && info != nil && info.Messages == nil {
		if q.Type() == "classic" {
			return nil, nil
		}
		info, err = v.totalInfo(ctx, q, "?columns="+totalColumns)
	}
	if err != nil || info == nil {
		return &queueTotal{}, err
	}
	t := info.sum()
	return &t, nil
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

// listTotals adds the classic queues that are not in the result yet. It is a list of the whole
// vhost, because an older broker gives exact figures of classic queues nowhere else.
func (v *vhostAPI) listTotals(ctx context.Context, queues []topology.Queue, result map[string]queueTotal) error {
	var list []totalInfo
	err := v.get(ctx, &list, freshTotals, "queues", v.vhost)
	if isNotFound(err) {
		err = v.confirm(ctx, v.vhost)
	}
	if err != nil {
		return v.failed(fmt.Sprintf("count the messages in vhost %q", v.vhost), err)
	}
	for _, info := range list {
		if info.Messages != nil {
			if _, known := result[info.Name]; !known {
				result[info.Name] = info.sum()
			}
		}
	}
	for _, q := range queues {
		if _, known := result[q.Name]; known {
			continue
		}
		info, err := v.totalNow(ctx, q, freshTotals)
		if err == nil && info != nil { // what does not exist holds nothing
			err = v.uncountable(q.Name, "the management API does not say how many there are")
		}
		if err != nil {
			return err
		}
	}
	return nil
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
// anew is one.
const streamLag = 11 * time.Second
