package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/emptiness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// inspector finds out whether queues are empty, and deletes those that are. What the answers prove is decided by
// internal/emptiness.
type inspector struct {
	session
	proven emptiness.Proven
	// closed is when exchanges were last deleted or unbound, by their names.
	closed map[string]time.Time
	// hasStatistics is set once RabbitMQ is known to collect statistics.
	hasStatistics atomic.Bool
}

// verifyEmpty fails with a *NotEmptyError unless nothing waits in the queues. It gives up before its time where waiting
// does not help. A message that came just when the entry was closed may be parked, and the entry would only stay closed
// for longer. RabbitMQ removes an exchange and its bindings one after the other (TestDrain).
func (i *inspector) verifyEmpty(ctx context.Context, step plans.VerifyEmpty) error {
	deadline := time.Now().Add(step.Wait)
	for {
		waiting, err := i.holding(ctx, step)
		if err != nil || len(waiting) == 0 {
			return err
		}
		if !time.Now().Before(deadline) || anyStays(step.Queues, waiting) {
			return &NotEmptyError{Vhost: i.vhost, Why: step.Why, Queues: waiting}
		}
		if err := i.untilNextLook(ctx, step.Queues, deadline); err != nil {
			return err
		}
	}
}

// anyStays tells whether one of the queues holds messages that neither a TTL nor a consumer takes out of it.
func anyStays(queues []topology.Queue, waiting []QueueDepth) bool {
	return slices.ContainsFunc(waiting, func(depth QueueDepth) bool {
		return depth.Consumers == 0 && slices.ContainsFunc(queues, func(q topology.Queue) bool {
			return q.Name == depth.Name && !q.Delays()
		})
	})
}

// untilNextLook waits until it is worth looking at queues that hold messages: until none is ready, or one is where it
// stays.
func (i *inspector) untilNextLook(ctx context.Context, queues []topology.Queue, deadline time.Time) error {
	for {
		if err := i.pause(ctx, polling); err != nil || !time.Now().Before(deadline) {
			return err
		}
		ready, err := i.ready(ctx, queues)
		if err != nil {
			return err
		}
		waiting := slices.DeleteFunc(ready, func(d QueueDepth) bool { return d.Messages == 0 })
		if len(waiting) == 0 || anyStays(queues, waiting) {
			return nil
		}
	}
}

// holding are the queues that hold messages. It is empty only if none does for certain. The first branch renews an
// earlier proof, for less than a new one takes.
func (i *inspector) holding(ctx context.Context, step plans.VerifyEmpty) ([]QueueDepth, error) {
	if i.proven.HoldsAt(time.Now(), step.Queues) && i.amqp(ctx) != nil {
		began := time.Now()
		ready, err := i.ready(ctx, step.Queues)
		if err != nil {
			return nil, err
		}
		came := slices.ContainsFunc(ready, func(d QueueDepth) bool { return d.Messages > 0 || d.Consumers > 0 })
		// Where AMQP has ended meanwhile, the counts are old ones of the management API.
		if !came && i.openConn() != nil && i.proven.HoldsAt(time.Now(), step.Queues) {
			i.proven = i.proven.Renewed(step.Queues, began)
			return nil, nil
		}
	}
	waiting, proven, err := i.prove(ctx, step.Queues, emptiness.Proof{Glance: step.Glance, Still: step.Still})
	if proven != nil {
		i.proven = *proven
	}
	return waiting, err
}

// prove looks at the queues until the looks prove that they are empty, or that messages wait in some. What that takes
// is decided by emptiness.Proof. Proven is nil unless they are empty, and were not just glanced at.
func (i *inspector) prove(
	ctx context.Context, queues []topology.Queue, of emptiness.Proof,
) (waiting []QueueDepth, proven *emptiness.Proven, err error) {
	of.Began = time.Now()
	seen, err := i.observe(ctx, queues)
	if err != nil {
		return nil, nil, err
	}
	of.Queues = seen.known
	var verdict emptiness.Verdict
	for {
		if err := seen.count(ctx, verdict.Lacks); errors.Is(err, errNoAMQP) {
			return i.prove(ctx, queues, of) // without AMQP it takes other counts
		} else if err != nil {
			return nil, nil, i.notCounted(ctx, verdict, err)
		}
		verdict = of.Judge(seen.counts)
		switch {
		case len(verdict.Waiting) > 0:
			return seen.depths(verdict.Waiting), nil, nil
		case len(verdict.Disputed) > 0:
			return nil, nil, i.disagree(verdict.Disputed[0])
		case verdict.Empty && of.Glance:
			return nil, nil, nil
		case verdict.Empty:
			proven := of.Proven(queues, verdict)
			return nil, &proven, nil
		}
		if err := i.needStatistics(ctx, verdict.Uncounted()); err != nil {
			return nil, nil, err
		}
		if err := i.pause(ctx, verdict.Pause); err != nil {
			return nil, nil, i.notCounted(ctx, verdict, err)
		}
	}
}

// disagree is for a queue in which messages are ready by the management API, and none is by AMQP.
func (i *inspector) disagree(count emptiness.Count) error {
	return &Error{Unavailable, i.counting(count.Queue),
		fmt.Sprintf("the management API says that %d are ready, and AMQP that none is", count.ReadyOfAll),
		"nothing is deleted while it is not certain that the queue is empty. Make sure that both reach the same " +
			"broker: amqp_uri is the address for AMQP. If they do, messages pass through the queue: try again when " +
			"none do"}
}

