package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// count counts the messages that are ready, and lists the queues that have any, but for streams, whose count may
// be wrong at first.
func (r *Runner) count(ctx context.Context, queues []topology.Queue) (counted map[string]QueueDepth, waiting []QueueDepth, err error) {
	depths, err := each(ctx, queues, r.ready)
	if err != nil {
		return nil, nil, err
	}
	counted = map[string]QueueDepth{}
	for i, depth := range depths {
		counted[depth.Name] = depth
		if depth.Messages > 0 && r.open() != nil {
			r.filled.Store(depth.Name, true)
		}
		if depth.Messages > 0 && queues[i].Type() != "stream" {
			waiting = append(waiting, depth)
		}
	}
	return counted, waiting, nil
}

// held are the quorum queues that hold messages although they count none.
func (r *Runner) held(ctx context.Context, queues []topology.Queue) ([]QueueDepth, error) {
	depths, err := each(ctx, queues, r.peek)
	return slices.DeleteFunc(depths, func(depth QueueDepth) bool { return depth.Messages == 0 }), err
}

// each asks for all at the same time, and begins with them in their order.
func each[Q, A any](ctx context.Context, all []Q, ask func(context.Context, Q) (A, error)) ([]A, error) {
	answers := make([]A, len(all))
	group, ctx := errgroup.WithContext(ctx)
	for i, one := range all {
		group.Go(func() (err error) {
			answers[i], err = ask(ctx, one)
			return err
		})
	}
	return answers, group.Wait()
}

// ready counts the messages of a queue that are ready.
func (r *Runner) ready(ctx context.Context, q topology.Queue) (QueueDepth, error) {
	return r.ask(ctx, q, (*amqpSession).count)
}

// ask asks a queue over AMQP, or where there is no AMQP, through the management API. A queue that does not exist holds nothing.
func (r *Runner) ask(ctx context.Context, q topology.Queue, question func(*amqpSession, context.Context, string) (QueueDepth, bool, error)) (QueueDepth, error) {
	session := r.amqp(ctx)
	if session == nil {
		return r.first(ctx, q)
	}
	began := time.Now()
	depth, exists, err := question(session, ctx, q.Name)
	switch {
	case ctx.Err() != nil:
		return depth, r.failed(fmt.Sprintf("count the messages of queue %q in vhost %q", q.Name, r.vhost), ctx.Err())
	case err != nil:
		r.abandon(ctx, session, err)
		return r.first(ctx, q)
	case time.Since(began) > patience:
		return depth, r.uncountable(q.Name, "it took too long to answer")
	case !exists:
		// That is also the answer for a queue on a node that is down.
		_, known, err := r.queue(ctx, r.vhost, q.Name)
		if err == nil && known {
			err = r.uncountable(q.Name, "it exists, but is not available")
		}
		return QueueDepth{Name: q.Name}, err
	}
	return depth, nil
}

// peek asks a quorum queue for a message, which only its leader has, and puts it back. If there seems to have been
// no leader a moment ago, it asks again, for two reasons: what somebody had got from the one before is back
// then; and a queue that is deleted in the first millisecond of its leader can cost the node its at-least-once
// dead-lettering, for good (3.10.8; issue 16652 of RabbitMQ).
func (r *Runner) peek(ctx context.Context, q topology.Queue) (QueueDepth, error) {
	if q.Type() != "quorum" {
		return QueueDepth{Name: q.Name}, nil // what ready counts is exact
	}
	began := time.Now()
	depth, err := r.ask(ctx, q, (*amqpSession).peek)
	if err != nil || depth.Messages > 0 {
		return depth, err
	}
	if session := r.amqp(ctx); session != nil && session.isPrompt(time.Since(began)) {
		return depth, nil
	}
	if err := r.pause(ctx, settling); err != nil {
		return depth, err
	}
	return r.ask(ctx, q, (*amqpSession).peek)
}

func (r *Runner) uncountable(queue, why string) error {
	return &Error{Unavailable, fmt.Sprintf("count the messages of queue %q in vhost %q", queue, r.vhost), why,
		"nothing is deleted while it is not certain that it is empty; look at the state of the queue and of the nodes that hold it; " + halfDone}
}

