package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// undo takes back the steps that were done before a phase failed. It returns the failure with the steps that could not
// be undone, and whether all have been.
func (r *runner) undo(
	ctx context.Context, phase plan.Phase, done []plan.Step, failure error,
) (isUndone bool, err error) {
	if phase.Undo == nil {
		return false, failure
	}
	ctx, cancel := withTimeToUndo(ctx)
	defer cancel()
	undo := UndoError{Err: failure}
	missing := map[string]bool{}
	back := phase.Undo(done)
	for i, phase := range back {
		if slices.ContainsFunc(phase.Needs, func(object string) bool { return missing[object] }) {
			undo.leave(missing, phase.Steps)
			continue
		}
		left, err := r.asFarAsPossible(ctx, phase.Steps)
		undo.Done = append(undo.Done, plan.NotAmong(phase.Steps, left)...)
		undo.leave(missing, left)
		undo.Undo = cmp.Or(undo.Undo, err)
		if err != nil && (!mayGoOn(err) || slices.ContainsFunc(phase.Steps, onlyLooks)) {
			undo.leave(missing, back[i+1:].Steps())
			break
		}
		if err != nil && phase.Undo != nil {
			r.takeBack(ctx, &undo, phase.Undo(nil).Steps())
		}
	}
	if len(undo.Left) == 0 {
		return true, failure
	}
	return false, &undo
}

// goOn does the steps of a phase that are not finished, as far as possible. It does not ask again where the broker is
// away: the step that failed has waited for it.
func (r *runner) goOn(
	ctx context.Context, steps, finished []plan.Step, failure error,
) (done []plan.Step, err error) {
	left, err := plan.NotAmong(steps, finished), failure
	if ctx.Err() != nil || mayGoOn(failure) {
		ctx, cancel := withTimeToUndo(ctx)
		defer cancel()
		left, err = r.asFarAsPossible(ctx, left)
	}
	done = plan.NotAmong(steps, left)
	if err == nil {
		return done, nil
	}
	return done, &UndoError{Err: failure, Undo: err, Done: done, Left: left}
}

// withTimeToUndo is for what has to be done although the operation was canceled, or its own time is over. That is an
// undo, a look at what there is then, or the end of an old delivery exchange. Without AMQP, the undo of a rebuild of 28
// levels takes half a minute, and several times as long beside much else.
func withTimeToUndo(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
}

// leave notes the steps that are not done, and the objects that are missing without them.
func (e *UndoError) leave(missing map[string]bool, steps []plan.Step) {
	e.Left = append(e.Left, slices.DeleteFunc(slices.Clone(steps), onlyLooks)...)
	for _, step := range steps {
		if step.Effect().Makes {
			missing[step.Effect().Object] = true
		}
	}
}

// takeBack deletes exchanges that an undo could not restore as they were.
func (r *runner) takeBack(ctx context.Context, undo *UndoError, steps []plan.Step) {
	if _, err := r.phase(ctx, steps); err != nil {
		return
	}
	for _, step := range steps {
		exchange := step.Effect().Object
		gone := slices.DeleteFunc(slices.Clone(undo.Done),
			func(step plan.Step) bool { return !step.Effect().Makes || step.Effect().Object != exchange })
		undo.Done, undo.Left = plan.NotAmong(undo.Done, gone), append(gone, undo.Left...)
	}
}

func onlyLooks(step plan.Step) bool { return step.Effect().Object == "" }

// mayGoOn tells whether the broker has refused one step, and may do another one. Whoever may not use the vhost is
// refused all.
func mayGoOn(err error) bool {
	_, isNotEmpty := errors.AsType[*drain.NotEmptyError](err)
	return isNotEmpty || !rabbit.IsBarred(err) && rabbit.IsKind(err, rabbit.NotFound, rabbit.Forbidden, rabbit.Conflict,
		rabbit.InUse, rabbit.Refused)
}

// asFarAsPossible runs steps at the same time. Then it runs those that a failure has held up one by one, if the broker
// still does what it can. Left are the steps that are not done, and the error is that of the first of them.
func (r *runner) asFarAsPossible(ctx context.Context, steps []plan.Step) (left []plan.Step, err error) {
	done, err := r.phase(ctx, steps)
	if err == nil {
		return nil, nil
	} else if !mayGoOn(err) {
		return plan.NotAmong(steps, done), err
	}
	err = nil
	for _, step := range steps {
		if _, failure := r.phase(ctx, []plan.Step{step}); failure != nil {
			left = append(left, step)
			err = cmp.Or(err, failure)
		}
	}
	return left, err
}
