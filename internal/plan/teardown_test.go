package plan_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// A teardown leaves nothing behind but the delivery exchange and touches nothing else. That goes afterwards, unless
// something is bound to it.
func TestTeardownRemovesTheCascadeAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := plantest.Deployed(t, desired)
		for range rapid.IntRange(0, 3).Draw(t, "losses") {
			plantest.AnyLoss(t, b, desired)
		}
		others := withoutDestinationsOf(othersOf(b, desired), desired)
		if _, exists := b.Queues["t.unroutable"]; exists {
			b.Bindings.Add(topologytest.ToQueue(plantest.Feed, "parked.#", "t.unroutable"))
		}
		inAnyOrder(t, b)
		guard := anyGuard(t, b)
		if !guard.Force {
			closesBeforeDeleting(b)
		}
		todo := b.Teardown(desired, guard)
		if guard.Force && slices.ContainsFunc(todo.Steps(), isUnbind) {
			t.Fatal("a forced teardown unbinds what it deletes")
		}
		if err := b.Run(todo); err != nil {
			t.Fatal(err)
		}
		if _, owned := desired.Exchanges[desired.Delivery]; owned {
			letGo(t, b, desired.Delivery, guard.Force)
		}
		plantest.Same(t, b.Snapshot(), others, "after the teardown")
	})
}

// anyGuard draws a treatment of messages, and puts some where they do not stop that.
func anyGuard(t *rapid.T, b *plantest.Broker) plan.Guard {
	guard := plan.Guard{Force: rapid.Bool().Draw(t, "force")}
	if !guard.Force && rapid.Bool().Draw(t, "drain") {
		guard.Drain, b.Drains = time.Minute, true
	}
	if _, exists := b.Queues["t.delay-00"]; exists && (guard.Force || guard.Drain > 0) {
		b.Messages["t.delay-00"] = 3
	}
	return guard
}

// closesBeforeDeleting fails the deletion of a queue into which a message could still come.
func closesBeforeDeleting(b *plantest.Broker) {
	b.Before = func(step plan.Step) error {
		if deletion, ok := step.(plan.DeleteQueue); ok {
			return needed(b, deletion)
		}
		return nil
	}
}

func isUnbind(step plan.Step) bool {
	_, unbinds := step.(plan.Unbind)
	return unbinds
}

// letGo deletes the delivery exchange, which is refused while something is bound to it, unless that is forced.
func letGo(t *rapid.T, b *plantest.Broker, delivery string, force bool) {
	bound := slices.ContainsFunc(b.Bindings.Sorted(), func(b topology.Binding) bool { return b.Source == delivery })
	err := b.Run(plan.DeleteShared(delivery, force))
	if refused := err != nil; refused != (bound && !force) {
		t.Fatalf("something is bound to the delivery exchange: %t; to let go of it: %v", bound, err)
	}
	if err == nil {
		return
	}
	if err := b.Run(plan.DeleteShared(delivery, true)); err != nil {
		t.Fatal(err)
	}
}

// Whatever holds a message, it is found before anything is touched.
func TestTeardownRefusesWhileMessagesWait(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true,
		ParkUnroutable: true})
	for _, test := range []struct {
		guard plan.Guard
		queue string
	}{
		{plan.Guard{}, "t.delay-00"},
		{plan.Guard{}, "t.delay-03"},
		{plan.Guard{}, "t.unroutable"},
		{plan.Guard{Drain: time.Minute}, "t.unroutable"},
	} {
		b := plantest.Deployed(t, desired)
		b.Drains = true
		b.Messages[test.queue] = 2
		before := b.Snapshot()
		touched := 0
		b.After = func(plan.Step) { touched++ }
		err := b.Run(b.Teardown(desired, test.guard))
		if want := fmt.Sprintf("2 in queue %q", test.queue); err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%+v: got %v", test, err)
		}
		if touched > 0 {
			t.Errorf("%+v: %d steps ran", test, touched)
		}
		plantest.Same(t, b.Snapshot(), before, fmt.Sprint(test))
	}
}

func TestTeardownRestoresTheEntryIfItDoesNotRunEmpty(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 4, CreateDeliveryExchange: true})
	b := plantest.Deployed(t, desired)
	b.Messages["t.delay-02"] = 2
	before := b.Snapshot()
	closed := false
	b.After = func(plan.Step) {
		if _, open := b.Exchanges[desired.Entry]; !open {
			closed = true
		}
	}
	err := b.Run(b.Teardown(desired, plan.Guard{Drain: time.Minute}))
	if err == nil || !strings.Contains(err.Error(), `2 in queue "t.delay-02"`) || !closed {
		t.Errorf("got %v, entry closed: %t", err, closed)
	}
	plantest.Same(t, b.Snapshot(), before, "after the refusal")
}

