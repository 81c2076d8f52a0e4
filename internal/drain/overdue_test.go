package drain

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
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

// TestOverdueMessages counts the overdue messages of a queue: those neither ready, nor delayed by the queue, nor held.
func TestOverdueMessages(t *testing.T) {
	for name, test := range map[string]struct{ messages, ready, delayed, consumers, want int64 }{
		"some":                       {7, 3, 1, 0, 3},
		"none":                       {4, 3, 1, 0, 0},
		"counted at different times": {1, 3, 1, 0, 0},
		"one":                        {5, 3, 1, 0, 1},
		"a consumer may hold them":   {7, 3, 1, 1, 0},
	} {
		if got := overdueOf(test.messages, test.ready, test.delayed, test.consumers); got != test.want {
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

// holding is the state of queues whose dead-letter exchange is missing. All of them but "held" keep messages then.
func holding(counts map[string]health.QueueStatus) *rabbit.State {
	state := &rabbit.State{Topology: topology.New(), Status: counts}
	for name := range counts {
		_, q := collected()
		if q.Name = name; name == "held" {
			delete(q.Arguments, "x-dead-letter-strategy")
		}
		state.Queues[name] = q
	}
	return state
}

// threeNotReady answers in place of a broker. In each of its queues, 3 messages have not been ready for half a minute.
// Those of "leaving" were not there then.
func threeNotReady(now time.Time) http.HandlerFunc {
	sample := func(messages, seconds int) string {
		return fmt.Sprintf(`{"sample":%d,"timestamp":%d}`, messages, 1000*(now.Unix()-int64(seconds)))
	}
	return func(w http.ResponseWriter, r *http.Request) {
		kind, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/"), "/v/")
		answer, before := "[]", 3
		if name == "leaving" {
			before = 0
		}
		switch kind {
		case "overview":
			answer = `{"rabbitmq_version":"4.3.6"}`
		case "exchanges/v":
			answer = `[{"name":"amq.direct"}]`
		case "queues":
			answer = fmt.Sprintf(`{"name":%q,"messages_details":{"samples":[%s,%s]},"messages_ready_details":`+
				`{"samples":[%s,%s]}}`, name, sample(3, 0), sample(before, 30), sample(0, 0), sample(0, 30))
		}
		_, _ = io.WriteString(w, answer)
	}
}

// TestOverdue has queues with messages that are not ready, and other queues. Only in one of them are messages overdue.
func TestOverdue(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	server := httptest.NewServer(threeNotReady(now))
	t.Cleanup(server.Close)
	client, err := rabbit.New(rabbit.Config{Endpoint: server.URL, Username: "u", Password: "p",
		RetryTimeout: rabbit.DefaultRetryTimeout})
	if err != nil {
		t.Fatal(err)
	}
	n, none := new(int64(3)), new(int64)
	counts := map[string]health.QueueStatus{"kept": {Messages: n, Ready: none, Consumers: none}}
	others := map[string]health.QueueStatus{
		"ready":                    {Messages: n, Ready: n, Consumers: none},
		"nobody counts messages":   {Ready: none, Consumers: none},
		"nobody counts ready ones": {Messages: n, Consumers: none},
		"nobody counts consumers":  {Messages: n, Ready: none},
	}
	nobody := overAMQP(t, 0).vhost
	if found, err := Overdue(t.Context(), nobody, holding(others)); len(found) > 0 || err != nil {
		t.Errorf("there is a request, or %v: %v", found, err)
	}
	if _, err := Overdue(t.Context(), nobody, holding(counts)); err == nil {
		t.Error("nothing is overdue by a broker that does not answer")
	}
	maps.Copy(counts, others)
	for _, name := range []string{"leaving", "held"} {
		counts[name] = counts["kept"]
	}
	found, err := Overdue(t.Context(), client.Vhost("v"), holding(counts))
	want := map[string]OverdueMessages{"kept": {3, now.Add(-30 * time.Second)}}
	if err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("overdue are %v: %v", found, err)
	}
}
