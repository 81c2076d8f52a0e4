package delay_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func TestResolveDefaults(t *testing.T) {
	got, err := delay.Config{Name: "100%", Levels: 17}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	want := delay.Cascade{
		Name: "100%", Base: 2, Levels: 17, MaxDelay: 36*time.Hour + 24*time.Minute + 31*time.Second,
		Resolution:   time.Second,
		ExchangeName: "100%%.delay-%02d", QueueName: "100%%.delay-%02d", DeliveryExchange: "100%.delivery",
		QueueType: delay.Quorum, Lookahead: 17,
		QueueArguments: topology.Arguments{"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if name := got.ExchangeName.Name(3); name != "100%.delay-03" {
		t.Errorf("level 3 is called %q", name)
	}
}

func TestMaxDelayTakesTheFewestLevels(t *testing.T) {
	for _, test := range []struct {
		maxDelay, resolution time.Duration
		want                 int
	}{
		{1, time.Second, 1},
		{time.Second, time.Second, 1},
		{time.Second + 1, time.Second, 2},
		{3 * time.Second, time.Second, 2},
		{3*time.Second + 1, time.Second, 3},
		{36 * time.Hour, time.Second, 17},
		{(1<<29 - 1) * time.Second, time.Second, 29},
		{(1<<39 - 1) * time.Millisecond, time.Millisecond, 39},
		{delay.MaxTTL, delay.MaxTTL, 1},
	} {
		got, err := delay.Config{Name: "t", Base: 2, MaxDelay: test.maxDelay, Resolution: test.resolution}.Resolve()
		if err != nil || got.Levels != test.want || got.Lookahead != test.want {
			t.Errorf("%s at %s: got %d levels (%v), want %d", test.maxDelay, test.resolution, got.Levels, err,
				test.want)
		}
	}
}

// At every resolution, the top level of the largest cascade stays within the broker's ceiling, and
// one level more would not.
func TestMostLevels(t *testing.T) {
	for _, test := range []struct {
		resolution time.Duration
		want       int
	}{
		{time.Millisecond, delay.MaxLevels}, {2 * time.Millisecond, 38}, {100 * time.Millisecond, 32}, {time.Second,
			29},
		{time.Minute, 23}, {time.Hour, 17}, {delay.MaxTTL / 2, 2}, {delay.MaxTTL/2 + time.Millisecond, 1},
		{delay.MaxTTL, 1},
	} {
		c := delay.Config{Name: "t", Resolution: test.resolution, Levels: test.want}
		if _, err := c.Resolve(); err != nil {
			t.Errorf("%d levels at %s: %v", test.want, test.resolution, err)
		}
		if ttl := (delay.Uniform{2, test.want, test.resolution}).Scale().TTL(test.want-1, 1); ttl > delay.MaxTTL {
			t.Errorf("%d levels at %s have a TTL of %s", test.want, test.resolution, ttl)
		}
		c.Levels++
		if _, err := c.Resolve(); err == nil {
			t.Errorf("%d levels at %s are accepted", c.Levels, test.resolution)
		}
	}
}

func TestResolveErrors(t *testing.T) {
	valid := delay.Config{Vhost: "/", Name: "t", Levels: 4, CreateDeliveryExchange: true, ParkUnroutable: true}
	for _, test := range []struct {
		name            string
		change          func(*delay.Config)
		attribute, want string
	}{
		{"no levels", func(c *delay.Config) { c.Base, c.Levels = 2, 0 }, "levels", "is missing; give it or max_delay"},
		{"levels and longest delay", func(c *delay.Config) { c.MaxDelay = time.Hour }, "levels",
			"is 4, but the max_delay " +
				"beside it, 1h, takes 12; leave one of the two out"},
		{"negative levels", func(c *delay.Config) { c.Levels = -1 }, "levels", "is -1; at a resolution of 1s it can " +
			"be 1 to 29"},
		{"too many levels", func(c *delay.Config) { c.Levels = 30 }, "levels",
			"it can be 1 to 29: RabbitMQ accepts no " +
				"TTL over 3650d"},
		{"too many levels for a fine resolution", func(c *delay.Config) {
			c.Levels, c.Resolution = 40,
				time.Millisecond
		},
			"levels", "it can be 1 to 39"},
		{"too many levels for a coarse resolution", func(c *delay.Config) { c.Levels, c.Resolution = 2, delay.MaxTTL },
			"levels",
			"it can be 1 to 1"},
		{"as many levels as can be written", func(c *delay.Config) { c.Levels = math.MaxInt }, "levels",
			"it can be 1 to 29"},
		{"negative longest delay", func(c *delay.Config) { c.Base, c.Levels, c.MaxDelay = 2, 0, -time.Second },
			"max_delay", "is -1s; it has to be positive"},
		{"least longest delay", func(c *delay.Config) { c.Base, c.Levels, c.MaxDelay = 2, 0, math.MinInt64 },
			"max_delay", "it has to be positive"},
		{"too long a delay", func(c *delay.Config) { c.Base, c.Levels, c.MaxDelay = 2, 0, 1<<29*time.Second },
			"max_delay", "more than 6213d18h48m31s (17 years 5 days), the longest delay at a resolution of 1s"},
		{"longest duration", func(c *delay.Config) {
			c.Base, c.Levels, c.MaxDelay, c.Resolution = 2, 0, math.MaxInt64,
				time.Millisecond
		}, "max_delay", "a coarser resolution reaches further"},
		{"longest duration, coarsest resolution", func(c *delay.Config) {
			c.Base, c.Levels, c.MaxDelay, c.Resolution = 2, 0,
				math.MaxInt64, delay.MaxTTL
		}, "max_delay", "more than 3650d"},
		{"negative resolution", func(c *delay.Config) { c.Resolution = -time.Second }, "resolution",
			"give 1ms or a multiple of it"},
		{"resolution below a millisecond", func(c *delay.Config) { c.Resolution = time.Microsecond }, "resolution",
			"give 1ms or a multiple of it"},
		{"resolution between milliseconds", func(c *delay.Config) { c.Resolution = 1500 * time.Microsecond },
			"resolution",
			"is 1ms500µs; RabbitMQ counts TTL in whole milliseconds"},
		{"resolution over the ceiling", func(c *delay.Config) { c.Resolution = delay.MaxTTL + time.Millisecond },
			"resolution",
			"give at most 3650d (ten years)"},
		{"negative lookahead", func(c *delay.Config) { c.Lookahead = -1 }, "lookahead",
			"with 4 levels it can be 1 (the " +
				"classic chain) to 4"},
		{"lookahead beyond the levels", func(c *delay.Config) { c.Lookahead = 5 }, "lookahead",
			"is 5; with 4 levels it " +
				"can be 1"},
		{"other queue type", func(c *delay.Config) { c.QueueType = "stream" }, "queue_type", `is "stream"; it can be ` +
			`"quorum" or "classic"`},
		{"negative length", func(c *delay.Config) { c.MaxLength = -1 }, "max_length", "is -1; it has to be 1 or more"},
		{"length of classic queues", func(c *delay.Config) { c.MaxLength, c.QueueType = 5, delay.Classic },
			"max_length",
			`set queue_type = "quorum" or leave max_length out`},

		{"no name", func(c *delay.Config) { c.Name = "" }, "name", "is missing; give it, or else exchange_name " +
			"and queue_name and delivery_exchange and park_unroutable = false"},
		{"no name for parking", func(c *delay.Config) {
			c.Name, c.ExchangeName, c.QueueName, c.DeliveryExchange = "", "x%d", "q%d", "d"
		}, "name", "is missing; give it, or else park_unroutable = false"},
		{"exchange format without verb", func(c *delay.Config) { c.ExchangeName = "x" }, "exchange_name",
			"has 0 integer verbs. Write exactly one, %d or %02d"},
		{"exchange format with two verbs", func(c *delay.Config) { c.ExchangeName = "%d.%02d" }, "exchange_name",
			"has 2 integer verbs"},
		{"queue format with another verb", func(c *delay.Config) { c.QueueName = "%s.%d" }, "queue_name",
			"a percent sign that begins no %d. Write the level as %d or %02d, and a literal percent sign as %%"},
		{"queue format that ends in a percent sign", func(c *delay.Config) { c.QueueName = "%d%" }, "queue_name",
			"a percent sign that begins no %d"},
		{"queue format with a flag", func(c *delay.Config) { c.QueueName = "%-2d" }, "queue_name",
			"a percent sign that " +
				"begins no %d"},
		{"queue format with an index", func(c *delay.Config) { c.QueueName = "%[1]d" }, "queue_name",
			"a percent sign that " +
				"begins no %d"},
		{"exchange format too wide", func(c *delay.Config) { c.ExchangeName = "%300d" }, "exchange_name",
			"a percent sign that begins no %d"},

		{"long name", func(c *delay.Config) { c.Name = strings.Repeat("n", 247) }, "name", "of 256 bytes; RabbitMQ " +
			"allows 255"},
		{"long name in bytes", func(c *delay.Config) { c.Name = strings.Repeat("é", 125) }, "name",
			"of 259 bytes; RabbitMQ allows 255"},
		{"long exchange format", func(c *delay.Config) {
			c.ExchangeName = delay.Format(strings.Repeat("x",
				255) + "%d")
		},
			"exchange_name", "of 256 bytes"},
		{"long queue format", func(c *delay.Config) {
			c.QueueName, c.QueueType = delay.Format(strings.Repeat("x", 255)+"%d"),
				delay.Classic
		}, "queue_name", "of 256 bytes"},
		{"name that grows with the level", func(c *delay.Config) {
			c.Levels, c.ExchangeName = 11,
				delay.Format(strings.Repeat("x", 254)+"%d")
		}, "exchange_name", "of 256 bytes"},
		{"long delivery exchange", func(c *delay.Config) { c.DeliveryExchange = strings.Repeat("x", 256) },
			"delivery_exchange", "of 256 bytes"},
		{"long quorum queue name", func(c *delay.Config) {
			c.QueueName = delay.Format(strings.Repeat("q",
				251) + "%d")
		},
			"queue_name", "With the vhost it has 256 bytes inside RabbitMQ"},
		{"long vhost before a quorum queue name", func(c *delay.Config) { c.Vhost = strings.Repeat("v", 243) }, "name",
			"Use a shorter name"},

		{"reserved name", func(c *delay.Config) { c.Name = "amq.t" }, "name",
			"RabbitMQ reserves names that begin with " +
				`"amq."`},
		{"reserved exchange format", func(c *delay.Config) { c.ExchangeName = "amq.%d" }, "exchange_name", "reserves"},
		{"reserved queue format", func(c *delay.Config) { c.QueueName = "amq.%d" }, "queue_name", "reserves"},
		{"reserved delivery exchange", func(c *delay.Config) { c.DeliveryExchange = "amq.topic" }, "delivery_exchange",
			"reserves"},
		{"control character", func(c *delay.Config) { c.Name = "a\nb" }, "name", "control character"},
		{"control character in a format", func(c *delay.Config) { c.QueueName = "a\x00%d" }, "queue_name",
			"control character"},
		{"control character in the delivery exchange", func(c *delay.Config) { c.DeliveryExchange = "a\x7f" },
			"delivery_exchange", "control character"},
		{"not a text", func(c *delay.Config) { c.Name = "\xff" }, "name", "is not valid UTF-8"},

		{"delivery exchange like a level", func(c *delay.Config) { c.DeliveryExchange = "t.delay-02" },
			"delivery_exchange",
			`gives the name "t.delay-02" to a second exchange`},
		{"level like the delivery exchange", func(c *delay.Config) { c.ExchangeName, c.DeliveryExchange = "x%d", "x0" },
			"exchange_name", `gives the name "x0" to a second exchange`},
		{"foreign delivery exchange like a level", func(c *delay.Config) {
			c.CreateDeliveryExchange,
				c.DeliveryExchange = false, "t.delay-00"
		}, "delivery_exchange", "second exchange"},
		{"delivery exchange like parking", func(c *delay.Config) { c.DeliveryExchange = "t.unroutable" },
			"delivery_exchange",
			`gives the name "t.unroutable" to a second exchange`},
		{"level exchange like parking", func(c *delay.Config) { c.Name, c.ExchangeName = "3", "%d.unroutable" },
			"exchange_name", `gives the name "3.unroutable" to a second exchange`},
		{"exchange that URLs cannot name", func(c *delay.Config) { c.DeliveryExchange = ".." }, "delivery_exchange",
			"the management API cannot reach"},
		{"vhost that URLs cannot name", func(c *delay.Config) { c.Vhost = "." }, "vhost",
			"the management API cannot reach"},
		{"level queue like parking", func(c *delay.Config) { c.Name, c.QueueName = "3", "%d.unroutable" }, "queue_name",
			`gives the name "3.unroutable" to a second queue`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := valid
			test.change(&c)
			_, err := c.Resolve()
			var errs delay.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("got %v", err)
			}
			if len(errs) != 1 || errs[0].Attribute != test.attribute || !strings.Contains(errs[0].Message, test.want) {
				t.Errorf("got %q, want %s %s", errs, test.attribute, test.want)
			}
		})
	}
}

