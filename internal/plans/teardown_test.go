package plans_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans/planstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// A teardown leaves nothing behind but the delivery exchange and touches nothing else. That goes afterwards, unless
// something is bound to it.
func TestTeardownRemovesTheCascadeAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := planstest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := deployed(t, desired)
		for range rapid.IntRange(0, 3).Draw(t, "losses") {
			anyLoss(t, b, desired)
		}
		others := withoutDestinationsOf(othersOf(b, desired), desired)
		if _, exists := b.Queues["t.unroutable"]; exists {
			b.Bindings.Add(topologytest.ToQueue(planstest.Feed, "parked.#", "t.unroutable"))
		}
		inAnyOrder(t, b)
		guard := anyGuard(t, b)
		if !guard.Force {
			closesBeforeDeleting(b)
		}
		plan := b.Teardown(desired, guard)
		if guard.Force && slices.ContainsFunc(plan.Steps(), isUnbind) {
			t.Fatal("a forced teardown unbinds what it deletes")
		}
		if err := b.Run(plan); err != nil {
			t.Fatal(err)
		}
		if _, owned := desired.Exchanges[desired.Delivery]; owned {
			letGo(t, b, desired.Delivery, guard.Force)
		}
		same(t, b.Snapshot(), others, "after the teardown")
	})
}

// anyGuard draws a treatment of messages, and puts some where they do not stop that.
func anyGuard(t *rapid.T, b *planstest.Broker) plans.Guard {
	guard := plans.Guard{Force: rapid.Bool().Draw(t, "force")}
	if !guard.Force && rapid.Bool().Draw(t, "drain") {
		guard.Drain, b.Drains = time.Minute, true
	}
	if _, exists := b.Queues["t.delay-00"]; exists && (guard.Force || guard.Drain > 0) {
		b.Messages["t.delay-00"] = 3
	}
	return guard
}

// closesBeforeDeleting fails the deletion of a queue into which a message could still come.
func closesBeforeDeleting(b *planstest.Broker) {
	b.Before = func(step plans.Step) error {
		if deletion, ok := step.(plans.DeleteQueue); ok {
			return needed(b, deletion)
		}
		return nil
	}
}

func isUnbind(step plans.Step) bool {
	_, unbinds := step.(plans.Unbind)
	return unbinds
}

// letGo deletes the delivery exchange, which is refused while something is bound to it, unless that is forced.
func letGo(t *rapid.T, b *planstest.Broker, delivery string, force bool) {
	bound := slices.ContainsFunc(b.Bindings.Sorted(), func(b topology.Binding) bool { return b.Source == delivery })
	err := b.Run(plans.LetGo(delivery, force))
	if refused := err != nil; refused != (bound && !force) {
		t.Fatalf("something is bound to the delivery exchange: %t; to let go of it: %v", bound, err)
	}
	if err == nil {
		return
	}
	if err := b.Run(plans.LetGo(delivery, true)); err != nil {
		t.Fatal(err)
	}
}

// Whatever holds a message, it is found before anything is touched.
func TestTeardownRefusesWhileMessagesWait(t *testing.T) {
	desired := planstest.Expand(t, cascade.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true,
		ParkUnroutable: true})
	for _, test := range []struct {
		guard plans.Guard
		queue string
	}{
		{plans.Guard{}, "t.delay-00"},
		{plans.Guard{}, "t.delay-03"},
		{plans.Guard{}, "t.unroutable"},
		{plans.Guard{Drain: time.Minute}, "t.unroutable"},
	} {
		b := deployed(t, desired)
		b.Drains = true
		b.Messages[test.queue] = 2
		before := b.Snapshot()
		touched := 0
		b.After = func(plans.Step) { touched++ }
		err := b.Run(b.Teardown(desired, test.guard))
		if want := fmt.Sprintf("2 messages wait in %q", test.queue); err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%+v: got %v", test, err)
		}
		if touched > 0 {
			t.Errorf("%+v: %d steps ran", test, touched)
		}
		same(t, b.Snapshot(), before, fmt.Sprint(test))
	}
}

func TestTeardownRestoresTheEntryIfItDoesNotRunEmpty(t *testing.T) {
	desired := planstest.Expand(t, cascade.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true})
	b := deployed(t, desired)
	b.Messages["t.delay-02"] = 2
	before := b.Snapshot()
	closed := false
	b.After = func(plans.Step) {
		if _, open := b.Exchanges[desired.Entry]; !open {
			closed = true
		}
	}
	err := b.Run(b.Teardown(desired, plans.Guard{Drain: time.Minute}))
	if err == nil || !strings.Contains(err.Error(), `2 messages wait in "t.delay-02"`) || !closed {
		t.Errorf("got %v, entry closed: %t", err, closed)
	}
	same(t, b.Snapshot(), before, "after the refusal")
}

