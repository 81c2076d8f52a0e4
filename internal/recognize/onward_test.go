package recognize

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// onwardFrom is a vhost with exchanges, each as "name type" or "name type alternate", and bindings, each as "source key
// destination". Queues begin with "q".
func onwardFrom(exchanges, bindings []string) topology.Topology {
	there := topology.New()
	for _, each := range exchanges {
		fields := strings.Fields(each)
		e := topology.Exchange{Name: fields[0], Type: fields[1]}
		if len(fields) > 2 {
			e.Arguments = topology.Arguments{"alternate-exchange": fields[2]}
		}
		there.Exchanges[e.Name] = e
	}
	for _, each := range bindings {
		fields := strings.Fields(each)
		b := topology.Binding{Source: fields[0], RoutingKey: fields[1], DestinationType: topology.ToExchange,
			Destination: fields[2]}
		if strings.HasPrefix(b.Destination, "q") {
			b.DestinationType = topology.ToQueue
		}
		there.Bindings.Add(b)
	}
	return there
}

func TestFollow(t *testing.T) {
	digits := topology.TopicKey{topology.Digits, topology.Digits, "order", "created"}
	for name, test := range map[string]struct {
		exchanges, bindings []string
		want                Way
	}{
		"a queue": {[]string{"x topic"}, []string{"x #.order.created q"}, Way{}},
		"a key without the digits": {[]string{"x topic"}, []string{"x order.created q", "x order.# q"},
			Way{Ends: []End{{"x", []string{"order.#", "order.created"}}}}},
		"some of the keys":  {[]string{"x topic"}, []string{"x 0.*.order.created q"}, Way{}},
		"no binding":        {[]string{"x topic"}, nil, Way{Ends: []End{{Exchange: "x"}}}},
		"no exchange":       {nil, nil, Way{Ends: []End{{Exchange: "x"}}}},
		"a direct exchange": {[]string{"x direct"}, []string{"x 0.1.order.created q"}, Way{}},
		"a direct exchange, wildcard": {[]string{"x direct"}, []string{"x # q"},
			Way{Ends: []End{{"x", []string{"#"}}}}},
		"a fanout": {[]string{"x fanout"}, []string{"x any q"}, Way{}},
		"another exchange": {[]string{"x topic", "y topic"}, []string{"x # y", "y *.*.order.# q"},
			Way{}},
		"two exchanges, in circles": {[]string{"x topic", "y topic"}, []string{"x # y", "y # x", "y other q"},
			Way{Ends: []End{{"x", []string{"#"}}}}},
		"two dead ends": {[]string{"x fanout", "y topic", "z direct"}, []string{"x a y", "x a z", "y b q", "z c q"},
			Way{Ends: []End{{"y", []string{"b"}}, {"z", []string{"c"}}}}},
		"an alternate exchange": {[]string{"x topic y", "y fanout"}, []string{"x order.created q", "y a q"}, Way{}},
		"an alternate exchange that leads nowhere": {[]string{"x topic y", "y fanout"}, []string{"x a q"},
			Way{Ends: []End{{Exchange: "y"}}}},
		"an alternate exchange that gets nothing": {[]string{"x topic z", "y topic", "z fanout"},
			[]string{"x # y", "z a q"}, Way{Ends: []End{{Exchange: "y"}}}},
		"an alternate exchange that gets the rest": {[]string{"x topic z", "y topic", "z fanout"},
			[]string{"x 0.# y", "z a q"}, Way{}},
		"an alternate exchange by policy": {[]string{"by-policy topic", "y fanout", "x topic by-policy"},
			[]string{"y a q"}, Way{}},
		"headers": {[]string{"x topic", "y headers", "z topic"}, []string{"x # y", "x # z", "y a q"},
			Way{Unknown: "y", Why: "it is of type headers"}},
		"headers, without a binding": {[]string{"x headers"}, nil, Way{Ends: []End{{Exchange: "x"}}}},
		"headers, beside a queue":    {[]string{"x topic", "y headers"}, []string{"x # y", "x # q", "y a q"}, Way{}},
	} {
		t.Run(name, func(t *testing.T) {
			there := onwardFrom(test.exchanges, test.bindings)
			there.Policies["p"] = topology.Policy{Name: "p", Pattern: "^by", ApplyTo: "exchanges",
				Definition: topology.Arguments{"alternate-exchange": "y"}}
			way, err := NewOnward(t.Context(), NewInventory("/", there)).Follow("x", digits)
			if err != nil || !reflect.DeepEqual(way, test.want) {
				t.Errorf("got %+v (%v)", way, err)
			}
		})
	}
}

func TestFollowTooFar(t *testing.T) {
	var exchanges, bindings []string
	for i := range mostExchanges + 1 {
		exchanges = append(exchanges, fmt.Sprintf("x%d fanout", i))
		bindings = append(bindings, fmt.Sprintf("x%d a x%d", i, i+1))
	}
	way, err := NewOnward(t.Context(), NewInventory("/", onwardFrom(exchanges, bindings))).Follow("x0", nil)
	if err != nil || way.Unknown != "x0" || way.Ends != nil {
		t.Errorf("got %+v (%v)", way, err)
	}
}

// TestFollowAsRouted compares with what the model of a broker does with each key that a pattern stands for. Of a single
// key, both say the same. Of a pattern, it never says that messages get no further where one does.
func TestFollowAsRouted(t *testing.T) {
	const rounds = 20_000
	random := rand.New(rand.NewPCG(38, 10))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	names, ends := []string{"x", "y", "z"}, 0
	some := func() (exchanges, bindings []string) {
		for _, name := range names {
			exchanges = append(exchanges, strings.Join([]string{name, pick("topic", "direct", "fanout"),
				pick("", "", "x", "y", "z", "gone")}, " "))
		}
		for range random.IntN(5) {
			key := pick("0.a", "1.a", "a", "*.a", "#.a", "0.#", "b.#", "#", "*.*")
			bindings = append(bindings, strings.Join([]string{pick(names...), key, pick("y", "z", "q")}, " "))
		}
		return exchanges, bindings
	}
	arrives := func(there topology.Topology, pattern topology.TopicKey) bool {
		return slices.ContainsFunc([]string{"0.a", "1.a", "a", "b.a"}, func(key string) bool {
			return pattern.Matches(topology.ParseTopicKey(key)) && len(topologytest.Route(there, "x", key)) > 0
		})
	}
	for range rounds {
		exchanges, bindings := some()
		there := onwardFrom(exchanges, bindings)
		onward := NewOnward(t.Context(), NewInventory("/", there))
		for _, pattern := range []topology.TopicKey{{"0", "a"}, {"1", "a"}, {topology.Digits, "a"}, {"#", "a"}} {
			arrives := arrives(there, pattern)
			way, err := onward.Follow("x", pattern)
			isSingle := pattern[0] == "0" || pattern[0] == "1"
			if err != nil || arrives && len(way.Ends) > 0 || isSingle && !arrives && len(way.Ends) == 0 {
				t.Fatalf("with %v and %v, %q arrives: %t, and the way is %+v (%v)", exchanges, bindings, pattern,
					arrives, way, err)
			}
			if !isSingle {
				ends += len(way.Ends)
			}
		}
	}
	if ends < rounds/10 {
		t.Errorf("of %d patterns, it says %d times that messages get no further", 2*rounds, ends)
	}
}
