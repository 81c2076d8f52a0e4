package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// target is the vhost that the steps of an operation are done on. It tells the prover what they change.
type target struct {
	vhost  *rabbit.Vhost
	prover *drain.Prover
}

func newTarget(vhost *rabbit.Vhost) *target { return &target{vhost, drain.NewProver(vhost)} }

func (t *target) runner() *runner {
	return &runner{do: func(ctx context.Context, step plan.Step) (bool, error) { return step.Do(ctx, t) },
		parallel: t.parallel}
}

// prepare makes sure of what a plan takes to prove queues empty.
func (t *target) prepare(ctx context.Context, steps plan.Plan) error {
	proves, waits := steps.Proves()
	if waits {
		if err := t.vhost.Client().VerifyLasting(ctx); err != nil {
			return err
		}
	}
	if proves {
		return t.prover.Prepare(ctx)
	}
	return nil
}

func (t *target) DeclareExchange(ctx context.Context, s plan.DeclareExchange) (bool, error) {
	return t.vhost.DeclareExchange(ctx, s.Exchange, s.New)
}

func (t *target) DeclareQueue(ctx context.Context, s plan.DeclareQueue) (bool, error) {
	defer t.prover.Changed(s.Queue.Name)
	return t.vhost.DeclareQueue(ctx, s.Queue, s.New, func() error { return t.prover.VerifyServed(ctx, s.Queue) })
}

func (t *target) Bind(ctx context.Context, s plan.Bind) (bool, error) {
	return t.vhost.Bind(ctx, s.Binding)
}

func (t *target) Unbind(ctx context.Context, s plan.Unbind) (bool, error) {
	defer func() { t.prover.Closed(s.Binding.Source) }()
	return t.vhost.Unbind(ctx, s.Binding)
}

func (t *target) DeleteExchange(ctx context.Context, s plan.DeleteExchange) (bool, error) {
	defer func() { t.prover.Closed(s.Name) }()
	return t.vhost.DeleteExchange(ctx, s.Name, s.IfUnused)
}

// DeleteQueue deletes a queue. RabbitMQ refuses to delete a classic queue that is not empty. Quorum queues refuse
// if-empty (3.10 to 4.3), so they are looked into immediately before each attempt.
func (t *target) DeleteQueue(ctx context.Context, s plan.DeleteQueue) (bool, error) {
	defer t.prover.Changed(s.Queue.Name)
	switch {
	case !s.IfEmpty:
		return t.vhost.DeleteQueue(ctx, s.Queue.Name, nil)
	case s.Queue.Type() != "classic":
		return t.vhost.DeleteQueue(ctx, s.Queue.Name, func() error {
			waiting, err := t.prover.Left(ctx, s.Queue, s.Sources)
			if err == nil && len(waiting) > 0 {
				err = t.notEmpty(s, waiting)
			}
			return err
		})
	}
	if err := t.prover.Settle(ctx, s.Sources); err != nil {
		return false, err
	}
	changed, err := t.vhost.DeleteEmptyQueue(ctx, s.Queue.Name)
	if rabbit.IsNotEmpty(err) {
		if waiting, countErr := t.prover.Ready(ctx, []topology.Queue{s.Queue}); countErr == nil {
			err = t.notEmpty(s, waiting)
		}
	}
	return changed, err
}

func (t *target) notEmpty(s plan.DeleteQueue, waiting []drain.QueueDepth) error {
	return &drain.NotEmptyError{Vhost: t.vhost.Name(), Why: s.String(), Queues: waiting}
}

func (t *target) SetPolicy(ctx context.Context, s plan.SetPolicy) (bool, error) {
	return t.vhost.SetPolicy(ctx, s.Policy)
}

func (t *target) DeletePolicy(ctx context.Context, s plan.DeletePolicy) (bool, error) {
	return t.vhost.DeletePolicy(ctx, s.Name)
}

// durableAfter is how old a new quorum queue is when it is bound: by then it survives a kill of its node. Each node
// keeps the names of its quorum queues in a file, names.dets (ra_directory in ra, 2.0 to 3.1). A node that does not
// find a name there starts the queue as a new one, without messages: "name_not_registered" in its log.
//
// Erlang writes a name after one second (auto_save in dets), and before the next quorum queue is declared. While others
// delete quorum queues, it puts that off for up to three seconds (delay in dets). The rest is for a busy machine: with
// 3.5 s in all, one of some twenty runs beside much load lost all messages.
//
// On 3.10.8, 4.0.5 and 4.3.6, a kill up to 0.7 s after the declaration lost 20 of 20 confirmed messages. After 1.0 s it
// lost none. Beside deletions, the times were 2.6 s and 2.9 s. Durable classic queues lost nothing at any age.
// TestKilledNode tests the new queues of this provider.
const durableAfter = 5 * time.Second

