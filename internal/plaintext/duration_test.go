package plaintext_test

import (
	"math"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0:                                  "0 ms",
		1:                                  "0.000001 ms",
		250 * time.Millisecond:             "250 ms",
		time.Second:                        "1 s",
		3100 * time.Millisecond:            "3.1 s",
		90 * time.Second:                   "1 min 30 s",
		time.Hour:                          "1 h",
		time.Hour + 500*time.Millisecond:   "1 h 0.5 s",
		(1<<17 - 1) * time.Second:          "36 h 24 min 31 s",
		2*day - time.Second:                "47 h 59 min 59 s",
		2 * day:                            "2 days",
		2*day + time.Minute:                "2 days 1 min",
		(1<<20 - 1) * time.Second:          "12 days 3 h 16 min 15 s",
		364*day + time.Hour:                "364 days 1 h",
		365 * day:                          "1 year",
		366 * day:                          "1 year 1 day",
		2*365*day + 12*time.Hour:           "2 years",
		99_999_999 * time.Second:           "3 years 62 days",
		(1<<28 - 1) * time.Second:          "8 years 185 days",
		9*365*day + 3*day - 11*time.Hour:   "9 years",
		math.MaxInt64:                      "292 years 98 days",
		-time.Hour:                         "-1 h",
		math.MinInt64:                      "-292 years 98 days",
		year(8) - 12*time.Hour:             "8 years",
		year(8) - 12*time.Hour - time.Hour: "7 years 365 days",
	} {
		if got := plaintext.Duration(d); got != want {
			t.Errorf("%s is said %q, not %q", d, got, want)
		}
	}
}

func year(n int64) time.Duration { return time.Duration(n * int64(365*24+6) * int64(time.Hour)) }
