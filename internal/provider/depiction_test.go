package provider

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func tasks(t testing.TB, config delay.Config) depiction {
	t.Helper()
	config.Name, config.Vhost, config.CreateDeliveryExchange, config.ParkUnroutable = "tasks", "/", true, true
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return depictionOf(resolved)
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

func TestShortKey(t *testing.T) {
	for key, want := range map[string]string{
		"*.*.*.*.1.#":                          "*.*.*.*.1.#",
		"*.*.*.*.*.1.#":                        "*×5.1.#",
		"0.0.0.0.0.0.1.*.*.*.*.*.*.#":          "0×6.1.*×6.#",
		"#":                                    "#",
		strings.Repeat("*.", 22) + "0.0.0.1.#": "*×22.0.0.0.1.#",
	} {
		if got := shortKey(key); got != want {
			t.Errorf("%q becomes %q, not %q", key, got, want)
		}
	}
}

// Every binding has a line of its own, in every cascade.
func TestEveryBindingIsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := delay.Config{Name: "t", Vhost: "/", Base: rapid.IntRange(2, 10).Draw(t, "base"),
			Levels: rapid.IntRange(1, 7).Draw(t, "levels"), StrictKeys: rapid.Bool().Draw(t, "strict")}
		config.Lookahead = rapid.IntRange(1, config.Levels).Draw(t, "lookahead")
		resolved, err := config.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		d := depictionOf(resolved)
		shown := 0
		for _, of := range d.bindings(d.desired).Elements() {
			shown += len(elements(of))
		}
		if shown != len(d.desired.Bindings) {
			t.Errorf("%d of %d bindings are shown", shown, len(d.desired.Bindings))
		}
	})
}

// What others have bound never takes the place of what belongs there, nor of each other.
func TestForeignBindingsAreShown(t *testing.T) {
	d := tasks(t, delay.Config{Levels: 2})
	actual := d.desired
	actual.Bindings = maps.Clone(d.desired.Bindings)
	own := topology.Binding{Source: "tasks.delay-00", RoutingKey: "*.1.#", DestinationType: topology.ToQueue,
		Destination: "tasks.delay-00"}
	if !actual.Bindings.Has(own) {
		t.Fatalf("there is no %v", own)
	}
	delete(actual.Bindings, own)
	elsewhere, conditional := own, own
	elsewhere.Destination, conditional.Arguments = "mine", `{"x":1}`
	hidden, written := elsewhere, elsewhere
	hidden.RoutingKey, written.RoutingKey = "a\x1b", `a\x1b`
	for _, b := range []topology.Binding{elsewhere, conditional, hidden, written} {
		actual.Bindings.Add(b)
	}
	shown := elements(at(d.bindings(actual), "tasks.delay-00"))
	want := []string{"*.0.#", `*.1.# -> queue mine`, `*.1.# -> queue tasks.delay-00 {"x":1}`, `a\x1b -> queue mine`,
		`a\x1b -> queue mine again`}
	if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, want) {
		t.Errorf("shown are %q, not %q", got, want)
	}
	for key, value := range shown {
		if isForeign := value.Equal(types.StringValue(foreign)); isForeign != strings.Contains(key, "->") {
			t.Errorf("%q is %s", key, value)
		}
	}
}

// A usual value is null. A value that was unusual once is planned and read with its value from then on.
func TestUsualIsNull(t *testing.T) {
	d := tasks(t, delay.Config{Levels: 2, QueueType: delay.Quorum})
	m := &declaredModel{QueueType: d.queueType, QueueArguments: d.queueArguments(),
		Queues: d.queues(d.desired, types.Map{}), Exchanges: d.exchanges(d.desired, types.Map{})}
	const queue = "tasks.delay-01"
	for _, attribute := range []string{"type", "durable", "auto_delete", "exclusive", "arguments"} {
		if value := at(m.Queues, queue, attribute); !value.IsNull() {
			t.Errorf("%s is %s", attribute, value)
		}
	}
	if at(m.Queues, "tasks.unroutable", "arguments").IsNull() {
		t.Error("the arguments of the queue of unroutable messages are in no attribute")
	}

	changed := d.desired
	changed.Queues = maps.Clone(changed.Queues)
	changed.Queues[queue] = topology.Queue{Name: queue, Durable: true,
		Arguments: topology.Arguments{"x-message-ttl": int64(2000), "x-overflow": "drop-head"}}
	state := &declaredModel{Queues: d.queues(changed, m.Queues), Exchanges: m.Exchanges}
	for attribute, want := range map[string]attr.Value{
		"type": types.StringValue("classic"), "durable": types.BoolNull(),
		"arguments": argumentsValue(topology.Arguments{"x-overflow": "drop-head"}),
	} {
		if got := at(state.Queues, queue, attribute); !got.Equal(want) {
			t.Errorf("of the changed queue, %s is %s", attribute, got)
		}
	}
	changed.Queues["tasks.delay-00"] = topology.Queue{Name: "tasks.delay-00", Durable: true}
	if got := at(d.queues(changed, m.Queues), "tasks.delay-00", "arguments"); got.IsNull() || len(elements(got)) > 0 {
		t.Errorf("a queue without arguments has %s", got)
	}
	m.keep(state)
	for attribute, want := range map[string]attr.Value{
		"type": types.StringValue("quorum"), "durable": types.BoolNull(), "arguments": d.queueArguments(),
	} {
		if got := at(m.Queues, queue, attribute); !got.Equal(want) {
			t.Errorf("the plan of its repair has %s %s", attribute, got)
		}
	}
	if repaired := d.queues(d.desired, m.Queues); !repaired.Equal(m.Queues) {
		t.Errorf("after the apply, the queues are\n%s, not\n%s", repaired, m.Queues)
	}
}
