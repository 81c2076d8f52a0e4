package broker_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/broker"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// gateway has all requests to the broker handled by that, which may forward them.
func gateway(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, forward http.Handler)) func(*broker.Config) {
	t.Helper()
	target, err := url.Parse(brokertest.Shared(t).Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, forward) }))
	t.Cleanup(server.Close)
	return func(config *broker.Config) { config.Endpoint = server.URL }
}
