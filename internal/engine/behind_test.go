package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// Behind a delivery exchange with many queues a look asks for a hundred of them, and takes none for an exchange.
func TestMostBehind(t *testing.T) {
	var asked sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked.Store(path.Dir(r.URL.Path), true)
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"name":%q,"state":"stopped","messages":0}`, path.Base(r.URL.Path))
	}))
	t.Cleanup(server.Close)
	client, err := rabbit.New(rabbit.Config{Endpoint: server.URL, Username: "u", Password: "p", RetryTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	o := Observation{State: found(topology.New())}
	for i := range mostBehind + 1 {
		o.Delivers = append(o.Delivers, topologytest.ToQueue("d", "*.a", fmt.Sprintf("q%03d", i)))
	}
	findings, err := o.behind(t.Context(), client.Vhost("v"), simple(true))
	if err != nil || len(findings) != mostBehind {
		t.Errorf("there are %d findings: %v", len(findings), err)
	}
	asked.Range(func(of, _ any) bool {
		if text := fmt.Sprint(of); text != "/api" && !strings.HasPrefix(text, "/api/queues") {
			t.Errorf("it asks for %s", text)
		}
		return true
	})
}
