package health_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What the wanted arguments do to messages is a finding on each delay queue, and the defaults have none.
func TestWeaknesses(t *testing.T) {
	const (
		once = "the queue dead-letters at most once. A message that falls due while the next queue is " +
			"unavailable is lost"
		goes = "RabbitMQ deletes it, with the messages in it, 1 min after it was declared or last looked at. " +
			"Messages that pass through do not count"
	)
	strong := topology.Arguments{"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
	for name, test := range map[string]struct {
		of   delay.Config
		want []string // severity, cause and effect of each finding on a queue
	}{
		"the default": {delay.Config{QuorumOptions: delay.QuorumOptions{MaxLength: 5}}, nil},
		"classic":     {delay.Config{QueueType: delay.Classic}, nil},
		"lazy": {delay.Config{QueueType: delay.Classic, QueueArguments: topology.Arguments{"x-queue-mode": "lazy",
			"plugin": true}}, nil},
		"only TTL and dead-letter exchange": {delay.Config{QueueArguments: topology.Arguments{}},
			[]string{"error no x-dead-letter-strategy = at-least-once: " + once}},
		"another overflow, and a limit": {delay.Config{QuorumOptions: delay.QuorumOptions{MaxLength: 5},
			QueueArguments: topology.Arguments{"x-dead-letter-strategy": "at-least-once", "x-overflow": "drop-head"}},
			[]string{"error no x-overflow = reject-publish: " + once,
				"error x-max-length = 5: at 5 messages, the oldest leave it early"}},
		"a limit of classic queues": {delay.Config{QueueType: delay.Classic, QueueArguments: topology.Arguments{
			"x-overflow": "reject-publish", "x-max-length-bytes": int64(5)}},
			[]string{"error x-max-length-bytes = 5: at 5 bytes, further ones that are dead-lettered into it are lost"}},
		"an expiry": {delay.Config{QueueType: delay.Classic,
			QueueArguments: topology.Arguments{"x-expires": int64(60_000)}},
			[]string{"error x-expires = 60000: " + goes}},
		"priorities": {delay.Config{QueueType: delay.Classic,
			QueueArguments: topology.Arguments{"x-max-priority": int64(5)}}, []string{"warning x-max-priority = 5: a " +
			"message in it is late behind one of a higher priority that came later"}},
		"looks": {delay.Config{QueueArguments: with(strong, "x-delivery-limit", int64(2))},
			[]string{"error x-delivery-limit = 2: a message in it that is got and put back more than 2 times leaves " +
				"it early"}},
		"retries": {delay.Config{QueueArguments: with(with(strong, "x-delayed-retry-type", "failed"),
			"x-delayed-retry-min", int64(1000))}, []string{"warning x-delayed-retry-type = failed: a message in it " +
			"that is got and put back is late: it stays until the time of its retry"}},
		"no retries":          {delay.Config{QueueArguments: with(strong, "x-delayed-retry-type", "disabled")}, nil},
		"any number of looks": {delay.Config{QueueArguments: with(strong, "x-delivery-limit", int64(-1))}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			test.of.Name, test.of.Levels, test.of.ParkUnroutable = "t", 2, true
			queues := plantest.Expand(t, test.of).Queues
			found := map[string][]string{}
			for _, f := range health.Weaknesses(queues, queues) {
				found[f.Object] = append(found[f.Object], fmt.Sprintf("%s %s: %s", f.Severity, f.Cause, f.Effect))
			}
			want := map[string][]string{}
			for _, name := range []string{"t.delay-00", "t.delay-01"} {
				if test.want != nil {
					want[topology.QueueObject(name)] = test.want
				}
			}
			if !reflect.DeepEqual(found, want) {
				t.Errorf("it says %q, not %q", found, want)
			}
			damaged := map[string]topology.Queue{}
			for name, q := range queues {
				q.Arguments = with(q.Arguments, "x-overflow", "another")
				damaged[name] = q
			}
			if found := health.Weaknesses(queues, damaged); len(found) > 0 {
				t.Errorf("of queues that an apply recreates, it says %v", found)
			}
		})
	}
}
