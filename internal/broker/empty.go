package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
//     dead-letter exchange is missing or routes to nowhere) is in no figure but the totals of the
//     management API, which a quorum queue updates every five seconds (quorum_tick_interval).
//   - A message that is on its way from one queue to the next is, for some milliseconds, in none.
//
// So a topology is looked at several times, and the seconds until the totals are up to date are
// only spent where they could say something.
const (
	// settling is the time between two looks, more than a message takes from queue to queue: what
	// moved unseen during the first waits in a queue by the second.
	settling = 100 * time.Millisecond
	// tick is how old a quorum queue's totals may be, and statistics how old they are where the
	// management API has them only from its database, which is filled every five seconds.
	tick       = 6 * time.Second
	statistics = 11 * time.Second
	// polling is the time between two looks over AMQP while messages wait.
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

// untilNextLook waits until it is worth looking at queues that hold messages. Without AMQP each look gets a message
// and puts it back, and what is got for the 20th time leaves a quorum queue of RabbitMQ 4.0: so there the totals
// have to say first that nothing is left.
func (r *Runner) untilNextLook(ctx context.Context, queues []topology.Queue, deadline time.Time) error {
	if r.amqp(ctx) != nil {
		return r.pause(ctx, polling)
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
		_, waiting, err := r.count(ctx, queues)
		if err != nil || len(waiting) > 0 || r.proof.holds(queues) {
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
		hidden, outdated := judge(queues, seen, first.arrives, seen.began.Sub(first.began))
		if outdated == 0 && len(hidden) > 0 {
			return hidden, nil
		}
		if outdated == 0 && (looks > 2 || looks == 2 && twoAreEnough(queues, seen.ended.Sub(first.began))) {
			r.proof = proof{queues: queues, at: seen.began}
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
		if seen, err = r.look(ctx, queues, looks+1); err != nil {
			return nil, err
		}
	}
}

// twoAreEnough tells whether every message stays in a queue for longer than both looks took, so that it cannot have left one
// again in which it arrived unseen. Otherwise it takes a third: time-to-live falls from queue to queue, so what is then left of its way
// is shorter than the time between two looks, which does not fall, and the third finds it at the end.
func twoAreEnough(queues []topology.Queue, took time.Duration) bool {
	return took+settling < shortestTTL(queues)
}

// sight is what a look has shown.
type sight struct {
	began time.Time
	// spent is how long the queues took to say how much is ready in them, and ended when they had.
	spent   time.Duration
	ended   time.Time
	waiting []QueueDepth
	counted map[string]QueueDepth
	totals  map[string]total
	arrives map[string]bool // from the first look only
}

// look finds out at the same time what the queues say, what the management API says, and with the first look what becomes of
// messages that have expired. Each look but the first asks those that seem to be empty for a message, too.
func (r *Runner) look(ctx context.Context, queues []topology.Queue, number int) (*sight, error) {
	seen := &sight{began: time.Now()}
	group, together := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if session := r.amqp(ctx); session != nil {
			session.openChannels(together, len(queues)) // a look that has to do that says little of how fast the broker is
		}
		started := time.Now()
		seen.counted, seen.waiting, err = r.count(together, queues)
		seen.ended = time.Now()
		seen.spent = seen.ended.Sub(started)
		if err == nil && len(seen.waiting) == 0 && number > 1 {
			seen.waiting, err = r.held(together, queues)
		}
		return err
	})
	group.Go(func() (err error) {
		seen.totals, err = r.totals(together, queues)
		return err
	})
	if number == 1 {
		group.Go(func() (err error) {
			seen.arrives, err = r.deadLettersArrive(together, queues)
			return err
		})
	}
	return seen, group.Wait()
}

// judge lists the queues that hold messages though nothing is ready in them, and tells how much fresher the totals have to be
// so that there can be no others. Since is the time from the first look to the moment in which the totals were asked for.
func judge(queues []topology.Queue, seen *sight, arrives map[string]bool, since time.Duration) (hidden []QueueDepth, outdated time.Duration) {
	for _, q := range queues {
		t, consumers := seen.totals[q.Name], seen.counted[q.Name].Consumers
		stuck := q.AtLeastOnce() && !arrives[q.DeadLetterExchange()]
		unacknowledged := consumers > 0 && q.Type() != "classic"
		stream := q.Type() == "stream"
		if stream {
			t.ready = 0 // count leaves them to the statistics
		}
		switch {
		case t.messages > t.ready:
			hidden = append(hidden, QueueDepth{Name: q.Name, Messages: t.messages - t.ready, Consumers: consumers})
		case t.age == 0 && t.ready > 0:
			outdated = max(outdated, 1) // it left the queue just now, and may be with whoever took it
		case !stuck && !unacknowledged && !stream:
			continue // there is nothing that the totals could add
		}
		outdated = max(outdated, t.age-since)
	}
	return hidden, outdated
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

// deadLettersArrive tells of which dead-letter exchanges it is certain that they route every
// message: those with an alternate exchange that is a fanout with a queue bound to it.
func (r *Runner) deadLettersArrive(ctx context.Context, queues []topology.Queue) (map[string]bool, error) {
	wanted := map[string]bool{}
	for _, q := range queues {
		if q.AtLeastOnce() {
			wanted[q.DeadLetterExchange()] = false
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	var list []exchangeInfo
	if err := r.get(ctx, &list, exchangeColumns, "exchanges", r.vhost); err != nil {
		return nil, r.failed(fmt.Sprintf("list the exchanges of vhost %q", r.vhost), err)
	}
	exchanges := map[string]topology.Exchange{}
	for _, e := range list {
		exchanges[e.Name] = e.exchange()
	}
	collects := map[string]bool{}
	for name := range wanted {
		e, exists := exchanges[name]
		alternate := exchanges[e.AlternateExchange()]
		if !exists || alternate.Type != "fanout" {
			continue
		}
		if _, known := collects[alternate.Name]; !known {
			bindings, err := r.bindingsFrom(ctx, r.vhost, alternate.Name)
			if err != nil {
				return nil, err
			}
			collects[alternate.Name] = slices.ContainsFunc(bindings, func(b topology.Binding) bool { return b.DestinationType == topology.ToQueue })
		}
		wanted[name] = collects[alternate.Name]
	}
	return wanted, nil
}

// deleteQueue deletes a queue. Quorum queues refuse if-empty (3.10 to 4.3), so they are looked
// into immediately before each attempt, and have to have a leader that can tell (TestQueueWithoutLeader).
func (r *Runner) deleteQueue(ctx context.Context, step topology.DeleteQueue) (bool, error) {
	call := r.newCall(ctx)
	options := rabbithole.QueueDeleteOptions{}
	var unsure error
	switch {
	case step.IfEmpty && step.Queue.Type() == "classic":
		options.IfEmpty = true
	case step.IfEmpty:
		call.makeSure = func() error {
			depth, err := r.readyNow(ctx, step.Queue)
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
