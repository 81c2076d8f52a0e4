// Package plans says which steps, in which order, turn a broker's objects into the wanted ones, and which undo them. No
// plan loses a message that is on its way, unless it is forced to. It is pure: it never talks to a broker. Read step.go
// first, then repair.go for changes in place and teardown.go for deletions.
package plans

import (
	"fmt"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Plan is a list of phases. One begins when the phase before it is done.
type Plan []Phase

// Phase is a set of steps that do not depend on each other and can run at the same time.
type Phase struct {
	Steps []Step
	// Undo takes back the steps that had an effect when a step of this phase fails. Done are the steps, of this phase
	// and those before, that may have had one. Of the plan that it returns, every phase is tried that needs nothing of
	// a failed one. A step that looks for messages has to succeed, or nothing more is done.
	Undo func(done []Step) Plan
	// Recreates names the object that the phase takes part in recreating, if it does. That may be refused because of
	// messages or others' bindings. Then the plan goes on without the further phases of the object, and fails at its
	// end.
	Recreates string
	// Needs names objects without which the phase would do harm. The phase is left out where it is refused to recreate
	// one of them. In an undo, it is left out where it is refused to declare one of them or to bind it onwards.
	Needs []string
}

// Step is one thing to do on a broker. It says in one line what that is.
type Step interface{ fmt.Stringer }

// The steps.
type (
	// DeclareExchange creates an exchange; an equal one is left as it is.
	DeclareExchange struct {
		Exchange topology.Exchange
		// New refuses an equal one: it is somebody else's.
		New bool
	}
	// DeclareQueue creates a queue; an equal one is left as it is.
	DeclareQueue struct {
		Queue topology.Queue
		// New refuses an equal one: it is somebody else's.
		New bool
	}
	// Bind creates a binding.
	Bind struct{ Binding topology.Binding }
	// Unbind deletes a binding.
	Unbind struct{ Binding topology.Binding }
	// DeleteExchange deletes an exchange with its bindings.
	DeleteExchange struct {
		Name string
		// IfUnused refuses if anything is bound to the exchange as its source.
		IfUnused bool
	}
	// DeleteQueue deletes a queue, with its messages if there are any.
	DeleteQueue struct {
		Queue topology.Queue
		// IfEmpty refuses if the queue holds messages.
		IfEmpty bool
		// Sources are the exchanges that led into the queue, nil if they are not known. If the queue is to be empty,
		// the messages that they have routed have to be there.
		Sources []string
	}
	// SetPolicy sets a policy, whatever there is under its name.
	SetPolicy struct{ Policy topology.Policy }
	// DeletePolicy deletes a policy.
	DeletePolicy struct{ Name string }
	// VerifyAllowed fails if the user may not declare or bind the existing object, or may set no policy. To declare it
	// takes the permissions to delete it and to bring it back. It changes nothing.
	VerifyAllowed struct{ Step Step }
	// AwaitDurable waits until RabbitMQ has new quorum queues on disk: until then, a kill of its node takes along what
	// comes into them.
	AwaitDurable struct{}
	// VerifyAlone fails if anything else is bound to the binding's source.
	VerifyAlone struct{ Binding topology.Binding }
	// VerifyEmpty fails if one of the queues holds messages. The order is that in which messages
	// move from queue to queue, so that none is overlooked because it moves meanwhile.
	VerifyEmpty struct {
		Queues []topology.Queue
		// Wait is how long the queues may take to run empty.
		Wait time.Duration
		// Why is what the messages are in the way of.
		Why string
		// Glance is for a first look, before anything is closed: it ends with what can be seen at once.
		Glance bool
		// Still is set when nothing moves from queue to queue any more.
		Still bool
	}
)

func (s DeclareExchange) String() string { return fmt.Sprintf("declare exchange %q", s.Exchange.Name) }
func (s DeclareQueue) String() string    { return fmt.Sprintf("declare queue %q", s.Queue.Name) }
func (s Bind) String() string            { return "bind " + s.Binding.Describe() }
func (s Unbind) String() string          { return "unbind " + s.Binding.Describe() }
func (s DeleteExchange) String() string  { return fmt.Sprintf("delete exchange %q", s.Name) }
func (s DeleteQueue) String() string     { return fmt.Sprintf("delete queue %q", s.Queue.Name) }
func (s SetPolicy) String() string       { return fmt.Sprintf("set policy %q", s.Policy.Name) }
func (s DeletePolicy) String() string    { return fmt.Sprintf("delete policy %q", s.Name) }
func (s AwaitDurable) String() string {
	return "wait until new quorum queues survive a kill of their node"
}
func (s VerifyAllowed) String() string {
	return fmt.Sprintf("make sure of the permission to %s", s.Step)
}
func (s VerifyAlone) String() string {
	return "verify that only this is bound: " + s.Binding.Describe()
}
func (s VerifyEmpty) String() string {
	names := make([]string, len(s.Queues))
	for i, q := range s.Queues {
		names[i] = fmt.Sprintf("%q", q.Name)
	}
	return "verify that nothing waits in " + strings.Join(names, ", ")
}

// Steps are the steps of all phases in their order.
func (p Plan) Steps() []Step {
	var steps []Step
	for _, phase := range p {
		steps = append(steps, phase.Steps...)
	}
	return steps
}

func bind(bindings []topology.Binding) []Step {
	return each(bindings, func(b topology.Binding) Step { return Bind{b} })
}

func unbind(bindings []topology.Binding) []Step {
	return each(bindings, func(b topology.Binding) Step { return Unbind{b} })
}

// each has a step for each of them.
func each[T any](all []T, step func(T) Step) []Step {
	steps := make([]Step, len(all))
	for i, one := range all {
		steps[i] = step(one)
	}
	return steps
}

// recreating marks all phases as parts of the object's recreation.
func (p Plan) recreating(object string) Plan {
	for i := range p {
		p[i].Recreates = object
	}
	return p
}

// then appends a phase unless it is empty.
func (p Plan) then(steps ...Step) Plan {
	if len(steps) == 0 {
		return p
	}
	return append(p, Phase{Steps: steps})
}
