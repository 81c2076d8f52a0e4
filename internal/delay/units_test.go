package delay_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
)

const day = 24 * time.Hour

// Each key leads to the delivery exchange once, after its delay, by a queue for each word but 0. That depends neither
// on the units, nor on how far they reach. A key beyond the longest delay is parked.
func TestEveryDelayOfUnitsArrivesOnce(t *testing.T) {
	for _, c := range []delay.Config{
		{},
		{MaxDelay: 90 * day},
		{MaxDelay: 2 * time.Hour},
		{MaxDelay: 1500 * time.Millisecond},
		{Units: []time.Duration{time.Hour, 20 * time.Minute, time.Minute}, MaxDelay: 5 * time.Hour},
		{Units: []time.Duration{time.Second, 250 * time.Millisecond, time.Millisecond}, MaxDelay: 3 * time.Second},
		{Units: []time.Duration{time.Minute}, MaxDelay: time.Hour},
	} {
		if c.Units == nil {
			c.Units = []time.Duration{day, time.Hour, time.Minute, time.Second}
		}
		c.Name, c.CreateDeliveryExchange, c.ParkUnroutable = "t", true, true
		for lookahead := 1; lookahead <= len(c.Units); lookahead++ {
			c.Lookahead, c.StrictKeys = lookahead, lookahead%2 == 0
			arriveOnce(t, deployed(t, c))
		}
	}
}

func arriveOnce(t *testing.T, r running) {
	t.Helper()
	s := r.Scale()
	if s.Longest < r.MaxDelay {
		t.Errorf("%v reach %s, not %s", s.Units, s.Longest, r.MaxDelay)
	}
	delays := []time.Duration{0, 1, s.Resolution(), r.MaxDelay, s.Longest}
	for range 50 {
		delays = append(delays, rand.N(s.Longest)) //nolint:gosec // any will do
	}
	for _, each := range append(delays, s.Units...) {
		if each > s.Longest {
			continue
		}
		key, err := s.RoutingKey(each, "a.b")
		if err != nil {
			t.Fatal(err)
		}
		says, _, err := s.ParseRoutingKey(key)
		if err != nil || says < each || says-each >= s.Resolution() {
			t.Errorf("%s has key %q, which says %s (%v)", each, key, says, err)
		}
		waits := 0
		for _, word := range strings.Split(key, ".")[:s.Levels()] {
			if word != "0" {
				waits++
			}
		}
		arrivals := r.Follow(r.entry, key)
		if len(arrivals) != 1 || arrivals[0].Queue != application || arrivals[0].Delay != says ||
			len(arrivals[0].Path) != waits {
			t.Errorf("key %q went %s", key, fmt.Sprint(arrivals))
		}
	}
	if _, err := s.RoutingKey(s.Longest+1, "a"); err == nil {
		t.Errorf("%s has a key", s.Longest+1)
	}
	beyond := fmt.Sprint(s.LargestNumber(s.Levels()-1)+1) + strings.Repeat(".0", s.Levels()-1) + ".a"
	if _, _, err := s.ParseRoutingKey(beyond); err == nil {
		t.Errorf("key %q says a delay", beyond)
	}
	r.parked(t, beyond, false)
}

// The layout does not depend on how far it reaches: objects and bindings only come to it.
func TestUnitsGrow(t *testing.T) {
	c := delaytest.Vectors["quorum_units_d_h_m_s_30d"]
	var before delay.Cascade
	for _, reach := range []time.Duration{time.Second, time.Minute, 2 * time.Hour, day, 30 * day, 90 * day} {
		c.MaxDelay = reach
		after := delaytest.Resolve(t, c)
		if before.Name != "" {
			less, more := before.Expand(), after.Expand()
			if lost := less.Minus(more); !lost.IsEmpty() || more.Entry != less.Entry {
				t.Errorf("%s: these objects are gone: %s", reach, lost.Objects())
			}
			for b := range less.Bindings {
				if !more.Bindings.Has(b) {
					t.Errorf("%s: this is gone: %s", reach, b.Describe())
				}
			}
		}
		before = after
	}
}

