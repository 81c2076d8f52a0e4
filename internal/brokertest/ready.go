package brokertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// waitReady waits until the broker serves what tests use: the management API, without an alarm that would
// block publishers, and AMQP. It gives up when failed is closed.
func (b *Broker) waitReady(ctx context.Context, failed <-chan struct{}) error {
	return poll(ctx, failed, func() error {
		o, err := b.overview(ctx)
		if err != nil {
			return err
		}
		b.Version = o.Version
		// Both exist from 3.10 to 4.3; a node answers the overview before its vhosts are up.
		for _, check := range []string{"virtual-hosts", "local-alarms"} {
			if err := b.api(ctx, http.MethodGet, "/api/health/checks/"+check, nil, nil); err != nil {
				return err
			}
		}
		conn, err := b.Dial("/")
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// poll calls try until it succeeds, fails for good, or time is up.
func poll(ctx context.Context, failed <-chan struct{}, try func() error) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		var refused *statusError
		if err == nil || errors.As(err, &refused) && refused.status == http.StatusUnauthorized {
			return err
		}
		select {
		case <-failed:
			return errors.New("the node ended while it started")
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", err)
		case <-tick.C:
		}
	}
}

type overview struct {
	Version   string `json:"rabbitmq_version"`
	Listeners []struct {
		Protocol string `json:"protocol"`
		Port     int    `json:"port"`
	} `json:"listeners"`
}

func (b *Broker) overview(ctx context.Context) (overview, error) {
	var o overview
	err := b.api(ctx, http.MethodGet, "/api/overview", nil, &o)
	if err == nil && o.Version == "" {
		err = fmt.Errorf("%s/api/overview has no rabbitmq_version: not a RabbitMQ management API", b.Endpoint)
	}
	return o, err
}

// amqpListener prefers the listener without TLS. A user without the tag monitoring sees no listeners.
func (o overview) amqpListener() (scheme string, port int) {
	for _, want := range []struct{ protocol, scheme string }{{"amqp", "amqp"}, {"amqp/ssl", "amqps"}} {
		for _, l := range o.Listeners {
			if l.Protocol == want.protocol {
				return want.scheme, l.Port
			}
		}
	}
	return "amqp", 5672
}

// api sends one request to the management API.
func (b *Broker) api(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.Endpoint+path, content)
	if err != nil {
		return err
	}
	req.SetBasicAuth(b.Username, b.Password)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // RabbitMQ closes a kept connection after a minute, which a request may meet
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return &statusError{method, req.URL.Path, resp.StatusCode, string(text)}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

type statusError struct {
	method, path string
	status       int
	body         string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s %s: %d %s", e.method, e.path, e.status, e.body)
}
