// Package rabbit is a client of one RabbitMQ, and nothing else. Names and objects come in, as internal/topology has
// them. Objects, counts and typed errors, which say what to do, go out.
//
// Begin with [New], which makes no request. [Client.Vhost] has the objects of a vhost: they are read (read.go), written
// (write.go) and counted (count.go) through the management API. [Vhost.Connect] counts over AMQP (amqp.go).
// [Client.Probe] sends one message over AMQP.
//
// Every request goes through the package transport, which limits them, writes the log, and tries again what fails. What
// an answer 404 means is decided in vhost.go, and for what writes in write.go.
//
// It never decides what to change, and knows nothing of plans. It never puts a secret into a log line or an error. It
// seldom lists a whole vhost's queues or bindings. It does so for an inventory, and to find who uses an exchange. An
// older broker gives the exact counts of classic queues nowhere else.
package rabbit

import (
	"cmp"
	"context"
	"crypto/tls"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	"golang.org/x/sync/singleflight"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit/transport"
)

// What Config leaves to defaults.
const (
	// DefaultRequestTimeout is for a cluster that has lost a node. RabbitMQ 3.10.8 took 22 s then to count the 171
	// quorum queues of a default cascade, on a busy machine.
	DefaultRequestTimeout      = 30 * time.Second
	DefaultRetryTimeout        = time.Minute
	DefaultMaxParallelRequests = 32
)

// Config says where the broker is and how to reach it.
type Config struct {
	// Endpoint is the base URL of the management API. A path prefix and a trailing slash both work.
	Endpoint           string
	Username, Password string
	// AMQPURI is where AMQP is spoken; its vhost is not used. It has to work where queues have to be empty. If empty,
	// AMQP is looked for on the endpoint's host, at its usual port and at the one that the management API names.
	AMQPURI string
	// CACertPEM replaces the system's certificate authorities.
	CACertPEM, ClientCertPEM, ClientKeyPEM []byte
	// Insecure skips the verification of the broker's certificate.
	Insecure bool
	// Proxy is the URL of an HTTP or SOCKS proxy. If empty, the environment decides, as net/http does.
	Proxy   string
	Headers map[string]string
	// RequestTimeout limits one attempt, DefaultRequestTimeout if 0.
	RequestTimeout time.Duration
	// RetryTimeout is how long what fails is tried again.
	RetryTimeout time.Duration
	// MaxParallelRequests limits all operations together, DefaultMaxParallelRequests if 0.
	MaxParallelRequests int
	UserAgent           string
	// BindsAtOnce does not wait until new quorum queues are durable (see internal/engine). It is for those whose broker
	// nobody kills: tests and measurements.
	BindsAtOnce bool
}

// ConfigError is a fault of one attribute of the provider.
type ConfigError = transport.ConfigError

// Client is one broker. It is safe for use by several operations at a time, which share its
// connections and its limit on parallel requests.
type Client struct {
	endpoint           *url.URL
	username, password string
	amqpURI            *url.URL // nil: derived
	tls                *tls.Config
	http               *transport.Transport
	retryTimeout       time.Duration
	bindsAtOnce        bool
	// identifying asks once whether the broker is LavinMQ. Identity is nil before.
	identifying  singleflight.Group
	identity     atomic.Pointer[identity]
	amqpLookedAt atomic.Bool              // see LookForAMQP
	tags         atomic.Pointer[[]string] // of the user, once they are known
}

// identity has an error if the broker is LavinMQ, and no version if the broker did not answer.
type identity struct {
	err     error
	version string
}

// New checks the configuration. It makes no request. An error is a *ConfigError.
func New(config Config) (*Client, error) {
	if err := config.checkEnds(); err != nil {
		return nil, err
	}
	endpoint, err := parseEndpoint(config.Endpoint)
	if err != nil {
		return nil, err
	}
	amqpURI, err := parseAMQPURI(config.AMQPURI)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := transport.TLS(config.CACertPEM, config.ClientCertPEM, config.ClientKeyPEM, config.Insecure)
	if err != nil {
		return nil, err
	}
	management, err := transport.New(transport.Config{
		Endpoint: endpoint, Username: config.Username, Password: config.Password, TLS: tlsConfig,
		Proxy: config.Proxy, Headers: config.Headers, UserAgent: config.UserAgent,
		RequestTimeout: cmp.Or(config.RequestTimeout, DefaultRequestTimeout), RetryTimeout: config.RetryTimeout,
		MaxParallelRequests: cmp.Or(config.MaxParallelRequests, DefaultMaxParallelRequests),
		Secrets:             config.secrets(),
	})
	if err != nil {
		return nil, err
	}
	return &Client{endpoint: endpoint, username: config.Username, password: config.Password, amqpURI: amqpURI,
		tls: tlsConfig, http: management, retryTimeout: config.RetryTimeout, bindsAtOnce: config.BindsAtOnce}, nil
}

