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

// rebuilt is a cascade that is there, and another one with the same entry.
type rebuilt struct {
	before, after topology.Topology
	broker        *plantest.Broker
}

// anyRebuild draws what changes.
func anyRebuild(t *rapid.T) rebuilt {
	c := anyCascade().Draw(t, "cascade")
	before := plantest.Expand(t, c)
	if rapid.Bool().Draw(t, "queue names") {
		c.QueueName = "t.wait-%d"
	}
	if rapid.Bool().Draw(t, "delivery") {
		c.DeliveryExchange = "t.end"
	}
	if rapid.Bool().Draw(t, "parking") {
		c.ParkUnroutable = !c.ParkUnroutable
	}
	if rapid.Bool().Draw(t, "type") {
		c.QueueType = rapid.SampledFrom([]delay.QueueType{delay.Quorum, delay.Classic}).Draw(t, "type after")
	}
	c.Resolution = rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "resolution")
	c.Lookahead = rapid.IntRange(1, c.Levels).Draw(t, "lookahead after")
	r := rebuilt{before, plantest.Expand(t, c), plantest.Deployed(t, before)}
	if _, own := r.after.Exchanges[r.after.Delivery]; !own {
		r.broker.Exchanges[r.after.Delivery] = topology.Exchange{Name: r.after.Delivery, Type: "topic", Durable: true}
	}
	if _, parks := r.broker.Queues["t.unroutable"]; parks {
		r.broker.Bindings.Add(topologytest.ToQueue(plantest.Feed, "parked.#", "t.unroutable"))
	}
	r.broker.Bindings.Add(topologytest.ToExchange(plantest.Feed, "delivered.#", r.before.Delivery))
	return r
}

// expected is the topology after the rebuild: the new cascade, and all of others that still leads somewhere.
func (r rebuilt) expected() topology.Topology {
	want := r.broker.Snapshot()
	if r.before.Delivery == r.after.Delivery {
		delete(want.Exchanges, r.before.Delivery) // to get other arguments
	}
	for name := range r.before.Exchanges {
		if name != r.before.Delivery {
			delete(want.Exchanges, name)
		}
	}
	for name := range r.before.Queues {
		delete(want.Queues, name)
	}
	if have, exists := r.broker.Exchanges[r.after.Delivery]; exists {
		want.Exchanges[r.after.Delivery] = have
	}
	maps.Copy(want.Exchanges, r.after.Exchanges)
	maps.Copy(want.Queues, r.after.Queues)
	maps.DeleteFunc(want.Bindings, func(b topology.Binding, _ struct{}) bool {
		_, exchange := want.Exchanges[b.Destination]
		_, queue := want.Queues[b.Destination]
		toExchange := b.DestinationType == topology.ToExchange
		return r.before.Owns(b.Source) || toExchange && !exchange || !toExchange && !queue
	})
	maps.Copy(want.Bindings, r.after.Bindings)
	return want
}

// isOpen tells whether the entry of the new cascade is open, and all behind it is there.
func (r rebuilt) isOpen() bool {
	have := r.broker.Snapshot()
	for name, want := range r.after.Exchanges {
		if !have.Exchanges[name].Equal(want) {
			return false
		}
	}
	for name, want := range r.after.Queues {
		if !have.Queues[name].Equal(want) {
			return false
		}
	}
	for b := range r.after.Bindings {
		if !have.Bindings.Has(b) {
			return false
		}
	}
	return true
}

// Afterwards the new cascade is there, and so is what others have bound. The entry was closed before anything else
// went, and was opened last. A delivery exchange and a way of unroutable messages that stay the same were never
// touched.
func TestRebuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRebuild(t)
		b := r.broker
		want := r.expected()
		guard := anyGuard(t, b)
		if r.keepsParking() {
			b.Messages["t.unroutable"] = 5
		}
		inAnyOrder(t, b)
		r.deletesWhileClosed(t)
		todo := b.Rebuild(r.before, r.after, guard)
		r.deletesNothingThatStays(t, todo)
		if err := b.Run(todo); err != nil {
			t.Fatal(err)
		}
		plantest.Same(t, b.Snapshot(), want, "after the rebuild")
		if r.keepsParking() && b.Messages["t.unroutable"] != 5 {
			t.Fatal("what was parked is gone")
		}
		plantest.Same(t, expectNothing(t, b, r), want, "after another rebuild")
	})
}

