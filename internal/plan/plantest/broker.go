// Package plantest is a broker in memory that plans run on. A topology comes in, and the one after
// the steps of a plan goes out. Call NewBroker, or Around for a broker that others use too, and then its Run. Apply
// has the engine make a whole change.
package plantest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Broker is a broker in memory, on which plans run one step at a time.
type Broker struct {
	topology.Topology
	// Messages counts what waits in the queues.
	Messages map[string]int64
	// Drains lets delay queues run empty while a step waits for it.
	Drains bool
	// Arrange, if set, puts the steps of a phase, which may run at the same time, into an order.
	Arrange func([]plan.Step) []plan.Step
	// Before, if set, is called before every step; an error fails the step. With ErrLost, the step is done nonetheless.
	Before func(plan.Step) error
	// BeforeRead, if set, is called before the bindings of an exchange are read; an error fails that.
	BeforeRead func() error
	// After, if set, is called after every step that succeeded.
	After func(plan.Step)
	// young are the quorum queues of a plan that no AwaitDurable has come after. None may be bound. A queue that a
	// recreation declares, or its undo, is not among them: messages flow meanwhile.
	young, recreated map[string]bool
}

// NewBroker returns a broker that holds a copy of the topology.
func NewBroker(t topology.Topology) *Broker {
	return &Broker{Topology: t.Clone(), Messages: map[string]int64{}, young: map[string]bool{},
		recreated: map[string]bool{}}
}

// Snapshot is a copy of what the broker has at the moment.
func (b *Broker) Snapshot() topology.Topology { return b.Clone() }

// Actual is the topology that a reader of the broker hands to Diff. It has the objects that desired names, and the
// bindings of the exchanges that it owns. It also has the bindings of others that lead to objects to be recreated.
func (b *Broker) Actual(desired topology.Topology) topology.Topology {
	actual := b.Part(desired)
	differences := topology.Diff(desired, actual)
	maps.Copy(actual.Bindings, b.inbound(differences.WrongExchanges, differences.WrongQueues))
	return actual
}

// Teardown is the plan for the topology that a reader of the broker hands to it. If the plan needs them, that has the
// bindings of others to the exchanges that desired owns, and to its queues.
func (b *Broker) Teardown(desired topology.Topology, guard plan.Guard) plan.Plan {
	actual := b.Part(desired)
	if plan.NeedsInbound(desired, guard) {
		exchanges := slices.DeleteFunc(slices.Collect(maps.Keys(actual.Exchanges)),
			func(name string) bool { return !desired.Owns(name) })
		maps.Copy(actual.Bindings, b.inbound(exchanges, slices.Collect(maps.Keys(actual.Queues))))
	}
	return plan.Teardown(desired, actual, guard)
}

// Rebuild is the plan for what a reader of the broker hands to it.
func (b *Broker) Rebuild(before, after topology.Topology, guard plan.Guard) plan.Plan {
	actual := b.Part(plan.Union(before, after))
	exchanges, queues := slices.Collect(maps.Keys(before.Exchanges)), slices.Collect(maps.Keys(before.Queues))
	exchanges = slices.DeleteFunc(exchanges, func(name string) bool { return !before.Owns(name) })
	if plan.RebuildsDelivery(before, after, actual) {
		exchanges = append(exchanges, after.Delivery)
		for binding := range b.Bindings {
			if binding.Source == after.Delivery {
				actual.Bindings.Add(binding)
			}
		}
	}
	maps.Copy(actual.Bindings, b.inbound(exchanges, queues))
	return plan.Rebuild(before, after, actual, guard)
}

func (b *Broker) inbound(exchanges, queues []string) topology.Bindings {
	found := topology.Bindings{}
	for binding := range b.Bindings {
		destinations := queues
		if binding.DestinationType == topology.ToExchange {
			destinations = exchanges
		}
		if slices.Contains(destinations, binding.Destination) {
			found.Add(binding)
		}
	}
	return found
}

// Run runs the plan by the engine's runner, one step after the other.
func (b *Broker) Run(todo plan.Plan) error {
	_, err := b.run(todo)
	return err
}

