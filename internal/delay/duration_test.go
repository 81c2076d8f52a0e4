package delay_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                "0s",
		time.Millisecond:                 "1ms",
		3100 * time.Millisecond:          "3.1s",
		10 * time.Second:                 "10s",
		60 * time.Second:                 "1m",
		90 * time.Second:                 "1m30s",
		600 * time.Second:                "10m",
		36 * time.Hour:                   "36h",
		10*time.Hour + 10*time.Minute:    "10h10m",
		10*time.Hour + 10*time.Second:    "10h10s",
		-time.Hour:                       "-1h",
		(1<<17 - 1) * time.Second:        "36h24m31s",
		(1<<28 - 1) * time.Second:        "268435455s",
		(1<<39 - 1) * time.Millisecond:   "549755813.887s",
		-(1<<28 - 1) * time.Second:       "-268435455s",
		delay.MaxTTL:                     "87600h",
		1000*time.Hour + 30*time.Minute:  "1000h30m",
		1000*time.Hour + 30*time.Second:  "1000h30s",
		math.MaxInt64:                    "2562047h47m16.854775807s",
		time.Hour + 500*time.Millisecond: "1h0.5s",
	} {
		if got := delay.DurationText(d); got != want {
			t.Errorf("%d ns are %q, want %q", d, got, want)
		}
	}
}

// Go, Terraform's own functions and the attributes read the same duration out of it.
func TestDurationTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(math.MinInt64+1, math.MaxInt64).Draw(t, "d"))
		unit := rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, time.Minute, time.Hour}).Draw(t,
			"unit")
		d -= d % unit
		text := delay.DurationText(d)
		if got, err := time.ParseDuration(text); err != nil || got != d || len(text) > len(d.String()) {
			t.Fatalf("%s is written %q, which reads %s, %v", d, text, got, err)
		}
	})
}