// keepsParking tells whether parked messages stay where they are.
func (r rebuilt) keepsParking() bool {
	parking, parks := r.before.Queues["t.unroutable"]
	return parks && parking.Equal(r.after.Queues["t.unroutable"])
}

// deletesWhileClosed makes sure that nothing is deleted before the entry is closed, or after it is opened.
func (r rebuilt) deletesWhileClosed(t *rapid.T) {
	opened := false
	r.broker.After = func(step plan.Step) {
		_, open := r.broker.Exchanges[r.before.Entry]
		switch s := step.(type) {
		case plan.DeclareExchange:
			opened = opened || s.Exchange.Name == r.before.Entry
		case plan.DeleteExchange, plan.DeleteQueue:
			if open || opened {
				t.Fatalf("%s while the entry is open", s)
			}
		}
	}
}

// deletesNothingThatStays makes sure that a plan leaves the parking queue and the delivery exchange alone, if they stay
// the same.
func (r rebuilt) deletesNothingThatStays(t *rapid.T, todo plan.Plan) {
	var stay []string
	if r.keepsParking() {
		stay = append(stay, "t.unroutable")
	}
	if r.before.Delivery != r.after.Delivery ||
		r.before.Exchanges[r.before.Delivery].Equal(r.after.Exchanges[r.after.Delivery]) {
		stay = append(stay, r.before.Delivery)
	}
	for _, step := range todo.Steps() {
		text := step.String()
		if strings.HasPrefix(text, "delete") && slices.ContainsFunc(stay, func(name string) bool {
			return strings.Contains(text, `"`+name+`"`)
		}) {
			t.Fatalf("%s, although it stays", text)
		}
	}
}

// expectNothing rebuilds the existing topology.
func expectNothing(t plantest.Fataler, b *plantest.Broker, r rebuilt) topology.Topology {
	t.Helper()
	b.After, b.Messages = nil, map[string]int64{}
	if err := b.Run(b.Rebuild(r.before, r.after, plan.Guard{})); err != nil {
		t.Fatal(err)
	}
	return b.Snapshot()
}

// Wherever a rebuild fails, everything is as it was before, or the new entry is open and nothing of the new cascade
// is missing.
func TestRebuildThatFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRebuild(t)
		b := r.broker
		before := b.Snapshot()
		want := r.expected()
		todo := b.Rebuild(r.before, r.after, plan.Guard{})
		inAnyOrder(t, b)
		step := rapid.IntRange(0, len(todo.Steps())-1).Draw(t, "failing step")
		failAt(b, step)
		if err := b.Run(todo); !failed(todo, step, err) {
			t.Fatalf("got %v", err)
		}
		if r.isOpen() {
			plantest.Same(t, b.Snapshot(), want, "after a failure behind the opening")
		} else {
			plantest.Same(t, b.Snapshot(), before, "after the failure")
		}
	})
}