func (b *Broker) run(todo plan.Plan) (done []plan.Step, err error) {
	clear(b.young) // those that a plan before has declared are old by now
	clear(b.recreated)
	for _, phase := range todo {
		for _, step := range phase.Steps {
			if declare, is := step.(plan.DeclareQueue); is && phase.Recreates != "" {
				b.recreated[declare.Queue.Name] = true
			}
		}
	}
	return engine.RunOn(context.Background(), b.step, b.arranged(todo))
}

// arranged is the plan with its steps in the order of Arrange.
func (b *Broker) arranged(todo plan.Plan) plan.Plan {
	if b.Arrange == nil {
		return todo
	}
	arranged := slices.Clone(todo)
	for i, phase := range arranged {
		arranged[i].Steps = b.Arrange(phase.Steps)
		if phase.Undo != nil {
			arranged[i].Undo = func(done []plan.Step) plan.Plan { return b.arranged(phase.Undo(done)) }
		}
	}
	return arranged
}

// Step runs one step that belongs to no plan, without an undo.
func (b *Broker) Step(step plan.Step) error {
	defer clear(b.young)
	_, err := b.step(step)
	return err
}

func (b *Broker) step(step plan.Step) (changed bool, err error) {
	if b.Before != nil {
		if err := b.Before(step); errors.Is(err, ErrLost) {
			_, _ = step.Do(context.Background(), b)
			return true, err
		} else if err != nil {
			return false, err
		}
	}
	if changed, err = step.Do(context.Background(), b); err == nil && b.After != nil {
		b.After(step)
	}
	return changed, err
}

// IsRefusal tells whether the error is that of a step that would lose messages or others' bindings.
func IsRefusal(err error) bool {
	_, isNotEmpty := errors.AsType[*drain.NotEmptyError](err)
	return isNotEmpty || rabbit.IsKind(err, rabbit.InUse)
}

// refused is the error of a broker that refuses a step.
func refused(kind rabbit.Kind, step plan.Step, reason string) error {
	return &rabbit.Error{Kind: kind, Op: step.String(), Reason: reason}
}

var _ plan.Target = (*Broker)(nil)

// DeclareExchange declares an exchange.
func (b *Broker) DeclareExchange(_ context.Context, s plan.DeclareExchange) (bool, error) {
	have, exists := b.Exchanges[s.Exchange.Name]
	if exists {
		return false, refuse(s, have.Equal(s.Exchange), s.New)
	}
	b.Exchanges[s.Exchange.Name] = s.Exchange
	return true, nil
}

// DeclareQueue declares a queue.
func (b *Broker) DeclareQueue(_ context.Context, s plan.DeclareQueue) (bool, error) {
	have, exists := b.Queues[s.Queue.Name]
	if exists {
		return false, refuse(s, have.Equal(s.Queue), s.New)
	}
	b.young[s.Queue.Name] = s.Queue.Type() == "quorum" && !b.recreated[s.Queue.Name]
	b.Queues[s.Queue.Name] = s.Queue
	return true, nil
}

// refuse is the error of a declaration that finds its object.
func refuse(step plan.Step, isEqual, isNew bool) error {
	switch {
	case !isEqual:
		return refused(rabbit.Conflict, step, "inequivalent arg")
	case isNew:
		return refused(rabbit.Exists, step, "it exists already")
	}
	return nil
}

// Bind makes a binding of what exists.
func (b *Broker) Bind(_ context.Context, s plan.Bind) (bool, error) {
	binding := s.Binding
	if binding.DestinationType == topology.ToQueue && b.young[binding.Destination] {
		return false, fmt.Errorf("queue %q would lose what comes into it if its node was killed", binding.Destination)
	}
	if !b.Has(binding.Source) {
		return false, refused(rabbit.NotFound, s, fmt.Sprintf("no exchange %q", binding.Source))
	}
	if !b.Takes(binding) {
		return false, refused(rabbit.NotFound, s, fmt.Sprintf("no %s %q", binding.DestinationType, binding.Destination))
	}
	b.Topology.Bind(binding)
	return true, nil
}

// Unbind deletes a binding.
func (b *Broker) Unbind(_ context.Context, s plan.Unbind) (bool, error) {
	b.dropBindings(func(binding topology.Binding) bool { return binding == s.Binding })
	return true, nil
}

