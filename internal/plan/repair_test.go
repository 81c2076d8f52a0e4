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

// While a cascade is created, there is no entry at first. Once there is one, a key goes its way. Or it is unroutable at
// the entry for the moment until the binding that takes it follows. It is never on a wrong way or on half of one.
func TestDiffCreates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCascade().Draw(t, "cascade")
		desired := plantest.Expand(t, c)
		b := plantest.Around(desired)
		inAnyOrder(t, b)
		b.After = func(step plan.Step) {
			if _, exists := b.Exchanges[desired.Entry]; !exists {
				return
			}
			there := withApplication(b, desired)
			everyKey(t, c, there, func(key string, delay time.Duration, arrivals []topologytest.Arrival) {
				unroutableAtTheEntry := isUnroutable(arrivals) && len(arrivals[0].Path) == 0
				if !isDelivered(arrivals, delay) && !unroutableAtTheEntry {
					t.Fatalf("after %s: key %q goes %v", step, key, arrivals)
				}
			})
		}
		todo := plan.Repair(desired, b.Actual(desired))
		if err := b.Run(todo); err != nil {
			t.Fatal(err)
		}
		plantest.Same(t, b.Actual(desired), desired, "after the creation")
		if again := plan.Repair(desired, b.Actual(desired)); len(again) > 0 {
			t.Fatalf("a second plan is not empty: %v", again.Steps())
		}
	})
}

// Whatever has been done to the cascade, one plan makes it as it should be, and leaves everybody else's bindings as
// they were. These are the ones behind the delivery exchange, and those that lead into the cascade, recreated objects
// included.
func TestDiffRepairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := plantest.Deployed(t, desired)
		for range rapid.IntRange(1, 6).Draw(t, "damages") {
			plantest.AnyDamage(t, b, desired)
		}
		others := othersOf(b, desired)
		inAnyOrder(t, b)
		actual := b.Actual(desired)
		exchanges := topology.Diff(desired, actual).WrongExchanges
		b.Before = func(step plan.Step) error {
			if unbind, ok := step.(plan.Unbind); ok && slices.Contains(exchanges, unbind.Binding.Source) {
				return nil // there is something to do if the exchange could not be recreated
			}
			return needed(b, step)
		}
		if err := b.Run(plan.Repair(desired, actual)); err != nil {
			t.Fatal(err)
		}
		plantest.Same(t, ownedBy(desired, b), desired, "after the repair")
		plantest.Same(t, othersOf(b, desired), others, "others after the repair")
		if again := plan.Repair(desired, b.Actual(desired)); len(again) > 0 {
			t.Fatalf("a second plan is not empty: %v", again.Steps())
		}
	})
}

// needed is an error if the step has nothing to do, or deletes a queue into which a message could
// still come.
func needed(b *plantest.Broker, step plan.Step) error {
	var isDone bool
	switch s := step.(type) {
	case plan.DeclareExchange:
		_, isDone = b.Exchanges[s.Exchange.Name]
	case plan.DeclareQueue:
		_, isDone = b.Queues[s.Queue.Name]
	case plan.Bind:
		isDone = b.Bindings.Has(s.Binding)
	case plan.Unbind:
		isDone = !b.Bindings.Has(s.Binding)
	case plan.DeleteExchange:
		_, exists := b.Exchanges[s.Name]
		isDone = !exists
	case plan.DeleteQueue:
		for binding := range b.Bindings {
			if binding.DestinationType == topology.ToQueue && binding.Destination == s.Queue.Name {
				return fmt.Errorf("a message can still come from exchange %q", binding.Source)
			}
		}
	}
	if isDone {
		return errors.New("there is nothing to do")
	}
	return nil
}

