package recognize

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// In every base the configuration itself comes back, in few requests.
func TestRecognizeGivesBackTheBase(t *testing.T) {
	for base := delay.MinBase; base <= delay.MaxBase; base++ {
		for levels := 1; levels <= delaytest.MostLevels(base, time.Second); levels++ {
			for _, lookahead := range []int{1, 2, levels} {
				for _, strict := range []bool{false, true} {
					comesBack(t, delay.Config{
						Vhost: "/", Name: "tasks", Base: base, Levels: levels, Lookahead: min(lookahead, levels),
						StrictKeys: strict, InternalLevels: levels > 1, ParkUnroutable: true,
						CreateDeliveryExchange: true,
					})
				}
			}
		}
	}
}

// Damage that leaves the information somewhere does not keep a cascade of another base from being recognized.
func TestRecognizeDamagedBase(t *testing.T) {
	full := delay.Config{Name: "t", Base: 10, Levels: 8, CreateDeliveryExchange: true,
		StrictKeys: true, InternalLevels: true, ParkUnroutable: true}
	chain, lax := full, full
	chain.Lookahead, lax.StrictKeys = 1, false
	ternary := delay.Config{Name: "t", Base: 3, Levels: 12, Lookahead: 2, CreateDeliveryExchange: true,
		ParkUnroutable: true}
	single := delay.Config{Name: "t", Base: 10, Levels: 1, CreateDeliveryExchange: true, ParkUnroutable: true}
	binary := delay.Config{Name: "t", Levels: 12, CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true}
	keep := func(kept func(level, digit int) bool) func(topology.Topology) {
		return func(there topology.Topology) {
			for name := range there.Queues {
				var at place
				_, err := fmt.Sscanf(name, "t.delay-%02d-%x", &at.level, &at.number)
				if err == nil && !kept(at.level, at.number) {
					delete(there.Queues, name)
					unbind(there, func(b topology.Binding) bool { return b.Destination == name })
				}
			}
		}
	}
	change := func(name, key string, value any) func(topology.Topology) {
		return func(there topology.Topology) {
			q := there.Queues[name]
			q.Arguments = maps.Clone(q.Arguments)
			q.Arguments[key] = value
			there.Queues[name] = q
		}
	}
	audit := func(key string) func(topology.Topology) {
		return func(there topology.Topology) {
			there.Queues["audit"] = topology.Queue{Name: "audit", Durable: true}
			there.Bindings.Add(topology.Binding{Source: there.Entry, RoutingKey: key,
				DestinationType: topology.ToQueue, Destination: "audit"})
		}
	}
	unboundEntry := func(there topology.Topology) { unbindAll(there, there.Entry) }
	for _, test := range []struct {
		name   string
		config delay.Config
		damage func(topology.Topology)
	}{
		{"the highest digit is missing", chain, keep(func(_, digit int) bool { return digit < 9 })},
		{"all but the lowest digit is missing", full, keep(func(_, digit int) bool { return digit == 1 })},
		{"all but another digit is missing", full, keep(func(_, digit int) bool { return digit == 7 })},
		{"the top queues are missing", chain, keep(func(level, _ int) bool { return level < 7 })},
		{"the lowest queues are missing", chain, keep(func(level, _ int) bool { return level > 0 })},
		{"all queues below the top are missing", chain, keep(func(level, _ int) bool { return level == 7 })},
		{"all but two queues are missing", full, keep(func(level, digit int) bool {
			return level == 7 && digit == 2 || level == 3 && digit == 9
		})},
		{"the higher digit of a ternary cascade is missing", ternary,
			keep(func(_, digit int) bool { return digit < 2 })},
		{"the highest digit of a single level is not bound",
			delay.Config{Name: "t", Base: 3, Levels: 1, CreateDeliveryExchange: true},
			func(there topology.Topology) {
				unbind(there, func(b topology.Binding) bool { return b.Destination == "t.delay-00-2" })
			}},
		{"some digits of a single level are missing", single, keep(func(_, digit int) bool { return digit > 7 })},
		{"a TTL is wrong", full, change("t.delay-07-1", "x-message-ttl", int64(10_000))},
		{"a TTL of a single level is wrong", single, change("t.delay-00-1", "x-message-ttl", int64(7))},
		{"a dead-letter exchange is wrong", lax, change("t.delay-07-1", "x-dead-letter-exchange", "elsewhere")},
		{"the lowest queue leads elsewhere", single, change("t.delay-00-2", "x-dead-letter-exchange", "elsewhere")},
		{"a stranger is bound with a digit of the base", lax, audit("5.#")},
		{"a stranger is bound with a digit that the base does not have", ternary, audit("5.#")},
		{"a stranger is bound with a digit to a single level", single, audit("9.#")},
		{"a stranger is bound with a digit to a binary cascade", binary, audit("5.#")},
		{"the entry leads nowhere", full, unboundEntry},
		{"the entry of a chain leads nowhere", chain, unboundEntry},
		{"the entry is missing", full, func(there topology.Topology) {
			unboundEntry(there)
			delete(there.Exchanges, there.Entry)
		}},
		{"the exchange at the next level is missing", chain, func(there topology.Topology) {
			unbind(there, func(b topology.Binding) bool { return strings.HasSuffix(b.Source+b.Destination, "-06") })
			delete(there.Exchanges, "t.delay-06")
		}},
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

// One binding, or one queue with its bindings, may be missing from a cascade in any base with some levels.
func TestRecognizeWithoutOneObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := delaytest.AnyUniform().Filter(func(s delay.Uniform) bool { return s.Levels > 2 }).Draw(t, "scale")
		c := delay.Config{Name: "t", Base: s.Base, Levels: s.Levels, Resolution: s.Resolution,
			CreateDeliveryExchange: true,
			StrictKeys:             rapid.Bool().Draw(t, "strict keys"), InternalLevels: true, ParkUnroutable: true,
			Lookahead: rapid.IntRange(1, s.Levels).Draw(t, "lookahead")}
		b := declared(t, c)
		missing := rapid.SampledFrom(b.there.Bindings.Sorted()).Draw(t, "missing")
		delete(b.there.Bindings, missing)
		if missing.DestinationType == topology.ToQueue && rapid.Bool().Draw(t, "with its queue") {
			delete(b.there.Queues, missing.Destination)
			unbind(b.there, func(b topology.Binding) bool { return b.Destination == missing.Destination })
		}
		got, err := Cascade(t.Context(), b, "", b.there.Entry)
		if err != nil {
			t.Fatal(err)
		}
		expandsTo(t, got, c)
	})
}

