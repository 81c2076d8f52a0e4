package topology

import (
	"slices"
	"testing"
)

// Only the one argument with a text is a mark. A binding with it differs from all others, and is plain without it.
func TestDestinationMark(t *testing.T) {
	plain := Binding{Source: "d", RoutingKey: "*.a", DestinationType: ToQueue, Destination: "q"}
	one, other := plain.OfDestination("one"), plain.OfDestination("other")
	if one == other || one == plain || one.DestinationMark() != "one" || one.Plain() != plain ||
		one.OfDestination("other") != other {
		t.Errorf("%+v and %+v", one, other)
	}
	for _, arguments := range []string{"", `{"x":1}`, `{"x-destination":1}`, `{"x-destination":"a","x":1}`, `{`} {
		b := plain
		b.Arguments = arguments
		if b.DestinationMark() != "" || b.Plain() != b {
			t.Errorf("%s is the mark %q", arguments, b.DestinationMark())
		}
	}
	if all := Plain([]Binding{one, plain, other}); !slices.Equal(all, []Binding{plain}) {
		t.Errorf("without marks they are %v", all)
	}
}