// Vhost is one vhost of a broker: its objects are read in read.go, written in write.go, and counted in count.go.
type Vhost struct {
	client *Client
	name   string
	// isListed is set for one of several that the user may not be allowed to use: nobody waits until it is deleted.
	isListed bool
}

// Vhost is the vhost of this name. It makes no request.
func (c *Client) Vhost(name string) *Vhost { return &Vhost{client: c, name: name} }

// Name is that of the vhost.
func (v *Vhost) Name() string { return v.name }

// Client is the broker that has the vhost.
func (v *Vhost) Client() *Client { return v.client }

// MaxParallelRequests is how many requests may be under way.
func (c *Client) MaxParallelRequests() int { return c.http.MaxParallelRequests() }

// Warn writes a warning to the log.
func (c *Client) Warn(ctx context.Context, text string, err error) { c.http.Warn(ctx, text, err) }

// RetryTimeout is how long what fails is tried again.
func (c *Client) RetryTimeout() time.Duration { return c.retryTimeout }

// BindsAtOnce tells whether nobody waits until new quorum queues are durable.
func (c *Client) BindsAtOnce() bool { return c.bindsAtOnce }

// management is the management API for one call of an operation.
func (c *Client) management(call *transport.Call) *rabbithole.Client {
	client, err := rabbithole.NewTLSClient(c.endpoint.String(), c.username, c.password, call)
	if err != nil {
		panic(err) // the endpoint has been parsed before
	}
	return client
}

// checkEnds names white space that nobody sees, such as that of a file with a line break.
func (config Config) checkEnds() error {
	for _, given := range []struct{ attribute, text string }{{"endpoint", config.Endpoint},
		{"username", config.Username}, {"password", config.Password}, {"amqp_uri", config.AMQPURI},
		{"proxy", config.Proxy}} {
		if strings.TrimSpace(given.text) != given.text {
			return &ConfigError{Attribute: given.attribute, Message: "begins or ends with white space, such as the " +
				"line break at the end of a file. Take it away"}
		}
	}
	return nil
}

func parseEndpoint(text string) (*url.URL, error) {
	refuse := func(message string) (*url.URL, error) {
		// The text is not repeated: it may hold a password.
		return nil, &ConfigError{Attribute: "endpoint", Message: message +
			"; it is the base URL of the management API, such as http://127.0.0.1:15672"}
	}
	u, err := url.Parse(text)
	switch {
	case text == "":
		return refuse("is empty")
	case err != nil:
		return refuse("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("does not begin with http:// or https://")
	case u.Hostname() == "":
		return refuse("names no host")
	case !hasPort(u):
		return refuse("has a port that is none")
	case u.User != nil:
		return refuse("contains credentials, which belong into username and password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return refuse("has a query or a fragment")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	if strings.HasSuffix(u.Path, "/api") {
		return refuse("ends in /api; take /api away, the provider adds it")
	}
	return u, nil
}

// hasPort tells whether the port, if one is given, can be one: url.Parse takes any number.
func hasPort(u *url.URL) bool {
	_, err := strconv.ParseUint(cmp.Or(u.Port(), "0"), 10, 16)
	return err == nil
}

func parseAMQPURI(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "amqp" && u.Scheme != "amqps" || u.Hostname() == "" || !hasPort(u) {
		return nil, &ConfigError{Attribute: "amqp_uri",
			Message: "is not an AMQP URI, such as amqps://rabbitmq.example.com:5671"}
	}
	return u, nil
}

func (config Config) secrets() transport.Secrets {
	users := []*url.Userinfo{url.UserPassword(config.Username, config.Password)}
	for _, text := range []string{config.AMQPURI, config.Proxy} {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			users = append(users, u.User)
		}
	}
	return transport.SecretsOf(users, slices.Collect(maps.Values(config.Headers)))
}

// Wait waits for so long, unless the context ends.
func (c *Client) Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return c.failed("wait for queues", ctx.Err())
	}
}
