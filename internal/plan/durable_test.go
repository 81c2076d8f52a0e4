package plan_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestNewQueuesBecomeDurable looks for the one wait between the declaration of quorum queues and all else that a plan
// does then. In the other tests, the model of a broker refuses to bind a queue before.
func TestNewQueuesBecomeDurable(t *testing.T) {
	c := delay.Config{Name: "t", Levels: 3, CreateDeliveryExchange: true, ParkUnroutable: true}
	quorum := plantest.Expand(t, c)
	c.QueueType = delay.Classic
	classic := plantest.Expand(t, c)
	empty := topology.New()
	lacks := func(queues ...string) topology.Topology {
		t := quorum.Clone()
		for _, name := range queues {
			delete(t.Queues, name)
			maps.DeleteFunc(t.Bindings, func(b topology.Binding, _ struct{}) bool {
				return b.LeadsTo(topology.ToQueue, name)
			})
		}
		return t
	}
	unbound := quorum.Clone()
	delete(unbound.Bindings, unbound.Bindings.Sorted()[0])
	shorter := quorum.Clone()
	shorter.Queues["t.delay-01"] = topology.Queue{Name: "t.delay-01", Durable: true,
		Arguments: topology.Arguments{"x-queue-type": "quorum", "x-message-ttl": int64(5)}}
	ladder, longer := plantest.ExpandLadder(t, "1s"), plantest.ExpandLadder(t, "1s", "1m", "1h")
	refused := failing(plan.Teardown(quorum, quorum, plan.Guard{}))
	for name, is := range map[string]struct {
		plan  plan.Plan
		waits bool
	}{
		"create":                     {plan.Create(quorum, empty, "mark"), true},
		"create, classic":            {plan.Create(classic, empty, "mark"), false},
		"create of a ladder":         {plan.Create(ladder, empty, "mark"), true},
		"adoption":                   {plan.Repair(quorum, quorum), false},
		"deleted queue":              {plan.Repair(quorum, lacks("t.delay-01")), true},
		"deleted queues":             {plan.Repair(quorum, lacks("t.delay-00", "t.delay-02")), true},
		"deleted queue of parking":   {plan.Repair(quorum, lacks("t.unroutable")), true},
		"deleted binding":            {plan.Repair(quorum, unbound), false},
		"more delays":                {plan.Repair(longer, ladder), true},
		"queue that is recreated":    {plan.Repair(quorum, shorter), false},
		"and its undo":               {failing(plan.Repair(quorum, shorter)), false},
		"rebuild":                    {plan.Rebuild(classic, quorum, classic, plan.Guard{}), true},
		"rebuild, classic":           {plan.Rebuild(quorum, classic, quorum, plan.Guard{}), false},
		"destroy that is refused":    {refused, true},
		"destroy refused, classic":   {failing(plan.Teardown(classic, classic, plan.Guard{})), false},
		"rebuild that is taken back": {failing(plan.Rebuild(quorum, classic, quorum, plan.Guard{})), true},
	} {
		t.Run(name, func(t *testing.T) {
			if len(is.plan) == 0 && name != "adoption" {
				t.Fatal("there is nothing to do")
			}
			if waits := waits(t, is.plan.Steps()); waits != is.waits {
				t.Errorf("it waits: %t\n%v", waits, is.plan.Steps())
			}
		})
	}
}

// waits tells whether the steps have a wait. There is no other one, all queues are declared before it, and then nothing
// else is done before it.
func waits(t *testing.T, steps []plan.Step) bool {
	t.Helper()
	wait := slices.Index(steps, plan.Step(plan.AwaitDurable{}))
	if wait < 0 {
		return false
	}
	declared := slices.IndexFunc(steps, declaresQueue)
	between, after := steps[declared:wait], steps[wait+1:]
	if slices.ContainsFunc(between, func(step plan.Step) bool { return !declaresQueue(step) }) ||
		slices.ContainsFunc(after, declaresQueue) || slices.Contains(after, steps[wait]) {
		t.Errorf("step %d is no wait for all queues: %v", wait, steps)
	}
	return true
}

func declaresQueue(step plan.Step) bool { _, is := step.(plan.DeclareQueue); return is }

// failing is the undo of a plan whose last phase with an undo fails when all before is done.
func failing(todo plan.Plan) plan.Plan {
	for i, phase := range slices.Backward(todo) {
		if phase.Undo != nil {
			done := todo[:i].Steps()
			if _, deletes := phase.Steps[0].(plan.DeleteQueue); deletes {
				done = append(done, phase.Steps[0]) // of several deletions, the second fails
			}
			return phase.Undo(done)
		}
	}
	panic("the plan has no undo")
}