// Every format of the queues gives each of them a name from which it can be found again.
func TestQueueFormatsOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.IntRange(delay.MinBase+1, delay.MaxBase).Draw(t, "base")
		format := delaytest.AnyQueueFormat(base).Draw(t, "format")
		at := place{rapid.IntRange(0, delay.MaxLevels-1).Draw(t, "level"), rapid.IntRange(1, base-1).Draw(t, "digit")}
		name := format.Queue(base, at.level, at.number)
		found := false
		for _, f := range queueFormats(name, at) {
			_, err := delay.Config{Base: base, Levels: 1, ExchangeName: "x%d", QueueName: f,
				DeliveryExchange: "d"}.Resolve()
			if err != nil || f.Queue(base, at.level, at.number) != name {
				t.Fatalf("%q has the format %q, which makes it %q (%v)", name, f, f.Queue(base, at.level, at.number),
					err)
			}
			found = found || f.SameQueues(format, base, delay.MaxLevels)
		}
		if !found {
			t.Fatalf("%q is not among the formats of %q", format, name)
		}
	})
}

func unbind(there topology.Topology, gone func(topology.Binding) bool) {
	for _, b := range slices.Clone(there.Bindings.Sorted()) {
		if gone(b) {
			delete(there.Bindings, b)
		}
	}
}
