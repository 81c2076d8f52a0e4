package health_test

import (
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Most leaders on one node of several are one finding, with the command that spreads them.
func TestLeadersOnOneNode(t *testing.T) {
	on := func(leader string, members int) health.QueueStatus {
		return health.QueueStatus{Leader: leader, Members: members, Online: members}
	}
	classic := health.QueueStatus{}
	for name, is := range map[string]struct {
		usual, first, second health.QueueStatus // of each queue, and of the first and the second
		said                 string
	}{
		"all on one":      {on("a", 3), on("a", 3), on("a", 3), "7 of 7 leaders"},
		"one elsewhere":   {on("a", 3), on("b", 3), on("a", 3), "6 of 7 leaders"},
		"two elsewhere":   {on("a", 3), on("b", 3), on("c", 3), ""},
		"one without":     {on("a", 3), on("", 3), on("a", 3), "6 of 7 leaders"},
		"all without":     {on("", 3), on("", 3), on("", 3), ""},
		"a single node":   {on("a", 1), on("a", 1), on("a", 1), ""},
		"one is classic":  {on("a", 3), classic, on("a", 3), "6 of 6 leaders"},
		"two are classic": {on("a", 3), classic, classic, ""},
		"all classic":     {classic, classic, classic, ""},
	} {
		queues, status := map[string]topology.Queue{}, map[string]health.QueueStatus{}
		for _, queue := range strings.Split("q.1 q.2 q.3 q.4 q.5 q.6 q.7", " ") {
			queues[queue], status[queue] = topology.Queue{Name: queue}, is.usual
		}
		status["q.1"], status["q.2"] = is.first, is.second
		found := health.Findings("/it's", queues, status)
		if is.said == "" && len(found) == 0 {
			continue
		}
		if len(found) != 1 || found[0].Cause != is.said || found[0].Object != `node "a"` ||
			!strings.HasSuffix(found[0].Effect,
				`: rabbitmq-queues rebalance quorum --vhost-pattern '^/it'\''s$' --queue-pattern '^q\.'`) {
			t.Errorf("%s: the findings are %q", name, found)
		}
	}
}

// Without a majority, each queue has a finding for that, and the leaders have none.
func TestLeadersWithoutMajority(t *testing.T) {
	queues, status := map[string]topology.Queue{}, map[string]health.QueueStatus{}
	for _, queue := range strings.Split("q.1 q.2 q.3 q.4 q.5 q.6 q.7", " ") {
		queues[queue] = topology.Queue{Name: queue}
		status[queue] = health.QueueStatus{Leader: "a", Members: 3, Online: 1}
	}
	found := health.Findings("/", queues, status)
	if len(found) != len(queues) || found[0].Cause != "1 of 3 members online" {
		t.Errorf("the findings are %q", found)
	}
}
