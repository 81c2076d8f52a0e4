// Package delaytest has what tests of several packages share: configurations of all kinds, drawn at random, and
// expansions that others have declared. Call AnyConfig or AnyLadder, Resolve or Expand, and ReadVector.
package delaytest

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Tester is what testing.T and rapid.T have in common.
type Tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Resolve is the cascade or ladder that the configuration stands for.
func Resolve[Resolved any](t Tester, given interface{ Resolve() (Resolved, error) }) Resolved {
	t.Helper()
	resolved, err := given.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// Expand is all that the configuration stands for.
func Expand(t Tester, c delay.Config) topology.Topology {
	t.Helper()
	return Resolve(t, c).Expand()
}

// AnyConfig draws valid configurations of all kinds.
func AnyConfig() *rapid.Generator[delay.Config] {
	return rapid.Custom(func(t *rapid.T) delay.Config {
		c := delay.Config{
			Vhost:                  rapid.SampledFrom([]string{"/", "orders", "a/b"}).Draw(t, "vhost"),
			CreateDeliveryExchange: rapid.Bool().Draw(t, "create delivery exchange"),
			QueueType:              anyQueueType().Draw(t, "queue type"),
			StrictKeys:             rapid.Bool().Draw(t, "strict keys"),
			InternalLevels:         rapid.Bool().Draw(t, "internal levels"),
			ParkUnroutable:         rapid.Bool().Draw(t, "park unroutable"),
		}
		exchangeName := AnyFormat()
		if rapid.IntRange(0, 2).Draw(t, "units") == 0 {
			c.Units, c.MaxDelay = anyUnits(t)
			c.Levels = len(c.Units)
			exchangeName = anyTextFormat()
		} else {
			s := AnyUniform().Draw(t, "scale")
			c.Base, c.Levels, c.Resolution = s.Base, s.Levels, s.Resolution
		}
		c.Lookahead = rapid.IntRange(1, c.Levels).Draw(t, "lookahead")
		if c.QueueType == delay.Quorum && rapid.Bool().Draw(t, "limited") {
			c.MaxLength = rapid.Int64Range(1, 1<<40).Draw(t, "max length")
		}
		if c.QueueType == delay.Quorum {
			locators := []delay.LeaderLocator{"", delay.Balanced, delay.ClientLocal}
			c.LeaderLocator = rapid.SampledFrom(locators).Draw(t, "leader locator")
			c.InitialGroupSize = rapid.Int64Range(0, 7).Draw(t, "initial group size")
		}
		c.QueueArguments = anyArguments(c.QueueType).Draw(t, "queue arguments")
		if c.ParkUnroutable || rapid.Bool().Draw(t, "named") {
			c.Name = AnyText(1).Draw(t, "name")
		}
		if c.Name == "" || rapid.Bool().Draw(t, "exchange named") {
			c.ExchangeName = exchangeName.Draw(t, "exchange name")
		}
		if c.Name == "" || rapid.Bool().Draw(t, "queue named") {
			c.QueueName = AnyQueueFormat(c.Base).Draw(t, "queue name")
		}
		if c.Name == "" || rapid.Bool().Draw(t, "delivery named") {
			c.DeliveryExchange = AnyText(1).Draw(t, "delivery exchange")
		}
		return c
	}).Filter(func(c delay.Config) bool {
		_, err := c.Resolve()
		return err == nil
	})
}

func anyQueueType() *rapid.Generator[delay.QueueType] {
	return rapid.SampledFrom([]delay.QueueType{delay.Quorum, delay.Classic})
}

// anyArguments draws further arguments of delay queues, of which there may be none. Half of the time, they are not
// given.
func anyArguments(queueType delay.QueueType) *rapid.Generator[topology.Arguments] {
	all := topology.Arguments{
		"x-expires": int64(1 << 40), "x-max-length-bytes": int64(0), "x-overflow": "drop-head",
		"x-single-active-consumer": true, "plugin": "true", "x-nested": map[string]any{"a": []any{1.5, "1", int64(1)}},
	}
	if queueType == delay.Classic {
		all["x-queue-mode"], all["x-max-length"], all["x-max-priority"] = "lazy", int64(7), int64(5)
	} else {
		all["x-dead-letter-strategy"], all["x-delivery-limit"] = "at-most-once", int64(-1)
		all["x-queue-leader-locator"] = "random"
	}
	return rapid.Custom(func(t *rapid.T) topology.Arguments {
		if !rapid.Bool().Draw(t, "given") {
			return nil
		}
		arguments := topology.Arguments{}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if rapid.IntRange(0, 3).Draw(t, name) == 0 {
				arguments[name] = all[name]
			}
		}
		return arguments
	})
}

