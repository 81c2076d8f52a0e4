package rabbit_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// slow is a log of a link that holds up what a client sends, for so long in all.
type slow struct {
	each time.Duration
	left atomic.Int64
}

func (s *slow) Write(p []byte) (int, error) {
	if s.left.Add(-int64(s.each)) >= 0 {
		time.Sleep(s.each)
	}
	return len(p), nil
}

// TestSlowAnswers has a slow broker answer questions. A question that only waits for others is not slow, and a slow one
// is asked again, if a request is tried again at all.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	const tooLong = 4 * time.Second // drain takes no answer after three
	for name, test := range map[string]struct {
		questions int
		each      time.Duration
		total     time.Duration
		retry     time.Duration
		fails     bool
	}{
		// Some 16 are asked at a time.
		"many questions":           {questions: 200, each: 400 * time.Millisecond, total: time.Hour},
		"one slow answer":          {questions: 1, each: tooLong, total: tooLong, retry: time.Minute},
		"one slow answer, no more": {questions: 1, each: tooLong, total: tooLong, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
			run(t, connect(t), vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
			held := &slow{each: test.each}
			client := connect(t, newLink(t, true, held).over(t), func(c *rabbit.Config) { c.RetryTimeout = test.retry })
			prover := drain.NewProver(client.Vhost(vhost))
			defer prover.Close()
			if _, err := prover.Ready(t.Context(), []topology.Queue{q}); err != nil {
				t.Fatal(err)
			}
			held.left.Store(int64(test.total))
			_, err := prover.Ready(t.Context(), slices.Repeat([]topology.Queue{q}, test.questions))
			if test.fails != rabbit.IsKind(err, rabbit.Unavailable) || !test.fails && err != nil {
				t.Errorf("%d questions, retry_timeout %s: %v", test.questions, test.retry, err)
			}
		})
	}
}
