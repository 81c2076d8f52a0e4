// Package brokertest gives tests, benchmarks and the demo a real RabbitMQ broker, wherever one can be had. That is an
// existing one, a container, or a private node of an installed rabbitmq-server. Options come in, and the addresses of a
// broker go out. Call Shared or Own in a test, and Start elsewhere.
//
// What it starts listens on loopback only and is gone when its process is, however that ends. It never
// imitates a broker, never stops or reconfigures one that it did not start, and never prints a password. Read this file
// first, then testing.go.
package brokertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A Broker is a running RabbitMQ broker with the management plugin.
type Broker struct {
	Endpoint string // base URL of the management API
	AMQPURI  string // with the credentials

	// Only with [WithTLS].
	TLSEndpoint string
	TLSAMQPURI  string

	MetricsEndpoint string // base URL of the Prometheus plugin; only with [WithMetrics]

	Username string
	Password string

	Version string // "4.3.6"
	Source  string // where it comes from: "RABBITMQ_ENDPOINT", "container rabbitmq:4-management", "private node"

	host host
}

// host is what a broker runs in.
type host interface {
	stop() error
	restart() error
	crash() error // ends the node with SIGKILL, and starts it again
	command(ctx context.Context, tool string, args ...string) ([]byte, error)
}

// ErrUnsupported is returned for what cannot be done to a broker that somebody else runs.
var ErrUnsupported = errors.New("not supported for a broker that was there before")

// Start finds or starts a broker, in this order: RABBITMQ_ENDPOINT if it is set; a container; a private node of an
// installed rabbitmq-server. On Debian and Ubuntu as root, it installs that package first. It says on log what it does.
// Without any of these ways the error is a [*NoBrokerError].
//
// An option that configures the broker skips RABBITMQ_ENDPOINT; [WithImage] and [WithServer] name the
// one way to take.
func Start(ctx context.Context, log io.Writer, opts ...Option) (*Broker, error) {
	return start(ctx, thisMachine(), log, opts...)
}

func start(ctx context.Context, m machine, log io.Writer, opts ...Option) (*Broker, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	b, err := find(ctx, m, log, o)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "broker: RabbitMQ %s at %s (%s)\n", b.Version, b.Endpoint, b.Source)
	return b, nil
}

func find(ctx context.Context, m machine, log io.Writer, o options) (*Broker, error) {
	switch {
	case o.image != "":
		return startContainer(ctx, m, log, o.image, o)
	case o.server != "":
		return startNode(ctx, o.server, o)
	}

	none := &NoBrokerError{}
	if endpoint := m.getenv("RABBITMQ_ENDPOINT"); endpoint == "" {
		none.add("RABBITMQ_ENDPOINT", errors.New("not set"))
	} else if o.configures() {
		none.add("RABBITMQ_ENDPOINT", errors.New("this test needs a broker that it can configure"))
	} else {
		return existing(ctx, m, endpoint)
	}

	image := m.getenv("RABBITMQ_IMAGE")
	if image == "" {
		image = "rabbitmq:4-management"
	}
	b, err := startContainer(ctx, m, log, image, o)
	if err == nil {
		return b, nil
	}
	none.add("a container of "+image, err)
	fmt.Fprintf(log, "broker: no container of %s: %v\n", image, err)

	server, err := m.installedServer()
	if err != nil {
		none.add("an installed rabbitmq-server", err)
		server, err = m.installServer(ctx, log)
	}
	if err != nil {
		none.add("installing the package rabbitmq-server", err)
		return nil, none
	}
	return startNode(ctx, server, o)
}

// NoBrokerError lists the ways to a broker and why each of them is closed.
type NoBrokerError struct {
	Ways []Way
}

// A Way to a broker that was tried.
type Way struct {
	Name string
	Err  error
}

func (e *NoBrokerError) add(name string, err error) { e.Ways = append(e.Ways, Way{name, err}) }

func (e *NoBrokerError) Error() string {
	var s strings.Builder
	s.WriteString("no RabbitMQ broker; one of these ways has to be open:")
	for _, w := range e.Ways {
		fmt.Fprintf(&s, "\n  - %s: %v", w.Name, w.Err)
	}
	return s.String()
}

// An Option says what kind of broker to start.
type Option func(*options)

type options struct {
	image      string
	server     string
	config     []string
	settings   []string // of erl
	loads      []byte   // definitions
	pathPrefix string
	tls        *TLS
	metrics    bool
	plugins    []string // beside that of the management API
	cores      float64  // of a container, 0 for no limit
	inMemory   bool
	own        bool    // of one test
	member     *Member // of a cluster
}

func (o options) configures() bool {
	return o.own || len(o.config)+len(o.settings)+len(o.loads)+len(o.plugins) > 0 || o.pathPrefix != "" ||
		o.tls != nil || o.metrics
}

// WithImage starts a container of this image, or fails.
func WithImage(image string) Option { return func(o *options) { o.image = image } }

// WithServer starts a private node with this rabbitmq-server script, or fails.
func WithServer(script string) Option { return func(o *options) { o.server = script } }

// WithConfig adds lines to the broker's rabbitmq.conf.
func WithConfig(lines ...string) Option {
	return func(o *options) { o.config = append(o.config, lines...) }
}

// WithSetting sets what rabbitmq.conf has no key for, in the environment of the application rabbit.
func WithSetting(name string, value int) Option {
	return func(o *options) { o.settings = append(o.settings, fmt.Sprintf("-rabbit %s %d", name, value)) }
}