func TestResolveReportsEveryAttribute(t *testing.T) {
	_, err := delay.Config{Name: "t", Levels: 99, QueueType: "stream",
		QuorumOptions: delay.QuorumOptions{MaxLength: -1},
		ExchangeName:  "x",
		QueueName:     "%d"}.Resolve()
	var errs delay.Errors
	if !errors.As(err, &errs) {
		t.Fatalf("got %v", err)
	}
	var attributes []string
	for _, each := range errs {
		attributes = append(attributes, each.Attribute)
	}
	if got, want := strings.Join(attributes, " "), "levels queue_type max_length exchange_name"; got != want {
		t.Errorf("errors on %s, want %s", got, want)
	}
}

func TestResolveAccepts(t *testing.T) {
	for name, c := range map[string]delay.Config{
		"a delivery exchange of the broker's own": {Name: "t", Levels: 4, DeliveryExchange: "amq.topic"},
		"names that fit exactly":                  {Vhost: "/", Name: strings.Repeat("n", 242), Levels: 4},
		"classic queues with the longest names": {Vhost: "orders", Name: strings.Repeat("n", 246), Levels: 4,
			QueueType: delay.Classic},
		"one name for exchanges and queues": {Levels: 4, ExchangeName: "x%d", QueueName: "x%d",
			DeliveryExchange: "d"},
		"a limit as large as can be written": {Name: "t", Levels: 4,
			QuorumOptions: delay.QuorumOptions{MaxLength: math.MaxInt64}},
		"levels beside what they reach": {Name: "t", Levels: 4, MaxDelay: 15 * time.Second},
		"any other character":           {Name: `a/b "ü" <é> %d`, Levels: 4},
	} {
		if _, err := c.Resolve(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What Resolve works out can be given, too, as a generated configuration and ignore_changes do: all of it, and each
// value alone.
func TestResolvedIsAConfiguration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := delaytest.AnyConfig().Draw(t, "config")
		if rapid.Bool().Draw(t, "preset") {
			preset := rapid.SampledFrom(delay.Presets()).Draw(t, "which")
			c = delay.Config{Vhost: c.Vhost, Preset: preset, CreateDeliveryExchange: c.CreateDeliveryExchange}
		} else if len(c.Units) == 0 && rapid.Bool().Draw(t, "by delay") {
			longest := delay.Uniform{c.Base, c.Levels, c.Resolution}.Scale().Longest
			shorter := delay.Uniform{c.Base, c.Levels - 1, c.Resolution}.Scale().Longest
			c.MaxDelay = time.Duration(rapid.Int64Range(int64(shorter)+1, int64(longest)).Draw(t, "longest delay"))
			c.Levels = rapid.SampledFrom([]int{0, c.Levels}).Draw(t, "levels beside it")
		}
		resolved := delaytest.Resolve(t, c)
		beside, both := c, c
		beside.Levels, both.MaxDelay = resolved.Levels, resolved.MaxDelay
		for _, again := range []delay.Config{delay.Config(resolved), beside, both} {
			if got, err := again.Resolve(); err != nil || !reflect.DeepEqual(got, resolved) {
				t.Fatalf("%+v resolves to %+v, %v", again, got, err)
			}
		}
		more := delay.Config(resolved)
		more.Levels++
		if _, err := more.Resolve(); err == nil {
			t.Fatalf("%+v is accepted", more)
		}
	})
}
