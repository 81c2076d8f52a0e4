package plan_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A create declares what a Diff does, all of it as new but the delivery exchange, and one object before all others.
func TestCreateDeclaresWhatIsNew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := plantest.Around(desired)
		todo := plan.Create(desired, b.Actual(desired), "mark")
		if _, parks := desired.Exchanges["t.unroutable"]; !parks && len(desired.Queues) == 1 {
			return // there is no exchange to mark
		}
		if first := todo[0].Steps; len(first) != 1 || !mustBeNew(first[0]) {
			t.Fatalf("the first phase is %s", first)
		}
		if _, verifies := todo[2].Steps[0].(plan.VerifyAlone); !verifies {
			t.Fatalf("the third phase is %s", todo[2].Steps)
		}
		for _, step := range todo.Steps() {
			declares := true
			switch s := step.(type) {
			case plan.DeclareExchange:
				declares = s.Exchange.Name != desired.Delivery
			case plan.DeclareQueue:
			default:
				declares = false
			}
			if mustBeNew(step) != declares {
				t.Errorf("%s has to be new: %t", step, !declares)
			}
		}
		if err := b.Run(todo); err != nil {
			t.Fatal(err)
		}
		if left := plan.Repair(desired, b.Actual(desired)).Steps(); len(left) > 0 {
			t.Errorf("left to do: %s", left)
		}
	})
}

// A create is marked, too, if its exchanges alone are missing.
func TestCreateOfExchangesIsMarked(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3})
	actual := topology.New()
	actual.Queues = desired.Queues
	todo := plan.Create(desired, actual, "mark")
	if _, verifies := todo[2].Steps[0].(plan.VerifyAlone); !mustBeNew(todo[0].Steps[0]) || !verifies {
		t.Errorf("the plan is %v", todo.Steps())
	}
}

// An undo unbinds what the create has bound to its marked exchange, or between objects that it has found there. All
// else goes with its objects. An exchange that need not be new stays, and so does the marked one while it is in use.
func TestUndoOfACreate(t *testing.T) {
	desired := plantest.Expand(t, delay.Config{Name: "t", Levels: 3})
	found, delivers := desired.Clone(), topology.Exchange{Name: desired.Delivery, Type: "topic"}
	lost := found.Bindings.Sorted()[0]
	delete(found.Bindings, lost)
	whole := plan.Create(desired, topology.New(), "mark").Steps()
	first, _ := whole[0].(plan.DeclareExchange)
	for name, test := range map[string]struct {
		done []plan.Step
		want func(topology.Binding) bool
	}{
		"whole": {whole, func(b topology.Binding) bool { return b.Source == first.Exchange.Name }},
		"one binding": {plan.Create(desired, found, "mark").Steps(),
			func(b topology.Binding) bool { return b == lost }},
		"not a new one": {[]plan.Step{plan.DeclareExchange{Exchange: delivers}}, nil},
	} {
		deletes := false
		for _, step := range plan.UndoCreate(desired, test.done).Steps() {
			unbind, unbinds := step.(plan.Unbind)
			if unbinds && !test.want(unbind.Binding) {
				t.Errorf("%s: %s", name, step)
			}
			deletion, is := step.(plan.DeleteExchange)
			deletes = deletes || unbinds || is && deletion.Name != desired.Delivery
			if is && (deletion.Name == desired.Delivery || deletion.Name == first.Exchange.Name && !deletion.IfUnused) {
				t.Errorf("%s: %s", name, step)
			}
		}
		if deletes != (test.want != nil) {
			t.Errorf("%s: something is deleted: %t", name, deletes)
		}
	}
}

// Two creates of the same run at once, step by step in any order. The broker tells both that the exchange made first is
// new. One of them succeeds at the most, and its objects are whole.
func TestTwoCreatesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := plantest.Expand(t, anyCascade().Draw(t, "cascade"))
		b := plantest.Around(desired)
		before := b.Snapshot()
		var creates [2]racer
		for i, mark := range []string{"a", "b"} {
			creates[i] = racer{
				broker:  b,
				desired: desired.WithOwner(mark),
			}
			creates[i].left = plan.Create(creates[i].desired, b.Actual(desired), mark).Steps()
		}
		for len(creates[0].left)+len(creates[1].left) > 0 {
			one := &creates[rapid.IntRange(0, 1).Draw(t, "next")]
			if len(one.left) > 0 {
				one.next(t)
			}
		}
		switch {
		case creates[0].failed && creates[1].failed:
			if _, was := before.Exchanges[desired.Delivery]; !was {
				delete(b.Exchanges, desired.Delivery) // who has declared it lets go of it
			}
			plantest.Same(t, b.Snapshot(), before, "after both failed")
		case !creates[0].failed && !creates[1].failed:
			t.Fatal("both succeed")
		default:
			winner := winnerOf(creates)
			if left := plan.Repair(winner, b.Actual(winner)).Steps(); len(left) > 0 {
				t.Fatalf("one succeeds, and this is left to do: %s", left)
			}
			plantest.Same(t, topology.Topology{Owners: b.Owners}, topology.Topology{Owners: winner.Owners},
				"after one succeeds")
		}
	})
}

// winnerOf is the topology of the create that has not failed.
func winnerOf(creates [2]racer) topology.Topology {
	if creates[0].failed {
		return creates[1].desired
	}
	return creates[0].desired
}

// racer is a create that runs step by step.
type racer struct {
	broker  *plantest.Broker
	desired topology.Topology
	left    []plan.Step
	done    []plan.Step
	failed  bool
}

// next runs one step. After a failure, those of the undo are left.
func (r *racer) next(t *rapid.T) {
	step := r.left[0]
	r.left = r.left[1:]
	if declare, is := step.(plan.DeclareExchange); is && len(r.done) == 0 && !r.failed &&
		rapid.Bool().Draw(t, "told that it is new") {
		declare.New = false
		r.done = append(r.done, step)
		step = declare
	} else if !r.failed {
		r.done = append(r.done, step)
	}
	err := r.broker.Step(step)
	switch {
	case err == nil:
	case r.failed:
		if !plantest.IsRefusal(err) { // it is the other's
			t.Fatalf("undo: %s: %v", step, err)
		}
	default:
		r.failed = true
		r.left = plan.UndoCreate(r.desired, r.done[:len(r.done)-1]).Steps()
	}
}

// mustBeNew tells whether a step is a declaration that must not find what it declares.
func mustBeNew(step plan.Step) bool {
	switch s := step.(type) {
	case plan.DeclareExchange:
		return s.New
	case plan.DeclareQueue:
		return s.New
	}
	return false
}
