package topologytest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

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
	Arrange func([]topology.Step) []topology.Step
	// Before, if set, is called before every step; an error fails the step.
	Before func(topology.Step) error
	// After, if set, is called after every step that succeeded.
	After func(topology.Step)
}

// NewBroker returns a broker that holds a copy of the topology.
func NewBroker(t topology.Topology) *Broker {
	return &Broker{Topology: clone(t), Messages: map[string]int64{}}
}

// Snapshot is a copy of what the broker has at the moment.
func (b *Broker) Snapshot() topology.Topology { return clone(b.Topology) }

// Actual is what a reader of the broker hands to Diff: the objects that desired names, the bindings
// of the exchanges that it owns, and those of others that lead to objects to be recreated.
func (b *Broker) Actual(desired topology.Topology) topology.Topology {
	actual := b.Within(desired)
	exchanges, queues := topology.Recreated(desired, actual)
	maps.Copy(actual.Bindings, b.inbound(exchanges, queues))
	return actual
}

// Teardown is the plan for what a reader of the broker hands to it: if it needs that, with what others have bound to the exchanges that
// desired owns, and to its queues.
func (b *Broker) Teardown(desired topology.Topology, guard topology.Guard) topology.Plan {
	actual := b.Within(desired)
	if topology.NeedsInbound(desired, guard) {
		exchanges := slices.DeleteFunc(slices.Collect(maps.Keys(actual.Exchanges)), func(name string) bool { return !desired.Owns(name) })
		maps.Copy(actual.Bindings, b.inbound(exchanges, slices.Collect(maps.Keys(actual.Queues))))
	}
	return topology.Teardown(desired, actual, guard)
}

// Rebuild is the plan for what a reader of the broker hands to it.
func (b *Broker) Rebuild(before, after topology.Topology, guard topology.Guard) topology.Plan {
	actual := b.Within(topology.Union(before, after))
	exchanges, queues := slices.Collect(maps.Keys(before.Exchanges)), slices.Collect(maps.Keys(before.Queues))
	exchanges = slices.DeleteFunc(exchanges, func(name string) bool { return !before.Owns(name) })
	if topology.RebuildsDelivery(before, after, actual) {
		exchanges = append(exchanges, after.Delivery)
		for binding := range b.Bindings {
			if binding.Source == after.Delivery {
				actual.Bindings.Add(binding)
			}
		}
	}
	maps.Copy(actual.Bindings, b.inbound(exchanges, queues))
	return topology.Rebuild(before, after, actual, guard)
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

// Run executes the plan. When a step fails, the rest of its phase is left out, its phase's undo
// runs, and the error is returned: at once, or in the end if all that is refused is to recreate
// an object.
func (b *Broker) Run(plan topology.Plan) error {
	var refused error
	left := map[string]bool{}
	for _, phase := range plan {
		if left[phase.Recreates] || slices.ContainsFunc(phase.Needs, func(object string) bool { return left[object] }) {
			continue
		}
		err := b.phase(phase)
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

func (b *Broker) phase(phase topology.Phase) error {
	for _, step := range b.arranged(phase.Steps) {
		if err := b.step(step); err != nil {
			err = fmt.Errorf("%s: %w", step, err)
			if undo := b.undo(phase.Undo); undo != nil {
				err = fmt.Errorf("%w, and undo: %v", err, undo) //nolint:errorlint // what failed is the step
			}
			return err
		}
	}
	return nil
}

func (b *Broker) arranged(steps []topology.Step) []topology.Step {
	if b.Arrange == nil {
		return steps
	}
	return b.Arrange(steps)
}

// undo runs the phases up to the first of which something fails, and all steps of that one.
func (b *Broker) undo(plan topology.Plan) (err error) {
	for _, phase := range plan {
		for _, step := range b.arranged(phase.Steps) {
			if failure := b.step(step); failure != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", step, failure))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Step runs one step, without an undo.
func (b *Broker) Step(step topology.Step) error { return b.step(step) }

func (b *Broker) step(step topology.Step) error {
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

func (b *Broker) execute(step topology.Step) error {
	switch s := step.(type) {
	case topology.DeclareExchange:
		return b.declareExchange(s)
	case topology.DeclareQueue:
		return b.declareQueue(s)
	case topology.Bind:
		return b.bind(s.Binding)
	case topology.Unbind:
		b.dropBindings(func(binding topology.Binding) bool { return binding == s.Binding })
		return nil
	case topology.DeleteExchange:
		return b.deleteExchange(s)
	case topology.DeleteQueue:
		return b.deleteQueue(s)
	case topology.VerifyEmpty:
		return b.verifyEmpty(s)
	case topology.VerifyAlone:
		return b.verifyAlone(s)
	default:
		return fmt.Errorf("the model knows no step %T", step)
	}
}

func (b *Broker) declareExchange(s topology.DeclareExchange) error {
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

func (b *Broker) declareQueue(s topology.DeclareQueue) error {
	have, exists := b.Queues[s.Queue.Name]
	switch {
	case exists && !have.Equal(s.Queue):
		return errors.New("inequivalent arg")
	case exists && s.New:
		return ErrExists
	}
	b.Queues[s.Queue.Name] = s.Queue
	return nil
}

// ErrExists is the error of a declaration that must not find what it declares.
var ErrExists = errors.New("it exists already")

func (b *Broker) verifyAlone(s topology.VerifyAlone) error {
	for binding := range b.Bindings {
		if binding.Source == s.Binding.Source && binding != s.Binding {
			return ErrExists
		}
	}
	return nil
}

func (b *Broker) bind(binding topology.Binding) error {
	_, from := b.Exchanges[binding.Source]
	if !from {
		return fmt.Errorf("no exchange %q", binding.Source)
	}
	_, toExchange := b.Exchanges[binding.Destination]
	_, toQueue := b.Queues[binding.Destination]
	if binding.DestinationType == topology.ToExchange && !toExchange || binding.DestinationType == topology.ToQueue && !toQueue {
		return fmt.Errorf("no %s %q", binding.DestinationType, binding.Destination)
	}
	b.Bindings.Add(binding)
	return nil
}

func (b *Broker) deleteExchange(s topology.DeleteExchange) error {
	if s.IfUnused {
		for binding := range b.Bindings {
			if binding.Source == s.Name {
				return Refusal("in use")
			}
		}
	}
	delete(b.Exchanges, s.Name)
	b.dropBindings(func(binding topology.Binding) bool {
		return binding.Source == s.Name || binding.DestinationType == topology.ToExchange && binding.Destination == s.Name
	})
	return nil
}

func (b *Broker) deleteQueue(s topology.DeleteQueue) error {
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
			_ = b.deleteExchange(topology.DeleteExchange{Name: source}) // only fails if it is in use
		}
	}
}

func (b *Broker) verifyEmpty(s topology.VerifyEmpty) error {
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

func clone(t topology.Topology) topology.Topology {
	t.Exchanges, t.Queues, t.Bindings = maps.Clone(t.Exchanges), maps.Clone(t.Queues), maps.Clone(t.Bindings)
	return t
}
