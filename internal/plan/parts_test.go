package plan

import (
	"slices"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// small has an entry e before a queue, and an exchange x before another one, which dead-letters back into e.
func small() topology.Topology {
	t := topology.New()
	t.Entry = "e"
	for _, name := range []string{"e", "x", "y", "spare"} {
		t.Exchanges[name] = topology.Exchange{Name: name, Type: "topic"}
	}
	t.Exchanges["x"] = topology.Exchange{Name: "x", Type: "topic",
		Arguments: topology.Arguments{"alternate-exchange": "spare"}}
	t.Queues["q"] = topology.Queue{Name: "q"}
	t.Queues["x"] = topology.Queue{Name: "x", Arguments: topology.Arguments{"x-dead-letter-exchange": "e"}}
	t.Queues["lone"] = topology.Queue{Name: "lone"}
	for _, b := range []topology.Binding{to(topology.ToQueue, "e", "q"), to(topology.ToExchange, "e", "x"),
		to(topology.ToQueue, "x", "x"), to(topology.ToExchange, "x", "missing"), to(topology.ToQueue, "x", "missing"),
		to(topology.ToQueue, "y", "lone")} {
		t.Bindings.Add(b)
	}
	return t
}

func to(kind topology.DestinationType, source, destination string) topology.Binding {
	return topology.Binding{Source: source, RoutingKey: "#", DestinationType: kind, Destination: destination}
}

// A message gets to all bindings, to the exchange that takes the rest, and to that of a queue whose TTL is over.
func TestBehind(t *testing.T) {
	all := []string{`exchange "e"`, `exchange "spare"`, `exchange "x"`, `queue "q"`, `queue "x"`}
	for _, test := range []struct {
		name string
		kind topology.DestinationType
		want []string
	}{
		{"e", topology.ToExchange, all}, {"x", topology.ToExchange, all}, {"x", topology.ToQueue, all},
		{"e", topology.ToQueue, nil}, {"q", topology.ToExchange, nil}, {"q", topology.ToQueue, []string{`queue "q"`}},
		{"spare", topology.ToExchange, []string{`exchange "spare"`}},
		{"y", topology.ToExchange, []string{`exchange "y"`, `queue "lone"`}}, {"none", topology.ToQueue, nil},
	} {
		if got := slices.Sorted(slices.Values(behind(small(), test.name, test.kind))); !slices.Equal(got, test.want) {
			t.Errorf("behind %s %q are %q", test.kind, test.name, got)
		}
	}
}

// The last phase counts that binds the exchange onwards.
func TestOpens(t *testing.T) {
	from := func(source string) Phase { return Phase{Steps: []Step{Bind{to(topology.ToQueue, source, "q")}}} }
	deletion := Phase{Steps: []Step{DeleteExchange{Name: "e"}}}
	for _, test := range []struct {
		plan Plan
		want int
	}{
		{nil, -1}, {Plan{deletion, from("x")}, -1}, {Plan{from("x"), from("e"), from("x"), deletion}, 1},
		{Plan{from("e"), from("e")}, 1},
	} {
		if got := test.plan.opens("e"); got != test.want {
			t.Errorf("%v opens it in %d, not %d", test.plan.Steps(), got, test.want)
		}
	}
}

// Only an entry that was closed goes again, where one of its bindings cannot be restored. These alone need all behind
// them: a message would get into a gap.
func TestRestoreOfTheEntry(t *testing.T) {
	before := small()
	unbound, closed := before.Clone(), before.Clone()
	unbound.Unbind(func(topology.Binding) bool { return true })
	closed.Unbind(func(topology.Binding) bool { return true })
	delete(closed.Exchanges, before.Entry)
	for want, left := range map[int]topology.Topology{0: unbound, 1: closed} {
		undone := 0
		for _, phase := range restore(before, left) {
			if len(phase.Steps) == 0 {
				t.Error("a phase has no step")
			}
			if phase.Undo != nil {
				undone++
			}
			for _, step := range phase.Steps {
				bind, binds := step.(Bind)
				if isOfEntry := bind.Binding.Source == "e"; binds && isOfEntry != (len(phase.Needs) > 0) {
					t.Errorf("%s needs %q", step, phase.Needs)
				}
			}
		}
		if undone != want {
			t.Errorf("%d phases have an undo, not %d", undone, want)
		}
	}
}

// An exchange that goes with its last binding comes before those that it leads to, whatever lies between.
func TestAutoDeleteFirst(t *testing.T) {
	for _, chain := range [][]string{{"a", "b", "c", "d", "f"}, {"f", "d", "c", "b", "a"}} {
		desired, actual := topology.New(), topology.New()
		for i, name := range chain {
			desired.Exchanges[name] = topology.Exchange{Name: name}
			actual.Exchanges[name] = topology.Exchange{Name: name, Durable: i != 3, AutoDelete: i != 1 && i != 3}
			if i > 0 {
				desired.Bindings.Add(to(topology.ToExchange, chain[i-1], name))
			}
		}
		desired.Bindings.Add(to(topology.ToQueue, chain[4], chain[0]))
		got := newRepair(desired, actual).autoDeleteFirst()
		if want := []string{chain[0], chain[2], chain[4], chain[1]}; !slices.Equal(got, want) {
			t.Errorf("the order is %q, not %q", got, want)
		}
	}
}
