package resource

import (
	"maps"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A usual value is null. A value that was unusual once is planned and read with its value from then on.
func TestUsualIsNull(t *testing.T) {
	resolved, err := delay.Config{Name: "tasks", Vhost: "/", Levels: 2, QueueType: delay.Quorum,
		CreateDeliveryExchange: true, ParkUnroutable: true}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	d := tfvalue.OfCascade(resolved)
	m := &declaredModel{QueueType: d.QueueType, QueueArguments: d.QueueArguments(),
		Queues: d.Queues(d.Desired, types.Map{}), Exchanges: d.Exchanges(d.Desired, types.Map{})}
	const queue = "tasks.delay-01"
	for _, attribute := range []string{"type", "durable", "auto_delete", "exclusive", "arguments"} {
		if value := at(m.Queues, queue, attribute); !value.IsNull() {
			t.Errorf("%s is %s", attribute, value)
		}
	}
	if at(m.Queues, "tasks.unroutable", "arguments").IsNull() {
		t.Error("the arguments of the queue of unroutable messages are in no attribute")
	}

	changed := d.Desired
	changed.Queues = maps.Clone(changed.Queues)
	changed.Queues[queue] = topology.Queue{Name: queue, Durable: true,
		Arguments: topology.Arguments{"x-message-ttl": int64(2000), "x-overflow": "drop-head"}}
	state := &declaredModel{Queues: d.Queues(changed, m.Queues), Exchanges: m.Exchanges}
	for attribute, want := range map[string]attr.Value{
		"type": types.StringValue("classic"), "durable": types.BoolNull(),
		"arguments": types.MapValueMust(types.StringType, map[string]attr.Value{
			"x-overflow": types.StringValue("drop-head")}),
	} {
		if got := at(state.Queues, queue, attribute); !got.Equal(want) {
			t.Errorf("of the changed queue, %s is %s", attribute, got)
		}
	}
	changed.Queues["tasks.delay-00"] = topology.Queue{Name: "tasks.delay-00", Durable: true}
	if got := at(d.Queues(changed, m.Queues), "tasks.delay-00", "arguments"); got.IsNull() || len(elements(got)) > 0 {
		t.Errorf("a queue without arguments has %s", got)
	}
	m.keep(state)
	for attribute, want := range map[string]attr.Value{
		"type": types.StringValue("quorum"), "durable": types.BoolNull(), "arguments": d.QueueArguments(),
	} {
		if got := at(m.Queues, queue, attribute); !got.Equal(want) {
			t.Errorf("the plan of its repair has %s %s", attribute, got)
		}
	}
	if repaired := d.Queues(d.Desired, m.Queues); !repaired.Equal(m.Queues) {
		t.Errorf("after the apply, the queues are\n%s, not\n%s", repaired, m.Queues)
	}
}

// at is the value that a path of keys leads to.
func at(value attr.Value, keys ...string) attr.Value {
	for _, key := range keys {
		switch v := value.(type) {
		case types.Map:
			value = v.Elements()[key]
		case types.Object:
			value = v.Attributes()[key]
		default:
			return nil
		}
	}
	return value
}
