package engine

import (
	"context"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// Run runs a plan by itself.
func Run(ctx context.Context, vhost *rabbit.Vhost, steps plan.Plan) (done []plan.Step, err error) {
	v := OnBroker(vhost)
	defer v.Close()
	return v.Run(ctx, steps)
}

// RunOn runs a plan on a model of a broker, one step after the other. Do does a step there.
func RunOn(ctx context.Context, do func(plan.Step) (changed bool, err error), steps plan.Plan) ([]plan.Step, error) {
	r := &runner{
		do:       func(_ context.Context, step plan.Step) (bool, error) { return do(step) },
		parallel: func(context.Context, []plan.Step) int { return 1 },
	}
	return r.Run(ctx, steps)
}

// runner runs plans: on a broker, or on a model of one.
type runner struct {
	do func(context.Context, plan.Step) (changed bool, err error)
	// parallel is how many of the steps may run at the same time.
	parallel func(context.Context, []plan.Step) int
}

// Run runs the phases of the plan one after the other, and the steps of a phase at the same time.
// If a step fails, those that run are finished, no other begins, and the phase's undo runs.
//
// Done are the steps that had an effect, or may have had one because the answer got lost. That is
// so with an error, too, unless all has been undone. A declaration that found its object there is not among them. The
// error is a *rabbit.Error, a *drain.NotEmptyError or an *OwnerError. It may be an *UndoError or a *LeftOutError around
// one of these, or Refusals.
func (r *runner) Run(ctx context.Context, steps plan.Plan) (done []plan.Step, err error) {
	var refused recreations
	for _, phase := range steps {
		if refused.has(phase.Recreates) || refused.leaveOut(phase) {
			continue
		}
		changed, finished, err := r.attempt(ctx, phase.Steps)
		if err != nil && phase.GoesOn {
			changed, err = r.goOn(ctx, phase.Steps, finished, err)
		}
		done = append(done, changed...)
		if err == nil {
			continue
		}
		isUndone, err := r.undo(ctx, phase, done, err)
		if phase.Recreates == "" && isUndone {
			return nil, err
		}
		if phase.Recreates == "" || !isRefusal(err) {
			return done, refused.joinedWith(err)
		}
		refused.errors = append(refused.errors, recreation{phase.Recreates, err, false})
	}
	return done, refused.joinedWith(nil)
}

// recreations are the refused ones, and the phases that were left out for their sake.
type recreations struct {
	errors  []recreation
	leftOut []plan.Step
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
func (r *recreations) leaveOut(phase plan.Phase) (needs bool) {
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

// joinedWith is all of it with one more error, nil if there is none at all.
func (r *recreations) joinedWith(err error) error {
	var all, needed Refusals
	for _, refused := range r.errors {
		if refused.isNeeded {
			needed = append(needed, refused.err)
		} else {
			all = append(all, refused.err)
		}
	}
	if len(needed) > 0 {
		all = append(all, &LeftOutError{Err: needed.joinedWith(nil), Left: r.leftOut})
	}
	return all.joinedWith(err)
}

// isRefusal tells whether the broker is well and only keeps a step from losing something.
func isRefusal(err error) bool {
	if _, ok := err.(*drain.NotEmptyError); ok { //nolint:errorlint // an *UndoError around one is more than that
		return true
	}
	e, ok := err.(*rabbit.Error) //nolint:errorlint // likewise
	return ok && e.Kind == rabbit.InUse
}