// notCounted is for a wait that ended before RabbitMQ had counted all queues.
func (i *inspector) notCounted(ctx context.Context, verdict emptiness.Verdict, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	for _, queue := range verdict.Uncounted() {
		return &Error{Unavailable, i.counting(queue), "RabbitMQ has not counted them since the way into the queue " +
			"was closed",
			"a quorum queue counts itself at intervals (quorum_tick_interval, five seconds by default). The " +
				"management API takes over the count at others (collect_statistics_interval). Nothing is " +
				"deleted before that: give timeouts more time than both, or look at the queue's state. " + halfDone}
	}
	return err
}

// note notes which exchanges no longer lead anywhere, or not to all that they did, and of which queues nothing is known
// any more.
func (i *inspector) note(steps []plans.Step) {
	changed := map[string]bool{}
	for _, step := range steps {
		switch s := step.(type) {
		case plans.DeclareQueue:
			changed[s.Queue.Name] = true
		case plans.DeleteQueue:
			changed[s.Queue.Name] = true
		case plans.DeleteExchange:
			i.closed[s.Name] = time.Now()
		case plans.Unbind:
			i.closed[s.Binding.Source] = time.Now()
		}
	}
	i.proven = i.proven.Without(changed)
}

// closedAt is when the last of the sources was closed. Where sources is nil, all that were closed are meant.
func (i *inspector) closedAt(sources []string) time.Time {
	var last time.Time
	for source, at := range i.closed {
		if (sources == nil || slices.Contains(sources, source)) && at.After(last) {
			last = at
		}
	}
	return last
}

// settle waits until what the sources had routed when they were closed is in the queues.
func (i *inspector) settle(ctx context.Context, sources []string) error {
	return i.pause(ctx, time.Until(i.closedAt(sources).Add(emptiness.Settling)))
}

// deleteQueue deletes a queue. Quorum queues refuse if-empty (3.10 to 4.3), so they are looked
// into immediately before each attempt.
func (i *inspector) deleteQueue(ctx context.Context, step plans.DeleteQueue) (bool, error) {
	call := i.newCall(ctx)
	options := rabbithole.QueueDeleteOptions{}
	var unsure error
	switch {
	case step.IfEmpty && step.Queue.Type() == "classic":
		if err := i.settle(ctx, step.Sources); err != nil {
			return false, err
		}
		options.IfEmpty = true
	case step.IfEmpty:
		call.makeSure = func() error {
			waiting, err := i.left(ctx, step)
			if err == nil && len(waiting) > 0 {
				err = &NotEmptyError{Vhost: i.vhost, Why: step.String(), Queues: waiting}
			}
			unsure = err
			return err
		}
		if err := call.makeSure(); err != nil {
			return false, err
		}
	}
	code, err := status(i.management(call).DeleteQueue(i.vhost, step.Queue.Name, options))
	if unsure != nil {
		return call.sent.Load(), unsure
	}
	if refused, is := errors.AsType[*refusal](err); is && options.IfEmpty && refused.status == http.StatusBadRequest &&
		notEmptyReason.MatchString(refused.reason) {
		depths, countErr := i.ready(ctx, []topology.Queue{step.Queue})
		if countErr != nil {
			return false, i.failed(fmt.Sprintf("%s in vhost %q", step, i.vhost), err)
		}
		return false, &NotEmptyError{Vhost: i.vhost, Why: step.String(), Queues: depths}
	}
	return i.effect(ctx, step, call, code, err)
}

// left counts what a queue holds immediately before it is deleted. A proof from after its ways in were closed leaves
// only publishers who name the queue: no message is ready in it, then. Without such a proof there has to be one. What
// such a publisher has a queue delay by itself, since the tick of the proof, nobody can see.
func (i *inspector) left(ctx context.Context, step plans.DeleteQueue) ([]QueueDepth, error) {
	if err := i.settle(ctx, step.Sources); err != nil {
		return nil, err
	}
	if i.proven.Covers(step.Queue, i.closedAt(step.Sources)) {
		empty, err := i.isStillEmpty(ctx, step.Queue)
		if err != nil || empty {
			return nil, err
		}
	}
	waiting, _, err := i.prove(ctx, []topology.Queue{step.Queue}, emptiness.Proof{Still: true})
	return waiting, err
}

// isStillEmpty tells whether a queue that was empty has got no message since. The last to be asked is its leader.
func (i *inspector) isStillEmpty(ctx context.Context, q topology.Queue) (bool, error) {
	totals, err := i.totals(ctx, []topology.Queue{q})
	if err != nil {
		return false, err
	}
	t := totals[q.Name]
	ready, err := i.overSession(ctx, q, (*amqpConn).depth)
	if errors.Is(err, errNoAMQP) {
		return t.messages == 0, nil
	}
	_, filled := i.filled.Load(q.Name)
	isEmpty := t.messages == 0 || filled && t.messages == t.ready // which have left it by now
	if err != nil || !isEmpty || ready.Messages+ready.Consumers > 0 || i.proven.Hides(q.Name) {
		return isEmpty && ready.Messages+ready.Consumers == 0, err
	}
	if ready, err = i.leader(ctx, q); errors.Is(err, errNoAMQP) {
		return t.messages == 0, nil
	}
	return ready.Messages == 0, err
}