func TestUnitsErrors(t *testing.T) {
	units := func(units ...time.Duration) delay.Config { return delay.Config{Units: units} }
	reaching := func(reach time.Duration, units ...time.Duration) delay.Config {
		return delay.Config{Units: units, MaxDelay: reach}
	}
	for name, test := range map[string]struct {
		given delay.Config
		want  string
	}{
		"no multiple": {units(time.Hour, 7*time.Minute),
			"units have 1h before 7m; each unit has to be a multiple of the next"},
		"below 1 ms":   {units(time.Second, time.Microsecond), "units have 1µs; RabbitMQ counts TTL in whole"},
		"out of order": {units(time.Second, time.Minute), "units have 1m behind 1s; give the largest first"},
		"twice":        {units(time.Minute, time.Minute), "units have 1m twice"},
		"too many":     {units(make([]time.Duration, 13)...), "units are 13; give at most 12"},
		"short of the last": {reaching(time.Second, time.Minute),
			"max_delay is 1s; give at least 1m, the smallest of the units"},
		"too long": {reaching(20*365*day, 365*day),
			"max_delay is 7300d; give at most 3650d (ten years)"},
		"too many queues": {units(time.Hour, time.Second), "units take 4319 delay queues up to a max_delay of 30d, " +
			"3599 of them for multiples of 1s; there can be 1024. The units 1h, 1m, 1s take 838. Or give a shorter " +
			"max_delay"},
		"base": {delay.Config{Units: []time.Duration{time.Minute, time.Second}, Base: 10},
			"base is 10 beside the units 1m, 1s; leave one of the two out"},
		"resolution": {delay.Config{Units: []time.Duration{time.Second}, Resolution: time.Minute},
			"resolution is 1m beside the units 1s, the last of which it is; leave one of the two out"},
		"resolution alone": {delay.Config{Resolution: time.Second},
			"resolution is given without levels or base; give one of them, or units"},
		"resolution with a reach": {delay.Config{Resolution: time.Second, MaxDelay: time.Hour},
			"resolution is given without levels or base"},
		"levels": {delay.Config{Units: []time.Duration{time.Second}, Levels: 2},
			"levels is 2 beside the units 1s; leave one of the two out"},
		"another uniform form": {delay.Config{Units: []time.Duration{time.Minute, time.Second}, Levels: 2, Base: 60,
			ExchangeName: "x%d"}, "base is 60; it can be 2 to 10"},
		"units of another uniform form": {delay.Config{Units: []time.Duration{time.Minute, time.Second}, Base: 2,
			ExchangeName: "x%d"}, "base is 2 beside the units 1m, 1s; leave one of the two out"},
		"names of the uniform form": {delay.Config{ExchangeName: "x%d"},
			"has to have exactly one %s, in the place of the units, unless levels or base is given"},
		"name": {delay.Config{Units: []time.Duration{time.Second}, MaxDelay: time.Minute, QueueName: "q%d"},
			`queue_name is "q%d", which has to have exactly one %s`},
	} {
		test.given.Name = "t"
		if _, err := test.given.Resolve(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnitsInWords(t *testing.T) {
	c := delaytest.Resolve(t, delay.Config{Name: "orders", Units: []time.Duration{day, time.Minute, 10 * time.Second},
		MaxDelay: 2 * time.Hour, CreateDeliveryExchange: true})
	want := "days, minutes and 10 s: delays up to 2 h in steps of 10 s, 4 exchanges, 125 queues, 258 bindings"
	if got := c.Summary(c.Expand()); got != want {
		t.Errorf("the summary is %q, not %q", got, want)
	}
	for _, name := range []string{"orders.d.m.10s", "orders.m.10s", "orders.10s"} {
		if !c.Expand().Has(name) {
			t.Errorf("there is no exchange %q", name)
		}
	}
	if _, is := c.Expand().Queues["orders.1h30m"]; !is {
		t.Error("90 minutes have another queue than orders.1h30m")
	}
	if chart := delay.Mermaid("orders.d.m.10s", c.Scale()); !strings.Contains(chart, `{{"10 s"}}`) ||
		!strings.Contains(chart, `"1 min to 2 h, 120 queues"`) {
		t.Errorf("the chart is:\n%s", chart)
	}
	if name := delay.Config(c).DerivedName(); name != "orders" {
		t.Errorf("the name of the names is %q", name)
	}
}

// With a name alone, a cascade has days to seconds up to 30 days.
func TestDefaultForm(t *testing.T) {
	c := delaytest.Resolve(t, delay.Config{Name: "orders", CreateDeliveryExchange: true})
	if c.Base != 0 || c.Resolution != 0 || c.Levels != 4 || c.MaxDelay != 30*day ||
		c.Expand().Entry != "orders.d.h.m.s" {
		t.Errorf("it is %+v", c)
	}
	if queues := c.Expand().Queues; len(queues) != 171 {
		t.Errorf("it has %d delay queues", len(queues))
	}
}

// A generated configuration of the uniform form has units, too.
func TestValuesOfBothForms(t *testing.T) {
	decimal := delay.Config{Name: "t", Base: 10, Levels: 3, Resolution: time.Second, MaxDelay: 999 * time.Second,
		Units: []time.Duration{100 * time.Second, 10 * time.Second, time.Second}}
	for format, want := range map[delay.Format]string{"": "t.delay-02", "x%d": "x2"} {
		decimal.ExchangeName = format
		c := delaytest.Resolve(t, decimal)
		if got := c.Expand().Entry; got != want {
			t.Errorf("with the name %q the entry is %q, not %q", format, got, want)
		}
		again := delaytest.Resolve(t, delay.Config(c))
		if !reflect.DeepEqual(again, c) || !slices.Equal(c.Scale().Units, decimal.Units) {
			t.Errorf("%+v resolves to %+v", c, again)
		}
	}
}
