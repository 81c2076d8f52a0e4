package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
)

// Run runs a plan, see [Runner.Run].
func (c *Client) Run(ctx context.Context, vhost string, plan plans.Plan) (done []plans.Step, err error) {
	r := c.Begin(vhost)
	defer r.Close()
	return r.Run(ctx, plan)
}

// Runner runs plans in one vhost, all over one AMQP connection where they need one. It is an inspector, which has the
// session and, by that, the vhostAPI.
type Runner struct{ inspector }

// Begin is for several plans.
func (c *Client) Begin(vhost string) *Runner {
	r := &Runner{}
	r.vhostAPI, r.closed = vhostAPI{c, vhost}, map[string]time.Time{}
	return r
}

// Run runs the phases of the plan one after the other, and the steps of a phase at the same time.
// If a step fails, those that run are finished, no other begins, and the phase's undo runs.
//
// Done are the steps that had an effect, or may have had one because the answer got lost. That is
// so with an error, too, unless all has been undone. A declaration that found its object there is not among them. The
// error is an *Error, a *NotEmptyError, an *UndoError or *LeftOutError around one of these, or Refusals.
func (r *Runner) Run(ctx context.Context, plan plans.Plan) (done []plans.Step, err error) {
	ctx = r.logging(ctx)
	if slices.ContainsFunc(plan, func(phase plans.Phase) bool { return bindsMany(phase.Steps) }) {
		r.openAMQP(ctx, bindingChannels) // while the phases before run
	}
	var refused recreations
	for i, phase := range plan {
		if refused.has(phase.Recreates) {
			continue
		}
		if refused.leaveOut(phase) {
			continue
		}
		if !slices.ContainsFunc(plan[i:], usesAMQP) {
			r.Release()
		}
		changed, err := r.phase(ctx, phase.Steps)
		done = append(done, changed...)
		if err == nil {
			continue
		}
		isUndone, err := r.undo(ctx, phase, done, err)
		if phase.Recreates == "" && isUndone {
			return nil, err
		}
		if phase.Recreates == "" || !isRefusal(err) {
			return done, refused.and(err)
		}
		refused.errors = append(refused.errors, recreation{phase.Recreates, err, false})
	}
	return done, refused.and(nil)
}

// recreations are the refused ones, and the phases that were left out for their sake.
type recreations struct {
	errors  []recreation
	leftOut []plans.Step
}

type recreation struct {
	object   string
	err      error
	isNeeded bool
}

func (r *recreations) has(object string) bool {
	return slices.ContainsFunc(r.errors, func(refused recreation) bool { return refused.object == object })
}

// leaveOut tells whether a phase needs a refused object.
func (r *recreations) leaveOut(phase plans.Phase) (needs bool) {
	for i := range r.errors {
		if slices.Contains(phase.Needs, r.errors[i].object) {
			r.errors[i].isNeeded, needs = true, true
		}
	}
	if needs {
		r.leftOut = append(r.leftOut, phase.Steps...)
	}
	return needs
}

// and is all of it with one more error, nil if there is none at all.
func (r *recreations) and(err error) error {
	var all, needed Refusals
	for _, refused := range r.errors {
		if refused.isNeeded {
			needed = append(needed, refused.err)
		} else {
			all = append(all, refused.err)
		}
	}
	if len(needed) > 0 {
		all = append(all, &LeftOutError{Err: needed.and(nil), Left: r.leftOut})
	}
	return all.and(err)
}

// isRefusal tells whether the broker is well and only keeps a step from losing something.
func isRefusal(err error) bool {
	if _, ok := err.(*NotEmptyError); ok { //nolint:errorlint // an *UndoError around one is more than that
		return true
	}
	e, ok := err.(*Error) //nolint:errorlint // likewise
	return ok && e.Kind == InUse
}

// phase runs steps at the same time: over HTTP, and as soon as there is a connection for it, what openFor names over
// AMQP.
func (r *Runner) phase(ctx context.Context, steps []plans.Step) (done []plans.Step, err error) {
	defer r.note(steps)
	effects := make([]bool, len(steps))
	for begun := 0; begun < len(steps) && err == nil; {
		if conn, channels := r.openFor(steps[begun:]); conn == nil {
			var n int
			n, err = r.overHTTP(ctx, steps[begun:], effects[begun:])
			begun += n
		} else if r.overAMQP(ctx, conn, channels, steps[begun:], effects[begun:]) {
			break
		}
	}
	for i, step := range steps {
		if effects[i] {
			done = append(done, step)
		}
	}
	return done, err
}

// overHTTP runs steps at the same time, as many as there may be requests and as the broker can take. It tells how many
// it has begun with, which are all unless one fails or the others can be made over AMQP. If several fail, the error is
// that of the first.
func (r *Runner) overHTTP(ctx context.Context, steps []plans.Step, effects []bool) (begun int, err error) {
	var (
		mutex    sync.Mutex
		workers  sync.WaitGroup
		failedAt int
	)
	take := func() (int, bool) {
		mutex.Lock()
		defer mutex.Unlock()
		if err != nil || begun == len(steps) {
			return 0, false
		}
		if conn, _ := r.openFor(steps[begun:]); conn != nil {
			return 0, false
		}
		begun++
		return begun - 1, true
	}
	for range r.parallel(ctx, steps) {
		workers.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				effect, failure := r.step(ctx, steps[i])
				mutex.Lock()
				effects[i] = effects[i] || effect
				if failure != nil && (err == nil || i < failedAt) {
					err, failedAt = failure, i
				}
				mutex.Unlock()
			}
		})
	}
	workers.Wait()
	return begun, err
}

