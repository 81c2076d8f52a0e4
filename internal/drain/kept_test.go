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
		"for just long enough":          {slices.Repeat([]int64{9, 2}, 25)[1:], 0, 4 * time.Minute, true},
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

// TestKept counts the overdue messages of a queue: those neither ready, nor delayed by the queue, nor held.
func TestKept(t *testing.T) {
	for name, test := range map[string]struct{ messages, ready, delayed, consumers, want int64 }{
		"some":                       {7, 3, 1, 0, 3},
		"none":                       {4, 3, 1, 0, 0},
		"counted at different times": {1, 3, 1, 0, 0},
		"one":                        {5, 3, 1, 0, 1},
		"a consumer may hold them":   {7, 3, 1, 1, 0},
	} {
		if got := kept(test.messages, test.ready, test.delayed, test.consumers); got != test.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// TestDepthsSayOverdue has a count of messages that are neither ready nor delayed.
func TestDepthsSayOverdue(t *testing.T) {
	for name, test := range map[string]struct {
		mayKeep, delaysItself, want bool
	}{
		"a queue that may keep them":            {mayKeep: true, want: true},
		"a client has them":                     {},
		"the number of delayed ones may be old": {mayKeep: true, delaysItself: true},
	} {
		o := observation{overdue: map[string]bool{"q": test.mayKeep},
			known: []Queue{{Name: "q", DelaysItself: test.delaysItself}}}
		if got := o.depths([]Count{{Queue: "q", Kind: All, Messages: 3}})[0].Overdue; got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
