package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Behind a delivery exchange with many bindings a look asks for a hundred queues and follows a hundred exchanges. A
// queue more is taken for no exchange, and has no more requests.
func TestMostBehind(t *testing.T) {
	for to, followed := range map[topology.DestinationType]bool{topology.ToQueue: false, topology.ToExchange: true} {
		var exchanges atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			if strings.HasPrefix(r.URL.Path, "/api/exchanges") {
				exchanges.Store(true)
			}
			if path.Base(r.URL.Path) == "source" {
				fmt.Fprint(rw, "[]")
				return
			}
			fmt.Fprintf(rw, `{"name":%q,"type":"topic","state":"stopped","messages":0}`, path.Base(r.URL.Path))
		}))
		t.Cleanup(server.Close)
		client, err := rabbit.New(rabbit.Config{Endpoint: server.URL, Username: "u", Password: "p"})
		if err != nil {
			t.Fatal(err)
		}
		o := Observation{State: found(topology.New())}
		o.AllPolicies.Users = policy.Policies{}
		for i := range mostBehind + 1 {
			o.Delivers = append(o.Delivers, topology.Binding{Source: "d", RoutingKey: fmt.Sprintf("*.a%03d", i),
				DestinationType: to, Destination: fmt.Sprintf("to-%03d", i)})
		}
		findings, err := o.behind(t.Context(), client.Vhost("v"), simple(true))
		if err != nil || len(findings) != mostBehind || exchanges.Load() != followed {
			t.Errorf("to %s: %d findings, exchanges followed: %t: %v", to, len(findings), exchanges.Load(), err)
		}
	}
}