// A plan that breaks off anywhere is finished by the next one.
func TestDiffFinishesWhatBrokeOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := plantest.Deployed(t, desired)
		for range rapid.IntRange(1, 6).Draw(t, "damages") {
			plantest.AnyDamage(t, b, desired)
		}
		inAnyOrder(t, b)
		todo := plan.Repair(desired, b.Actual(desired))
		if len(todo) == 0 {
			return
		}
		step := rapid.IntRange(0, len(todo.Steps())-1).Draw(t, "failing step")
		failAt(b, step)
		if err := b.Run(todo); !failed(todo, step, err) {
			t.Fatalf("got %v", err)
		}
		b.Before = nil
		if err := b.Run(plan.Repair(desired, b.Actual(desired))); err != nil {
			t.Fatal(err)
		}
		plantest.Same(t, ownedBy(desired, b), desired, "after the second plan")
	})
}

// While missing objects come back, a key goes its way or is unroutable somewhere, but never takes
// another way and never takes two.
func TestDiffNeverMisleadsDuringARepair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCascade().Draw(t, "cascade")
		desired := plantest.Expand(t, c)
		b := plantest.Deployed(t, desired)
		for range rapid.IntRange(1, 4).Draw(t, "losses") {
			plantest.AnyLoss(t, b, desired)
		}
		inAnyOrder(t, b)
		b.After = func(step plan.Step) {
			there := withApplication(b, desired)
			everyKey(t, c, there, func(key string, delay time.Duration, arrivals []topologytest.Arrival) {
				if !isDelivered(arrivals, delay) && !isUnroutable(arrivals) {
					t.Fatalf("after %s: key %q goes %v", step, key, arrivals)
				}
			})
		}
		if err := b.Run(plan.Repair(desired, b.Actual(desired))); err != nil {
			t.Fatal(err)
		}
	})
}

// An exchange that was missing is bound onwards before others are bound to it. While it comes back, nothing is led into
// it that it could not take.
func TestDiffBindsNewExchangesOnwardsFirst(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 5, Lookahead: 1, CreateDeliveryExchange: true,
		ParkUnroutable: true})
	b := plantest.Deployed(t, desired)
	run(t, b, plan.Plan{{Steps: []plan.Step{plan.DeleteExchange{Name: "t.delay-02"}}}})
	b.Arrange = func(steps []plan.Step) []plan.Step {
		steps = slices.Clone(steps)
		slices.Reverse(steps)
		return steps
	}
	b.After = func(step plan.Step) {
		reached := topologytest.Route(b.Snapshot(), desired.Entry, "0.0.1.0.0.destination")
		if !slices.Equal(reached, []string{"t.delay-02"}) && slices.ContainsFunc(b.Snapshot().Bindings.Sorted(),
			func(binding topology.Binding) bool {
				return binding.Source == "t.delay-03" && binding.Destination == "t.delay-02"
			}) {
			t.Errorf("after %s, the key reaches %q", step, reached)
		}
	}
	run(t, b, plan.Repair(desired, b.Actual(desired)))
}

// anyUpdate is a cascade, a broker that has it, and what it is to be with another lookahead and other keys.
func anyUpdate(t *rapid.T) (c delay.Config, b *plantest.Broker, desired topology.Topology) {
	c = anyCascade().Draw(t, "cascade")
	changed := c
	changed.Lookahead = rapid.IntRange(1, c.Levels).Draw(t, "new lookahead")
	changed.StrictKeys = rapid.Bool().Draw(t, "new strict keys")
	return c, plantest.Deployed(t, plantest.Expand(t, c)), plantest.Expand(t, changed)
}

// A change of lookahead or of strict keys never touches a message. After each of its steps, every key has exactly one
// way, with the right delay.
func TestDiffUpdatesUnderTraffic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, b, desired := anyUpdate(t)
		inAnyOrder(t, b)
		b.After = func(step plan.Step) {
			there := withApplication(b, desired)
			everyKey(t, c, there, func(key string, delay time.Duration, arrivals []topologytest.Arrival) {
				if !isDelivered(arrivals, delay) {
					t.Fatalf("after %s: key %q goes %v", step, key, arrivals)
				}
			})
		}
		if err := b.Run(plan.Repair(desired, b.Actual(desired))); err != nil {
			t.Fatal(err)
		}
		plantest.Same(t, ownedBy(desired, b), desired, "after the update")
	})
}

