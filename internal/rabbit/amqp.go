package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// amqpDialTime is short: where AMQP cannot be reached, the management API counts.
	amqpDialTime = 3 * time.Second
	// amqpCloseTime is how long the broker may take to say goodbye.
	amqpCloseTime = time.Second
	// amqpChannels is the number of queues that are asked at the same time.
	amqpChannels = 16
)

// Conn asks queues of a vhost over AMQP how much they hold. A passive declare is answered by the queue
// itself, so its figures are those of this moment, unless they come late. It takes access to the vhost,
// and since 4.3 any permission on the queue (TestPermissions).
type Conn struct {
	connection *amqp.Connection
	socket     net.Conn
	ending     sync.Once
	slots      chan struct{}
	idle       chan *amqp.Channel

	mutex     sync.Mutex
	roundTrip time.Duration // of the quickest answer
}

// Connect opens an AMQP connection, and a channel: a user may have a limit of either.
func (v *Vhost) Connect(ctx context.Context) (*Conn, error) {
	conn, err := v.client.dialAMQP(v.client.http.Logging(ctx), v.name)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, conn.Close)() // see ask
	channel, err := conn.channel()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open an AMQP channel: %w", err)
	}
	conn.reuse(channel)
	return conn, nil
}

// IsAMQPGiven tells whether the address for AMQP is given, and not derived from the endpoint.
func (c *Client) IsAMQPGiven() bool { return c.amqpURI != nil }

// LookForAMQP says why a given address for AMQP does not work. It asks once for a client, and says nothing where the
// vhost or the broker is missing.
func (v *Vhost) LookForAMQP(ctx context.Context) error {
	if !v.client.IsAMQPGiven() || !v.client.amqpLookedAt.CompareAndSwap(false, true) {
		return nil
	}
	conn, err := v.Connect(ctx)
	if err == nil {
		conn.Close()
		return nil
	}
	if _, missing := v.Confirm(ctx); missing != nil {
		v.client.amqpLookedAt.Store(!IsBarred(missing) && !IsKind(missing, VhostNotFound))
		return nil
	}
	return v.notUsable(ctx, err)
}

// dialAMQP connects to the broker of the management API: at the given URI, or on the endpoint's host. The port is then
// the default one or the one that the broker names.
func (c *Client) dialAMQP(ctx context.Context, vhost string) (*Conn, error) {
	if c.amqpURI != nil {
		return c.dialAt(ctx, vhost, c.amqpURI)
	}
	usual := c.onHost(map[string]int{"amqp": 5672, "amqps": 5671})
	conn, err := c.dialAt(ctx, vhost, usual)
	if err == nil {
		return conn, nil
	}
	// Listeners are only told to users with the tag monitoring (3.10 to 4.3), and it takes the
	// broker tens of milliseconds.
	broker, overviewErr := c.overview(c.http.Call(ctx))
	if overviewErr != nil {
		return nil, errors.Join(err, overviewErr)
	}
	ports := map[string]int{}
	for _, l := range broker.Listeners {
		ports[strings.Replace(l.Protocol, "amqp/ssl", "amqps", 1)] = l.Port
	}
	if named := c.onHost(ports); named.Port() != "0" && *named != *usual {
		return c.dialAt(ctx, vhost, named)
	}
	return nil, err
}

// onHost is where AMQP is spoken on the endpoint's host. Whoever uses TLS for the management API
// has to give a URI before the password is sent over AMQP without.
func (c *Client) onHost(ports map[string]int) *url.URL {
	scheme := "amqp"
	if c.endpoint.Scheme == "https" || ports["amqp"] == 0 {
		scheme = "amqps"
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(c.endpoint.Hostname(), strconv.Itoa(ports[scheme]))}
}

// dialAt connects unless another broker listens there. The properties that it compares come over both ways at the same
// time. The listener gets the password before the comparison in any order. That is the endpoint's host, which gets the
// same password, or a given host.
func (c *Client) dialAt(ctx context.Context, vhost string, uri *url.URL) (*Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		conn    *Conn
		failure error
		dialing sync.WaitGroup
	)
	dialing.Go(func() { conn, failure = c.connect(ctx, vhost, uri) })
	cluster, err := c.management(c.http.Call(ctx)).GetClusterName()
	if err != nil {
		cancel() // nobody waits for a port that does not answer
		err = c.failed("read the name of the cluster", err)
	}
	dialing.Wait()
	if err = cmp.Or(err, failure); err == nil {
		if name, _ := conn.connection.Properties["cluster_name"].(string); name != cluster.Name {
			err = fmt.Errorf("%s speaks AMQP for cluster %q, but the management API is that of %q", uri.Host, name,
				cluster.Name)
		}
	}
	if err != nil {
		if conn != nil {
			conn.Close()
		}
		return nil, err
	}
	return conn, nil
}

