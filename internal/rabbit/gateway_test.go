package rabbit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// gateway has all requests to the broker handled by that, which may forward them.
func gateway(
	t *testing.T, handle func(w http.ResponseWriter, r *http.Request, forward http.Handler),
) func(*rabbit.Config) {
	t.Helper()
	return gatewayTo(t, brokertest.Shared(t), handle)
}

// noAMQP leaves only the management API, as behind a firewall.
func noAMQP(t *testing.T) func(*rabbit.Config) { return derived(t, "1", "another") }

// derived has a client look for AMQP by itself. The management API names the port, and another cluster if one is given.
func derived(t *testing.T, port, cluster string) func(*rabbit.Config) {
	t.Helper()
	return func(config *rabbit.Config) {
		config.AMQPURI = ""
		gatewayTo(t, &brokertest.Broker{Endpoint: config.Endpoint}, func(w http.ResponseWriter, r *http.Request,
			forward http.Handler) {
			switch {
			case strings.Contains(r.URL.Path, "/api/cluster-name") && cluster != "":
				answer(w, http.StatusOK, fmt.Sprintf(`{"name":%q}`, cluster))
			case strings.HasSuffix(r.URL.Path, "/api/overview"):
				said := httptest.NewRecorder()
				forward.ServeHTTP(said, r)
				overview := map[string]any{}
				_ = json.Unmarshal(said.Body.Bytes(), &overview)
				overview["listeners"] = []any{map[string]any{"protocol": "amqp", "port": json.Number(port)}}
				text, _ := json.Marshal(overview)
				answer(w, said.Code, string(text))
			default:
				forward.ServeHTTP(w, r)
			}
		})(config)
	}
}

// gatewayTo is a gateway to another broker than the shared one.
func gatewayTo(
	t *testing.T, b *brokertest.Broker, handle func(w http.ResponseWriter, r *http.Request, forward http.Handler),
) func(*rabbit.Config) {
	t.Helper()
	forward, err := b.Forward()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, forward)
	}))
	t.Cleanup(server.Close)
	return func(config *rabbit.Config) { config.Endpoint = server.URL }
}
