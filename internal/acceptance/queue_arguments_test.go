package acceptance

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// argued are sets of arguments that applications give to all their delay queues, and what a refresh says of them. A
// configuration has them as they are.
var argued = map[string]struct {
	queueType delay.QueueType // empty for one that the vhost decides
	arguments topology.Arguments
	says      []string // none for no warning
}{
	"quorum, only TTL and dead-letter exchange": {delay.Quorum, topology.Arguments{}, []string{
		"no x-dead-letter-strategy = at-least-once on ",
		"A message that falls due while the next queue is unavailable is lost"}},
	"classic, only TTL and dead-letter exchange": {delay.Classic, topology.Arguments{}, nil},
	"no type": {"", topology.Arguments{}, nil},
	"lazy":    {"", topology.Arguments{"x-queue-mode": "lazy"}, nil},
	"an expiry": {delay.Classic, topology.Arguments{"x-expires": int64(86_400_000)}, []string{
		"x-expires = 86400000 on ", "RabbitMQ deletes it, with the messages in it, 24 h after"}},
	"a delivery limit": {delay.Quorum, topology.Arguments{"x-delivery-limit": int64(5), "x-overflow": "reject-publish",
		"x-dead-letter-strategy": "at-least-once"}, []string{"x-delivery-limit = 5 on ",
		"more than 5 times leaves it early"}},
	"a limit": {delay.Classic, topology.Arguments{"x-max-length": int64(1000)}, []string{"x-max-length = 1000 on ",
		"at 1000 messages, the oldest leave it early"}},
	"of a plugin": {delay.Classic, topology.Arguments{"x-note": "true", "x-flag": true, "x-number": int64(5),
		"x-five": "5"}, nil},
}

// expanded are the objects that an application declares.
func expanded(t *testing.T, c delay.Config, queueType delay.QueueType) topology.Topology {
	t.Helper()
	c.QueueType = queueType
	if queueType == "" {
		c.QueueType = delay.Classic
	}
	desired := harness.Expand(t, c)
	for name, q := range desired.Queues {
		if q.Arguments = maps.Clone(q.Arguments); queueType == "" {
			delete(q.Arguments, "x-queue-type")
		}
		desired.Queues[name] = q
	}
	return desired
}

// configured has the type and the arguments of queues.
func configured(queueType delay.QueueType, arguments topology.Arguments) harness.Attributes {
	if queueType == "" {
		queueType = delay.Classic
	}
	return harness.Attributes{"queue_type": string(queueType), "queue_arguments": harness.Arguments(arguments)}
}

// mustBeNoOp imports what an application has declared, with the configuration that says the same. The plan is empty, a
// refresh names the weak arguments, and the application declares it again.
func mustBeNoOp(
	t *testing.T, v *harness.Vhost, p *harness.Protocol, desired topology.Topology, given harness.Attributes,
	says []string,
) {
	t.Helper()
	v.Do(plan.Repair(desired, topology.New()).Steps()...)
	before := v.Objects()
	harness.NoErrors(t, p.ImportState(t.Context(), harness.ImportID(v.Name, desired.Entry)))
	text := harness.WarningText(p.Refresh(t.Context()))
	harness.MustSay(t, "the refresh", text, says...)
	if len(says) == 0 && text != "" {
		t.Errorf("the refresh says %s", text)
	}
	todo := p.Plan(t.Context(), given)
	if harness.NoErrors(t, todo.Diagnostics); !todo.IsEmpty(p.State) {
		differences, _ := p.State.Diff(todo.State)
		t.Errorf("the plan is not empty: %v", differences)
	}
	v.MustHold(before)
	for _, q := range desired.Queues {
		v.Do(plan.DeclareQueue{Queue: q})
	}
	p.MustBeSettled(given)
}

// An import of 28 levels is a no-op, whatever arguments all queues have.
func TestQueueArgumentsImport(t *testing.T) {
	t.Parallel()
	for name, is := range argued {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			desired := expanded(t, delay.Config{Vhost: v.Name, Name: "app", Levels: 28, Lookahead: 1,
				CreateDeliveryExchange: true, QueueArguments: is.arguments}, is.queueType)
			mustBeNoOp(t, v, harness.NewProtocol(t, v.Broker, nil), desired,
				configured(is.queueType, is.arguments).With(harness.Attributes{"vhost": v.Name, "name": "app",
					"levels": 28, "lookahead": 1, "strict_keys": false, "park_unroutable": false}), is.says)
			found, diagnostics := harness.NewProtocol(t, v.Broker, nil).Observe(t.Context(), harness.CascadeType,
				harness.Attributes{"vhost": v.Name, "entry_exchange": desired.Entry})
			harness.NoErrors(t, diagnostics)
			findings, _ := harness.PlainMap(t, found)["findings"].([]any)
			if want := v.Findings(28 * min(len(is.says), 1)); len(findings) != want {
				t.Errorf("there are %d findings, not %d: %v", len(findings), want, findings)
			}
		})
	}
}

