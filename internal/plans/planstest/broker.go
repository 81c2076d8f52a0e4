// Package planstest is a broker in memory that plans run on, and what stands around a topology there.
package planstest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
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
	Arrange func([]plans.Step) []plans.Step
	// Before, if set, is called before every step; an error fails the step.
	Before func(plans.Step) error
	// After, if set, is called after every step that succeeded.
	After func(plans.Step)
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
	actual := b.Within(desired)
	exchanges, queues := plans.Recreated(desired, actual)
	maps.Copy(actual.Bindings, b.inbound(exchanges, queues))
	return actual
}

// Teardown is the plan for the topology that a reader of the broker hands to it. If the plan needs them, that has the
// bindings of others to the exchanges that desired owns, and to its queues.
func (b *Broker) Teardown(desired topology.Topology, guard plans.Guard) plans.Plan {
	actual := b.Within(desired)
	if plans.NeedsInbound(desired, guard) {
		exchanges := slices.DeleteFunc(slices.Collect(maps.Keys(actual.Exchanges)),
			func(name string) bool { return !desired.Owns(name) })
		maps.Copy(actual.Bindings, b.inbound(exchanges, slices.Collect(maps.Keys(actual.Queues))))
	}
	return plans.Teardown(desired, actual, guard)
}

// Rebuild is the plan for what a reader of the broker hands to it.
func (b *Broker) Rebuild(before, after topology.Topology, guard plans.Guard) plans.Plan {
	actual := b.Within(plans.Union(before, after))
	exchanges, queues := slices.Collect(maps.Keys(before.Exchanges)), slices.Collect(maps.Keys(before.Queues))
	exchanges = slices.DeleteFunc(exchanges, func(name string) bool { return !before.Owns(name) })
	if plans.RebuildsDelivery(before, after, actual) {
		exchanges = append(exchanges, after.Delivery)
		for binding := range b.Bindings {
			if binding.Source == after.Delivery {
				actual.Bindings.Add(binding)
			}
		}
	}
	maps.Copy(actual.Bindings, b.inbound(exchanges, queues))
	return plans.Rebuild(before, after, actual, guard)
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
func (b *Broker) Run(plan plans.Plan) error {
	clear(b.young) // those that a plan before has declared are old by now
	var refused error
	var done []plans.Step
	left := map[string]bool{}
	for _, phase := range plan {
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

func (b *Broker) phase(phase plans.Phase, done *[]plans.Step) error {
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

func (b *Broker) arranged(steps []plans.Step) []plans.Step {
	if b.Arrange == nil {
		return steps
	}
	return b.Arrange(steps)
}

// undo runs all steps of which nothing is missing that their phase needs.
func (b *Broker) undo(plan plans.Plan) (err error) {
	missing := map[string]bool{}
	for _, phase := range plan {
		isMissing := slices.ContainsFunc(phase.Needs, func(object string) bool { return missing[object] })
		failed := isMissing
		for _, step := range b.arranged(phase.Steps) {
			var failure error
			if !isMissing {
				failure = b.step(step)
			}
			if isMissing || failure != nil {
				missing[plans.Needed(step)] = true
			}
			if failure == nil {
				continue
			}
			failed = true
			err = errors.Join(err, fmt.Errorf("%s: %w", step, failure))
			if _, looks := step.(plans.VerifyEmpty); looks {
				return err
			}
		}
		if failed && !isMissing && phase.Undo != nil {
			err = errors.Join(err, b.undo(phase.Undo(nil)))
		}
	}
	return err
}

// Step runs one step, without an undo.
func (b *Broker) Step(step plans.Step) error { return b.step(step) }

func (b *Broker) step(step plans.Step) error {
	if b.Before != nil {
		if err := b.Before(step); err != nil {
			return err
		}
	}
	if err := b.execute(step); err != nil {
		return err
	}
	if b.After != nil {
		b.After(step)
	}
	return nil
}

func (b *Broker) execute(step plans.Step) error {
	switch s := step.(type) {
	case plans.DeclareExchange:
		return b.declareExchange(s)
	case plans.DeclareQueue:
		return b.declareQueue(s)
	case plans.Bind:
		return b.bind(s.Binding)
	case plans.Unbind:
		b.dropBindings(func(binding topology.Binding) bool { return binding == s.Binding })
		return nil
	case plans.DeleteExchange:
		return b.deleteExchange(s)
	case plans.DeleteQueue:
		return b.deleteQueue(s)
	case plans.VerifyEmpty:
		return b.verifyEmpty(s)
	case plans.VerifyAlone:
		return b.verifyAlone(s)
	case plans.SetPolicy:
		b.Policies[s.Policy.Name] = s.Policy
		return nil
	case plans.DeletePolicy:
		delete(b.Policies, s.Name)
		return nil
	case plans.AwaitDurable:
		clear(b.young)
		return nil
	case plans.VerifyAllowed:
		return nil
	default:
		return fmt.Errorf("the model knows no step %T", step)
	}
}

func (b *Broker) declareExchange(s plans.DeclareExchange) error {
	have, exists := b.Exchanges[s.Exchange.Name]
	switch {
	case exists && !have.Equal(s.Exchange):
		return errors.New("inequivalent arg")
	case exists && s.New:
		return ErrExists
	}
	b.Exchanges[s.Exchange.Name] = s.Exchange
	return nil
}

func (b *Broker) declareQueue(s plans.DeclareQueue) error {
	have, exists := b.Queues[s.Queue.Name]
	switch {
	case exists && !have.Equal(s.Queue):
		return errors.New("inequivalent arg")
	case exists && s.New:
		return ErrExists
	}
	b.young[s.Queue.Name] = !exists && s.Queue.Type() == "quorum" && !b.recreating
	b.Queues[s.Queue.Name] = s.Queue
	return nil
}

// ErrExists is the error of a declaration that must not find what it declares.
var ErrExists = errors.New("it exists already")

func (b *Broker) verifyAlone(s plans.VerifyAlone) error {
	for binding := range b.Bindings {
		if binding.Source == s.Binding.Source && binding != s.Binding {
			return ErrExists
		}
	}
	return nil
}

func (b *Broker) bind(binding topology.Binding) error {
	if binding.DestinationType == topology.ToQueue && b.young[binding.Destination] {
		return fmt.Errorf("queue %q would lose what comes into it if its node was killed", binding.Destination)
	}
	_, from := b.Exchanges[binding.Source]
	if !from {
		return fmt.Errorf("no exchange %q", binding.Source)
	}
	_, toExchange := b.Exchanges[binding.Destination]
	_, toQueue := b.Queues[binding.Destination]
	if binding.DestinationType == topology.ToExchange && !toExchange || binding.DestinationType == topology.ToQueue &&
		!toQueue {
		return fmt.Errorf("no %s %q", binding.DestinationType, binding.Destination)
	}
	b.Bindings.Add(binding)
	return nil
}

func (b *Broker) deleteExchange(s plans.DeleteExchange) error {
	if s.IfUnused {
		for binding := range b.Bindings {
			if binding.Source == s.Name {
				return Refusal("in use")
			}
		}
	}
	delete(b.Exchanges, s.Name)
	b.dropBindings(func(binding topology.Binding) bool {
		return binding.Source == s.Name || binding.DestinationType == topology.ToExchange &&
			binding.Destination == s.Name
	})
	return nil
}

func (b *Broker) deleteQueue(s plans.DeleteQueue) error {
	name := s.Queue.Name
	if s.IfEmpty && b.Messages[name] > 0 {
		return Refusal("not empty")
	}
	delete(b.Queues, name)
	delete(b.Messages, name)
	b.dropBindings(func(binding topology.Binding) bool {
		return binding.DestinationType == topology.ToQueue && binding.Destination == name
	})
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
			_ = b.deleteExchange(plans.DeleteExchange{Name: source}) // only fails if it is in use
		}
	}
}

func (b *Broker) verifyEmpty(s plans.VerifyEmpty) error {
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