// A message that comes in at any moment of a teardown is not lost. Everything is there again, with all bindings, or the
// message came too late to get in.
func TestTeardownLosesNoMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := plantest.Deployed(t, desired)
		before := b.Snapshot()
		todo := b.Teardown(desired, plan.Guard{})
		queue := rapid.SampledFrom(slices.Sorted(maps.Keys(desired.Queues))).Draw(t, "queue")
		at := rapid.IntRange(0, len(todo.Steps())).Draw(t, "moment")
		inAnyOrder(t, b)
		step, arrived := 0, false
		b.Before = func(plan.Step) error {
			if _, exists := b.Queues[queue]; exists && step == at {
				b.Messages[queue]++
				arrived = true
			}
			step++
			return nil
		}
		err := b.Run(todo)
		if arrived != (err != nil) || arrived != (b.Messages[queue] == 1) {
			t.Fatalf("message in %q at step %d: %t, in the end %d there and %v", queue, at, arrived, b.Messages[queue],
				err)
		}
		if arrived {
			plantest.Same(t, b.Snapshot(), before, "after the refusal")
		}
	})
}

// A teardown that fails anywhere restores everything.
func TestTeardownRestoresWhatItRemovedIfItFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := plantest.Deployed(t, desired)
		b.Bindings.Add(topologytest.ToQueue(desired.Entry, "foreign", plantest.Audit))
		before := b.Snapshot()
		todo := b.Teardown(desired, plan.Guard{})
		inAnyOrder(t, b)
		failAt(b, rapid.IntRange(0, len(todo.Steps())-1).Draw(t, "failing step"))
		if err := b.Run(todo); !errors.Is(err, plantest.ErrInjected) {
			t.Fatalf("got %v", err)
		}
		plantest.Same(t, b.Snapshot(), before, "after the failure")
	})
}

// Each queue is deleted with the names of all that led into it, which is closed by then.
func TestTeardownNamesSources(t *testing.T) {
	for _, lookahead := range []int{1, 3, 0} {
		desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 28, Lookahead: lookahead,
			CreateDeliveryExchange: true,
			ParkUnroutable:         true})
		b := plantest.Deployed(t, desired)
		closed := map[string]bool{}
		deleted := 0
		for _, step := range b.Teardown(desired, plan.Guard{}).Steps() {
			switch s := step.(type) {
			case plan.Unbind:
				closed[s.Binding.Source] = true
			case plan.DeleteExchange:
				closed[s.Name] = true
			case plan.DeleteQueue:
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
func namesSources(t *testing.T, deletion plan.DeleteQueue, bindings topology.Bindings, closed map[string]bool) {
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
	c := delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true}
	desired := plantest.Expand(t, c)
	b := plantest.Deployed(t, desired)
	b.Bindings.Add(topologytest.ToExchange(plantest.Feed, "1.0.1.#", desired.Entry))
	todo := b.Teardown(desired, plan.Guard{Drain: time.Minute})
	b.After = func(step plan.Step) {
		if b.Bindings.Has(topologytest.ToExchange(plantest.Feed, "1.0.1.#", desired.Entry)) {
			if reached := topologytest.Route(b.Snapshot(), plantest.Feed, "1.0.1.destination"); !slices.Equal(reached,
				[]string{"t.delay-02"}) {
				t.Errorf("after %s, the plantest.Feed reaches %q", step, reached)
			}
		}
	}
	b.Messages["t.delay-00"] = 1
	if err := b.Run(todo); err == nil {
		t.Error("the teardown went through")
	}
}

// What others had bound, and have removed or forbidden meanwhile, is all that a refused teardown does not restore.
func TestTeardownRestoresBesidesWhatOthersRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := plantest.Deployed(t, desired)
		wanted := b.Snapshot()
		maps.DeleteFunc(wanted.Bindings, func(binding topology.Binding, _ struct{}) bool {
			return binding.Source == plantest.Feed && binding.RoutingKey == "lowest.#"
		})
		todo := b.Teardown(desired, plan.Guard{})
		inAnyOrder(t, b)
		fails := slices.IndexFunc(todo.Steps(), func(step plan.Step) bool {
			_,
				deletes := step.(plan.DeleteQueue)
			return deletes
		})
		step := 0
		b.Before = func(s plan.Step) error {
			defer func() { step++ }()
			if bind, ok := s.(plan.Bind); step == fails || ok && !wanted.Bindings.Has(bind.Binding) &&
				!wanted.Owners.Has(bind.Binding) {
				return plantest.ErrInjected
			}
			return nil
		}
		if err := b.Run(todo); !errors.Is(err, plantest.ErrInjected) {
			t.Fatalf("got %v", err)
		}
		plantest.Same(t, b.Snapshot(), wanted, "after the failure")
	})
}

