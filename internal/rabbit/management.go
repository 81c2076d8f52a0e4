package rabbit

import (
	"context"
	"errors"
	"net/http"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
)

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

// identify refuses LavinMQ. A client asks once, and takes a broker that does not answer for RabbitMQ. Operations that
// begin at the same time wait for one answer. If the operation that asked ends first, or is a look without retries, the
// next one asks again.
func (c *Client) identify(ctx context.Context) error {
	if is := c.identity.Load(); is != nil {
		return is.err
	}
	_, err, _ := c.identifying.Do("", func() (any, error) {
		is, err := c.overview(c.http.Call(ctx))
		if IsKind(err, LavinMQ) {
			c.identity.Store(&identity{err: err})
			return nil, err
		}
		if err == nil || ctx.Err() == nil && !transport.IsHasty(ctx) {
			c.identity.Store(&identity{version: is.Version})
		}
		return nil, nil
	})
	return err
}

// lavinMQ is for a broker that loses messages where RabbitMQ does not (2.9.1).
func (c *Client) lavinMQ(version string) error {
	return &Error{
		LavinMQ, "use the broker at " + c.endpoint.String(),
		"it is LavinMQ " + c.http.Clean(version) + ", where messages would get lost. LavinMQ ignores if-empty " +
			"when a queue is deleted over HTTP. LavinMQ dead-letters at most once. LavinMQ takes the queue type " +
			"quorum, and makes no such queue",
		"nothing was changed. Give the endpoint of a RabbitMQ, 3.10 or later",
	}
}

// Version is that of the broker, empty if it cannot be found out.
func (c *Client) Version(ctx context.Context) string {
	if is := c.identity.Load(); is != nil && is.version != "" {
		return is.version
	}
	o, err := c.overview(c.http.Call(ctx))
	if err != nil {
		return ""
	}
	return o.Version
}
