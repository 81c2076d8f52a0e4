package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// Refusals are the parts that a plan left out because they would have lost messages or others' bindings. The last one
// is the failure that ended the plan, if there was one.
type Refusals []error

// joinedWith is the refusals with one more error, none if there is none at all.
func (e Refusals) joinedWith(err error) error {
	if err != nil {
		e = append(e, err)
	}
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}

func (e Refusals) Error() string { return plaintext.Join(e, "; ", error.Error) }

// Unwrap gives all errors.
func (e Refusals) Unwrap() []error { return e }

// Summary is the error in a few words.
func (e Refusals) Summary() string { return rabbit.Describe(e[len(e)-1]).Summary() }

// Detail is the error with all that is known.
func (e Refusals) Detail() string {
	return plaintext.Join(e, "\n\n", func(err error) string { return rabbit.Describe(err).Detail() })
}

// LeftOutError is a refusal for whose sake more was left out.
type LeftOutError struct {
	Err error
	// Left are the steps that would do harm without the refused ones.
	Left []plan.Step
}

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("%s; these steps are left out, because messages could lose their way without that: %s", e.Err,
		plaintext.Join(e.Left, "; ", plan.Step.String))
}

// Unwrap gives the refusal.
func (e *LeftOutError) Unwrap() error { return e.Err }

// Summary is the error in a few words.
func (e *LeftOutError) Summary() string { return rabbit.Describe(e.Err).Summary() }

// Detail is the error with all that is known.
func (e *LeftOutError) Detail() string {
	return fmt.Sprintf("%s\n\nThese steps are left to do, because messages could lose their way without that:\n\n  %s",
		rabbit.Describe(e.Err).Detail(), plaintext.Join(e.Left, "\n  ", plan.Step.String))
}

// UndoError is a failure after which something could not be taken back.
type UndoError struct {
	// Err is the failure, and Undo why it could not be undone.
	Err, Undo error
	// Done are the steps that brought something back, and Left those that would have brought back the rest.
	Done, Left []plan.Step
}

func (e *UndoError) Error() string {
	left := plaintext.Join(e.Left, "; ", plan.Step.String)
	return fmt.Sprintf("%s; afterwards this could not be done: %s: %s", e.Err, left, e.Undo)
}

// Unwrap gives both errors.
func (e *UndoError) Unwrap() []error { return []error{e.Err, e.Undo} }

// Summary is the error in a few words.
func (e *UndoError) Summary() string { return rabbit.Describe(e.Err).Summary() }

// Detail is the error with all that is known.
func (e *UndoError) Detail() string {
	text := rabbit.Describe(e.Err).Detail() + "\n\n"
	if back := objects(e.Done); back != "" {
		text += fmt.Sprintf("Of what had been removed before, this is there again: %s. ", back)
	} else if slices.ContainsFunc(e.Left, declares) {
		text += "The objects that had been removed before could not be brought back. "
	} else {
		text += "Not all bindings that went with objects could be made again. "
	}
	text += "These steps are left to do:\n\n  " + plaintext.Join(e.Left, "\n  ", plan.Step.String)
	if rabbit.SameCause(e.Err, e.Undo) {
		return text
	}
	return text + "\n\n" + rabbit.Describe(e.Undo).Detail()
}

// objects are what steps have brought back.
func objects(steps []plan.Step) string {
	var names []string
	bindings := 0
	for _, step := range steps {
		switch {
		case declares(step):
			names = append(names, step.Effect().Object)
		case step.Effect().Makes:
			bindings++
		}
	}
	if bindings > 0 {
		names = append(names, plaintext.Count(bindings, "binding"))
	}
	return strings.Join(names, ", ")
}

// declares tells whether the step declares an object, or sets a policy.
func declares(step plan.Step) bool {
	_, binds := step.(plan.Bind)
	return step.Effect().Makes && !binds
}