// connect opens a connection. The end of the context ends the attempt, but not an open connection.
func (c *Client) connect(ctx context.Context, vhost string, uri *url.URL) (*Conn, error) {
	username, password := c.username, c.password
	if uri.User != nil {
		username = uri.User.Username()
		password, _ = uri.User.Password()
	}
	tlsConfig := c.tls.Clone()
	tlsConfig.ServerName = uri.Hostname()
	properties := amqp.Table{"connection_name": "terraform-provider-rabbitmqdelay"}
	var socket net.Conn
	stop := func() bool { return true }
	connection, err := amqp.DialConfig((&url.URL{Scheme: uri.Scheme, Host: uri.Host, Path: "/"}).String(), amqp.Config{
		SASL: []amqp.Authentication{&login{
			amqp.PlainAuth{Username: username, Password: password}, properties,
		}},
		Vhost:           vhost,
		TLSClientConfig: tlsConfig,
		Heartbeat:       10 * time.Second,
		Properties:      properties,
		Dial: func(network, address string) (_ net.Conn, err error) {
			if socket, err = (&net.Dialer{Timeout: amqpDialTime}).DialContext(ctx, network, address); err != nil {
				return nil, err
			}
			stop = context.AfterFunc(ctx, func() { _ = socket.Close() })
			// The library takes the deadline off once the connection is open.
			return socket, socket.SetDeadline(time.Now().Add(amqpDialTime))
		},
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if socket != nil {
			_ = socket.Close()
		}
		if errors.Is(err, amqp.ErrCredentials) || errors.Is(err, amqp.ErrVhost) {
			err = errEnded
		}
		return nil, fmt.Errorf("open an AMQP connection to %s as user %q: %w", uri.Host, username, err)
	}
	return &Conn{connection: connection, socket: socket, slots: make(chan struct{}, amqpChannels),
		idle: make(chan *amqp.Channel, amqpChannels), roundTrip: math.MaxInt64 - prompt}, nil
}

// errEnded is for a connection that ends in the middle of the handshake. The library takes that for wrong credentials
// or a forbidden vhost (amqp091-go 1.16, handshakeError). RabbitMQ says of both that they are refused, see login.
var errEnded = &amqp.Error{Code: amqp.FrameError, Reason: "the connection ended in the handshake"}

// login has RabbitMQ say that it refuses a user. Without the capability, the connection ends without a word after three
// seconds (silent_close_delay in rabbit_reader, 3.10 to 4.3). The library has set the capabilities when it asks for
// the response.
type login struct {
	amqp.PlainAuth
	properties amqp.Table
}

func (l *login) Response() string {
	if capabilities, ok := l.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.PlainAuth.Response()
}

// Close frees whoever waits for an answer. When it returns, the broker has done everything that was sent to it, unless
// it does not answer in time. A connection ends after its channels, and a channel after the work in line for it
// (terminate_channels in rabbit_reader).
func (c *Conn) Close() {
	c.ending.Do(func() {
		defer time.AfterFunc(amqpCloseTime, func() { _ = c.socket.Close() }).Stop()
		_ = c.connection.Close()
	})
}

// Version is that of the broker.
func (c *Conn) Version() string {
	version, _ := c.connection.Properties["version"].(string)
	return version
}

// ReadyCount is what a queue itself says that it holds.
type ReadyCount struct {
	// Messages are ready.
	Messages, Consumers int64
	// IsPrompt is set where the leader of a quorum queue answered at once.
	IsPrompt bool
	// IsLate is set where nothing is ready, and it may not be the queue's leader that says so.
	IsLate bool
}

// leaderTime is how long RabbitMQ waits for the leader of a quorum queue that it asks for a count. Then it says that
// nothing is ready, and that nobody consumes (stat in rabbit_quorum_queue; measured on 3.10.8, 4.0.5 and 4.3.6). The
// leader of a busy broker may take that long. It is 250 ms, and here a little less: RabbitMQ's clock may run up to one
// percent fast.
const leaderTime = 240 * time.Millisecond

// ErrLate is for a queue whose answers are all late.
var ErrLate = errors.New("the leader of a quorum queue has not answered in time")

// Depth asks a queue how many messages are ready, and how many consumers there are.
func (c *Conn) Depth(ctx context.Context, queue string) (count ReadyCount, exists bool, err error) {
	exists, took, err := c.ask(ctx, func(channel *amqp.Channel) error {
		const durable, autoDelete, exclusive, noWait = true, false, false, false // not compared
		found, err := channel.QueueDeclarePassive(queue, durable, autoDelete, exclusive, noWait, nil)
		count = ReadyCount{Messages: int64(found.Messages), Consumers: int64(found.Consumers)}
		return err
	})
	count.IsLate = exists && count.Messages == 0 && took >= leaderTime
	return count, exists, err
}

// Peek gets the first message of a quorum queue and gives it back. It says how many there are. A queue with a single
// active consumer refuses that, but it is its leader that does so, which then counts exactly.
func (c *Conn) Peek(ctx context.Context, queue string) (count ReadyCount, exists bool, err error) {
	exists, took, err := c.ask(ctx, func(channel *amqp.Channel) error {
		const autoAck, requeue = false, true
		message, found, err := channel.Get(queue, autoAck)
		if err != nil || !found {
			return err
		}
		count.Messages = int64(message.MessageCount) + 1
		return message.Reject(requeue)
	})
	if closed, is := errors.AsType[*amqp.Error](err); is && closed.Code == amqp.ResourceLocked {
		return c.Depth(ctx, queue)
	}
	count.IsPrompt, count.IsLate = c.isPrompt(took), exists && count.Messages == 0 && took > patience
	return count, exists, err
}

// patience is how long the leader may take to say that it has no message. RabbitMQ is not known to take longer.
const patience = 3 * time.Second

// ask asks a queue, and tells whether it exists. The answer took the time since the question was on its way: before
// that, the question may have waited for others.
func (c *Conn) ask(
	ctx context.Context, question func(*amqp.Channel) error,
) (exists bool, took time.Duration, err error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return false, 0, ctx.Err()
	}
	// The library knows no contexts: whoever waits is freed by the end of the connection.
	defer context.AfterFunc(ctx, c.Close)()
	channel, err := c.channel()
	if err != nil {
		return false, 0, err
	}
	began := time.Now()
	err = question(channel)
	took = time.Since(began)
	if closed, is := errors.AsType[*amqp.Error](err); is && closed.Code == amqp.NotFound {
		return false, took, nil // and the channel is gone
	}
	if err != nil {
		return false, took, err
	}
	c.reuse(channel)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.roundTrip = min(c.roundTrip, took)
	return true, took, nil
}