// The same beside objects that cannot be recreated, or that are. In the end every key has its way, by the old bindings
// or by the new ones. Once nothing is in the way any more, the next plan finishes the change.
func TestDiffUpdatesBesideARefusal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, b, desired := anyUpdate(t)
		anyRefusal(t, b, desired)
		inAnyOrder(t, b)
		before := maps.Clone(b.Messages)
		b.After = func(step plan.Step) {
			everyKey(t, c, withApplication(b, desired), func(key string, delay time.Duration,
				arrivals []topologytest.Arrival) {
				// While an exchange is away, one of both ways may end where it was.
				arrived := slices.DeleteFunc(slices.Clone(arrivals),
					func(a topologytest.Arrival) bool { return isUnroutable([]topologytest.Arrival{a}) })
				if len(arrived) > 0 && !isDelivered(arrived, delay) {
					t.Fatalf("after %s: key %q goes %v", step, key, arrivals)
				}
			})
		}
		closesBeforeDeleting(b)
		err := b.Run(plan.Repair(desired, b.Actual(desired)))
		everyKey(t, c, withApplication(b, desired), func(key string, delay time.Duration,
			arrivals []topologytest.Arrival) {
			if !isDelivered(arrivals, delay) {
				t.Fatalf("after %v: key %q goes %v", err, key, arrivals)
			}
		})
		if !maps.Equal(b.Messages, before) {
			t.Fatalf("of the messages %v these are left: %v", before, b.Messages)
		}
		clear(b.Messages)
		delete(b.Bindings, topologytest.ToQueue(desired.Delivery, "#", plantest.Application))
		if err := b.Run(plan.Repair(desired, b.Actual(desired))); err != nil {
			t.Fatal(err)
		}
		plantest.Same(t, ownedBy(desired, b), desired, "once nothing is in the way")
	})
}

// anyRefusal damages objects so that they have to be recreated, and puts messages into queues, which forbid that.
func anyRefusal(t *rapid.T, b *plantest.Broker, desired topology.Topology) {
	for _, name := range slices.Sorted(maps.Keys(desired.Exchanges)) {
		if rapid.IntRange(0, 3).Draw(t, "damage exchange "+name) == 0 {
			e := b.Exchanges[name]
			e.Internal = !e.Internal
			b.Exchanges[name] = e
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired.Queues)) {
		if rapid.IntRange(0, 3).Draw(t, "damage queue "+name) == 0 {
			q := b.Queues[name]
			q.Arguments = maps.Clone(q.Arguments)
			q.Arguments["x-expires"] = int64(3_600_000)
			b.Queues[name] = q
		}
		if rapid.Bool().Draw(t, "message in "+name) {
			b.Messages[name] = 1
		}
	}
}

// A foreign binding that leads out of the cascade goes even so.
func TestDiffUnbindsWhatLeadsOutBesideARefusal(t *testing.T) {
	c := delay.Config{Name: "t", Levels: 3, Lookahead: 1, CreateDeliveryExchange: true}
	b := plantest.Deployed(t, plantest.Expand(t, c))
	foreign := topologytest.ToQueue("t.delay-01", "#", plantest.Audit)
	b.Bindings.Add(foreign)
	plantest.ShortenTTL(b, "t.delay-00")
	b.Messages["t.delay-00"] = 1
	c.Lookahead = 3
	if err := b.Run(plan.Repair(plantest.Expand(t, c), b.Actual(plantest.Expand(t, c)))); err == nil {
		t.Error("the queue was recreated")
	}
	if b.Bindings.Has(foreign) || !b.Bindings.Has(topologytest.ToExchange("t.delay-02", "0.#", "t.delay-01")) {
		t.Errorf("left are %v", b.Bindings.Sorted())
	}
}

