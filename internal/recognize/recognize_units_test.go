package recognize

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const day = 24 * time.Hour

var common = []time.Duration{day, time.Hour, time.Minute, time.Second}

// With units, the configuration itself comes back, in few requests.
func TestRecognizeGivesBackTheUnits(t *testing.T) {
	for _, c := range []delay.Config{
		{Units: common, MaxDelay: 30 * day},
		{Units: common, MaxDelay: day},
		{Units: common, MaxDelay: 2 * time.Hour},
		{Units: common, MaxDelay: time.Minute},
		{Units: common, MaxDelay: 5 * time.Second},
		{Units: []time.Duration{time.Minute, 10 * time.Second, time.Second}, MaxDelay: 15 * time.Minute},
		{Units: []time.Duration{7 * day, day}, MaxDelay: 21 * day},
		{Units: []time.Duration{10 * time.Minute}, MaxDelay: 10 * time.Minute},
		{Units: []time.Duration{time.Second, 100 * time.Millisecond, time.Millisecond}, MaxDelay: 2 * time.Second},
	} {
		for _, name := range []string{"t", "d.h", "1d", "s.m.h.d", "tasks.delay-12"} {
			for _, lookahead := range []int{1, 2, len(c.Units)} {
				for _, strict := range []bool{false, true} {
					c.Vhost, c.Name, c.Levels, c.Lookahead = "/", name, len(c.Units), min(lookahead, len(c.Units))
					c.StrictKeys, c.ParkUnroutable, c.InternalLevels = strict, strict, strict && c.Levels > 1
					c.CreateDeliveryExchange = true
					comesBack(t, c)
				}
			}
		}
	}
}

// Damage that leaves the information somewhere does not keep a cascade of units from being recognized.
func TestRecognizeDamagedUnits(t *testing.T) {
	full := delay.Config{Name: "t", Units: common, CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true}
	chain, lax, hours := full, full, full
	chain.Lookahead, lax.StrictKeys, hours.MaxDelay = 1, false, 2*time.Hour
	single := delay.Config{Name: "t", Units: []time.Duration{time.Second}, MaxDelay: 30 * time.Second,
		CreateDeliveryExchange: true}
	change := func(name, key string, value any) func(topology.Topology) {
		return func(there topology.Topology) {
			q := there.Queues[name]
			q.Arguments = maps.Clone(q.Arguments)
			q.Arguments[key] = value
			there.Queues[name] = q
		}
	}
	without := func(queues ...string) func(topology.Topology) {
		return func(there topology.Topology) {
			for _, name := range queues {
				delete(there.Queues, name)
				unbind(there, func(b topology.Binding) bool { return b.Destination == name })
			}
		}
	}
	unbound := func(queue string) func(topology.Topology) {
		return func(there topology.Topology) {
			unbind(there, func(b topology.Binding) bool { return b.Destination == queue })
		}
	}
	withoutExchange := func(name string) func(topology.Topology) {
		return func(there topology.Topology) {
			unbindAll(there, name)
			unbind(there, func(b topology.Binding) bool { return b.Destination == name })
			delete(there.Exchanges, name)
		}
	}
	audit := func(key string) func(topology.Topology) {
		return func(there topology.Topology) {
			there.Queues["audit"] = topology.Queue{Name: "audit", Durable: true}
			there.Bindings.Add(topology.Binding{Source: there.Entry, RoutingKey: key,
				DestinationType: topology.ToQueue, Destination: "audit"})
		}
	}
	for _, test := range []struct {
		name   string
		config delay.Config
		damage func(topology.Topology)
	}{
		{"some queues are missing", full, without("t.1d", "t.7h", "t.59m", "t.59s", "t.1s")},
		{"the longest queue is not bound", full, unbound("t.30d")},
		{"the longest queue of hours is not bound", hours, unbound("t.2h")},
		{"a TTL is wrong", full, change("t.1d", "x-message-ttl", int64(10_000))},
		{"a TTL of a single unit is wrong", single, change("t.1s", "x-message-ttl", int64(7))},
		{"a queue is of another type", full, change("t.1d", "x-queue-type", "classic")},
		{"a dead-letter exchange is wrong", lax, change("t.1d", "x-dead-letter-exchange", "elsewhere")},
		{"the shortest queue leads elsewhere", single, change("t.1s", "x-dead-letter-exchange", "elsewhere")},
		{"a stranger is bound like a queue", full, audit("3.*.*.*.*.#")},
		{"a stranger is bound like a queue beyond the longest", lax, audit("99.#")},
		{"a stranger is bound to a single unit", single, audit("60.#")},
		{"the entry leads nowhere", full, func(there topology.Topology) { unbindAll(there, there.Entry) }},
		{"the entry of a chain is missing", chain, withoutExchange("t.d.h.m.s")},
		{"the entry is missing", full, withoutExchange("t.d.h.m.s")},
		{"the exchange below the entry is missing", chain, withoutExchange("t.h.m.s")},
		{"the lowest exchange is missing", chain, withoutExchange("t.s")},
		{"the delivery exchange is missing", full, withoutExchange("t.delivery")},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := declared(t, test.config)
			test.damage(b.there)
			got, err := Cascade(t.Context(), b, "", b.there.Entry)
			if err != nil {
				t.Fatal(err)
			}
			expandsTo(t, got, test.config)
		})
	}
}

