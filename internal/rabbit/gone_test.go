package rabbit_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// TestUnlistedQueue has no queue in the list in which older versions count the messages of classic queues. One that is
// there is not believed to be empty. One that is gone, or whose vhost is gone, holds nothing.
func TestUnlistedQueue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gone []string // has no answer but Not Found, once the list was asked for
		kind rabbit.Kind
	}{
		"it is there":       {nil, rabbit.Unavailable},
		"it is gone":        {[]string{"queue"}, ""},
		"its vhost is gone": {[]string{"queue", "vhost"}, rabbit.VhostNotFound},
		"its vhost is gone, and the list says so": {[]string{"list", "queue", "vhost"}, rabbit.VhostNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t, brokertest.Shared(t))
			var listed atomic.Bool
			client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				var asks, body string
				switch queues := "/api/queues/" + vhost; {
				case r.URL.Path == queues:
					listed.Store(true)
					asks, body = "list", "[]"
				case r.URL.Path == queues+"/q":
					asks, body = "queue", `{"name":"q","type":"classic"}`
				case strings.HasPrefix(r.URL.Path, "/api/exchanges/"+vhost+"/"):
					asks, body = "vhost", `{"name":"amq.direct"}`
				default:
					forward.ServeHTTP(w, r)
					return
				}
				if listed.Load() && slices.Contains(test.gone, asks) {
					answer(w, http.StatusNotFound, `{"error":"Object Not Found","reason":"Not Found"}`)
				} else {
					answer(w, http.StatusOK, body)
				}
			}))
			q := topology.Queue{Name: "q", Durable: true, Arguments: topology.Arguments{"x-queue-type": "classic"}}
			_, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Plan{{Steps: []plan.Step{
				plan.VerifyEmpty{Queues: []topology.Queue{q}, Why: "deleting it"}}}})
			if test.kind == "" && err != nil || test.kind != "" && !rabbit.IsKind(err, test.kind) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestMarkIsGone looks at an exchange that has lost the binding by which a create knows it as its own.
func TestMarkIsGone(t *testing.T) {
	t.Parallel()
	client, vhost := connect(t), brokertest.Vhost(t, brokertest.Shared(t))
	run(t, client, vhost, plan.Plan{{Steps: []plan.Step{
		plan.DeclareExchange{Exchange: topology.Exchange{Name: "e", Type: "topic", Durable: true}}}}})
	mark := plan.VerifyAlone{Binding: topology.Binding{Source: "e", Destination: "e",
		DestinationType: topology.ToExchange, RoutingKey: "mark"}}
	_, err := engine.Run(t.Context(), client.Vhost(vhost), plan.Plan{{Steps: []plan.Step{mark}}})
	says(t, err, rabbit.NotFound, "another application has removed it just now")
	_, err = engine.Run(t.Context(), client.Vhost(vhost+"-gone"), plan.Plan{{Steps: []plan.Step{mark}}})
	if !rabbit.IsKind(err, rabbit.VhostNotFound) {
		t.Errorf("without the vhost, the error is %v", err)
	}
}