// The only way around an exchange that cannot be recreated stays. The binding that is to take its place waits for that.
func TestDiffKeepsTheWayAroundARefusal(t *testing.T) {
	c := delay.Config{Name: "t", Levels: 2, Lookahead: 2, QueueType: delay.Classic, CreateDeliveryExchange: true}
	b := plantest.Deployed(t, plantest.Expand(t, c))
	e := b.Exchanges["t.delay-00"]
	e.Internal = true
	b.Exchanges[e.Name] = e
	b.Messages["t.delay-01"] = 1
	c.Lookahead = 1
	desired := plantest.Expand(t, c)
	if err := b.Run(plan.Repair(desired, b.Actual(desired))); !plantest.IsRefusal(err) {
		t.Errorf("got %v", err)
	}
	everyKey(t, c, withApplication(b, desired), func(key string, delay time.Duration, arrivals []topologytest.Arrival) {
		if !isDelivered(arrivals, delay) {
			t.Errorf("key %q goes %v", key, arrivals)
		}
	})
}

// An exchange that deletes itself goes with its last binding, here when the exchange below is recreated.
func TestDiffRecreatesAnAutoDeleteExchange(t *testing.T) {
	for name, test := range map[string]struct {
		names       delay.Format
		below       int // its level
		deletesBoth bool
	}{
		"the one below has other arguments": {"t.delay-%02d", 0, false},
		"both delete themselves":            {"t.delay-%02d", 0, true},
		"the names are not in order":        {"t.delay-%d", 9, true},
	} {
		t.Run(name, func(t *testing.T) {
			desired := plantest.Expand(t, delay.Config{Name: "t", Levels: test.below + 2, Lookahead: 1,
				ExchangeName: test.names, ParkUnroutable: true, CreateDeliveryExchange: true})
			b := plantest.Deployed(t, desired)
			entry, below := b.Exchanges[desired.Entry], b.Exchanges[test.names.Name(test.below)]
			entry.AutoDelete, below.AutoDelete, below.Arguments = true, test.deletesBoth, nil
			b.Exchanges[entry.Name], b.Exchanges[below.Name] = entry, below
			for _, lost := range []int{test.below, test.below + 1} {
				queue := desired.Queues[fmt.Sprintf("t.delay-%02d", lost)]
				if lost == test.below && !test.deletesBoth {
					continue
				}
				if err := b.Step(plan.DeleteQueue{Queue: queue}); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Run(plan.Repair(desired, b.Actual(desired))); err != nil {
				t.Fatal(err)
			}
			if left := plan.Repair(desired, b.Actual(desired)).Steps(); len(left) > 0 {
				t.Errorf("these steps are left: %v", left)
			}
		})
	}
}

func TestDiffRecreatesAQueueOnlyWhileItIsEmpty(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true})
	b := plantest.Deployed(t, desired)
	plantest.ShortenTTL(b, "t.delay-01")
	plantest.ShortenTTL(b, "t.delay-02")
	plantest.SetType(b, "t.delay-01", "direct") // which comes back bound to the queue that stays
	b.Messages["t.delay-01"] = 3
	b.Bindings.Add(topologytest.ToQueue("t.delay-00", "foreign", plantest.Application))
	kept := b.Queues["t.delay-01"]
	err := b.Run(plan.Repair(desired, b.Actual(desired)))
	if err == nil || !strings.Contains(err.Error(), `recreating queue "t.delay-01", whose arguments cannot be `+
		`changed, in vhost "/" is not possible while messages wait: 3 in queue "t.delay-01"`) {
		t.Errorf("got %v", err)
	}
	if b.Messages["t.delay-01"] != 3 {
		t.Errorf("%d messages are left", b.Messages["t.delay-01"])
	}
	rest := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true})
	rest.Queues["t.delay-01"] = kept
	plantest.Same(t, ownedBy(desired, b), rest, "after the refusal, all but the queue that holds messages")
}

