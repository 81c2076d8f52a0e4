package drain

import (
	"slices"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// TestLasting has samples every five seconds, the latest first.
func TestLasting(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, test := range map[string]struct {
		samples []int64
		delayed int64
		since   time.Duration // before the latest
		lasts   bool
	}{
		"nobody knows":                  {lasts: true},
		"since a while":                 {[]int64{3, 3, 3, 2, 2, 1, 1, 0, 7, 7}, 0, 30 * time.Second, true},
		"for as long as anybody knows":  {[]int64{3, 3, 3, 3, 3, 3, 3, 3}, 0, 35 * time.Second, true},
		"just now":                      {samples: []int64{3, 3, 3, 0, 3, 3, 3, 3, 3}, since: 10 * time.Second},
		"not any more":                  {samples: []int64{0, 3, 3, 3, 3, 3, 3, 3}},
		"the queue delays all of them":  {samples: []int64{3, 3, 3, 3, 3, 3, 3}, delayed: 3},
		"the queue delays some of them": {[]int64{3, 3, 3, 3, 3, 3, 3}, 2, 30 * time.Second, true},
		"they come and go":              {samples: []int64{9, 2, 7, 4, 8, 3, 5, 6}, since: 35 * time.Second},
		"they stay, and came and went":  {[]int64{3, 3, 3, 3, 3, 3, 3, 9, 2}, 0, 40 * time.Second, true},
		"others come and go":            {slices.Repeat([]int64{9, 2}, 25), 0, 245 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			var samples []rabbit.Sample
			for i, n := range test.samples {
				samples = append(samples, rabbit.Sample{At: now.Add(-time.Duration(i) * 5 * time.Second), Messages: n})
			}
			var want time.Time
			if test.since > 0 {
				want = now.Add(-test.since)
			}
			if since, lasts := lasting(samples, test.delayed); lasts != test.lasts || !since.Equal(want) {
				t.Errorf("since %s: %t", since, lasts)
			}
		})
	}
}
