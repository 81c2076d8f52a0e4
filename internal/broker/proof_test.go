package broker_test

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestProofIsKept deletes a queue's dead-letter exchange, which takes longer than messages stay in the queue. If none has come meanwhile,
// the queue is known to be empty without waiting until the totals are up to date. If one has, it is found, though it has expired.
func TestProofIsKept(t *testing.T) {
	for name, comes := range map[string]bool{"nothing comes": false, "a message comes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Shared(t)
			vhost := brokertest.Vhost(t, b)
			conn, _ := dial(t, vhost)
			var deleted atomic.Bool
			var totals atomic.Int64 // that were asked for since
			client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				if deleted.Load() && strings.Contains(r.URL.RawQuery, "enable_queue_totals") {
					totals.Add(1)
				}
				forward.ServeHTTP(w, r)
				if r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/api/exchanges/") {
					deleted.Store(true)
					if comes {
						publish(t, conn, "", "q")
					}
					time.Sleep(5 * time.Second)
				}
			}))

			q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{
				"x-queue-type": "quorum", "x-message-ttl": int64(4000), "x-dead-letter-exchange": "x",
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
			}}
			collector := topology.Queue{Name: "collector", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
			alternate := topology.Exchange{Name: "alternate", Type: "fanout", Durable: true}
			run(t, client, vhost, topology.Plan{
				{Steps: []topology.Step{
					topology.DeclareQueue{Queue: q}, topology.DeclareQueue{Queue: collector}, topology.DeclareExchange{Exchange: alternate},
					topology.DeclareExchange{Exchange: topology.Exchange{Name: "x", Type: "topic", Durable: true, Arguments: topology.Arguments{"alternate-exchange": "alternate"}}},
				}},
				{Steps: []topology.Step{topology.Bind{Binding: topology.Binding{Source: "alternate", DestinationType: topology.ToQueue, Destination: "collector"}}}},
			})
			verify := topology.Phase{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}, Why: "deleting it"}}}
			_, err := client.Run(t.Context(), vhost, topology.Plan{verify, {Steps: []topology.Step{topology.DeleteExchange{Name: "x"}}}, verify})
			var notEmpty *broker.NotEmptyError
			switch {
			case comes && (!errors.As(err, &notEmpty) || len(notEmpty.Queues) != 1 || notEmpty.Queues[0].Messages != 1):
				t.Errorf("the error is %v", err)
			case !comes && err != nil:
				t.Error(err)
			case !comes && totals.Load() > 0:
				t.Errorf("the totals were asked for %d times", totals.Load())
			}
		})
	}
}

// TestProofIsVoid has a message come in when a queue's dead-letter exchange is gone, and leave what can be counted at once, long before the
// queue's time-to-live: a policy shortens that, or somebody consumes.
func TestProofIsVoid(t *testing.T) {
	policy := map[string]any{"pattern": "^q$", "apply-to": "queues", "definition": map[string]any{"message-ttl": 10}}
	for name, test := range map[string]struct {
		kind       string // of the policy
		unreadable bool
	}{
		"policy":            {kind: "policies"},
		"operator policy":   {kind: "operator-policies"},
		"unreadable policy": {kind: "policies", unreadable: true},
		"consumer":          {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			conn, channel := dial(t, vhost)
			client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				if test.unreadable && strings.Contains(r.URL.Path, "policies") {
					answer(w, http.StatusForbidden, `{"error":"not_authorized","reason":"not yours"}`)
					return
				}
				forward.ServeHTTP(w, r)
				if r.Method != http.MethodDelete || !strings.HasPrefix(r.URL.Path, "/api/exchanges/") {
					return
				}
				if test.kind != "" {
					publish(t, conn, "", "q")
					expire(t, channel)
					return
				}
				deliveries, err := channel.Consume("q", "", false, false, false, false, nil)
				if err != nil {
					t.Error(err)
					return
				}
				publish(t, conn, "", "q")
				<-deliveries
			}))
			q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{
				"x-queue-type": "quorum", "x-message-ttl": int64(3_600_000), "x-dead-letter-exchange": "x",
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
			}}
			run(t, client, vhost, topology.Plan{{Steps: []topology.Step{
				topology.DeclareQueue{Queue: q},
				topology.DeclareExchange{Exchange: topology.Exchange{Name: "x", Type: "topic", Durable: true}},
			}}})
			if test.kind != "" {
				admin(t, http.MethodPut, []string{test.kind, vhost, "short"}, policy)
			}
			verify := topology.Phase{Steps: []topology.Step{topology.VerifyEmpty{Queues: []topology.Queue{q}, Why: "deleting it"}}}
			_, err := client.Run(t.Context(), vhost, topology.Plan{verify, {Steps: []topology.Step{topology.DeleteExchange{Name: "x"}}}, verify})
			var notEmpty *broker.NotEmptyError
			if !errors.As(err, &notEmpty) || notEmpty.Queues[0].Messages != 1 {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestLook looks at the queues of a cascade while more is read, and asks for the bindings only of the exchange whose bindings it has not
// read before.
func TestLook(t *testing.T) {
	var asked sync.Map
	client, vhost := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if exchange, bindings := strings.CutSuffix(r.URL.Path, "/bindings/source"); bindings {
			asked.Store(path.Base(exchange), true)
		}
		forward.ServeHTTP(w, r)
	})), brokertest.Vhost(t, brokertest.Shared(t))
	want := expand(t, cascade.Config{Name: "tasks", Levels: 4, CreateDeliveryExchange: true, ParkUnroutable: true})
	create(t, client, vhost, want)
	state := read(t, client, vhost, want)
	asked.Clear()

	runner := client.Begin(vhost)
	defer runner.Close()
	queues := want.Downstream(state.Queues)
	runner.Look(t.Context(), queues, state.Topology)
	if _, err := runner.Run(t.Context(), topology.Plan{{Steps: []topology.Step{topology.VerifyEmpty{Queues: queues, Why: "deleting them"}}}}); err != nil {
		t.Fatal(err)
	}
	var names []string
	asked.Range(func(name, _ any) bool { names = append(names, fmt.Sprint(name)); return true })
	if !slices.Equal(names, []string{want.Delivery}) {
		t.Errorf("the bindings of %v were read", names)
	}
}