// A message that gets into a queue after it was found empty keeps it, with all its bindings.
func TestDiffKeepsAQueueThatFillsMeanwhile(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true})
	for number := 1; ; number++ {
		b := plantest.Deployed(t, desired)
		plantest.ShortenTTL(b, "t.delay-00")
		before := b.Snapshot()
		todo := plan.Repair(desired, b.Actual(desired))
		deletion := slices.IndexFunc(todo.Steps(), func(s plan.Step) bool {
			_,
				deletes := s.(plan.DeleteQueue)
			return deletes
		})
		if number > deletion {
			return
		}
		step := 0
		b.Before = func(plan.Step) error {
			if step == number {
				b.Messages["t.delay-00"]++
			}
			step++
			return nil
		}
		if err := b.Run(todo); err == nil || !strings.Contains(err.Error(),
			`delete queue "t.delay-00" in vhost "/" is not possible while messages wait`) {
			t.Errorf("message before step %d: got %v", number, err)
		}
		plantest.Same(t, b.Snapshot(), before, fmt.Sprintf("after a message before step %d", number))
	}
}

// If an object cannot be declared anew, it comes back as it was.
func TestDiffBringsBackWhatItCannotRecreate(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true,
		ParkUnroutable: true})
	for name, damage := range map[string]func(*plantest.Broker){
		"queue":    func(b *plantest.Broker) { plantest.ShortenTTL(b, "t.delay-00") },
		"exchange": func(b *plantest.Broker) { plantest.SetType(b, "t.delay-00", "fanout") },
		"entry":    func(b *plantest.Broker) { plantest.SetType(b, desired.Entry, "direct") },
	} {
		b := plantest.Deployed(t, desired)
		damage(b)
		before := b.Snapshot()
		failed := false
		b.Before = func(step plan.Step) error {
			switch step.(type) {
			case plan.DeclareExchange, plan.DeclareQueue:
				if !failed {
					failed = true
					return plantest.ErrInjected
				}
			}
			return nil
		}
		if err := b.Run(plan.Repair(desired, b.Actual(desired))); !errors.Is(err, plantest.ErrInjected) {
			t.Errorf("%s: got %v", name, err)
		}
		plantest.Same(t, b.Snapshot(), before, name)
	}
}

// A delivery exchange with the applications' bindings is never recreated, only an unused one.
func TestDiffRecreatesOnlyAnUnusedDeliveryExchange(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true})
	b := plantest.Deployed(t, desired)
	plantest.SetType(b, "t.delivery", "direct")
	before := b.Snapshot()
	if err := b.Run(plan.Repair(desired, b.Actual(desired))); err == nil || !strings.Contains(err.Error(),
		`delete exchange "t.delivery": in use`) {
		t.Errorf("got %v", err)
	}
	plantest.Same(t, b.Snapshot(), before, "after the refusal")
	delete(b.Bindings, topologytest.ToQueue("t.delivery", "#", plantest.Application))
	run(t, b, plan.Repair(desired, b.Actual(desired)))
	plantest.Same(t, ownedBy(desired, b), desired, "after the recreation")
}

// Classic queues dead-letter without waiting for a confirmation: what expires while the exchange is
// away would be lost. Quorum queues with at-least-once keep it.
func TestDiffRecreatesAnExchangeOnlyIfNothingCanGetLost(t *testing.T) {
	for _, test := range []struct {
		queueType delay.QueueType
		typeOf    string
		refused   bool
	}{
		{delay.Classic, "topic", true},
		{delay.Classic, "fanout", false},
		{delay.Quorum, "topic", false},
	} {
		desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, QueueType: test.queueType,
			CreateDeliveryExchange: true})
		b := plantest.Deployed(t, desired)
		e := b.Exchanges["t.delay-01"]
		e.Type, e.Internal = test.typeOf, true
		b.Exchanges[e.Name] = e
		b.Messages["t.delay-02"] = 1
		err := b.Run(plan.Repair(desired, b.Actual(desired)))
		if refused := err != nil; refused != test.refused {
			t.Errorf("%+v: got %v", test, err)
		}
	}
}

