package tfvalue

import (
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
)

// What a cascade of any form tells publishers, functions read.
func TestPublisher(t *testing.T) {
	for _, test := range []struct {
		config delay.Config
		want   types.Object
	}{
		{delay.Config{Name: "binary", Levels: 4}, publisher("binary.delay-03", number("15000"), number("8000"),
			number("4000"), number("2000"), number("1000"))},
		{delay.Config{Name: "decimal", Base: 10, Levels: 2, Resolution: 100 * time.Millisecond},
			publisher("decimal.delay-01", number("9900"), number("1000"), number("100"))},
		{delay.Config{Name: "units", Units: []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}},
			publisher("units.d.h.m.s", number("2678399000"), number("86400000"), number("3600000"), number("60000"),
				number("1000"))},
	} {
		c := delaytest.Resolve(t, test.config)
		value := PublisherValue(c.Expand().Entry, c.Scale())
		if !value.Equal(test.want) {
			t.Errorf("%s: got %s, want %s", c.Name, value, test.want)
		}
		entry, scale, err := Publisher(t.Context(), value)
		if err != nil || entry != c.Expand().Entry || !reflect.DeepEqual(scale, c.Scale()) {
			t.Errorf("%s is read as %q with %v, want %v (%v)", value, entry, scale, c.Scale(), err)
		}
	}
}

func TestPublisherErrors(t *testing.T) {
	second := number("1000")
	for _, test := range []struct {
		value types.Object
		want  string
	}{
		{publisher("t", second), "units_ms is empty"},
		{publisher("t", second, types.NumberNull()), "units_ms have null; give a whole number of milliseconds"},
		{publisher("t", second, number("0.5")), "units_ms have 0.5; give a whole number of milliseconds"},
		{publisher("t", second, number("1e+30")), "units_ms have 1e+30; give a whole number of milliseconds"},
		{publisher("t", types.NumberNull(), second), "max_delay_ms is null; give a whole number of milliseconds"},
		{publisher("t", number("1000.5"), second), "max_delay_ms is 1000.5; give a whole number of milliseconds"},
		{publisher("t", number("1500"), second), "max_delay_ms is 1500, which has no key"},
		{types.ObjectValueMust(PublisherTypes, map[string]attr.Value{"entry_exchange": types.StringNull(),
			"units_ms": types.ListNull(types.NumberType), "max_delay_ms": second}), "units_ms is empty"},
		{publisher("t", types.NumberUnknown(), second), ErrUnknown.Error()},
		{publisher("t", second, types.NumberUnknown()), ErrUnknown.Error()},
	} {
		_, scale, err := Publisher(t.Context(), test.value)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v and error %v, want %q", test.value, scale, err, test.want)
		}
	}
}

func publisher(entry string, longest attr.Value, units ...attr.Value) types.Object {
	return types.ObjectValueMust(PublisherTypes, map[string]attr.Value{"entry_exchange": types.StringValue(entry),
		"units_ms": types.ListValueMust(types.NumberType, units), "max_delay_ms": longest})
}

func number(text string) types.Number {
	value, _, _ := big.ParseFloat(text, 10, 512, big.ToNearestEven)
	return types.NumberValue(value)
}

func TestLadderPublisherValue(t *testing.T) {
	l := delaytest.Resolve(t, delay.LadderConfig{Name: "retry", Delays: []string{"1h", "500ms", "60s"}})
	want := types.ObjectValueMust(LadderPublisherTypes, map[string]attr.Value{
		"entry_exchange": types.StringValue("retry.entry"),
		"delays_ms": types.MapValueMust(types.NumberType, map[string]attr.Value{"1h": number("3600000"),
			"500ms": number("500"), "60s": number("60000")}),
	})
	if got := LadderPublisherValue(l); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
