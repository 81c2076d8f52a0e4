package delay_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
)

func TestRoutingKey(t *testing.T) {
	for _, test := range []struct {
		delay      time.Duration
		levels     int
		resolution time.Duration
		address    string
		want       string
	}{
		{10 * time.Second, 4, time.Second, "address", "1.0.1.0.address"},
		{0, 4, time.Second, "address", "0.0.0.0.address"},
		{15 * time.Second, 4, time.Second, "address", "1.1.1.1.address"},
		{1, 4, time.Second, "address", "0.0.0.1.address"},
		{9*time.Second + 1, 4, time.Second, "address", "1.0.1.0.address"},
		{14*time.Second + time.Millisecond, 4, time.Second, "address", "1.1.1.1.address"},
		{time.Second, 1, time.Second, "a", "1.a"},
		{1700 * time.Millisecond, 5, 100 * time.Millisecond, "orders.eu", "1.0.0.0.1.orders.eu"},
		{(1<<39 - 1) * time.Millisecond, 39, time.Millisecond, "d", strings.Repeat("1.", 39) + "d"},
		{0, 28, time.Second, strings.Repeat("d", 199), strings.Repeat("0.", 28) + strings.Repeat("d", 199)},
	} {
		got, err := routingKey(test.delay, test.levels, test.resolution, test.address)
		if err != nil || got != test.want {
			t.Errorf("%s on %d levels of %s: got %q (%v), want %q", test.delay, test.levels, test.resolution, got, err,
				test.want)
		}
	}
}

func TestRoutingKeyErrors(t *testing.T) {
	for _, test := range []struct {
		delay      time.Duration
		levels     int
		resolution time.Duration
		address    string
		want       string
	}{
		{-1, 4, time.Second, "d", "delay is -1ns; a message cannot be delivered before it is sent"},
		{15*time.Second + 1, 4, time.Second, "d", "delay is 15s1ns, longer than 15s, the longest that has a " +
			"key here"},
		{math.MaxInt64, 29, time.Second, "d", ", longer than 6213d18h48m31s"},
		{math.MinInt64, 29, time.Second, "d", "before it is sent"},
		{0, 4, time.Second, "", "address is empty"},
		{0, 28, time.Second, strings.Repeat("d", 200), "of 200 bytes; it can have 199, because the words before it " +
			"take 56 of the 255 that AMQP allows a key"},
	} {
		if got, err := routingKey(test.delay, test.levels, test.resolution, test.address); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s on %d levels of %s: got %q and error %q, want %q", test.delay, test.levels, test.resolution,
				got, err, test.want)
		}
	}
}

func TestBindingKey(t *testing.T) {
	for _, test := range []struct {
		level, levels, digit int
		want                 string
	}{
		{3, 4, 1, "1.#"},
		{3, 4, 0, "0.#"},
		{0, 4, 1, "*.*.*.1.#"},
		{0, 1, 0, "0.#"},
		{1, 3, 9, "*.9.#"},
		{0, 39, 1, strings.Repeat("*.", 38) + "1.#"},
	} {
		if got, err := delay.BindingKey(test.level, test.levels, test.digit); err != nil || got != test.want {
			t.Errorf("level %d of %d, digit %d: got %q (%v), want %q", test.level, test.levels, test.digit, got, err,
				test.want)
		}
	}
	for _, test := range []struct {
		level, levels, digit int
		want                 string
	}{
		{4, 4, 1, "level is 4; with 4 levels it can be 0, the lowest, to 3, the entry"},
		{-1, 4, 1, "level is -1"},
		{0, 0, 1, "levels is 0"},
		{0, 40, 1, "levels is 40; it can be 1 to 39"},
		{0, 4, 10, "digit is 10; it can be 1 to 9, each of which leads to its queue, or 0, which leads past them"},
		{0, 4, -1, "digit is -1"},
	} {
		if got, err := delay.BindingKey(test.level, test.levels, test.digit); err == nil ||
			!strings.Contains(err.Error(),
				test.want) {
			t.Errorf("level %d of %d, digit %d: got %q and error %v, want %q", test.level, test.levels, test.digit, got,
				err, test.want)
		}
	}
}

func TestDestinationKey(t *testing.T) {
	if got, err := delay.DestinationKey(4, "orders.eu"); err != nil || got != "*.*.*.*.orders.eu" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, test := range []struct {
		levels  int
		address string
		want    string
	}{
		{4, "", "address is empty"},
		{28, strings.Repeat("d", 200), "of 200 bytes; it can have 199, because the words before it take 56"},
		{0, "d", "levels is 0"},
		{40, "d", "levels is 40"},
	} {
		if got, err := delay.DestinationKey(test.levels, test.address); err == nil || !strings.Contains(err.Error(),
			test.want) {
			t.Errorf("%q behind %d levels: got %q and error %v, want %q", test.address, test.levels, got, err,
				test.want)
		}
	}
}

