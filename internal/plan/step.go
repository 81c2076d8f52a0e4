// Package plan says which steps, in which order, turn a broker's objects into the wanted ones, and which undo them.
// Topologies come in, those that are wanted and those that are there. A [Plan] goes out: phases of steps, each with its
// undo. No plan loses a message that is on its way, unless it is forced to.
//
// Call [Create], [Repair], [Rebuild] or [Teardown]. A [Step] knows its words and its effect. It does itself on a
// [Target]: a broker, or the model of one in plantest.
//
// It is pure: it never talks to a broker. Read step.go first, then repair.go for changes in place and teardown.go for
// deletions.
package plan

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
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
	// GoesOn is set where the phase makes bindings again that no later plan may know of. After a failure, and after the
	// operation was canceled, all its steps are tried that may still succeed.
	GoesOn bool
}

// Step is one thing to do on a broker. It says in one line what that is. Within a plan, that tells it from others.
type Step interface {
	fmt.Stringer
	// Do does it. It tells whether that changed something, or may have, because the answer got lost.
	Do(ctx context.Context, on Target) (changed bool, err error)
	// Effect is what it does to objects.
	Effect() Effect
}

// Effect is what a step does to objects, nothing if it only looks, and what it takes to do that.
type Effect struct {
	// Object is the exchange, queue or policy that the step makes or takes away, in words. That of a binding is its
	// source.
	Object string
	// Makes tells whether the step makes its object, or binds it onwards.
	Makes bool
	// Inverse is the step that brings back what this one takes away, by what there was before. It is nil for others.
	Inverse func(before topology.Topology) Step
	// Proves tells whether the step proves that queues are empty. Waits tells whether it may wait for that.
	Proves, Waits bool
	// change does it to a topology.
	change func(topology.Topology)
}

// makes is the effect of a step that makes an object, or binds it onwards.
func makes(object string, change func(topology.Topology)) Effect {
	return Effect{Object: object, Makes: true, change: change}
}

// removes is the effect of a step that takes something away.
func removes(object string, inverse func(before topology.Topology) Step, change func(topology.Topology)) Effect {
	return Effect{Object: object, Inverse: inverse, change: change}
}

// becomes is the inverse of a step that does not depend on the topology before.
func becomes(step Step) func(topology.Topology) Step {
	return func(topology.Topology) Step { return step }
}

// Target is what steps are done on: a broker, or a model of one.
type Target interface {
	DeclareExchange(ctx context.Context, step DeclareExchange) (changed bool, err error)
	DeclareQueue(ctx context.Context, step DeclareQueue) (changed bool, err error)
	Bind(ctx context.Context, step Bind) (changed bool, err error)
	Unbind(ctx context.Context, step Unbind) (changed bool, err error)
	DeleteExchange(ctx context.Context, step DeleteExchange) (changed bool, err error)
	DeleteQueue(ctx context.Context, step DeleteQueue) (changed bool, err error)
	SetPolicy(ctx context.Context, step SetPolicy) (changed bool, err error)
	DeletePolicy(ctx context.Context, step DeletePolicy) (changed bool, err error)
	AwaitDurable(ctx context.Context, step AwaitDurable) error
	VerifyAllowed(ctx context.Context, step VerifyAllowed) error
	VerifyAlone(ctx context.Context, step VerifyAlone) error
	VerifyBound(ctx context.Context, step VerifyBound) error
	VerifyEmpty(ctx context.Context, step VerifyEmpty) error
	VerifyOwner(ctx context.Context, step VerifyOwner) error
}

// DeclareExchange creates an exchange; an equal one is left as it is.
type DeclareExchange struct {
	Exchange topology.Exchange
	// New refuses an equal one: it is somebody else's.
	New bool
}

func (s DeclareExchange) String() string {
	return "declare " + topology.ExchangeObject(s.Exchange.Name)
}

// Do declares it.
func (s DeclareExchange) Do(ctx context.Context, on Target) (bool, error) {
	return on.DeclareExchange(ctx, s)
}

// Effect is the exchange.
func (s DeclareExchange) Effect() Effect {
	return makes(topology.ExchangeObject(s.Exchange.Name),
		func(t topology.Topology) { t.Exchanges[s.Exchange.Name] = s.Exchange })
}

// DeclareQueue creates a queue; an equal one is left as it is.
type DeclareQueue struct {
	Queue topology.Queue
	// New refuses an equal one: it is somebody else's.
	New bool
}

func (s DeclareQueue) String() string { return "declare " + topology.QueueObject(s.Queue.Name) }

// Do declares it.
func (s DeclareQueue) Do(ctx context.Context, on Target) (bool, error) {
	return on.DeclareQueue(ctx, s)
}

// Effect is the queue.
func (s DeclareQueue) Effect() Effect {
	return makes(topology.QueueObject(s.Queue.Name),
		func(t topology.Topology) { t.Queues[s.Queue.Name] = s.Queue })
}

// Bind creates a binding.
type Bind struct{ Binding topology.Binding }

func (s Bind) String() string { return "bind " + s.Binding.Describe() }

// Do creates it.
func (s Bind) Do(ctx context.Context, on Target) (bool, error) { return on.Bind(ctx, s) }