// While a queue is recreated, what expires before it has no way on. The queue before it has to be empty, too, unless
// its messages are parked.
func TestDiffRecreatesAQueueOnlyIfNothingCanGetLost(t *testing.T) {
	for _, test := range []struct {
		parks   bool
		waiting string
		refused bool
	}{{false, "t.delay-01", true}, {false, "t.delay-02", false}, {true, "t.delay-01", false}} {
		desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, Lookahead: 1, QueueType: delay.Classic,
			CreateDeliveryExchange: true, ParkUnroutable: test.parks})
		b := plantest.Deployed(t, desired)
		plantest.ShortenTTL(b, "t.delay-00")
		b.Messages[test.waiting] = 1
		err := b.Run(plan.Repair(desired, b.Actual(desired)))
		if refused := err != nil; refused != test.refused {
			t.Errorf("%+v: got %v", test, err)
		}
	}
}

// A recreation does nothing beside what it takes. A binding comes once, and a foreign one not at all. There is no look
// into no queue.
func TestDiffRecreatesWithoutDetours(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, Lookahead: 1, CreateDeliveryExchange: true})
	missing := topologytest.ToQueue("t.delay-00", "*.*.1.#", "t.delay-00")
	foreign := topologytest.ToQueue("t.delay-00", "x", "t.delay-01")
	for want, damage := range map[int]func(*plantest.Broker){
		1: func(b *plantest.Broker) { delete(b.Bindings, missing) },
		0: func(b *plantest.Broker) { b.Bindings.Add(foreign) },
	} {
		b := plantest.Deployed(t, desired)
		e := b.Exchanges["t.delay-00"]
		e.Internal = true
		b.Exchanges[e.Name] = e
		damage(b)
		bound := map[topology.Binding]int{}
		for _, phase := range plan.Repair(desired, b.Actual(desired)) {
			for _, step := range phase.Steps {
				if bind, binds := step.(plan.Bind); binds {
					bound[bind.Binding]++
				}
				if look, looks := step.(plan.VerifyEmpty); looks && len(look.Queues) == 0 {
					t.Errorf("%s", step)
				}
			}
		}
		if !desired.Bindings.Has(missing) || bound[missing] != 1 || bound[foreign] != 0 {
			t.Errorf("%d: the bindings are %v", want, bound)
		}
	}
}

// A queue that nothing leads to is recreated without a phase for its bindings.
func TestDiffRecreatesAnUnboundQueue(t *testing.T) {
	b := plantest.NewBroker(topology.New())
	lone := topology.New()
	lone.Queues["q"] = topology.Queue{Name: "q"}
	b.Queues["q"] = topology.Queue{Name: "q", Durable: true}
	for _, phase := range plan.Repair(lone, b.Actual(lone)) {
		if len(phase.Steps) == 0 {
			t.Error("a phase has no step")
		}
	}
}

// ownedBy is what the broker has of what belongs to the cascade alone.
func ownedBy(desired topology.Topology, b *plantest.Broker) topology.Topology {
	owned := b.Snapshot()
	maps.DeleteFunc(owned.Exchanges, func(name string, _ topology.Exchange) bool {
		_,
			own := desired.Exchanges[name]
		return !own
	})
	maps.DeleteFunc(owned.Queues, func(name string, _ topology.Queue) bool {
		_,
			own := desired.Queues[name]
		return !own
	})
	maps.DeleteFunc(owned.Bindings, func(b topology.Binding, _ struct{}) bool { return !desired.Owns(b.Source) })
	return owned
}

// othersOf is what the broker has of what does not.
func othersOf(b *plantest.Broker, desired topology.Topology) topology.Topology {
	others := b.Snapshot()
	maps.DeleteFunc(others.Exchanges, func(name string, _ topology.Exchange) bool {
		_,
			own := desired.Exchanges[name]
		return own
	})
	maps.DeleteFunc(others.Queues, func(name string, _ topology.Queue) bool {
		_,
			own := desired.Queues[name]
		return own
	})
	others.Unbind(func(b topology.Binding) bool { return desired.Owns(b.Source) })
	return others
}

// withApplication is what the broker has, with the application bound wherever it can be.
func withApplication(b *plantest.Broker, desired topology.Topology) topology.Topology {
	there := b.Snapshot()
	there.Entry = desired.Entry
	there.Bindings.Add(topologytest.ToQueue(desired.Delivery, "#", plantest.Application))
	return there
}
