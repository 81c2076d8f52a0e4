package plan_test

import (
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
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
