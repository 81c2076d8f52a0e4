package topology

import "testing"

// Who may touch a topology: its owner, and anybody while it has none.
func TestIsOfOthers(t *testing.T) {
	plain := New()
	plain.Entry, plain.Exchanges["e"] = "e", Exchange{Name: "e"}
	by := func(owners ...string) Topology {
		there := plain.Clone()
		for _, owner := range owners {
			for mark := range plain.WithOwner(owner).Owners {
				there.Bind(mark)
			}
		}
		return there
	}
	for name, test := range map[string]struct {
		own    Topology
		actual Topology
		want   bool
	}{
		"no mark at all":           {plain, plain, false},
		"only its own is missing":  {by("a"), plain, false},
		"its own":                  {by("a"), by("a"), false},
		"its own among others":     {by("a"), by("b", "a"), false},
		"another one":              {by("a"), by("b"), true},
		"others":                   {by("a"), by("b", "c"), true},
		"one of which it has none": {plain, by("b"), true},
	} {
		if got := test.own.IsOfOthers(test.actual); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if none := New(); len(plain.WithOwner("").Owners) > 0 || len(none.WithOwner("a").Owners) > 0 {
		t.Error("there is a mark of nobody, or on nothing")
	}
	if there := by("a", "b"); len(there.Owners) != 2 || len(there.Bindings) != 0 {
		t.Errorf("two owners are %v, beside %v", there.Owners, there.Bindings)
	}
}

// An owner's mark is told from all that looks like it.
func TestOwner(t *testing.T) {
	one := New()
	one.Entry, one.Exchanges["e"] = "e", Exchange{Name: "e"}
	mark := one.WithOwner("a").Owners.Sorted()[0]
	if mark.Owner() != "a" {
		t.Errorf("the owner of %v is %q", mark, mark.Owner())
	}
	for name, change := range map[string]func(*Binding){
		"another key":         func(b *Binding) { b.RoutingKey = "0.#" },
		"another destination": func(b *Binding) { b.Destination = "f" },
		"to a queue":          func(b *Binding) { b.DestinationType = ToQueue },
		"no argument":         func(b *Binding) { b.Arguments = "" },
		"another argument":    func(b *Binding) { b.Arguments = `{"x-other":"a"}` },
		"one argument more":   func(b *Binding) { b.Arguments = `{"x-other":"a","x-owner":"a"}` },
		"a number":            func(b *Binding) { b.Arguments = `{"x-owner":1}` },
	} {
		b := mark
		if change(&b); b.Owner() != "" {
			t.Errorf("%s: the owner is %q", name, b.Owner())
		}
	}
	one.Bindings.Add(Binding{Source: "d", RoutingKey: "0.#"})
	one.Bindings.Add(Binding{Source: "e", RoutingKey: "1.#"})
	if lock := one.LockOn("e", "m"); lock.RoutingKey != "1.#" || !lock.IsLock() || lock.Owner() != "" || mark.IsLock() {
		t.Error("the lock of a create and an owner's mark are the same")
	}
}
