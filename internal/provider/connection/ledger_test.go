package connection

import (
	"slices"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// named is a ladder with queues of these names, and the delivery exchange that all have.
func named(entry string, queues ...string) *Planned {
	one := &Planned{Kind: "ladder", Vhost: "/", Topology: topology.New()}
	one.Entry, one.Delivery = entry, "events"
	for _, name := range []string{entry, "events"} {
		one.Exchanges[name] = topology.Exchange{Name: name}
	}
	for _, name := range queues {
		one.Queues[name] = topology.Queue{Name: name}
	}
	return one
}

func elsewhere(one *Planned) *Planned {
	one.Vhost = "other"
	return one
}

// Two addresses, in both orders: what they have in common is a conflict, and who lets go of it is known.
func TestConflicts(t *testing.T) {
	const x, y = `exchange "x"`, `exchange "y"`
	for name, test := range map[string]struct {
		one, other Address
		declared   []string // twice
		lost       []string // let go by one or the other
	}{
		"nothing in common": {Address{Declares: named("x")}, Address{Declares: named("y")}, nil, nil},
		"two new ones":      {Address{Declares: named("x")}, Address{Declares: named("x")}, []string{x}, nil},
		"of two vhosts":     {Address{Declares: named("x")}, Address{Declares: elsewhere(named("x"))}, nil, nil},
		"two that stay": {Address{Holds: named("x"), Declares: named("x")}, Address{Holds: named("x"),
			Declares: named("x")}, []string{x}, nil},
		"two that go": {Address{Holds: named("x"), Goes: true}, Address{Holds: named("x"), Goes: true}, nil, nil},
		"a new address": {Address{Holds: named("x"), Goes: true}, Address{Declares: named("x")}, nil,
			[]string{x}},
		"one goes, and another one stays": {Address{Holds: named("x"), Goes: true}, Address{Holds: named("x"),
			Declares: named("x")}, nil, []string{x}},
		"a list that gets shorter": {Address{Holds: named("x"), Declares: named("y")}, Address{Holds: named("y"),
			Goes: true}, nil, []string{y}},
		"a swap": {Address{Holds: named("x"), Declares: named("y")}, Address{Holds: named("y"),
			Declares: named("x")}, nil, []string{x, y}},
		"a change that leaves a queue": {Address{Holds: named("x", "q"), Declares: named("x")},
			Address{Declares: named("y", "q")}, nil, []string{`queue "q"`}},
		"a change that keeps a queue": {Address{Holds: named("x", "q"), Declares: named("z", "q")},
			Address{Declares: named("y", "q")}, []string{`queue "q"`}, nil},
		"new names that are not known": {Address{Holds: named("x")}, Address{Declares: named("x")}, []string{x}, nil},
		"a create that is not known":   {Address{}, Address{Declares: named("x")}, nil, nil},
	} {
		for _, order := range [][]Address{{test.one, test.other}, {test.other, test.one}} {
			var ledger Ledger
			var declared, lost []string
			for _, a := range order {
				for _, c := range ledger.Note(a) {
					if c.WouldDelete {
						lost = append(lost, c.Objects...)
					} else {
						declared = append(declared, c.Objects...)
					}
				}
			}
			if slices.Sort(lost); !slices.Equal(declared, test.declared) || !slices.Equal(lost, test.lost) {
				t.Errorf("%s: declared twice are %q, and lost %q", name, declared, lost)
			}
		}
	}
}

// Who goes, or declares other exchanges, lets go of what it holds.
func TestGivesUp(t *testing.T) {
	for name, test := range map[string]struct {
		of   Address
		want bool
	}{
		"a create":           {Address{Declares: named("x")}, false},
		"it stays":           {Address{Holds: named("x"), Declares: named("x", "q")}, false},
		"it goes":            {Address{Holds: named("x"), Goes: true}, true},
		"it moves":           {Address{Holds: named("x"), Declares: named("y")}, true},
		"it is not known":    {Address{Holds: named("x")}, false},
		"in another vhost":   {Address{Holds: elsewhere(named("x")), Goes: true}, false},
		"to another vhost":   {Address{Holds: named("x"), Declares: elsewhere(named("x"))}, true},
		"it had another one": {Address{Holds: named("y"), Goes: true}, false},
	} {
		var ledger Ledger
		ledger.Note(test.of)
		if got := ledger.GivesUp("/", "x"); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Terraform plans the two halves of a replacement one after the other, with other addresses between them. It is one
// address, which has no conflict with itself, and each other conflict is said once.
func TestReplacementIsOneAddress(t *testing.T) {
	for name, between := range map[string]Address{"nothing": {}, "another": {Declares: named("x")}} {
		var ledger Ledger
		found := 0
		for _, a := range []Address{
			{ID: "1", Holds: named("x"), Declares: named("x", "q")}, between, {ID: "1", Declares: named("x", "q")},
		} {
			found += len(ledger.Note(a))
		}
		want := 0
		if between.Declares != nil {
			want = 1
		}
		if found != want {
			t.Errorf("%s: there are %d conflicts", name, found)
		}
		if held, planned := ledger.HeldIn("/"), ledger.In("/"); len(held) != 1 || len(planned) != 1+want {
			t.Errorf("%s: held are %v, planned %v", name, held, planned)
		}
	}
	var ledger Ledger // names that only the second half knows
	found := ledger.Note(Address{Declares: named("y")})
	found = append(found, ledger.Note(Address{ID: "1", Holds: named("x")})...)
	if found = append(found, ledger.Note(Address{ID: "1", Declares: named("y")})...); len(found) != 1 {
		t.Errorf("there are these conflicts: %v", found)
	}
}

// With -minimal-refresh, Terraform plans an address, reads it, and plans it once more, as a create if it is gone.
func TestPlannedOnceMore(t *testing.T) {
	one := Address{ID: "one", Holds: named("x"), Declares: named("x")}
	another := one
	another.ID = "another"
	var ledger Ledger
	for range 2 {
		if conflicts := ledger.Note(one); len(conflicts) > 0 {
			t.Errorf("an address is in conflict with itself: %v", conflicts)
		}
	}
	if len(ledger.Note(another)) == 0 {
		t.Error("two addresses have the same objects")
	}
	ledger.Forget("another")
	ledger.Forget("one")
	if conflicts := ledger.Note(Address{Declares: named("x")}); len(conflicts) > 0 {
		t.Errorf("an address is in conflict with what is gone: %v", conflicts)
	}
}

// With terraform test, one provider makes several plans. What an apply has made is the same address in the next plan.
func TestDone(t *testing.T) {
	var ledger Ledger
	create := Address{Declares: named("x")}
	ledger.Note(create)
	for _, found := range ledger.Note(create) {
		if !found.MayBeOne {
			t.Errorf("two creates are a conflict that deletes something: %v", found)
		}
	}
	ledger.Done(create, "one")
	there := Address{ID: "one", Holds: named("x"), Declares: named("x")}
	if found := ledger.Note(there); len(found) > 0 {
		t.Errorf("what was made is in conflict with its create: %v", found)
	}
	adopting := create
	adopting.Adopts = true
	if found := ledger.Note(adopting); len(found) != 1 || found[0].MayBeOne {
		t.Errorf("what another address has is adopted, with these conflicts: %v", found)
	}
	ledger.Done(Address{Declares: named("x")}, "two")
	replaced := Address{ID: "three", Holds: named("before"), Declares: named("after")}
	ledger.Note(replaced)
	for _, found := range ledger.Note(Address{Declares: named("after"), Adopts: true}) {
		if !found.MayBeOne {
			t.Errorf("the second half of a replacement, planned again in the apply, is a conflict: %v", found)
		}
	}
	for _, id := range []string{"one", "two"} {
		ledger.Note(Address{ID: id, Holds: named("x"), Goes: true})
		ledger.Done(Address{ID: id, Goes: true}, id)
	}
	if found := ledger.Note(create); len(found) > 0 {
		t.Errorf("what is destroyed is in conflict with a create: %v", found)
	}
}

// Whichever comes second is told of the other one. Bindings of other queues and vhosts have nothing to do with it.
func TestBindingsThatPass(t *testing.T) {
	b := topology.Binding{Source: "d", RoutingKey: "*.a", DestinationType: topology.ToQueue, Destination: "q"}
	other := b
	other.Destination = "other"
	var removedFirst, madeFirst Ledger
	if removedFirst.NoteUnbind("/", b) || removedFirst.NoteBind("/", other) || removedFirst.NoteBind("v", b) ||
		!removedFirst.NoteBind("/", b) {
		t.Error("removed first")
	}
	if madeFirst.NoteBind("/", b) || madeFirst.NoteUnbind("/", other) ||
		!madeFirst.NoteUnbind("/", b) {
		t.Error("made first")
	}
	if madeFirst.Bound("/", b); madeFirst.NoteUnbind("/", b) {
		t.Error("made before the other one is removed")
	}
}