// A message that comes in at any moment of a teardown is not lost. Everything is there again, with all bindings, or the
// message came too late to get in.
func TestTeardownLosesNoMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := planstest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := deployed(t, desired)
		before := b.Snapshot()
		plan := b.Teardown(desired, plans.Guard{})
		queue := rapid.SampledFrom(slices.Sorted(maps.Keys(desired.Queues))).Draw(t, "queue")
		at := rapid.IntRange(0, len(plan.Steps())).Draw(t, "moment")
		inAnyOrder(t, b)
		step, arrived := 0, false
		b.Before = func(plans.Step) error {
			if _, exists := b.Queues[queue]; exists && step == at {
				b.Messages[queue]++
				arrived = true
			}
			step++
			return nil
		}
		err := b.Run(plan)
		if arrived != (err != nil) || arrived != (b.Messages[queue] == 1) {
			t.Fatalf("message in %q at step %d: %t, in the end %d there and %v", queue, at, arrived, b.Messages[queue],
				err)
		}
		if arrived {
			same(t, b.Snapshot(), before, "after the refusal")
		}
	})
}

// A teardown that fails anywhere restores everything.
func TestTeardownRestoresWhatItRemovedIfItFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := planstest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := deployed(t, desired)
		b.Bindings.Add(topologytest.ToQueue(desired.Entry, "foreign", planstest.Audit))
		before := b.Snapshot()
		plan := b.Teardown(desired, plans.Guard{})
		inAnyOrder(t, b)
		failAt(b, rapid.IntRange(0, len(plan.Steps())-1).Draw(t, "failing step"))
		if err := b.Run(plan); !errors.Is(err, errInjected) {
			t.Fatalf("got %v", err)
		}
		same(t, b.Snapshot(), before, "after the failure")
	})
}

// Each queue is deleted with the names of all that led into it, which is closed by then.
func TestTeardownNamesSources(t *testing.T) {
	for _, lookahead := range []int{1, 3, 0} {
		desired := planstest.Expand(t, cascade.Config{Name: "t", Levels: 28, Lookahead: lookahead,
			CreateDeliveryExchange: true,
			ParkUnroutable:         true})
		b := deployed(t, desired)
		closed := map[string]bool{}
		deleted := 0
		for _, step := range b.Teardown(desired, plans.Guard{}).Steps() {
			switch s := step.(type) {
			case plans.Unbind:
				closed[s.Binding.Source] = true
			case plans.DeleteExchange:
				closed[s.Name] = true
			case plans.DeleteQueue:
				deleted++
				namesSources(t, s, b.Bindings, closed)
			}
		}
		if deleted != len(desired.Queues) {
			t.Errorf("%d of %d queues are deleted", deleted, len(desired.Queues))
		}
	}
}

// namesSources makes sure that a deletion names all sources of its queue, and that these are closed.
func namesSources(t *testing.T, deletion plans.DeleteQueue, bindings topology.Bindings, closed map[string]bool) {
	t.Helper()
	sources := map[string]bool{}
	for binding := range bindings {
		if binding.DestinationType == topology.ToQueue && binding.Destination == deletion.Queue.Name {
			sources[binding.Source] = true
		}
	}
	if want := slices.Sorted(maps.Keys(sources)); len(want) == 0 ||
		!slices.Equal(slices.Sorted(slices.Values(deletion.Sources)), want) {
		t.Errorf("%s names %q, not %q", deletion, deletion.Sources, want)
	}
	for _, source := range deletion.Sources {
		if !closed[source] {
			t.Errorf("%s while %q is open", deletion, source)
		}
	}
}

// A restored exchange is bound onwards before others are bound to it.
func TestTeardownRestoresTheEntryBeforeWhatLeadsToIt(t *testing.T) {
	c := cascade.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true}
	desired := planstest.Expand(t, c)
	b := deployed(t, desired)
	b.Bindings.Add(topologytest.ToExchange(planstest.Feed, "1.0.1.#", desired.Entry))
	plan := b.Teardown(desired, plans.Guard{Drain: time.Minute})
	b.After = func(step plans.Step) {
		if b.Bindings.Has(topologytest.ToExchange(planstest.Feed, "1.0.1.#", desired.Entry)) {
			if reached := topologytest.Route(b.Snapshot(), planstest.Feed, "1.0.1.destination"); !slices.Equal(reached,
				[]string{"t.delay-02"}) {
				t.Errorf("after %s, the planstest.Feed reaches %q", step, reached)
			}
		}
	}
	b.Messages["t.delay-00"] = 1
	if err := b.Run(plan); err == nil {
		t.Error("the teardown went through")
	}
}

