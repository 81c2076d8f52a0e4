package delay_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func TestResolveBase(t *testing.T) {
	got := delaytest.Resolve(t, delay.Config{Name: "100%", Base: 10, MaxDelay: 24 * time.Hour})
	want := delay.Cascade{
		Name: "100%", Base: 10, Levels: 5, MaxDelay: 24 * time.Hour, Resolution: time.Second,
		ExchangeName: "100%%.delay-%02d", QueueName: "100%%.delay-%02d-%x", DeliveryExchange: "100%.delivery",
		QueueType: delay.Quorum, Lookahead: 5,
		QueueArguments: topology.Arguments{"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	queues := got.DelayQueues(3)
	if len(queues) != 9 || queues[6] != (delay.Queue{"100%.delay-03-7", 3, 7, 7000 * time.Second}) {
		t.Errorf("level 3 has %+v", queues)
	}
}

// In every base, the highest digit of the largest cascade stays within the broker's ceiling, and one level more would
// not.
func TestMostLevelsOfBase(t *testing.T) {
	for base := delay.MinBase; base <= delay.MaxBase; base++ {
		for _, resolution := range []time.Duration{time.Millisecond, time.Second, time.Hour,
			(delay.MaxTTL / time.Duration(base-1)).Truncate(time.Millisecond)} {
			hasMostLevels(t, delay.Uniform{base, delaytest.MostLevels(base, resolution), resolution})
		}
	}
}

func hasMostLevels(t *testing.T, s delay.Uniform) {
	t.Helper()
	scale := s.Scale()
	c := delay.Config{Name: "t", Base: s.Base, Levels: s.Levels, Resolution: s.Resolution}
	if got, err := c.Resolve(); err != nil || got.MaxDelay != scale.Longest {
		t.Errorf("%+v: %s, %v", s, got.MaxDelay, err)
	}
	if ttl := scale.TTL(s.Levels-1, s.Base-1); ttl > delay.MaxTTL || ttl <= delay.MaxTTL/time.Duration(s.Base) {
		t.Errorf("%+v: the longest TTL is %s", s, ttl)
	}
	if levels, err := levelsFor(s.Base, scale.Longest, s.Resolution); err != nil || levels != s.Levels {
		t.Errorf("%+v: %d levels, %v", s, levels, err)
	}
	if levels, err := levelsFor(s.Base, scale.Longest+1, s.Resolution); err == nil {
		t.Errorf("%+v: %d levels reach more", s, levels)
	}
	c.Levels++
	if _, err := c.Resolve(); err == nil {
		t.Errorf("%+v: one level more is accepted", s)
	}
}

func TestResolveBaseErrors(t *testing.T) {
	decimal := delay.Config{Vhost: "/", Name: "t", Base: 10, Levels: 4, CreateDeliveryExchange: true,
		ParkUnroutable: true}
	for _, test := range []struct {
		name            string
		change          func(*delay.Config)
		attribute, want string
	}{
		{"base 1", func(c *delay.Config) { c.Base = 1 }, "base", "is 1; it can be 2 to 10"},
		{"base 11", func(c *delay.Config) { c.Base, c.QueueName = 11, "q" }, "base", "is 11; it can be 2 to 10"},
		{"negative base", func(c *delay.Config) { c.Base = -10 }, "base", "is -10; it can be 2 to 10"},
		{"as large a base as can be written", func(c *delay.Config) { c.Base = math.MaxInt }, "base",
			"it can be 2 to 10"},
		{"base of a preset", func(c *delay.Config) { *c = delay.Config{Preset: delay.NServiceBus, Base: 10} }, "base",
			"is 10; presets are base 2, leave base out"},
		{"levels", func(c *delay.Config) { c.Levels = 10 }, "levels",
			"is 10; at a resolution of 1s in base 10 it can be " +
				"1 to 8: RabbitMQ accepts no TTL over 3650d (ten years)"},
		{"levels that the longest delay does not take", func(c *delay.Config) { c.MaxDelay = 999 * time.Second },
			"levels",
			"is 4, but the max_delay beside it, 16m39s, takes 3"},
		{"longest delay", func(c *delay.Config) { c.Levels, c.MaxDelay = 0, 100_000_000*time.Second }, "max_delay",
			"more than 1157d9h46m39s (3 years 62 days), the longest delay at a resolution of 1s in base 10: " +
				"RabbitMQ accepts no"},
		{"resolution", func(c *delay.Config) { c.Resolution = delay.MaxTTL }, "resolution",
			"in base 10 give at most 405d13h20m: " +
				"the highest digit waits 9 times as long, and RabbitMQ accepts no TTL over 3650d (ten years)"},
		{"no verb", func(c *delay.Config) { c.QueueName = "q" }, "queue_name",
			`is "q", which has 0 integer verbs. In ` +
				"base 10 write exactly two: first %d or %02d for the level, then %x or %d for the digit"},
		{"no verb for the digit", func(c *delay.Config) { c.QueueName = "q%02d" }, "queue_name",
			"has 1 integer verbs. " +
				"In base 10 write exactly two"},
		{"a verb too many", func(c *delay.Config) { c.QueueName = "q%02d-%x-%x" }, "queue_name", "has 3 integer verbs"},
		{"another verb", func(c *delay.Config) { c.QueueName = "q%d-%X" }, "queue_name",
			"a percent sign that begins no " +
				"%d or %x. Write the level as %d or %02d, the digit as %x or %d, and a literal percent sign as %%"},
		{"the digit first", func(c *delay.Config) { c.QueueName = "q%x-%02d" }, "queue_name",
			"has %x in the place of " +
				"the level. Write the level first, as %d or %02d, then the digit, as %x or %d"},
		{"a verb for the digit of base 2", func(c *delay.Config) { c.Base, c.QueueName = 2, "q%d-%x" }, "queue_name",
			"has a percent sign that begins no %d"},
		{"two verbs in base 2", func(c *delay.Config) { c.Base, c.QueueName = 0, "q%d-%d" }, "queue_name",
			"has 2 integer verbs. Write exactly one"},
		{"a digit in the names of exchanges", func(c *delay.Config) { c.ExchangeName = "x%d-%d" }, "exchange_name",
			"has 2 integer verbs. Write exactly one"},
		{"a name like parking", func(c *delay.Config) { c.Name, c.QueueName = "2.1", "%d.%x.unroutable" },
			"queue_name", `gives the name "2.1.unroutable" to a second queue`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := decimal
			test.change(&c)
			_, err := c.Resolve()
			var errs delay.Errors
			if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Attribute != test.attribute ||
				!strings.Contains(errs[0].Message, test.want) {
				t.Errorf("got %q, want %s %s", err, test.attribute, test.want)
			}
		})
	}
}

func TestKeysOfBase(t *testing.T) {
	for _, test := range []struct {
		base, levels int
		steps        int64
		want         string
	}{
		{10, 8, 3600, "0.0.0.0.3.6.0.0.billing"},
		{8, 4, 0o7043, "7.0.4.3.billing"},
		{3, 4, 80, "2.2.2.2.billing"},
	} {
		s := delay.Uniform{test.base, test.levels, time.Second}.Scale()
		delay := time.Duration(test.steps) * time.Second
		if key, err := s.RoutingKey(delay, "billing"); err != nil || key != test.want {
			t.Errorf("%s in base %d: got %q (%v), want %q", delay, test.base, key, err, test.want)
		}
		got, destination, err := s.ParseRoutingKey(test.want)
		if err != nil || got != delay || destination != "billing" {
			t.Errorf("%q in base %d: got %s to %q (%v)", test.want, test.base, got, destination, err)
		}
	}
}

func TestKeysOfBaseErrors(t *testing.T) {
	for _, test := range []struct {
		base int
		key  string
		want string
	}{
		{10, "0.a.d", `key is "0.a.d", whose word 2 is "a"; the first 2 words say the delay, and ` +
			`this one has to be 0 to 9`},
		{10, "+.0.d", `word 1 is "+"; `},
		{2, "2.0.d", `word 1 is "2"; the first 2 words say the delay, and this one has to be 0 or 1`},
		{3, "3.0.d", `word 1 is "3"; the first 2 words say the delay, and this one has to be 0 to 2`},
		{10, "10.0.d", `word 1 is "10"`},
		{10, ".0.d", `word 1 is ""`},
	} {
		s := delay.Uniform{test.base, 2, time.Second}.Scale()
		if _, _, err := s.ParseRoutingKey(test.key); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q in base %d: got %v, want %q", test.key, test.base, err, test.want)
		}
	}
	if _, err := (delay.Uniform{10, 3, time.Second}).Scale().RoutingKey(1000*time.Second, "d"); err == nil ||
		!strings.Contains(err.Error(), "longer than 16m39s, the longest that has a key here") {
		t.Errorf("out of range: %v", err)
	}
}