func (t *target) AwaitDurable(ctx context.Context, _ plan.AwaitDurable) error {
	if t.vhost.Client().BindsAtOnce() {
		return nil
	}
	return t.vhost.Client().Wait(ctx, durableAfter)
}

func (t *target) VerifyEmpty(ctx context.Context, s plan.VerifyEmpty) error {
	return t.prover.VerifyEmpty(ctx, drain.Question(s))
}

// VerifyAlone looks at the bindings of an exchange beside one.
func (t *target) VerifyAlone(ctx context.Context, s plan.VerifyAlone) error {
	return t.vhost.VerifyAlone(ctx, s.String(), s.Binding)
}

// VerifyBound reads the bindings anew.
func (t *target) VerifyBound(ctx context.Context, s plan.VerifyBound) error {
	there, err := readBound(ctx, t.vhost, s.Of, s.Delivery)
	if err == nil {
		err = s.Compare(there)
	}
	return err
}

// VerifyOwner looks for the marks of others on the entry.
func (t *target) VerifyOwner(ctx context.Context, s plan.VerifyOwner) error {
	marks, err := t.vhost.Owners(ctx, s.Of.Entry)
	if err == nil && s.Of.IsOfOthers(topology.Topology{Owners: topology.NewBindings(marks...)}) {
		err = &OwnerError{Meanwhile: true}
	}
	return err
}

// VerifyAllowed repeats a step that is done already: only a lack of permission counts. It asks for the permission to
// set a policy: to set one again would have RabbitMQ apply it anew.
func (t *target) VerifyAllowed(ctx context.Context, s plan.VerifyAllowed) error {
	once := rabbit.WithoutRetries(ctx)
	if set, sets := s.Step.(plan.SetPolicy); sets {
		return t.vhost.MaySet(once, set.Policy)
	}
	_, err := s.Step.Do(once, t)
	if refused, is := errors.AsType[*rabbit.Error](err); is && refused.Kind == rabbit.Forbidden {
		// The permissions of a vhost that is being deleted go before it.
		if _, gone := t.vhost.Confirm(ctx); rabbit.IsKind(gone, rabbit.VhostNotFound) {
			return gone
		}
		return &rabbit.Error{Kind: rabbit.Forbidden, Op: fmt.Sprintf("%s in vhost %q", s, t.vhost.Name()),
			Reason: refused.Reason, Hint: refused.Hint}
	}
	return nil
}

// parallel is how many of the steps may run at the same time. Before 4.3, RabbitMQ keeps exchanges in Mnesia. There,
// exchanges that are bound to each other are deleted one after the other. Otherwise 3.10.8 keeps some although it says
// that it deleted them, and 4.0.5 answers with an internal error (TestTeardownIsComplete).
//
// So are queues declared whose leaders RabbitMQ balances, because it counts those that it has. Of 29 queues that were
// declared at the same time, one node of three had 29 leaders (4.3.6), 28 (4.0.5) or 15 (3.10.8).
func (t *target) parallel(ctx context.Context, steps []plan.Step) int {
	if slices.ContainsFunc(steps, isBalanced) {
		return 1
	}
	// RabbitMQ 4.3 deletes exchanges at the same time.
	if deletesExchanges(steps) && !version.AtLeast(t.vhost.Client().Version(ctx), 4, 3) {
		return 1
	}
	return min(t.vhost.Client().MaxParallelRequests(), len(steps))
}

// isBalanced tells whether RabbitMQ chooses a node for the leader of a queue by those that there are.
func isBalanced(step plan.Step) bool {
	declare, is := step.(plan.DeclareQueue)
	return is && declare.Queue.Arguments["x-queue-leader-locator"] == "balanced"
}

// deletesExchanges tells whether all steps do that, and there are several.
func deletesExchanges(steps []plan.Step) bool {
	return len(steps) > 1 && !slices.ContainsFunc(steps, func(step plan.Step) bool {
		exchange, ok := step.(plan.DeleteExchange)
		return !ok || exchange.IfUnused
	})
}
