package health_test

import (
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func TestReceivers(t *testing.T) {
	holds := func(ready, messages int64) health.QueueStatus {
		return health.QueueStatus{State: "running", Ready: &ready, Messages: &messages}
	}
	quorum := func(state, leader string, members, online int) health.QueueStatus {
		return health.QueueStatus{State: state, Leader: leader, Members: members, Online: online}
	}
	byPolicy := holds(7, 7)
	byPolicy.Applied = policy.Applied{Policy: "limit", Definition: topology.Arguments{"max-length": int64(5)}}
	refuses := topology.Arguments{"x-max-length": int64(5), "x-overflow": "reject-publish"}
	const unserved, full = "the queue takes no messages", "the queue refuses further messages"
	for name, test := range map[string]struct {
		status        health.QueueStatus
		arguments     topology.Arguments
		cause, effect string // none if there is no finding
	}{
		"it runs":             {status: holds(100, 100)},
		"nothing is known":    {},
		"of 3.10":             {status: quorum("live", "a", 1, 1)},
		"of the next version": {status: quorum("new", "a", 1, 1), cause: `its state is "new"`, effect: unserved},
		"without a majority": {status: quorum("running", "a", 3, 1), cause: "1 of 3 members online",
			effect: unserved},
		"one member is down": {status: quorum("running", "a", 3, 2)},
		"without a leader":   {status: quorum("running", "", 3, 3), cause: "no leader", effect: unserved},
		"stopped": {status: health.QueueStatus{State: "stopped"}, cause: `its state is "stopped"`,
			effect: unserved},
		"full": {status: holds(5, 5), arguments: refuses, cause: "full: x-max-length = 5, messages: 5",
			effect: full},
		"nearly full":     {status: holds(4, 4), arguments: refuses},
		"full of unacked": {status: holds(4, 9), arguments: refuses},
		"not counted":     {status: health.QueueStatus{State: "running"}, arguments: refuses},
		"full by a policy": {status: byPolicy, arguments: topology.Arguments{"x-overflow": "reject-publish"},
			cause: `full: max-length = 5 by policy "limit", messages: 7`, effect: full},
		"full, and drops the oldest": {status: holds(5, 5), arguments: topology.Arguments{"x-max-length": int64(5)}},
		"as many messages as bytes": {status: holds(5, 5),
			arguments: topology.Arguments{"x-max-length-bytes": int64(5), "x-overflow": "reject-publish"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := health.Receivers(map[string]topology.Queue{"q": {Name: "q", Arguments: test.arguments}},
				map[string]health.QueueStatus{"q": test.status})
			if test.cause == "" && len(found) == 0 {
				return
			}
			if len(found) != 1 || found[0].Object != `queue "q"` || found[0].Cause != test.cause ||
				found[0].Severity != health.Error || !strings.HasPrefix(found[0].Effect, test.effect) {
				t.Errorf("the findings are %+v", found)
			}
		})
	}
}
