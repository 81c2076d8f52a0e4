package rabbit

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
)

// identity tells whether the broker is LavinMQ.
type identity struct {
	asking singleflight.Group
	known  atomic.Pointer[identified] // nil before anybody has asked
}

// identified has an error if the broker is LavinMQ.
type identified struct{ err error }

// identify refuses LavinMQ. A client asks once, and takes a broker that does not answer for RabbitMQ. Operations that
// begin at the same time wait for one answer. If the operation that asked ends first, or is a look without retries, the
// next one asks again.
func (c *Client) identify(ctx context.Context) error {
	if is := c.identity.known.Load(); is != nil {
		return is.err
	}
	_, err, _ := c.identity.asking.Do("", func() (any, error) {
		_, err := c.overview(c.http.Call(ctx))
		if IsKind(err, LavinMQ) {
			c.identity.known.Store(&identified{err})
			return nil, err
		}
		if err == nil || ctx.Err() == nil && !transport.IsHasty(ctx) {
			c.identity.known.Store(&identified{})
		}
		return nil, nil
	})
	return err
}

// lavinMQ is for a broker that loses messages where RabbitMQ does not (2.9.1).
func (c *Client) lavinMQ(version string) error {
	return &Error{
		LavinMQ, "use the broker at " + c.endpoint.String(),
		"it is LavinMQ " + c.http.Clean(version) + ", where messages would get lost. It ignores if-empty " +
			"when a queue is deleted over HTTP. It dead-letters at most once. It takes the queue type quorum, and " +
			"makes no such queue",
		"nothing was changed. Give the endpoint of a RabbitMQ, 3.10 or later",
	}
}
