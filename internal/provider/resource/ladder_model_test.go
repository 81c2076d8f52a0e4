package resource

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Only the parts of the plan that depend on an unknown value are unknown. A fault that no such value would mend is an
// error already.
func TestLadderWithUnknownValues(t *testing.T) {
	attributes := []string{"bindings", "delivery_exchange", "entry_exchange", "exchanges", "queue_arguments",
		"queue_name", "queues", "summary"}
	delays := types.SetValueMust(types.StringType, []attr.Value{types.StringValue("5s"), types.StringValue("1m")})
	for name, test := range map[string]struct {
		change  func(*ladderModel)
		unknown []string
	}{
		"nothing":   {func(*ladderModel) {}, nil},
		"the vhost": {func(m *ladderModel) { m.Vhost = types.StringUnknown() }, nil},
		"the name": {func(m *ladderModel) { m.Name = types.StringUnknown() }, []string{"bindings", "delivery_exchange",
			"entry_exchange", "exchanges", "queue_name", "queues"}},
		"the delays": {func(m *ladderModel) { m.Delays = types.SetUnknown(types.StringType) },
			[]string{"bindings", "queues", "summary"}},
		"one delay": {func(m *ladderModel) {
			m.Delays = types.SetValueMust(types.StringType, []attr.Value{types.StringValue("5s"),
				types.StringUnknown()})
		}, []string{"bindings", "queues", "summary"}},
		"the fixed key": {func(m *ladderModel) { m.DeadLetterRoutingKey = types.StringUnknown() },
			[]string{"bindings", "queue_arguments"}},
		"the type": {func(m *ladderModel) { m.QueueType = types.StringUnknown() },
			[]string{"queue_arguments", "queues"}},
	} {
		m := ladderModel{declaredModel: declaredModel{Name: types.StringValue("t")}, Delays: delays}
		test.change(&m)
		c, errs := m.forecast(t.Context())
		var unknown []string
		for _, attribute := range attributes {
			if unknownWithin(c[attribute]) {
				unknown = append(unknown, attribute)
			}
		}
		if len(errs) > 0 || !slices.Equal(unknown, test.unknown) {
			t.Errorf("%s: unknown are %q, want %q %v", name, unknown, test.unknown, errs)
		}
	}
	m := ladderModel{declaredModel: declaredModel{Name: types.StringUnknown(), QueueType: types.StringValue("stream")},
		Delays: delays}
	if _, errs := m.forecast(t.Context()); len(errs) == 0 {
		t.Error("a queue type that does not exist is no error while the name is unknown")
	}
}
