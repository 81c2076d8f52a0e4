package rabbit_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/drain"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// TestProofRunsOut deletes a queue's dead-letter exchange, which takes longer than messages stay in the queue. If a
// message has come meanwhile, it is found, though it has expired.
func TestProofRunsOut(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]bool{"nothing comes": false, "a message comes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Shared(t)
			vhost := brokertest.Vhost(t, b)
			conn, _ := dial(t, vhost)
			client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				forward.ServeHTTP(w, r)
				if r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/api/exchanges/") {
					if comes {
						publish(t, conn, "", "q")
					}
					time.Sleep(5 * time.Second)
				}
			}), patient)

			q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{
				"x-queue-type": "quorum", "x-message-ttl": int64(4000), "x-dead-letter-exchange": "x",
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
			}}
			collector := topology.Queue{Name: "collector", Durable: true,
				Arguments: topology.Arguments{"x-queue-type": "classic"}}
			alternate := topology.Exchange{Name: "alternate", Type: "fanout", Durable: true}
			run(t, client, vhost, plan.Plan{
				{Steps: []plan.Step{
					plan.DeclareQueue{Queue: q}, plan.DeclareQueue{Queue: collector},
					plan.DeclareExchange{Exchange: alternate},
					plan.DeclareExchange{Exchange: topology.Exchange{Name: "x", Type: "topic", Durable: true,
						Arguments: topology.Arguments{"alternate-exchange": "alternate"}}},
				}},
				{Steps: []plan.Step{plan.Bind{Binding: topology.Binding{Source: "alternate",
					DestinationType: topology.ToQueue, Destination: "collector"}}}},
			})
			verify := plan.Phase{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q},
				Why: "deleting it"}}}
			_, err := engine.Run(t.Context(), client.Vhost(vhost),
				plan.Plan{verify, {Steps: []plan.Step{plan.DeleteExchange{Name: "x"}}}, verify})
			var notEmpty *drain.NotEmptyError
			switch {
			case comes && (!errors.As(err, &notEmpty) || len(notEmpty.Queues) != 1 || notEmpty.Queues[0].Messages != 1):
				t.Errorf("the error is %v", err)
			case !comes && err != nil:
				t.Error(err)
			}
		})
	}
}

// TestProofIsVoid has a message come in when a queue's dead-letter exchange is gone. Its traces leave at once, long
// before the queue's TTL: a policy shortens that, somebody consumes, or the queue delays it.
func TestProofIsVoid(t *testing.T) {
	t.Parallel()
	short := map[string]any{"message-ttl": 10}
	for name, test := range map[string]voidProof{
		"policy":            {kind: "policies", definition: short, leaves: expire},
		"operator policy":   {kind: "operator-policies", definition: short, leaves: expire},
		"unreadable policy": {kind: "policies", definition: short, leaves: expire, unreadable: true},
		"consumer":          {},
		"delayed retry": {kind: "policies", leaves: putBack,
			definition: map[string]any{"delayed-retry-type": "all", "delayed-retry-min": 3_600_000}},
	} {
		t.Run(name, test.run)
	}
}

// voidProof has a message leave the ready ones by a policy, or by a consumer.
type voidProof struct {
	kind       string // of the policy
	definition map[string]any
	leaves     func(*testing.T, *amqp.Channel)
	unreadable bool
}

func (test voidProof) run(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	if _, retries := test.definition["delayed-retry-type"]; retries && !version.AtLeast(b.Version, 4, 3) {
		t.Skipf("quorum queues of RabbitMQ %s delay nothing by themselves: that came with 4.3", b.Version)
	}
	vhost := brokertest.Vhost(t, b)
	conn, channel := dial(t, vhost)
	client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if test.unreadable && strings.Contains(r.URL.Path, "policies") {
			answer(w, http.StatusForbidden, `{"error":"not_authorized","reason":"not yours"}`)
			return
		}
		forward.ServeHTTP(w, r)
		switch {
		case !deletesExchange(r):
		case test.kind == "":
			comeAndBeConsumed(t, conn, channel)
		default:
			publish(t, conn, "", "q")
			test.leaves(t, channel)
		}
	}), patient)
	q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{
		"x-queue-type": "quorum", "x-message-ttl": int64(3_600_000), "x-dead-letter-exchange": "x",
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}}
	if test.kind != "" { // in force when the queue is declared
		admin(t, http.MethodPut, []string{test.kind, vhost, "short"}, map[string]any{"pattern": "^q$",
			"apply-to": "queues", "definition": test.definition})
	}
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{
		plan.DeclareQueue{Queue: q},
		plan.DeclareExchange{Exchange: topology.Exchange{Name: "x", Type: "topic", Durable: true}},
	}}})
	verify := plan.Phase{Steps: []plan.Step{plan.VerifyEmpty{Queues: []topology.Queue{q}, Why: "deleting it"}}}
	_, err := engine.Run(t.Context(), client.Vhost(vhost),
		plan.Plan{verify, {Steps: []plan.Step{plan.DeleteExchange{Name: "x"}}}, verify})
	var notEmpty *drain.NotEmptyError
	if !errors.As(err, &notEmpty) || notEmpty.Queues[0].Messages != 1 {
		t.Errorf("the error is %v", err)
	}
}

// putBack gets a message and puts it back.
func putBack(t *testing.T, channel *amqp.Channel) {
	message, found, err := channel.Get("q", false)
	if err == nil && found {
		err = message.Reject(true)
	}
	if err != nil || !found {
		t.Errorf("there is a message: %t, %v", found, err)
	}
}

// comeAndBeConsumed publishes a message to a consumer, which does not acknowledge it.
func comeAndBeConsumed(t *testing.T, conn *amqp.Connection, channel *amqp.Channel) {
	deliveries, err := channel.Consume("q", "", false, false, false, false, nil)
	if err != nil {
		t.Error(err)
		return
	}
	publish(t, conn, "", "q")
	<-deliveries
}
