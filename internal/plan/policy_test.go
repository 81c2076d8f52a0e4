package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

const parking = "celery.unroutable"

// parkingByPolicy is a cascade that parks by a policy.
func parkingByPolicy(t plantest.Fataler, preset delay.Preset, parks bool) topology.Topology {
	t.Helper()
	return plantest.Expand(t, delay.Config{Preset: preset, CreateDeliveryExchange: true, ParkUnroutable: parks})
}

// A policy is set when it can park, and before anybody can publish. It goes after all exchanges, the one that parks
// last, and before the queues.
func TestPolicyHasItsPlaceInTheOrder(t *testing.T) {
	desired := parkingByPolicy(t, delay.Celery, true)
	b := plantest.Around(desired)
	create := plan.Create(desired, b.Actual(desired), "mark")
	at := positions(create.Steps())
	set := at[plan.SetPolicy{Policy: desired.Policies[parking]}.String()]
	if bound := at["bind exchange \""+parking+"\" to queue \""+parking+"\" with key \"#\""]; set == 0 || bound >= set ||
		set >= at[plan.DeclareExchange{Exchange: desired.Exchanges[desired.Entry]}.String()] {
		t.Errorf("the policy is set in step %d, the parking queue is bound in %d", set, bound)
	}
	run(t, b, create)
	if got := topologytest.Route(b.Snapshot(), desired.Entry, "no digits"); !slices.Equal(got, []string{parking}) {
		t.Errorf("what is unroutable gets to %q", got)
	}
	for _, guard := range []plan.Guard{{}, {Force: true}} {
		steps := b.Teardown(desired, guard).Steps()
		at := positions(steps)
		deletion := at[plan.DeletePolicy{Name: parking}.String()]
		parks := at[plan.DeleteExchange{Name: parking}.String()]
		for i, step := range steps {
			_, exchange := step.(plan.DeleteExchange)
			_, queue := step.(plan.DeleteQueue)
			if exchange && i > min(parks, deletion) || queue && !guard.Force && i < deletion {
				t.Errorf("with %+v, parking goes in step %d, its policy in %d, and step %d is: %s", guard, parks,
					deletion, i, step)
			}
		}
		allowed := at[plan.VerifyAllowed{Step: plan.SetPolicy{Policy: desired.Policies[parking]}}.String()]
		if deletion == 0 || allowed > at[plan.DeleteExchange{Name: desired.Entry}.String()] {
			t.Errorf("the policy goes in step %d, and whether it may is looked at in %d", deletion, allowed)
		}
	}
}

func positions(steps []plan.Step) map[string]int {
	at := map[string]int{}
	for i, step := range steps {
		at[step.String()] = i
	}
	return at
}