// prompt is how much longer than the quickest answer it takes a queue that has not had to wait for a leader. A busy one
// that takes longer is only asked once more.
const prompt = 20 * time.Millisecond

// isPrompt tells whether an answer that took so long was given at once. Without it, every queue is asked again, and a
// destroy of 28 levels takes twice as long on a busy machine.
func (c *Conn) isPrompt(took time.Duration) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return took < c.roundTrip+prompt
}

func (c *Conn) channel() (*amqp.Channel, error) {
	select {
	case channel := <-c.idle:
		return channel, nil
	default:
		return c.connection.Channel()
	}
}

// OpenChannels has as many channels ready as so many questions can use. Without it, a destroy of 28 levels takes a
// fifth longer. A channel that cannot be opened is left to the question.
func (c *Conn) OpenChannels(ctx context.Context, questions int) {
	defer context.AfterFunc(ctx, c.Close)() // see ask
	missing := min(questions, amqpChannels) - len(c.idle)
	var opening sync.WaitGroup
	for range missing {
		opening.Go(func() {
			if channel, err := c.connection.Channel(); err == nil {
				c.reuse(channel)
			}
		})
	}
	opening.Wait()
}

// reuse has a channel used again, unless there are enough.
func (c *Conn) reuse(channel *amqp.Channel) {
	select {
	case c.idle <- channel:
	default:
		_ = channel.Close()
	}
}

// OnChannel does something over an AMQP connection of its own. Op is the action and its object, and needs are the
// permissions that it takes. An error is an *Error.
func (v *Vhost) OnChannel(ctx context.Context, op, needs string, do func(*amqp.Channel) error) error {
	c := v.client
	ctx = c.http.Logging(ctx)
	conn, err := c.dialAMQP(ctx, v.name)
	if err != nil {
		return c.notConnected(ctx, op, err)
	}
	defer conn.Close()
	// The library knows no contexts: whoever waits is freed by the end of the connection.
	defer context.AfterFunc(ctx, conn.Close)()
	err = onChannel(ctx, conn.connection, do)
	var closed *amqp.Error
	var known *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		known.Op, known.Reason = cmp.Or(known.Op, op), c.http.Clean(known.Reason)
		return known
	case errors.Is(ctx.Err(), context.Canceled):
		return c.failed(op, ctx.Err())
	case ctx.Err() != nil:
		return &Error{Timeout, op, "the broker has not confirmed it in time", "a queue may lack its majority of " +
			"nodes, or the broker have an alarm. The message may still arrive"}
	case errors.As(err, &closed) && isLimit(err):
		return &Error{LimitReached, op, c.http.Clean(closed.Reason), limitHint}
	case errors.As(err, &closed) && closed.Code == amqp.AccessRefused:
		return &Error{Forbidden, op, c.http.Clean(closed.Reason), needs}
	case errors.As(err, &closed) && closed.Code == amqp.NotFound:
		return &Error{NotFound, op, c.http.Clean(closed.Reason), ""}
	}
	return &Error{Unavailable, op, c.http.Clean(err.Error()), "try again"}
}

// onChannel does something on a channel of its own. An error is the broker's reason for closing it, if there is one.
func onChannel(ctx context.Context, connection *amqp.Connection, do func(*amqp.Channel) error) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	if err = do(channel); errors.Is(err, amqp.ErrClosed) {
		// The library tells either this error or the reason, by chance (amqp091-go 1.16, Channel.call).
		select {
		case reason := <-closed:
			if reason != nil {
				return reason
			}
		case <-ctx.Done():
		}
	}
	return err
}
