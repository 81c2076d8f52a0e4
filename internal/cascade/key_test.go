package cascade

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestRoutingKey(t *testing.T) {
	for _, test := range []struct {
		delay       time.Duration
		levels      int
		resolution  time.Duration
		destination string
		want        string
	}{
		{10 * time.Second, 4, time.Second, "destination", "1.0.1.0.destination"},
		{0, 4, time.Second, "destination", "0.0.0.0.destination"},
		{15 * time.Second, 4, time.Second, "destination", "1.1.1.1.destination"},
		{1, 4, time.Second, "destination", "0.0.0.1.destination"},
		{9*time.Second + 1, 4, time.Second, "destination", "1.0.1.0.destination"},
		{14*time.Second + time.Millisecond, 4, time.Second, "destination", "1.1.1.1.destination"},
		{time.Second, 1, time.Second, "a", "1.a"},
		{1700 * time.Millisecond, 5, 100 * time.Millisecond, "orders.eu", "1.0.0.0.1.orders.eu"},
		{(1<<39 - 1) * time.Millisecond, 39, time.Millisecond, "d", strings.Repeat("1.", 39) + "d"},
		{0, 28, time.Second, strings.Repeat("d", 199), strings.Repeat("0.", 28) + strings.Repeat("d", 199)},
	} {
		got, err := RoutingKey(test.delay, test.levels, test.resolution, test.destination)
		if err != nil || got != test.want {
			t.Errorf("%s on %d levels of %s: got %q (%v), want %q", test.delay, test.levels, test.resolution, got, err, test.want)
		}
	}
}

func TestRoutingKeyErrors(t *testing.T) {
	for _, test := range []struct {
		delay       time.Duration
		levels      int
		resolution  time.Duration
		destination string
		want        string
	}{
		{-1, 4, time.Second, "d", "the delay -1ns is negative"},
		{15*time.Second + 1, 4, time.Second, "d", "the delay 15.000000001s is longer than 15s, the longest that 4 levels of 1s can give"},
		{math.MaxInt64, 29, time.Second, "d", "is longer than 149130h48m31s"},
		{math.MinInt64, 29, time.Second, "d", "is negative"},
		{0, 4, time.Second, "", "the destination is empty"},
		{0, 28, time.Second, strings.Repeat("d", 200), "has 256 bytes; AMQP allows 255, which leaves 199 for a destination behind 28 levels"},
		{0, 0, time.Second, "d", "levels is 0; at a resolution of 1s it can be 1 to 29"},
		{0, -1, time.Second, "d", "levels is -1"},
		{0, 30, time.Second, "d", "levels is 30; at a resolution of 1s it can be 1 to 29"},
		{0, math.MaxInt, time.Millisecond, "d", "it can be 1 to 39"},
		{0, 4, 0, "d", "resolution is 0s"},
		{0, 4, -time.Second, "d", "resolution is -1s"},
		{0, 4, time.Microsecond, "d", "resolution is 1µs; RabbitMQ counts time-to-live in whole milliseconds"},
		{0, 1, MaxTTL + time.Millisecond, "d", "give at most 87600h0m0s"},
	} {
		if got, err := RoutingKey(test.delay, test.levels, test.resolution, test.destination); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s on %d levels of %s: got %q and error %q, want %q", test.delay, test.levels, test.resolution, got, err, test.want)
		}
	}
}
