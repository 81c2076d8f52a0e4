package rabbit

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
)

// get reads what rabbit-hole cannot: with a query for columns, and without failing on what an unhealthy queue puts into
// fields that nobody asked for.
func (v *Vhost) get(ctx context.Context, result any, query string, path ...string) error {
	return v.ask(ctx, func(call *transport.Call) error {
		_, err := call.Do(http.MethodGet, transport.Path(path...)+query, nil, result)
		return err
	})
}

// listed finds out whether it was the answer that rabbit-hole could not read.
func listed(bindings []rabbithole.BindingInfo, err error) ([]rabbithole.BindingInfo, error) {
	if err != nil && !transport.Wraps[*url.Error](err) {
		return nil, transport.Unlike("a list of bindings", err)
	}
	return bindings, err
}

// status turns the result of a rabbit-hole method into a status code.
func status(response *http.Response, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}

// overview is who the broker is.
type overview struct {
	Version   string     `json:"rabbitmq_version"`
	Listeners []listener `json:"listeners"`
	// DisableStats is set where nothing is collected for the statistics.
	DisableStats bool `json:"disable_stats"`
	// LavinMQ is the version of another broker that answers like RabbitMQ (2.9.1).
	LavinMQ loose[string] `json:"lavinmq_version"`
}

type listener struct {
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

func (c *Client) overview(call *transport.Call) (overview, error) {
	var result overview
	if _, err := call.Do(http.MethodGet,
		"overview?columns=rabbitmq_version,listeners,disable_stats,lavinmq_version", nil, &result); err != nil {
		return overview{}, err
	}
	if result.LavinMQ.value != "" {
		return overview{}, c.lavinMQ(result.LavinMQ.value)
	}
	if result.Version == "" {
		return overview{}, transport.Unlike("/api/overview", errors.New("it names no RabbitMQ version"))
	}
	return result, nil
}