// What desired does not name is not removed, even if the reader brought it along.
func TestTeardownRemovesOnlyWhatIsDesired(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 2, DeliveryExchange: "company"})
	for _, guard := range []plan.Guard{{}, {Force: true}} {
		b := plantest.Deployed(t, desired)
		for _, step := range plan.Teardown(desired, b.Snapshot(), guard).Steps() {
			if allowed, ok := step.(plan.VerifyAllowed); ok {
				step = allowed.Step
			}
			if bind, ok := step.(plan.Bind); ok {
				step = plan.Unbind(bind)
			}
			if unbind, ok := step.(plan.Unbind); ok && unbind.Binding == topologytest.ToQueue(plantest.Feed,
				"queue.#", "t.delay-00") {
				continue // goes with the queue
			}
			for _, stranger := range []string{"company", plantest.Application, plantest.Audit, plantest.Feed} {
				if strings.Contains(step.String(), fmt.Sprintf("%q", stranger)) {
					t.Errorf("%+v: %s", guard, step)
				}
			}
		}
	}
}

// Publishers may know the exchanges below the entry, and others' bindings lead in beside them. Once these are gone, all
// queues are looked into again. Nothing is unbound from the default exchange, which takes no such order.
func TestTeardownLooksAgain(t *testing.T) {
	for name, test := range map[string]struct {
		levels  int
		parks   bool
		fedBy   string
		want    bool
		unbinds bool
	}{
		"one level":             {1, false, "", false, false},
		"one level, parking":    {1, true, "", true, false},
		"two levels":            {2, false, "", true, false},
		"two levels, parking":   {2, true, "", true, false},
		"a feed":                {1, false, plantest.Feed, true, true},
		"a feed and two levels": {2, false, plantest.Feed, true, true},
		"a feed and parking":    {1, true, plantest.Feed, true, true},
	} {
		desired := plantest.Expand(t, delay.Config{Name: "t", Levels: test.levels, ParkUnroutable: test.parks})
		actual := desired.Clone()
		actual.Bindings.Add(topologytest.ToQueue(test.fedBy, "t.delay-00", "t.delay-00"))
		looks, unbinds := false, false
		for _, step := range plan.Teardown(desired, actual, plan.Guard{}).Steps() {
			look, is := step.(plan.VerifyEmpty)
			looks, unbinds = looks || is && look.NothingMoves, unbinds || isUnbind(step)
		}
		if looks != test.want || unbinds != test.unbinds {
			t.Errorf("%s: it looks again: %t, unbinds: %t", name, looks, unbinds)
		}
	}
}

// A part into which nothing leads any more waits, as well, for the queues that are left.
func TestTeardownOfAnUnboundPart(t *testing.T) {
	part := plantest.ExpandLadder(t, "1s", "5s").Extras(plantest.ExpandLadder(t, "1s"))
	part.Bindings = nil
	todo := plan.Teardown(part, part, plan.Guard{Drain: time.Minute})
	if _, waits := todo.Proves(); !waits {
		t.Errorf("it does not wait: %v", todo.Steps())
	}
}

// An undo after a creation that failed anywhere leaves the objects from before, and only those.
func TestUndoRemovesOnlyWhatWasMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := plantest.Deployed(t, desired)
		for range rapid.IntRange(1, 8).Draw(t, "losses") {
			plantest.AnyLoss(t, b, desired)
		}
		if rapid.Bool().Draw(t, "from nothing") {
			b = plantest.Around(desired)
		}
		before := b.Snapshot()
		todo := plan.Create(desired, b.Actual(desired), "mark")
		if len(todo) == 0 {
			return
		}
		inAnyOrder(t, b)
		fails := rapid.IntRange(0, len(todo.Steps())-1).Draw(t, "failing step")
		var done []plan.Step
		b.Before = func(step plan.Step) error {
			done = append(done, step) // the one that fails may have had an effect, too
			if len(done) > fails {
				return plantest.ErrInjected
			}
			return nil
		}
		if err := b.Run(todo); !errors.Is(err, plantest.ErrInjected) {
			t.Fatalf("got %v", err)
		}
		b.Before = func(step plan.Step) error {
			if deletion, ok := step.(plan.DeleteQueue); ok && len(b.Queues[deletion.Queue.Name].Name) > 0 {
				return needed(b, deletion)
			}
			return nil
		}
		undo := plan.UndoCreate(desired, done)
		if _, was := before.Exchanges[desired.Delivery]; !was {
			undo = append(undo, plan.DeleteShared(desired.Delivery, false)...)
		}
		if err := b.Run(undo); err != nil {
			t.Fatal(err)
		}
		plantest.Same(t, b.Snapshot(), before, "after the undo")
	})
}

func TestUndoKeepsWhatHoldsMessages(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true,
		ParkUnroutable: true})
	for _, queue := range slices.Sorted(maps.Keys(desired.Queues)) {
		b := plantest.Around(desired)
		todo := plan.Repair(desired, b.Actual(desired))
		run(t, b, todo)
		b.Messages[queue] = 1
		made := b.Snapshot()
		if err := b.Run(plan.UndoCreate(desired, todo.Steps())); err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("1 in queue %q", queue)) {
			t.Errorf("got %v", err)
		}
		plantest.Same(t, b.Snapshot(), made, "after the undo")
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
