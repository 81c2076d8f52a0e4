package tfvalue

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func tasks(t testing.TB, config delay.Config) ObjectMaps {
	t.Helper()
	config.Name, config.Vhost, config.CreateDeliveryExchange, config.ParkUnroutable = "tasks", "/", true, true
	resolved, err := config.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return OfCascade(resolved)
}

func TestShortKey(t *testing.T) {
	for key, want := range map[string]string{
		"*.*.*.*.1.#":                          "*.*.*.*.1.#",
		"*.*.*.*.*.1.#":                        "*×5.1.#",
		"0.0.0.0.0.0.1.*.*.*.*.*.*.#":          "0×6.1.*×6.#",
		"#":                                    "#",
		strings.Repeat("*.", 22) + "0.0.0.1.#": "*×22.0.0.0.1.#",
	} {
		if got := shortKey(key); got != want {
			t.Errorf("%q becomes %q, not %q", key, got, want)
		}
	}
}

// Every binding has a line of its own, in every cascade.
func TestEveryBindingIsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := delay.Config{Name: "t", Vhost: "/", Base: rapid.IntRange(2, 10).Draw(t, "base"),
			Levels: rapid.IntRange(1, 7).Draw(t, "levels"), StrictKeys: rapid.Bool().Draw(t, "strict")}
		config.Lookahead = rapid.IntRange(1, config.Levels).Draw(t, "lookahead")
		resolved, err := config.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		d := OfCascade(resolved)
		shown := 0
		for _, of := range d.Bindings(d.Desired).Elements() {
			shown += len(elements(of))
		}
		if shown != len(d.Desired.Bindings) {
			t.Errorf("%d of %d bindings are shown", shown, len(d.Desired.Bindings))
		}
	})
}

// What others have bound never takes the place of what belongs there, nor of each other.
func TestForeignBindingsAreShown(t *testing.T) {
	d := tasks(t, delay.Config{Levels: 2})
	actual := d.Desired
	actual.Bindings = maps.Clone(d.Desired.Bindings)
	own := topology.Binding{Source: "tasks.delay-00", RoutingKey: "*.1.#", DestinationType: topology.ToQueue,
		Destination: "tasks.delay-00"}
	if !actual.Bindings.Has(own) {
		t.Fatalf("there is no %v", own)
	}
	delete(actual.Bindings, own)
	elsewhere, conditional := own, own
	elsewhere.Destination, conditional.Arguments = "mine", `{"x":1}`
	hidden, written := elsewhere, elsewhere
	hidden.RoutingKey, written.RoutingKey = "a\x1b", `a\x1b`
	for _, b := range []topology.Binding{elsewhere, conditional, hidden, written} {
		actual.Bindings.Add(b)
	}
	shown := elements(d.Bindings(actual).Elements()["tasks.delay-00"])
	want := []string{"*.0.#", `*.1.# -> queue mine`, `*.1.# -> queue tasks.delay-00 {"x":1}`, `a\x1b -> queue mine`,
		`a\x1b -> queue mine again`}
	if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, want) {
		t.Errorf("shown are %q, not %q", got, want)
	}
	for key, value := range shown {
		if isForeign := value.Equal(types.StringValue(Foreign)); isForeign != strings.Contains(key, "->") {
			t.Errorf("%q is %s", key, value)
		}
	}
}

func elements(value attr.Value) map[string]attr.Value {
	of, _ := value.(types.Map)
	return of.Elements()
}