// Effect is the binding.
func (s Bind) Effect() Effect {
	return makes(topology.ExchangeObject(s.Binding.Source),
		func(t topology.Topology) { t.Bind(s.Binding) })
}

// Unbind deletes a binding.
type Unbind struct{ Binding topology.Binding }

func (s Unbind) String() string { return "unbind " + s.Binding.Describe() }

// Do deletes it.
func (s Unbind) Do(ctx context.Context, on Target) (bool, error) { return on.Unbind(ctx, s) }

// Effect is that the binding is gone.
func (s Unbind) Effect() Effect {
	return removes(topology.ExchangeObject(s.Binding.Source), becomes(Bind(s)),
		func(t topology.Topology) { t.Unbind(func(b topology.Binding) bool { return b == s.Binding }) })
}

// DeleteExchange deletes an exchange with its bindings.
type DeleteExchange struct {
	Name string
	// IfUnused refuses if anything is bound to the exchange as its source.
	IfUnused bool
}

func (s DeleteExchange) String() string { return "delete " + topology.ExchangeObject(s.Name) }

// Do deletes it.
func (s DeleteExchange) Do(ctx context.Context, on Target) (bool, error) {
	return on.DeleteExchange(ctx, s)
}

// Effect is that the exchange and its bindings are gone. Taken back, it has no bindings.
func (s DeleteExchange) Effect() Effect {
	return removes(topology.ExchangeObject(s.Name),
		func(before topology.Topology) Step { return DeclareExchange{Exchange: before.Exchanges[s.Name]} },
		func(t topology.Topology) {
			delete(t.Exchanges, s.Name)
			t.Unbind(func(b topology.Binding) bool { return touches(b, s.Name) })
		})
}

// DeleteQueue deletes a queue, with its messages if there are any.
type DeleteQueue struct {
	Queue topology.Queue
	// IfEmpty refuses if the queue holds messages.
	IfEmpty bool
	// Sources are the exchanges that led into the queue, nil if they are not known. If the queue is to be empty,
	// the messages that they have routed have to be there.
	Sources []string
}

func (s DeleteQueue) String() string { return "delete " + topology.QueueObject(s.Queue.Name) }

// Do deletes it.
func (s DeleteQueue) Do(ctx context.Context, on Target) (bool, error) { return on.DeleteQueue(ctx, s) }

// Effect is that the queue and the bindings into it are gone. Taken back, it has no bindings.
func (s DeleteQueue) Effect() Effect {
	effect := removes(topology.QueueObject(s.Queue.Name), becomes(DeclareQueue{Queue: s.Queue}),
		func(t topology.Topology) {
			delete(t.Queues, s.Queue.Name)
			t.Bindings.DeleteInto(map[string]topology.Queue{s.Queue.Name: s.Queue})
		})
	effect.Proves = s.IfEmpty
	return effect
}

// SetPolicy sets a policy, whatever there is under its name.
type SetPolicy struct{ Policy topology.Policy }

func (s SetPolicy) String() string { return "set " + topology.PolicyObject(s.Policy.Name) }

// Do sets it.
func (s SetPolicy) Do(ctx context.Context, on Target) (bool, error) { return on.SetPolicy(ctx, s) }

// Effect is the policy.
func (s SetPolicy) Effect() Effect {
	return makes(topology.PolicyObject(s.Policy.Name),
		func(t topology.Topology) { t.Policies[s.Policy.Name] = s.Policy })
}

// DeletePolicy deletes a policy.
type DeletePolicy struct{ Name string }

func (s DeletePolicy) String() string { return "delete " + topology.PolicyObject(s.Name) }

// Do deletes it.
func (s DeletePolicy) Do(ctx context.Context, on Target) (bool, error) {
	return on.DeletePolicy(ctx, s)
}

// Effect is that the policy is gone.
func (s DeletePolicy) Effect() Effect {
	return removes(topology.PolicyObject(s.Name),
		func(before topology.Topology) Step { return SetPolicy{before.Policies[s.Name]} },
		func(t topology.Topology) { delete(t.Policies, s.Name) })
}

// VerifyAllowed fails if the user may not declare or bind the existing object, or may set no policy. To declare it
// takes the permissions to delete it and to bring it back. It changes nothing.
type VerifyAllowed struct {
	Step Step
}

func (s VerifyAllowed) String() string {
	return fmt.Sprintf("make sure of the permission to %s", s.Step)
}

// Do makes sure of it.
func (s VerifyAllowed) Do(ctx context.Context, on Target) (bool, error) {
	return false, on.VerifyAllowed(ctx, s)
}

// Effect is none.
func (VerifyAllowed) Effect() Effect { return Effect{} }

// AwaitDurable waits until RabbitMQ has new quorum queues on disk: until then, a kill of its node takes along what
// comes into them.
type AwaitDurable struct{}

func (AwaitDurable) String() string {
	return "wait until new quorum queues survive a kill of their node"
}

// Do waits.
func (s AwaitDurable) Do(ctx context.Context, on Target) (bool, error) {
	return false, on.AwaitDurable(ctx, s)
}