// WithDefinitions has the broker load exported definitions when it starts. The users among them are all there are.
func WithDefinitions(exported []byte) Option { return func(o *options) { o.loads = exported } }

// WithPathPrefix serves the management API below a path such as "/mgmt"; [Broker.Endpoint] includes it.
func WithPathPrefix(prefix string) Option { return func(o *options) { o.pathPrefix = prefix } }

// WithCores gives each container so much of the machine: 0.5 is half a core.
func WithCores(cores float64) Option { return func(o *options) { o.cores = cores } }

// InMemory keeps the data of a container in memory, where nothing is synced to a disk. It is for tests: figures of such
// a broker say nothing of others.
func InMemory() Option { return func(o *options) { o.inMemory = true } }

// TLS is what a broker shows to its clients and asks of them, all PEM.
type TLS struct {
	CA, Cert, Key []byte

	RequireClientCert bool
}

// WithTLS makes the broker listen for TLS also, see [Broker.TLSEndpoint] and [Broker.TLSAMQPURI].
func WithTLS(tls TLS) Option { return func(o *options) { o.tls = &tls } }

// WithMetrics enables the Prometheus plugin, see [Broker.MetricsEndpoint].
func WithMetrics() Option {
	return func(o *options) { o.metrics, o.plugins = true, append(o.plugins, "rabbitmq_prometheus") }
}

// WithPlugins enables further plugins that come with RabbitMQ, such as "rabbitmq_shovel".
func WithPlugins(names ...string) Option {
	return func(o *options) { o.plugins = append(o.plugins, names...) }
}

// Stop ends the broker if Start started it, and removes what it had written. A second call does nothing.
func (b *Broker) Stop() error {
	if err := b.host.stop(); err != nil {
		return fmt.Errorf("stop %s: %w", b.Source, err)
	}
	return nil
}

// Restart stops the broker as its operator would and starts it again, with its data and its ports. It
// returns [ErrUnsupported] for a broker that Start did not start.
func (b *Broker) Restart(ctx context.Context) error { return b.again(ctx, "restart", b.host.restart) }

// Crash kills the broker with SIGKILL and starts it again, with its data and its ports. It returns [ErrUnsupported]
// for a broker that Start did not start.
func (b *Broker) Crash(ctx context.Context) error { return b.again(ctx, "crash", b.host.crash) }

func (b *Broker) again(ctx context.Context, what string, start func() error) error {
	err := start()
	if err == nil {
		err = b.waitReady(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, b.Source, err)
	}
	return nil
}

// CLI runs one of the broker's own command line tools, such as rabbitmqctl, beside the broker and returns
// what it printed. It returns [ErrUnsupported] for a broker that Start did not start.
func (b *Broker) CLI(ctx context.Context, tool string, args ...string) ([]byte, error) {
	out, err := b.host.command(ctx, tool, args...)
	if err != nil {
		return out, fmt.Errorf("%s %s: %w\n%s", tool, strings.Join(args, " "), err, out)
	}
	return out, nil
}

// Environ returns the variables that lead a child process to this broker.
func (b *Broker) Environ() []string {
	return []string{
		"RABBITMQ_ENDPOINT=" + b.Endpoint,
		"RABBITMQ_USERNAME=" + b.Username,
		"RABBITMQ_PASSWORD=" + b.Password,
		"RABBITMQ_AMQP_URI=" + b.AMQPURI,
	}
}

// Dial opens an AMQP connection to a vhost.
func (b *Broker) Dial(vhost string) (*amqp.Connection, error) {
	conn, err := amqp.DialConfig(b.AMQPURI, amqp.Config{Vhost: vhost})
	if err != nil {
		return nil, fmt.Errorf("connect to vhost %q: %w", vhost, err)
	}
	return conn, nil
}

// Forward returns a handler that passes requests on to the management API, for what stands between a client and the
// broker. Where the broker does not answer, neither does the handler but with 502.
func (b *Broker) Forward() (*httputil.ReverseProxy, error) {
	target, err := url.Parse(b.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint of the broker: %w", err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		// More than a client has open. None is idle for longer than in [Main]. What nobody asked to compress may be
		// read on the way.
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Second, DisableCompression: true},
		ErrorLog:  log.New(io.Discard, "", 0),
	}, nil
}

// String leaves out the credentials, so that a Broker may be printed.
func (b *Broker) String() string {
	return fmt.Sprintf("RabbitMQ %s at %s (%s)", b.Version, b.Endpoint, b.Source)
}

// owned returns the broker that startContainer and startNode share: guest on loopback ports.
func owned(source string, h host, p ports, o options) *Broker {
	b := &Broker{
		Username: "guest",
		Password: "guest",
		Source:   source,
		Endpoint: fmt.Sprintf("http://%s:%d%s", p.address, p.management, o.pathPrefix),
		host:     h,
	}
	b.AMQPURI = b.amqpURI("amqp", fmt.Sprintf("%s:%d", p.address, p.amqp))
	if o.tls != nil {
		b.TLSEndpoint = fmt.Sprintf("https://%s:%d%s", p.address, p.managementTLS, o.pathPrefix)
		b.TLSAMQPURI = b.amqpURI("amqps", fmt.Sprintf("%s:%d", p.address, p.amqpTLS))
	}
	if o.metrics {
		b.MetricsEndpoint = fmt.Sprintf("http://%s:%d", p.address, p.metrics)
	}
	return b
}

func (b *Broker) amqpURI(scheme, hostport string) string {
	return (&url.URL{Scheme: scheme, User: url.UserPassword(b.Username, b.Password), Host: hostport}).String()
}
