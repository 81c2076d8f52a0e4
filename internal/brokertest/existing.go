package brokertest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// existing is the broker that RABBITMQ_ENDPOINT names, with the provider's other variables.
func existing(ctx context.Context, m machine, endpoint string) (*Broker, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("RABBITMQ_ENDPOINT is not a URL such as http://127.0.0.1:15672 (credentials go into " +
			"RABBITMQ_USERNAME and RABBITMQ_PASSWORD)")
	}
	b := &Broker{
		Endpoint: strings.TrimRight(endpoint, "/"),
		Username: orElse(m.getenv("RABBITMQ_USERNAME"), "guest"),
		Password: orElse(m.getenv("RABBITMQ_PASSWORD"), "guest"),
		AMQPURI:  m.getenv("RABBITMQ_AMQP_URI"),
		Source:   "RABBITMQ_ENDPOINT",
		host:     foreign{},
	}

	// In CI the broker may be a service that starts beside the tests.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var o overview
	if err := poll(ctx, nil, func() (err error) { o, err = b.overview(ctx); return err }); err != nil {
		return nil, fmt.Errorf("RABBITMQ_ENDPOINT %s: %w", b.Endpoint, err)
	}
	b.Version = o.Version
	if b.AMQPURI == "" {
		scheme, port := o.amqpListener()
		b.AMQPURI = b.amqpURI(scheme, net.JoinHostPort(u.Hostname(), strconv.Itoa(port)))
	}
	return b, nil
}

// foreign is the host of a broker that somebody else runs.
type foreign struct{}

func (foreign) stop() error    { return nil }
func (foreign) restart() error { return ErrUnsupported }
func (foreign) crash() error   { return ErrUnsupported }
func (foreign) command(context.Context, string, ...string) ([]byte, error) {
	return nil, ErrUnsupported
}

func orElse(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
