package rabbit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// A node that has lost its at-least-once dead-lettering answers so, here in the words of 3.10.8: what helps is not what
// the words say.
func TestLostDeadLettering(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":"bad_request","reason":"Request to node rabbit@a failed with {'EXIT',\n `+
			`{{noproc,\n {gen_server,call,\n [rabbit_fifo_dlx_sup,\n {start_child,\n `+
			`[{resource,<<\"/\">>,queue,<<\"q\">>}]},\n infinity]}}}}"}`)
	}))
	t.Cleanup(server.Close)
	_, err := engine.Run(t.Context(), clientOf(t, server).Vhost("/"),
		plan.Plan{{Steps: []plan.Step{plan.DeclareQueue{Queue: topology.Queue{Name: "q", Durable: true}}}}})
	if !rabbit.IsKind(err, rabbit.Unavailable) || !strings.Contains(err.Error(), "lasts until the node is restarted") {
		t.Errorf("got %v", err)
	}
}

// An operation whose time is over says where it gets more.
func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := clientOf(t, server).Vhosts(ctx)
	says(t, err, rabbit.Timeout, "the operation's time was over", "attribute timeouts")
}

// clientOf tries every request once.
func clientOf(t *testing.T, server *httptest.Server) *rabbit.Client {
	t.Helper()
	client, err := rabbit.New(rabbit.Config{Endpoint: server.URL, Username: "u", Password: "secret", RetryTimeout: 0})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
