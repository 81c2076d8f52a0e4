package cascade

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseRoutingKey(t *testing.T) {
	for _, test := range []struct {
		key         string
		levels      int
		delay       time.Duration
		destination string
	}{
		{"1.0.1.0.destination", 4, 10 * time.Second, "destination"},
		{"0.0.orders.eu", 2, 0, "orders.eu"},
		{"0.1.0.1", 2, time.Second, "0.1"},
		{"1..a", 1, time.Second, ".a"},
	} {
		delay, destination, err := ParseRoutingKey(test.key, test.levels, time.Second)
		if err != nil || delay != test.delay || destination != test.destination {
			t.Errorf("%q: got %s, %q, %v", test.key, delay, destination, err)
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
		{"1.0.d", 4, `key is "1.0.d", whose word 3 is "d"; the first 4 words, one for each level, have to be 0 or 1`},
		{"1.0", 4, `key is "1.0", which has only 2 digits; 4 levels need as many, then the destination`},
		{"1.0.1.1", 4, `key is "1.0.1.1", which has no destination behind its 4 digits`},
		{"1.0.1.1.", 4, "has no destination"},
		{"1.0.2.1.d", 4, `key is "1.0.2.1.d", whose word 3 is "2"`},
		{"1..1.1.d", 4, `key is "1..1.1.d", whose word 2 is ""`},
		{"01.0.d", 2, `is "01"`},
		{"1." + strings.Repeat("d", 254), 1, "of 256 bytes; AMQP allows 255"},
		{"1.d", 0, "levels is 0"},
		{"1.d", 30, "levels is 30"},
	} {
		if _, _, err := ParseRoutingKey(test.key, test.levels, time.Second); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q on %d levels: got %q, want %q", test.key, test.levels, err, test.want)
		}
	}
	if _, _, err := ParseRoutingKey("1.d", 1, 0); err == nil || !strings.Contains(err.Error(), "resolution is 0s") {
		t.Errorf("without resolution: %v", err)
	}
}

// A key says the delay rounded up to a step: never early, and late by less than one step.
func TestRoutingKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resolution := anyResolution().Draw(t, "resolution")
		levels := rapid.IntRange(1, mostLevels(resolution)).Draw(t, "levels")
		delay := time.Duration(rapid.Int64Range(0, int64(longestDelay(levels, resolution))).Draw(t, "delay"))
		destination := anyDestination(levels).Draw(t, "destination")
		key, err := RoutingKey(delay, levels, resolution, destination)
		if err != nil {
			t.Fatal(err)
		}
		got, gotDestination, err := ParseRoutingKey(key, levels, resolution)
		if err != nil || gotDestination != destination || got < delay || got-delay >= resolution || got%resolution != 0 {
			t.Fatalf("%s to %q: %q is %s to %q (%v)", delay, destination, key, got, gotDestination, err)
		}
		if again, err := RoutingKey(got, levels, resolution, gotDestination); err != nil || again != key {
			t.Fatalf("%q comes back as %q (%v)", key, again, err)
		}
	})
}
