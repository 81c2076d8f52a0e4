package health_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan/plantest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// In base 10 a level has nine queues, each with a time of its own: policies and consumers concern some of them.
func TestFindingsInBase10(t *testing.T) {
	expanded := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, Base: 10, ParkUnroutable: true,
		CreateDeliveryExchange: true})
	queues := func(chosen func(level, digit int) bool) (names []string) {
		for level := range 3 {
			for digit := 1; digit < 10; digit++ {
				if chosen(level, digit) {
					names = append(names, fmt.Sprintf("t.delay-%02d-%x", level, digit))
				}
			}
		}
		return names
	}
	ofPolicy := func(pattern, key string, value any) policy.Declared {
		return policy.Declared{Operators: policy.Policies{}, Users: policy.Policies{
			policy.New("p", pattern, "quorum_queues", 0, topology.Arguments{key: value}),
		}}
	}
	for name, test := range map[string]struct {
		policies  policy.Declared
		consumers map[string]int64
		queues    []string
		says      string
	}{
		"a time between two digits": {
			policies: ofPolicy("delay", "message-ttl", int64(45_000)),
			queues:   queues(func(level, digit int) bool { return level == 1 && digit > 4 || level == 2 }),
			says:     "messages leave it after 45 s instead of ",
		},
		"one digit of each level": {
			policies: ofPolicy("-7$", "dead-letter-routing-key", "lost"),
			queues:   queues(func(_, digit int) bool { return digit == 7 }), says: `with the routing key "lost"`,
		},
		"retries that the queue delays": {
			policies: ofPolicy("delay", "delayed-retry-type", "returned"),
			queues:   queues(func(_, _ int) bool { return true }), says: "got and put back is late",
		},
		"retries that are switched off": {policies: ofPolicy("delay", "delayed-retry-type", "disabled")},
		"a limit of deliveries": {
			policies: ofPolicy("delay", "delivery-limit", int64(3)),
			queues:   queues(func(_, _ int) bool { return true }), says: "more than 3 times leaves it early",
		},
		"no limit of deliveries": {policies: ofPolicy("", "delivery-limit", int64(-1))},
		"one level": {
			policies: ofPolicy(`^t\.delay-01-`, "overflow", "drop-head"),
			queues:   queues(func(level, _ int) bool { return level == 1 }), says: "switches at-least-once",
		},
		"a consumer": {
			consumers: map[string]int64{"t.delay-02-9": 1, "t.unroutable": 1},
			queues:    []string{"t.delay-02-9"}, says: "taken before their delay is over",
		},
		"a pattern that only RabbitMQ knows": {
			policies: ofPolicy("0-9++$", "message-ttl", int64(1)), queues: queues(func(_, _ int) bool { return true }),
			says: "only RabbitMQ can tell whether this applies to it, and has not said so yet. If it does, messages " +
				"leave",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := map[string]health.QueueStatus{}
			for queue, declared := range expanded.Queues {
				status[queue] = health.QueueStatus{
					Consumers: new(test.consumers[queue]), Applied: test.policies.Applied(declared, policy.Applied{}),
				}
			}
			found := saidOfDelays(t, health.Findings("/", expanded.Queues, status), test.says)
			if !slices.Equal(found, test.queues) {
				t.Errorf("the findings are on %q", found)
			}
		})
	}
}

// saidOfDelays are the delay queues that findings are on. Each of them has to say so.
func saidOfDelays(t *testing.T, findings []health.Finding, says string) (queues []string) {
	t.Helper()
	for _, f := range findings {
		if f.Object == topology.QueueObject("t.unroutable") {
			continue // where no delay is
		}
		queues = append(queues, strings.Trim(strings.TrimPrefix(f.Object, "queue "), `"`))
		if !strings.Contains(f.Effect, says) {
			t.Errorf("of %s it says: %s", f.Object, f.Effect)
		}
	}
	return queues
}

// A binding of others is one finding, also where it leads to a queue of the cascade, by a digit that base 10 has not.
func TestForeignBindingInBase10(t *testing.T) {
	expanded := plantest.Expand(t, delay.Config{Name: "t", Levels: 3, Base: 10, CreateDeliveryExchange: true})
	actual := deployedAlone(t, expanded).Actual(expanded)
	actual.Bindings.Add(topology.Binding{Source: "t.delay-01", RoutingKey: "*.a.#", DestinationType: topology.ToQueue,
		Destination: "t.delay-01-9"})
	found := health.Damages(expanded, actual, nil)
	if len(found) != 1 || found[0].Severity != health.Error || found[0].Object !=
		`binding of exchange "t.delay-01" to queue "t.delay-01-9" with key "*.a.#"` {
		t.Errorf("the findings are %+v", found)
	}
}
