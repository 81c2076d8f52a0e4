package topologytest_test

import (
	"reflect"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// A key is split at every dot, the empty key has no words at all, and "*" takes an empty word.
func TestRouteTopic(t *testing.T) {
	for _, test := range []struct {
		pattern, key string
		want         bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a", false}, {"a.b", "a.b.c", false}, {"a.b", "a.B", false},
		{"*", "a", true}, {"*", "", false}, {"*", ".", false}, {"*.*", ".", true}, {"a.*", "a.", true},
		{"a.*.b", "a..b", true},
		{"", "", true}, {"", "a", false}, {"a", "", false},
		{"#", "", true}, {"#", "a", true}, {"#", "a.b", true}, {"#.#", "", true},
		{"a.#", "a", true}, {"a.#", "a.b.c", true}, {"a.#", "b", false}, {"a.#", "ab", false},
		{"#.b", "b", true}, {"#.b", "a.a.b", true}, {"#.b", "a.b.a", false},
		{"a.#.b", "a.b", true}, {"a.#.b", "a.x.y.b", true}, {"a.#.b", "a", false},
		{"#.*", "", false}, {"#.*", "a", true}, {"*.#.*", "a", false}, {"*.#.*", "a.b", true},
		{"#.a.#.b.#", "x.a.b.y", true}, {"#.a.#.b.#", "b.a", false},
		{"1.*.*.#", "1.0.d", true}, {"1.*.*.#", "1.0", false}, {"1.*.*.#", "1.0.d.e", true},
		{"a", "*", false}, {"*", "*", true}, {"a", "#", false},
	} {
		to := topology.New()
		to.Exchanges["x"] = topology.Exchange{Name: "x", Type: "topic"}
		to.Bindings.Add(topology.Binding{Source: "x", RoutingKey: test.pattern, DestinationType: topology.ToQueue,
			Destination: "q"})
		if got := len(topologytest.Route(to, "x", test.key)) == 1; got != test.want {
			t.Errorf("pattern %q takes key %q: %t, want %t", test.pattern, test.key, got, test.want)
		}
	}
}

func TestRoute(t *testing.T) {
	queue := func(source, key, destination string) topology.Binding {
		return topology.Binding{Source: source, RoutingKey: key, DestinationType: topology.ToQueue,
			Destination: destination}
	}
	exchange := func(source, key, destination string) topology.Binding {
		return topology.Binding{Source: source, RoutingKey: key, DestinationType: topology.ToExchange,
			Destination: destination}
	}
	alternate := func(name string) topology.Arguments { return topology.Arguments{"alternate-exchange": name} }
	for _, test := range []struct {
		name      string
		exchanges []topology.Exchange
		bindings  []topology.Binding
		want      []string
	}{
		{
			name:      "a direct exchange compares the whole key",
			exchanges: []topology.Exchange{{Name: "x", Type: "direct"}},
			bindings:  []topology.Binding{queue("x", "a.b", "q1"), queue("x", "a.*", "q2"), queue("x", "#", "q3")},
			want:      []string{"q1"},
		},
		{
			name:      "a fanout exchange takes everything",
			exchanges: []topology.Exchange{{Name: "x", Type: "fanout"}},
			bindings:  []topology.Binding{queue("x", "z", "q1"), queue("x", "", "q2")},
			want:      []string{"q1", "q2"},
		},
		{
			name:      "a queue reached by several ways gets one copy",
			exchanges: []topology.Exchange{{Name: "x", Type: "topic"}, {Name: "y", Type: "topic"}},
			bindings: []topology.Binding{queue("x", "a.#", "q"), queue("x", "#", "q"), exchange("x", "a.b", "y"),
				queue("y", "*.b", "q")},
			want: []string{"q"},
		},
		{
			name:      "exchanges that lead to each other are visited once",
			exchanges: []topology.Exchange{{Name: "x", Type: "topic"}, {Name: "y", Type: "topic"}},
			bindings: []topology.Binding{exchange("x", "#", "y"), exchange("y", "#", "x"), exchange("x", "#", "x"),
				queue("y", "a.b", "q")},
			want: []string{"q"},
		},
		{
			name: "an alternate exchange takes what no binding takes",
			exchanges: []topology.Exchange{{Name: "x", Type: "topic", Arguments: alternate("alt")},
				{Name: "alt", Type: "fanout"}},
			bindings: []topology.Binding{queue("x", "other", "q"), queue("alt", "", "parked")},
			want:     []string{"parked"},
		},
		{
			name: "an alternate exchange stays out where a binding takes the message",
			exchanges: []topology.Exchange{{Name: "x", Type: "topic", Arguments: alternate("alt")},
				{Name: "alt", Type: "fanout"}},
			bindings: []topology.Binding{queue("x", "a.*", "q"), queue("alt", "", "parked")},
			want:     []string{"q"},
		},
		{
			name: "a binding to an exchange that routes nowhere counts as taken",
			exchanges: []topology.Exchange{{Name: "x", Type: "topic", Arguments: alternate("alt")},
				{Name: "y", Type: "topic"}, {Name: "alt", Type: "fanout"}},
			bindings: []topology.Binding{exchange("x", "#", "y"), queue("alt", "", "parked")},
		},
		{
			name: "the exchange where the way ends has its own alternate exchange",
			exchanges: []topology.Exchange{{Name: "x", Type: "topic"},
				{Name: "y", Type: "topic", Arguments: alternate("alt")}, {Name: "alt", Type: "fanout"}},
			bindings: []topology.Binding{exchange("x", "#", "y"), queue("alt", "", "parked")},
			want:     []string{"parked"},
		},
		{
			name: "alternate exchanges form a chain, and one that is missing takes nothing",
			exchanges: []topology.Exchange{{Name: "x", Type: "topic", Arguments: alternate("y")},
				{Name: "y", Type: "direct", Arguments: alternate("missing")}},
		},
		{
			name:     "an exchange that does not exist takes nothing",
			bindings: []topology.Binding{queue("x", "#", "q")},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			to := topology.New()
			for _, e := range test.exchanges {
				to.Exchanges[e.Name] = e
			}
			for _, b := range test.bindings {
				to.Bindings.Add(b)
			}
			if got := topologytest.Route(to, "x", "a.b"); !reflect.DeepEqual(got, test.want) {
				t.Errorf("reached %q, want %q", got, test.want)
			}
		})
	}
}