// levelsFor is the number of levels that reaches the delay.
func levelsFor(base int, maxDelay, resolution time.Duration) (int, error) {
	c, err := delay.Config{Name: "t", Base: base, MaxDelay: maxDelay, Resolution: resolution}.Resolve()
	return c.Levels, err
}

func TestLevelsForMaxDelay(t *testing.T) {
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
		if got, err := levelsFor(2, test.maxDelay, test.resolution); err != nil || got != test.want {
			t.Errorf("%s at %s: got %d (%v), want %d", test.maxDelay, test.resolution, got, err, test.want)
		}
	}
	for _, test := range []struct {
		maxDelay, resolution time.Duration
		want                 string
	}{
		{-time.Hour, time.Second, "max_delay is -1h; it has to be positive"},
		{(1 << 39) * time.Millisecond, time.Millisecond, "a coarser resolution reaches further"},
		{200_000 * time.Hour, time.Second, "a coarser resolution reaches further"},
		{time.Hour, time.Microsecond, "resolution is 1µs"},
	} {
		if got, err := levelsFor(2, test.maxDelay, test.resolution); err == nil || !strings.Contains(err.Error(),
			test.want) {
			t.Errorf("%s at %s: got %d and error %v, want %q", test.maxDelay, test.resolution, got, err, test.want)
		}
	}
}

func TestParseRoutingKey(t *testing.T) {
	for _, test := range []struct {
		key     string
		levels  int
		delay   time.Duration
		address string
	}{
		{"1.0.1.0.address", 4, 10 * time.Second, "address"},
		{"0.0.orders.eu", 2, 0, "orders.eu"},
		{"0.1.0.1", 2, time.Second, "0.1"},
		{"1..a", 1, time.Second, ".a"},
	} {
		delay, address, err := parseRoutingKey(test.key, test.levels, time.Second)
		if err != nil || delay != test.delay || address != test.address {
			t.Errorf("%q: got %s, %q, %v", test.key, delay, address, err)
		}
	}
}

func TestParseRoutingKeyErrors(t *testing.T) {
	for _, test := range []struct {
		key    string
		levels int
		want   string
	}{
		{"", 4, "key is empty"},
		{"1.0.d", 4, `key is "1.0.d", whose word 3 is "d"; the first 4 words say the delay, and this one has ` +
			`to be 0 or 1`},
		{"1.0", 4, `key is "1.0", which has only 2 words; 4 levels need as many, then the address`},
		{"1.0.1.1", 4, `key is "1.0.1.1", which has no address behind its first 4 words`},
		{"1.0.1.1.", 4, "has no address"},
		{"1.0.2.1.d", 4, `key is "1.0.2.1.d", whose word 3 is "2"`},
		{"1..1.1.d", 4, `key is "1..1.1.d", whose word 2 is ""`},
		{"01.0.d", 2, `is "01"`},
		{"1." + strings.Repeat("d", 254), 1, "of 256 bytes; AMQP allows 255"},
	} {
		if _, _, err := parseRoutingKey(test.key, test.levels, time.Second); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%q on %d levels: got %q, want %q", test.key, test.levels, err, test.want)
		}
	}
}

// A key says the delay rounded up to a step: never early, and late by less than one step.
func TestRoutingKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := delaytest.AnyUniform().Draw(t, "scale").Scale()
		delay := time.Duration(rapid.Int64Range(0, int64(s.Longest)).Draw(t, "delay"))
		address := delaytest.AnyAddress(s.Levels()).Draw(t, "address")
		key, err := s.RoutingKey(delay, address)
		if err != nil {
			t.Fatal(err)
		}
		got, gotAddress, err := s.ParseRoutingKey(key)
		if err != nil || gotAddress != address || got < delay || got-delay >= s.Resolution() ||
			got%s.Resolution() != 0 {
			t.Fatalf("%s to %q: %q is %s to %q (%v)", delay, address, key, got, gotAddress, err)
		}
		if again, err := s.RoutingKey(got, gotAddress); err != nil || again != key {
			t.Fatalf("%q comes back as %q (%v)", key, again, err)
		}
	})
}

// binary is the scale of a publisher in base 2.
func binary(levels int, resolution time.Duration) (delay.Scale, error) {
	var units []int64
	unit := resolution.Milliseconds()
	for ; len(units) < min(levels, delay.MaxLevels+1); unit *= 2 {
		units = append(units, unit)
	}
	slices.Reverse(units)
	return delay.PublisherScale(units, unit-resolution.Milliseconds())
}

// routingKey is the key of a scale in base 2.
func routingKey(wait time.Duration, levels int, resolution time.Duration, address string) (string, error) {
	s, err := binary(levels, resolution)
	if err != nil {
		return "", err
	}
	return s.RoutingKey(wait, address)
}

// parseRoutingKey is the inverse of routingKey.
func parseRoutingKey(key string, levels int, resolution time.Duration) (time.Duration, string, error) {
	s, err := binary(levels, resolution)
	if err != nil {
		return 0, "", err
	}
	return s.ParseRoutingKey(key)
}
