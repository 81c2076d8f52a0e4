package delay_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
)

var (
	clockMS  = []int64{86_400_000, 3_600_000, 60_000, 1000}
	binaryMS = []int64{8000, 4000, 2000, 1000}
)

// What the cascades of all forms tell publishers is the scale that they have.
func TestPublisherScale(t *testing.T) {
	configs := []delay.Config{{Name: "t", Levels: 39, Resolution: time.Millisecond}, {Name: "t", Levels: 29},
		{Name: "t", Base: 10, Levels: 8}, {Name: "t", Levels: 1, Resolution: delay.MaxTTL}}
	for _, c := range delaytest.Vectors {
		configs = append(configs, c)
	}
	for _, c := range configs {
		publishes(t, delaytest.Resolve(t, c).Scale())
	}
	rapid.Check(t, func(t *rapid.T) { publishes(t, delaytest.AnyUniform().Draw(t, "scale").Scale()) })
}

func publishes(t delaytest.Tester, want delay.Scale) {
	t.Helper()
	var units []int64
	for _, unit := range want.Units {
		units = append(units, unit.Milliseconds())
	}
	got, err := delay.PublisherScale(units, want.Longest.Milliseconds())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v (%v)", got, want, err)
	}
}

func TestPublisherScaleErrors(t *testing.T) {
	for _, test := range []struct {
		units    []int64
		maxDelay int64
		want     string
	}{
		{nil, 1000, "units_ms is empty; give a number of milliseconds for each word of the key"},
		{make([]int64, 40), 1000, "units_ms are 40; give at most 39"},
		{[]int64{1000, 0}, 1000, "units_ms have 0; RabbitMQ counts TTL in whole milliseconds, so give 1 or a " +
			"multiple of it"},
		{[]int64{1000, -1}, 1000, "units_ms have -1"},
		{[]int64{315_360_000_001}, 1000, "units_ms have 315360000001; give at most 315360000000 (ten " +
			"years), the longest TTL"},
		{[]int64{math.MaxInt64}, 1000, "units_ms have 9223372036854775807"},
		{[]int64{1000, 1000}, 1000, "units_ms have 1000 twice; give each unit once"},
		{[]int64{1000, 60_000}, 1000, "units_ms have 60000 behind 1000; give the largest first"},
		{[]int64{60_000, 7000}, 7000, "units_ms have 60000 before 7000; each unit has to be a multiple of the next"},
		{clockMS, 0, "max_delay_ms is 0, which has no key; give a multiple of 1000, the last of units_ms"},
		{clockMS, -1000, "max_delay_ms is -1000"},
		{clockMS, 1500, "max_delay_ms is 1500, which has no key"},
		{[]int64{1000}, 315_360_001_000, "max_delay_ms is 315360001000; give less than 315360001000, since RabbitMQ " +
			"accepts no longer TTL than 315360000000"},
		{[]int64{1}, math.MaxInt64, "max_delay_ms is 9223372036854775807; give less than 315360000001"},
	} {
		if got, err := delay.PublisherScale(test.units, test.maxDelay); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%v up to %d: got %v and error %v, want %q", test.units, test.maxDelay, got, err, test.want)
		}
	}
	if s, err := delay.PublisherScale(clockMS, 315_360_000_000+86_399_000); err != nil || s.LargestNumber(3) != 3650 {
		t.Errorf("3650 days and what is below a day: %v (%v)", s, err)
	}
}

// One rule serves every form: the delay is rounded up to the last unit, and divided by each.
func TestKeysOfPublishers(t *testing.T) {
	for _, test := range []struct {
		units    []int64
		maxDelay int64
		delay    time.Duration
		want     string
	}{
		{clockMS, 2_678_399_000, 0, "0.0.0.0.billing"},
		{clockMS, 2_678_399_000, 90 * time.Minute, "0.1.30.0.billing"},
		{clockMS, 2_678_399_000, 30*day + time.Nanosecond, "30.0.0.1.billing"},
		{clockMS, 2_678_399_000, 59*time.Minute + 59*time.Second + time.Millisecond, "0.1.0.0.billing"},
		{clockMS, 2_678_399_000, 31*day - time.Second, "30.23.59.59.billing"},
		{clockMS, 7_200_000, 2 * time.Hour, "0.2.0.0.billing"},
		{binaryMS, 15_000, 9001 * time.Millisecond, "1.0.1.0.billing"},
		{[]int64{100_000, 10_000, 1000}, 999_000, 36 * time.Second, "0.3.6.billing"},
		{[]int64{1000}, 900_000, 15 * time.Minute, "900.billing"},
	} {
		s, err := delay.PublisherScale(test.units, test.maxDelay)
		if err != nil {
			t.Fatal(err)
		}
		key, err := s.RoutingKey(test.delay, "billing")
		if err != nil || key != test.want {
			t.Errorf("%s by %v: got %q (%v), want %q", test.delay, test.units, key, err, test.want)
		}
		says, address, err := s.ParseRoutingKey(test.want)
		if err != nil || says < test.delay || says-test.delay >= s.Resolution() || address != "billing" {
			t.Errorf("%q by %v: got %s to %q (%v)", test.want, test.units, says, address, err)
		}
	}
}

func TestKeysOfPublishersErrors(t *testing.T) {
	s, err := delay.PublisherScale(clockMS, 7_200_000)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"1.0.0.0.d":  `whose word 1 is "1"; the first 4 words say the delay, and this one has to be 0`,
		"0.3.0.0.d":  `whose word 2 is "3"; the first 4 words say the delay, and this one has to be 0 to 2`,
		"0.0.60.0.d": `whose word 3 is "60"; the first 4 words say the delay, and this one has to be 0 to 59`,
		"0.0.07.0.d": `whose word 3 is "07"`,
		"0.2.0.1.d":  `key is "0.2.0.1.d", a delay of 2h1s; the longest that has a key here is 2h`,
	} {
		if _, _, err := s.ParseRoutingKey(key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", key, err, want)
		}
	}
	if _, err := s.RoutingKey(2*time.Hour+1, "d"); err == nil ||
		!strings.Contains(err.Error(), "longer than 2h, the longest that has a key here") {
		t.Errorf("out of range: %v", err)
	}
	address := strings.Repeat("d", 245)
	if _, err := s.RoutingKey(9*time.Minute, address); err != nil {
		t.Error(err)
	}
	if key, err := s.RoutingKey(11*time.Minute+11*time.Second, address+"dd"); err == nil ||
		!strings.Contains(err.Error(), "of 247 bytes; it can have 245, because the words before it take 10 of the "+
			"255 that AMQP allows a key") {
		t.Errorf("got %q (%v)", key, err)
	}
}