// So is that of queues without a type in a vhost where such queues are quorum queues.
func TestQueueArgumentsImportOfTheDefaultType(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	v.Request(http.MethodPut, []byte(`{"default_queue_type": "quorum"}`), "vhosts", v.Name)
	v.DeclareQueue("probe", nil)
	var made struct{ Type string }
	v.Get(&made, "queues", v.Name, "probe")
	t.Logf("a queue without a type is a %s queue", made.Type)
	v.Do(plan.DeleteQueue{Queue: topology.Queue{Name: "probe"}})
	desired := expanded(t, delay.Config{Vhost: v.Name, Name: "app", Levels: 4, Lookahead: 1,
		CreateDeliveryExchange: true, QueueArguments: topology.Arguments{}}, "")
	says := []string{"no x-dead-letter-strategy = at-least-once on "}
	if made.Type == string(delay.Classic) {
		says = nil
	}
	mustBeNoOp(t, v, harness.NewProtocol(t, v.Broker, nil), desired,
		configured(delay.QueueType(made.Type), topology.Arguments{}).With(harness.Attributes{"vhost": v.Name,
			"name": "app", "levels": 4, "lookahead": 1, "strict_keys": false, "park_unroutable": false}), says)
}

// So is that of a ladder.
func TestQueueArgumentsImportOfALadder(t *testing.T) {
	t.Parallel()
	for name, is := range argued {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := harness.NewVhost(t)
			c := delay.LadderConfig{Vhost: v.Name, Name: "retry", Delays: []string{"5s", "1m", "1h"},
				QueueType: is.queueType, CreateDeliveryExchange: true, QueueArguments: is.arguments}
			if is.queueType == "" {
				c.QueueType = delay.Classic
			}
			desired := delaytest.Resolve(t, c).Expand()
			for _, q := range desired.Queues {
				if is.queueType == "" {
					delete(q.Arguments, "x-queue-type")
				}
			}
			mustBeNoOp(t, v, harness.NewProtocolOf(t, harness.LadderType, v.Broker, nil), desired,
				configured(is.queueType, is.arguments).With(harness.Attributes{"vhost": v.Name, "name": "retry",
					"delays": harness.TextList("5s", "1m", "1h"), "park_unroutable": false}), is.says)
		})
	}
}

// Where queues have different arguments, a refresh names those that differ from most. It says that an apply recreates
// them, and that the application does not start after that.
func TestQueueArgumentsThatDiffer(t *testing.T) {
	t.Parallel()
	v := harness.NewVhost(t)
	desired := expanded(t, delay.Config{Vhost: v.Name, Name: "app", Levels: 5, Lookahead: 1,
		CreateDeliveryExchange: true, QueueArguments: topology.Arguments{}}, delay.Quorum)
	odd := desired.Queues["app.delay-02"]
	odd.Arguments["x-max-length"] = int64(9)
	v.Do(plan.Repair(desired, topology.New()).Steps()...)
	p := harness.NewProtocol(t, v.Broker, nil)
	harness.NoErrors(t, p.ImportState(t.Context(), harness.ImportID(v.Name, desired.Entry)))
	text := harness.WarningText(p.Refresh(t.Context()))
	harness.MustSay(t, "the refresh", text, "- The queue app.delay-02 has x-max-length 9. At 9 messages, the oldest "+
		"leave it early. The next apply recreates it, if it is empty.\n\nAn application that declares such a queue "+
		"or exchange as it is now will not start after that apply: RabbitMQ answers 406 PRECONDITION_FAILED.")
	if strings.Count(text, "\n- ") != 1 {
		t.Errorf("the refresh says more: %s", text)
	}
	given := configured(delay.Quorum, nil).With(harness.Attributes{"vhost": v.Name, "name": "app", "levels": 5,
		"lookahead": 1, "strict_keys": false, "park_unroutable": false})
	todo := p.Plan(t.Context(), given)
	if harness.NoErrors(t, todo.Diagnostics); todo.Replace || todo.IsEmpty(p.State) {
		t.Errorf("the plan replaces: %t", todo.Replace)
	}
	harness.NoErrors(t, p.Apply(t.Context(), todo))
	p.MustBeSettled(given)
	if _, err := v.API.DeclareQueue(v.Name, odd.Name, rabbithole.QueueSettings{Durable: true,
		Arguments: odd.Arguments}); err == nil {
		t.Error("the application declares the queue that was recreated")
	}
}
