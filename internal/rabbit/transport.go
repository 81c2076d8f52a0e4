package rabbit

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// transport is the way of all requests to the management API. It keeps connections alive, limits parallel requests and
// the time of each attempt, and retries.
type transport struct {
	base *http.Transport
	// endpoint is for logs, and basePath is what all paths of the management API begin with.
	endpoint, basePath string
	headers            http.Header
	secrets            secrets
	timeout            time.Duration
	slots              chan struct{}
	retry              *retryablehttp.RoundTripper

	retryTimeout time.Duration
	outage       outage
	answers      answers
}

func (config Config) transport(endpoint *url.URL, tlsConfig *tls.Config) (*transport, error) {
	proxy, err := config.proxy()
	if err != nil {
		return nil, err
	}
	headers, err := config.headers()
	if err != nil {
		return nil, err
	}
	if err := config.applyDefaults(); err != nil {
		return nil, err
	}
	t := &transport{
		endpoint:     endpoint.String(),
		basePath:     endpoint.EscapedPath() + "/api/",
		headers:      headers,
		secrets:      config.secrets(),
		timeout:      config.RequestTimeout,
		retryTimeout: config.RetryTimeout,
		slots:        make(chan struct{}, config.MaxParallelRequests),
		base: &http.Transport{
			Proxy:           proxy,
			TLSClientConfig: tlsConfig.Clone(),
			DialContext: (&net.Dialer{Timeout: min(config.RequestTimeout, 5*time.Second),
				KeepAlive: 15 * time.Second}).DialContext,
			MaxIdleConnsPerHost: config.MaxParallelRequests,
			// Otherwise one more is opened where that of a request that has ended is not idle yet.
			MaxConnsPerHost: config.MaxParallelRequests,
			// It is for requests that follow each other. RabbitMQ closes an idle connection after 60 s (Cowboy's
			// idle_timeout). A proxy may end when all plans of a run keep theirs as long: Docker's opens 6 files each.
			IdleConnTimeout:    5 * time.Second,
			DisableCompression: true,
			OnProxyConnectResponse: func(_ context.Context, proxy *url.URL, _ *http.Request,
				response *http.Response) error {
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
		RetryMax:   math.MaxInt32, // worthRetrying ends it
		CheckRetry: t.worthRetrying,
		PrepareRetry: func(request *http.Request) error {
			if makeSure := callOf(request.Context()).makeSure; makeSure != nil {
				return makeSure()
			}
			return nil
		},
		Backoff:      func(_, _ time.Duration, n int, _ *http.Response) time.Duration { return backoff(n) },
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}}
	return t, nil
}

// call is the RoundTripper of one call: rabbit-hole knows neither contexts nor kept-alive
// connections, and drops the reason of a 401.
type call struct {
	transport *transport
	ctx       context.Context
	// patient is set for what has to be there: 404 may be gone at the next attempt.
	patient bool
	// makeSure has to succeed before each further attempt.
	makeSure func() error
	// failing is when the requests began to fail that this one waits with, and failure is what its last attempt came
	// to.
	failing time.Time
	failure error

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
		if response != nil {
			_ = response.Body.Close()
		}
		return nil, c.waitedInVain(err)
	}
	if response.StatusCode < 300 || request.Method == http.MethodDelete && response.StatusCode == http.StatusNotFound {
		if err := isAnswer(request, response); err != nil {
			_ = response.Body.Close()
			return nil, err
		}
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	refused := newRefusal(request, response)
	for _, text := range []*string{&refused.code, &refused.reason, &refused.location} {
		*text = c.transport.secrets.clean(*text)
		if runes := []rune(*text); len(runes) > longestReason {
			*text = string(runes[:longestReason]) + " …"
		}
	}
	return nil, refused
}

// isAnswer fails for a success that is not one of RabbitMQ's, which answers a write with 201 or 204. A gateway that
// asks people to sign in says 200, and has done nothing.
func isAnswer(request *http.Request, response *http.Response) error {
	switch response.StatusCode {
	case http.StatusCreated, http.StatusNoContent, http.StatusNotFound:
		return nil
	}
	if request.Method == http.MethodGet {
		return nil
	}
	return &notManagement{request.URL.EscapedPath(), fmt.Errorf(
		"to %s it says %d %s", request.Method, response.StatusCode, http.StatusText(response.StatusCode))}
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
	r := &refusal{method: request.Method, path: request.URL.EscapedPath(), status: response.StatusCode,
		location: response.Header.Get("Location")}
	var body struct {
		Error, Reason loose[string]
	}
	if json.NewDecoder(response.Body).Decode(&body) == nil {
		r.code, r.reason = body.Error.value, cmp.Or(body.Reason.value, body.Error.value)
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

// attemptTimeout is what an attempt ends with if the broker does not answer.
type attemptTimeout struct{ after time.Duration }

func (e attemptTimeout) Error() string {
	return fmt.Sprintf("no answer within %s", plaintext.Duration(e.after))
}

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
		err = a.readBody(request, response)
	}
	if err == nil {
		if _, wrong := url.Parse(response.Header.Get("Location")); wrong != nil {
			response.Header.Del("Location") // net/http fails on it, although nobody follows it
		}
	}
	fields := map[string]any{"method": request.Method, "path": request.URL.EscapedPath(),
		"duration_ms": time.Since(started).Milliseconds(), "attempt": call.attempts.Load()}
	if err != nil {
		if ctx.Err() != nil && operation.Err() == nil {
			err = attemptTimeout{a.timeout}
		}
		fields["error"] = plaintext.Line(err.Error())
		tflog.SubsystemDebug(operation, subsystem, "request failed", fields)
		return nil, err
	}
	fields["status"] = response.StatusCode
	tflog.SubsystemDebug(operation, subsystem, "request", fields)
	return response, nil
}

// readBody reads the body of a response, which is then in memory.
func (t *transport) readBody(request *http.Request, response *http.Response) error {
	defer func(body io.ReadCloser) { _ = body.Close() }(response.Body)
	path := request.URL.EscapedPath()
	body, err := t.answers.read(response.Body, limitOf(request.Method, strings.TrimPrefix(path, t.basePath)))
	if large, is := errors.AsType[*tooLarge](err); is {
		err = &notManagement{path, large}
	}
	if err != nil {
		return err
	}
	response.Body = body
	return nil
}

const subsystem = "rabbitmq"

// logging makes the context of an operation one that requests can log to.
func (c *Client) logging(ctx context.Context) context.Context {
	ctx = tflog.NewSubsystem(ctx, subsystem)
	ctx = tflog.SubsystemMaskMessageStrings(ctx, subsystem, c.http.secrets...)
	return tflog.SubsystemMaskAllFieldValuesStrings(ctx, subsystem, c.http.secrets...)
}

// Warn writes a warning to the log.
func (c *Client) Warn(ctx context.Context, text string, err error) {
	tflog.SubsystemWarn(c.logging(ctx), subsystem, text, map[string]any{"error": plaintext.Line(err.Error())})
}

// isTLS tells whether the two sides did not agree on a secure connection.
func isTLS(err error) bool {
	network, isNetwork := errors.AsType[*net.OpError](err)
	return wraps[*tls.CertificateVerificationError](err) || wraps[tls.AlertError](err) ||
		wraps[tls.RecordHeaderError](err) || errors.Is(err, http.ErrSchemeMismatch) ||
		isNetwork && network.Op == "remote error" // how crypto/tls reports the other side's alert
}

// isRefusedByProxy tells whether a proxy would not connect, whatever is behind it.
func isRefusedByProxy(err error) bool {
	proxy, is := errors.AsType[*proxyRefusal](err)
	return is && proxy.status < 500
}

func isUnknownHost(err error) bool {
	dns, is := errors.AsType[*net.DNSError](err)
	return is && dns.IsNotFound
}

// isAMQP tells whether the endpoint speaks AMQP, which answers anything else with its own header.
func isAMQP(err error) bool { return strings.Contains(err.Error(), `malformed HTTP response "AMQP`) }
