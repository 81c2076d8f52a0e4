package recognize

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize/recognizetest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Applications declare these, under other names. An import changes nothing of them, or says what it has seen.
func TestHeldOutTopologies(t *testing.T) {
	for name, test := range recognizetest.HeldOuts {
		if hasSource := test.Source != ""; hasSource == strings.Contains(name, ": after a common shape, ") {
			t.Errorf("%s has the source %q", name, test.Source)
		}
		a := recognizetest.Application{Topology: topology.New()}
		test.Declare(a)
		for _, damaged := range []bool{false, true} {
			refused, repairs := test.Refused, []string(nil)
			if damaged {
				test.Damage(a)
				refused, repairs = test.RefusedDamaged, test.Repairs
			}
			for _, entry := range test.Entries {
				t.Run(fmt.Sprintf("%s/%s/damaged=%t", name, entry, damaged), func(t *testing.T) {
					got, err := heldOutAt(t, NewInventory("/", a.Topology), entry)
					if refused == "" && err == nil {
						mustRepair(t, got, a.Topology, repairs)
					} else if err == nil || refused == "" || !strings.Contains(err.Error(), refused) {
						t.Errorf("recognized %+v, %v, want %q", got, err, refused)
					}
				})
			}
		}
	}
}

// mustRepair makes sure that a plan makes these objects anew, and changes nothing else.
func mustRepair(t *testing.T, desired, there topology.Topology, objects []string) {
	t.Helper()
	d := topology.Diff(desired, there.Part(desired))
	wrong := slices.Concat(d.MissingExchanges, d.MissingQueues, d.WrongQueues, d.WrongExchanges)
	if !slices.Equal(wrong, objects) || len(d.ForeignBindings)+len(d.MissingBindings) > 0 {
		t.Errorf("a plan has %+v, want changes of %q", d, objects)
	}
}

// heldOutAt is what an import recognizes behind the entry, or why it is neither a cascade nor a ladder.
func heldOutAt(t *testing.T, look Lookup, entry string) (topology.Topology, error) {
	t.Helper()
	c, noCascade := Cascade(t.Context(), look, "/", entry)
	if noCascade == nil {
		return c.Expand(), nil
	}
	l, noLadder := Ladder(t.Context(), look, "/", entry)
	if noLadder == nil {
		return l.Expand(), nil
	}
	return topology.Topology{}, errors.Join(noCascade, noLadder)
}

// Whatever keys, names and type of entry a ladder has, an import finds them. Bindings of others to the entry stay.
func TestRecognizeKeyedLadderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := delaytest.AnyKeyedLadder().Draw(t, "ladder")
		want := delaytest.Resolve(t, given).Expand()
		there := want.Clone()
		there.Exchanges, there.Queues = maps.Clone(want.Exchanges), maps.Clone(want.Queues)
		there.Queues["others"] = topology.Queue{Name: "others", Durable: true}
		recognizetest.Application{Topology: there}.Bind(want.Entry, "others", "others")
		got, err := Ladder(t.Context(), holding(t, there), given.Vhost, want.Entry)
		if err != nil {
			t.Fatal(err)
		}
		d := topology.Diff(got.Expand(), there.Part(got.Expand()))
		if !got.Expand().SameObjects(want) || !maps.Equal(got.Expand().Bindings, want.Bindings) ||
			len(d.ForeignBindings) > 0 {
			t.Fatalf("recognized %+v, which is not %+v; foreign are %v", got, given, d.ForeignBindings)
		}
	})
}
