package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/hashicorp/terraform-plugin-log/tflog"
)

// transport is the way of all requests to the management API: kept-alive connections, a limit on
// parallel requests, a time limit for each attempt, and retries.
type transport struct {
	base    *http.Transport
	headers http.Header
	secrets secrets
	timeout time.Duration
	slots   chan struct{}
	retry   *retryablehttp.RoundTripper
}

type transportConfig struct {
	tls      *tls.Config
	proxy    func(*http.Request) (*url.URL, error)
	headers  http.Header
	secrets  secrets
	timeout  time.Duration
	retries  int
	parallel int
}

// Backoff: 0.1, 0.4, 1.6 and 3 s with the default of four retries. A closed port is reported after
// 5.1 s; a broker that restarts in less is waited for.
const (
	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 3 * time.Second
)

func newTransport(config transportConfig) *transport {
	t := &transport{
		headers: config.headers,
		secrets: config.secrets,
		timeout: config.timeout,
		slots:   make(chan struct{}, config.parallel),
		base: &http.Transport{
			Proxy:               config.proxy,
			TLSClientConfig:     config.tls.Clone(),
			DialContext:         (&net.Dialer{Timeout: min(config.timeout, 5*time.Second), KeepAlive: 15 * time.Second}).DialContext,
			MaxIdleConnsPerHost: config.parallel,
			// Otherwise one more is opened where that of a request that has ended is not idle yet.
			MaxConnsPerHost: config.parallel,
			// RabbitMQ closes an idle connection after 60 s (Cowboy's idle_timeout).
			IdleConnTimeout:    45 * time.Second,
			DisableCompression: true,
			OnProxyConnectResponse: func(_ context.Context, proxy *url.URL, _ *http.Request, response *http.Response) error {
				if response.StatusCode != http.StatusOK {
					return &proxyRefusal{proxy: proxy.Host, status: response.StatusCode}
				}
				return nil
			},
		},
	}
	t.retry = &retryablehttp.RoundTripper{Client: &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport:     attempts{t},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax:   config.retries,
		CheckRetry: worthRetrying,
		PrepareRetry: func(request *http.Request) error {
			if makeSure := callOf(request.Context()).makeSure; makeSure != nil {
				return makeSure()
			}
			return nil
		},
		Backoff:      func(_, _ time.Duration, n int, _ *http.Response) time.Duration { return backoff(n) },
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}}
	return t
}

func (t *transport) close() { t.base.CloseIdleConnections() }

// call is the RoundTripper of one call: rabbit-hole knows neither contexts nor kept-alive
// connections, and drops the reason of a 401.
type call struct {
	transport *transport
	ctx       context.Context
	// once is set for what must not be repeated.
	once bool
	// patient is set for what has to be there: 404 may be gone at the next attempt.
	patient bool
	// makeSure has to succeed before each further attempt.
	makeSure func() error

	// attempts counts requests; sent tells whether one of them may have reached the broker.
	attempts atomic.Int32
	sent     atomic.Bool
}

type callKey struct{}

// callOf is the call that the context of a request carries.
func callOf(ctx context.Context) *call {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		panic("a request that did not come through call.RoundTrip")
	}
	return c
}

func (c *call) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(context.WithValue(c.ctx, callKey{}, c))
	request.Close = false
	response, err := c.transport.retry.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 300 || request.Method == http.MethodDelete && response.StatusCode == http.StatusNotFound {
		return response, nil
	}
	refused := newRefusal(request, response)
	for _, text := range []*string{&refused.code, &refused.reason, &refused.location} {
		*text = c.transport.secrets.mask(*text)
		if runes := []rune(*text); len(runes) > longestReason {
			*text = string(runes[:longestReason]) + " …"
		}
	}
	return nil, refused
}

// longestReason is more than RabbitMQ ever says, and less than a gateway may repeat of a request.
const longestReason = 1000

// refusal is an answer that is not a success.
type refusal struct {
	method, path string
	status       int
	// code and reason are in the broker's words, empty if the answer is not that of a management API.
	code, reason string
	// location is where a redirect leads.
	location string
}

func newRefusal(request *http.Request, response *http.Response) *refusal {
	r := &refusal{method: request.Method, path: request.URL.EscapedPath(), status: response.StatusCode, location: response.Header.Get("Location")}
	var body struct {
		Error, Reason loose[string]
	}
	if json.NewDecoder(response.Body).Decode(&body) == nil {
		r.code, r.reason = body.Error.value, body.Reason.value
		if r.reason == "" {
			r.reason = r.code
		}
	}
	return r
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("%s %s was answered %d %s", r.method, r.path, r.status, http.StatusText(r.status))
	if r.reason != "" {
		text += ": " + r.reason
	}
	return text
}

// proxyRefusal is the answer of a proxy that does not connect to the broker.
type proxyRefusal struct {
	proxy  string
	status int
}

func (e *proxyRefusal) Error() string {
	return fmt.Sprintf("the proxy at %s answered %d %s", e.proxy, e.status, http.StatusText(e.status))
}