// AnyText draws names with all that is special somewhere: dots, percent signs, blanks, slashes,
// digits that could be levels, and more bytes than characters.
func AnyText(shortest int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("ax0123.% -/é")), shortest, 12, -1)
}

// AnyFormat draws names of exchanges.
func AnyFormat() *rapid.Generator[delay.Format] {
	return rapid.Custom(func(t *rapid.T) delay.Format {
		verb := rapid.SampledFrom([]string{"%d", "%02d", "%2d", "%03d", "%4d"}).Draw(t, "verb")
		return delay.Format(delay.Escape(AnyText(0).Draw(t, "before")) + verb + delay.Escape(AnyText(0).Draw(t,
			"behind")))
	})
}

// anyTextFormat draws names of units.
func anyTextFormat() *rapid.Generator[delay.Format] {
	return rapid.Custom(func(t *rapid.T) delay.Format {
		return delay.Format(delay.Escape(AnyText(0).Draw(t, "before")) + "%s" + delay.Escape(AnyText(0).Draw(t,
			"behind")))
	})
}

// AnyQueueFormat draws formats with a verb for the digit, too, in a base over 2. Those of base 0 are for units.
func AnyQueueFormat(base int) *rapid.Generator[delay.Format] {
	switch base {
	case 0:
		return anyTextFormat()
	case 2:
		return AnyFormat()
	}
	return rapid.Custom(func(t *rapid.T) delay.Format {
		verb := rapid.SampledFrom([]string{"%x", "%d", "%02x", "%2d", "%03d"}).Draw(t, "digit's verb")
		return AnyFormat().Draw(t, "before the digit") + delay.Format(verb+delay.Escape(AnyText(0).Draw(t,
			"behind the digit")))
	})
}

// MostLevels is the largest number of levels in the base.
func MostLevels(base int, resolution time.Duration) int {
	levels := 1
	for {
		c := delay.Config{Name: "t", Base: base, Levels: levels + 1, Resolution: resolution}
		if _, err := c.Resolve(); err != nil {
			return levels
		}
		levels++
	}
}

// anyUnits draws units and how far they reach, with a bounded number of queues.
func anyUnits(t *rapid.T) (units []time.Duration, reach time.Duration) {
	unit := rapid.SampledFrom([]time.Duration{time.Millisecond, 50 * time.Millisecond, time.Second, time.Minute,
		7 * time.Minute}).Draw(t, "last unit")
	queues := 0
	for {
		units = append([]time.Duration{unit}, units...)
		times := rapid.SampledFrom([]int{2, 3, 6, 10, 24, 60}).Draw(t, "times")
		queues += times
		more := len(units) < 5 && queues < 150 && rapid.Bool().Draw(t, "more")
		if !more {
			break
		}
		unit *= time.Duration(times)
	}
	smallest := units[len(units)-1]
	return units, smallest + time.Duration(rapid.Int64Range(0, int64(50*units[0])).Draw(t, "reach"))
}

// AnyUniform draws what delays can be written in.
func AnyUniform() *rapid.Generator[delay.Uniform] {
	return rapid.Custom(func(t *rapid.T) delay.Uniform {
		s := delay.Uniform{Base: rapid.IntRange(delay.MinBase, delay.MaxBase).Draw(t, "base"),
			Resolution: anyResolution().Draw(t, "resolution")}
		s.Resolution = min(s.Resolution, (delay.MaxTTL / time.Duration(s.Base-1)).Truncate(time.Millisecond))
		s.Levels = rapid.IntRange(1, MostLevels(s.Base, s.Resolution)).Draw(t, "levels")
		return s
	})
}

