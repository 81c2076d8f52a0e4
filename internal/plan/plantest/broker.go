// Package plantest is a broker in memory that plans run on, and what stands around a topology there.
package plantest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
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
	// Before, if set, is called before every step; an error fails the step.
	Before func(plan.Step) error
	// After, if set, is called after every step that succeeded.
	After func(plan.Step)
	// young are the quorum queues of a plan that no AwaitDurable has come after. None may be bound. A queue that a
	// recreation declares, or its undo, is not among them: messages flow meanwhile.
	young      map[string]bool
	recreating bool
}

// NewBroker returns a broker that holds a copy of the topology.
func NewBroker(t topology.Topology) *Broker {
	return &Broker{Topology: t.Clone(), Messages: map[string]int64{}, young: map[string]bool{}}
}

// Snapshot is a copy of what the broker has at the moment.
func (b *Broker) Snapshot() topology.Topology { return b.Clone() }

// Actual is the topology that a reader of the broker hands to Diff. It has the objects that desired names, and the
// bindings of the exchanges that it owns. It also has the bindings of others that lead to objects to be recreated.
func (b *Broker) Actual(desired topology.Topology) topology.Topology {
	actual := b.Part(desired)
	exchanges, queues := plan.Recreated(desired, actual)
	maps.Copy(actual.Bindings, b.inbound(exchanges, queues))
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

// Refusal is the error of a step that would lose messages or others' bindings.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Run executes the plan. When a step fails, it leaves out the rest of the phase, runs the phase's undo and returns the
// error. It does so at once, or at the end if all that is refused is to recreate an object.
func (b *Broker) Run(todo plan.Plan) error {
	clear(b.young) // those that a plan before has declared are old by now
	var refused error
	var done []plan.Step
	left := map[string]bool{}
	for _, phase := range todo {
		if left[phase.Recreates] || slices.ContainsFunc(phase.Needs, func(object string) bool { return left[object] }) {
			continue
		}
		err := b.phase(phase, &done)
		var refusal Refusal
		if err != nil && (phase.Recreates == "" || !errors.As(err, &refusal)) {
			return errors.Join(refused, err)
		}
		if err != nil {
			left[phase.Recreates] = true
			refused = errors.Join(refused, err)
		}
	}
	return refused
}

func (b *Broker) phase(phase plan.Phase, done *[]plan.Step) error {
	b.recreating = phase.Recreates != ""
	defer func() { b.recreating = false }()
	for _, step := range b.arranged(phase.Steps) {
		if err := b.step(step); err != nil {
			err = fmt.Errorf("%s: %w", step, err)
			if phase.Undo == nil {
				return err
			}
			if undo := b.undo(phase.Undo(*done)); undo != nil {
				err = fmt.Errorf("%w, and undo: %v", err, undo) //nolint:errorlint // what failed is the step
			}
			return err
		}
		*done = append(*done, step)
	}
	return nil
}

func (b *Broker) arranged(steps []plan.Step) []plan.Step {
	if b.Arrange == nil {
		return steps
	}
	return b.Arrange(steps)
}

// undo runs all steps of which nothing is missing that their phase needs.
func (b *Broker) undo(todo plan.Plan) (err error) {
	missing := map[string]bool{}
	lack := func(step plan.Step) {
		if step.Makes() {
			missing[step.Object()] = true
		}
	}
	for _, phase := range todo {
		if slices.ContainsFunc(phase.Needs, func(object string) bool { return missing[object] }) {
			for _, step := range phase.Steps {
				lack(step)
			}
			continue
		}
		failed := false
		for _, step := range b.arranged(phase.Steps) {
			failure := b.step(step)
			if failure == nil {
				continue
			}
			failed = true
			lack(step)
			err = errors.Join(err, fmt.Errorf("%s: %w", step, failure))
			if step.Object() == "" {
				return err
			}
		}
		if failed && phase.Undo != nil {
			err = errors.Join(err, b.undo(phase.Undo(nil)))
		}
	}
	return err
}

// Step runs one step that belongs to no plan, without an undo.
func (b *Broker) Step(step plan.Step) error {
	defer clear(b.young)
	return b.step(step)
}

func (b *Broker) step(step plan.Step) error {
	if b.Before != nil {
		if err := b.Before(step); err != nil {
			return err
		}
	}
	if _, err := step.Do(context.Background(), b); err != nil {
		return err
	}
	if b.After != nil {
		b.After(step)
	}
	return nil
}

var _ plan.Target = (*Broker)(nil)

// DeclareExchange declares an exchange.
func (b *Broker) DeclareExchange(_ context.Context, s plan.DeclareExchange) (bool, error) {
	have, exists := b.Exchanges[s.Exchange.Name]
	if exists {
		return false, refuse(have.Equal(s.Exchange), s.New)
	}
	b.Exchanges[s.Exchange.Name] = s.Exchange
	return true, nil
}

// DeclareQueue declares a queue.
func (b *Broker) DeclareQueue(_ context.Context, s plan.DeclareQueue) (bool, error) {
	have, exists := b.Queues[s.Queue.Name]
	if exists {
		return false, refuse(have.Equal(s.Queue), s.New)
	}
	b.young[s.Queue.Name] = s.Queue.Type() == "quorum" && !b.recreating
	b.Queues[s.Queue.Name] = s.Queue
	return true, nil
}

// ErrExists is the error of a declaration that must not find what it declares.
var ErrExists = errors.New("it exists already")

// refuse is the error of a declaration that finds its object.
func refuse(isEqual, isNew bool) error {
	switch {
	case !isEqual:
		return errors.New("inequivalent arg")
	case isNew:
		return ErrExists
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
		return false, fmt.Errorf("no exchange %q", binding.Source)
	}
	if !b.Takes(binding) {
		return false, fmt.Errorf("no %s %q", binding.DestinationType, binding.Destination)
	}
	b.Bindings.Add(binding)
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
		for binding := range b.Bindings {
			if binding.Source == s.Name {
				return false, Refusal("in use")
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
		return false, Refusal("not empty")
	}
	delete(b.Queues, name)
	delete(b.Messages, name)
	b.dropBindings(func(binding topology.Binding) bool { return binding.LeadsTo(topology.ToQueue, name) })
	return true, nil
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
			return ErrExists
		}
	}
	return nil
}

// VerifyEmpty looks for messages, and lets delay queues run empty if there is time for that.
func (b *Broker) VerifyEmpty(_ context.Context, s plan.VerifyEmpty) error {
	for _, q := range s.Queues {
		if q.Delays() && b.Drains && s.Wait > 0 {
			b.Messages[q.Name] = 0
		}
		if waiting := b.Messages[q.Name]; waiting > 0 {
			return Refusal(fmt.Sprintf("%d messages wait in %q", waiting, q.Name))
		}
	}
	return nil
}

// dropBindings removes bindings, and with its last one each exchange that is auto-delete.
func (b *Broker) dropBindings(gone func(topology.Binding) bool) {
	lost, left := map[string]bool{}, map[string]bool{}
	maps.DeleteFunc(b.Bindings, func(binding topology.Binding, _ struct{}) bool {
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
