package topology

import (
	"maps"
	"slices"
	"testing"
)

func parkingPolicy() Policy {
	return Policy{Name: "p", Pattern: "^(a|b)$", ApplyTo: "exchanges", Priority: 10,
		Definition: Arguments{"alternate-exchange": "parked"}}
}

func TestAlternateOf(t *testing.T) {
	there := New()
	there.Exchanges["a"] = Exchange{Name: "a"}
	there.Exchanges["b"] = Exchange{Name: "b", Arguments: Arguments{"alternate-exchange": "own"}}
	there.Exchanges["ab"] = Exchange{Name: "ab"}
	there.Policies["p"] = parkingPolicy()
	for exchange, want := range map[string]string{"a": "parked", "b": "own", "ab": "", "elsewhere": ""} {
		if got := there.AlternateOf(exchange); got != want {
			t.Errorf("%q has %q, not %q", exchange, got, want)
		}
	}
	for _, change := range []func(*Policy){
		func(p *Policy) { p.ApplyTo = "queues" },
		func(p *Policy) { p.Pattern = "^(?!x)" }, // which Go does not read
		func(p *Policy) { p.Definition = nil },
	} {
		p := parkingPolicy()
		change(&p)
		there.Policies["p"] = p
		if got := there.AlternateOf("a"); got != "" {
			t.Errorf("by %+v, it is %q", p, got)
		}
	}
}

func TestOfExchanges(t *testing.T) {
	p := Policy{Definition: Arguments{"alternate-exchange": "a", "federation-upstream-set": "all", "max-length": 1}}
	if part := p.OfExchanges(); len(part) != 2 || part["max-length"] != nil {
		t.Errorf("exchanges get %v", part)
	}
}

func TestPolicyDifferences(t *testing.T) {
	for property, change := range map[string]func(*Policy){
		"pattern": func(p *Policy) { p.Pattern = "" }, "apply-to": func(p *Policy) { p.ApplyTo = "all" },
		"priority":           func(p *Policy) { p.Priority = 10.5 },
		"alternate-exchange": func(p *Policy) { p.Definition = Arguments{"alternate-exchange": "other"} },
		"max-length": func(p *Policy) {
			p.Definition = Arguments{"alternate-exchange": "parked", "max-length": int64(1)}
		},
	} {
		have := parkingPolicy()
		change(&have)
		found := parkingPolicy().Differences(have)
		if len(found) != 1 || found[0].Property != property || have.Equal(parkingPolicy()) {
			t.Errorf("the differences of %s are %v", property, found)
		}
		desired, actual := New(), New()
		desired.Policies["p"], actual.Policies["p"] = parkingPolicy(), have
		if d := Diff(desired, actual); !slices.Equal(d.WrongPolicies, []string{"p"}) || len(d.MissingPolicies) > 0 {
			t.Errorf("with another %s: %+v", property, d)
		}
		if objects := Existing(desired, actual); len(objects) != 1 || objects[0].Name != `policy "p"` ||
			len(objects[0].Differences) != 1 {
			t.Errorf("with another %s, there are %v", property, objects)
		}
	}
	desired := New()
	desired.Policies["p"] = parkingPolicy()
	if d := Diff(desired, New()); !slices.Equal(d.MissingPolicies, []string{"p"}) {
		t.Errorf("without it: %+v", d)
	}
	if d := Diff(desired, desired.Clone()); len(d.MissingPolicies)+len(d.WrongPolicies) > 0 {
		t.Errorf("with it: %+v", d)
	}
}

func TestWithoutPolicies(t *testing.T) {
	there := New()
	for _, name := range []string{"a", "b", "parked"} {
		there.Exchanges[name] = Exchange{Name: name}
	}
	there.Queues["q"], there.Queues["kept"] = Queue{Name: "q"}, Queue{Name: "kept"}
	there.Bindings.Add(Binding{Source: "a", RoutingKey: "#", DestinationType: ToQueue, Destination: "q"})
	there.Bindings.Add(Binding{Source: "parked", DestinationType: ToQueue, Destination: "kept"})
	there.Policies["p"] = parkingPolicy()
	bare := there.WithoutPolicies()
	if names := slices.Sorted(maps.Keys(bare.Exchanges)); !slices.Equal(names, []string{"a", "b"}) ||
		len(bare.Queues) != 1 || len(bare.Bindings) != 1 || len(bare.Policies) != 0 {
		t.Errorf("the rest is %v", bare)
	}
	if len(there.Policies) != 1 || len(there.Exchanges) != 3 {
		t.Error("the topology itself has changed")
	}
}