// What others had bound, and have removed or forbidden meanwhile, is all that a refused teardown does not restore.
func TestTeardownRestoresBesidesWhatOthersRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := planstest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := deployed(t, desired)
		wanted := b.Snapshot()
		maps.DeleteFunc(wanted.Bindings, func(binding topology.Binding, _ struct{}) bool {
			return binding.Source == planstest.Feed && binding.RoutingKey == "lowest.#"
		})
		plan := b.Teardown(desired, plans.Guard{})
		inAnyOrder(t, b)
		fails := slices.IndexFunc(plan.Steps(), func(step plans.Step) bool {
			_,
				deletes := step.(plans.DeleteQueue)
			return deletes
		})
		step := 0
		b.Before = func(s plans.Step) error {
			defer func() { step++ }()
			if bind, ok := s.(plans.Bind); step == fails || ok && !wanted.Bindings.Has(bind.Binding) {
				return errInjected
			}
			return nil
		}
		if err := b.Run(plan); !errors.Is(err, errInjected) {
			t.Fatalf("got %v", err)
		}
		same(t, b.Snapshot(), wanted, "after the failure")
	})
}

// What desired does not name is not removed, even if the reader brought it along.
func TestTeardownRemovesOnlyWhatIsDesired(t *testing.T) {
	desired := planstest.Expand(t, cascade.Config{Name: "t", Levels: 2, DeliveryExchange: "company"})
	for _, guard := range []plans.Guard{{}, {Force: true}} {
		b := deployed(t, desired)
		for _, step := range plans.Teardown(desired, b.Snapshot(), guard).Steps() {
			if allowed, ok := step.(plans.VerifyAllowed); ok {
				step = allowed.Step
			}
			if bind, ok := step.(plans.Bind); ok {
				step = plans.Unbind(bind)
			}
			if unbind, ok := step.(plans.Unbind); ok && unbind.Binding == topologytest.ToQueue(planstest.Feed,
				"queue.#", "t.delay-00") {
				continue // goes with the queue
			}
			for _, stranger := range []string{"company", planstest.Application, planstest.Audit, planstest.Feed} {
				if strings.Contains(step.String(), fmt.Sprintf("%q", stranger)) {
					t.Errorf("%+v: %s", guard, step)
				}
			}
		}
	}
}

// An undo after a creation that failed anywhere leaves the objects from before, and only those.
func TestUndoRemovesOnlyWhatWasMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := planstest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := deployed(t, desired)
		for range rapid.IntRange(1, 8).Draw(t, "losses") {
			anyLoss(t, b, desired)
		}
		if rapid.Bool().Draw(t, "from nothing") {
			b = planstest.Around(desired)
		}
		before := b.Snapshot()
		plan := plans.Create(desired, b.Actual(desired), "mark")
		if len(plan) == 0 {
			return
		}
		inAnyOrder(t, b)
		fails := rapid.IntRange(0, len(plan.Steps())-1).Draw(t, "failing step")
		var done []plans.Step
		b.Before = func(step plans.Step) error {
			done = append(done, step) // the one that fails may have had an effect, too
			if len(done) > fails {
				return errInjected
			}
			return nil
		}
		if err := b.Run(plan); !errors.Is(err, errInjected) {
			t.Fatalf("got %v", err)
		}
		b.Before = func(step plans.Step) error {
			if deletion, ok := step.(plans.DeleteQueue); ok && len(b.Queues[deletion.Queue.Name].Name) > 0 {
				return needed(b, deletion)
			}
			return nil
		}
		undo := plans.Undo(desired, done)
		if _, was := before.Exchanges[desired.Delivery]; !was {
			undo = append(undo, plans.LetGo(desired.Delivery, false)...)
		}
		if err := b.Run(undo); err != nil {
			t.Fatal(err)
		}
		same(t, b.Snapshot(), before, "after the undo")
	})
}

func TestUndoKeepsWhatHoldsMessages(t *testing.T) {
	desired := planstest.Expand(t, cascade.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true,
		ParkUnroutable: true})
	for _, queue := range slices.Sorted(maps.Keys(desired.Queues)) {
		b := planstest.Around(desired)
		plan := plans.Repair(desired, b.Actual(desired))
		run(t, b, plan)
		b.Messages[queue] = 1
		made := b.Snapshot()
		if err := b.Run(plans.Undo(desired, plan.Steps())); err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("1 messages wait in %q", queue)) {
			t.Errorf("got %v", err)
		}
		same(t, b.Snapshot(), made, "after the undo")
	}
}

// withoutDestinationsOf takes out the bindings that go with the objects of the cascade.
func withoutDestinationsOf(others, desired topology.Topology) topology.Topology {
	maps.DeleteFunc(others.Bindings, func(b topology.Binding, _ struct{}) bool {
		_, source := desired.Exchanges[b.Source]
		_, exchange := desired.Exchanges[b.Destination]
		_, queue := desired.Queues[b.Destination]
		return source || b.DestinationType == topology.ToExchange && exchange ||
			b.DestinationType == topology.ToQueue && queue
	})
	return others
}