// Whatever is known of the delivery exchange, it is recreated only if it is there, and not as the topology has it.
func TestRebuildsDelivery(t *testing.T) {
	own := plantest.Expand(t, delay.Config{Name: "t", Levels: 2, CreateDeliveryExchange: true})
	others := plantest.Expand(t, delay.Config{Name: "t", Levels: 2})
	other := plantest.Expand(t, delay.Config{Name: "t", Levels: 2, CreateDeliveryExchange: true,
		DeliveryExchange: "other"})
	there := func(name, kind string) topology.Topology {
		actual := topology.New()
		actual.Exchanges[name] = topology.Exchange{Name: name, Type: kind, Durable: true}
		return actual
	}
	for name, test := range map[string]struct {
		before, after, actual topology.Topology
		want                  bool
	}{
		"it differs":       {own, own, there(own.Delivery, "direct"), true},
		"it is right":      {own, own, there(own.Delivery, "topic"), false},
		"it is missing":    {own, own, topology.New(), false},
		"it is others'":    {others, others, there(others.Delivery, "direct"), false},
		"it gets its name": {own, other, there(other.Delivery, "direct"), false},
	} {
		if got := plan.RebuildsDelivery(test.before, test.after, test.actual); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	parks := plantest.Expand(t, delay.Config{Name: "t", Levels: 2, ParkUnroutable: true})
	if !plan.KeepsParked(parks, parks) || plan.KeepsParked(parks, others) || plan.KeepsParked(others, others) {
		t.Error("parked messages stay exactly where both park")
	}
}

// A rebuild binds only what there is to be in the end. Wherever it fails, or whatever is missing before, it undoes that
// until the new entry is open.
func TestRebuildThatFailsAnywhere(t *testing.T) {
	c := delay.Config{Name: "t", Levels: 3, Lookahead: 2, CreateDeliveryExchange: true, ParkUnroutable: true}
	before := plantest.Expand(t, c)
	c.QueueName, c.ParkUnroutable = "t.wait-%d", false
	after := plantest.Expand(t, c)
	for _, left := range []string{"all", "the entry", "nothing"} {
		for step := 0; ; step++ {
			r := rebuilt{before, after, plantest.Deployed(t, before)}
			if left != "all" {
				run(t, r.broker, append(r.broker.Teardown(before, plan.Guard{}),
					plan.DeleteShared(before.Delivery, true)...))
			}
			if left == "the entry" {
				r.broker.Exchanges[before.Entry] = before.Exchanges[before.Entry]
			}
			there, want := r.broker.Snapshot(), r.expected()
			todo := r.broker.Rebuild(before, after, plan.Guard{})
			bindsOnly(t, todo, want)
			if step == len(todo.Steps()) {
				break
			}
			failAt(r.broker, step)
			if err := r.broker.Run(todo); !failed(todo, step, err) {
				t.Fatalf("got %v", err)
			}
			if !r.isOpen() {
				plantest.Same(t, r.broker.Snapshot(), there, fmt.Sprintf("after a failure of step %d, left before: %s",
					step, left))
			}
		}
	}
}

// A rebuild to other names of levels does not bind the old levels again, which go: that would fail.
func TestRebuildOfOtherLevels(t *testing.T) {
	c := delay.Config{Name: "t", Levels: 11, CreateDeliveryExchange: true}
	r := rebuilt{before: plantest.Expand(t, c)}
	c.ExchangeName = "t.delay-%d" // the entry is level 10
	r.after, r.broker = plantest.Expand(t, c), plantest.Deployed(t, r.before)
	want := r.expected()
	run(t, r.broker, r.broker.Rebuild(r.before, r.after, plan.Guard{}))
	plantest.Same(t, r.broker.Snapshot(), want, "after the rebuild")
}

// bindsOnly makes sure that a plan binds nothing else than what there is to be, owner's marks aside.
func bindsOnly(t *testing.T, todo plan.Plan, want topology.Topology) {
	t.Helper()
	for _, step := range todo.Steps() {
		bind, binds := step.(plan.Bind)
		if binds && !want.Bindings.Has(bind.Binding) && bind.Binding.Owner() == "" {
			t.Errorf("%s", step)
		}
	}
}

// Where the undo fails, too, the next rebuild does the rest, wherever the one before broke off.
func TestRebuildThatBreaksOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRebuild(t)
		b := r.broker
		want := r.expected()
		todo := b.Rebuild(r.before, r.after, plan.Guard{})
		inAnyOrder(t, b)
		left := rapid.IntRange(0, len(todo.Steps())-1).Draw(t, "steps")
		b.Before = func(plan.Step) error {
			if left--; left < 0 {
				return plantest.ErrInjected
			}
			return nil
		}
		if err := b.Run(todo); !errors.Is(err, plantest.ErrInjected) {
			t.Fatalf("got %v", err)
		}
		b.Before = nil
		if err := b.Run(b.Rebuild(r.before, r.after, plan.Guard{})); err != nil {
			t.Fatal(err)
		}
		got := b.Snapshot()
		for binding := range want.Bindings { // nobody knows others' bindings to missing objects any more
			if !r.after.Owns(binding.Source) {
				got.Bindings.Add(binding)
			}
		}
		plantest.Same(t, got, want, "after the next rebuild")
	})
}

