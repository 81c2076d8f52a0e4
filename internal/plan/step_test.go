package plan_test

import (
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// Each step says in one line what it does and to what.
func TestStepString(t *testing.T) {
	withArguments := topologytest.ToExchange("x", "#", "y")
	withArguments.Arguments = `{"a":1}`
	q := topology.Queue{Name: "q"}
	for _, test := range []struct {
		step plan.Step
		want string
	}{
		{plan.DeclareExchange{Exchange: topology.Exchange{Name: "x"}}, `declare exchange "x"`},
		{plan.DeclareQueue{Queue: q}, `declare queue "q"`},
		{plan.Bind{Binding: topologytest.ToQueue("x", "1.#", "q")}, `bind exchange "x" to queue "q" with key "1.#"`},
		{plan.Unbind{Binding: withArguments}, `unbind exchange "x" to exchange "y" with key "#" and ` +
			`arguments {"a":1}`},
		{plan.DeleteExchange{Name: "x"}, `delete exchange "x"`},
		{plan.DeleteQueue{Queue: q}, `delete queue "q"`},
		{plan.VerifyEmpty{Queues: []topology.Queue{q, {Name: "r"}}}, `verify that nothing waits in "q", "r"`},
	} {
		if got := test.step.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// Who proves queues empty, and who closes the way into them for a wait, takes more of the broker and of credentials.
func TestProves(t *testing.T) {
	before := plantest.Expand(t, delay.Config{Name: "t", Levels: 2, CreateDeliveryExchange: true})
	after := plantest.Expand(t, delay.Config{Name: "t", Levels: 2, CreateDeliveryExchange: true,
		QueueType: delay.Classic})
	queue := before.Clone()
	delete(queue.Queues, "t.delay-00")
	drain, force := plan.Guard{Drain: time.Minute}, plan.Guard{Drain: time.Minute, Force: true}
	verify := plan.VerifyEmpty{Queues: []topology.Queue{{Name: "q"}}, Wait: time.Minute}
	for name, test := range map[string]struct {
		plan          plan.Plan
		proves, waits bool
	}{
		"nothing":              {nil, false, false},
		"create":               {plan.Create(before, topology.New(), "mark"), false, false},
		"repair":               {plan.Repair(before, queue), false, false},
		"recreate a queue":     {plan.Repair(after, before), true, false},
		"destroy":              {plan.Teardown(before, before, plan.Guard{}), true, false},
		"destroy, drain":       {plan.Teardown(before, before, drain), true, true},
		"destroy, force":       {plan.Teardown(before, before, force), false, false},
		"destroy what is gone": {plan.Teardown(before, topology.New(), drain), false, false},
		"rebuild":              {plan.Rebuild(before, after, before, plan.Guard{}), true, false},
		"rebuild, drain":       {plan.Rebuild(before, after, before, drain), true, true},
		"undo of a create": {plan.UndoCreate(before, plan.Create(before, topology.New(), "mark").Steps()), true,
			false},
		"delete an empty queue": {plan.Plan{{Steps: []plan.Step{plan.DeleteQueue{IfEmpty: true}}}}, true, false},
		"delete a queue":        {plan.Plan{{Steps: []plan.Step{plan.DeleteQueue{}}}}, false, false},
		"wait, nothing changed": {plan.Plan{{Steps: []plan.Step{verify}}}, true, false},
	} {
		if proves, waits := test.plan.Proves(); proves != test.proves || waits != test.waits {
			t.Errorf("%s: it proves %t, waits %t", name, proves, waits)
		}
	}
}
