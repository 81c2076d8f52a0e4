package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// No single figure of RabbitMQ says that a queue is empty (3.10.8, 4.0.5, 4.3.6; TestNothingIsOverlooked):
//
//   - The number of ready messages is exact at once over AMQP, and nothing but them is in it. But a
//     quorum queue that has no leader, for moments after its node started, says 0: who asks for a
//     message waits for the leader, but for once on a busy machine, so that before a deletion the members
//     that are online count, too (TestQueueWithoutLeader). And that of a stream, as which a queue may
//     have been recreated, is from the statistics, and 1 for some seconds where a new one is empty.
//   - Unacknowledged messages are exact at once for classic queues in the totals of the management
//     API. A quorum queue counts whoever holds one as a consumer, at once over AMQP.
//   - A message that has expired and that nobody has taken over yet (at-least-once, while the
//     dead-letter exchange is missing or routes to nowhere, or the next queue is full) is in no figure but the totals of the
//     management API, which a quorum queue updates every five seconds (quorum_tick_interval).
//   - A message that is on its way from one queue to the next is, for some milliseconds, in none.
//   - All that AMQP says is of another broker, if the URI leads to a copy that has the cluster's name, too (TestBrokersDisagree).
//
// So a topology is looked at several times, and the seconds until the totals are up to date are
// only spent where they could say something.
const (
	// settling is the time between two looks, more than a message takes from queue to queue: what
	// moved unseen during the first waits in a queue by the second. It is more, too, than a message takes into a queue that a
	// channel has routed just before an exchange or a binding was gone.
	settling = 100 * time.Millisecond
	// tick is how old a quorum queue's totals may be, and statistics how old they are where the
	// management API has them only from its database, which is filled every five seconds.
	tick       = 6 * time.Second
	statistics = 11 * time.Second
	// polling is the time between two counts over AMQP while messages wait.
	polling = 250 * time.Millisecond
	// patience is how slow an answer may be: for a quorum queue whose leader does not answer,
	// RabbitMQ says after five seconds that it is empty (stat in rabbit_quorum_queue).
	patience = 3 * time.Second
	// prompt is how much longer than the quickest answer it takes a queue that has not had to wait for a leader. A busy one
	// that takes longer is only asked once more.
	prompt = 20 * time.Millisecond
)

// verifyEmpty fails with a *NotEmptyError unless nothing waits in the queues. It gives up before its time where waiting does
// not help: a message that came just when the entry was closed may be parked (RabbitMQ removes an exchange and its bindings one
// after the other, TestDrain), and the entry would only stay closed for longer.
func (r *Runner) verifyEmpty(ctx context.Context, step topology.VerifyEmpty) error {
	deadline := time.Now().Add(step.Wait)
	for {
		waiting, err := r.waiting(ctx, step.Queues)
		if err != nil || len(waiting) == 0 {
			return err
		}
		if !time.Now().Before(deadline) || anyStays(step.Queues, waiting) {
			return &NotEmptyError{Vhost: r.vhost, Why: step.Why, Queues: waiting}
		}
		if err := r.untilNextLook(ctx, step.Queues, deadline); err != nil {
			return err
		}
	}
}

// anyStays tells whether one of the queues holds messages that neither a time-to-live nor a consumer takes out of it.
func anyStays(queues []topology.Queue, waiting []QueueDepth) bool {
	return slices.ContainsFunc(waiting, func(depth QueueDepth) bool {
		return depth.Consumers == 0 && slices.ContainsFunc(queues, func(q topology.Queue) bool {
			return q.Name == depth.Name && !q.Delays()
		})
	})
}

// untilNextLook waits until it is worth looking at queues that hold messages: until none is ready, or one is where it stays. Without
// AMQP to count with, the totals have to say first that nothing is left, see first.
func (r *Runner) untilNextLook(ctx context.Context, queues []topology.Queue, deadline time.Time) error {
	for r.amqp(ctx) != nil {
		if err := r.pause(ctx, polling); err != nil || !time.Now().Before(deadline) {
			return err
		}
		_, waiting, err := r.count(ctx, queues)
		if err != nil || len(waiting) == 0 || anyStays(queues, waiting) {
			return err
		}
	}
	for {
		if err := r.pause(ctx, min(tick, time.Until(deadline))); err != nil || !time.Now().Before(deadline) {
			return err
		}
		totals, err := r.totals(ctx, queues)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(queues, func(q topology.Queue) bool { return totals[q.Name].messages > 0 }) {
			return nil
		}
	}
}

