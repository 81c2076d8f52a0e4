package topology

import (
	"fmt"
	"strings"
	"time"
)

// Plan is a list of phases. One begins when the phase before it is done.
type Plan []Phase

// Phase is a set of steps that do not depend on each other and can run at the same time.
type Phase struct {
	Steps []Step
	// Undo runs when a step of this phase fails: it opens again what an earlier phase had closed. It ends behind the first of its
	// phases of which something fails, but each step of that phase is tried.
	Undo Plan
	// Recreates names the object that the phase takes part in recreating, if it does. Where that is
	// refused because of messages or of what others have bound, the plan goes on without the further
	// phases of the object, and fails at its end.
	Recreates string
	// Needs names objects without whose recreation the phase would do harm: where one of them is refused, the phase is left out.
	Needs []string
}

// Step is one thing to do on a broker. It says in one line what that is.
type Step interface{ fmt.Stringer }

// The steps.
type (
	// DeclareExchange creates an exchange; an equal one is left as it is.
	DeclareExchange struct {
		Exchange Exchange
		// New refuses an equal one: it is somebody else's.
		New bool
	}
	// DeclareQueue creates a queue; an equal one is left as it is.
	DeclareQueue struct {
		Queue Queue
		// New refuses an equal one: it is somebody else's.
		New bool
	}
	// Bind creates a binding.
	Bind struct{ Binding Binding }
	// Unbind deletes a binding.
	Unbind struct{ Binding Binding }
	// DeleteExchange deletes an exchange with its bindings.
	DeleteExchange struct {
		Name string
		// IfUnused refuses if anything is bound to the exchange as its source.
		IfUnused bool
	}
	// DeleteQueue deletes a queue, with its messages if there are any.
	DeleteQueue struct {
		Queue Queue
		// IfEmpty refuses if the queue holds messages.
		IfEmpty bool
		// Sources are the exchanges that led into the queue, nil if they are not known: if it is to be empty, what they have routed
		// has to be there.
		Sources []string
	}
	// VerifyAlone fails if anything else is bound to the binding's source.
	VerifyAlone struct{ Binding Binding }
	// VerifyEmpty fails if one of the queues holds messages. The order is that in which messages
	// move from queue to queue, so that none is overlooked because it moves meanwhile.
	VerifyEmpty struct {
		Queues []Queue
		// Wait is how long the queues may take to run empty.
		Wait time.Duration
		// Why is what the messages are in the way of.
		Why string
	}
)

func (s DeclareExchange) String() string { return fmt.Sprintf("declare exchange %q", s.Exchange.Name) }
func (s DeclareQueue) String() string    { return fmt.Sprintf("declare queue %q", s.Queue.Name) }
func (s Bind) String() string            { return "bind " + s.Binding.describe() }
func (s Unbind) String() string          { return "unbind " + s.Binding.describe() }
func (s DeleteExchange) String() string  { return fmt.Sprintf("delete exchange %q", s.Name) }
func (s DeleteQueue) String() string     { return fmt.Sprintf("delete queue %q", s.Queue.Name) }
func (s VerifyAlone) String() string {
	return "verify that only this is bound: " + s.Binding.describe()
}
func (s VerifyEmpty) String() string {
	names := make([]string, len(s.Queues))
	for i, q := range s.Queues {
		names[i] = fmt.Sprintf("%q", q.Name)
	}
	return "verify that nothing waits in " + strings.Join(names, ", ")
}

func (b Binding) describe() string {
	text := fmt.Sprintf("exchange %q to %s %q with key %q", b.Source, b.DestinationType, b.Destination, b.RoutingKey)
	if b.Arguments != "" {
		text += " and arguments " + b.Arguments
	}
	return text
}

// Steps are the steps of all phases in their order.
func (p Plan) Steps() []Step {
	var steps []Step
	for _, phase := range p {
		steps = append(steps, phase.Steps...)
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