// DeleteExchange deletes an exchange with its bindings.
func (b *Broker) DeleteExchange(_ context.Context, s plan.DeleteExchange) (bool, error) {
	if s.IfUnused {
		for _, binding := range slices.Concat(b.Bindings.Sorted(), b.Owners.Sorted()) {
			if binding.Source == s.Name {
				return false, refused(rabbit.InUse, s, "in use")
			}
		}
	}
	delete(b.Exchanges, s.Name)
	b.dropBindings(func(binding topology.Binding) bool {
		return binding.Source == s.Name || binding.LeadsTo(topology.ToExchange, s.Name)
	})
	return true, nil
}

// DeleteQueue deletes a queue with its messages.
func (b *Broker) DeleteQueue(_ context.Context, s plan.DeleteQueue) (bool, error) {
	name := s.Queue.Name
	if s.IfEmpty && b.Messages[name] > 0 {
		return false, notEmpty(s.String(), name, b.Messages[name])
	}
	delete(b.Queues, name)
	delete(b.Messages, name)
	b.dropBindings(func(binding topology.Binding) bool { return binding.LeadsTo(topology.ToQueue, name) })
	return true, nil
}

func notEmpty(why, queue string, messages int64) error {
	return &drain.NotEmptyError{Vhost: "/", Why: why, Queues: []drain.QueueDepth{{Name: queue, Messages: messages}}}
}

// SetPolicy sets a policy.
func (b *Broker) SetPolicy(_ context.Context, s plan.SetPolicy) (bool, error) {
	b.Policies[s.Policy.Name] = s.Policy
	return true, nil
}

// DeletePolicy deletes a policy.
func (b *Broker) DeletePolicy(_ context.Context, s plan.DeletePolicy) (bool, error) {
	delete(b.Policies, s.Name)
	return true, nil
}

// AwaitDurable has the new queues become old.
func (b *Broker) AwaitDurable(context.Context, plan.AwaitDurable) error {
	clear(b.young)
	return nil
}

// VerifyAllowed allows everything.
func (b *Broker) VerifyAllowed(context.Context, plan.VerifyAllowed) error { return nil }

// VerifyAlone looks for other bindings of the exchange.
func (b *Broker) VerifyAlone(_ context.Context, s plan.VerifyAlone) error {
	for binding := range b.Bindings {
		if binding.Source == s.Binding.Source && binding != s.Binding {
			return refused(rabbit.Exists, s, "something else is bound")
		}
	}
	return nil
}

// VerifyBound looks at the bindings of others.
func (b *Broker) VerifyBound(_ context.Context, s plan.VerifyBound) error {
	return s.Compare(b.Bindings)
}

// VerifyEmpty looks for messages, and lets delay queues run empty if there is time for that.
func (b *Broker) VerifyEmpty(_ context.Context, s plan.VerifyEmpty) error {
	for _, q := range s.Queues {
		if q.Delays() && b.Drains && s.Wait > 0 {
			b.Messages[q.Name] = 0
		}
		if waiting := b.Messages[q.Name]; waiting > 0 {
			return notEmpty(s.Why, q.Name, waiting)
		}
	}
	return nil
}

// VerifyOwner looks for the marks of others on the entry.
func (b *Broker) VerifyOwner(_ context.Context, s plan.VerifyOwner) error {
	marks := b.Owners.Where(func(mark topology.Binding) bool { return mark.Source == s.Of.Entry })
	if s.Of.IsOfOthers(topology.Topology{Owners: topology.NewBindings(marks...)}) {
		return &engine.OwnerError{Meanwhile: true}
	}
	return nil
}

// dropBindings removes bindings, and with its last one each exchange that is auto-delete.
func (b *Broker) dropBindings(gone func(topology.Binding) bool) {
	lost, left := map[string]bool{}, map[string]bool{}
	b.Topology.Unbind(func(binding topology.Binding) bool {
		if gone(binding) {
			lost[binding.Source] = true
			return true
		}
		left[binding.Source] = true
		return false
	})
	for source := range lost {
		if b.Exchanges[source].AutoDelete && !left[source] {
			// It only fails if the exchange is in use.
			_, _ = b.DeleteExchange(context.Background(), plan.DeleteExchange{Name: source})
		}
	}
}