// waiting are the queues that hold messages. It is empty only if none does for certain.
func (r *Runner) waiting(ctx context.Context, queues []topology.Queue) ([]QueueDepth, error) {
	if covers(r.proof.queues, queues) {
		if r.mustSettle(queues) {
			if err := r.settle(ctx, nil); err != nil {
				return nil, err
			}
		}
		counted, waiting, err := r.count(ctx, queues)
		if err != nil || len(waiting) > 0 || r.proof.holds() && !areConsumed(counted) {
			return waiting, err
		}
	}
	seen, err := r.firstLook(ctx, queues)
	if err != nil {
		return nil, err
	}
	first, between := seen, settling
	for looks := 1; ; looks++ {
		if len(seen.waiting) > 0 {
			return seen.waiting, nil
		}
		hidden, disputed, outdated := judge(queues, seen, seen.began.Sub(first.began))
		if outdated == 0 && len(hidden) > 0 {
			return hidden, nil
		}
		if outdated == 0 && len(disputed) > 0 {
			return disputed, r.disagree(disputed)
		}
		stay := seen.policies.shortestStay(queues)
		if outdated == 0 && (looks > 2 || looks == 2 && twoAreEnough(stay, seen.ended.Sub(first.began))) {
			r.proof = proof{queues: queues, at: seen.began, stay: stay}
			return nil, nil
		}
		// A broker that is slow to answer is slow to move messages, too.
		between = max(between, 4*seen.spent)
		if looks > 1 {
			between = max(between, outdated/(1+outdated/time.Second)) // equal parts, of at most a second each
		}
		if err := r.pause(ctx, time.Until(seen.ended.Add(between))); err != nil {
			return nil, err
		}
		between = max(between, time.Since(seen.ended))
		if seen, err = r.look(ctx, queues, seen); err != nil {
			return nil, err
		}
	}
}

// mustSettle tells whether what is on its way into one of the queues has to be there before they are looked at. The deletion of a queue waits
// for that itself. But before, while exchanges go, a queue can lose what leaves it.
func (r *Runner) mustSettle(queues []topology.Queue) bool {
	losesSome := func(q topology.Queue) bool { return q.Delays() && !q.AtLeastOnce() }
	return r.looksLater() && slices.ContainsFunc(queues, losesSome)
}

// looksLater tells whether a later phase verifies that queues are empty.
func (r *Runner) looksLater() bool {
	return slices.ContainsFunc(r.next.Steps(), func(step topology.Step) bool { return !changes(step) })
}

// changes tells a step from one that only looks.
func changes(step topology.Step) bool {
	switch step.(type) {
	case topology.VerifyEmpty, topology.VerifyAlone:
		return false
	}
	return true
}

// settle waits until what the sources had routed when they were closed is in the queues. Where sources is nil, all that were closed are meant.
func (r *Runner) settle(ctx context.Context, sources []string) error {
	var last time.Time
	for source, at := range r.closed {
		if (sources == nil || slices.Contains(sources, source)) && at.After(last) {
			last = at
		}
	}
	return r.pause(ctx, time.Until(last.Add(settling)))
}

// noteClosed notes which exchanges no longer lead anywhere, or not to all that they did.
func (r *Runner) noteClosed(steps []topology.Step) {
	for _, step := range steps {
		switch s := step.(type) {
		case topology.DeleteExchange:
			r.closed[s.Name] = time.Now()
		case topology.Unbind:
			r.closed[s.Binding.Source] = time.Now()
		}
	}
}

// twoAreEnough tells whether every message stays in a queue for longer than both looks took, so that it cannot have left one
// again in which it arrived unseen. Otherwise it takes a third: time-to-live falls from queue to queue, so what is then left of its way
// is shorter than the time between two looks, which does not fall, and the third finds it at the end.
func twoAreEnough(stay, took time.Duration) bool { return took+settling < stay }

// sight is what a look has shown.
type sight struct {
	began time.Time
	// spent is how long the queues took to say how much is ready in them, and ended when they had.
	spent    time.Duration
	ended    time.Time
	waiting  []QueueDepth
	counted  map[string]QueueDepth
	totals   map[string]total
	keep     map[string]bool // the queues that may keep what has expired
	policies policies
	filled   *sync.Map
}

// learn adds to a first look, after it and so in the pause before the next, which policies there are, and what becomes of messages that have
// expired.
func (r *Runner) learn(ctx context.Context, queues []topology.Queue, seen *sight, known map[string][]topology.Binding) error {
	if len(seen.waiting) > 0 {
		return nil
	}
	v, err := r.surroundings(ctx, queues)
	if err == nil {
		seen.policies = v.policies
		seen.keep, err = r.keepExpired(ctx, v, queues, known)
	}
	return err
}

// look finds out at the same time what the queues say and what the management API says. Each look but the first, which is given the
// one before, asks those that seem to be empty for a message, too, and the management API only for what it alone knows.
func (r *Runner) look(ctx context.Context, queues []topology.Queue, before *sight) (*sight, error) {
	seen := &sight{began: time.Now(), filled: &r.filled}
	totaled := queues
	if before != nil {
		seen.keep, seen.policies = before.keep, before.policies
		totaled = slices.DeleteFunc(slices.Clone(queues), func(q topology.Queue) bool { return !before.needsTotal(q) })
	}
	group, together := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if session := r.amqp(ctx); session != nil {
			session.openChannels(together, len(queues)) // a look that has to do that says little of how fast the broker is
		}
		started := time.Now()
		seen.counted, seen.waiting, err = r.count(together, queues)
		seen.ended = time.Now()
		seen.spent = seen.ended.Sub(started)
		if err == nil && len(seen.waiting) == 0 && before != nil {
			seen.waiting, err = r.held(together, queues)
		}
		return err
	})
	group.Go(func() (err error) {
		seen.totals, err = r.totals(together, totaled)
		return err
	})
	return seen, group.Wait()
}