// halfDone is what RabbitMQ makes of a declaration or deletion whose client or connection ends in the middle of it
// (3.10.8), and keeps over a restart.
const halfDone = "if a request to declare or to delete it was cut off before, the queue has no replicas and holds nothing: delete it with rabbitmqctl delete_queue"

// first looks at the first message of a queue and puts it back. It says how many are behind it. But what is got and put back for the 20th
// time leaves a quorum queue of RabbitMQ 4.0: so a message is only got where the total does not show one. That is old at worst, which
// refuses too much.
// Consumers are as old as the statistics.
func (r *Runner) first(ctx context.Context, from topology.Queue) (QueueDepth, error) {
	queue := from.Name
	q, exists, err := r.queue(ctx, r.vhost, queue)
	if err == nil && !exists {
		err = r.confirm(ctx, r.vhost)
	}
	if err != nil || !exists {
		return QueueDepth{Name: queue}, err
	}
	depth := QueueDepth{Name: queue, Consumers: q.Consumers.value}
	if from.Type() == "quorum" {
		if t, err := r.total(ctx, from); err != nil || t.ready > 0 {
			depth.Messages = t.ready
			return depth, err
		}
	}
	call := r.newCall(ctx)
	call.once = true // a quorum queue counts deliveries
	var messages []struct {
		Behind int64 `json:"message_count"`
	}
	_, err = r.request(call, http.MethodPost, apiPath("queues", r.vhost, queue, "get"),
		map[string]any{"count": 1, "ackmode": "ack_requeue_true", "encoding": "base64", "truncate": 1}, &messages)
	if err != nil {
		err = withHint(r.failed(fmt.Sprintf("look into queue %q in vhost %q", queue, r.vhost), err), takes(fmt.Sprintf("read on queue %q", queue)))
		var failure *Error
		if errors.As(err, &failure) && (failure.Kind == NotFound || failure.Kind == Refused) {
			err = r.uncountable(queue, failure.Reason) // it has a record, and nobody who serves it
		}
		return depth, err
	}
	if len(messages) > 0 {
		depth.Messages = messages[0].Behind + 1
	}
	return depth, nil
}

// readyNow counts the messages of a queue that are ready, and fails if there is nobody to know that. A get alone is not enough: that
// of a queue without a leader found nothing once, on a busy machine, where a message was (3.10.8, TestQueueWithoutLeader).
func (r *Runner) readyNow(ctx context.Context, q topology.Queue) (QueueDepth, error) {
	depth, _, err := r.readyAndTotal(ctx, q, []string{})
	if err != nil || depth.Messages > 0 {
		return depth, err
	}
	return r.peek(ctx, q)
}

// leftNow counts what a queue holds that was found to be empty, when what its sources had routed is there: that takes the time until the total
// is up to date only if it says something else.
func (r *Runner) leftNow(ctx context.Context, q topology.Queue, sources []string) (QueueDepth, error) {
	for began := time.Now(); ; {
		asked := time.Now()
		depth, t, err := r.readyAndTotal(ctx, q, sources)
		if err != nil || depth.Messages > 0 {
			return depth, err
		}
		if t == nil || t.messages == 0 {
			return r.peek(ctx, q)
		}
		seen := &sight{counted: map[string]QueueDepth{q.Name: depth}, totals: map[string]total{q.Name: *t}, filled: &r.filled}
		hidden, disputed, outdated := judge([]topology.Queue{q}, seen, asked.Sub(began))
		if outdated == 0 {
			if left := slices.Concat(hidden, disputed); len(left) > 0 {
				return left[0], r.disagree(disputed)
			}
			return r.peek(ctx, q)
		}
		if err := r.pause(ctx, polling); err != nil {
			return depth, err
		}
	}
}

// readyAndTotal asks the queue, once it has settled, see settle, and the management API at the same time.
func (r *Runner) readyAndTotal(ctx context.Context, q topology.Queue, sources []string) (depth QueueDepth, t *total, err error) {
	group, together := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		t, err = r.total(together, q)
		return err
	})
	group.Go(func() (err error) {
		if err = r.settle(together, sources); err == nil {
			depth, err = r.ready(together, q)
		}
		return err
	})
	return depth, t, group.Wait()
}