// A message that comes in at any moment is not lost. All is as it was, or it waits in the new cascade, or it came too
// late to get in.
func TestRebuildLosesNoMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRebuild(t)
		b := r.broker
		before := b.Snapshot()
		todo := b.Rebuild(r.before, r.after, plan.Guard{})
		queue := rapid.SampledFrom(slices.Sorted(maps.Keys(r.before.Queues))).Draw(t, "queue")
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
		if arrived != (b.Messages[queue] == 1) {
			t.Fatalf("in %q at step %d: %t, in the end %d there and %v", queue, at, arrived, b.Messages[queue], err)
		}
		if err != nil {
			plantest.Same(t, b.Snapshot(), before, "after the refusal")
		}
	})
}

// What others have bound is bound once more before anything is closed: whoever may not, learns so in time.
func TestRebuildProvesThatItMayBindAgain(t *testing.T) {
	c := delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true, ParkUnroutable: true}
	before := plantest.Expand(t, c)
	c.ParkUnroutable = false
	after := plantest.Expand(t, c)
	for _, binding := range []topology.Binding{
		topologytest.ToQueue(before.Delivery, "#", plantest.Application),
		topologytest.ToExchange(plantest.Feed, "entry.#", before.Entry),
		topologytest.ToQueue(plantest.Feed, "queue.#", "t.delay-00"),
	} {
		b := plantest.Deployed(t, before)
		there := b.Snapshot()
		b.Before = func(step plan.Step) error {
			if bind, ok := step.(plan.Bind); ok && bind.Binding == binding {
				return plantest.ErrInjected
			}
			return nil
		}
		b.After = func(step plan.Step) {
			switch step.(type) {
			case plan.VerifyEmpty, plan.VerifyAllowed, plan.Bind:
			default:
				t.Errorf("%s although %v cannot be bound again", step, binding)
			}
		}
		if err := b.Run(b.Rebuild(before, after, plan.Guard{})); !errors.Is(err, plantest.ErrInjected) {
			t.Errorf("got %v", err)
		}
		plantest.Same(t, b.Snapshot(), there, "after the refusal")
	}
}

// A rebuild that cannot open the new entry is taken back. One that cannot make a binding of others again, once the
// entry is open, makes all else and names that binding.
func TestRebuildThatCannotBind(t *testing.T) {
	c := delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true}
	before := plantest.Expand(t, c)
	c.QueueName = "other-%02d"
	after := plantest.Expand(t, c)
	fed := topologytest.ToExchange(plantest.Feed, "entry.#", after.Entry)
	opens := after.Bindings.Where(func(b topology.Binding) bool {
		return b.Source == after.Entry && b.LeadsInto(after.Queues)
	})[0]
	for _, binding := range []topology.Binding{opens, fed} {
		r := rebuilt{before: before, after: after, broker: plantest.Deployed(t, before)}
		want := r.broker.Snapshot()
		if binding == fed {
			want = r.expected()
			delete(want.Bindings, fed)
		}
		refused := plan.Bind{Binding: binding}
		closed := false
		r.broker.Before = func(step plan.Step) error {
			if _, deletes := step.(plan.DeleteExchange); deletes {
				closed = true
			}
			if closed && step == plan.Step(refused) {
				return plantest.ErrInjected
			}
			return nil
		}
		err := r.broker.Run(r.broker.Rebuild(before, after, plan.Guard{}))
		if !errors.Is(err, plantest.ErrInjected) || binding == fed && !strings.Contains(err.Error(), refused.String()) {
			t.Errorf("got %v", err)
		}
		plantest.Same(t, r.broker.Snapshot(), want, "without "+refused.String())
	}
}