// Effect is none.
func (AwaitDurable) Effect() Effect { return Effect{} }

// VerifyAlone fails if anything else is bound to the binding's source.
type VerifyAlone struct {
	Binding topology.Binding
}

func (s VerifyAlone) String() string {
	return "verify that only this is bound: " + s.Binding.Describe()
}

// Do looks for other bindings.
func (s VerifyAlone) Do(ctx context.Context, on Target) (bool, error) {
	return false, on.VerifyAlone(ctx, s)
}

// Effect is none.
func (VerifyAlone) Effect() Effect { return Effect{} }

// VerifyBound fails if others have made or removed bindings since the plan was made, while something was waited for.
// It looks at those that lead to objects of a topology, and with Delivery also at those to and from its delivery
// exchange.
type VerifyBound struct {
	Of       topology.Topology
	Delivery bool
}

func (s VerifyBound) String() string {
	return "verify that the bindings of other applications are the same as before"
}

// Do looks at the bindings.
func (s VerifyBound) Do(ctx context.Context, on Target) (bool, error) {
	return false, on.VerifyBound(ctx, s)
}

// Effect is none.
func (VerifyBound) Effect() Effect { return Effect{} }

// VerifyEmpty fails if one of the queues holds messages. The order is that in which messages move from queue to queue,
// so that none is overlooked because it moves meanwhile.
type VerifyEmpty struct {
	Queues []topology.Queue
	// Wait is how long the queues may take to run empty.
	Wait time.Duration
	// Why is what the messages are in the way of.
	Why string
	// FirstLook is for a first look, before anything is closed: it ends with what can be seen at once.
	FirstLook bool
	// NothingMoves is set when nothing moves from queue to queue any more.
	NothingMoves bool
}

func (s VerifyEmpty) String() string {
	name := func(q topology.Queue) string { return strconv.Quote(q.Name) }
	return "verify that nothing waits in " + plaintext.Join(s.Queues, ", ", name)
}

// Do looks into the queues.
func (s VerifyEmpty) Do(ctx context.Context, on Target) (bool, error) {
	return false, on.VerifyEmpty(ctx, s)
}

// Effect is a proof.
func (s VerifyEmpty) Effect() Effect { return Effect{Proves: true, Waits: s.Wait > 0} }

// VerifyOwner fails if others have taken over the entry of a topology since the plan was made. The entry has their
// marks then, and not that of the topology. A closed entry has no marks.
type VerifyOwner struct{ Of topology.Topology }

func (s VerifyOwner) String() string {
	return fmt.Sprintf("verify that nobody has taken over %s", topology.ExchangeObject(s.Of.Entry))
}

// Do looks for marks.
func (s VerifyOwner) Do(ctx context.Context, on Target) (bool, error) {
	return false, on.VerifyOwner(ctx, s)
}

// Effect is none.
func (VerifyOwner) Effect() Effect { return Effect{} }

// Proves tells whether the plan proves that queues are empty. Waits tells whether it waits for that with something
// changed.
func (p Plan) Proves() (proves, waits bool) {
	changes := false
	for _, step := range p.Steps() {
		effect := step.Effect()
		proves, waits, changes = proves || effect.Proves, waits || effect.Waits, changes || effect.Object != ""
	}
	return proves, waits && changes
}

// Steps are the steps of all phases in their order.
func (p Plan) Steps() []Step {
	var steps []Step
	for _, phase := range p {
		steps = append(steps, phase.Steps...)
	}
	return steps
}

// among are those of the steps that are in a list as well.
func among(steps, list []Step) []Step {
	isListed := textsOf(list)
	return slices.DeleteFunc(slices.Clone(steps), func(step Step) bool { return !isListed[step.String()] })
}

// NotAmong are those of the steps that are not in a list.
func NotAmong(steps, list []Step) []Step {
	isListed := textsOf(list)
	return slices.DeleteFunc(slices.Clone(steps), func(step Step) bool { return isListed[step.String()] })
}

func textsOf(steps []Step) map[string]bool {
	texts := map[string]bool{}
	for _, step := range steps {
		texts[step.String()] = true
	}
	return texts
}

func bind(bindings []topology.Binding) []Step {
	return stepsFor(bindings, func(b topology.Binding) Step { return Bind{b} })
}

func unbind(bindings []topology.Binding) []Step {
	return stepsFor(bindings, func(b topology.Binding) Step { return Unbind{b} })
}

// stepsFor has one step for each of the objects.
func stepsFor[T any](objects []T, step func(T) Step) []Step {
	steps := make([]Step, len(objects))
	for i, object := range objects {
		steps[i] = step(object)
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

// goingOn appends a phase that goes on, unless it is empty.
func (p Plan) goingOn(steps ...Step) Plan {
	if len(steps) == 0 {
		return p
	}
	return append(p, Phase{Steps: steps, GoesOn: true})
}

func touches(b topology.Binding, exchange string) bool {
	return b.Source == exchange || b.LeadsTo(topology.ToExchange, exchange)
}

func declaresEntry(t topology.Topology, step Step) bool {
	declare, is := step.(DeclareExchange)
	return is && declare.Exchange.Name == t.Entry
}