// total is what the management API says of a queue.
type total struct {
	messages, ready int64
	// age is how old that may be.
	age time.Duration
}

// totalInfo are the fields of a queue that are needed for that.
type totalInfo struct {
	Name     string          `json:"name"`
	Messages *loose[int64]   `json:"messages"`
	Ready    loose[int64]    `json:"messages_ready"`
	Members  loose[[]string] `json:"members"`
	Online   loose[[]string] `json:"online"`
}

const (
	totalColumns = "name,messages,messages_ready,members,online"
	freshTotals  = "?disable_stats=true&enable_queue_totals=true&columns=" + totalColumns
)

// totals asks the management API for all that the queues hold.
func (r *Runner) totals(ctx context.Context, queues []topology.Queue) (map[string]total, error) {
	answers, err := each(ctx, queues, r.total)
	if err != nil {
		return nil, err
	}
	result := map[string]total{}
	unknown := false
	for i, q := range queues {
		if answers[i] != nil {
			result[q.Name] = *answers[i]
		} else {
			unknown = true
		}
	}
	if unknown {
		return result, r.listTotals(ctx, queues, result)
	}
	return result, nil
}

// total is nil for a classic queue of a broker that gives no fresh totals of single queues (3.10.8
// does not, 4.0.5 does).
func (r *Runner) total(ctx context.Context, q topology.Queue) (*total, error) {
	info, err := r.totalInfo(ctx, q, freshTotals)
	if err != nil || info == nil {
		return &total{}, err
	}
	age := tick
	if info.Messages == nil {
		if q.Type() == "classic" {
			return nil, nil
		}
		if info, err = r.totalInfo(ctx, q, "?columns="+totalColumns); err != nil || info == nil {
			return &total{}, err
		}
		age = statistics
	}
	if q.Type() == "classic" {
		age = 0
	}
	if info.Messages == nil { // a queue that has just been declared
		return &total{age: age}, nil
	}
	return &total{messages: info.Messages.value, ready: info.Ready.value, age: age}, nil
}

// totalInfo waits for a queue to have most of its members online: one that was declared just now may have
// none, on a busy node for moments (4.3.6), and a stream until there are statistics of it (3.10.8).
func (r *Runner) totalInfo(ctx context.Context, q topology.Queue, query string) (*totalInfo, error) {
	for deadline := time.Now().Add(statistics); ; {
		var info totalInfo
		_, err := r.request(r.newCall(ctx), http.MethodGet, apiPath("queues", r.vhost, q.Name)+query, nil, &info)
		if isNotFound(err) {
			return nil, r.confirm(ctx, r.vhost)
		}
		if err != nil {
			return nil, r.failed(fmt.Sprintf("count the messages of queue %q in vhost %q", q.Name, r.vhost), err)
		}
		members, online := len(info.Members.value), len(info.Online.value)
		if members == 0 || 2*online > members {
			return &info, nil
		}
		if time.Now().After(deadline) {
			// RabbitMQ says of such a queue that nothing is ready (stat in rabbit_quorum_queue).
			return nil, r.uncountable(q.Name, fmt.Sprintf("only %d of its %d members are online", online, members))
		}
		if err := r.pause(ctx, polling); err != nil {
			return nil, err
		}
	}
}

// listTotals adds the classic queues that are not in the result yet. It is a list of the whole
// vhost, because an older broker gives exact figures of classic queues nowhere else.
func (r *Runner) listTotals(ctx context.Context, queues []topology.Queue, result map[string]total) error {
	var list []totalInfo
	if _, err := r.request(r.newCall(ctx), http.MethodGet, apiPath("queues", r.vhost)+freshTotals, nil, &list); err != nil {
		return r.failed(fmt.Sprintf("count the messages in vhost %q", r.vhost), err)
	}
	for _, info := range list {
		if info.Messages != nil {
			if _, known := result[info.Name]; !known {
				result[info.Name] = total{messages: info.Messages.value, ready: info.Ready.value}
			}
		}
	}
	for _, q := range queues {
		if _, known := result[q.Name]; !known {
			return r.uncountable(q.Name, "the management API does not say how many there are")
		}
	}
	return nil
}