// parallel is how many of the steps may run at the same time. Before 4.3, RabbitMQ keeps exchanges in Mnesia. There,
// exchanges that are bound to each other are deleted one after the other. Otherwise 3.10.8 keeps some although it says
// that it deleted them, and 4.0.5 answers with an internal error (TestTeardownIsComplete).
//
// So are queues declared whose leaders RabbitMQ balances, because it counts those that it has. Of 29 queues that were
// declared at the same time, one node of three had 29 leaders (4.3.6), 28 (4.0.5) or 15 (3.10.8).
func (r *Runner) parallel(ctx context.Context, steps []plans.Step) int {
	if slices.ContainsFunc(steps, isBalanced) {
		return 1
	}
	if deletesExchanges(steps) && !deletesTogether(r.version(ctx)) {
		return 1
	}
	return min(cap(r.http.slots), len(steps))
}

// isBalanced tells whether RabbitMQ chooses a node for the leader of a queue by those that there are.
func isBalanced(step plans.Step) bool {
	declare, is := step.(plans.DeclareQueue)
	return is && declare.Queue.Arguments["x-queue-leader-locator"] == "balanced"
}

// deletesTogether tells whether a broker can delete exchanges at the same time.
func deletesTogether(version string) bool { return isAtLeast(version, 4, 3) }

// version is that of the broker, empty if it cannot be found out. AMQP tells it without a further request.
func (r *Runner) version(ctx context.Context) string {
	if conn := r.openConn(); conn != nil {
		return conn.version()
	}
	o, err := r.overview(r.newCall(ctx))
	if err != nil {
		return ""
	}
	return o.Version
}

// isAtLeast compares the first two numbers of a version.
func isAtLeast(version string, major, minor int) bool {
	var have, next int
	if _, err := fmt.Sscanf(version, "%d.%d", &have, &next); err != nil {
		return false
	}
	return have > major || have == major && next >= minor
}

// step runs one step and tells whether it had an effect, or may have had one.
func (r *Runner) step(ctx context.Context, step plans.Step) (effect bool, err error) {
	return again(ctx, r.Client, func() (bool, error) {
		had, err := r.once(ctx, step)
		effect = effect || had
		return effect, err
	})
}

// once is one attempt at a step. Its errors may be for nothing but a broker that starts: step tries again.
func (r *Runner) once(ctx context.Context, step plans.Step) (effect bool, err error) {
	switch s := step.(type) {
	case plans.AwaitDurable:
		return false, r.awaitDurable(ctx)
	case plans.VerifyEmpty:
		return false, r.verifyEmpty(ctx, s)
	case plans.DeleteQueue:
		return r.deleteQueue(ctx, s)
	case plans.DeclareQueue:
		call := r.newCall(ctx)
		code, err := r.declareQueue(call, s.Queue)
		if err == nil && call.attempts.Load() > 1 {
			err = r.verifyServed(ctx, s)
		}
		return r.effect(ctx, step, call, code, err)
	}
	return r.write(ctx, step)
}

// durableAfter is how old a quorum queue is when it survives a kill of its node for certain. Each node keeps the names
// of its quorum queues in a file, names.dets (ra_directory in ra, 2.0 to 3.1). A node that does not find a name there
// starts the queue as a new one, without messages: "name_not_registered" in its log.
//
// Erlang writes a name after one second (auto_save in dets), and before the next quorum queue is declared. While others
// delete quorum queues, it puts that off for up to three seconds (delay in dets). The rest is for a busy machine.
//
// On 3.10.8, 4.0.5 and 4.3.6, a kill up to 0.7 s after the declaration lost 20 of 20 confirmed messages. After 1.0 s it
// lost none. Beside deletions, the times were 2.6 s and 2.9 s. Durable classic queues lost nothing at any age.
// TestKilledNode tests the new queues of this provider.
const durableAfter = 3500 * time.Millisecond

func (r *Runner) awaitDurable(ctx context.Context) error {
	if r.bindsAtOnce {
		return nil
	}
	return r.pause(ctx, durableAfter)
}

// verifyServed fails for a queue without replicas, which a broken-off attempt may have left. RabbitMQ says that such a
// queue is there, or only does not answer.
func (r *Runner) verifyServed(ctx context.Context, step plans.DeclareQueue) error {
	err := r.served(ctx, step.Queue)
	if e, is := errors.AsType[*Error](err); is && (e.Kind == Unavailable || e.Kind == Timeout && ctx.Err() == nil) {
		return &Error{Unavailable, fmt.Sprintf("%s in vhost %q", step, r.vhost), e.Reason, halfDone}
	}
	return err
}
