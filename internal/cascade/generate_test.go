package cascade

import (
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// resolve is the cascade or ladder that the configuration stands for.
func resolve[Resolved any](t tester, given interface{ Resolve() (Resolved, error) }) Resolved {
	t.Helper()
	resolved, err := given.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func expand(t tester, c Config) topology.Topology {
	t.Helper()
	return resolve(t, c).Expand()
}

// anyConfig draws valid configurations of all kinds.
func anyConfig() *rapid.Generator[Config] {
	return rapid.Custom(func(t *rapid.T) Config {
		c := Config{
			Vhost:                  rapid.SampledFrom([]string{"/", "orders", "a/b"}).Draw(t, "vhost"),
			CreateDeliveryExchange: rapid.Bool().Draw(t, "create delivery exchange"),
			QueueType:              rapid.SampledFrom([]QueueType{Quorum, Classic}).Draw(t, "queue type"),
			StrictKeys:             rapid.Bool().Draw(t, "strict keys"),
			InternalLevels:         rapid.Bool().Draw(t, "internal levels"),
			ParkUnroutable:         rapid.Bool().Draw(t, "park unroutable"),
		}
		s := anyScale().Draw(t, "scale")
		c.Base, c.Levels, c.Resolution = s.Base, s.Levels, s.Resolution
		c.Lookahead = rapid.IntRange(1, c.Levels).Draw(t, "lookahead")
		if c.QueueType == Quorum && rapid.Bool().Draw(t, "limited") {
			c.MaxLength = rapid.Int64Range(1, 1<<40).Draw(t, "max length")
		}
		if c.QueueType == Quorum {
			c.LeaderLocator = rapid.SampledFrom([]LeaderLocator{"", Balanced, ClientLocal}).Draw(t, "leader locator")
			c.InitialGroupSize = rapid.Int64Range(0, 7).Draw(t, "initial group size")
		}
		if c.ParkUnroutable || rapid.Bool().Draw(t, "named") {
			c.Name = anyText(1).Draw(t, "name")
		}
		if c.Name == "" || rapid.Bool().Draw(t, "exchange named") {
			c.ExchangeName = anyFormat().Draw(t, "exchange name")
		}
		if c.Name == "" || rapid.Bool().Draw(t, "queue named") {
			c.QueueName = anyQueueFormat(c.Base).Draw(t, "queue name")
		}
		if c.Name == "" || rapid.Bool().Draw(t, "delivery named") {
			c.DeliveryExchange = anyText(1).Draw(t, "delivery exchange")
		}
		return c
	}).Filter(func(c Config) bool {
		_, err := c.Resolve()
		return err == nil
	})
}

// anyText draws names with all that is special somewhere: dots, percent signs, blanks, slashes,
// digits that could be levels, and more bytes than characters.
func anyText(shortest int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("ax0123.% -/é")), shortest, 12, -1)
}

func anyFormat() *rapid.Generator[Format] {
	return rapid.Custom(func(t *rapid.T) Format {
		verb := rapid.SampledFrom([]string{"%d", "%02d", "%2d", "%03d", "%4d"}).Draw(t, "verb")
		return Format(Escape(anyText(0).Draw(t, "before")) + verb + Escape(anyText(0).Draw(t, "behind")))
	})
}

// anyQueueFormat draws formats with a verb for the digit, too, in a base over 2.
func anyQueueFormat(base int) *rapid.Generator[Format] {
	if base == 2 {
		return anyFormat()
	}
	return rapid.Custom(func(t *rapid.T) Format {
		verb := rapid.SampledFrom([]string{"%x", "%d", "%02x", "%2d", "%03d"}).Draw(t, "digit's verb")
		return anyFormat().Draw(t, "before the digit") + Format(verb+Escape(anyText(0).Draw(t, "behind the digit")))
	})
}

func anyScale() *rapid.Generator[Scale] {
	return rapid.Custom(func(t *rapid.T) Scale {
		s := Scale{rapid.IntRange(MinBase, MaxBase).Draw(t, "base"), 1, anyResolution().Draw(t, "resolution")}
		s.Resolution = min(s.Resolution, (MaxTTL / time.Duration(s.Base-1)).Truncate(time.Millisecond))
		s.Levels = rapid.IntRange(1, s.mostLevels()).Draw(t, "levels")
		return s
	})
}

func anyResolution() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		common := rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second,
			1024 * time.Second, time.Hour, MaxTTL})
		if rapid.Bool().Draw(t, "common") {
			return common.Draw(t, "resolution")
		}
		return time.Duration(rapid.Int64Range(1, MaxTTL.Milliseconds()).Draw(t, "milliseconds")) * time.Millisecond
	})
}

// anyAddress draws the addresses that fit behind the digits.
func anyAddress(levels int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("a01.*#é")), 1, 20, MaxKeyBytes-2*levels)
}
