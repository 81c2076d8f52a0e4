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
	each  time.Duration
	left  atomic.Int64
	holds atomic.Int64 // how often it has, or would have
}

func (s *slow) Write(p []byte) (int, error) {
	s.holds.Add(1)
	if s.left.Add(-int64(s.each)) >= 0 {
		time.Sleep(s.each)
	}
	return len(p), nil
}

// ask asks a queue so many times at once, while the link is held up for so long in all.
func (s *slow) ask(t *testing.T, v *rabbit.Vhost, q topology.Queue, questions int, total time.Duration) error {
	t.Helper()
	prover := drain.NewProver(v)
	defer prover.Close()
	ready := func(questions int) error {
		_, err := prover.Ready(t.Context(), slices.Repeat([]topology.Queue{q}, questions))
		return err
	}
	s.left.Store(0)
	err := upToThreeTimes(func() error { return prover.Prepare(t.Context()) })
	if err == nil {
		err = upToThreeTimes(func() error { return ready(1) })
	}
	if err != nil {
		t.Fatal(err)
	}
	s.left.Store(int64(total))
	s.holds.Store(0)
	return ready(questions)
}

// TestSlowAnswers has a slow broker answer questions. A question that only waits for others is not slow, and a slow one
// is asked again. If all are slow, the management API answers.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		questions int
		queueType string
		each      time.Duration
		total     time.Duration
		least     int64 // of questions
	}{
		// Some 16 are asked at a time.
		"many questions":   {questions: 200, queueType: "classic", each: 400 * time.Millisecond, total: time.Hour},
		"one slow answer":  {questions: 1, queueType: "quorum", each: time.Second, total: time.Second, least: 2},
		"all answers slow": {questions: 1, queueType: "quorum", each: time.Second, total: time.Hour, least: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": test.queueType}}
			run(t, connect(t), vhost, plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: q}}}})
			held := &slow{each: test.each}
			client := connect(t, newLink(t, true, held).over(t), func(c *rabbit.Config) { c.RetryTimeout = 0 })
			ask := func() error { return held.ask(t, client.Vhost(vhost), q, test.questions, test.total) }
			err := ask()
			if err != nil && test.questions > 1 { // the machine itself may pause for too long
				err = upToThreeTimes(ask)
			}
			if asked := held.holds.Load(); err != nil || asked < test.least {
				t.Errorf("after %d questions: %v", asked, err)
			}
		})
	}
}