func anyResolution() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		common := rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second,
			1024 * time.Second, time.Hour, delay.MaxTTL})
		if rapid.Bool().Draw(t, "common") {
			return common.Draw(t, "resolution")
		}
		return time.Duration(rapid.Int64Range(1, delay.MaxTTL.Milliseconds()).Draw(t,
			"milliseconds")) * time.Millisecond
	})
}

// AnyAddress draws the addresses that fit behind the delay.
func AnyAddress(levels int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("a01.*#é")), 1, 20, delay.MaxKeyBytes-2*levels)
}

// AnyLadder draws valid ladders of all kinds.
func AnyLadder() *rapid.Generator[delay.LadderConfig] {
	label := rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(1, 100).Draw(t, "n")
		units := []string{"ms", "s", "m", "h", "h1s", "d", "d1h", "w"}
		return fmt.Sprintf("%d%s", n, rapid.SampledFrom(units).Draw(t, "unit"))
	})
	return rapid.Custom(func(t *rapid.T) delay.LadderConfig {
		l := delay.LadderConfig{
			Vhost: "/", QueueType: anyQueueType().Draw(t, "queue type"),
			Delays: rapid.SliceOfNDistinct(label, 1, 9, func(label string) time.Duration {
				ttl, _ := delay.ParseDuration(label)
				return ttl
			}).Draw(t, "delays"),
			CreateDeliveryExchange: rapid.Bool().Draw(t, "create delivery exchange"),
			ParkUnroutable:         rapid.Bool().Draw(t, "park unroutable"),
		}
		l.QueueArguments = anyArguments(l.QueueType).Draw(t, "queue arguments")
		if rapid.Bool().Draw(t, "fixed key") {
			l.DeadLetterRoutingKey = AnyText(1).Draw(t, "key")
		} else if rapid.Bool().Draw(t, "to a queue") {
			l.DeliverToQueue = "work/" + AnyText(1).Draw(t, "queue")
		}
		if l.ParkUnroutable || rapid.Bool().Draw(t, "named") {
			l.Name = AnyText(1).Draw(t, "name")
		}
		if l.Name == "" || rapid.Bool().Draw(t, "entry named") {
			l.EntryExchange = AnyText(1).Draw(t, "entry")
		}
		if l.Name == "" || rapid.Bool().Draw(t, "queue named") {
			l.QueueName = delay.Format(delay.Escape(AnyText(0).Draw(t, "before")) + "%s" +
				delay.Escape(AnyText(0).Draw(t, "behind")))
		}
		if l.DeliverToQueue == "" && (l.Name == "" || rapid.Bool().Draw(t, "delivery named")) {
			l.DeliveryExchange = AnyText(1).Draw(t, "delivery")
		}
		return l
	}).Filter(func(l delay.LadderConfig) bool {
		_, err := l.Resolve()
		return err == nil
	})
}

// AnyKeyedLadder draws valid ladders as applications declare them, with keys and names of their own.
func AnyKeyedLadder() *rapid.Generator[delay.LadderConfig] {
	return rapid.Custom(func(t *rapid.T) delay.LadderConfig {
		l := AnyLadder().Draw(t, "ladder")
		l.EntryExchangeType = rapid.SampledFrom([]delay.ExchangeType{delay.Topic, delay.Direct}).Draw(t, "entry type")
		l.BindingKeys = map[string]string{}
		key := rapid.SampledFrom([]string{"retry.%d", "%d", "orders.%d.again", "%d.delay.#"}).Draw(t, "key")
		for i, label := range l.Delays {
			l.BindingKeys[label] = fmt.Sprintf(key, i)
		}
		if len(l.Delays) == 1 && rapid.Bool().Draw(t, "all keys") {
			l.BindingKeys[l.Delays[0]] = "#"
		}
		if rapid.Bool().Draw(t, "queues named") {
			l.QueueName, l.QueueNames = "", map[string]string{}
			for i, label := range l.Delays {
				l.QueueNames[label] = fmt.Sprintf("retry-queue-%d", i)
			}
		}
		return l
	}).Filter(func(l delay.LadderConfig) bool {
		_, err := l.Resolve()
		return err == nil
	})
}