// needsTotal tells whether a queue may hold messages that only its total shows, or has shown. What has been ready in it by AMQP, too, and is so no
// longer, has left it, and its total is old.
func (s *sight) needsTotal(q topology.Queue) bool {
	t := s.totals[q.Name]
	_, filled := s.filled.Load(q.Name)
	return q.Type() != "quorum" || s.keep[q.Name] || s.counted[q.Name].Consumers > 0 || t.messages > t.ready || t.ready > 0 && !filled
}

// judge lists the queues that hold messages though nothing is ready in them, and those in which something is ready by the totals alone, and
// tells how much fresher these have to be so that there can be no others. Since is the time from the first look to the moment in which
// the totals were asked for.
func judge(queues []topology.Queue, seen *sight, since time.Duration) (hidden, disputed []QueueDepth, outdated time.Duration) {
	for _, q := range queues {
		if !seen.needsTotal(q) {
			continue
		}
		t, asked := seen.totals[q.Name]
		if !asked {
			t.age = tick // somebody has begun to consume
		}
		depth := QueueDepth{Name: q.Name, Consumers: seen.counted[q.Name].Consumers}
		switch {
		case q.Type() == "stream":
			depth.Messages = t.messages // count leaves what is ready to the statistics
		case t.messages > t.ready:
			depth.Messages = t.messages - t.ready
			depth.Overdue = seen.keep[q.Name] && depth.Consumers == 0
		case t.ready > 0 && since < max(t.age, tick):
			outdated = max(outdated, 1) // it left the queue just now, and may be with whoever took it
		case t.ready > 0:
			disputed = append(disputed, QueueDepth{Name: q.Name, Messages: t.ready, Consumers: depth.Consumers})
		}
		if depth.Messages > 0 {
			hidden = append(hidden, depth)
		}
		outdated = max(outdated, t.age-since)
	}
	return hidden, disputed, outdated
}

// disagree fails if messages are ready by the totals alone, unless there is no AMQP, where nobody else was asked.
func (r *Runner) disagree(disputed []QueueDepth) error {
	if len(disputed) == 0 || r.open() == nil {
		return nil
	}
	q := disputed[0]
	return &Error{Unavailable, fmt.Sprintf("count the messages of queue %q in vhost %q", q.Name, r.vhost),
		fmt.Sprintf("the management API says that %d are ready, and AMQP that none is", q.Messages),
		"nothing is deleted while it is not certain that it is empty; make sure that both reach the same broker: amqp_uri says where AMQP is spoken; " +
			"if they do, messages pass through the queue: try again when none do"}
}

func (r *Runner) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return r.failed("wait for queues to run empty", ctx.Err())
	}
}

// deleteQueue deletes a queue. Quorum queues refuse if-empty (3.10 to 4.3), so they are looked
// into immediately before each attempt, and have to have a leader that can tell (TestQueueWithoutLeader).
func (r *Runner) deleteQueue(ctx context.Context, step topology.DeleteQueue) (bool, error) {
	call := r.newCall(ctx)
	options := rabbithole.QueueDeleteOptions{}
	var unsure error
	switch {
	case step.IfEmpty && step.Queue.Type() == "classic":
		if err := r.settle(ctx, step.Sources); err != nil {
			return false, err
		}
		options.IfEmpty = true
	case step.IfEmpty:
		call.makeSure = func() error {
			depth, err := r.leftNow(ctx, step.Queue, step.Sources)
			if err == nil && depth.Messages > 0 {
				err = r.notEmpty(step, depth)
			}
			unsure = err
			return err
		}
		if err := call.makeSure(); err != nil {
			return false, err
		}
	}
	code, err := status(r.management(call).DeleteQueue(r.vhost, step.Queue.Name, options))
	if unsure != nil {
		return call.sent.Load(), unsure
	}
	var refused *refusal
	if errors.As(err, &refused) && options.IfEmpty && refused.status == http.StatusBadRequest && notEmptyReason.MatchString(refused.reason) {
		depth, countErr := r.ready(ctx, step.Queue)
		if countErr != nil {
			return false, r.failed(fmt.Sprintf("%s in vhost %q", step, r.vhost), err)
		}
		return false, r.notEmpty(step, depth)
	}
	return r.effect(ctx, step, call, code, err)
}

func (r *Runner) notEmpty(step topology.Step, depth QueueDepth) error {
	return &NotEmptyError{Vhost: r.vhost, Why: step.String(), Queues: []QueueDepth{depth}}
}