// attempts makes one request and reads the whole answer, so that a truncated one is retried.
type attempts struct{ *transport }

// longestAnswer is enough for the exchanges of a vhost with some 200,000 of them.
const longestAnswer = 64 << 20

// attemptTimeout is what an attempt ends with if the broker does not answer.
type attemptTimeout struct{ after time.Duration }

func (e attemptTimeout) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

func (a attempts) RoundTrip(request *http.Request) (*http.Response, error) {
	operation := request.Context()
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-operation.Done():
		return nil, operation.Err()
	}
	if err := operation.Err(); err != nil {
		return nil, err
	}
	call := callOf(operation)
	call.attempts.Add(1)
	ctx := operation
	if request.Method != http.MethodGet {
		// When the client leaves, RabbitMQ stops in the middle of what it does: 3.10.8 then has half of a
		// quorum queue, with no replica (TestFaultyBroker). So a write that has begun ends.
		ctx = context.WithoutCancel(operation)
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	request = request.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { call.sent.Store(true) },
	}))
	for name, values := range a.headers {
		request.Header[name] = values
		if name == "Host" {
			request.Host = values[0]
		}
	}
	started := time.Now()
	response, err := a.base.RoundTrip(request)
	if err == nil {
		var body []byte
		body, err = io.ReadAll(io.LimitReader(response.Body, longestAnswer))
		_ = response.Body.Close()
		if len(body) == longestAnswer {
			err = &notManagement{request.URL.EscapedPath(), fmt.Errorf("it is longer than %d MiB", longestAnswer>>20)}
		}
		response.Body = io.NopCloser(bytes.NewReader(body))
	}
	if err == nil {
		if _, wrong := url.Parse(response.Header.Get("Location")); wrong != nil {
			response.Header.Del("Location") // net/http fails on it, although nobody follows it
		}
	}
	fields := map[string]any{"method": request.Method, "path": request.URL.EscapedPath(), "duration_ms": time.Since(started).Milliseconds(), "attempt": call.attempts.Load()}
	if err != nil {
		if ctx.Err() != nil && operation.Err() == nil {
			err = attemptTimeout{a.timeout}
		}
		fields["error"] = err.Error()
		tflog.SubsystemDebug(operation, subsystem, "request failed", fields)
		return nil, err
	}
	fields["status"] = response.StatusCode
	tflog.SubsystemDebug(operation, subsystem, "request", fields)
	return response, nil
}

const subsystem = "rabbitmq"

// logging makes the context of an operation one that requests can log to.
func (c *Client) logging(ctx context.Context) context.Context {
	ctx = tflog.NewSubsystem(ctx, subsystem)
	ctx = tflog.SubsystemMaskMessageStrings(ctx, subsystem, c.http.secrets...)
	return tflog.SubsystemMaskAllFieldValuesStrings(ctx, subsystem, c.http.secrets...)
}

// hasty marks the context of requests that are not repeated.
type hasty struct{}

// WithoutRetries is for requests whose answer is welcome but not needed: what fails is not tried again.
func WithoutRetries(ctx context.Context) context.Context {
	return context.WithValue(ctx, hasty{}, true)
}

// worthRetrying is true for what a second attempt may mend: all our requests but one, see
// call.once, do the same when they are repeated.
func worthRetrying(ctx context.Context, response *http.Response, err error) (bool, error) {
	if ctx.Err() != nil && (err != nil || response.StatusCode >= 300) {
		return false, ctx.Err()
	}
	call := callOf(ctx)
	if call.once || ctx.Value(hasty{}) != nil {
		return false, nil
	}
	if err == nil {
		return call.patient && response.StatusCode == http.StatusNotFound ||
			response.StatusCode == http.StatusTooManyRequests ||
			response.StatusCode >= 500 && response.StatusCode != http.StatusNotImplemented, nil
	}
	return !isTLS(err) && !isUnknownHost(err) && !isAMQP(err) && !isRefusedByProxy(err) && !isNotManagement(err), nil
}

func backoff(attempt int) time.Duration {
	return min(firstBackoff<<(2*min(attempt, 10)), longestBackoff)
}

// isTLS tells whether the two sides did not agree on a secure connection.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var network *net.OpError
	return errors.As(err, &verification) || errors.As(err, &alert) || errors.As(err, &record) ||
		errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &network) && network.Op == "remote error" // how crypto/tls reports the other side's alert
}

// isRefusedByProxy tells whether a proxy would not connect, whatever is behind it.
func isRefusedByProxy(err error) bool {
	var proxy *proxyRefusal
	return errors.As(err, &proxy) && proxy.status < 500
}

func isNotManagement(err error) bool {
	var wrong *notManagement
	return errors.As(err, &wrong)
}

func isUnknownHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// isAMQP tells whether the endpoint speaks AMQP, which answers anything else with its own header.
func isAMQP(err error) bool { return strings.Contains(err.Error(), `malformed HTTP response "AMQP`) }
