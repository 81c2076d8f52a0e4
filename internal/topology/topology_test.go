package topology_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// RabbitMQ takes a queue without type for a classic one, and no arguments for empty ones.
func TestQueueEqual(t *testing.T) {
	for _, test := range []struct {
		x, y topology.Arguments
		want bool
	}{
		{nil, topology.Arguments{}, true},
		{nil, topology.Arguments{"x-queue-type": "classic"}, true},
		{nil, topology.Arguments{"x-queue-type": "quorum"}, false},
		{topology.Arguments{"x-message-ttl": int64(5)}, topology.Arguments{"x-message-ttl": int64(5),
			"x-queue-type": "classic"}, true},
		{topology.Arguments{"x-message-ttl": int64(5)}, topology.Arguments{"x-message-ttl": "5"}, false},
		{topology.Arguments{"x-message-ttl": int64(5)}, topology.Arguments{"x-message-ttl": int64(5)}, true},
		{topology.Arguments{"x-message-ttl": int64(5)}, nil, false},
	} {
		x, y := topology.Queue{Name: "q", Arguments: test.x}, topology.Queue{Name: "q", Arguments: test.y}
		if x.Equal(y) != test.want || y.Equal(x) != test.want {
			t.Errorf("%v and %v: equal %t and %t, want %t", test.x, test.y, x.Equal(y), y.Equal(x), test.want)
		}
		same := test.want && len(test.x) == len(test.y) // an argument that is absent and one of the same meaning differ
		if test.x.Equal(test.y) != same || test.y.Equal(test.x) != same {
			t.Errorf("the arguments %v and %v are equal: %t", test.x, test.y, !same)
		}
	}
}

func TestAtLeastOnce(t *testing.T) {
	complete := func() topology.Arguments {
		return topology.Arguments{"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once",
			"x-overflow": "reject-publish"}
	}
	if !(topology.Queue{Arguments: complete()}).AtLeastOnce() {
		t.Error("with all that it needs, it is not at-least-once")
	}
	for key := range complete() {
		arguments := complete()
		delete(arguments, key)
		if (topology.Queue{Arguments: arguments}).AtLeastOnce() {
			t.Errorf("without %s, it is at-least-once", key)
		}
	}
}

// What JSON holds comes back with whole numbers as int64, which print as what they are.
func TestNormalizeArguments(t *testing.T) {
	var decoded map[string]any
	text := `{"ttl":134217728000,"half":0.5,"huge":1e300,"edge":9007199254740991,"over":9007199254740992,` +
		`"nested":{"list":[1,2.5,"3",null,true]},"text":"5"}`
	if err := json.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatal(err)
	}
	want := topology.Arguments{
		"ttl": int64(134217728000), "half": 0.5, "huge": 1e300, "text": "5", "edge": int64(1<<53 - 1),
		"over":   float64(1 << 53),
		"nested": map[string]any{"list": []any{int64(1), 2.5, "3", nil, true}},
	}
	got := topology.NormalizeArguments(decoded)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	const canonical = `{"edge":9007199254740991,"half":0.5,"huge":1e+300,"nested":{"list":[1,2.5,"3",null,true]},` +
		`"over":9007199254740992,"text":"5","ttl":134217728000}`
	if got.JSON() != canonical {
		t.Errorf("got %s, want %s", got.JSON(), canonical)
	}
	for _, none := range []map[string]any{nil, {}} {
		if got := topology.NormalizeArguments(none); !got.Equal(nil) || got.JSON() != "" {
			t.Errorf("%#v has become %#v", none, got)
		}
	}
}

// Different values never look the same.
func TestValueText(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{"quorum", "quorum"}, {"", ""}, {"5", `"5"`}, {int64(5), "5"}, {"true", `"true"`}, {true, "true"},
		{`"x"`, `"\"x\""`},
		{nil, "null"}, {"null", `"null"`}, {int64(134217728000), "134217728000"}, {0.5, "0.5"},
		{[]any{int64(1)}, "[1]"},
	} {
		if got := topology.ValueText(test.value); got != test.want {
			t.Errorf("%#v is %s, want %s", test.value, got, test.want)
		}
	}
	value := rapid.OneOf(rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(),
		rapid.SampledFrom([]string{"1", "true", "null", `"a"`, "[]"}).AsAny())
	rapid.Check(t, func(t *rapid.T) {
		x, y := value.Draw(t, "x"), value.Draw(t, "y")
		if same := topology.ValueText(x) == topology.ValueText(y); same != (x == y) {
			t.Fatalf("%#v and %#v are %s and %s", x, y, topology.ValueText(x), topology.ValueText(y))
		}
	})
}