// Vectors are expansions in the shape of RabbitMQ definitions, from captures and other tools. Those of the uniform form
// come first.
var Vectors = map[string]delay.Config{
	"article_level3": {
		Levels: 4, ExchangeName: "EXCHANGE.TOPIC.SENDTASK.N%d", QueueName: "QUEUE.DELAY.SENDTASK.N%d",
		DeliveryExchange: "EXCHANGE.DELAY.DIRECT.SENDTASK", CreateDeliveryExchange: true, QueueType: delay.Classic,
		Lookahead: 1,
	},
	"nservicebus_v2": {
		Levels: 28, ExchangeName: "nsb.v2.delay-level-%02d", QueueName: "nsb.v2.delay-level-%02d",
		DeliveryExchange: "nsb.v2.delay-delivery", CreateDeliveryExchange: true, QueueType: delay.Quorum, Lookahead: 1,
	},
	"quorum_base_10_3_levels": {Name: "t", Base: 10, Levels: 3, CreateDeliveryExchange: true, StrictKeys: true},
	"classic_base_4_5_levels_lax": {
		Name: "t", Base: 4, Levels: 5, CreateDeliveryExchange: true, QueueType: delay.Classic,
	},
	"quorum_5_levels_lookahead_5":        {Name: "t", Levels: 5, CreateDeliveryExchange: true},
	"quorum_5_levels_lookahead_5_strict": {Name: "t", Levels: 5, CreateDeliveryExchange: true, StrictKeys: true},
	"quorum_5_levels_lookahead_2_100ms": {
		Name: "t", Levels: 5, Resolution: 100 * time.Millisecond, CreateDeliveryExchange: true, Lookahead: 2,
	},
	"quorum_units_d_h_m_s_30d": {Name: "t", Units: units("1d 1h 1m 1s"), CreateDeliveryExchange: true,
		StrictKeys: true},
	"quorum_units_m_10s_s_15m_lookahead_2": {Name: "t", Units: units("1m 10s 1s"), MaxDelay: 15 * time.Minute,
		CreateDeliveryExchange: true, StrictKeys: true, Lookahead: 2},
	"classic_units_s_100ms_5s_lax": {Name: "t", Units: units("1s 100ms"), MaxDelay: 5 * time.Second,
		CreateDeliveryExchange: true, QueueType: delay.Classic},
}

func units(text string) (all []time.Duration) {
	for word := range strings.FieldsSeq(text) {
		unit, err := delay.ParseDuration(word)
		if err != nil {
			panic(err)
		}
		all = append(all, unit)
	}
	return all
}

//go:embed vectors
var files embed.FS

// ReadVector is one of the vectors.
func ReadVector(t testing.TB, name string) topology.Topology {
	t.Helper()
	text, err := files.ReadFile("vectors/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var definitions struct {
		Exchanges []struct {
			Name, Type string
			Durable    bool
			AutoDelete bool `json:"auto_delete"`
			Internal   bool
			Arguments  map[string]any
		}
		Queues []struct {
			Name       string
			Durable    bool
			AutoDelete bool `json:"auto_delete"`
			Arguments  map[string]any
		}
		Bindings []struct {
			Source          string
			RoutingKey      string                   `json:"routing_key"`
			DestinationType topology.DestinationType `json:"destination_type"`
			Destination     string
			Arguments       map[string]any
		}
	}
	if err := json.Unmarshal(text, &definitions); err != nil {
		t.Fatal(err)
	}
	want := topology.New()
	for _, e := range definitions.Exchanges {
		want.Exchanges[e.Name] = topology.Exchange{
			Name: e.Name, Type: e.Type, Durable: e.Durable, AutoDelete: e.AutoDelete, Internal: e.Internal,
			Arguments: topology.NormalizeArguments(e.Arguments),
		}
	}
	for _, q := range definitions.Queues {
		want.Queues[q.Name] = topology.Queue{
			Name: q.Name, Durable: q.Durable, AutoDelete: q.AutoDelete, Arguments: topology.NormalizeArguments(
				q.Arguments),
		}
	}
	for _, b := range definitions.Bindings {
		want.Bindings.Add(topology.Binding{
			Source: b.Source, RoutingKey: b.RoutingKey, DestinationType: b.DestinationType, Destination: b.Destination,
			Arguments: topology.NormalizeArguments(b.Arguments).JSON(),
		})
	}
	return want
}
