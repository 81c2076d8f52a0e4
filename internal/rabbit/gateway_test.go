package rabbit_test

import (
	"net/http"
	"net/http/httptest"
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