// A queue that is missing with all that led to it shortens the cascade if it was the longest. An import takes the
// rest.
func TestRecognizeUnitsWithoutTheLongest(t *testing.T) {
	c := delay.Config{Name: "t", Units: common, MaxDelay: 2 * time.Hour, CreateDeliveryExchange: true}
	b := declared(t, c)
	delete(b.there.Queues, "t.2h")
	unbind(b.there, func(b topology.Binding) bool { return b.Destination == "t.2h" })
	got, err := Cascade(t.Context(), b, "", b.there.Entry)
	if err != nil {
		t.Fatal(err)
	}
	c.MaxDelay = time.Hour
	expandsTo(t, got, c)
}

// One binding, or one queue with its bindings, may be missing from a cascade of units, but for its longest queue.
func TestRecognizeUnitsWithoutOneObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := delay.Config{Name: "t", Units: common, CreateDeliveryExchange: true,
			MaxDelay:   time.Duration(rapid.IntRange(1, 72).Draw(t, "hours")) * time.Hour,
			StrictKeys: rapid.Bool().Draw(t, "strict keys"), ParkUnroutable: rapid.Bool().Draw(t, "parks"),
			Lookahead: rapid.IntRange(1, 4).Draw(t, "lookahead")}
		b := declared(t, c)
		missing := rapid.SampledFrom(b.there.Bindings.Sorted()).Draw(t, "missing")
		delete(b.there.Bindings, missing)
		isLongest := missing.Destination == "t."+delay.DurationText(c.MaxDelay.Truncate(day)) ||
			c.MaxDelay < day && missing.Destination == "t."+delay.DurationText(c.MaxDelay)
		if missing.DestinationType == topology.ToQueue && !isLongest && rapid.Bool().Draw(t, "with its queue") {
			delete(b.there.Queues, missing.Destination)
			unbind(b.there, func(b topology.Binding) bool { return b.Destination == missing.Destination })
		}
		got, err := Cascade(t.Context(), b, "", b.there.Entry)
		if err != nil {
			t.Fatal(err)
		}
		isOfEntry := func(b topology.Binding) bool { return b.Source == "t.d.h.m.s" }
		if !slices.ContainsFunc(b.there.Bindings.Sorted(), isOfEntry) {
			c.StrictKeys = true // as everything is taken to be that does not show it
		}
		expandsTo(t, got, c)
	})
}

// An exchange below the entry is refused, and the error names the entry.
func TestRecognizeBelowTheUnits(t *testing.T) {
	c := delay.Config{Name: "t", Units: common, CreateDeliveryExchange: true, StrictKeys: true}
	for _, lookahead := range []int{1, 4} {
		c.Lookahead = lookahead
		b := declared(t, c)
		for _, name := range []string{"t.h.m.s", "t.m.s", "t.s"} {
			_, err := Cascade(t.Context(), b, "", name)
			var other *OtherEntryError
			if !errors.As(err, &other) || other.Entry != "t.d.h.m.s" {
				t.Errorf("%s: %v", name, err)
			}
		}
		unbindAll(b.there, "t.h.m.s")
		if _, err := Cascade(t.Context(), b, "", "t.h.m.s"); err == nil ||
			!strings.Contains(err.Error(), `the entry of the cascade there is exchange "t.d.h.m.s"`) {
			t.Errorf("without bindings: %v", err)
		}
	}
	unknown := declared(t, delay.Config{Name: "t", Units: []time.Duration{time.Hour, 20 * time.Minute, time.Minute},
		MaxDelay: time.Hour, CreateDeliveryExchange: true})
	if _, err := Cascade(t.Context(), unknown, "", "t.m"); err == nil ||
		!strings.Contains(err.Error(), "in the middle of a cascade") {
		t.Errorf("units that nobody guesses: %v", err)
	}
}

func TestUnitLayouts(t *testing.T) {
	for name, want := range map[string]string{
		"orders.d.h.m.s": "orders.%s", "s": "%s", "10m.m.s-v2": "%s-v2", "x.1h30m.30m": "x.%s",
		"100%.s.100ms": "100%%.%s",
	} {
		all := unitLayouts(name)
		if len(all) == 0 || string(all[0].ExchangeName) != want || all[0].Exchange(all[0].Levels-1) != name {
			t.Errorf("%s: %+v", name, all)
		}
	}
	if all := unitLayouts("tasks.elay-16"); len(all) != 2 { // "s" twice: no name tells that these are no units
		t.Errorf("%+v", all)
	}
}
