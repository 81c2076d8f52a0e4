package rabbit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// newCall begins one call.
func (c *Client) newCall(ctx context.Context) *call {
	return &call{ctx: c.logging(ctx), transport: c.http}
}

// get reads what rabbit-hole cannot: with a query for columns, and without failing on what an unhealthy queue
// puts into fields that nobody asked for.
func (c *Client) get(ctx context.Context, result any, query string, path ...string) error {
	_, err := c.request(c.newCall(ctx), http.MethodGet, apiPath(path...)+query, nil, result)
	return err
}

// request makes a request that rabbit-hole has no method for.
func (c *Client) request(call *call, method, pathAndQuery string, body, result any) (status int, err error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		content = strings.NewReader(string(text))
	}
	request, err := http.NewRequestWithContext(call.ctx, method, c.endpoint.String()+"/api/"+pathAndQuery, content)
	if err != nil {
		return 0, err
	}
	request.SetBasicAuth(c.username, c.password)
	request.Header.Set("Content-Type", "application/json")
	response, err := call.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if result != nil {
		if err := json.NewDecoder(response.Body).Decode(result); err != nil {
			return response.StatusCode, &notManagement{request.URL.EscapedPath(), err}
		}
	}
	return response.StatusCode, nil
}

// listed finds out whether it was the answer that rabbit-hole could not read.
func listed(bindings []rabbithole.BindingInfo, err error) ([]rabbithole.BindingInfo, error) {
	if err != nil && !wraps[*url.Error](err) {
		return nil, &notManagement{"a list of bindings", err}
	}
	return bindings, err
}

// notManagement is an answer that no management API gives.
type notManagement struct {
	path string
	err  error
}

func (e *notManagement) Error() string {
	if large, is := errors.AsType[*tooLarge](e.err); is {
		return fmt.Sprintf("the answer of %s %s", e.path, large)
	}
	return fmt.Sprintf("the answer of %s is not what RabbitMQ sends: %s", e.path, e.err)
}

// apiPath escapes each segment once.
func apiPath(segments ...string) string {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return strings.Join(escaped, "/")
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

func (c *Client) overview(call *call) (overview, error) {
	var result overview
	if _, err := c.request(call, http.MethodGet,
		"overview?columns=rabbitmq_version,listeners,disable_stats,lavinmq_version", nil, &result); err != nil {
		return overview{}, err
	}
	if result.LavinMQ.value != "" {
		return overview{}, c.lavinMQ(result.LavinMQ.value)
	}
	if result.Version == "" {
		return overview{}, &notManagement{"/api/overview", errors.New("it names no RabbitMQ version")}
	}
	return result, nil
}

func isNotFound(err error) bool {
	r, is := errors.AsType[*refusal](err)
	return is && r.status == http.StatusNotFound
}
