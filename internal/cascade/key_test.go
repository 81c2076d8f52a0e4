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
		{-1, 4, time.Second, "d", "delay is -1ns; a message cannot be delivered before it is sent"},
		{15*time.Second + 1, 4, time.Second, "d", "delay is 15.000000001s, longer than 15s, the longest that 4 levels of 1s can give"},
		{math.MaxInt64, 29, time.Second, "d", ", longer than 149130h48m31s"},
		{math.MinInt64, 29, time.Second, "d", "before it is sent"},
		{0, 4, time.Second, "", "destination is empty"},
		{0, 28, time.Second, strings.Repeat("d", 200), "of 200 bytes; behind 28 levels it can have 199, because AMQP allows a key 255"},
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

func TestBindingKey(t *testing.T) {
	for _, test := range []struct {
		level, levels, bit int
		want               string
	}{
		{3, 4, 1, "1.#"},
		{3, 4, 0, "0.#"},
		{0, 4, 1, "*.*.*.1.#"},
		{0, 1, 0, "0.#"},
		{0, 39, 1, strings.Repeat("*.", 38) + "1.#"},
	} {
		if got, err := BindingKey(test.level, test.levels, test.bit); err != nil || got != test.want {
			t.Errorf("level %d of %d, bit %d: got %q (%v), want %q", test.level, test.levels, test.bit, got, err, test.want)
		}
	}
	for _, test := range []struct {
		level, levels, bit int
		want               string
	}{
		{4, 4, 1, "level is 4; with 4 levels it can be 0, the lowest, to 3, the entry"},
		{-1, 4, 1, "level is -1"},
		{0, 0, 1, "levels is 0"},
		{0, 40, 1, "levels is 40; at a resolution of 1ms it can be 1 to 39"},
		{0, 4, 2, "bit is 2; it can be 1, which leads to the queue, or 0, which leads past it"},
		{0, 4, -1, "bit is -1"},
	} {
		if got, err := BindingKey(test.level, test.levels, test.bit); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("level %d of %d, bit %d: got %q and error %v, want %q", test.level, test.levels, test.bit, got, err, test.want)
		}
	}
}

func TestDestinationKey(t *testing.T) {
	if got, err := DestinationKey(4, "orders.eu"); err != nil || got != "*.*.*.*.orders.eu" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, test := range []struct {
		levels  int
		address string
		want    string
	}{
		{4, "", "address is empty"},
		{28, strings.Repeat("d", 200), "of 200 bytes; behind 28 levels it can have 199"},
		{0, "d", "levels is 0"},
		{40, "d", "levels is 40"},
	} {
		if got, err := DestinationKey(test.levels, test.address); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q behind %d levels: got %q and error %v, want %q", test.address, test.levels, got, err, test.want)
		}
	}
}

func TestLevelsFor(t *testing.T) {
	for _, test := range []struct {
		maxDelay, resolution time.Duration
		want                 int
	}{
		{36 * time.Hour, time.Second, 17},
		{15 * time.Second, time.Second, 4},
		{15*time.Second + 1, time.Second, 5},
		{1, time.Second, 1},
		{15 * time.Second, time.Millisecond, 14},
		{(1<<39 - 1) * time.Millisecond, time.Millisecond, 39},
	} {
		if got, err := LevelsFor(test.maxDelay, test.resolution); err != nil || got != test.want {
			t.Errorf("%s at %s: got %d (%v), want %d", test.maxDelay, test.resolution, got, err, test.want)
		}
	}
	for _, test := range []struct {
		maxDelay, resolution time.Duration
		want                 string
	}{
		{0, time.Second, "max_delay is 0s; it has to be positive"},
		{-time.Hour, time.Second, "max_delay is -1h0m0s; it has to be positive"},
		{(1 << 39) * time.Millisecond, time.Millisecond, "a coarser resolution reaches further"},
		{200_000 * time.Hour, time.Second, "a coarser resolution reaches further"},
		{time.Hour, time.Microsecond, "resolution is 1µs"},
	} {
		if got, err := LevelsFor(test.maxDelay, test.resolution); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s at %s: got %d and error %v, want %q", test.maxDelay, test.resolution, got, err, test.want)
		}
	}
}