// Whatever step fails, the objects from before are there afterwards, the policy included.
func TestPolicyIsUndone(t *testing.T) {
	quorum, plain := parkingByPolicy(t, delay.Celery, true), parkingByPolicy(t, delay.Celery, false)
	classic := parkingByPolicy(t, delay.CeleryClassic, true)
	part, without, changed := quorum.Extras(plain), quorum.Clone(), quorum.Clone()
	clear(without.Policies)
	changed.Policies[parking] = topology.Policy{Name: parking, Pattern: "^other"}
	for name, test := range map[string]struct {
		before, after topology.Topology
		todo          func(*plantest.Broker) plan.Plan
	}{
		"create": {topology.New(), quorum, func(b *plantest.Broker) plan.Plan {
			return plan.Create(quorum, b.Actual(quorum), "mark")
		}},
		"destroy": {quorum, topology.New(), func(b *plantest.Broker) plan.Plan {
			return b.Teardown(quorum, plan.Guard{})
		}},
		"parking goes": {quorum, plain, func(b *plantest.Broker) plan.Plan {
			return b.Teardown(part, plan.Guard{})
		}},
		"rebuild": {quorum, classic, func(b *plantest.Broker) plan.Plan {
			return b.Rebuild(quorum, classic, plan.Guard{})
		}},
		"rebuild without a policy": {quorum, without, func(b *plantest.Broker) plan.Plan {
			return b.Rebuild(quorum, without, plan.Guard{})
		}},
		"rebuild of a changed policy": {changed, quorum, func(b *plantest.Broker) plan.Plan {
			return b.Rebuild(quorum, quorum, plan.Guard{})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			begin := func() (*plantest.Broker, plan.Plan) {
				b := plantest.NewBroker(test.before)
				b.Exchanges[quorum.Delivery] = quorum.Exchanges[quorum.Delivery]
				return b, test.todo(b)
			}
			b, todo := begin()
			run(t, b, todo)
			test.after = test.after.Clone()
			test.after.Exchanges[quorum.Delivery] = quorum.Exchanges[quorum.Delivery]
			plantest.Same(t, b.Snapshot(), test.after, "afterwards")
			tried := 0
			for i := range todo.Steps() {
				b, todo := begin()
				before := b.Snapshot()
				failAt(b, i)
				err := b.Run(todo)
				if !failed(todo, i, err) {
					t.Fatalf("step %d fails with %v", i, err)
				}
				if phaseOf(todo, i).Undo != nil {
					tried++
					plantest.Same(t, b.Snapshot(), before, fmt.Sprintf("after step %d, %s", i, todo.Steps()[i]))
				}
			}
			if name != "create" && tried < 4 {
				t.Errorf("of %d steps %d are undone", len(todo.Steps()), tried)
			}
		})
	}
}

// A create is undone by what it has done, wherever it fails.
func TestCreateWithPolicyIsUndone(t *testing.T) {
	desired := parkingByPolicy(t, delay.Celery, true)
	steps := plan.Create(desired, topology.New(), "mark").Steps()
	for i := range steps {
		b := plantest.NewBroker(topology.New())
		for _, step := range steps[:i] {
			if err := b.Step(step); err != nil {
				t.Fatal(err)
			}
		}
		run(t, b, plan.UndoCreate(desired, steps[:i]))
		delete(b.Exchanges, desired.Delivery) // which is let go of by itself
		if left := b.Snapshot(); !left.IsEmpty() {
			t.Fatalf("after step %d, %s, there are %v", i, steps[i], left)
		}
	}
}

// Parking that goes is a part of its own: it leaves all else, and stays while a message is parked.
func TestParkingGoesWhenItIsEmpty(t *testing.T) {
	quorum, plain := parkingByPolicy(t, delay.Celery, true), parkingByPolicy(t, delay.Celery, false)
	part := quorum.Extras(plain)
	if len(part.Exchanges) != 1 || len(part.Queues) != 1 || len(part.Policies) != 1 || len(part.Bindings) != 1 {
		t.Fatalf("the part is %v", part)
	}
	if back := plain.Extras(quorum); !back.IsEmpty() {
		t.Errorf("without parking there are %v", back)
	}
	b := plantest.NewBroker(quorum)
	b.Messages[parking] = 1
	b.Messages["celery_delayed_3"] = 5
	if err := b.Run(b.Teardown(part, plan.Guard{})); !plantest.IsRefusal(err) {
		t.Errorf("with a parked message it ends with %v", err)
	}
	plantest.Same(t, b.Snapshot(), quorum, "after the refusal")
	b.Messages[parking] = 0
	run(t, b, b.Teardown(part, plan.Guard{}))
	plantest.Same(t, b.Snapshot(), plain, "afterwards")
}

// A policy that was changed is set again, and nothing else is touched.
func TestPolicyIsRepaired(t *testing.T) {
	desired := parkingByPolicy(t, delay.Celery, true)
	b := plantest.NewBroker(desired)
	changed := desired.Policies[parking]
	changed.Pattern = "^other"
	b.Policies[parking] = changed
	todo := plan.Repair(desired, b.Actual(desired))
	if want := (plan.SetPolicy{Policy: desired.Policies[parking]}); len(todo.Steps()) != 1 ||
		todo.Steps()[0].String() != want.String() {
		t.Errorf("the repair is %v", todo.Steps())
	}
	run(t, b, todo)
	plantest.Same(t, b.Snapshot(), desired, "after the repair")
}