// A topology is empty without any object, and two are the same with the same objects. A clone has what it is of.
func TestObjects(t *testing.T) {
	kinds := []func(topology.Topology){
		func(t topology.Topology) { t.Exchanges["x"] = topology.Exchange{Name: "x"} },
		func(t topology.Topology) { t.Queues["q"] = topology.Queue{Name: "q"} },
		func(t topology.Topology) { t.Policies["p"] = topology.Policy{Name: "p"} },
	}
	all := map[string]bool{}
	for chosen := range 1 << len(kinds) {
		there, want := topology.New(), topology.New()
		for i, add := range kinds {
			if chosen>>i&1 == 1 {
				add(there)
			}
			add(want)
		}
		if there.IsEmpty() != (chosen == 0) || there.SameObjects(want) != (chosen+1 == 1<<len(kinds)) {
			t.Errorf("%v is empty: %t, whole: %t", there.Objects(), there.IsEmpty(), there.SameObjects(want))
		}
		if clone := there.WithOwner("a").Clone(); !clone.SameObjects(there) || len(clone.Owners) != min(chosen, 1) {
			t.Errorf("the clone of %v is %v with %v", there.Objects(), clone.Objects(), clone.Owners)
		}
		if part := want.Part(there); !part.SameObjects(there) || part.IsWhole() {
			t.Errorf("the part with %v has %v", there.Objects(), part.Objects())
		}
		all[fmt.Sprint(there.Objects())] = true
	}
	other := topology.New()
	if other.Delivery = "d"; len(all) != 1<<len(kinds) || other.SameObjects(topology.New()) {
		t.Errorf("these are the same: %v", all)
	}
	var none topology.Topology
	none = none.Clone()
	none.Policies["p"] = topology.Policy{} // which would panic without a map
	none.Owners.Add(topology.Binding{})
}

// Which bindings are the topology's own, and which lead into it.
func TestOwnsBinding(t *testing.T) {
	own := topology.New()
	own.Entry, own.Delivery, own.DeliveryType = "e", "d", "topic"
	for _, name := range []string{"e", "x", "d"} {
		own.Exchanges[name] = topology.Exchange{Name: name, Type: "topic"}
	}
	own.Queues["q"] = topology.Queue{Name: "q"}
	shared := own
	shared.Shared = true
	for _, test := range []struct {
		binding               topology.Binding
		owned, shared, enters bool
	}{
		{topologytest.ToQueue("e", "#", "q"), true, true, true},
		{topologytest.ToExchange("e", "#", "x"), true, true, true},
		{topologytest.ToExchange("e", "#", "d"), true, true, true},
		{topologytest.ToQueue("e", "#", "x"), true, false, false},
		{topologytest.ToExchange("e", "#", "q"), true, false, false},
		{topologytest.ToQueue("x", "#", "other"), true, true, false},
		{topologytest.ToQueue("d", "#", "q"), false, false, true},
		{topologytest.ToQueue("other", "#", "q"), false, false, true},
		{topologytest.ToQueue("other", "#", "other"), false, false, false},
	} {
		if own.OwnsBinding(test.binding) != test.owned || shared.OwnsBinding(test.binding) != test.shared ||
			own.Takes(test.binding) != test.enters {
			t.Errorf("%s: owned %t, by a shared one %t, leads into it %t", test.binding.Describe(),
				own.OwnsBinding(test.binding), shared.OwnsBinding(test.binding), own.Takes(test.binding))
		}
	}
	// A part has the bindings of its exchanges, and the marks of its entry alone.
	for entry, marks := range map[string]int{"e": 1, "other": 0, "x": 0} {
		want := own.Clone()
		want.Entry = entry
		there := own.WithOwner("a")
		if part := there.Part(want); len(part.Owners) != marks || part.DeliveryType != "topic" {
			t.Errorf("the part with entry %q is %v", entry, part)
		}
	}
	unnamed := topology.New()
	unnamed.Exchanges[""] = topology.Exchange{Type: "direct"}
	if part := unnamed.Part(topology.New()); part.DeliveryType != "" {
		t.Errorf("the default exchange is a delivery exchange of type %q", part.DeliveryType)
	}
}

// What a queue does with a message whose TTL is over.
func TestDeadLetters(t *testing.T) {
	for _, test := range []struct {
		arguments topology.Arguments
		delays    bool
		queue     string
	}{
		{nil, false, ""}, {topology.Arguments{"x-message-ttl": int64(0)}, true, ""},
		{topology.Arguments{"x-message-ttl": int64(-1)}, false, ""},
		{topology.Arguments{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}, false, "q"},
		{topology.Arguments{"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "q"}, false, ""},
		{topology.Arguments{"x-dead-letter-routing-key": "q"}, false, ""},
	} {
		q := topology.Queue{Name: "q", Arguments: test.arguments}
		if q.Delays() != test.delays || q.DeadLetterQueue() != test.queue {
			t.Errorf("%v: it delays %t, into queue %q", test.arguments, q.Delays(), q.DeadLetterQueue())
		}
	}
	if topologytest.ToQueue("x", "#", "q").DestinationObject() != `queue "q"` ||
		topologytest.ToExchange("x", "#", "q").DestinationObject() != `exchange "q"` {
		t.Error("a queue and an exchange have the same words")
	}
}

func TestBindingLine(t *testing.T) {
	for _, test := range []struct {
		binding topology.Binding
		want    string
	}{
		{topologytest.ToQueue("x", "1.#", "q"), "1.# -> queue q"},
		{topologytest.ToExchange("x", "0.#", "y"), "0.# -> exchange y"},
		{topology.Binding{Source: "x", DestinationType: topology.ToQueue, Destination: "q", Arguments: `{"a":1}`},
			` -> queue q {"a":1}`},
	} {
		if got := test.binding.Line(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