// An application that binds its queue to the delivery exchange at any moment finds its binding there afterwards. The
// rebuild succeeds, or it fails and brings back what others had bound before.
func TestRebuildLosesNoBinding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCascade().Draw(t, "cascade")
		c.CreateDeliveryExchange = true
		r := rebuilt{before: plantest.Expand(t, c)}
		c.ParkUnroutable = !c.ParkUnroutable
		r.after, r.broker = plantest.Expand(t, c), plantest.Deployed(t, r.before)
		b := r.broker
		before := b.Snapshot()
		todo := b.Rebuild(r.before, r.after, plan.Guard{})
		late := topologytest.ToQueue(r.after.Delivery, "late.#", plantest.Application)
		comes := rapid.IntRange(0, len(todo.Steps())).Draw(t, "moment")
		fails := comes + rapid.IntRange(0, len(todo.Steps())).Draw(t, "steps until a failure")
		inAnyOrder(t, b)
		step, came := 0, false
		b.Before = func(plan.Step) error {
			if _, exists := b.Exchanges[late.Source]; step == comes && exists {
				b.Bindings.Add(late)
				came = true
			}
			if step++; step-1 == fails {
				return plantest.ErrInjected
			}
			return nil
		}
		err := b.Run(todo)
		if came && !b.Bindings.Has(late) {
			t.Fatalf("the binding is gone that came before step %d: %v", comes, err)
		}
		for binding := range before.Bindings {
			isOfOthers := binding.Source == late.Source || binding.Source == plantest.Feed && r.after.Takes(binding)
			named := err != nil && strings.Contains(err.Error(), plan.Bind{Binding: binding}.String())
			if isOfOthers && !b.Bindings.Has(binding) && (binding.Source == late.Source || !named) {
				t.Fatalf("%v is gone: %v", binding, err)
			}
		}
	})
}

// What others bind and unbind while a rebuild waits for empty queues is neither lost nor made again. The rebuild brings
// back the entry and fails.
func TestRebuildSeesWhatChangedWhileItWaited(t *testing.T) {
	feeds := topologytest.ToExchange(plantest.Feed, "lowest.#", "t.delay-00")
	delivers := topologytest.ToQueue("t", "#", plantest.Application)
	toExchange, toQueue := topologytest.ToExchange, topologytest.ToQueue
	makes := func(b topology.Binding) func(*plantest.Broker) {
		return func(on *plantest.Broker) { on.Bindings.Add(b) }
	}
	removes := func(b topology.Binding) func(*plantest.Broker) {
		return func(on *plantest.Broker) { delete(on.Bindings, b) }
	}
	for name, is := range map[string]struct {
		recreates bool // the delivery exchange
		change    func(*plantest.Broker)
		isRefused bool
	}{
		"nothing":             {true, func(*plantest.Broker) {}, false},
		"one to an exchange":  {false, makes(toExchange(plantest.Feed, "a", "t.delay-00")), true},
		"one to a queue":      {false, makes(toQueue(plantest.Feed, "a", "t.delay-01")), true},
		"none to an exchange": {false, removes(feeds), true},
		"one elsewhere":       {false, makes(toQueue(plantest.Feed, "a", plantest.Audit)), false},
		"one from the delivery exchange to a queue": {false, makes(toQueue("t", "a", "t.delay-00")), true},
		"one from the delivery exchange":            {true, makes(toQueue("t", "a", plantest.Audit)), true},
		"one to the delivery exchange":              {true, makes(toExchange(plantest.Feed, "a", "t")), true},
		"none from the delivery exchange":           {true, removes(delivers), true},
		"one from it, and it stays":                 {false, makes(toQueue("t", "a", plantest.Audit)), false},
		"none from it, and it stays":                {false, removes(delivers), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := delay.Config{Name: "t", Levels: 2, DeliveryExchange: "t", CreateDeliveryExchange: true}
			before := plantest.Expand(t, c)
			c.QueueName, c.ParkUnroutable = "t.wait-%d", is.recreates
			r := rebuilt{before, plantest.Expand(t, c), plantest.Deployed(t, before)}
			b := r.broker
			want := b.Snapshot()
			b.Before = func(step plan.Step) error {
				if step.Effect().Waits {
					is.change(b)
					changed := plantest.NewBroker(want)
					is.change(changed)
					want = changed.Snapshot()
				}
				return nil
			}
			err := b.Run(b.Rebuild(before, r.after, plan.Guard{Drain: time.Minute}))
			if !is.isRefused {
				if err != nil || !r.isOpen() {
					t.Fatalf("got %v", err)
				}
				return
			}
			if bound, is := errors.AsType[*plan.BoundError](err); !is || len(bound.Made)+len(bound.Removed) != 1 {
				t.Errorf("got %v", err)
			}
			plantest.Same(t, b.Snapshot(), want, "afterwards")
		})
	}
}
