package plans_test

import (
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plans"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// Each step says in one line what it does and to what.
func TestStepString(t *testing.T) {
	withArguments := topologytest.ToExchange("x", "#", "y")
	withArguments.Arguments = `{"a":1}`
	q := topology.Queue{Name: "q"}
	for _, test := range []struct {
		step plans.Step
		want string
	}{
		{plans.DeclareExchange{Exchange: topology.Exchange{Name: "x"}}, `declare exchange "x"`},
		{plans.DeclareQueue{Queue: q}, `declare queue "q"`},
		{plans.Bind{Binding: topologytest.ToQueue("x", "1.#", "q")}, `bind exchange "x" to queue "q" with key "1.#"`},
		{plans.Unbind{Binding: withArguments}, `unbind exchange "x" to exchange "y" with key "#" and ` +
			`arguments {"a":1}`},
		{plans.DeleteExchange{Name: "x"}, `delete exchange "x"`},
		{plans.DeleteQueue{Queue: q}, `delete queue "q"`},
		{plans.VerifyEmpty{Queues: []topology.Queue{q, {Name: "r"}}}, `verify that nothing waits in "q", "r"`},
	} {
		if got := test.step.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
