package delay_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// Whatever is configured, it expands or is refused with a reason for an attribute.
func FuzzExpand(f *testing.F) {
	f.Add("/", "tasks", 17, int64(0), int64(0), "", "", "", true, "", int64(0), 0, true, true)
	f.Add("/", "", 28, int64(0), int64(time.Second), "nsb.v2.delay-level-%02d", "nsb.v2.delay-level-%02d",
		"nsb.v2.delay-delivery", true, "quorum", int64(0), 1, false, false)
	f.Add("v", "t", 0, int64(36*time.Hour), int64(time.Millisecond), "%d.x", "%%%3d", "amq.topic", false, "classic",
		int64(5), 40, false, true)
	f.Fuzz(func(t *testing.T, vhost, name string, levels int, maxDelay, resolution int64, exchangeName, queueName,
		deliveryExchange string,
		createDeliveryExchange bool, queueType string, maxLength int64, lookahead int, strictKeys, parkUnroutable bool,
	) {
		c := delay.Config{
			Vhost: vhost, Name: name, Levels: levels, MaxDelay: time.Duration(maxDelay),
			Resolution:   time.Duration(resolution),
			ExchangeName: delay.Format(exchangeName), QueueName: delay.Format(queueName),
			DeliveryExchange:       deliveryExchange,
			CreateDeliveryExchange: createDeliveryExchange, QueueType: delay.QueueType(queueType),
			QuorumOptions: delay.QuorumOptions{MaxLength: maxLength},
			Lookahead:     lookahead, StrictKeys: strictKeys, ParkUnroutable: parkUnroutable,
		}
		resolved, err := c.Resolve()
		if err != nil {
			mustNameAttributes(t, err)
			return
		}
		expanded := resolved.Expand()
		if top := resolved.Scale().TTL(resolved.Levels-1, 1); top <= 0 || top > delay.MaxTTL {
			t.Fatalf("the top level has a TTL of %s", top)
		}
		queues, exchanges := resolved.Levels, resolved.Levels
		if parkUnroutable {
			queues, exchanges = queues+1, exchanges+1
		}
		if createDeliveryExchange {
			exchanges++
		}
		if len(expanded.Queues) != queues || len(expanded.Exchanges) != exchanges {
			t.Fatalf("%d queues and %d exchanges for %+v", len(expanded.Queues), len(expanded.Exchanges), resolved)
		}
	})
}

func mustNameAttributes(t *testing.T, err error) {
	t.Helper()
	var errs delay.Errors
	if !errors.As(err, &errs) || len(errs) == 0 {
		t.Fatalf("got %T %v", err, err)
	}
	for _, each := range errs {
		if each.Attribute == "" || each.Message == "" || !utf8.ValidString(each.Message) {
			t.Fatalf("got %+q", each)
		}
	}
}

// A format that is accepted gives every level a name of its own, without a trace of fmt's errors.
func FuzzFormat(f *testing.F) {
	for _, format := range []string{"t.delay-%02d", "%d", "100%% %3d", "%", "%%", "%d%d", "%!d", "%00d", "%99d", "%+d",
		"%[1]d", "%*d", "%.2d"} {
		f.Add(format)
	}
	f.Fuzz(func(t *testing.T, text string) {
		format := delay.Format(text)
		if format.Check() != nil {
			return
		}
		seen := map[string]bool{}
		for level := range delay.MaxLevels {
			name := format.Name(level)
			if seen[name] {
				t.Fatalf("%q gives the name %q twice", text, name)
			}
			seen[name] = true
		}
	})
}

// Escaped text stands for itself.
func FuzzEscape(f *testing.F) {
	for _, text := range []string{"", "tasks", "100%", "%d", "%%02d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		format := delay.Format(delay.Escape(text) + "%d")
		if err := format.Check(); err != nil {
			t.Fatal(err)
		}
		if got := format.Name(7); got != text+"7" {
			t.Fatalf("%q has become %q", text, got)
		}
	})
}

// A key that can be computed says what it was computed from.
func FuzzRoutingKey(f *testing.F) {
	f.Add(int64(10*time.Second), 4, int64(time.Second), "destination")
	f.Add(int64(-1), -1, int64(-1), "")
	f.Add(int64(math.MaxInt64), math.MaxInt, int64(1), "a.b")
	f.Add(int64(1<<39-1)*int64(time.Millisecond), 39, int64(time.Millisecond), ".")
	f.Fuzz(func(t *testing.T, delay int64, levels int, resolution int64, destination string) {
		key, err := routingKey(time.Duration(delay), levels, time.Duration(resolution), destination)
		if err != nil {
			return
		}
		got, gotDestination, err := parseRoutingKey(key, levels, time.Duration(resolution))
		if err != nil || gotDestination != destination || int64(got) < delay || int64(got)-delay >= resolution {
			t.Fatalf("%q is %s to %q (%v)", key, got, gotDestination, err)
		}
	})
}

// A key that can be parsed is the only one that says the same.
func FuzzParseRoutingKey(f *testing.F) {
	for _, key := range []string{"1.0.1.0.destination", "", ".", "1.0.1.0", "1.0.1.0.", "1.0.2.0.d", "1.0.1.0.a.b",
		"0.0.0.0..", "11.0.1.0.d"} {
		f.Add(key, 4, int64(time.Second))
	}
	f.Add("1.d", 0, int64(0))
	f.Fuzz(func(t *testing.T, key string, levels int, resolution int64) {
		delay, destination, err := parseRoutingKey(key, levels, time.Duration(resolution))
		if err != nil {
			return
		}
		if again, err := routingKey(delay, levels, time.Duration(resolution), destination); err != nil || again != key {
			t.Fatalf("%q comes back as %q (%v)", key, again, err)
		}
	})
}

// A duration that Go reads is read alike. Each is written without weeks and fractions, and reads back.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{"", "0", "1", "1.5d", "1w2d", "1d12h", "36h", "-1.5h", "1us1µs1μs", "1ms500µs1ns",
		"106751d23h47m16.854775807s", "-9223372036854775808ns", "9223372036854775808ns", "106752d",
		"2562047h47m16.854775808s", ".5w", "1 d", "1d-1h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := delay.ParseDuration(text)
		goes, refused := time.ParseDuration(text)
		isGo := refused == nil || !strings.ContainsAny(text, "dw")
		if isGo && ((err == nil) != (refused == nil) || d != goes) {
			t.Fatalf("%q reads %s (%v), and in Go %s (%v)", text, d, err, goes, refused)
		}
		if err != nil {
			return
		}
		written := delay.DurationText(d)
		if again, err := delay.ParseDuration(written); err != nil || again != d || strings.ContainsAny(written, "w.+") {
			t.Fatalf("%q, which is %s, is written %q, which reads %s (%v)", text, d, written, again, err)
		}
	})
}

// Every duration reads back as it is written.
func FuzzDurationText(f *testing.F) {
	for _, d := range []time.Duration{0, 1, -1, math.MaxInt64, math.MinInt64, 36 * time.Hour, 1500 * time.Millisecond} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, d int64) {
		written := delay.DurationText(time.Duration(d))
		if got, err := delay.ParseDuration(written); err != nil || int64(got) != d {
			t.Fatalf("%d ns are written %q, which reads %d (%v)", d, written, got, err)
		}
	})
}
