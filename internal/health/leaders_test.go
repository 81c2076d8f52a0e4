package health_test

import (
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// All leaders on one node of several are one finding, with the command that spreads them.
func TestLeadersOnOneNode(t *testing.T) {
	on := func(leader string, members int) health.QueueStatus {
		return health.QueueStatus{Leader: leader, Members: members, Online: members}
	}
	for name, is := range map[string]struct {
		usual, first health.QueueStatus // of each queue, and of the first
		said         bool
	}{
		"all on one":     {on("a", 3), on("a", 3), true},
		"one elsewhere":  {on("a", 3), on("b", 3), false},
		"one without":    {on("a", 3), on("", 3), false},
		"a single node":  {on("a", 1), on("a", 1), false},
		"one is classic": {on("a", 3), health.QueueStatus{}, true},
		"all classic":    {health.QueueStatus{}, health.QueueStatus{}, false},
	} {
		queues, status := map[string]topology.Queue{}, map[string]health.QueueStatus{}
		for _, queue := range strings.Split("q1 q2 q3 q4 q5 q6 q7", " ") {
			queues[queue], status[queue] = topology.Queue{Name: queue}, is.usual
		}
		status["q1"] = is.first
		found := health.Findings(queues, status)
		if is.said != (len(found) == 1 && strings.Contains(found[0].Cause, `"a" leads all`) &&
			strings.Contains(found[0].Effect, "rabbitmq-queues rebalance quorum")) || len(found) > 1 {
			t.Errorf("%s: the findings are %q", name, found)
		}
	}
}
