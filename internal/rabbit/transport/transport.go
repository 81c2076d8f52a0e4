// Package transport is the way of all requests to a management API. A request comes in. Its answer goes out, whole and
// in memory, or an error: a [*Refusal], a [*NotManagement], or what kept the request from an answer.
//
// Begin with [New]. [Transport.Call] begins a call, and [Call.Do] makes its request. A call is an [http.RoundTripper],
// too, for a library that makes the request itself.
//
// It keeps connections alive, and limits the requests under way and the time of each attempt. It tries again what fails
// in a way that may pass: see call.go and retry.go. It never puts a secret into a log line or an error.
//
// It knows HTTP, and nothing of exchanges and queues.
package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	"golang.org/x/net/http/httpguts"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// Config says where the management API is and how to reach it.
type Config struct {
	// Endpoint is the base URL, without a slash at its end.
	Endpoint           *url.URL
	Username, Password string
	TLS                *tls.Config
	// Proxy is the URL of an HTTP or SOCKS proxy. If empty, the environment decides, as net/http does.
	Proxy     string
	Headers   map[string]string
	UserAgent string
	// RequestTimeout limits one attempt, and RetryTimeout is how long what fails is tried again.
	RequestTimeout, RetryTimeout time.Duration
	// MaxParallelRequests limits all operations together.
	MaxParallelRequests int
	Secrets             Secrets
}

// ConfigError is a fault of one attribute of the provider.
type ConfigError struct {
	// Attribute is the attribute's name in Terraform.
	Attribute string
	// Message continues a sentence that begins with the attribute's name.
	Message string
}

func (e *ConfigError) Error() string { return e.Attribute + " " + e.Message }

// Transport makes requests for several operations at a time. They share its connections, its limit on parallel
// requests, and the wait for a broker that does not answer.
type Transport struct {
	config  Config
	base    *http.Transport
	headers http.Header
	slots   chan struct{}
	retry   *retryablehttp.RoundTripper
	outage  outage
	answers answers
}

// New makes no request. An error is a *ConfigError.
func New(config Config) (*Transport, error) {
	proxy, err := config.proxy()
	if err != nil {
		return nil, err
	}
	headers, err := config.headers()
	if err != nil {
		return nil, err
	}
	t := &Transport{
		config:  config,
		headers: headers,
		slots:   make(chan struct{}, config.MaxParallelRequests),
		base: &http.Transport{
			Proxy:           proxy,
			TLSClientConfig: config.TLS.Clone(),
			DialContext: (&net.Dialer{Timeout: min(config.RequestTimeout, 5*time.Second),
				KeepAlive: 15 * time.Second}).DialContext,
			MaxIdleConnsPerHost: config.MaxParallelRequests,
			// Otherwise one more is opened where that of a request that has ended is not idle yet.
			MaxConnsPerHost: config.MaxParallelRequests,
			// RabbitMQ closes a connection 5 s after an answer (4.3.6, Cowboy's request_timeout). A request that goes
			// out in that moment would fail, and nobody could tell whether RabbitMQ has seen it.
			IdleConnTimeout:    3 * time.Second,
			DisableCompression: true,
			OnProxyConnectResponse: func(_ context.Context, proxy *url.URL, _ *http.Request,
				response *http.Response) error {
				if response.StatusCode != http.StatusOK {
					return &ProxyRefusal{proxy: proxy.Host, Status: response.StatusCode}
				}
				return nil
			},
		},
	}
	t.retry = &retryablehttp.RoundTripper{Client: &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport:     attempt(t.attempt),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax:   math.MaxInt32, // worthRetrying ends it
		CheckRetry: t.worthRetrying,
		PrepareRetry: func(request *http.Request) error {
			if makeSure := callOf(request.Context()).MakeSure; makeSure != nil {
				return makeSure()
			}
			return nil
		},
		Backoff:      func(_, _ time.Duration, n int, _ *http.Response) time.Duration { return backoff(n) },
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}}
	return t, nil
}

func (config Config) proxy() (func(*http.Request) (*url.URL, error), error) {
	if config.Proxy == "" {
		return http.ProxyFromEnvironment, nil
	}
	u, err := url.Parse(config.Proxy)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return nil, &ConfigError{"proxy", "is not the URL of a proxy, such as http://proxy.example.com:3128 or " +
			"socks5://127.0.0.1:1080"}
	}
	return http.ProxyURL(u), nil
}

func (config Config) headers() (http.Header, error) {
	headers := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(config.Headers)) {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, &ConfigError{"headers", fmt.Sprintf("has %q, which is no name of an HTTP header", name)}
		}
		if !httpguts.ValidHeaderFieldValue(config.Headers[name]) {
			return nil, &ConfigError{"headers", fmt.Sprintf("has a value for %q that an HTTP header cannot have; "+
				"give one without line breaks and other control characters", name)}
		}
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return nil, &ConfigError{"headers", "has Authorization, which the provider makes of username and " +
				"password. Give a token of OAuth 2.0 as the password: AMQP takes it, too"}
		}
		headers.Set(name, config.Headers[name])
	}
	if config.UserAgent != "" && headers.Get("User-Agent") == "" {
		headers.Set("User-Agent", config.UserAgent)
	}
	return headers, nil
}

// MaxParallelRequests is how many requests may be under way.
func (t *Transport) MaxParallelRequests() int { return cap(t.slots) }

// attempt is a function as an http.RoundTripper.
type attempt func(*http.Request) (*http.Response, error)

func (a attempt) RoundTrip(request *http.Request) (*http.Response, error) { return a(request) }

// AttemptTimeout is what an attempt ends with if the broker does not answer.
type AttemptTimeout struct{ after time.Duration }

func (e AttemptTimeout) Error() string {
	return fmt.Sprintf("no answer within %s", plaintext.Duration(e.after))
}

// attempt makes one request and reads the whole answer, so that a truncated one is tried again.
func (t *Transport) attempt(request *http.Request) (*http.Response, error) {
	operation := request.Context()
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
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
	ctx, cancel := context.WithTimeout(ctx, t.config.RequestTimeout)
	defer cancel()
	request = request.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { call.isSent.Store(true) },
	}))
	for name, values := range t.headers {
		request.Header[name] = values
		if name == "Host" {
			request.Host = values[0]
		}
	}
	started := time.Now()
	response, err := t.base.RoundTrip(request)
	if err == nil {
		err = t.readBody(request, response)
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
			err = AttemptTimeout{t.config.RequestTimeout}
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
func (t *Transport) readBody(request *http.Request, response *http.Response) error {
	defer func(body io.ReadCloser) { _ = body.Close() }(response.Body)
	path := request.URL.EscapedPath()
	limit := limitOf(request.Method, strings.TrimPrefix(path, t.config.Endpoint.EscapedPath()+"/api/"))
	body, err := t.answers.read(response.Body, limit)
	if Wraps[*tooLarge](err) {
		err = &NotManagement{path, err}
	}
	if err != nil {
		return err
	}
	response.Body = body
	return nil
}
