package topology_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

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
		{topology.Arguments{"x-message-ttl": int64(5)}, nil, false},
	} {
		x, y := topology.Queue{Name: "q", Arguments: test.x}, topology.Queue{Name: "q", Arguments: test.y}
		if x.Equal(y) != test.want || y.Equal(x) != test.want {
			t.Errorf("%v and %v: equal %t and %t, want %t", test.x, test.y, x.Equal(y), y.Equal(x), test.want)
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
	text := `{"ttl":134217728000,"half":0.5,"huge":1e300,"nested":{"list":[1,2.5,"3",null,true]},"text":"5"}`
	if err := json.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatal(err)
	}
	want := topology.Arguments{
		"ttl": int64(134217728000), "half": 0.5, "huge": 1e300, "text": "5",
		"nested": map[string]any{"list": []any{int64(1), 2.5, "3", nil, true}},
	}
	got := topology.NormalizeArguments(decoded)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	const canonical = `{"half":0.5,"huge":1e+300,"nested":{"list":[1,2.5,"3",null,true]},"text":"5","ttl":134217728000}`
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

// From a queue a message may come to all that are shorter.
func TestLongestWait(t *testing.T) {
	expanded := topology.New()
	for i, ttl := range []int64{1000, 2000, 4000} {
		name := fmt.Sprintf("q%d", i)
		expanded.Queues[name] = topology.Queue{Name: name, Arguments: topology.Arguments{"x-message-ttl": ttl,
			"x-dead-letter-exchange": fmt.Sprintf("e%d", i-1)}}
	}
	expanded.Queues["parking"] = topology.Queue{Name: "parking"}
	expanded.Bindings.Add(topologytest.ToQueue("e1", "", "q1"))
	expanded.Bindings.Add(topologytest.ToQueue("e0", "", "q0"))
	expanded.Bindings.Add(topology.Binding{Source: "e1", DestinationType: topology.ToExchange, Destination: "e0"})
	for name, want := range map[string]time.Duration{"q0": time.Second, "q1": 3 * time.Second, "q2": 7 * time.Second,
		"parking": 0, "none": 0} {
		if got := expanded.LongestWait(name); got != want {
			t.Errorf("in %s a message may wait %s, not %s", name, got, want)
		}
	}
}
