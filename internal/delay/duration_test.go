package delay_test

import (
	"math"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                               "0s",
		1:                               "1ns",
		1500 * time.Microsecond:         "1ms500µs",
		time.Millisecond:                "1ms",
		100 * time.Millisecond:          "100ms",
		1500 * time.Millisecond:         "1s500ms",
		10 * time.Second:                "10s",
		60 * time.Second:                "1m",
		90 * time.Second:                "1m30s",
		600 * time.Second:               "10m",
		90 * time.Minute:                "1h30m",
		10*time.Hour + 10*time.Second:   "10h10s",
		day:                             "1d",
		36 * time.Hour:                  "1d12h",
		7 * day:                         "7d",
		30 * day:                        "30d",
		30*day + time.Second:            "30d1s",
		-time.Hour:                      "-1h",
		-1500 * time.Millisecond:        "-1s500ms",
		(1<<17 - 1) * time.Second:       "1d12h24m31s",
		(1<<28 - 1) * time.Second:       "3106d21h24m15s",
		(1<<29 - 1) * time.Second:       "6213d18h48m31s",
		(1<<39 - 1) * time.Millisecond:  "6362d21h56m53s887ms",
		-(1<<28 - 1) * time.Second:      "-3106d21h24m15s",
		delay.MaxTTL:                    "3650d",
		delay.MaxTTL + time.Millisecond: "3650d1ms",
		math.MaxInt64:                   "106751d23h47m16s854ms775µs807ns",
		math.MinInt64:                   "-106751d23h47m16s854ms775µs808ns",
	} {
		if got := delay.DurationText(d); got != want {
			t.Errorf("%d ns are %q, want %q", d, got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "0d": 0, "-0": 0,
		"7d": 7 * day, "1w": 7 * day, "1w2d": 9 * day, "2d1w": 9 * day, "1.5d": 36 * time.Hour, ".5w": 84 * time.Hour,
		"1d12h": 36 * time.Hour, "36h": 36 * time.Hour, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute,
		"1.d": day, "1d1d": 2 * day, "1d1ms1us1µs1ns": day + time.Millisecond + 2*time.Microsecond + 1,
		"0.1w": 16*time.Hour + 48*time.Minute, "1m30.5s": 90*time.Second + 500*time.Millisecond,
		"-7d": -7 * day, "+7d": 7 * day, "-1d12h": -36 * time.Hour, "3650d": delay.MaxTTL, "87600h": delay.MaxTTL,
		"106751d23h47m16.854775807s": math.MaxInt64, "-106751d23h47m16.854775808s": math.MinInt64,
	} {
		if got, err := delay.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q reads %s (%v), want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "x", "1", "1.5", "-", "d", ".d", "-.d", "1 d", " 1d", "1d ", "1D", "1W", "1day", "1d-1h", "--1d",
		"1d1", "1y", "1M", "1e3d", "1,5d", "1d\x00", "é", "١d", "P1D", "1:30",
		"106752d", "-106752d", "15251w", "106751d24h", "106751.999d", "99999999999999999999d", "200000d",
		"106751d23h47m16.854775808s", "-106751d23h47m16.854775809s", "2562047h47m16.854775808s",
	} {
		if got, err := delay.ParseDuration(text); err == nil {
			t.Errorf("%q reads %s, and is no duration", text, got)
		}
	}
}
